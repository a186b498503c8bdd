//! A witness as a process of its own: the built program, in a folder that goes away with the test.

use std::path::PathBuf;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::AsyncBufReadExt as _;
use tokio::io::BufReader;
use tokio::process::Child;
use tokio::process::Command;

use super::gateway::DEADLINE;

/// A witness. Its process ends with it.
pub(crate) struct Witness {
    folder: TempDir,
    logs: Vec<String>,
    /// Where it listens; port 0 until it has run once.
    address: String,
    /// The key that it cosigns with.
    pub(crate) key: String,
    child: Option<Child>,
}

impl Witness {
    /// One that witnesses the log with this key.
    pub(crate) async fn of(log: &str) -> Self {
        let mut witness = Self {
            folder: TempDir::new().unwrap(),
            logs: vec![log.to_owned()],
            address: "127.0.0.1:0".to_owned(),
            key: String::new(),
            child: None,
        };
        witness.start().await;
        witness
    }

    /// Has it know one more key after its next start.
    pub(crate) fn learn(&mut self, log: &str) {
        self.logs.push(log.to_owned());
    }

    /// The folder of its key and its memory.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("witness")
    }

    /// Its prefix.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The line of `proxy.toml` that names it.
    pub(crate) fn as_setting(&self) -> String {
        format!("{{ key = \"{}\", url = \"{}\" }}", self.key, self.url())
    }

    /// Starts its process, at the address that it had before.
    pub(crate) async fn start(&mut self) {
        let state = self.state();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command
            .args(["audit", "witness", "--listen", &self.address, "--state"])
            .arg(&state);
        for log in &self.logs {
            command.args(["--log", log]);
        }
        command.args(["--name", "witness.example"]).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = async || {
            let line = tokio::time::timeout(DEADLINE, lines.next_line()).await;
            line.expect("it speaks in time").unwrap().expect("it does not end")
        };
        self.key = next().await;
        let ready = next().await;
        self.address = ready.strip_prefix("ready witness=http://").unwrap().to_owned();
        self.child = Some(child);
    }

    /// Ends its process as a power cut would.
    pub(crate) async fn kill(&mut self) {
        self.child.take().expect("it runs").kill().await.unwrap();
    }
}
