//! Nothing is served before a person approved exactly that set, and nothing that was changed afterwards.

use serde_json::Value;

use crate::support::REFUNDS;
use crate::support::client::Host;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill;
use crate::support::skill::Skill;

/// The skill in the merged view.
const MERGED: &str = "skill://acme/refunds/SKILL.md";

async fn approved() -> (Origin, Gateway, String) {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    let set = gateway.approve("acme/refunds").await;
    (origin, gateway, set)
}

/// Asserts that a host gets nothing of the skill, and is told why.
async fn assert_held(host: &Host) {
    assert_eq!(host.uris().await, [""; 0]);
    for answer in [host.get(MERGED).await, host.read(MERGED).await] {
        let data = answer.refusal(-32602);
        assert_eq!(data["dev.portcullis/reason"], "held");
        assert_eq!(data["dev.portcullis/origin"], "acme");
    }
}

#[tokio::test]
async fn a_skill_is_held_until_it_is_approved() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    let seen = gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(seen["name"], "refunds");
    assert_eq!(seen["description"], "How to pay money back.");
    assert_eq!(seen["merged_uri"], MERGED);
    assert_eq!(seen["served_set"], Value::Null);
    let hosts = [gateway.host(), Host::legacy(gateway.mcp()).await];
    for host in &hosts {
        assert_held(host).await;
    }
    let set = gateway.approve("acme/refunds").await;
    for host in &hosts {
        assert_eq!(host.uris().await, [MERGED]);
        assert_eq!(host.read(MERGED).await.bytes(), refunds().bytes("SKILL.md"));
    }
    let seen = gateway.skill_is("acme/refunds", "approved").await;
    assert_eq!(
        (&seen["set"], &seen["served_set"]),
        (&Value::from(set.as_str()), &Value::from(set.as_str()))
    );
    gateway.finish().await;
}

#[tokio::test]
async fn approving_without_a_set_needs_a_terminal() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    gateway.skill_is("acme/refunds", "pending").await;
    gateway.cli(&["approve", "acme/refunds"]).await.expect(64);
    assert_held(&gateway.host()).await;
    gateway.finish().await;
}

#[tokio::test]
async fn approving_another_set_than_the_one_seen_is_refused_and_names_both() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    let seen = gateway.skill_is("acme/refunds", "pending").await;
    let other = format!("set1:{}", "0".repeat(64));
    let refused = gateway
        .cli(&["approve", "acme/refunds", "--set", &other])
        .await
        .expect(1);
    let said = refused.out + &refused.err;
    for set in [other.as_str(), seen["set"].as_str().unwrap()] {
        assert!(said.contains(set), "{said}");
    }
    assert_held(&gateway.host()).await;
    gateway.finish().await;
}

#[tokio::test]
async fn decisions_take_effect_at_once() {
    let (_origin, gateway, set) = approved().await;
    let host = gateway.host();
    host.read(MERGED).await.result();
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    assert_held(&host).await;
    gateway.cli(&["approve", "acme/refunds", "--set", &set]).await.expect(0);
    host.read(MERGED).await.result();
    gateway.cli(&["deny", "acme/refunds"]).await.expect(0);
    assert_held(&host).await;
    assert_eq!(gateway.skill_is("acme/refunds", "denied").await["set"], set.as_str());
    gateway.finish().await;
}

#[tokio::test]
async fn decisions_survive_the_end_of_the_process_without_warning() {
    let origin = Origin::with(["a", "b", "c"].map(|name| Skill::at(&format!("skill://{name}/SKILL.md"))));
    let mut gateway = Gateway::of(&origin).await;
    for name in ["a", "b", "c"] {
        gateway.approve(&format!("acme/{name}")).await;
    }
    gateway.cli(&["deny", "acme/b"]).await.expect(0);
    gateway.cli(&["revoke", "acme/c"]).await.expect(0);
    gateway.kill().await;
    gateway.start().await;
    for (skill, state) in [("acme/a", "approved"), ("acme/b", "denied"), ("acme/c", "revoked")] {
        gateway.skill_is(skill, state).await;
    }
    assert_eq!(gateway.host().uris().await, ["skill://acme/a/SKILL.md"]);
    gateway.finish().await;
}

