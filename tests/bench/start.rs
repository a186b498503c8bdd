//! The start with much that is stored, up to the first right read.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use super::data::Amount;
use super::load;
use super::median;
use super::process::Home;
use super::process::Server;
use super::report::Aim;
use super::report::Report;

/// 100,000 skills, 500,000 files.
const MUCH: Amount = Amount {
    origins: 10,
    skills: 10_000,
    files: 5,
};

pub(crate) async fn measure(report: &mut Report, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { folder: folder.path() };
    home.configure("");
    let (empty, gateway) = first_answer(&home, None).await;
    let detail = format!("ms; {:.0} MB of memory", gateway.memory());
    report.figure(
        "start with nothing stored, to the first answer",
        empty * 1e3,
        Aim::None,
        detail,
    );
    drop(gateway);

    // Half a million files are made in memory: what is measured is the gateway, not the disk of this machine.
    let in_memory = Path::new("/dev/shm");
    let folder = if in_memory.is_dir() {
        tempfile::tempdir_in(in_memory)
    } else {
        tempfile::tempdir()
    }
    .unwrap();
    let home = Home { folder: folder.path() };
    home.configure(&MUCH.settings());
    let begun = Instant::now();
    MUCH.store(folder.path());
    println!(
        "stored {} skills in {:.0?}",
        MUCH.origins * MUCH.skills,
        begun.elapsed()
    );

    let (mut clean, mut killed, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (after_kill, gateway) = first_answer(&home, Some("skill://o9/s9999/references/f4.md")).await;
        killed.push(after_kill);
        memory.push(gateway.memory());
        end(gateway).await;
        let (after_end, gateway) = first_answer(&home, Some("skill://o9/s9999/references/f4.md")).await;
        clean.push(after_end);
        drop(gateway);
    }
    let piece = median((0..rounds.max(3)).map(|_| read_lines()).collect());
    let (clean, killed) = (median(clean), median(killed));
    let detail = format!(
        "{:.0} : {:.0} ms; {:.0} MB of memory",
        clean * 1e3,
        piece * 1e3,
        median(memory)
    );
    let what =
        "start with 100,000 skills and 500,000 files stored, to the first right read, of reading as many lines of JSON";
    report.ratio(what, clean / piece, Aim::None, detail);
    report.ratio(
        "the same after `kill -9`, of the clean start",
        killed / clean,
        Aim::AtMost(2.0),
        format!("{:.0} ms", killed * 1e3),
    );
}

/// Starts the gateway and waits for an answer: to a read, or to a listing.
async fn first_answer(home: &Home<'_>, uri: Option<&str>) -> (f64, Server) {
    let gateway = home.serve(&["--offline"]);
    let begun = Instant::now();
    let method = if uri.is_some() { "resources/read" } else { "skills/list" };
    load::ask_once(&gateway.address, &load::request("/mcp", method, uri)).await;
    let elapsed = gateway.ready_after + begun.elapsed();
    (elapsed.as_secs_f64(), gateway)
}

/// Ends a gateway as a supervisor does, and waits for it.
async fn end(mut gateway: Server) {
    let pid = Pid::from_raw(i32::try_from(gateway.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    while !gateway.is_over() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// The least that a start can do: 100,000 entries, one JSON text a line, into a map.
fn read_lines() -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    let line = |n: usize| {
        json!({ "uri": format!("skill://o0/s{n}/SKILL.md"), "set": format!("{n:064x}"), "size": n }).to_string()
    };
    fs::write(&file, (0..100_000).map(|n| line(n) + "\n").collect::<String>()).unwrap();
    let begun = Instant::now();
    let text = fs::read_to_string(&file).unwrap();
    let map: HashMap<String, Value> = text
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            (value["uri"].as_str().unwrap().to_owned(), value)
        })
        .collect();
    assert_eq!(map.len(), 100_000);
    begun.elapsed().as_secs_f64()
}
