//! The process between the gateway and an origin's program: nothing of the program outlives the gateway.
//!
//! Our own binary, started anew for each program. It passes on what comes on its standard input, which only the gateway
//! holds the other end of; when that end closes, be it because the gateway wants so or because it was killed, the program's
//! input is closed, and what is left of its process group is ended: asked by SIGTERM first, then not asked. On Linux the
//! supervisor also adopts what the program leaves behind, in its group or out of it, so that it can end and bury that too.
//! Standard output and standard error are the program's own. A signal at the death of a parent (prctl(2)) would not do: it
//! reaches one process only, is bound to one thread of the parent, and cannot be set from here without unsafe code.

use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitCode;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::WaitOptions;
use rustix::process::kill_process;
use rustix::process::kill_process_group;
use rustix::process::wait;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::process::Command;
use tokio::time::Instant;

/// The word on the command line that makes a supervisor of this program; the program to supervise follows.
pub const SUPERVISE: &str = "supervise-origin";

/// How long a program may take to end, once its input is closed and once more after SIGTERM.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at who is left.
const MOMENT: Duration = Duration::from_millis(10);

/// What a supervisor ends with when the program cannot be started, as a shell would.
pub(super) const NOT_STARTED: u8 = 127;

/// Runs a program until it ends or the gateway is gone, and ends with its exit code, or 128 and its signal.
pub fn supervise(command: Vec<OsString>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.and_then(|runtime| runtime.block_on(run(command)));
    ended.map_or_else(
        |error| {
            // It is the first line that the gateway reads of this program.
            let _gone = writeln!(io::stderr(), "the program cannot be started: {error}").is_err();
            ExitCode::from(NOT_STARTED)
        },
        ExitCode::from,
    )
}

async fn run(command: Vec<OsString>) -> io::Result<u8> {
    let mut command = command.into_iter();
    let program = command.next().ok_or_else(|| io::Error::other("the command is empty"))?;
    adopt();
    let mut gateway = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let mut child = Command::new(&program)
        .args(command)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| io::Error::other(format!("{}: {error}", program.display())))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let mut input = child.stdin.take();
    let passing = async {
        if let Some(input) = input.as_mut() {
            // Why it ended does not matter: there is nothing more to pass on.
            let _ended = tokio::io::copy(&mut gateway, input).await;
        }
    };
    let by_itself = tokio::select! {
        status = child.wait() => Some(status?),
        () = passing => None,
    };
    drop(input);
    let status = match by_itself {
        Some(status) => status,
        None => end(&mut child, group).await?,
    };
    // What it started and left behind. The group's number is free only once nobody is left in it.
    signal(group, Signal::KILL);
    bury().await;
    Ok(code_of(status))
}

/// Becomes the parent of whoever loses theirs below us; elsewhere than on Linux, that stays the system's first process.
fn adopt() {
    #[cfg(target_os = "linux")]
    // Without it, less is tidied up.
    let _refused = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err();
}

/// Ends whoever was adopted, and waits until all of them are gone; not for ever.
async fn bury() {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_dead)) => {}
                Ok(None) => break,
                // Nobody is left.
                Err(_) => return,
            }
        }
        for adopted in children() {
            let _gone = kill_process(adopted, Signal::KILL).is_err();
        }
        tokio::time::sleep(MOMENT).await;
    }
}

/// Our children, as proc(5) lists them where it can.
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Ends a program whose input is closed.
async fn end(child: &mut Child, group: Option<Pid>) -> io::Result<ExitStatus> {
    for next in [Signal::TERM, Signal::KILL] {
        if let Ok(status) = tokio::time::timeout(PATIENCE, child.wait()).await {
            return status;
        }
        signal(group, next);
    }
    child.wait().await
}

/// Signals everybody in a group; one without members is no failure.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _nobody = kill_process_group(group, signal).is_err();
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(1)
}
