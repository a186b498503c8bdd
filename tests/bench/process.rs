//! Servers as processes of their own, and what the system says about them.

use std::fs;
use std::io::BufRead as _;
use std::io::BufReader;
use std::path::Path;
use std::process::Child;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: String,
    /// From the start of the process to its first line.
    pub(crate) ready_after: Duration,
    /// Kept, since a process that writes into a closed pipe may end.
    _stdout: BufReader<ChildStdout>,
}

/// A gateway's configuration and data.
pub(crate) struct Home<'a> {
    pub(crate) folder: &'a Path,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Self {
        let begun = Instant::now();
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready_after = begun.elapsed();
        let url = line.split_once("mcp=http://").unwrap().1;
        let address = url.split_once("/mcp").unwrap().0.to_owned();
        Self {
            process,
            address,
            ready_after,
            _stdout: stdout,
        }
    }

    /// This program in another role.
    pub(crate) fn role(words: [&str; 2]) -> Self {
        Self::start(Command::new(std::env::current_exe().unwrap()).args(words))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Says whether the process has ended by itself.
    pub(crate) fn is_over(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// User and system time so far in clock ticks (proc(5): the 14th and 15th field).
    pub(crate) fn ticks(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
    }

    /// Resident memory in MB.
    pub(crate) fn memory(&self) -> f64 {
        self.status("VmRSS:") / 1024.0
    }

    /// The number in one line of proc(5)'s status.
    pub(crate) fn status(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is only waited for.
        let _over = self.process.kill();
        self.process.wait().unwrap();
    }
}

impl Home<'_> {
    /// Writes `proxy.toml`: free ports, and what is given.
    pub(crate) fn configure(&self, settings: &str) {
        let text = format!(
            "server.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nlog.level = \"warn\"\n\
             store.data_dir = \"data\"\nstore.allow_unsafe_location = true\n{settings}"
        );
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> std::path::PathBuf {
        self.folder.join("proxy.toml")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.arg("--config").arg(self.config());
        command
    }

    /// Starts the gateway.
    pub(crate) fn serve(&self, flags: &[&str]) -> Server {
        Server::start(self.command().arg("serve").args(flags))
    }

    /// Runs a command beside it.
    fn run(&self, words: &[&str]) -> Output {
        self.command().args(words).output().unwrap()
    }

    /// Approves every skill once `count` of them are seen.
    pub(crate) async fn approve_all(&self, count: usize) {
        let skills = loop {
            let skills: Vec<Value> = serde_json::from_slice(&self.run(&["skills", "--json"]).stdout).unwrap();
            if skills.len() == count {
                break skills;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        for skill in skills {
            let path = skill["uri"].as_str().unwrap();
            let path = path
                .strip_prefix("skill://")
                .unwrap()
                .strip_suffix("/SKILL.md")
                .unwrap();
            let name = format!("{}/{path}", skill["label"].as_str().unwrap());
            let approved = self.run(&["approve", &name, "--set", skill["set"].as_str().unwrap()]);
            assert!(
                approved.status.success(),
                "{}",
                String::from_utf8_lossy(&approved.stderr)
            );
        }
    }
}