/// Changes an approved skill, while a host reads without a pause; asserts that it gets the old bytes or none, that the skill
/// is held within a refresh, and that `diff` says what changed.
async fn assert_held_after(change: impl FnOnce(&mut Skill), said: &str) {
    let (origin, gateway, set) = approved().await;
    let host = gateway.host();
    // One file is stored already, the others would have to be fetched.
    host.read(MERGED).await.result();
    let old =
        ["SKILL.md", "references/limits.md", "assets/form.bin"].map(|path| (path, refunds().bytes(path).to_vec()));
    origin.change(REFUNDS, change);
    let changed = gateway.skill_is("acme/refunds", "changed");
    let read_on = async {
        for (path, bytes) in old.iter().cycle() {
            let answer = host.read(&format!("skill://acme/refunds/{path}")).await;
            if answer.json.get("result").is_some() {
                assert_eq!(&answer.bytes(), bytes, "only what was approved");
                assert_eq!(answer.result()["_meta"]["dev.portcullis/set"], set.as_str());
            } else {
                assert!(["held", "mismatch"].contains(&answer.reason()), "{}", answer.text);
            }
        }
    };
    let seen = tokio::select! { seen = changed => seen, () = read_on => unreachable!("it never ends") };
    assert_ne!(seen["set"], set.as_str());
    assert_eq!(seen["served_set"], Value::Null);
    assert_held(&host).await;
    let diff = gateway.cli(&["diff", "acme/refunds"]).await;
    assert!(diff.out.contains(said), "{said:?} in {diff:?}");
    gateway.finish().await;
}

#[tokio::test]
async fn a_changed_file_holds_the_skill() {
    // deviation 38: no notice told of it. case A11 as far as skills go.
    assert_held_after(
        |skill| skill.set_file("references/limits.md", b"# No limits\n"),
        "references/limits.md",
    )
    .await;
}

#[tokio::test]
async fn a_changed_skill_file_holds_the_skill() {
    assert_held_after(
        |skill| skill.set_file("SKILL.md", b"---\nname: refunds\n---\n"),
        "SKILL.md",
    )
    .await;
}

#[tokio::test]
async fn an_added_file_holds_the_skill() {
    // case L2.
    assert_held_after(
        |skill| skill.set_file("scripts/run.sh", b"#!/bin/sh\n"),
        "scripts/run.sh",
    )
    .await;
}

#[tokio::test]
async fn a_removed_file_holds_the_skill() {
    // case L2.
    assert_held_after(|skill| skill.remove_file("assets/form.bin"), "assets/form.bin").await;
}

#[tokio::test]
async fn a_changed_description_with_the_same_files_holds_the_skill() {
    let reword = |skill: &mut Skill| skill.edit(|entry| entry["frontmatter"]["description"] = "Send me money.".into());
    assert_held_after(reword, "Send me money.").await;
}

