//! Bytes that differ from what was approved are not served, wherever they come from.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::REFUNDS;
use crate::support::client::Host;
use crate::support::disk;
use crate::support::gateway::Ended;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill;
use crate::support::skill::Skill;

/// A file of the skill in the merged view.
const LIMITS: &str = "skill://acme/refunds/references/limits.md";

/// A skill beside it that is as it should be.
fn sound() -> Skill {
    Skill::at("skill://sound/SKILL.md")
}

async fn gateway_of(skill: Skill) -> (Origin, Gateway) {
    let origin = Origin::with([skill, sound()]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.approve("acme/sound").await;
    (origin, gateway)
}

async fn assert_sound_is_served(host: &Host) {
    assert_eq!(
        host.read("skill://acme/sound/SKILL.md").await.bytes(),
        sound().bytes("SKILL.md")
    );
}

/// Asserts that nothing of the file's own words reaches the host, in both views.
async fn assert_mismatch(gateway: &Gateway, path: &str) {
    let merged = (gateway.host(), format!("skill://acme/refunds/{path}"));
    let own = (Host::modern(&gateway.mcp_of("acme")), format!("skill://refunds/{path}"));
    for (host, uri) in [merged, own] {
        let answer = host.read(&uri).await;
        assert_eq!(answer.reason(), "mismatch", "{}", answer.text);
        assert_eq!(answer.json["error"]["data"]["dev.portcullis/origin"], "acme");
        assert!(!answer.text.contains("Ask above"), "{}", answer.text);
        assert_sound_is_served(&gateway.host()).await;
    }
}

#[tokio::test]
async fn files_that_were_touched_on_the_way_are_refused() {
    // case H1.
    for (path, spoil) in [
        ("references/limits.md", skill::tampered as skill::Spoil),
        ("references/limits.md", skill::with_crlf),
        ("references/limits.md", skill::truncated),
        ("assets/form.bin", skill::truncated),
        ("assets/form.bin", skill::tampered),
        ("SKILL.md", skill::with_crlf),
    ] {
        let (origin, gateway) = gateway_of(refunds()).await;
        origin.spoil(REFUNDS, path, spoil);
        assert_mismatch(&gateway, path).await;
        origin.change(REFUNDS, Skill::unspoil);
        gateway.finish().await;
    }
}

#[tokio::test]
async fn a_size_that_is_not_the_files_is_refused() {
    let wrong = refunds().edited(|entry| entry["resources"][1]["size"] = json!(7));
    let (_origin, gateway) = gateway_of(wrong).await;
    assert_mismatch(&gateway, "references/limits.md").await;
    gateway.finish().await;
}

#[tokio::test]
async fn frontmatter_that_is_not_the_files_is_refused() {
    let wrong = refunds().edited(|entry| entry["frontmatter"]["description"] = json!("Harmless."));
    let (_origin, gateway) = gateway_of(wrong).await;
    assert_mismatch(&gateway, "SKILL.md").await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_file_that_is_not_in_the_manifest_is_unknown_and_never_asked_for() {
    let (origin, gateway) = gateway_of(refunds()).await;
    let unlisted = "skill://refunds/scripts/run.sh";
    origin.set(|script| script.resources.push((unlisted.to_owned(), "#!/bin/sh".to_owned())));
    let answer = gateway.host().read("skill://acme/refunds/scripts/run.sh").await;
    assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "unknown");
    assert!(!origin.reads().contains(&unlisted.to_owned()));
    gateway.finish().await;
}

#[tokio::test]
async fn an_answer_that_holds_another_file_is_refused() {
    let (origin, gateway) = gateway_of(refunds()).await;
    let other = r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"skill://refunds/x","text":""}]}}"#;
    origin.break_method("resources/read", crate::support::origin::Fault::Body(other));
    let answer = gateway.host().read(LIMITS).await;
    assert!(answer.json["error"].is_object(), "{}", answer.text);
    origin.mend();
    assert_sound_is_served(&gateway.host()).await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_byte_flipped_on_the_disk_is_found_and_fetched_again() {
    let (origin, mut gateway) = gateway_of(refunds()).await;
    let bytes = gateway.host().read(LIMITS).await.bytes();
    assert_eq!(gateway.stop().await, 0);
    disk::flip_a_byte(&disk::file_with(&gateway.data().join("content/acme"), &bytes));
    gateway.start().await;
    let fetched = origin.reads().len();
    assert_eq!(gateway.host().read(LIMITS).await.bytes(), bytes);
    assert_eq!(origin.reads().len(), fetched + 1, "from the origin");
    assert!(!disk::files(&gateway.data().join("quarantine")).is_empty());
    gateway.finish().await;
}

