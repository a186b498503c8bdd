//! What the record tells operators, and other tools.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncBufReadExt as _;
use tokio::io::BufReader;

use crate::support::gateway::Ended;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

/// What the kernel calls whoever runs the tests.
fn me() -> String {
    format!("uid:{}", rustix::process::getuid().as_raw())
}

/// The items of JSON that a command printed, in an array or one a line.
fn lines(ended: &Ended) -> Vec<Value> {
    if ended.out.starts_with('[') {
        return ended.json().as_array().unwrap().clone();
    }
    ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn actions(ended: &Ended) -> Vec<String> {
    lines(ended)
        .iter()
        .map(|leaf| leaf["action"].as_str().unwrap().to_owned())
        .collect()
}

/// Two origins of which one skill was approved and one denied.
async fn decided() -> (Origin, Origin, Gateway) {
    let (one, other) = (
        Origin::with([refunds()]),
        Origin::with([Skill::at("skill://x/SKILL.md")]),
    );
    let setup = Setup::new().origin("acme", &one).origin("globex", &other);
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    gateway.skill_is("globex/x", "pending").await;
    gateway
        .cli(&["deny", "globex/x", "--note", "=evil(), \"quoted\""])
        .await
        .expect(0);
    (one, other, gateway)
}

#[tokio::test]
async fn the_log_is_listed_by_origin_skill_person_kind_and_time() {
    let (_one, _other, gateway) = decided().await;
    let log = async |more: &[&str]| {
        let arguments = [&["audit", "log", "--json"], more].concat();
        gateway.cli(&arguments).await.expect(0)
    };
    let all = lines(&log(&[]).await);
    let indexes: Vec<_> = all.iter().map(|leaf| leaf["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, (0..all.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        actions(&log(&["--origin", "globex"]).await),
        ["origin-added", "set-seen", "denied"]
    );
    assert_eq!(
        actions(&log(&["--skill", "acme/refunds"]).await),
        ["set-seen", "approved"]
    );
    let mine = lines(&log(&["--who", &me()]).await);
    assert_eq!(mine.len(), 3, "{mine:?}");
    assert!(mine.iter().all(|leaf| leaf["who"] == me().as_str()));
    assert_eq!(mine[0]["action"], "signed-in");
    let commitment = mine[0]["actor"]["person"].as_str().unwrap();
    assert_eq!(lines(&log(&["--who", commitment]).await), mine);
    assert_eq!(
        actions(&log(&["--kind", "approved", "--kind", "denied"]).await),
        ["approved", "denied"]
    );
    assert_eq!(lines(&log(&["--since", "1h"]).await), all);
    assert!(lines(&log(&["--since", "2200-01-01T00:00:00Z"]).await).is_empty());
    gateway.cli(&["audit", "log", "--kind", "eaten"]).await.expect(64);
    gateway.finish().await;
}

#[tokio::test]
async fn other_tools_get_the_log_in_their_own_forms() {
    let (_one, _other, gateway) = decided().await;
    let export = async |format: &str| {
        let arguments = ["audit", "export", "--format", format, "--origin", "globex"];
        gateway.cli(&arguments).await.expect(0)
    };
    let json = lines(&export("jsonl").await);
    assert_eq!(json.last().unwrap()["note"], "=evil(), \"quoted\"");
    let csv = export("csv").await.out;
    assert!(
        csv.starts_with("index,time,action,who,") && csv.lines().count() == 4,
        "{csv}"
    );
    assert!(csv.contains(",\"'=evil(), \"\"quoted\"\"\","), "{csv}");
    let cef = export("cef").await.out;
    assert!(cef.lines().all(|line| line.starts_with("CEF:0|Portcullis|")), "{cef}");
    assert!(
        cef.contains("act=denied") && cef.contains("msg=\\=evil(), \"quoted\""),
        "{cef}"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn who_follows_the_log_sees_decisions_as_they_are_made() {
    let (_one, _other, gateway) = decided().await;
    let mut follower = gateway
        .command(&["audit", "follow", "--json", "--kind", "revoked"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(follower.stdout.take().unwrap()).lines();
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    let line = told.next_line().await.unwrap().unwrap();
    let leaf: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&leaf["action"], &leaf["label"]), (&"revoked".into(), &"acme".into()));
    follower.kill().await.unwrap();
    gateway.finish().await;
}

#[tokio::test]
async fn a_refused_decision_is_on_the_record_with_its_reason() {
    let (_one, _other, gateway) = decided().await;
    gateway.cli(&["revoke", "globex/x"]).await.expect(1);
    gateway.cli(&["show", "globex/nothing"]).await.expect(1);
    let refused = gateway
        .cli(&["audit", "log", "--json", "--kind", "refused"])
        .await
        .expect(0);
    let refused = lines(&refused);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(
        (&refused[0]["command"], &refused[0]["who"]),
        (&"revoke".into(), &me().into())
    );
    assert!(
        refused[0]["reason"].as_str().unwrap().contains("no approval"),
        "{refused:?}"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_person_leaves_the_record_and_the_record_stays_whole() {
    let (_one, _other, mut gateway) = decided().await;
    gateway.cli(&["audit", "forget", "nobody"]).await.expect(1);
    let forgotten = gateway
        .cli(&["audit", "forget", &me(), "--json"])
        .await
        .expect(0)
        .json();
    let [commitment] = forgotten["people"].as_array().unwrap().as_slice() else {
        panic!("{forgotten:#}")
    };
    let commitment = commitment.as_str().unwrap();
    let approved = gateway
        .cli(&["audit", "log", "--json", "--kind", "approved"])
        .await
        .expect(0);
    let approved = lines(&approved);
    assert_eq!(approved[0]["actor"]["person"], commitment);
    assert!(approved[0].get("who").is_none(), "{approved:?}");
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    let revoked = gateway
        .cli(&["audit", "log", "--json", "--kind", "revoked"])
        .await
        .expect(0);
    assert_ne!(
        lines(&revoked)[0]["actor"]["person"],
        commitment,
        "nobody is known again"
    );
    gateway.restart().await;
    gateway.finish().await;
}
