//! The gateway as a process of its own: the built program, free ports, a folder that goes away with the test.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::Signal;
use rustix::process::kill_process;
use rustix::process::prlimit;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncBufReadExt as _;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::process::ChildStdout;
use tokio::process::Command;
use tokio::time::Instant;

use super::client::Host;
use super::disk;
use super::origin::Origin;

/// The longest that anything may take; generous, since a test machine may be busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Megabytes of a small disk.
const SMALL_DISK: u32 = 24;

/// Time between two looks at the gateway's own state.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What is to be written into `proxy.toml`, and said when the gateway starts.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    settings: Vec<String>,
    origins: Vec<String>,
    environment: Vec<(&'static str, String)>,
    flags: Vec<&'static str>,
    /// Megabytes of a disk of its own, if it has one.
    disk: Option<u32>,
}

/// A gateway with its folder. Each test ends it with [`Gateway::finish`] or [`Gateway::abandon`].
pub(crate) struct Gateway {
    folder: TempDir,
    setup: Setup,
    program: PathBuf,
    running: Option<Running>,
    is_over: bool,
}

/// Its process.
struct Running {
    child: Child,
    mcp: String,
    admin: String,
    /// Kept, since a process that writes into a closed pipe may end.
    _stdout: BufReader<ChildStdout>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code.
    pub(crate) code: i32,
    /// What it printed.
    pub(crate) out: String,
    /// What it complained about.
    pub(crate) err: String,
}

impl Setup {
    /// Two listeners at free ports, and nothing else.
    pub(crate) fn new() -> Self {
        Self::default()
            .set("server.listen = \"127.0.0.1:0\"")
            .set("admin.listen = \"127.0.0.1:0\"")
    }

    /// Adds a setting, as `limits.page_entries = 2`.
    pub(crate) fn set(mut self, line: &str) -> Self {
        self.settings.push(line.to_owned());
        self
    }

    /// Adds an origin that is listed each second.
    pub(crate) fn origin(self, label: &str, origin: &Origin) -> Self {
        self.origin_with(label, origin, "refresh = \"1s\"")
    }

    /// Adds an origin with these settings.
    pub(crate) fn origin_with(self, label: &str, origin: &Origin, settings: &str) -> Self {
        self.origin_at(label, &origin.url(), settings)
    }

    /// Adds whatever answers at an address, with these settings.
    pub(crate) fn origin_at(mut self, label: &str, url: &str, settings: &str) -> Self {
        self.origins.push(format!(
            "[[origin]]\nlabel = \"{label}\"\nurl = \"{url}\"\n{settings}\n"
        ));
        self
    }

    /// Adds a folder of skills as an origin that is listed each second.
    pub(crate) fn folder(mut self, label: &str, folder: &Path) -> Self {
        let folder = folder.display();
        self.origins.push(format!(
            "[[origin]]\nlabel = \"{label}\"\ndir = \"{folder}\"\nrefresh = \"1s\"\n"
        ));
        self
    }

    /// Adds a table, as `[[rule]]` with its keys.
    pub(crate) fn table(mut self, text: &str) -> Self {
        self.origins.push(format!("{text}\n"));
        self
    }

    /// Takes an origin out again.
    pub(crate) fn without_origin(&mut self, label: &str) {
        self.origins
            .retain(|origin| !origin.contains(&format!("label = \"{label}\"")));
    }

    /// Sets a variable of the environment.
    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Puts the data folder on a disk of its own, so small that it can be filled.
    pub(crate) fn on_a_small_disk(mut self) -> Self {
        self.disk = Some(SMALL_DISK);
        self.set("store.data_dir = \"disk/data\"")
    }

    /// Writes the folder, and starts nothing.
    pub(crate) fn written(self) -> Gateway {
        let gateway = Gateway {
            folder: TempDir::new().unwrap(),
            setup: self,
            program: env!("CARGO_BIN_EXE_portcullis").into(),
            running: None,
            is_over: false,
        };
        gateway.write_config();
        gateway
    }