#[tokio::test]
async fn a_byte_flipped_on_the_disk_is_not_served_when_the_origin_is_gone() {
    let (mut origin, mut gateway) = gateway_of(refunds()).await;
    let bytes = gateway.host().read(LIMITS).await.bytes();
    assert_eq!(gateway.stop().await, 0);
    origin.stop().await;
    disk::flip_a_byte(&disk::file_with(&gateway.data().join("content/acme"), &bytes));
    gateway.start().await;
    let answer = gateway.host().read(LIMITS).await;
    assert!(
        ["origin-down", "mismatch"].contains(&answer.reason()),
        "{}",
        answer.text
    );
    assert!(!answer.text.contains("Ask above"), "{}", answer.text);
    gateway.abandon();
}

#[tokio::test]
async fn verifying_finds_damage_with_and_without_a_running_gateway() {
    let (origin, mut gateway) = gateway_of(refunds()).await;
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    gateway.audit_everything().await;
    disk::flip_a_byte(&disk::file_with(
        &gateway.data().join("content/acme"),
        refunds().bytes("assets/form.bin"),
    ));
    gateway.cli(&["verify", "--json"]).await.expect(1);
    assert_eq!(gateway.stop().await, 0);
    drop(origin);
    gateway.abandon();
}

#[tokio::test]
async fn verifying_needs_no_running_gateway() {
    let (_origin, mut gateway) = gateway_of(refunds()).await;
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    assert_eq!(gateway.stop().await, 0);
    gateway.audit_everything().await;
    disk::flip_a_byte(&disk::file_with(
        &gateway.data().join("content/acme"),
        refunds().bytes("assets/form.bin"),
    ));
    gateway.cli(&["verify", "--json"]).await.expect(1);
    gateway.abandon();
}

#[tokio::test]
async fn a_bit_flipped_in_any_kind_of_file_is_named_or_mended() {
    let (_origin, mut gateway) = gateway_of(refunds()).await;
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    gateway.cli(&["token", "new", "laptops"]).await.expect(0);
    assert_eq!(gateway.stop().await, 0);
    let data = gateway.data();
    let content = disk::file_with(&data.join("content/acme"), refunds().bytes("assets/form.bin"));
    let set = content.parent().unwrap().read_dir().unwrap();
    let set = set
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("set-"));
    let one_of = |folder: &str| disk::files(&data.join(folder)).remove(0);
    let refused = [data.join("FORMAT"), data.join("keys/log"), data.join("head/checkpoint")];
    for path in refused.into_iter().chain([data.join("log/journal")]) {
        let said = flipped(&gateway, &path).await;
        let name = path.strip_prefix(&data).unwrap().to_str().unwrap();
        let name = name.replace("log/journal", "audit log is damaged from leaf 0");
        assert!(
            said.iter().all(|said| said.code != 0 && said.err.contains(&name)),
            "{said:?}"
        );
    }
    for path in [
        content.with_extension("json"),
        content,
        set.unwrap(),
        one_of("people"),
        one_of("tokens"),
    ] {
        let [content, log] = flipped(&gateway, &path).await;
        let stem = path.file_stem().unwrap().to_str().unwrap().replace("set-", "set1:");
        assert!(content.code == 1 && content.out.contains(&stem), "{stem}: {content:?}");
        log.expect(0);
    }
    for path in [data.join("log/checkpoint"), one_of("log/tile")] {
        for checked in flipped(&gateway, &path).await {
            checked.expect(0);
        }
    }
    gateway.finish().await;
}

/// What the checks say while one bit of a file is another one.
async fn flipped(gateway: &Gateway, path: &Path) -> [Ended; 2] {
    let good = fs::read(path).unwrap();
    disk::flip_a_byte(path);
    let content = gateway.cli(&["verify", "--json"]).await;
    let log = gateway.cli(&["audit", "verify", "--json"]).await;
    disk::write(path, &good);
    [content, log]
}

#[tokio::test]
async fn an_altered_log_is_found() {
    // of case M9, the log.
    let (_origin, mut gateway) = gateway_of(refunds()).await;
    assert_eq!(gateway.stop().await, 0);
    let log = disk::files(&gateway.data().join("log"));
    let biggest = log.iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    disk::flip_a_byte(biggest);
    gateway.cli(&["audit", "verify", "--json"]).await.expect(1);
    gateway.abandon();
}

