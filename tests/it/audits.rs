//! The record as auditors see it: checks, proofs, keys and tiles, from the real program.

use std::fs;

use serde_json::Value;

use crate::support::client;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;

/// A gateway whose log has leaves about the skills of a folder.
pub(crate) async fn with_leaves() -> Gateway {
    let gateway = Setup::new().folder("samples", &samples()).start().await;
    for skill in ["release-notes", "teams/onboarding"] {
        gateway.approve(&format!("samples/{skill}")).await;
    }
    gateway.cli(&["revoke", "samples/release-notes"]).await.expect(0);
    gateway
}

fn samples() -> std::path::PathBuf {
    std::path::absolute("tests/fixtures/skills").unwrap()
}

/// The key that the log's checkpoints are verified with now.
pub(crate) async fn key(gateway: &Gateway) -> String {
    let keys = gateway.cli(&["audit", "key", "--json"]).await.expect(0).json();
    keys["key"].as_str().unwrap().to_owned()
}

/// The newest checkpoint, kept in a file; gives its path.
pub(crate) async fn keep_checkpoint(gateway: &Gateway, name: &str) -> String {
    let url = format!("{}/log/checkpoint", gateway.admin());
    let checkpoint = client::http().get(url).send().await.unwrap().bytes().await.unwrap();
    let path = gateway.data().with_file_name(name);
    disk::write(&path, &checkpoint);
    path.to_str().unwrap().to_owned()
}