    /// Writes the folder and starts the gateway.
    pub(crate) async fn start(self) -> Gateway {
        let mut gateway = self.written();
        gateway.start().await;
        gateway
    }
}

impl Gateway {
    /// One in front of an origin with the label `acme`.
    pub(crate) async fn of(origin: &Origin) -> Self {
        Setup::new().origin("acme", origin).start().await
    }

    /// The endpoint of all origins.
    pub(crate) fn mcp(&self) -> &str {
        &self.running.as_ref().expect("it runs").mcp
    }

    /// The endpoint of one origin.
    pub(crate) fn mcp_of(&self, label: &str) -> String {
        format!("{}/{label}", self.mcp())
    }

    /// The WebSocket of all origins, or of one.
    pub(crate) fn websocket(&self, origin: Option<&str>) -> String {
        let address = self.mcp().trim_start_matches("http://").trim_end_matches("/mcp");
        let origin = origin.map(|label| format!("/{label}")).unwrap_or_default();
        format!("ws://{address}/ws{origin}")
    }

    /// The base of the operators' listener.
    pub(crate) fn admin(&self) -> &str {
        &self.running.as_ref().expect("it runs").admin
    }

    /// A modern host at the endpoint of all origins.
    pub(crate) fn host(&self) -> Host {
        Host::modern(self.mcp())
    }

    /// The data folder.
    pub(crate) fn data(&self) -> PathBuf {
        match self.setup.disk {
            None => self.folder.path().join("data"),
            Some(_) => self.small_disk().join("data"),
        }
    }

    /// The small disk, which only the process and who goes through it sees.
    fn small_disk(&self) -> PathBuf {
        let inside = self.folder.path().strip_prefix("/").unwrap().join("disk");
        PathBuf::from(format!("/proc/{}/root", self.process_id())).join(inside)
    }

    /// Leaves no room on the small disk.
    #[expect(clippy::disallowed_methods, reason = "somebody else uses the disk up")]
    pub(crate) fn fill_disk(&self) {
        let mut file = fs::File::create(self.small_disk().join("filler")).unwrap();
        for bytes in [vec![1; 64 * 1024], vec![1; 1]] {
            while file.write_all(&bytes).is_ok() {}
        }
    }

    /// Makes room on the small disk again.
    #[expect(clippy::disallowed_methods, reason = "somebody else makes room")]
    pub(crate) fn clear_disk(&self) {
        fs::remove_file(self.small_disk().join("filler")).unwrap();
    }

