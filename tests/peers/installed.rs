//! What `tests/peers/install` put into the user's cache, and processes of it that end when the test does.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process_group;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::process::Command;
use tokio::time::Instant;

/// The longest that a peer may take to start, or to take all its steps.
const DEADLINE: Duration = Duration::from_secs(120);

/// Time between two looks at a peer that starts.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Where the tests' own files are.
pub(crate) const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

/// The installed peers, and a folder to run them in: our scripts, beside the packages that they import.
pub(crate) struct Installed {
    peers: PathBuf,
    folder: TempDir,
}

/// A script of ours, or of a package, by its path from where both are.
#[derive(Clone, Copy)]
pub(crate) enum Script {
    /// On Node.js.
    Node(&'static str),
    /// On Python, in the environment of this name.
    Python(&'static str, &'static str),
}

/// A process that started and all that it starts; they end with this value.
struct Group(Pid);

/// A server that is up.
pub(crate) struct Running {
    _group: Group,
    _child: Child,
}

impl Installed {
    /// Finds them; where they are missing, the test ends with the command that installs them.
    pub(crate) fn find() -> Self {
        let install = Path::new(HERE).join("install");
        let said = std::process::Command::new(&install).arg("--where").output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let peers = PathBuf::from(String::from_utf8(said.stdout).unwrap().trim_end());
        assert!(
            peers.is_dir(),
            "the peers are missing; install them with: tests/peers/install"
        );
        let folder = TempDir::new().unwrap();
        for scripts in ["servers", "hosts"] {
            copy(&Path::new(HERE).join(scripts), &folder.path().join(scripts));
        }
        symlink(peers.join("npm/node_modules"), folder.path().join("node_modules")).unwrap();
        Self { peers, folder }
    }

    /// Node.js itself.
    pub(crate) fn node(&self) -> PathBuf {
        self.peers.join("npm/node/bin/node")
    }

    /// A command that runs a script.
    pub(crate) fn command(&self, script: Script) -> Command {
        // A test that is ended from outside drops nothing.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .args(self.line(script))
            .current_dir(self.folder.path())
            .envs(self.environment())
            .stdin(Stdio::null());
        command
    }

    /// An origin whose program is a script with these arguments, as `proxy.toml` has it.
    pub(crate) fn origin(&self, label: &str, script: Script, arguments: [PathBuf; 2]) -> String {
        let command: Vec<PathBuf> = self.line(script).into_iter().chain(arguments).collect();
        let origin = json!({
            "label": label,
            "command": command,
            "env": BTreeMap::from(self.environment()),
            "cwd": self.folder.path(),
            // A busy machine takes its time to start one.
            "timeout": "60s",
        });
        toml::to_string(&json!({ "origin": [origin] })).unwrap()
    }

    /// What runs a script: a program and its first argument.
    fn line(&self, script: Script) -> [PathBuf; 2] {
        let (program, path) = match script {
            Script::Node(path) => (self.node(), path),
            Script::Python(environment, path) => (self.peers.join(environment).join("bin/python"), path),
        };
        // A package may ask whether its file is the one that was started, which a link is not.
        let script = self.folder.path().join(path).canonicalize().unwrap();
        [program, script]
    }

    /// The variables that every script is started with.
    fn environment(&self) -> [(&'static str, String); 6] {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let node = self.peers.join("npm/node/bin");
        let path = std::env::join_paths([node].into_iter().chain(std::env::split_paths(&folders))).unwrap();
        let folder = self.folder.path().display();
        [
            ("PATH", path.into_string().unwrap()),
            ("HOME", folder.to_string()),
            ("TMPDIR", folder.to_string()),
            ("NODE_OPTIONS", format!("--import={folder}/servers/loopback.mjs")),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
            ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
        ]
    }

    /// Starts a server and waits until it accepts connections.
    pub(crate) async fn serve(&self, name: &str, mut command: Command, port: u16) -> Running {
        let log = self.folder.path().join(format!("{name}.log"));
        let output = File::create_new(&log).unwrap();
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let (mut child, group) = Group::start(command);
        let deadline = Instant::now() + DEADLINE;
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            assert!(child.try_wait().unwrap().is_none(), "{name} ended:\n{}", said());
            assert!(Instant::now() < deadline, "{name} does not listen:\n{}", said());
            interval.tick().await;
        }
        Running {
            _group: group,
            _child: child,
        }
    }
}

impl Group {
    /// Starts a command as the first of a group of its own.
    fn start(mut command: Command) -> (Child, Self) {
        let child = command.process_group(0).spawn().unwrap();
        let id = i32::try_from(child.id().unwrap()).unwrap();
        (child, Self(Pid::from_raw(id).unwrap()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _nobody_left = kill_process_group(self.0, Signal::KILL);
    }
}

/// What a process printed, and what it complained about.
pub(crate) struct Said {
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// Runs a command to its end; what it started ends with it, and all of it when it takes too long.
pub(crate) async fn run(mut command: Command) -> Said {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, _group) = Group::start(command);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match tokio::time::timeout(DEADLINE, child.wait_with_output()).await {
        Ok(output) => {
            let output = output.unwrap();
            Said {
                out: text(output.stdout),
                err: text(output.stderr),
            }
        }
        Err(_) => Said {
            out: String::new(),
            err: format!("it did not end in {DEADLINE:?}"),
        },
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
