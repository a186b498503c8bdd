//! Reads of a file that is stored: from memory, and from the disk with its digest checked each time.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use super::load;
use super::median;
use super::process::Home;
use super::process::Server;
use super::report::Aim;
use super::report::Report;

/// How long each target is asked in one turn.
const TURN: Duration = Duration::from_secs(2);

/// What is read.
pub(crate) const URI: &str = "skill://bench/demo/SKILL.md";

/// Hits during which flushes are counted.
const WATCHED: usize = 1_000;

pub(crate) async fn measure(report: &mut Report, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { folder: folder.path() };
    write_skill(folder.path());
    home.configure("[[origin]]\nlabel = \"bench\"\ndir = \"skills\"\n");
    let gateway = home.serve(&[]);
    home.approve_all(1).await;
    let request = load::request("/mcp", "resources/read", Some(URI));
    let answer = load::ask_once(&gateway.address, &request).await;
    let limit = bare(folder.path(), &answer);
    for connections in [1, 8, 32, 128] {
        let what = format!("read from memory, {connections} connections");
        let aim = Aim::AtLeast(0.7);
        compare(report, &what, aim, (&gateway, &limit), (&request, connections, rounds)).await;
    }
    report.figure(
        "memory held after reads over 128 connections",
        gateway.memory(),
        Aim::None,
        format!("MB; {:.0} at its peak", gateway.status("VmHWM:") / 1024.0),
    );
    drop(gateway);

    // Deliveries are sealed each second, beside the answers; what is counted here is what a hit does itself.
    home.configure("audit.deliveries = false\n[[origin]]\nlabel = \"bench\"\ndir = \"skills\"\n");
    let gateway = home.serve(&[]);
    load::ask_once(&gateway.address, &request).await;
    let flushes = flushes_during_hits(&gateway, &request).await;
    let detail = format!("fsync, fdatasync, syncfs and the like in {WATCHED} reads");
    report.figure("flushes on a hit", flushes as f64, Aim::AtMost(0.0), detail);
    drop(gateway);

    home.configure("limits.memory_cache_bytes = 0\n[[origin]]\nlabel = \"bench\"\ndir = \"skills\"\n");
    let gateway = home.serve(&[]);
    let targets = (&gateway, &limit);
    let what = "read from the disk and hashed, 32 connections";
    compare(report, what, Aim::AtLeast(0.4), targets, (&request, 32, rounds)).await;
}

/// A skill of about 3 KB.
pub(crate) fn write_skill(folder: &Path) {
    let skill = folder.join("skills/demo");
    fs::create_dir_all(&skill).unwrap();
    let body = "A line of a skill that says what to do next.\n".repeat(66);
    let text = format!("---\nname: demo\ndescription: Something to read.\n---\n\n{body}");
    fs::write(skill.join("SKILL.md"), text).unwrap();
}

/// The limit, with an answer's bytes.
pub(crate) fn bare(folder: &Path, answer: &[u8]) -> Server {
    let file = folder.join("answer.json");
    fs::write(&file, answer).unwrap();
    Server::role(["--bare", file.to_str().unwrap()])
}

/// Requests a second and processor time a request of the first target, in ratio to the second.
pub(crate) async fn compare(
    report: &mut Report,
    what: &str,
    aim: Aim,
    targets: (&Server, &Server),
    (request, connections, rounds): (&[u8], usize, usize),
) {
    let mut rates = [Vec::new(), Vec::new()];
    let mut costs = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let server = [targets.0, targets.1][which];
            let before = server.ticks();
            let turn = load::repeat(&server.address, request.to_vec(), connections, TURN).await;
            costs[which].push((server.ticks() - before) / turn.requests as f64);
            rates[which].push(turn.rate());
        }
    }
    let [ours, theirs] = rates.map(median);
    let [our_cost, their_cost] = costs.map(median);
    let detail = format!(
        "{ours:.0} : {theirs:.0} requests/s; {:.2} times the processor time a request",
        our_cost / their_cost
    );
    report.ratio(what, ours / theirs, aim, detail);
}

/// Flushes of the whole process while it serves hits, as strace(1) sees them.
async fn flushes_during_hits(gateway: &Server, request: &[u8]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("calls");
    // What was fetched is stored behind the answer; that is no part of a later hit.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut strace = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-e",
            "trace=fsync,fdatasync,syncfs,sync,sync_file_range,msync",
            "-p",
        ])
        .arg(gateway.pid().to_string())
        .arg("-o")
        .arg(&seen)
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("strace: {error}; install it with: sudo apt-get install strace"));
    while gateway.status("TracerPid:") == 0.0 {
        assert!(
            strace.try_wait().unwrap().is_none(),
            "strace may not look at the gateway"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    load::each_once(&gateway.address, vec![request.to_vec(); WATCHED], 8).await;
    rustix::process::kill_process(rustix::process::Pid::from_child(&strace), rustix::process::Signal::INT).unwrap();
    strace.wait().unwrap();
    let calls = fs::read_to_string(seen).unwrap();
    calls
        .lines()
        .filter(|line| line.contains("sync(") || line.contains("sync_file_range("))
        .count()
}