fn size_of(checkpoint: &str) -> u64 {
    fs::read_to_string(checkpoint)
        .unwrap()
        .lines()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn a_proof_is_checked_with_the_key_alone() {
    let gateway = with_leaves().await;
    let vkey = key(&gateway).await;
    let file = gateway.data().with_file_name("leaf.tlog-proof");
    let path = file.to_str().unwrap();
    gateway.cli(&["audit", "prove", "1", "--out", path]).await.expect(0);
    let printed = gateway.cli(&["audit", "prove", "1"]).await.expect(0).out;
    assert_eq!(fs::read_to_string(&file).unwrap(), printed);
    gateway.cli(&["audit", "prove", "100000"]).await.expect(1);
    // On another machine: no configuration, no data folder, no gateway.
    let alone = ["--config", "/nonexistent.toml", "audit", "check", path, "--key", &vkey];
    let checked = gateway
        .cli_elsewhere(&[&alone[..], &["--json"]].concat())
        .await
        .expect(0)
        .json();
    assert_eq!(
        (&checked["valid"], &checked["index"]),
        (&Value::Bool(true), &Value::from(1))
    );
    let said = gateway.cli_elsewhere(&alone).await.expect(0).out;
    assert!(said.contains("leaf 1 of portcullis/") && said.contains(checked["leaf"]["action"].as_str().unwrap()));
    let good = fs::read(&file).unwrap();
    for at in (0..good.len()).step_by(41) {
        let mut bad = good.clone();
        bad[at] ^= 4;
        disk::write(&file, &bad);
        gateway.cli_elsewhere(&alone).await.expect(1);
    }
    disk::write(&file, &good);
    let other = Setup::new().start().await;
    let stranger = key(&other).await;
    let refused = gateway
        .cli(&["audit", "check", path, "--key", &stranger])
        .await
        .expect(1);
    assert!(refused.err.contains("not signed by"), "{}", refused.err);
    gateway
        .cli(&["audit", "check", path, "--key", "no key"])
        .await
        .expect(64);
    other.finish().await;
    gateway.finish().await;
}

#[tokio::test]
async fn consistency_holds_between_any_two_points_of_one_log() {
    let gateway = with_leaves().await;
    let old = keep_checkpoint(&gateway, "old").await;
    gateway.approve("samples/release-notes").await;
    let new = keep_checkpoint(&gateway, "new").await;
    let found = gateway
        .cli(&["audit", "consistency", &old, &new, "--json"])
        .await
        .expect(0)
        .json();
    assert_eq!(
        (found["old"]["size"].as_u64(), found["new"]["size"].as_u64()),
        (Some(size_of(&old)), Some(size_of(&new)))
    );
    assert!(!found["proof"].as_array().unwrap().is_empty());
    gateway.cli(&["audit", "consistency", "0", &old]).await.expect(0);
    gateway.cli(&["audit", "consistency", "2", "3"]).await.expect(0);
    let backwards = gateway.cli(&["audit", "consistency", &new, &old]).await.expect(1);
    assert!(backwards.out.contains("cannot go on"), "{}", backwards.out);
    gateway.cli(&["audit", "consistency", &old, "100000"]).await.expect(1);
    gateway
        .cli(&["audit", "consistency", &old, "no-such-file"])
        .await
        .expect(64);
    let other = with_leaves().await;
    let strange = keep_checkpoint(&other, "strange").await;
    let refused = gateway.cli(&["audit", "consistency", &strange, &new]).await.expect(1);
    assert!(refused.out.contains("no key of this log"), "{}", refused.out);
    gateway.cli(&["audit", "verify", "--from", &old]).await.expect(0);
    let refused = gateway.cli(&["audit", "verify", "--from", &strange]).await.expect(1);
    assert!(refused.out.contains("no key of this log"), "{}", refused.out);
    other.finish().await;
    gateway.finish().await;
}

#[tokio::test]
async fn another_key_signs_after_a_rotation_and_both_are_verified() {
    let mut gateway = with_leaves().await;
    let (first, old) = (key(&gateway).await, keep_checkpoint(&gateway, "old").await);
    let rotated = gateway
        .cli(&["audit", "rotate-key", "--note", "yearly", "--json"])
        .await
        .expect(0)
        .json();
    let second = key(&gateway).await;
    assert_eq!(rotated["key"].as_str(), Some(second.as_str()));
    assert_ne!(first, second);
    gateway.approve("samples/release-notes").await;
    gateway.restart().await;
    assert_eq!(key(&gateway).await, second);
    for kept in [&first, &second] {
        gateway
            .cli(&["audit", "verify", "--from", &old, "--key", kept])
            .await
            .expect(0);
    }
    let said = gateway.cli(&["audit", "key"]).await.expect(0).out;
    assert!(said.contains(&first) && said.starts_with(&second), "{said}");
    // Without a gateway as well.
    assert_eq!(gateway.stop().await, 0);
    gateway.cli(&["audit", "rotate-key"]).await.expect(0);
    let new = gateway.data().join("log/checkpoint");
    gateway
        .cli(&["audit", "consistency", &old, new.to_str().unwrap()])
        .await
        .expect(0);
    gateway.finish().await;
}

#[tokio::test]
async fn tiles_are_served_under_their_names_and_nothing_else_is() {
    let gateway = with_leaves().await;
    let get = async |path: &str| {
        client::http()
            .get(format!("{}{path}", gateway.admin()))
            .send()
            .await
            .unwrap()
    };
    let checkpoint = get("/log/checkpoint").await;
    assert_eq!(checkpoint.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(checkpoint.headers()["cache-control"], "no-cache");
    let text = checkpoint.text().await.unwrap();
    let size: usize = text.lines().nth(1).unwrap().parse().unwrap();
    let hashes = get(&format!("/log/tile/0/000.p/{size}")).await;
    assert_eq!(hashes.headers()["content-type"], "application/octet-stream");
    assert_eq!(hashes.headers()["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(hashes.bytes().await.unwrap().len(), size * 32);
    assert_eq!(get("/log/tile/0/000.p/1").await.bytes().await.unwrap().len(), 32);
    let entries = get(&format!("/log/tile/entries/000.p/{size}"))
        .await
        .bytes()
        .await
        .unwrap();
    let on_disk = gateway.data().join(format!("log/tile/entries/000.p/{size}"));
    gateway.restores(&on_disk, &entries).await;
    for absent in [
        format!("/log/tile/0/000.p/{}", size + 1),
        "/log/tile/0/000".to_owned(),
        "/log/tile/0/00".to_owned(),
        "/log/tile/0/x000/000".to_owned(),
        "/log/tile/entries/..%2f..%2fjournal".to_owned(),
        "/log/tile/%30/000.p/1".to_owned(),
        "/log/journal".to_owned(),
        "/log/cosigned".to_owned(),
        "/log/".to_owned(),
        "/log".to_owned(),
    ] {
        assert_eq!(get(&absent).await.status(), 404, "{absent}");
    }
    let of_host = |host: &'static str| {
        let request = client::http().get(format!("{}/log/checkpoint", gateway.admin()));
        request.header("host", host).send()
    };
    assert_eq!(of_host("evil.example").await.unwrap().status(), 403);
    assert_eq!(of_host("localhost:1").await.unwrap().status(), 200);
    // Hosts of skills do not see it unless that is configured.
    let mcp = gateway.mcp().trim_end_matches("/mcp").to_owned();
    assert_eq!(
        client::http()
            .get(format!("{mcp}/log/checkpoint"))
            .send()
            .await
            .unwrap()
            .status(),
        404
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_published_log_needs_no_token_and_opens_nothing_else() {
    let setup = Setup::new().set("audit.publish = true").set("server.auth = \"token\"");
    let gateway = setup.folder("samples", &samples()).start().await;
    let mcp = gateway.mcp().trim_end_matches("/mcp").to_owned();
    let get = async |path: &str| {
        client::http()
            .get(format!("{mcp}{path}"))
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(get("/log/checkpoint").await, 200);
    assert_eq!(get("/log/tile/0/000.p/1").await, 200);
    assert_eq!(get("/log/nothing").await, 404);
    assert_eq!(get("/mcp").await, 401);
    let of_host = client::http()
        .get(format!("{mcp}/log/checkpoint"))
        .header("host", "evil.example");
    assert_eq!(of_host.send().await.unwrap().status(), 403);
    gateway.finish().await;
}

#[tokio::test]
async fn an_attestation_is_checked_with_the_key_alone() {
    let gateway = with_leaves().await;
    let file = gateway.data().with_file_name("skill.intoto.json");
    let path = file.to_str().unwrap();
    let key = key(&gateway).await;
    gateway
        .cli(&["attest", "samples/teams/onboarding", "--out", path])
        .await
        .expect(0);
    let checked = gateway
        .cli(&["audit", "check", path, "--key", &key, "--json"])
        .await
        .expect(0)
        .json();
    assert_eq!(checked["leaf"]["action"], "approved");
    let shown = gateway
        .cli(&["show", "samples/teams/onboarding", "--json"])
        .await
        .expect(0)
        .json();
    let lock = checked["lock"].as_str().unwrap();
    assert!(lock.contains(shown["set"].as_str().unwrap()), "{lock}");
    let text = fs::read_to_string(&file).unwrap();
    disk::write(
        &file,
        text.replacen("\"payload\":\"eyJ", "\"payload\":\"eyK", 1).as_bytes(),
    );
    gateway.cli(&["audit", "check", path, "--key", &key]).await.expect(1);
    let refused = gateway.cli(&["attest", "samples/release-notes"]).await.expect(1);
    assert!(refused.err.contains("revoked"), "{}", refused.err);
    gateway.finish().await;
}
