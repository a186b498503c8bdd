//! Every server with every host: alone, and through the gateway at both of its endpoints.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::hosts::AT_ONCE;
use crate::hosts::Fault;
use crate::hosts::HOSTS;
use crate::hosts::Host;
use crate::installed::Installed;
use crate::results;
use crate::servers::SERVERS;
use crate::servers::Server;
use crate::servers::Up;
use crate::suite::SUITE;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::tree;
use crate::tree::Step;

/// Where a host is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Endpoint {
    /// To the server itself.
    Alone,
    /// To the gateway, at the server's own endpoint.
    Own,
    /// To the gateway, at the endpoint of all servers.
    Merged,
}

/// A host's way to an endpoint, and the servers that it meets there.
struct Visit {
    host: &'static Host,
    endpoint: Endpoint,
    url: String,
    servers: &'static [Server],
}

/// What is wrong with each pair, by the names of server and host.
type Faults = BTreeMap<(&'static str, &'static str, Endpoint), Vec<Fault>>;

#[tokio::test]
async fn every_server_works_with_every_host_through_the_gateway() {
    let installed = Installed::find();
    let servers: Vec<Up> = stream::iter(&SERVERS)
        .then(|server| server.start(&installed))
        .collect()
        .await;
    let gateway = gateway(&servers).await;
    let faults = faults(&installed, &servers, &gateway).await;
    gateway.finish().await;
    let changed = results::record(&[
        ("Peers", peers()),
        ("Every server with every host", grid(&faults)),
        ("What fails without the gateway", alone(&faults)),
    ]);
    let ours = told(&faults);
    assert!(ours.is_empty(), "{ours}");
    assert_eq!(changed, None);
}

/// A gateway before all servers. Their skills are looked at and approved, but for one.
async fn gateway(servers: &[Up]) -> Gateway {
    let setup = SERVERS.iter().zip(servers).fold(Setup::new(), |setup, (server, up)| {
        setup.origin_at(server.name, &up.url, server.settings)
    });
    let gateway = setup.start().await;
    for server in &SERVERS {
        for skill in tree::APPROVED {
            let skill = format!("{}/{skill}", server.name);
            gateway.skill_when(&skill, "listed", |_| true).await;
            gateway.cli(&["pull", &skill]).await.expect(0);
            gateway.approve(&skill).await;
        }
    }
    gateway
}

async fn faults(installed: &Installed, servers: &[Up], gateway: &Gateway) -> Faults {
    let mut visits = Vec::new();
    for host in &HOSTS {
        let mut visit = |endpoint, url: &str, servers| {
            let url = url.to_owned();
            visits.push(Visit {
                host,
                endpoint,
                url,
                servers,
            });
        };
        visit(Endpoint::Merged, gateway.mcp(), &SERVERS[..]);
        for (server, up) in SERVERS.iter().zip(servers) {
            visit(Endpoint::Alone, &up.url, std::slice::from_ref(server));
            visit(
                Endpoint::Own,
                &gateway.mcp_of(server.name),
                std::slice::from_ref(server),
            );
        }
    }
    let faults: Vec<Faults> = stream::iter(&visits)
        .map(|visit| visit.faults(installed))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    faults.into_iter().flatten().collect()
}

impl Visit {
    /// Sends the host, and compares what it saw with what is on the disk.
    async fn faults(&self, installed: &Installed) -> Faults {
        let roots = self.servers.iter().map(|server| self.endpoint.root(server));
        let refused: Vec<String> = roots.flat_map(|root| tree::refused(&root)).collect();
        let report = self.host.report(installed, &self.url, &refused).await;
        let faults = |server: &Server| {
            let deeds = tree::deeds(&self.endpoint.root(server), self.endpoint != Endpoint::Alone);
            self.host.faults(&report, deeds)
        };
        let of_server = |server: &'static Server| ((server.name, self.host.name, self.endpoint), faults(server));
        self.servers.iter().map(of_server).collect()
    }
}

impl Endpoint {
    /// What `skill://` of a server reads as.
    fn root(self, server: &Server) -> String {
        match self {
            Self::Alone | Self::Own => "skill://".to_owned(),
            Self::Merged => format!("skill://{}/", server.name),
        }
    }

