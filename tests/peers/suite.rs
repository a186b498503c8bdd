//! The official conformance suite: its skills scenarios for servers, with the gateway as the server; and those for hosts,
//! whose server tampers with files, with a host that verifies nothing.

use std::collections::BTreeMap;

use tokio::process::Command;

use crate::installed::Installed;
use crate::installed::Script;
use crate::installed::run;
use crate::pinned::Package;
use crate::results;
use crate::servers::EVERYTHING;
use crate::servers::SERVERS;
use crate::support::client::Host;
use crate::support::client::LEGACY;
use crate::support::client::MODERN;
use crate::support::eventually;
use crate::support::gateway::Setup;

/// The suite.
pub(crate) const SUITE: Package = Package::Npm("@modelcontextprotocol/conformance");

/// Its program.
const PROGRAM: Script = Script::Node("node_modules/@modelcontextprotocol/conformance/dist/index.js");

/// Its scenarios for servers that publish skills.
const OF_SERVERS: [&str; 3] = ["enumeration", "manifest", "directory"];

/// Its scenarios for hosts of skills.
const OF_HOSTS: [&str; 4] = ["no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"];

/// Scenarios with checks that say nothing of the gateway: a server is made to tell of a change that is none, and hosts are
/// told only when what they see has changed; a server is made to close a stream, and the host's stays open.
const OTHERWISE: [(&str, &str); 2] = [("server-stateless", MODERN), ("server-sse-polling", LEGACY)];

/// What a scenario found.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    passed: u32,
    failed: u32,
    warnings: u32,
}

#[tokio::test]
async fn the_suite_finds_nothing_wrong_with_the_gateway_as_a_server() {
    let installed = Installed::find();
    let server = &SERVERS[0];
    let (_up, gateway) = server.start_behind_a_gateway(&installed).await;
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for (endpoint, url) in [
        ("/mcp/<label>", gateway.mcp_of(server.name)),
        ("/mcp", gateway.mcp().to_owned()),
    ] {
        for scenario in OF_SERVERS {
            for revision in [LEGACY, MODERN] {
                let mut command = installed.command(PROGRAM);
                command.args(["server", "--url", &url, "--force", "--spec-version", revision]);
                let found = Found::by(command, &format!("sep-2640-skills-{scenario}")).await;
                if (found.failed, found.warnings) != (0, 0) || found.passed == 0 {
                    wrong.push(format!("{scenario} at {endpoint} in {revision}: {found:?}"));
                }
                rows.push(
                    [scenario, endpoint, revision, &found.told()]
                        .map(str::to_owned)
                        .to_vec(),
                );
            }
        }
    }
    gateway.finish().await;
    let table = results::table(&["scenario", "endpoint", "revision", "checks"], rows);
    let changed = results::record(&[("The official suite, with the gateway as the server", table)]);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(changed, None);
}

#[tokio::test]
async fn the_suite_finds_behind_the_gateway_what_it_finds_without_it() {
    let installed = Installed::find();
    let up = EVERYTHING.start(&installed).await;
    let gateway = Setup::new()
        .origin_at(EVERYTHING.name, &up.url, EVERYTHING.settings)
        .start()
        .await;
    let behind = gateway.mcp_of(EVERYTHING.name);
    passes_all(&behind).await;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for revision in [LEGACY, MODERN] {
        let alone = required(&installed, &up.url, revision).await;
        let behind = required(&installed, &behind, revision).await;
        for (scenario, found) in &alone {
            let other = behind.get(scenario);
            let other = match other {
                Some((passed, failed)) => format!("{passed} passed, {failed} failed"),
                None => "did not run".to_owned(),
            };
            let found = format!("{} passed, {} failed", found.0, found.1);
            let is_meant = OTHERWISE.contains(&(scenario, revision)) && other.ends_with(", 0 failed");
            if found != other && !is_meant {
                wrong.push(format!(
                    "{scenario} in {revision}: alone {found}; behind the gateway {other}"
                ));
            }
            rows.push([scenario, revision, &found, &other].map(str::to_owned).to_vec());
        }
    }
    gateway.finish().await;
    let table = results::table(&["scenario", "revision", "alone", "behind the gateway"], rows);
    let changed = results::record(&[("The official suite, with a server of everything that MCP has", table)]);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(changed, None);
}

