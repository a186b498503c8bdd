//! First reads: fetched from the origin, verified, answered, and stored behind the answer.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::load;
use super::load::Connection;
use super::median;
use super::process::Home;
use super::process::Server;
use super::report::Aim;
use super::report::Report;

/// Files of one skill.
const FILES: usize = 500;

/// First reads in one turn.
const TURN: usize = 4_000;

/// First reads in sequence.
const IN_SEQUENCE: usize = 1_000;

/// Callers that miss the same file at once.
const TOGETHER: usize = 128;

pub(crate) async fn measure(report: &mut Report, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let skills = (TURN * rounds + IN_SEQUENCE).div_ceil(FILES) + 1;
    write_skills(&folder.path().join("skills"), skills);
    let origin = Server::role(["--origin", folder.path().join("skills").to_str().unwrap()]);
    let home = Home { folder: folder.path() };
    home.configure(&format!(
        "[[origin]]\nlabel = \"bench\"\nurl = \"http://{}/mcp\"\n",
        origin.address
    ));
    let gateway = home.serve(&[]);
    home.approve_all(skills).await;

    let mut paths = (0..skills).flat_map(|skill| (1..FILES).map(move |file| format!("m{skill}/f{file}.md")));
    let mut next = |count: usize| paths.by_ref().take(count).collect::<Vec<_>>();
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let files = next(TURN - TURN / 50);
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let (server, root) = [(&gateway, "skill://bench/"), (&origin, "skill://")][which];
            let turn = load::each_once(&server.address, requests(root, &files), 32).await;
            rates[which].push(turn.rate());
        }
    }
    let [ours, direct] = rates.map(median);
    report.ratio(
        "first read, 32 connections, of the origin asked directly",
        ours / direct,
        Aim::AtLeast(0.4),
        format!("{ours:.0} : {direct:.0} requests/s"),
    );

    let together = vec![format!("skill://bench/{}", next(1)[0]); TOGETHER];
    let before = counts(&origin).await;
    load::each_once(&gateway.address, requests("", &together), TOGETHER).await;
    let after = counts(&origin).await;
    let detail = "reads that the origin saw".to_owned();
    let what = format!("{TOGETHER} equal first reads at once");
    report.figure(&what, after.0 - before.0, Aim::AtMost(1.0), detail);

    let files = next(IN_SEQUENCE);
    let before = counts(&origin).await;
    load::each_once(&gateway.address, requests("skill://bench/", &files), 1).await;
    let after = counts(&origin).await;
    let detail = format!("connections that the origin saw, for {:.0} reads", after.0 - before.0);
    // The two looks at the counts are connections too.
    let what = format!("{IN_SEQUENCE} first reads in sequence");
    report.figure(&what, after.1 - before.1 - 1.0, Aim::AtMost(4.0), detail);
}

fn requests(root: &str, paths: &[String]) -> Vec<Vec<u8>> {
    let one = |path: &String| load::request("/mcp", "resources/read", Some(&format!("{root}{path}")));
    paths.iter().map(one).collect()
}

fn write_skills(folder: &Path, count: usize) {
    for skill in 0..count {
        let dir = folder.join(format!("m{skill}"));
        fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: m{skill}\ndescription: Much to read.\n---\n");
        fs::write(dir.join("SKILL.md"), text).unwrap();
        for file in 1..FILES {
            let body = format!("Line of file {file} of skill {skill} that says what to do.\n").repeat(60);
            fs::write(dir.join(format!("f{file}.md")), body).unwrap();
        }
    }
}

/// Reads and connections that an origin saw so far.
async fn counts(origin: &Server) -> (f64, f64) {
    let request = b"GET /counts HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let body = Connection::open(&origin.address).await.ask(request).await;
    let counts: Value = serde_json::from_slice(&body).unwrap();
    let count = |name: &str| counts[name].as_f64().unwrap();
    (count("reads"), count("connections"))
}
