//! The servers, each with the same skills.

use crate::installed::Installed;
use crate::installed::Running;
use crate::installed::Script;
use crate::installed::free_port;
use crate::pinned::Package;
use crate::rust_sdk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::tree;

/// A server.
pub(crate) struct Server {
    /// Its name in the table, and its label.
    pub(crate) name: &'static str,
    /// The package that it is made of.
    pub(crate) package: Package,
    /// What the gateway has to be told of it.
    pub(crate) settings: &'static str,
    /// What runs it, unless it runs here.
    script: Option<Script>,
}

/// A server that runs; it ends with this value.
pub(crate) struct Up {
    /// Its endpoint.
    pub(crate) url: String,
    _running: Option<Running>,
}

/// All servers.
pub(crate) static SERVERS: [Server; 9] = [
    Server::new(
        "ts-everything",
        Package::Npm("@modelcontextprotocol/server"),
        Some(Script::Node("servers/ts-everything.mjs")),
    ),
    Server::new(
        "ts",
        Package::Npm("@modelcontextprotocol/server"),
        Some(Script::Node("servers/ts.mjs")),
    ),
    Server::new(
        "olaservo",
        Package::Npm("@olaservo/ext-skills"),
        Some(Script::Node("servers/olaservo.mjs")),
    ),
    Server {
        settings: "repair = [\"size\"]",
        ..Server::new(
            "hf",
            Package::Npm("@llmindset/hf-mcp-server"),
            Some(Script::Python("fastmcp", "servers/hf.py")),
        )
    },
    Server::new(
        "fastmcp",
        Package::Python("fastmcp", "fastmcp"),
        Some(Script::Python("fastmcp", "servers/fastmcp_server.py")),
    ),
    Server::new(
        "fastmcp42",
        Package::Python("fastmcp42", "fastmcp"),
        Some(Script::Python("fastmcp42", "servers/fastmcp_server.py")),
    ),
    Server::new(
        "agentskills",
        Package::Python("agentskills", "agentskills-mcp-server"),
        Some(Script::Python("agentskills", "servers/agentskills.py")),
    ),
    Server::new(
        "nimblebrain",
        Package::Python("nimblebrain", "nimblebrain-bundle-sdk"),
        Some(Script::Python("nimblebrain", "servers/nimblebrain.py")),
    ),
    Server::new("rmcp", Package::Cargo("rmcp"), None),
];

/// What the official suite wants of a server.
pub(crate) static EVERYTHING: Server = Server {
    settings: "pass = [\"skills\", \"tools\", \"prompts\", \"resources\", \"completions\"]\npass_tools = \"as-is\"",
    ..Server::new(
        "everything",
        Package::Npm("@modelcontextprotocol/server"),
        Some(Script::Node("servers/conformance.mjs")),
    )
};

impl Server {
    const fn new(name: &'static str, package: Package, script: Option<Script>) -> Self {
        Self {
            name,
            package,
            settings: "",
            script,
        }
    }

    /// Starts it, and a gateway before it, where its skills are approved, but for one.
    pub(crate) async fn start_behind_a_gateway(&self, installed: &Installed) -> (Up, Gateway) {
        let up = self.start(installed).await;
        let setup = Setup::new().origin_at(self.name, &up.url, self.settings);
        let gateway = setup.start().await;
        self.approve(&gateway).await;
        (up, gateway)
    }

    /// The same server as a program that the gateway starts, as `proxy.toml` has it.
    pub(crate) fn program(&self, installed: &Installed) -> String {
        let script = self.script.expect("it is a script");
        installed.origin(self.name, script, ["stdio".into(), tree::folder()])
    }

    /// Approves its skills, but for one.
    pub(crate) async fn approve(&self, gateway: &Gateway) {
        for skill in tree::APPROVED {
            gateway.approve(&format!("{}/{skill}", self.name)).await;
        }
    }

    /// Starts it, and waits until it accepts connections.
    pub(crate) async fn start(&self, installed: &Installed) -> Up {
        let Some(script) = self.script else {
            return Up {
                url: rust_sdk::serve(&tree::folder()).await,
                _running: None,
            };
        };
        let port = free_port();
        let mut command = installed.command(script);
        command.arg(port.to_string()).arg(tree::folder());
        Up {
            url: format!("http://127.0.0.1:{port}/mcp"),
            _running: Some(installed.serve(self.name, command, port).await),
        }
    }
}
