//! What rules approve, what time ends, and what a trial lets through.

use serde_json::Value;

use crate::support::REFUNDS;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill;
use crate::support::skill::Skill;

/// The skill in the merged view.
const MERGED: &str = "skill://acme/refunds/SKILL.md";

/// What makes a set break a condition.
type Break = fn(&mut Skill);

fn rule(name: &str, skill: &str, keys: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\nskill = \"{skill}\"\ntrust = \"auto\"\n{keys}\n")
}

/// A skill that is approved by itself, in front of an origin that is listed each second.
async fn by_rule(keys: &str) -> (Origin, Gateway) {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new()
        .origin("acme", &origin)
        .table(&rule("docs", "refunds", keys));
    let gateway = setup.start().await;
    (origin, gateway)
}

/// What `policy explain` says will become of a skill.
async fn outlook(gateway: &Gateway, skill: &str) -> String {
    let told = gateway.cli(&["policy", "explain", skill, "--json"]).await.expect(0);
    told.json()["outlook"].as_str().unwrap().to_owned()
}

/// Waits until a set that differs from `before` is seen and was looked at by rules; gives its state.
async fn settled(gateway: &Gateway, skill: &str, before: &str) -> Value {
    let is_new = |item: &Value| item["set"].is_string() && item["set"] != before;
    gateway.skill_when(skill, "another", is_new).await;
    // The outlook names what stands in the way, or that it is served: then no rule has anything left to do.
    loop {
        let outlook = outlook(gateway, skill).await;
        if !outlook.starts_with("approved by") {
            return gateway.skill_when(skill, "another", is_new).await;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_rule_approves_on_the_record_and_only_what_it_is_for() {
    let origin = Origin::with([refunds(), Skill::at("skill://other/SKILL.md")]);
    let setup = Setup::new().origin("acme", &origin).table(&rule("docs", "ref*", ""));
    let mut gateway = setup.start().await;
    gateway.skill_is("acme/refunds", "approved").await;
    gateway.skill_is("acme/other", "pending").await;
    assert_eq!(gateway.host().uris().await, [MERGED]);
    let approved = gateway.log(&["approved"]).await;
    assert_eq!(approved.len(), 1);
    assert_eq!(
        (&approved[0]["rule"], &approved[0]["actor"]),
        (&"docs".into(), &"gateway".into())
    );
    origin.change_file(REFUNDS, "references/limits.md", "# Other limits\n");
    let set = gateway.skill_is("acme/refunds", "approved").await["set"].clone();
    let again = gateway
        .skill_when("acme/refunds", "approved anew", |item| {
            item["state"] == "approved" && item["set"] != set
        })
        .await;
    assert_eq!(again["served_set"], again["set"]);
    gateway.restart().await;
    assert_eq!(
        gateway.log(&["approved"]).await.len(),
        2,
        "a restart approves nothing anew"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn each_condition_on_the_manifest_leaves_what_breaks_it_to_people() {
    let skills = ["same", "programs", "files", "bytes"];
    let uri = |name: &str| format!("skill://{name}/SKILL.md");
    let origin = Origin::with(skills.map(|name| Skill::at(&uri(name)).text("notes.md", "Notes.\n")));
    let condition = |name: &str, condition: &str| rule(name, name, &format!("auto = {{ {condition} }}"));
    let gateway = Setup::new()
        .origin("acme", &origin)
        .table(&condition("same", "same_name_and_description = true"))
        .table(&condition("programs", "no_new_executables = true"))
        .table(&condition("files", "max_new_files = 2"))
        .table(&condition("bytes", "max_new_bytes = 200"))
        .start()
        .await;
    // A first set has no description to be the same as.
    assert_eq!(settled(&gateway, "acme/same", "").await["state"], "pending");
    gateway.approve("acme/same").await;
    let breaks: [(&str, Break, &str); 4] = [
        (
            "same",
            |skill| skill.edit(|entry| entry["frontmatter"]["description"] = "Other.".into()),
            "description",
        ),
        ("programs", |skill| skill.set_file("tools/run.SH", b"ls\n"), "run.SH"),
        (
            "files",
            |skill| {
                for path in ["a.md", "b.md", "c.md"] {
                    skill.set_file(path, b"x");
                }
            },
            "3 files",
        ),
        ("bytes", |skill| skill.set_file("notes.md", &[b'x'; 201]), "201 bytes"),
    ];
    for (name, break_it, why) in breaks {
        let skill = format!("acme/{name}");
        let first = gateway.skill_is(&skill, "approved").await["set"]
            .as_str()
            .unwrap()
            .to_owned();
        origin.change_file(&uri(name), "notes.md", "Other notes.\n");
        let kept = settled(&gateway, &skill, &first).await;
        assert_eq!(kept["state"], "approved", "{name}: what breaks no condition");
        origin.change(&uri(name), break_it);
        let broken = settled(&gateway, &skill, kept["set"].as_str().unwrap()).await;
        assert_eq!(
            (&broken["state"], &broken["served_set"]),
            (&"changed".into(), &Value::Null),
            "{name}"
        );
        let told = outlook(&gateway, &skill).await;
        assert!(
            told.starts_with("waits for people, since") && told.contains(why),
            "{told}"
        );
        gateway.approve(&skill).await;
    }
    gateway.finish().await;
}

#[tokio::test]
async fn conditions_on_content_wait_until_every_file_is_stored_and_checked() {
    let plain = Skill::at("skill://plain/SKILL.md").text("notes.md", "Notes.\n");
    let shell = Skill::at("skill://shell/SKILL.md").text("notes.md", "#!/bin/sh\n");
    let origin = Origin::with([plain, shell, refunds()]);
    let keys = "auto = { text_only = true, no_shebang = true }";
    let gateway = Setup::new()
        .origin("acme", &origin)
        .table(&rule("text", "**", keys))
        .start()
        .await;
    for name in ["plain", "shell", "refunds"] {
        let skill = format!("acme/{name}");
        gateway.skill_is(&skill, "pending").await;
        let told = outlook(&gateway, &skill).await;
        assert!(told.contains("every file is stored"), "{told}");
    }
    assert_eq!(origin.reads(), [""; 0], "nothing is fetched for a rule");
    for name in ["plain", "shell", "refunds"] {
        gateway.cli(&["pull", &format!("acme/{name}")]).await.expect(0);
    }
    gateway.skill_is("acme/plain", "approved").await;
    for (skill, why) in [("acme/shell", "#!"), ("acme/refunds", "not text")] {
        let told = outlook(&gateway, skill).await;
        assert!(told.contains(why), "{told}");
        gateway.skill_is(skill, "pending").await;
    }
    assert_eq!(gateway.host().uris().await, ["skill://acme/plain/SKILL.md"]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_new_set_is_held_for_a_while_before_a_rule_approves_it() {
    let (_origin, mut gateway) = by_rule("hold = \"6s\"").await;
    gateway.skill_is("acme/refunds", "pending").await;
    let told = outlook(&gateway, "acme/refunds").await;
    assert!(told.starts_with("waits ") && told.ends_with(" more"), "{told}");
    // The time counts from the record, not from the start.
    gateway.restart().await;
    gateway.skill_is("acme/refunds", "approved").await;
    let leaves = gateway.log(&["set-seen", "approved"]).await;
    let time = |leaf: &Value| humantime::parse_rfc3339(leaf["time"].as_str().unwrap()).unwrap();
    let [seen, approved] = leaves.as_slice() else {
        panic!("{leaves:?}")
    };
    let waited = time(approved).duration_since(time(seen)).unwrap();
    assert!((6..30).contains(&waited.as_secs()), "{waited:?}");
    gateway.finish().await;
}

#[tokio::test]
async fn no_rule_approves_what_a_person_said_no_to() {
    let (origin, mut gateway) = by_rule("").await;
    let set = gateway.skill_is("acme/refunds", "approved").await["set"].clone();
    gateway.cli(&["deny", "acme/refunds"]).await.expect(0);
    gateway.restart().await;
    gateway.skill_is("acme/refunds", "denied").await;
    let told = outlook(&gateway, "acme/refunds").await;
    assert!(told.contains("a person denied this set"), "{told}");
    gateway
        .cli(&["approve", "acme/refunds", "--set", set.as_str().unwrap()])
        .await
        .expect(0);
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    origin.change_file(REFUNDS, "references/limits.md", "# Other limits\n");
    let other = settled(&gateway, "acme/refunds", set.as_str().unwrap()).await;
    assert_eq!(other["served_set"], Value::Null);
    let told = outlook(&gateway, "acme/refunds").await;
    assert!(told.contains("took its approval back"), "{told}");
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn sizes_that_nobody_measured_are_no_ground_for_a_rule() {
    let bare = Skill::at("skill://bare/SKILL.md").edited(skill::without_sizes);
    let origin = Origin::with([bare, Skill::at("skill://full/SKILL.md")]);
    let settings = "refresh = \"1s\"\nrepair = [\"size\"]\ntrust = \"auto\"";
    let gateway = Setup::new().origin_with("acme", &origin, settings).start().await;
    gateway.skill_is("acme/full", "pending").await;
    let told = outlook(&gateway, "acme/full").await;
    assert!(told.contains("no pull measured them"), "{told}");
    for skill in ["acme/bare", "acme/full"] {
        gateway.cli(&["pull", skill]).await.expect(0);
        gateway.skill_is(skill, "approved").await;
    }
    gateway.finish().await;
}

#[tokio::test]
async fn an_approval_ends_when_the_policy_says_so_and_that_is_on_the_record() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().set("policy.expires = \"3s\"").origin("acme", &origin);
    let mut gateway = setup.start().await;
    let set = gateway.skill_is("acme/refunds", "pending").await["set"]
        .as_str()
        .unwrap()
        .to_owned();
    let approve = ["approve", "acme/refunds", "--set", &set, "--expires", "1h"];
    gateway.cli(&approve).await.expect(0);
    assert_eq!(gateway.host().uris().await, [MERGED]);
    gateway.skill_is("acme/refunds", "expired").await;
    assert_eq!(gateway.host().get(MERGED).await.reason(), "held");
    gateway.wait_until_logged("expired").await;
    let leaves = gateway.log(&["approved", "expired"]).await;
    let [approved, expired] = leaves.as_slice() else {
        panic!("it is recorded when it ends: {leaves:?}")
    };
    let time = |text: &Value| humantime::parse_rfc3339(text.as_str().unwrap()).unwrap();
    let late = time(&expired["time"])
        .duration_since(time(&approved["expires"]))
        .unwrap();
    assert!(late.as_secs() < 5, "{late:?}");
    gateway.restart().await;
    gateway.skill_is("acme/refunds", "expired").await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_trial_serves_what_merely_waits_until_it_is_over() {
    let origin = Origin::with([refunds(), Skill::at("skill://other/SKILL.md")]);
    let setup = Setup::new().origin_with("acme", &origin, "refresh = \"1s\"\nobserve = \"12s\"");
    let mut gateway = setup.start().await;
    let seen = gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(seen["served_set"], seen["set"]);
    assert_eq!(seen["reason"], "it waits for approval");
    gateway.cli(&["deny", "acme/other"]).await.expect(0);
    let host = gateway.host();
    assert_eq!(host.uris().await, [MERGED], "what was denied is held");
    let read = host.read(MERGED).await;
    let meta = &read.result()["_meta"];
    assert_eq!(meta["dev.portcullis/observed"], true);
    assert_eq!(meta.get("dev.portcullis/approval"), None);
    let delivered = gateway.cli(&["audit", "deliveries", "--json"]).await.expect(0).json();
    let read = delivered.as_array().unwrap().last().unwrap();
    assert_eq!((&read["method"], &read["would"]), (&"read".into(), &"pending".into()));
    let health = gateway.cli(&["health", "--json"]).await.expect(0).json();
    assert_eq!(
        (&health["trials"][0]["label"], &health["trials"][0]["skills"]),
        (&"acme".into(), &1.into())
    );
    gateway.says("a trial lasts", 1).await;
    // A restart begins no other.
    gateway.restart().await;
    gateway
        .skill_when("acme/refunds", "held", |item| item["served_set"] == Value::Null)
        .await;
    assert_eq!(gateway.host().get(MERGED).await.reason(), "held");
    assert_eq!(gateway.log(&["trial-began"]).await.len(), 1);
    gateway.wait_until_logged("trial-ended").await;
    assert_eq!(gateway.log(&["held"]).await.len(), 1, "what would have been held");
    gateway.restart().await;
    gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(gateway.host().uris().await, [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_trial_that_is_configured_no_more_is_over_at_once() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().set("policy.observe = \"1h\"").origin("acme", &origin);
    let mut gateway = setup.start().await;
    gateway.skill_is("acme/refunds", "pending").await;
    assert_eq!(gateway.host().uris().await, [MERGED]);
    for _ in 0..2 {
        gateway.reconfigure(|_| Setup::new().origin("acme", &origin));
        gateway.restart().await;
        assert_eq!(gateway.host().uris().await, [""; 0]);
        // Naming it again begins it no second time.
        gateway.reconfigure(|setup| setup.set("policy.observe = \"1h\""));
        gateway.restart().await;
        gateway.skill_is("acme/refunds", "pending").await;
        assert_eq!(gateway.host().uris().await, [""; 0]);
    }
    assert_eq!(gateway.log(&["trial-began", "trial-ended"]).await.len(), 2);
    gateway.finish().await;
}

#[tokio::test]
async fn the_record_is_told_of_each_configuration_that_runs() {
    let origin = Origin::with([refunds()]);
    let mut gateway = Gateway::of(&origin).await;
    gateway.restart().await;
    assert_eq!(gateway.log(&["configured"]).await.len(), 1);
    gateway.reconfigure(|setup| setup.set("policy.expires = \"180days\""));
    gateway.restart().await;
    let told = gateway.log(&["configured"]).await;
    let [before, after] = told.as_slice() else {
        panic!("{told:?}")
    };
    let tables = |leaf: &Value| leaf["tables"].as_object().unwrap().clone();
    let (before, after) = (tables(before), tables(after));
    let changed: Vec<_> = after.keys().filter(|name| after[*name] != before[*name]).collect();
    assert_eq!(changed, ["policy"]);
    gateway.finish().await;
}

#[tokio::test]
async fn a_policy_is_explained_with_the_place_of_each_word() {
    let (_origin, gateway) = by_rule("hold = \"1h\"\nquorum = 1").await;
    gateway.skill_is("acme/refunds", "pending").await;
    let told = gateway.cli(&["policy", "explain", "acme/refunds"]).await.expect(0).out;
    for words in [
        "rule         docs",
        "trust",
        "the rule docs",
        "the default",
        "waits 59m",
    ] {
        assert!(told.contains(words), "{words:?} in {told}");
    }
    let other = gateway.cli(&["policy", "explain", "acme/none"]).await.expect(0).out;
    assert!(
        other.contains("none is for it") && other.contains("ever seen"),
        "{other}"
    );
    gateway.cli(&["policy", "explain", "nobody/none"]).await.expect(1);
    gateway.finish().await;
}

#[tokio::test]
async fn cases_are_tried_without_a_gateway() {
    let keys = "hold = \"48h\"\nauto = { no_new_executables = true, text_only = true }";
    let gateway = Setup::new()
        .table(&rule("docs", "docs/**", keys))
        .table("[[rule]]\nname = \"drafts\"\nskill = \"**/draft-*\"\ntrust = \"deny\"")
        .written();
    let case = |name: &str, skill: &str, more: &str| {
        format!("[[case]]\nname = \"{name}\"\nskill = \"acme/{skill}\"\n{more}\n")
    };
    let right = [
        case(
            "too early",
            "docs/a",
            "seen_for = \"47h\"\nstored = true\nexpect = \"wait\"\nrule = \"docs\"",
        ),
        case("not stored", "docs/a", "seen_for = \"3d\"\nexpect = \"wait\""),
        case(
            "in time",
            "docs/a",
            "seen_for = \"3d\"\nstored = true\nexpect = \"approve\"",
        ),
        case("program", "docs/a", "added = [\"run.sh\"]\nexpect = \"review\""),
        case(
            "revoked",
            "docs/a",
            "seen_for = \"3d\"\nstored = true\nbarred = \"revoked\"\nexpect = \"review\"",
        ),
        case("draft", "x/draft-1", "expect = \"deny\"\nrule = \"drafts\""),
        case("rest", "x/y", "expect = \"review\""),
    ];
    let file = gateway.folder().join("cases.toml");
    let test = async |text: &str| {
        disk::write(&file, text.as_bytes());
        gateway.cli(&["policy", "test", file.to_str().unwrap()]).await
    };
    let all = test(&right.concat()).await.expect(0);
    assert!(all.out.contains("7 cases, 0 failed"), "{}", all.out);
    let wrong = case("wrong", "docs/a", "expect = \"approve\"");
    let one = test(&(right.concat() + &wrong)).await.expect(1);
    assert!(one.out.contains("FAIL  wrong"), "{}", one.out);
    let rule = case("rule", "x/y", "expect = \"review\"\nrule = \"docs\"");
    test(&rule).await.expect(1);
    let bad = test("[[case]]\nname = \"bad\"\nskill = \"nothing\"\nexpect = \"maybe\"\nseen = 1")
        .await
        .expect(64);
    for words in ["cases.toml:3: case.skill", "case.expect", "case.seen"] {
        assert!(bad.err.contains(words), "{words} in {}", bad.err);
    }
    gateway.abandon();
}