    /// Everything that was written to standard error until now.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr.log")).unwrap_or_default()
    }

    /// Changes what the next start finds.
    pub(crate) fn reconfigure(&mut self, change: impl FnOnce(Setup) -> Setup) {
        self.setup = change(std::mem::take(&mut self.setup));
        self.write_config();
    }

    /// Starts the process and waits for its first line.
    pub(crate) async fn start(&mut self) {
        let is_up = self.try_start().await;
        assert!(is_up, "serve ended; it says:\n{}", self.stderr());
    }

    /// Starts the process and waits for its first line; says whether one came.
    pub(crate) async fn try_start(&mut self) -> bool {
        let mut child = self.spawn();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        tokio::time::timeout(DEADLINE, stdout.read_line(&mut line))
            .await
            .expect("the first line in time")
            .unwrap();
        if line.is_empty() {
            return false;
        }
        let addresses = line
            .trim_end()
            .strip_prefix("ready mcp=")
            .and_then(|rest| rest.split_once(" admin="))
            .unwrap_or_else(|| panic!("serve began with {line:?}; it says:\n{}", self.stderr()));
        self.running = Some(Running {
            mcp: addresses.0.to_owned(),
            admin: addresses.1.to_owned(),
            child,
            _stdout: stdout,
        });
        true
    }

    /// Starts the process and kills it soon, whatever it has got to.
    pub(crate) async fn start_and_kill_after(&mut self, moment: Duration) {
        let mut child = self.spawn();
        let ended = tokio::time::timeout(moment, child.wait()).await;
        assert!(
            ended.is_err(),
            "it ended by itself: {ended:?}; it says:\n{}",
            self.stderr()
        );
        child.kill().await.unwrap();
    }

    fn spawn(&self) -> Child {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("stderr.log"))
            .unwrap();
        let mut command = self.command(&["serve"]);
        command
            .args(&self.setup.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Starts the process with a flag of `serve`.
    pub(crate) async fn start_with(&mut self, flag: &'static str) {
        self.setup.flags = vec![flag];
        self.start().await;
    }

    /// Asks the process to end, and gives its exit code.
    pub(crate) async fn stop(&mut self) -> i32 {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Ends the process as a power cut would.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Ends the process in good order and starts it anew.
    pub(crate) async fn restart(&mut self) {
        assert_eq!(self.stop().await, 0, "{}", self.stderr());
        self.start().await;
    }

    /// The process's id.
    pub(crate) fn process_id(&self) -> u32 {
        self.running
            .as_ref()
            .and_then(|running| running.child.id())
            .expect("it runs")
    }

    /// The most memory that the process has held since this was last asked, in MB (proc(5)).
    pub(crate) fn peak_memory(&self) -> f64 {
        let proc = PathBuf::from(format!("/proc/{}", self.process_id()));
        let status = fs::read_to_string(proc.join("status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: f64 = peak.split_whitespace().next().unwrap().parse().unwrap();
        disk::write_in_place(&proc.join("clear_refs"), b"5");
        kib / 1024.0
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process_id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Lets no file of the process grow any more, as a full disk would.
    pub(crate) fn write_no_more(&self) {
        let id = i32::try_from(self.process_id()).unwrap();
        let nothing = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        prlimit(Pid::from_raw(id), Resource::Fsize, nothing).unwrap();
    }

    /// Waits until the process has begun to end: it accepts no more connections.
    pub(crate) async fn accepts_no_more(&self) {
        let address = self
            .mcp()
            .trim_start_matches("http://")
            .trim_end_matches("/mcp")
            .to_owned();
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        let closed = async {
            while TcpStream::connect(&address).await.is_ok() {
                interval.tick().await;
            }
        };
        tokio::time::timeout(DEADLINE, closed)
            .await
            .expect("the listener closes");
    }

    /// Waits for the end of the process, and gives its exit code; -1 when a signal ended it.
    pub(crate) async fn ended(&mut self) -> i32 {
        let mut running = self.running.take().expect("it runs");
        let ended = tokio::time::timeout(DEADLINE, running.child.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("it did not end; it says:\n{}", self.stderr()))
            .unwrap()
            .code()
            .unwrap_or(-1)
    }

    /// Runs a command of the same program with the same configuration.
    pub(crate) async fn cli(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments)).await
    }

    /// A second one with a copy of all that this one has, while neither runs.
    pub(crate) fn copied(&self) -> Self {
        assert!(self.running.is_none(), "only what rests is copied");
        let copy = self.setup.clone().written();
        let parts = ["FORMAT", "log", "head", "keys", "people", "content", "tokens"];
        for part in parts.map(|part| self.data().join(part)) {
            let to = copy.data().join(part.file_name().unwrap());
            if part.is_dir() {
                disk::copy_folder(&part, &to);
            } else {
                fs::create_dir_all(copy.data()).unwrap();
                disk::write(&to, &fs::read(&part).unwrap());
            }
        }
        copy
    }

    /// Runs the same program with nothing that this gateway has.
    pub(crate) async fn cli_elsewhere(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().current_dir("/").kill_on_drop(true);
        ended(command).await
    }

    /// The skill `label/path` as operators see it, as soon as `holds` of it.
    pub(crate) async fn skill_when(&self, skill: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let (label, path) = skill.split_once('/').unwrap();
        let uri = match path {
            "~tools" => "tools://definitions/SKILL.md".to_owned(),
            path => format!("skill://{path}/SKILL.md"),
        };
        let is_it = |item: &Value| item["label"] == label && item["uri"] == uri.as_str() && holds(item);
        self.wait_until(&format!("{skill} is {what}"), "skills", is_it).await
    }

    /// The skill `label/path` as soon as it is in this state.
    pub(crate) async fn skill_is(&self, skill: &str, state: &str) -> Value {
        self.skill_when(skill, state, |item| item["state"] == state).await
    }

    /// The origin as operators see it, as soon as `holds` of it.
    pub(crate) async fn origin_when(&self, label: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let is_it = |item: &Value| item["label"] == label && holds(item);
        self.wait_until(&format!("{label} {what}"), "origins", is_it).await
    }

    /// Waits until a file of a skill is stored, which happens behind the answer of a read.
    pub(crate) async fn stores(&self, skill: &str, path: &str) {
        let deadline = Instant::now() + DEADLINE;
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        let is_stored = |file: &Value| file["stored"] == true && file["uri"].as_str().unwrap().ends_with(path);
        loop {
            interval.tick().await;
            let shown = self.cli(&["show", skill, "--json"]).await.expect(0).json();
            if shown["files"].as_array().unwrap().iter().any(is_stored) {
                return;
            }
            assert!(Instant::now() < deadline, "{path} is not stored: {shown:#}");
        }
    }

    /// Waits until the process has said this so many times.
    pub(crate) async fn says(&self, words: &str, times: usize) {
        let deadline = Instant::now() + DEADLINE;
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        while self.stderr().matches(words).count() < times {
            interval.tick().await;
            assert!(
                Instant::now() < deadline,
                "{words:?} is not said in:\n{}",
                self.stderr()
            );
        }
    }

    /// Waits until a file of the data folder has these bytes.
    pub(crate) async fn restores(&self, path: &Path, bytes: &[u8]) {
        let deadline = Instant::now() + DEADLINE;
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        while !fs::read(path).is_ok_and(|held| held == bytes) {
            interval.tick().await;
            assert!(Instant::now() < deadline, "{} is not what it was", path.display());
        }
    }

    /// Waits until nothing is wrong with it.
    pub(crate) async fn is_well(&self) {
        let deadline = Instant::now() + DEADLINE;
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        loop {
            let health = self.cli(&["health"]).await;
            if health.code == 0 {
                return;
            }
            interval.tick().await;
            assert!(Instant::now() < deadline, "{}", health.err);
        }
    }

    /// The leaves of these kinds, the oldest first.
    pub(crate) async fn log(&self, kinds: &[&str]) -> Vec<Value> {
        let kinds = kinds.iter().flat_map(|kind| ["--kind", *kind]);
        let arguments: Vec<&str> = ["audit", "log", "--json"].into_iter().chain(kinds).collect();
        let listed = self.cli(&arguments).await.expect(0).json();
        listed.as_array().unwrap().clone()
    }

    /// Waits until a leaf of this kind is in the log.
    pub(crate) async fn wait_until_logged(&self, kind: &str) {
        let deadline = Instant::now() + DEADLINE;
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        while self.log(&[kind]).await.is_empty() {
            interval.tick().await;
            assert!(Instant::now() < deadline, "nothing is {kind}");
        }
    }

    /// The folder that everything is in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Approves the set now seen of a skill, once there is one to approve; gives its id.
    pub(crate) async fn approve(&self, skill: &str) -> String {
        let seen = self
            .skill_when(skill, "waiting", |item| {
                item["set"].is_string() && item["state"] != "approved"
            })
            .await;
        let set = seen["set"].as_str().unwrap().to_owned();
        self.cli(&["approve", skill, "--set", &set]).await.expect(0);
        set
    }

    /// Every skill of an origin as operators see it, once there are so many.
    pub(crate) async fn all_of(&self, label: &str, skills: usize) -> Vec<Value> {
        let of_label = |items: &[Value]| -> Vec<Value> {
            let of_label = items
                .iter()
                .filter(|item| item["label"] == label && item["set"].is_string());
            of_label.cloned().collect()
        };
        self.wait_for(&format!("{label} has {skills} skills"), "skills", |items| {
            Some(of_label(items)).filter(|found| found.len() == skills)
        })
        .await
    }

    /// Approves every skill of an origin, once so many wait there.
    pub(crate) async fn approve_all(&self, label: &str, skills: usize) {
        for item in self.all_of(label, skills).await {
            let (skill, set) = (item["merged_uri"].as_str().unwrap(), item["set"].as_str().unwrap());
            self.cli(&["approve", skill, "--set", set]).await.expect(0);
        }
    }

    /// Checks that everything stored is sound: content, index, log.
    pub(crate) async fn audit_everything(&self) {
        self.cli(&["verify", "--json"]).await.expect(0);
        self.cli(&["audit", "verify", "--json"]).await.expect(0);
    }

    /// Checks that everything stored is sound, and ends.
    pub(crate) async fn finish(mut self) {
        self.audit_everything().await;
        if self.running.is_some() {
            assert_eq!(self.stop().await, 0, "{}", self.stderr());
        }
        self.is_over = true;
    }

    /// Ends without looking: the test damaged something, or nothing was ever stored.
    pub(crate) fn abandon(mut self) {
        self.is_over = true;
    }

    /// The one thing that is asked again and again: refreshes happen in their own time.
    pub(crate) async fn wait_until(&self, what: &str, command: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let find = |items: &[Value]| items.iter().find(|item| holds(item)).cloned();
        self.wait_for(what, command, find).await
    }

    /// What is found in a list that operators see, as soon as it is.
    async fn wait_for<T>(&self, what: &str, command: &str, find: impl Fn(&[Value]) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        let mut interval = tokio::time::interval(BETWEEN_LOOKS);
        loop {
            interval.tick().await;
            let items = self.cli(&[command, "--json"]).await.expect(0).json();
            if let Some(found) = find(items.as_array().unwrap()) {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "{what}: not yet in {items:#}\nit says:\n{}",
                self.stderr()
            );
        }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("proxy.toml")
    }

    fn write_config(&self) {
        let text = [self.setup.settings.join("\n"), self.setup.origins.join("\n")].join("\n\n");
        disk::write(&self.config(), text.as_bytes());
    }

    /// A command of the same program with the same configuration.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program();
        command
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .env_remove("RUST_LOG")
            .envs(self.setup.environment.iter().map(|(name, value)| (name, value)))
            .kill_on_drop(true);
        command
    }

    /// The program; on a disk of its own, in a name space that has it (unshare(1), nsenter(1) of util-linux).
    fn program(&self) -> Command {
        let Some(megabytes) = self.setup.disk else {
            return Command::new(&self.program);
        };
        if let Some(running) = &self.running {
            let mut command = Command::new("nsenter");
            let id = running.child.id().expect("it runs").to_string();
            command.args(["--preserve-credentials", "--user", "--mount", "--target", &id]);
            command.arg(&self.program);
            return command;
        }
        let disk = self.folder.path().join("disk");
        fs::create_dir_all(&disk).unwrap();
        let mount = format!("mount -t tmpfs -o size={megabytes}m none \"$0\" && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &mount]);
        command.arg(disk).arg(&self.program);
        command
    }

    /// A gateway whose program is another one, to try out this file.
    pub(crate) fn of_program(program: &Path) -> Self {
        let mut gateway = Setup::new().written();
        gateway.program = program.to_owned();
        gateway
    }
}

/// Runs a command to its end.
pub(crate) async fn ended(mut command: Command) -> Ended {
    let output = command.stdin(Stdio::null()).output();
    let output = tokio::time::timeout(DEADLINE, output)
        .await
        .expect("a command ends")
        .unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.stderr();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            for line in tail.into_iter().rev() {
                eprintln!("gateway: {line}");
            }
        } else {
            assert!(self.is_over, "a test ends with finish() or abandon()");
        }
    }
}

impl Ended {
    /// Itself, where this exit code is wanted.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "it said:\n{}\n{}", self.out, self.err);
        self
    }

    /// The one JSON value that it printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why} in {:?}", self.out))
    }
}
