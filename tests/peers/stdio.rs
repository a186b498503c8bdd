//! Hosts that start a command: the gateway's own, which leads to the one that runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::hosts::HOSTS;
use crate::installed::Installed;
use crate::results;
use crate::servers::SERVERS;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::tree;

/// The hosts that can start one.
const STARTING: [&str; 11] = [
    "ts",
    "ts-legacy",
    "fastmcp",
    "python-sdk",
    "python-sdk-legacy",
    "fast-agent",
    "rmcp",
    "rmcp-legacy",
    "inspector",
    "inspector-legacy",
    "sdk1",
];

#[tokio::test]
async fn a_host_that_starts_a_command_sees_what_it_would_see_over_http() {
    let installed = Installed::find();
    let server = &SERVERS[0];
    let (_up, gateway) = server.start_behind_a_gateway(&installed).await;
    let (command, root) = (command(&gateway), format!("skill://{}/", server.name));
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for host in HOSTS.iter().filter(|host| STARTING.contains(&host.name)) {
        let report = host.report(&installed, &command, &tree::refused(&root)).await;
        let faults = host.faults(&report, tree::deeds(&root, true));
        let mark = results::mark(faults.is_empty());
        rows.push([host.name, &host.package.to_string(), mark].map(str::to_owned).to_vec());
        wrong.extend(faults.iter().map(|fault| format!("{}: {fault}", host.name)));
    }
    gateway.finish().await;
    assert_eq!(rows.len(), STARTING.len());
    let table = results::table(&["host", "package", "`portcullis stdio`"], rows);
    let changed = results::record(&[("Hosts that start a command", table)]);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(changed, None);
}

/// A program that starts the gateway's command for hosts.
fn command(gateway: &Gateway) -> String {
    let path = gateway.folder().join("portcullis-stdio");
    let (program, config) = (env!("CARGO_BIN_EXE_portcullis"), gateway.folder().join("proxy.toml"));
    let script = format!("#!/bin/sh\nexec '{program}' --config '{}' stdio\n", config.display());
    disk::write(&path, script.as_bytes());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("command:{}", path.display())
}
