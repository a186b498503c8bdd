//! An origin that is a program of ours to run: messages are lines on its standard input and output.
//!
//! Each session is a process of its own, under a supervisor (`supervise`) that lets nothing of it outlive the gateway.
//! Imports `framed`, `supervise`. Invariants: the program sees no variable of ours but the few of [`PASSED_ON`] and those
//! configured for it; what it writes to standard error never makes it wait, and is never kept beyond some lines.

use std::collections::VecDeque;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf as _;
use bytes::Bytes;
use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Child;
use tokio::process::ChildStderr;
use tokio::process::ChildStdin;
use tokio::process::ChildStdout;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Error;
use super::framed::Framed;
use super::framed::Line;
use super::framed::Outlet;
use super::framed::Source;
use super::supervise::NOT_STARTED;
use super::supervise::SUPERVISE;
use crate::config::Secret;
use crate::domain::Label;
use crate::shutdown::Shutdown;

/// Variables of our own environment that a program is given, if we have them.
const PASSED_ON: [&str; 11] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ",
];

/// How long the end of a process is waited for once its output has ended, and its last words once the process has.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// Bytes of a line of standard error that are looked at; the rest is passed over. Much longer than what is told of, so that
/// no secret is cut in two before it is found.
const LOOKED_AT: usize = 16 * 1024;

/// Characters of a line of standard error that are told of.
const TOLD: usize = 300;

/// Lines of standard error in a second that reach our log.
const LINES_A_SECOND: u32 = 20;

/// Lines of standard error that are told of when the process ends.
const TAIL: usize = 3;

/// A program that is an MCP server.
#[derive(Clone, Debug)]
pub struct Program {
    /// The origin that it is, for our log.
    pub label: Label,
    /// The program and its arguments; at least one.
    pub command: Vec<String>,
    /// Variables that are set for it alone.
    pub env: Vec<(String, Secret)>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The program that supervises it: our own.
    pub supervisor: PathBuf,
}

/// The path of the program that runs now, also when another one has been put in its place.
pub fn own_program() -> PathBuf {
    let same = Path::new("/proc/self/exe");
    if same.exists() {
        return same.to_owned();
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("portcullis"))
}

impl Program {
    /// Starts the process.
    pub(super) fn start(&self, line: Line, longest: u64, shutdown: &Shutdown) -> Result<Framed<Output, Input>, Error> {
        let passed_on = PASSED_ON
            .into_iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let own = self.env.iter().map(|(name, value)| (name, value.expose()));
        let mut child = Command::new(&self.supervisor)
            .arg(SUPERVISE)
            .args(&self.command)
            .env_clear()
            .envs(passed_on)
            .envs(own)
            .current_dir(&self.cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::Unreachable(format!("its process cannot be started: {error}")))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::Unreachable("its process has no pipes".to_owned()));
        };
        let output = Output {
            lines: Lines::new(stdout),
            ended: self.look_after(child, stderr, shutdown),
        };
        let input = Arc::new(tokio::sync::Mutex::new(Input(Some(stdin))));
        Ok(Framed::new(output, input, line, longest))
    }

    /// Waits for the process, so that none is left unburied, and reads its standard error meanwhile. What is given is told
    /// how it ended.
    fn look_after(
        &self,
        mut child: Child,
        stderr: ChildStderr,
        shutdown: &Shutdown,
    ) -> watch::Receiver<Option<String>> {
        let (ended, told) = watch::channel(None);
        let tail = Tail::default();
        let secrets: Vec<Secret> = self.env.iter().map(|(_, secret)| secret.clone()).collect();
        let mut complaints = Complaints {
            label: self.label.clone(),
            secrets,
            tail: tail.clone(),
            logged: Rate::default(),
        };
        let mut reading = shutdown.spawn(async move { complaints.read(stderr).await });
        drop(shutdown.spawn(async move {
            let status = child.wait().await;
            if tokio::time::timeout(LAST_WORDS, &mut reading).await.is_err() {
                reading.abort();
            }
            let how = status.map_or_else(|error| error.to_string(), in_words);
            ended.send_replace(Some(tail.after(&how)));
        }));
        told
    }
}

/// How a process ended, by the code of its supervisor.
fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code == i32::from(NOT_STARTED) => "its program cannot be run".to_owned(),
        Some(code) if code > 128 => format!("its process was ended by signal {}", code - 128),
        Some(code) => format!("its process ended with exit code {code}"),
        None => format!("its process ended ({status})"),
    }
}

/// What the process says.
pub(super) struct Output {
    lines: Lines<ChildStdout>,
    ended: watch::Receiver<Option<String>>,
}

impl Source for Output {
    async fn next(&mut self, cap: u64) -> Result<Bytes, Error> {
        match self.lines.next(cap).await {
            Err(Error::Unreachable(words)) => {
                // Its process is about to end, and how it did says more.
                let how = tokio::time::timeout(2 * LAST_WORDS, self.ended.wait_for(Option::is_some)).await;
                let how = how.ok().and_then(|how| how.ok()?.clone());
                Err(Error::Unreachable(how.unwrap_or(words)))
            }
            line => line,
        }
    }
}

/// What the process is told.
pub(super) struct Input(Option<ChildStdin>);

impl Outlet for Input {
    async fn put(&mut self, message: String) -> Result<(), Error> {
        let Some(stdin) = self.0.as_mut() else {
            return Err(Error::Unreachable("its standard input is closed".to_owned()));
        };
        let mut line = message.into_bytes();
        line.push(b'\n');
        let written = stdin.write_all(&line).await;
        written.map_err(|error| Error::Unreachable(format!("its standard input cannot be written to: {error}")))
    }

    async fn end(&mut self) {
        self.0 = None;
    }
}

