//! Lock files: what is served, for review as text, and whether that is still so.

use std::path::PathBuf;

use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

async fn two_skills() -> (Origin, Gateway) {
    let origin = Origin::with([refunds(), Skill::at("skill://travel/SKILL.md")]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.skill_is("acme/travel", "pending").await;
    (origin, gateway)
}

/// Writes what `lock` prints into a file.
async fn lock(gateway: &Gateway, flags: &[&str]) -> (PathBuf, String) {
    let text = gateway.cli(&[&["lock"], flags].concat()).await.expect(0).out;
    let file = gateway.data().with_file_name("portcullis.lock");
    disk::write(&file, text.as_bytes());
    (file, text)
}

#[tokio::test]
async fn a_lock_file_names_every_file_that_is_served_and_nothing_else() {
    let (_origin, gateway) = two_skills().await;
    let (file, text) = lock(&gateway, &[]).await;
    let shown = gateway.cli(&["show", "acme/refunds", "--json"]).await.expect(0).json();
    assert!(text.contains(shown["set"].as_str().unwrap()), "{text}");
    for resource in shown["files"].as_array().unwrap() {
        assert!(text.contains(resource["digest"].as_str().unwrap()), "{text}");
    }
    assert!(!text.contains("travel"), "{text}");
    assert_eq!(lock(&gateway, &[]).await.1, text);
    let file = file.to_str().unwrap();
    gateway.cli(&["lock", "--check", file]).await.expect(0);
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    let drift = gateway.cli(&["lock", "--check", file]).await.expect(1);
    assert!(drift.out.contains("-set = \"set1:"), "{}", drift.out);
    let drift = gateway.cli(&["lock", "--check", file, "--json"]).await.expect(1).json();
    assert_eq!(drift["same"], false);
    gateway.finish().await;
}

#[tokio::test]
async fn what_is_seen_can_be_locked_and_drifts_with_its_origin() {
    let (mut origin, mut gateway) = two_skills().await;
    let (file, text) = lock(&gateway, &["--seen"]).await;
    assert!(text.contains("refunds") && text.contains("travel"), "{text}");
    let check = ["lock", "--seen", "--check", file.to_str().unwrap()];
    gateway.cli(&check).await.expect(0);
    let before = gateway.skill_is("acme/travel", "pending").await["set"].clone();
    origin.change("skill://travel/SKILL.md", |skill| skill.set_file("new.md", b"new"));
    gateway
        .skill_when("acme/travel", "another", |item| item["set"] != before)
        .await;
    let drift = gateway.cli(&check).await.expect(1).out;
    assert!(
        drift.contains("+    \"sha256:") && drift.contains("travel/new.md"),
        "{drift}"
    );
    origin.stop().await;
    gateway
        .origin_when("acme", "is stale", |item| item["state"] == "down")
        .await;
    let unknown = gateway.cli(&check).await.expect(2).err;
    assert!(unknown.contains("acme"), "{unknown}");
    assert_eq!(gateway.stop().await, 0);
    gateway.finish().await;
}

#[tokio::test]
async fn what_is_no_lock_file_tells_nothing() {
    let gateway = Setup::new().start().await;
    let file = gateway.data().with_file_name("portcullis.lock");
    let check = ["lock", "--check", file.to_str().unwrap()];
    gateway.cli(&check).await.expect(2);
    disk::write(&file, b"version = 1\nskills = []\n");
    let refused = gateway.cli(&check).await.expect(2).err;
    assert!(refused.contains("portcullis.lock"), "{refused}");
    gateway.finish().await;
}

#[tokio::test]
async fn what_was_reviewed_in_a_lock_file_becomes_approvals_that_name_it() {
    let (origin, gateway) = two_skills().await;
    let (file, _) = lock(&gateway, &["--seen"]).await;
    origin.change("skill://travel/SKILL.md", |skill| skill.set_file("new.md", b"new"));
    let reviewed = gateway.skill_is("acme/travel", "pending").await["set"].clone();
    gateway
        .skill_when("acme/travel", "another", |item| item["set"] != reviewed)
        .await;
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    let from_lock = ["approve", "--from-lock", file.to_str().unwrap()];
    let approved = gateway.cli(&from_lock).await.expect(1).out;
    assert!(
        approved.contains("approved skill://refunds/SKILL.md of acme"),
        "{approved}"
    );
    assert!(
        approved.contains("refused") && approved.contains(reviewed.as_str().unwrap()),
        "{approved}"
    );
    let log = gateway
        .cli(&["audit", "log", "--json", "--kind", "approved"])
        .await
        .expect(0)
        .json();
    let leaves = log.as_array().unwrap();
    assert!(
        leaves.last().unwrap()["lock"].as_str().unwrap().starts_with("sha256:"),
        "{log:#}"
    );
    let (file, _) = lock(&gateway, &["--seen"]).await;
    let from_lock = ["approve", "--from-lock", file.to_str().unwrap(), "--json"];
    let approved = gateway.cli(&from_lock).await.expect(0).json();
    assert_eq!(approved[0]["decided"]["changed"], false, "{approved:#}");
    assert_eq!(approved[1]["decided"]["changed"], true, "{approved:#}");
    assert_eq!(gateway.host().uris().await.len(), 2);
    gateway.cli(&["approve"]).await.expect(64);
    gateway.finish().await;
}