/// Waits until the gateway has heard what the server offers.
async fn passes_all(url: &str) {
    let host = Host::modern(url);
    eventually(async || {
        let listed = host.ask("tools/list", serde_json::json!({})).await;
        listed.json["result"]["tools"].is_array()
    })
    .await;
}

/// What the suite requires of a revision, but for tasks, which are not relayed: scenario, checks passed and failed.
async fn required(installed: &Installed, url: &str, revision: &str) -> BTreeMap<String, (u32, u32)> {
    let mut command = installed.command(PROGRAM);
    command.args(["server", "--url", url, "--requirements", revision]);
    let said = run(command).await;
    let found = said.out.lines().filter_map(|line| {
        let (scenario, counts) = line.strip_prefix(['✓', '✗'])?.trim_start().split_once(": ")?;
        let (passed, rest) = counts.split_once(" passed, ")?;
        let (failed, _) = rest.split_once(" failed")?;
        Some((scenario.to_owned(), (passed.parse().ok()?, failed.parse().ok()?)))
    });
    let found: BTreeMap<_, _> = found.filter(|(scenario, _)| !scenario.starts_with("tasks-")).collect();
    assert!(
        !found.is_empty(),
        "the suite came to no end:\n{}\n{}",
        said.out,
        said.err
    );
    found
}

#[tokio::test]
async fn the_suite_finds_a_host_that_verifies_nothing_sound_only_behind_the_gateway() {
    let installed = Installed::find();
    let mut rows = Vec::new();
    let mut passed = Vec::new();
    for (host, is_alone) in [("dumb.mjs", true), ("behind_gateway.mjs", false)] {
        for era in ["legacy", "modern"] {
            let mut sound = 0;
            for scenario in OF_HOSTS {
                let host = format!("{} hosts/{host}", installed.node().display());
                let mut command = installed.command(PROGRAM);
                command
                    .args(["client", "--command", &host])
                    .env("ERA", era)
                    .env("PORTCULLIS", env!("CARGO_BIN_EXE_portcullis"));
                let found = Found::by(command, &format!("sep-2640-client-{scenario}")).await;
                sound += u32::from(found.failed == 0 && found.passed > 0);
                let place = if is_alone { "alone" } else { "behind the gateway" };
                rows.push([scenario, place, era, &found.told()].map(str::to_owned).to_vec());
            }
            passed.push((is_alone, era, sound));
        }
    }
    let table = results::table(&["scenario", "the host is", "era", "checks"], rows);
    let changed = results::record(&[("The official suite, with a host that verifies nothing", table)]);
    // Alone it fails all but the one that asks it for nothing.
    let wanted = [
        (true, "legacy", 1),
        (true, "modern", 1),
        (false, "legacy", 4),
        (false, "modern", 4),
    ];
    assert_eq!(passed, wanted);
    assert_eq!(changed, None);
}

impl Found {
    /// Runs one scenario.
    async fn by(mut command: Command, scenario: &str) -> Self {
        command.args(["--scenario", scenario]);
        let said = run(command).await;
        let line = said
            .out
            .lines()
            .chain(said.err.lines())
            .find_map(|line| line.strip_prefix("Passed: "));
        let line = line.unwrap_or_else(|| panic!("{scenario} came to no end:\n{}\n{}", said.out, said.err));
        // As in `3/4, 1 failed, 0 warnings`.
        let mut counts = line
            .split(|c: char| !c.is_ascii_digit())
            .filter(|digits| !digits.is_empty());
        let mut count = || {
            counts
                .next()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or_else(|| panic!("{line}"))
        };
        let (passed, _, failed, warnings) = (count(), count(), count(), count());
        Self {
            passed,
            failed,
            warnings,
        }
    }

    fn told(&self) -> String {
        let Self {
            passed,
            failed,
            warnings,
        } = self;
        format!("{passed} passed, {failed} failed, {warnings} warnings")
    }
}
