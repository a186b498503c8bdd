//! With every origin gone, what was approved and stored goes on being served.

use std::fs;

use crate::support::REFUNDS;
use crate::support::client::Answer;
use crate::support::client::Host;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill;
use crate::support::skill::Skill;

/// A skill that is approved and never read.
const UNREAD: &str = "skill://acme/unread/SKILL.md";

/// Files that were read once.
const READ: [&str; 2] = ["skill://acme/refunds/SKILL.md", "skill://acme/refunds/assets/form.bin"];

/// A gateway that has seen its origin, and two files of it.
async fn gateway() -> (Origin, Gateway) {
    let origin = Origin::with([refunds(), Skill::at("skill://unread/SKILL.md")]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.approve("acme/unread").await;
    for uri in READ {
        gateway.host().read(uri).await.result();
    }
    (origin, gateway)
}

/// Everything that a host is given: the listing, the entries, the files.
async fn everything(host: &Host) -> Vec<Answer> {
    let mut answers = vec![host.list().await];
    for uri in [READ[0], UNREAD] {
        answers.push(host.get(uri).await);
    }
    for uri in READ {
        answers.push(host.read(uri).await);
    }
    answers
}

/// Waits until the gateway knows that its origin does not answer.
async fn origin_is_down(gateway: &Gateway) {
    gateway
        .origin_when("acme", "is down", |item| item["last_error"].is_string())
        .await;
}

#[tokio::test]
async fn approved_and_stored_skills_outlive_their_origin_and_a_restart() {
    // case M8.
    let (mut origin, mut gateway) = gateway().await;
    let before = everything(&gateway.host()).await;
    origin.stop().await;
    gateway.restart().await;
    origin_is_down(&gateway).await;
    let after = everything(&gateway.host()).await;
    for (before, after) in before.iter().zip(&after) {
        for member in ["skills", "skill", "contents"] {
            assert_eq!(before.result().get(member), after.result().get(member));
        }
    }
    for answer in &after[1..] {
        assert_eq!(
            answer.result()["_meta"]["dev.portcullis/stale"],
            true,
            "{}",
            answer.text
        );
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_file_that_is_not_stored_says_that_the_origin_is_down() {
    // case M8.
    let (mut origin, mut gateway) = gateway().await;
    origin.stop().await;
    gateway.restart().await;
    origin_is_down(&gateway).await;
    for host in [gateway.host(), Host::legacy(gateway.mcp()).await] {
        let answer = host.read(UNREAD).await;
        let data = answer.refusal(-32603);
        assert_eq!(data["dev.portcullis/reason"], "origin-down");
        assert_eq!(data["dev.portcullis/origin"], "acme");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn an_origin_that_comes_back_is_found_back() {
    // case B3.
    let (mut origin, mut gateway) = gateway().await;
    origin.stop().await;
    gateway.restart().await;
    origin_is_down(&gateway).await;
    origin.restart();
    gateway
        .origin_when("acme", "is back", |item| item["last_error"].is_null())
        .await;
    let answer = gateway.host().read(UNREAD).await;
    assert_eq!(answer.bytes(), Skill::at("skill://unread/SKILL.md").bytes("SKILL.md"));
    assert_ne!(answer.result()["_meta"]["dev.portcullis/stale"], true);
    gateway.finish().await;
}

#[tokio::test]
async fn a_lost_index_changes_no_answer() {
    // of case M9, the index.
    let (mut origin, mut gateway) = gateway().await;
    origin.stop().await;
    gateway.restart().await;
    origin_is_down(&gateway).await;
    let before = everything(&gateway.host()).await;
    assert_eq!(gateway.stop().await, 0);
    fs::remove_dir_all(gateway.data().join("index")).unwrap();
    gateway.start().await;
    origin_is_down(&gateway).await;
    for (before, after) in before.iter().zip(everything(&gateway.host()).await) {
        assert_eq!(result_text(before), result_text(&after));
    }
    gateway.finish().await;
}

#[tokio::test]
async fn an_old_index_ends_no_approval() {
    let mut origin = Origin::with([refunds().edited(skill::without_sizes)]);
    let settings = "refresh = \"1s\"\nrepair = [\"size\"]";
    let mut gateway = Setup::new().origin_with("acme", &origin, settings).start().await;
    gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(gateway.stop().await, 0);
    let (index, old) = (gateway.data().join("index"), gateway.data().with_file_name("old"));
    disk::copy_folder(&index, &old);
    gateway.start().await;
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    gateway.approve("acme/refunds").await;
    origin.change_file(REFUNDS, "references/limits.md", "# No limits\n");
    gateway.skill_is("acme/refunds", "changed").await;
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    let set = gateway.approve("acme/refunds").await;
    assert_eq!(gateway.stop().await, 0);
    origin.stop().await;
    fs::remove_dir_all(&index).unwrap();
    disk::copy_folder(&old, &index);
    gateway.start().await;
    let seen = gateway.skill_is("acme/refunds", "approved").await;
    assert_eq!(seen["served_set"], set.as_str());
    gateway.finish().await;
}

#[tokio::test]
async fn the_index_can_be_made_anew_by_hand() {
    let (_origin, mut gateway) = gateway().await;
    let before = everything(&gateway.host()).await;
    assert_eq!(gateway.stop().await, 0);
    gateway.cli(&["rebuild-index"]).await.expect(0);
    gateway.start().await;
    gateway.skill_is("acme/unread", "approved").await;
    for (before, after) in before.iter().zip(everything(&gateway.host()).await) {
        assert_eq!(before.result()["contents"], after.result()["contents"]);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn run_offline_it_opens_no_connection() {
    let (origin, mut gateway) = gateway().await;
    assert_eq!(gateway.stop().await, 0);
    let asked = origin.log().len();
    gateway.start_with("--offline").await;
    let answers = everything(&gateway.host()).await;
    for answer in &answers {
        answer.result();
    }
    assert_eq!(gateway.host().read(UNREAD).await.reason(), "origin-down");
    assert_eq!(origin.log().len(), asked);
    gateway.finish().await;
}

#[tokio::test]
async fn an_origin_that_was_silent_for_too_long_is_served_no_more() {
    let origin = Origin::with([refunds()]);
    let settings = "refresh = \"1s\"\nmax_stale = \"3s\"";
    let mut gateway = Setup::new().origin_with("acme", &origin, settings).start().await;
    gateway.approve("acme/refunds").await;
    let mut origin = origin;
    origin.stop().await;
    gateway
        .skill_when("acme/refunds", "not served", |item| item["served_set"].is_null())
        .await;
    assert_eq!(gateway.host().read(READ[0]).await.reason(), "held");
    gateway.restart().await;
    assert_eq!(
        gateway.host().read(READ[0]).await.reason(),
        "held",
        "a restart does not make it fresh"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn two_origins_with_one_uri_stay_two_when_both_are_gone() {
    // case A5.
    let other = || Skill::at("skill://refunds/SKILL.md").text("assets/form.bin", "another form");
    let (mut acme, mut globex) = (Origin::with([refunds()]), Origin::with([other()]));
    let setup = Setup::new().origin("acme", &acme).origin("globex", &globex);
    let mut gateway = setup.start().await;
    let both = [("acme", refunds()), ("globex", other())];
    for (label, skill) in &both {
        gateway.approve(&format!("{label}/refunds")).await;
        gateway.cli(&["pull", &format!("{label}/refunds")]).await.expect(0);
        let read = gateway
            .host()
            .read(&format!("skill://{label}/refunds/assets/form.bin"))
            .await;
        assert_eq!(read.bytes(), skill.bytes("assets/form.bin"));
    }
    acme.stop().await;
    globex.stop().await;
    gateway.restart().await;
    for (label, skill) in &both {
        for path in ["SKILL.md", "assets/form.bin"] {
            let read = gateway.host().read(&format!("skill://{label}/refunds/{path}")).await;
            assert_eq!(read.bytes(), skill.bytes(path), "{label} {path}");
            assert_eq!(read.result()["_meta"]["dev.portcullis/origin"], *label);
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn what_came_without_hints_from_an_older_server_is_kept_too() {
    // case M6.
    let mut origin = Origin::speaking(Era::Legacy, Answers::Json, [refunds()]);
    let mut gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.host().read(READ[1]).await.result();
    gateway.host().read(READ[1]).await.result();
    assert_eq!(origin.reads().len(), 1, "bytes go by their digest");
    origin.is_asked_again("skills/list").await;
    origin.stop().await;
    gateway.restart().await;
    assert_eq!(gateway.host().uris().await, [READ[0]]);
    assert_eq!(
        gateway.host().read(READ[1]).await.bytes(),
        refunds().bytes("assets/form.bin")
    );
    gateway.finish().await;
}

/// The body from its result on; ids differ by order alone.
fn result_text(answer: &Answer) -> &str {
    let (_, result) = answer.text.split_once("\"result\"").unwrap();
    result
}