/// Lines of bytes, of which a half one is kept between two calls.
pub(super) struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// Bytes of the buffer that have no end of a line among them.
    searched: usize,
}

impl<R> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Source for Lines<R> {
    /// The next line that is not blank, of at most `cap` bytes.
    async fn next(&mut self, cap: u64) -> Result<Bytes, Error> {
        loop {
            let end = self.buffer.iter().skip(self.searched).position(|byte| *byte == b'\n');
            let length = end.map_or(self.buffer.len(), |end| self.searched + end);
            if length as u64 > cap {
                return Err(Error::TooLong { limit: cap });
            }
            if end.is_some() {
                let line = self.buffer.split_to(length).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(line);
            }
            self.searched = self.buffer.len();
            self.buffer.reserve(CHUNK);
            let read = self.reader.read_buf(&mut self.buffer).await;
            match read.map_err(|error| Error::Unreachable(format!("its output cannot be read: {error}")))? {
                0 if self.buffer.is_empty() => {
                    return Err(Error::Unreachable("its output has ended".to_owned()));
                }
                0 => {
                    return Err(Error::Unreachable(
                        "its output has ended in the middle of a message".to_owned(),
                    ));
                }
                _ => {}
            }
        }
    }
}

/// The last lines of standard error.
#[derive(Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == TAIL {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// How the process ended, and what it said before.
    fn after(&self, how: &str) -> String {
        let lines = self.0.lock();
        if lines.is_empty() {
            return how.to_owned();
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!("{how}; its last words: {}", lines.join(" / "))
    }
}

/// What a process writes to standard error.
struct Complaints {
    label: Label,
    /// What none of it may give away.
    secrets: Vec<Secret>,
    tail: Tail,
    logged: Rate,
}

impl Complaints {
    /// Reads to the end, whatever comes.
    async fn read(&mut self, mut stderr: impl AsyncRead + Unpin) {
        let (mut chunk, mut line) = (vec![0; CHUNK], Vec::new());
        loop {
            let length = match stderr.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(length) => length,
            };
            for byte in chunk.iter().take(length) {
                match byte {
                    b'\n' => self.hear(&std::mem::take(&mut line)),
                    _ if line.len() < LOOKED_AT => line.push(*byte),
                    _ => {}
                }
            }
        }
        self.hear(&line);
        self.tell_missed();
    }

    fn hear(&mut self, line: &[u8]) {
        let text: String = String::from_utf8_lossy(line)
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let mut text = text.trim().to_owned();
        for secret in self.secrets.iter().filter(|secret| !secret.expose().is_empty()) {
            text = text.replace(secret.expose(), "***");
        }
        if text.is_empty() {
            return;
        }
        let text: String = text.chars().take(TOLD).collect();
        if self.logged.may_go_on() {
            self.tell_missed();
            tracing::debug!(origin = %self.label, "its process says: {text}");
        }
        self.tail.push(text);
    }

    fn tell_missed(&mut self) {
        let missed = self.logged.take_missed();
        if missed > 0 {
            tracing::debug!(origin = %self.label, "its process said {missed} more lines than are kept");
        }
    }
}

/// So many in a second.
struct Rate {
    since: Instant,
    passed: u32,
    missed: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            passed: 0,
            missed: 0,
        }
    }
}

impl Rate {
    /// Says whether one more may pass.
    fn may_go_on(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.since = Instant::now();
            self.passed = 0;
        }
        let may = self.passed < LINES_A_SECOND;
        if may {
            self.passed += 1;
        } else {
            self.missed += 1;
        }
        may
    }

    /// How many have not passed since this was last asked.
    fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_however_they_are_cut_and_blank_ones_not_at_all() {
        let text = "{\"a\":\"\u{5317}\u{4eac}\"}\r\n\n \n{}\nhalf".as_bytes();
        for size in 1..text.len() {
            let chunks = text
                .chunks(size)
                .map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk)));
            let reader = tokio_util::io::StreamReader::new(futures_util::stream::iter(chunks));
            let mut lines = Lines::new(reader);
            assert_eq!(lines.next(100).await.unwrap(), "{\"a\":\"\u{5317}\u{4eac}\"}\r");
            assert_eq!(lines.next(100).await.unwrap(), "{}");
            let Err(Error::Unreachable(words)) = lines.next(100).await else {
                panic!("it has ended")
            };
            assert!(words.contains("in the middle"), "{words}");
        }
    }

    #[tokio::test]
    async fn a_line_without_end_is_not_read_to_its_end() {
        let endless = tokio::io::repeat(b'a');
        let mut lines = Lines::new(endless);
        assert_eq!(lines.next(1000).await, Err(Error::TooLong { limit: 1000 }));
        assert!(lines.buffer.len() <= 1000 + 2 * CHUNK);
    }

    #[tokio::test(start_paused = true)]
    async fn complaints_are_bounded_and_give_no_secret_away() {
        let secret = Secret::from("hunter2");
        let mut complaints = Complaints {
            label: "acme".parse().unwrap(),
            secrets: vec![secret],
            tail: Tail::default(),
            logged: Rate::default(),
        };
        let flood = "the password is hunter2\u{1b}[31m\n".repeat(1000) + &"x".repeat(100_000);
        complaints.read(flood.as_bytes()).await;
        let told = complaints.tail.after("it ended");
        assert!(
            told.starts_with("it ended; its last words: the password is *** [31m / "),
            "{told}"
        );
        assert!(told.len() < (TAIL + 1) * TOLD, "{}", told.len());
        let mut rate = Rate::default();
        let passed = (0..1000).filter(|_| rate.may_go_on()).count();
        assert_eq!((passed, rate.take_missed()), (LINES_A_SECOND as usize, 980));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(rate.may_go_on());
    }
}