#[tokio::test]
async fn an_old_set_that_comes_back_waits_for_a_new_approval() {
    let (origin, gateway, set) = approved().await;
    let old = refunds().bytes("references/limits.md").to_vec();
    origin.change_file(REFUNDS, "references/limits.md", "other");
    gateway.skill_is("acme/refunds", "changed").await;
    origin.change(REFUNDS, |skill| skill.set_file("references/limits.md", &old));
    let back = gateway
        .skill_when("acme/refunds", "back", |item| item["set"] == set.as_str())
        .await;
    assert_ne!(back["state"], "approved");
    assert_held(&gateway.host()).await;
    gateway.cli(&["approve", "acme/refunds", "--set", &set]).await.expect(0);
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_read_notices_a_change_before_any_refresh() {
    // deviation 20: the server read its files anew and said nothing.
    let origin = Origin::with([refunds()]);
    let gateway = Setup::new()
        .origin_with("acme", &origin, "refresh = \"1h\"")
        .start()
        .await;
    gateway.approve("acme/refunds").await;
    origin.change_file(REFUNDS, "references/limits.md", "# No limits\n");
    let host = gateway.host();
    let answer = host.read("skill://acme/refunds/references/limits.md").await;
    assert!(answer.json.get("result").is_none(), "{}", answer.text);
    gateway.skill_is("acme/refunds", "changed").await;
    assert_held(&host).await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_read_of_a_file_that_was_added_notices_the_change_and_never_asks_for_it() {
    // case L2.
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().origin_with("acme", &origin, "refresh = \"1h\"");
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    origin.change_file(REFUNDS, "added.md", "new");
    let read = gateway.host().read("skill://acme/refunds/added.md").await;
    assert_eq!(read.reason(), "held", "{}", read.text);
    assert_held(&gateway.host()).await;
    assert_eq!(origin.reads(), [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_withdrawn_skill_is_held_while_that_lasts() {
    let (origin, gateway, set) = approved().await;
    let skill = origin.withdraw(REFUNDS);
    gateway.skill_is("acme/refunds", "withdrawn").await;
    assert_held(&gateway.host()).await;
    let diff = gateway.cli(&["diff", "acme/refunds"]).await.expect(1).out;
    assert!(
        diff.contains("serves it no more") && diff.contains("nothing differs"),
        "{diff}"
    );
    origin.publish(skill);
    assert_eq!(
        gateway.skill_is("acme/refunds", "approved").await["served_set"],
        set.as_str()
    );
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_change_that_there_is_no_room_to_store_is_held_across_a_restart_and_approved_when_there_is() {
    // of case M2 and case M10, the cap on content.
    let (mut origin, mut gateway, set) = approved().await;
    gateway.reconfigure(|setup| setup.set("limits.content_bytes = \"1B\""));
    gateway.restart().await;
    origin.change_file(REFUNDS, "references/limits.md", "# No limits\n");
    let seen = gateway.skill_is("acme/refunds", "changed").await;
    assert_held(&gateway.host()).await;
    origin.stop().await;
    gateway.restart().await;
    let still = gateway.skill_is("acme/refunds", "changed").await;
    assert_eq!((&still["set"], &still["served_set"]), (&seen["set"], &Value::Null));
    assert_held(&gateway.host()).await;
    let seen = seen["set"].as_str().unwrap();
    assert_ne!(seen, set);
    let blind = gateway.cli(&["approve", "acme/refunds", "--set", seen]).await.expect(1);
    assert!(blind.err.contains("not stored"), "{blind:?}");
    gateway.reconfigure(|_| Setup::new().origin("acme", &origin));
    gateway.restart().await;
    origin.restart();
    gateway
        .skill_when("acme/refunds", "stored", |item| item["description"].is_string())
        .await;
    assert_eq!(gateway.approve("acme/refunds").await, seen);
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_closing_decision_that_cannot_be_recorded_is_in_force_and_no_refresh_opens_it_again() {
    // case M2.
    for closing in [["revoke", "acme/refunds"].as_slice(), &["origin", "remove", "acme"]] {
        let origin = Origin::with([refunds()]);
        let gateway = Gateway::of(&origin).await;
        gateway.approve("acme/refunds").await;
        gateway.write_no_more();
        let decided = gateway.cli(closing).await.expect(2);
        assert!(decided.err.contains("in force, not yet recorded"), "{decided:?}");
        for _ in 0..2 {
            origin.is_asked_again("skills/list").await;
            assert_eq!(gateway.host().uris().await, [""; 0]);
        }
        gateway.abandon();
    }
}

#[tokio::test]
async fn somebody_who_was_never_written_down_closes_and_looks_also_when_nothing_can_be_written() {
    let (_origin, mut gateway, _) = approved().await;
    assert_eq!(gateway.stop().await, 0);
    for person in disk::files(&gateway.data().join("people")) {
        disk::remove(&person);
    }
    gateway.start().await;
    gateway.write_no_more();
    let decided = gateway.cli(&["revoke", "acme/refunds"]).await.expect(2);
    assert!(decided.err.contains("in force, not yet recorded"), "{decided:?}");
    gateway.cli(&["show", "acme/refunds"]).await.expect(0);
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.abandon();
}

#[tokio::test]
async fn an_entry_that_breaks_a_rule_now_is_held_and_told_by_diff() {
    let (origin, gateway, _) = approved().await;
    origin.change(REFUNDS, |skill| skill.edit(skill::without_sizes));
    gateway.skill_is("acme/refunds", "invalid").await;
    assert_held(&gateway.host()).await;
    let diff = gateway.cli(&["diff", "acme/refunds"]).await.expect(1).out;
    assert!(diff.contains("offered no more") && diff.contains("size"), "{diff}");
    gateway.finish().await;
}

#[tokio::test]
async fn an_entry_that_broke_a_rule_stays_held_with_its_origin_gone_until_it_is_whole_again() {
    let (origin, mut gateway, _) = approved().await;
    origin.change(REFUNDS, |skill| skill.edit(skill::without_sizes));
    gateway.skill_is("acme/refunds", "invalid").await;
    origin.break_everything(Fault::Hang);
    assert_eq!(gateway.stop().await, 0);
    std::fs::remove_dir_all(gateway.data().join("index")).unwrap();
    gateway.start().await;
    assert_held(&gateway.host()).await;
    origin.mend();
    origin.withdraw(REFUNDS);
    origin.publish(refunds());
    gateway.skill_is("acme/refunds", "approved").await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_kept_set_goes_on_being_served_while_the_new_one_waits() {
    let origin = Origin::with([refunds()]);
    let settings = "refresh = \"1s\"\non_change = \"keep\"";
    let gateway = Setup::new().origin_with("acme", &origin, settings).start().await;
    let set = gateway.approve("acme/refunds").await;
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    origin.change_file(REFUNDS, "references/limits.md", "# No limits\n");
    let seen = gateway.skill_is("acme/refunds", "changed").await;
    assert_eq!(seen["served_set"], set.as_str());
    let answer = gateway.host().read("skill://acme/refunds/references/limits.md").await;
    assert_eq!(answer.bytes(), refunds().bytes("references/limits.md"));
    gateway.finish().await;
}

#[tokio::test]
async fn an_origin_at_another_address_waits_to_be_accepted() {
    let (origin, mut gateway, _) = approved().await;
    let elsewhere = Origin::with([refunds()]);
    gateway.reconfigure(|mut setup| {
        setup.without_origin("acme");
        setup.origin("acme", &elsewhere)
    });
    gateway.restart().await;
    assert_held(&gateway.host()).await;
    gateway.cli(&["origin", "accept", "acme"]).await.expect(0);
    gateway.skill_is("acme/refunds", "approved").await;
    assert_eq!(gateway.host().read(MERGED).await.bytes(), refunds().bytes("SKILL.md"));
    drop(origin);
    gateway.finish().await;
}

#[tokio::test]
async fn sizes_that_an_origin_leaves_out_are_measured_by_a_pull() {
    let origin = Origin::with([refunds().edited(skill::without_sizes)]);
    let gateway = Setup::new()
        .origin_with("acme", &origin, "refresh = \"1s\"\nrepair = [\"size\"]")
        .start()
        .await;
    let host = gateway.host();
    gateway.skill_is("acme/refunds", "pending").await;
    assert_held(&host).await;
    for answer in [
        host.directory("skill://acme/refunds").await,
        host.read("skill://acme/refunds/assets/form.bin").await,
    ] {
        assert_eq!(answer.reason(), "held", "{}", answer.text);
    }
    assert_eq!(origin.reads(), [""; 0], "nothing is fetched ahead of need");
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    assert_eq!(origin.reads().len(), 3);
    assert_held(&host).await;
    gateway.approve("acme/refunds").await;
    let entry = host.get(MERGED).await;
    let sizes: Vec<u64> = entry.result()["skill"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes[1..], [refunds().bytes("references/limits.md").len() as u64, 5]);
    let seen = gateway.skill_is("acme/refunds", "approved").await;
    assert!(seen["findings"].to_string().contains("size"), "{seen}");
    gateway.finish().await;
}

#[tokio::test]
async fn without_that_repair_an_entry_without_sizes_is_rejected() {
    // deviation 1.
    let origin = Origin::with([
        refunds().edited(skill::without_sizes),
        Skill::at("skill://good/SKILL.md"),
    ]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/good").await;
    let seen = gateway
        .origin_when("acme", "has a rejected entry", |item| item["rejected"][0].is_object())
        .await;
    assert_eq!(seen["rejected"][0]["uri"], REFUNDS);
    assert_eq!(seen["rejected"][0]["rule"], "S-23");
    let host = gateway.host();
    for answer in [host.get(MERGED).await, host.read(MERGED).await] {
        assert_eq!(answer.reason(), "held", "{}", answer.text);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn an_approval_with_an_end_ends_by_itself() {
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    let seen = gateway.skill_is("acme/refunds", "pending").await;
    let set = seen["set"].as_str().unwrap();
    let approve = ["approve", "acme/refunds", "--set", set, "--expires", "3s"];
    gateway.cli(&approve).await.expect(0);
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.skill_is("acme/refunds", "expired").await;
    assert_held(&gateway.host()).await;
    gateway.approve("acme/refunds").await;
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.finish().await;
}

#[tokio::test]
async fn nothing_of_an_origin_that_is_denied_by_policy_is_served_or_approved() {
    let origin = Origin::with([refunds()]);
    let gateway = Setup::new()
        .origin_with("acme", &origin, "refresh = \"1s\"\ntrust = \"deny\"")
        .start()
        .await;
    let seen = gateway.skill_is("acme/refunds", "pending").await;
    let set = seen["set"].as_str().unwrap();
    let refused = gateway.cli(&["approve", "acme/refunds", "--set", set]).await.expect(1);
    assert!(refused.err.contains("deny"), "{}", refused.err);
    assert_held(&gateway.host()).await;
    gateway.finish().await;
}

#[tokio::test]
async fn an_origin_that_is_removed_and_named_again_brings_no_approval_back() {
    let (_origin, mut gateway, _) = approved().await;
    gateway.cli(&["origin", "remove", "acme"]).await.expect(0);
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway
        .origin_when("acme", "is removed", |origin| origin["state"] == "removed")
        .await;
    gateway.restart().await;
    gateway.skill_is("acme/refunds", "pending").await;
    assert_held(&gateway.host()).await;
    gateway.finish().await;
}