#[tokio::test]
async fn an_entry_that_says_other_things_of_the_same_bytes_is_checked_anew() {
    // case I2.
    let (origin, gateway) = gateway_of(refunds()).await;
    let host = gateway.host();
    assert_eq!(
        host.read("skill://acme/refunds/SKILL.md").await.bytes(),
        refunds().bytes("SKILL.md")
    );
    let before = gateway.skill_is("acme/refunds", "approved").await;
    origin.change(REFUNDS, |skill| {
        skill.edit(|entry| entry["frontmatter"]["description"] = "Something else.".into());
    });
    gateway
        .skill_when("acme/refunds", "shows another set", |skill| {
            skill["set"] != before["set"]
        })
        .await;
    gateway.approve("acme/refunds").await;
    assert_mismatch(&gateway, "SKILL.md").await;
    gateway.finish().await;
}

#[tokio::test]
async fn stored_files_that_were_cut_emptied_or_grew_are_fetched_again() {
    // case M1.
    let origin = Origin::with([refunds()]);
    let setup = Setup::new()
        .origin("acme", &origin)
        .set("limits.memory_cache_bytes = 0");
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    let bytes = gateway.host().read(LIMITS).await.bytes();
    gateway.stores("acme/refunds", "limits.md").await;
    let stored = disk::file_with(&gateway.data().join("content/acme"), &bytes);
    for damage in [
        skill::tampered as skill::Spoil,
        skill::truncated,
        |_| Vec::new(),
        |bytes| [bytes, b"x"].concat(),
    ] {
        disk::write(&stored, &damage(&bytes));
        let fetched = origin.reads().len();
        assert_eq!(gateway.host().read(LIMITS).await.bytes(), bytes);
        assert_eq!(origin.reads().len(), fetched + 1, "from the origin");
        gateway.restores(&stored, &bytes).await;
        gateway.host().read(LIMITS).await.result();
        assert_eq!(origin.reads().len(), fetched + 1, "from the disk");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn garbage_in_any_file_of_the_data_folder_opens_nothing() {
    // case M9.
    let mut origin = Origin::with([refunds(), sound()]);
    let mut gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.skill_is("acme/sound", "pending").await;
    gateway.cli(&["pull", "acme/refunds"]).await.expect(0);
    gateway.cli(&["pull", "acme/sound"]).await.expect(0);
    gateway.cli(&["token", "new", "laptops"]).await.expect(0);
    assert_eq!(gateway.stop().await, 0);
    origin.stop().await;
    let data = gateway.data();
    let copy = disk::copy(&data);
    let (mut refused, mut missed) = (Vec::new(), Vec::new());
    for (path, _) in &copy {
        disk::restore(&data, &copy);
        disk::write(path, &[0xa5; 777]);
        let name = path.strip_prefix(&data).unwrap().display().to_string();
        if !gateway.try_start().await {
            refused.push(name);
            continue;
        }
        if !serves_nothing_else(&gateway).await {
            missed.push(name);
        }
        assert_eq!(gateway.stop().await, 0, "{}", gateway.stderr());
    }
    refused.sort();
    assert_eq!(refused, ["FORMAT", "head/checkpoint", "keys/log", "log/journal"]);
    assert!(
        missed.iter().all(|name| name.starts_with("content/acme/")),
        "{missed:?}"
    );
    assert!(
        missed.len() >= 4,
        "at least each file and the set of the skill: {missed:?}"
    );
    gateway.abandon();
}

/// Asserts that the approved skill's own bytes are all that is served; says whether all of them are.
async fn serves_nothing_else(gateway: &Gateway) -> bool {
    let host = gateway.host();
    let mut is_whole = true;
    for path in ["SKILL.md", "references/limits.md", "assets/form.bin"] {
        let answer = host.read(&format!("skill://acme/refunds/{path}")).await;
        if answer.json["result"].is_object() {
            assert_eq!(answer.bytes(), refunds().bytes(path));
        } else {
            is_whole = false;
        }
    }
    let held = "skill://acme/sound/SKILL.md";
    for answer in [host.read(held).await, host.get(held).await] {
        assert!(answer.json["error"].is_object(), "{}", answer.text);
    }
    is_whole
}