    /// Its name in the table.
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Own => "/mcp/<label>",
            Self::Merged => "/mcp",
        }
    }
}

/// The faults of the gateway, the first of each step.
fn told(faults: &Faults) -> String {
    let mut told = String::new();
    for ((server, host, endpoint), faults) in faults.iter().filter(|((.., endpoint), _)| *endpoint != Endpoint::Alone) {
        for Fault { deed, seen } in firsts(faults) {
            let (step, endpoint) = (deed.step.name(), endpoint.name());
            let (name, wanted) = (&deed.name, &deed.wanted);
            writeln!(
                told,
                "{server} × {host} at {endpoint}: {step}: {name}\n  wanted {wanted}\n  saw    {seen}"
            )
            .unwrap();
        }
    }
    told
}

/// Who took part.
fn peers() -> String {
    let servers = SERVERS.iter().map(|server| {
        vec![
            "server".to_owned(),
            server.name.to_owned(),
            server.package.to_string(),
            String::new(),
        ]
    });
    let hosts = HOSTS.iter().map(|host| {
        let lacks: Vec<&str> = host.lacks.iter().map(|step| step.name()).collect();
        vec![
            "host".to_owned(),
            host.name.to_owned(),
            host.package.to_string(),
            lacks.join(", "),
        ]
    });
    let suite = ["suite", "conformance", &SUITE.to_string(), ""]
        .map(str::to_owned)
        .to_vec();
    results::table(&["", "name", "package", "cannot"], servers.chain(hosts).chain([suite]))
}

/// A mark for each server, host and endpoint.
fn grid(faults: &Faults) -> String {
    let mark =
        |server: &Server, host: &Host, endpoint| results::mark(faults[&(server.name, host.name, endpoint)].is_empty());
    let cell = |server: &Server, host: &Host| {
        let [alone, own, merged] =
            [Endpoint::Alone, Endpoint::Own, Endpoint::Merged].map(|endpoint| mark(server, host, endpoint));
        format!("{alone} → {own} {merged}")
    };
    let row = |server: &Server| {
        let cells = HOSTS.iter().map(|host| cell(server, host));
        [server.name.to_owned()].into_iter().chain(cells).collect()
    };
    let hosts = HOSTS.iter().map(|host| host.name);
    let head: Vec<&str> = ["server"].into_iter().chain(hosts).collect();
    let legend = "Alone → at `/mcp/<label>`, at `/mcp`. ✓: every step that the host can take is right.\n\n";
    legend.to_owned() + &results::table(&head, SERVERS.iter().map(row))
}

/// Which steps fail without the gateway, and for which hosts.
fn alone(faults: &Faults) -> String {
    let mut rows = Vec::new();
    for server in &SERVERS {
        let mut alike: BTreeMap<Vec<Step>, (Vec<&str>, &str)> = BTreeMap::new();
        for host in &HOSTS {
            let faults = firsts(&faults[&(server.name, host.name, Endpoint::Alone)]);
            let Some(first) = faults.first() else { continue };
            let steps = faults.iter().map(|fault| fault.deed.step).collect();
            alike
                .entry(steps)
                .or_insert((Vec::new(), &first.seen))
                .0
                .push(host.name);
        }
        rows.extend(alike.into_iter().map(|(steps, (hosts, seen))| {
            let steps: Vec<&str> = steps.into_iter().map(Step::name).collect();
            vec![
                server.name.to_owned(),
                hosts.join(", "),
                steps.join(", "),
                in_a_cell(seen),
            ]
        }));
    }
    results::table(
        &["server", "hosts", "steps", "what the first host sees in the first step"],
        rows,
    )
}

/// The first fault of each step, by step.
fn firsts(faults: &[Fault]) -> Vec<&Fault> {
    let mut firsts: BTreeMap<Step, &Fault> = BTreeMap::new();
    for fault in faults {
        firsts.entry(fault.deed.step).or_insert(fault);
    }
    firsts.into_values().collect()
}

/// As much of a text as a cell of a table takes.
fn in_a_cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(120).collect();
    format!("`{}`", text.replace(['|', '`'], " "))
}
