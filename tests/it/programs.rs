//! Origins that are programs: run, spoken with over pipes, looked after, and never left behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use portcullis::domain::Digest;
use rustix::process::Pid;
use rustix::process::Signal;
use rustix::process::kill_process;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use crate::support::client;
use crate::support::gateway::DEADLINE;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::pipe::Pipe;
use crate::support::program::World;
use crate::support::refunds;

/// A secret that is found wherever it turns up.
const SECRET: &str = "s3cret-4711-variable";

/// Tools pass as they are.
const AS_IS: &str = "pass = [\"skills\", \"tools\"]\npass_tools = \"as-is\"\n";

/// Whether a process is there, unburied if not alive.
fn runs(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Waits until something holds.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    while !holds() {
        interval.tick().await;
        assert!(Instant::now() < deadline, "{what}");
    }
}

async fn is_up(gateway: &Gateway, label: &str) -> Value {
    gateway
        .origin_when(label, "is up", |item| item["state"] == "up" && item["skills"] == 1)
        .await
}

/// Waits until the origin is told of with these words.
async fn is_told_of(gateway: &Gateway, label: &str, words: &str) {
    let says = |item: &Value| item["last_error"].as_str().is_some_and(|told| told.contains(words));
    let what = format!("is told of with {words:?}");
    let told = gateway.origin_when(label, &what, says).await;
    assert_eq!(told["state"], "down", "{told}");
}

#[tokio::test]
async fn a_program_is_an_origin_like_any_other_and_sees_nothing_of_ours_but_what_it_needs() {
    // of case P4, what stands in the environment.
    let world = World::with(&[refunds()]);
    let more = "env = { ACME_KEY = \"${env:ACME_SECRET}\", LANG = \"C\" }\ncwd = \"/\"\n";
    let gateway = Setup::new()
        .set("log.level = \"trace\"")
        .env("ACME_SECRET", SECRET)
        .table(&world.origin("honest", more))
        .start()
        .await;
    let seen = is_up(&gateway, "honest").await;
    assert_eq!((&seen["kind"], &seen["era"]), (&json!("stdio"), &json!(client::MODERN)));
    let address = seen["address"].as_str().unwrap();
    assert!(
        address.starts_with("run python3 /") && address.ends_with(" in /"),
        "{address}"
    );
    assert!(!seen.to_string().contains(SECRET), "{seen}");
    gateway.approve("honest/refunds").await;
    let host = gateway.host();
    for path in ["SKILL.md", "references/limits.md", "assets/form.bin"] {
        let read = host.read(&format!("skill://honest/refunds/{path}")).await;
        assert_eq!(read.bytes(), refunds().bytes(path));
    }
    let notes = world.notes("honest");
    assert_eq!(notes.told("cwd"), "/");
    let env: serde_json::Map<String, Value> = serde_json::from_str(&notes.told("env")).unwrap();
    assert_eq!((&env["ACME_KEY"], &env["LANG"]), (&json!(SECRET), &json!("C")));
    // A shell in front of the program sets some by itself.
    let known = "PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TERM TMPDIR TZ ACME_KEY PWD OLDPWD SHLVL _";
    let is_known = |name: &str| name.contains("PYENV") || known.split(' ').any(|known| known == name);
    let unknown: Vec<_> = env.keys().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(notes.count("starts"), 1, "one process for all of it");
    assert!(!gateway.stderr().contains(SECRET), "a secret in the log");
    gateway.finish().await;
    assert!(!notes.processes().into_iter().any(runs), "it ends with the gateway");
}

