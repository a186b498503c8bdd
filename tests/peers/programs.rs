//! Servers that the gateway starts as programs, and speaks with over their standard input and output.

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::hosts::AT_ONCE;
use crate::hosts::HOSTS;
use crate::installed::Installed;
use crate::results;
use crate::servers::SERVERS;
use crate::support::gateway::Setup;
use crate::tree;

/// The servers: on the official TypeScript SDK, on FastMCP and on the official Python SDK.
const STARTED: [&str; 3] = ["ts", "fastmcp42", "agentskills"];

#[tokio::test]
async fn a_server_that_the_gateway_starts_works_with_every_host() {
    let installed = Installed::find();
    let servers = STARTED.map(|name| SERVERS.iter().find(|server| server.name == name).unwrap());
    let tables = servers.iter().map(|server| server.program(&installed));
    let setup = tables.fold(Setup::new(), |setup, origin| setup.table(&origin));
    let gateway = setup.start().await;
    for server in servers {
        server.approve(&gateway).await;
    }
    let roots = servers.map(|server| format!("skill://{}/", server.name));
    let refused: Vec<String> = roots.iter().flat_map(|root| tree::refused(root)).collect();
    let reports: Vec<_> = stream::iter(&HOSTS)
        .map(|host| host.report(&installed, gateway.mcp(), &refused))
        .buffered(AT_ONCE)
        .collect()
        .await;
    gateway.finish().await;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for (host, report) in HOSTS.iter().zip(&reports) {
        let mut row = vec![host.name.to_owned()];
        for root in &roots {
            let faults = host.faults(report, tree::deeds(root, true));
            row.push(results::mark(faults.is_empty()).to_owned());
            wrong.extend(faults.iter().map(|fault| format!("{}: {fault}", host.name)));
        }
        rows.push(row);
    }
    let head: Vec<&str> = ["host"].into_iter().chain(STARTED).collect();
    let changed = results::record(&[("Servers that the gateway starts", results::table(&head, rows))]);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(changed, None);
}
