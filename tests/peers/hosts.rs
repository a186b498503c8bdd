//! The hosts. Each takes every step that it can, and reports what it saw, as `hosts/walk.mjs` says.

use std::fmt;

use serde_json::Value;
use serde_json::json;

use crate::installed::Installed;
use crate::installed::Script;
use crate::installed::run;
use crate::pinned::Package;
use crate::rust_sdk;
use crate::tree::Deed;
use crate::tree::Step;

/// How many hosts run at once.
pub(crate) const AT_ONCE: usize = 2;

/// A host.
pub(crate) struct Host {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// The package that it is made of.
    pub(crate) package: Package,
    /// What it cannot do, with whichever server.
    pub(crate) lacks: &'static [Step],
    era: &'static str,
    /// What runs it, unless it runs here.
    script: Option<Script>,
}

/// What went wrong.
pub(crate) struct Fault {
    /// What the host had to do.
    pub(crate) deed: Deed,
    /// What it saw in place of what is wanted.
    pub(crate) seen: String,
}

/// All hosts.
pub(crate) static HOSTS: [Host; 12] = [
    Host::new(
        "ts",
        Package::Npm("@modelcontextprotocol/client"),
        "modern",
        Some(Script::Node("hosts/ts.mjs")),
    ),
    Host::new(
        "ts-legacy",
        Package::Npm("@modelcontextprotocol/client"),
        "legacy",
        Some(Script::Node("hosts/ts.mjs")),
    ),
    Host {
        lacks: &[Step::Directory],
        ..Host::new(
            "fastmcp",
            Package::Python("fastmcp", "fastmcp"),
            "auto",
            Some(Script::Python("fastmcp", "hosts/fastmcp_host.py")),
        )
    },
    Host::new(
        "python-sdk",
        Package::Python("agentskills", "mcp"),
        "modern",
        Some(Script::Python("agentskills", "hosts/python_sdk.py")),
    ),
    Host::new(
        "python-sdk-legacy",
        Package::Python("agentskills", "mcp"),
        "legacy",
        Some(Script::Python("agentskills", "hosts/python_sdk.py")),
    ),
    Host::new(
        "fast-agent",
        Package::Python("fast-agent", "fast-agent-mcp"),
        "auto",
        Some(Script::Python("fast-agent", "hosts/fast_agent_host.py")),
    ),
    Host::new("rmcp", Package::Cargo("rmcp"), "modern", None),
    Host::new("rmcp-legacy", Package::Cargo("rmcp"), "legacy", None),
    Host::new(
        "inspector",
        Package::Npm("@modelcontextprotocol/inspector"),
        "modern",
        Some(Script::Node("hosts/inspector.mjs")),
    ),
    Host::new(
        "inspector-legacy",
        Package::Npm("@modelcontextprotocol/inspector"),
        "legacy",
        Some(Script::Node("hosts/inspector.mjs")),
    ),
    Host::new(
        "sdk1",
        Package::Npm("@modelcontextprotocol/sdk"),
        "legacy",
        Some(Script::Node("hosts/sdk1.mjs")),
    ),
    Host::new(
        "dumb",
        Package::Npm("@modelcontextprotocol/client"),
        "modern",
        Some(Script::Node("hosts/dumb.mjs")),
    ),
];

impl Host {
    const fn new(name: &'static str, package: Package, era: &'static str, script: Option<Script>) -> Self {
        Self {
            name,
            package,
            lacks: &[],
            era,
            script,
        }
    }

    /// Sends it to an endpoint, where it also asks for what it has to be refused, and gives its report: for each step `ok`
    /// or `error`.
    pub(crate) async fn report(&self, installed: &Installed, url: &str, refused: &[String]) -> Value {
        let Some(script) = self.script else {
            return rust_sdk::walk(url, refused, self.era).await;
        };
        let mut command = installed.command(script);
        command.arg(url).args(refused).env("ERA", self.era);
        let said = run(command).await;
        // What a package prints of its own stands before the report. A host that cannot even connect has only last words.
        let report = said.out.lines().last().and_then(|line| serde_json::from_str(line).ok());
        report.unwrap_or_else(|| json!({ "list": { "error": { "message": last_words(&said.err) } } }))
    }

    /// What is wrong in its report, of the deeds that it can do.
    pub(crate) fn faults(&self, report: &Value, deeds: Vec<Deed>) -> Vec<Fault> {
        let deeds = deeds.into_iter().filter(|deed| !self.lacks.contains(&deed.step));
        deeds
            .filter_map(|deed| {
                Some(Fault {
                    seen: deed.fault(report.get(&deed.name))?,
                    deed,
                })
            })
            .collect()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deed, seen } = self;
        write!(f, "{}: wanted {}, saw {seen}", deed.name, deed.wanted)
    }
}

fn last_words(err: &str) -> &str {
    let is_error = |line: &&str| line.contains("Error");
    let mut lines = err.lines().map(str::trim).rev().filter(|line| !line.is_empty());
    let last = lines.clone().next().unwrap_or("it said nothing");
    lines.find(is_error).unwrap_or(last)
}