#[tokio::test]
async fn older_programs_are_spoken_with_whatever_they_do_to_the_probe() {
    // cases C1 and C4, over a pipe: refusal, exit, silence.
    let world = World::with(&[refunds()]);
    let gateway = Setup::new()
        .table(&world.origin("older", ""))
        .table(&world.origin("exits", ""))
        .table(&world.origin("silent", "timeout = \"3s\"\n"))
        .start()
        .await;
    for mode in ["older", "exits", "silent"] {
        let seen = is_up(&gateway, mode).await;
        assert_eq!(
            (&seen["era"], &seen["last_error"]),
            (&json!(client::LEGACY), &Value::Null),
            "{mode}"
        );
        let notes = world.notes(mode);
        eventually("it is listed again", || notes.count("skills/list") >= 3).await;
        assert_eq!(notes.count("server/discover"), 1, "{mode}: it is probed once");
        assert_eq!(notes.count("starts"), 2, "{mode}: once for each way");
        let last = *notes.processes().last().unwrap();
        kill(last);
        eventually("it is started again", || notes.count("starts") >= 3).await;
        is_up(&gateway, mode).await;
        assert_eq!(notes.count("server/discover"), 1, "{mode}: what is known is remembered");
    }
    gateway.finish().await;
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_program_that_misbehaves_is_told_of_and_hurts_nobody_else() {
    // case B1.
    let world = World::with(&[refunds()]);
    let good = Origin::with([refunds()]);
    let nothing = "[[origin]]\nlabel = \"nothing\"\nrefresh = \"1s\"\ncommand = [\"no-such-program\", \"x y\"]\n";
    let gateway = Setup::new()
        .origin("good", &good)
        .env("ACME_SECRET", SECRET)
        .set("log.level = \"debug\"")
        .table(&world.origin("banner", ""))
        .table(&world.origin("flood", "env = { ACME_KEY = \"${env:ACME_SECRET}\" }\n"))
        .table(&world.origin("dies", ""))
        .table(&world.origin("half", "timeout = \"2s\"\n"))
        .table(&world.origin("endless", ""))
        .table(nothing)
        .start()
        .await;
    for label in ["good", "banner", "flood"] {
        is_up(&gateway, label).await;
        gateway.approve(&format!("{label}/refunds")).await;
    }
    let told = [
        (
            "dies",
            "its process ended with exit code 3; its last words: Traceback: out of memory",
        ),
        ("half", "did not answer within 2s"),
        ("endless", "over 16777216 bytes long"),
        (
            "nothing",
            "its program cannot be run; its last words: the program cannot be started: no-such-program: No such file",
        ),
    ];
    for (label, words) in told {
        is_told_of(&gateway, label, words).await;
    }
    let host = gateway.host();
    for label in ["good", "banner", "flood"] {
        let read = host.read(&format!("skill://{label}/refunds/SKILL.md")).await;
        assert_eq!(read.bytes(), refunds().bytes("SKILL.md"), "{label}");
    }
    let said = gateway.stderr();
    assert!(said.contains("its process says: ") && said.contains("more lines than are kept"));
    assert!(!said.contains(SECRET), "a secret in the log");
    assert!(said.len() < 4_000_000, "{} bytes of log", said.len());
    assert_eq!(unburied(&gateway), Vec::<i32>::new());
    let fewest = world.notes("dies").count("starts");
    assert!(fewest >= 2, "it is tried again");
    gateway.finish().await;
    let mut ran = ["banner", "flood", "dies", "half", "endless"].into_iter();
    assert!(!ran.any(|mode| world.notes(mode).processes().into_iter().any(runs)));
}

/// The gateway's children that are dead and not waited for (proc(5)).
fn unburied(gateway: &Gateway) -> Vec<i32> {
    let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let processes = fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_unburied = |pid: &i32| {
        let stat = stat(*pid);
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.first() == Some(&"Z") && fields.get(1) == Some(&gateway.process_id().to_string().as_str())
    };
    // One that has just died is waited for at once.
    let first: BTreeSet<i32> = pids.filter(is_unburied).collect();
    std::thread::sleep(Duration::from_millis(200));
    first.into_iter().filter(is_unburied).collect()
}

#[tokio::test]
async fn a_program_that_says_nothing_any_more_is_replaced() {
    // case B8.
    let world = World::with(&[refunds()]);
    let gateway = Setup::new()
        .table(&world.origin("hangs-once", "timeout = \"2s\"\n"))
        .start()
        .await;
    is_up(&gateway, "hangs-once").await;
    let notes = world.notes("hangs-once");
    assert_eq!(notes.count("starts"), 2);
    let first = *notes.processes().first().unwrap();
    eventually("the first one ends", || !runs(first)).await;
    gateway.finish().await;
}

#[tokio::test]
async fn nothing_of_a_program_is_left_behind_however_the_gateway_ends() {
    let world = World::with(&[refunds()]);
    let mut gateway = Setup::new().table(&world.origin("stubborn", "")).start().await;
    let notes = world.notes("stubborn");
    for ends_in_order in [true, false] {
        is_up(&gateway, "stubborn").await;
        let processes = notes.processes();
        assert!(
            processes.len() >= 2 && processes.iter().any(|pid| runs(*pid)),
            "{processes:?}"
        );
        if ends_in_order {
            assert_eq!(gateway.stop().await, 0, "{}", gateway.stderr());
            assert!(
                !processes.into_iter().any(runs),
                "it neither hears SIGTERM nor the end of its input"
            );
        } else {
            gateway.kill().await;
            eventually("all of it ends", || !processes.iter().any(|pid| runs(*pid))).await;
        }
        gateway.start().await;
    }
    is_up(&gateway, "stubborn").await;
    gateway.finish().await;
    assert!(!notes.processes().into_iter().any(runs));
}

#[tokio::test]
async fn a_program_is_heard_however_much_it_complains() {
    // case E1: before each answer, and without an end of any line.
    let world = World::with(&[refunds()]);
    let gateway = Setup::new()
        .set("log.level = \"debug\"")
        .table(&world.origin("complains", ""))
        .table(&world.origin("mutters", ""))
        .start()
        .await;
    for mode in ["complains", "mutters"] {
        is_up(&gateway, mode).await;
        gateway.approve(&format!("{mode}/refunds")).await;
        for path in ["SKILL.md", "references/limits.md", "assets/form.bin"] {
            let read = gateway.host().read(&format!("skill://{mode}/refunds/{path}")).await;
            assert_eq!(read.bytes(), refunds().bytes(path), "{mode}");
        }
        assert_eq!(world.notes(mode).count("starts"), 1, "{mode}");
    }
    let said = gateway.stderr().len();
    assert!(said < 1_000_000, "{said} bytes of log");
    gateway.finish().await;
    let mut ran = ["complains", "mutters"].into_iter();
    assert!(!ran.any(|mode| world.notes(mode).processes().into_iter().any(runs)));
}

/// A call whose text makes the message so long.
fn echo(text: usize, bytes: usize) -> (Value, String) {
    let text = "x".repeat(text);
    let digest = Digest::of(text.as_bytes()).hex();
    let call = json!({ "name": "echo__echo", "arguments": { "text": text, "bytes": bytes } });
    (call, digest)
}

#[tokio::test]
async fn lines_of_every_length_pass_whole_both_ways_with_notices_between() {
    // case E2.
    let world = World::with(&[refunds()]);
    let gateway = Setup::new()
        .set("limits.request_bytes = \"32 MiB\"")
        .set("limits.answer_bytes = \"32 MiB\"")
        .table(&world.origin("echo", AS_IS))
        .start()
        .await;
    is_up(&gateway, "echo").await;
    for mut pipe in [Pipe::command(&gateway, None), Pipe::socket(&gateway, None).await] {
        let mut around = 300;
        for bytes in [16_383, 16_384, 65_535, 65_536, 65_537, 25_000_000] {
            // What is around the text in the line to the program is known from the call before.
            for text in [bytes - 300, bytes - around] {
                let (call, digest) = echo(text, bytes);
                let answer = pipe.ask("tools/call", call).await;
                let told = &answer.result()["structuredContent"];
                assert_eq!(told["digest"], digest.as_str(), "{bytes}");
                let sent = answer.result()["content"][0]["text"].as_str().unwrap();
                assert!(
                    sent.bytes().all(|byte| byte == b'x') && sent.len() + 300 > bytes,
                    "{bytes}"
                );
                around = usize::try_from(told["line"].as_u64().unwrap()).unwrap() - text;
            }
        }
    }
    assert_eq!(world.notes("echo").count("starts"), 1);
    gateway.finish().await;
}

/// A host's session from its handshake to its end, with a call that the origin answers.
async fn visit(gateway: &Gateway, door: usize) {
    let (call, digest) = echo(100, 1000);
    let answer = match door {
        0 => gateway.host().ask("tools/call", call).await,
        1 => Pipe::command(gateway, None).ask("tools/call", call).await,
        _ => Pipe::socket(gateway, None).await.ask("tools/call", call).await,
    };
    assert_eq!(answer.result()["structuredContent"]["digest"], digest.as_str());
}

#[tokio::test]
async fn neither_hosts_that_come_and_go_nor_deaths_leave_a_process_behind() {
    // case E3, with a shell between us and the server.
    let world = World::with(&[refunds()]);
    let mut gateway = Setup::new().table(&world.in_a_shell("echo", AS_IS)).start().await;
    let notes = world.notes("echo");
    is_up(&gateway, "echo").await;
    join_all((0..50).map(|host| visit(&gateway, host % 3))).await;
    assert_eq!(notes.count("starts"), 1, "one process for all of them");
    for death in 1..=20 {
        kill(notes.newest());
        eventually("it is started again", || notes.count("starts") > death).await;
        is_up(&gateway, "echo").await;
    }
    visit(&gateway, 0).await;
    assert_eq!((notes.count("starts"), notes.count("shell")), (21, 21));
    assert_eq!(unburied(&gateway), Vec::<i32>::new());
    let alive = || notes.processes().into_iter().filter(|pid| runs(*pid)).count();
    assert_eq!(alive(), 2, "one, and its shell");
    gateway.kill().await;
    eventually("all of it ends", || alive() == 0).await;
    gateway.start().await;
    is_up(&gateway, "echo").await;
    gateway.finish().await;
    assert_eq!(alive(), 0);
}

#[tokio::test]
async fn a_program_that_ends_after_its_first_answer_is_started_less_and_less_often() {
    // case E4.
    let world = World::with(&[refunds()]);
    let gateway = Setup::new().table(&world.origin("honest", "")).start().await;
    is_up(&gateway, "honest").await;
    gateway.approve("honest/refunds").await;
    let file = "skill://honest/refunds/SKILL.md";
    gateway.host().read(file).await.result();
    let notes = world.notes("honest");
    notes.turn();
    is_told_of(
        &gateway,
        "honest",
        "its process ended with exit code 0; its last words: enough for today",
    )
    .await;
    let (begin, starts) = (Instant::now(), notes.count("starts"));
    eventually("it is tried again", || notes.count("starts") >= starts + 4).await;
    // The third wait is at least three seconds, the fourth at least six.
    assert!(begin.elapsed() > Duration::from_secs(9), "{:?}", begin.elapsed());
    let read = gateway.host().read(file).await;
    assert_eq!(read.bytes(), refunds().bytes("SKILL.md"));
    assert_eq!(unburied(&gateway), Vec::<i32>::new());
    gateway.finish().await;
}
