//! A disk without room: what opens fails, what closes is in force, reads go on, and everything works when there is room.

use serde_json::Value;

use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

const REFUNDS: &str = "skill://acme/refunds/SKILL.md";

/// Two skills of which one is approved and was read, on a disk that is full.
async fn full() -> (Origin, Gateway) {
    let origin = Origin::with([refunds(), Skill::at("skill://travel/SKILL.md")]);
    let setup = Setup::new().origin("acme", &origin).on_a_small_disk();
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    gateway.skill_is("acme/travel", "pending").await;
    gateway.host().read(REFUNDS).await.result();
    gateway.stores("acme/refunds", "SKILL.md").await;
    gateway.fill_disk();
    (origin, gateway)
}

/// More than what may be left of the log's last page on the disk.
fn long_note() -> String {
    "\u{1d11e}".repeat(1_500)
}

async fn set_of(gateway: &Gateway, skill: &str) -> String {
    let shown = gateway.cli(&["show", skill, "--json"]).await.expect(0).json();
    shown["set"].as_str().unwrap().to_owned()
}

/// The kinds of leaves about a skill.
async fn recorded(gateway: &Gateway, skill: &str) -> Vec<String> {
    let log = gateway
        .cli(&["audit", "log", "--json", "--skill", skill])
        .await
        .expect(0);
    let leaves = log.json();
    let action = |leaf: &Value| leaf["action"].as_str().unwrap().to_owned();
    leaves.as_array().unwrap().iter().map(action).collect()
}

#[tokio::test]
async fn approving_fails_with_the_reason_and_works_when_there_is_room() {
    let (_origin, gateway) = full().await;
    let set = set_of(&gateway, "acme/travel").await;
    let approve = ["approve", "acme/travel", "--set", &set, "--note", &long_note()];
    let refused = gateway.cli(&approve).await.expect(2);
    assert!(refused.err.contains("no space left"), "{}", refused.err);
    assert_eq!(gateway.host().uris().await, [REFUNDS]);
    gateway.host().read(REFUNDS).await.result();
    gateway.clear_disk();
    gateway.cli(&approve).await.expect(0);
    assert_eq!(gateway.host().uris().await.len(), 2);
    gateway.finish().await;
}

#[tokio::test]
async fn revoking_is_in_force_at_once_and_recorded_when_there_is_room() {
    let (_origin, gateway) = full().await;
    let revoked = gateway
        .cli(&["revoke", "acme/refunds", "--note", &long_note()])
        .await
        .expect(2);
    assert!(
        revoked.err.contains("in force, not yet recorded") && revoked.err.contains("no space left"),
        "{}",
        revoked.err
    );
    assert_closed_until_there_is_room(gateway).await;
}

#[tokio::test]
async fn recalling_is_in_force_at_once_and_recorded_when_there_is_room() {
    for what in ["acme/refunds", "acme"] {
        let (_origin, gateway) = full().await;
        gateway.cli(&["recall", what, "--note", &long_note()]).await.expect(2);
        assert_closed_until_there_is_room(gateway).await;
    }
}

async fn assert_closed_until_there_is_room(gateway: Gateway) {
    let own = crate::support::client::Host::modern(&gateway.mcp_of("acme"));
    for (host, uri) in [(gateway.host(), REFUNDS), (own, "skill://refunds/SKILL.md")] {
        assert_eq!(host.uris().await, [""; 0]);
        assert_eq!(host.read(uri).await.reason(), "held");
    }
    assert!(!recorded(&gateway, "acme/refunds").await.contains(&"revoked".to_owned()));
    let unwell = gateway.cli(&["health"]).await.expect(1);
    assert!(unwell.err.contains("not yet on the record"), "{}", unwell.err);
    gateway.clear_disk();
    gateway.says("that had no room is on the record now", 1).await;
    gateway.is_well().await;
    assert_eq!(recorded(&gateway, "acme/refunds").await.last().unwrap(), "revoked");
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.skill_is("acme/refunds", "revoked").await;
    gateway.finish().await;
}
