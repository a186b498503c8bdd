//! Entries that real servers list: incomplete ones, odd ones, and those that other gateways and hosts trip over.

use serde_json::Value;
use serde_json::json;

use super::findings;
use super::rejected;
use super::served;
use crate::support::client::strings;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::skill;
use crate::support::skill::Skill;

const REPORT: &str = "skill://report/SKILL.md";

fn report() -> Skill {
    Skill::at(REPORT).text("a.md", "a").text("b.md", "b")
}

#[tokio::test]
async fn without_sizes_an_entry_is_refused_or_measured_as_the_operator_says() {
    // deviation 1: the largest public server leaves out sizes, and hints everywhere.
    let origin = Origin::with([report().edited(skill::without_sizes)]);
    origin.set(|script| script.has_hints = false);
    let gateway = Setup::new()
        .origin("plain", &origin)
        .origin_with("mended", &origin, "refresh = \"1s\"\nrepair = [\"size\"]")
        .start()
        .await;
    let refused = rejected(&gateway, "plain", 1).await;
    let (uri, rule, reason) = &refused[0];
    assert_eq!((uri.as_str(), rule.as_str()), (REPORT, "S-23"));
    assert!(
        reason.contains("has no size") && reason.contains("repair = [\"size\"]"),
        "{reason}"
    );
    let host = gateway.host();
    host.get("skill://plain/report/SKILL.md").await.refusal(-32602);

    let waiting = gateway.skill_is("mended/report", "pending").await;
    assert_eq!(waiting["set"], Value::Null);
    assert!(
        waiting["reason"]
            .as_str()
            .unwrap()
            .contains("is not known until the skill is pulled")
    );
    gateway.cli(&["pull", "mended/report"]).await.expect(0);
    gateway.approve("mended/report").await;
    assert_eq!(
        findings(&gateway, "mended/report").await,
        ["the origin sends no sizes; they were measured by a pull"]
    );
    let entry = host.get("skill://mended/report/SKILL.md").await;
    let resources = entry.result()["skill"]["resources"].as_array().unwrap();
    assert!(
        resources.iter().all(|resource| resource["size"].is_u64()),
        "{}",
        entry.text
    );
    assert_eq!(host.read("skill://mended/report/a.md").await.bytes(), b"a");
    gateway.finish().await;
}

#[tokio::test]
async fn an_entry_over_which_others_lose_their_listing_costs_at_most_itself() {
    // deviation 2: what makes one host or another refuse the whole answer.
    let odd = [
        Skill::at("skill://numbers/SKILL.md").with_frontmatter(
            r#"{"name":"numbers","description":"d","metadata":{"version":1,"nested":{"a":[true,null]}}}"#,
        ),
        Skill::at("skill://tools/SKILL.md")
            .with_frontmatter(r#"{"name":"tools","description":"d","allowed-tools":["Read","Bash(git:*)"]}"#),
        Skill::at("skill://aux/SKILL.md")
            .text("nul.txt", "n")
            .text("a<b>:c\"|*.md", "odd"),
        Skill::at("skill://twins/SKILL.md")
            .text("caf\u{e9}.md", "composed")
            .text("cafe\u{301}.md", "decomposed")
            .text("CAF\u{c9}.md", "upper"),
        Skill::at("skill://long/SKILL.md")
            .with_frontmatter(&format!(r#"{{"name":"long","description":"{}"}}"#, "x".repeat(1025))),
    ];
    let (origin, gateway) = served(odd).await;
    let digest = format!("sha256:{}", "0".repeat(64));
    let entry = |resources: Value| {
        let frontmatter = json!({ "name": "bad", "description": "d" });
        json!({ "uri": "skill://bad/SKILL.md", "frontmatter": frontmatter, "resources": resources }).to_string()
    };
    let own = json!({ "uri": "skill://bad/SKILL.md", "digest": digest, "size": 1 });
    let hash = json!({ "uri": "skill://bad/a#b.md", "digest": digest, "size": 1 });
    let nameless = json!({ "frontmatter": {}, "resources": [] }).to_string();
    origin.set(|script| script.extra_entries = vec![entry(json!([own, hash])), nameless]);
    let refused = rejected(&gateway, "acme", 2).await;
    assert_eq!(refused[0].1, "S-5");
    assert_eq!(refused[0].2, "uri is missing where a string is required");
    assert_eq!(refused[1].1, "S-22");
    assert!(refused[1].2.contains("has the character '#'"), "{}", refused[1].2);

    let host = gateway.host();
    assert_eq!(host.uris().await.len(), 5);
    assert_eq!(
        findings(&gateway, "acme/long").await,
        ["the description has 1025 characters where the format allows 1024"]
    );
    assert_eq!(host.read("skill://acme/aux/nul.txt").await.bytes(), b"n");
    assert_eq!(host.read("skill://acme/aux/a<b>:c\"|*.md").await.bytes(), b"odd");
    for (file, text) in [
        ("caf\u{e9}.md", "composed"),
        ("cafe\u{301}.md", "decomposed"),
        ("CAF\u{c9}.md", "upper"),
    ] {
        assert_eq!(
            host.read(&format!("skill://acme/twins/{file}")).await.bytes(),
            text.as_bytes()
        );
    }
    for (name, member) in [("numbers", "metadata"), ("tools", "allowed-tools")] {
        let listed = host.get(&format!("skill://acme/{name}/SKILL.md")).await;
        assert!(listed.result()["skill"]["frontmatter"][member].is_object() || member == "allowed-tools");
        host.read(&format!("skill://acme/{name}/SKILL.md")).await.result();
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_skill_over_the_limits_is_declined_with_that_reason() {
    // deviation 3: three servers list them; H-18.
    let mut many = Skill::at("skill://many/SKILL.md");
    for number in 1..=600 {
        many.set_file(&format!("{number}.txt"), b"");
    }
    let big = |name: &str| {
        let skill = Skill::at(&format!("skill://{name}/SKILL.md"));
        skill.edited(|entry| entry["resources"][0]["size"] = json!(17 * 1024 * 1024))
    };
    let origin = Origin::with([many, big("big"), big("unlisted").unlisted(), report()]);
    let gateway = Gateway::of(&origin).await;
    let refused = rejected(&gateway, "acme", 2).await;
    assert_eq!(
        refused[0].2,
        "its files have 17825792 bytes, over the limit of 16777216"
    );
    assert_eq!(refused[1].2, "it has 601 files, over the limit of 512");
    gateway.approve("acme/report").await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://acme/report/SKILL.md"]);
    for name in ["many", "big", "unlisted"] {
        let uri = format!("skill://acme/{name}/SKILL.md");
        // More than once, since what an origin does not have is remembered.
        for answer in [host.get(&uri).await, host.read(&uri).await, host.get(&uri).await] {
            let data = answer.refusal(-32602);
            assert_eq!(data["dev.portcullis/reason"], "limits", "{}", answer.text);
            assert_eq!(data["dev.portcullis/origin"], "acme");
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn every_file_that_an_entry_lists_is_content_and_no_other_spelling_of_its_own() {
    // deviation 4: what other servers leave out is content once it is listed.
    let files = [".env", ".git/config", "__pycache__/x.cpython-312.pyc", "skill.md"];
    let mut all = report();
    for file in files {
        all.set_file(file, file.as_bytes());
    }
    let (origin, gateway) = served([all]).await;
    let host = gateway.host();
    for file in files {
        assert_eq!(
            host.read(&format!("skill://acme/report/{file}")).await.bytes(),
            file.as_bytes()
        );
    }
    let listed = host.directory("skill://acme/report").await;
    assert_eq!(listed.result()["resources"].as_array().unwrap().len(), 7);
    // case J1: in lower case it is no skill.
    let lower = report().edited(|entry| {
        let text = entry
            .to_string()
            .replace("report/SKILL.md", "lower/skill.md")
            .replace("report", "lower");
        *entry = serde_json::from_str(&text).unwrap();
    });
    origin.publish(lower);
    let refused = rejected(&gateway, "acme", 1).await;
    assert_eq!(refused[0].0, "skill://lower/skill.md");
    assert_eq!(refused[0].2, "its uri does not end in a directory's name and /SKILL.md");
    host.get("skill://acme/lower/skill.md").await.refusal(-32602);
    gateway.finish().await;
}

#[tokio::test]
async fn a_skill_file_that_no_entry_is_about_is_a_file_of_the_skill_around_it() {
    // deviation 5: one server refuses the inner skill and lists its files under the outer one.
    let outer = report().text("inner/SKILL.md", "---\nname: other\nallowed-tools: Bash\n---\n");
    let (_origin, gateway) = served([outer]).await;
    let host = gateway.host();
    assert_eq!(host.uris().await, ["skill://acme/report/SKILL.md"]);
    let inner = "skill://acme/report/inner/SKILL.md";
    assert!(host.read(inner).await.bytes().starts_with(b"---\nname: other"));
    assert_eq!(
        host.get(inner).await.refusal(-32602)["dev.portcullis/reason"],
        "unknown"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn the_order_of_a_manifest_says_nothing() {
    // deviation 6; case K7.
    let (origin, gateway) = served([report()]).await;
    let before = gateway.skill_is("acme/report", "approved").await;
    origin.change(REPORT, |skill| {
        skill.edit(|entry| entry["resources"].as_array_mut().unwrap().reverse());
    });
    origin.is_asked_again("skills/list").await;
    origin.is_asked_again("skills/list").await;
    let after = gateway.skill_is("acme/report", "approved").await;
    assert_eq!(
        (&before["set"], &before["served_set"]),
        (&after["set"], &after["served_set"])
    );
    let listed = gateway.host().directory("skill://acme/report").await;
    assert_eq!(
        strings(&listed.result()["resources"], "name"),
        ["report", "a.md", "b.md"]
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_resource_beside_the_manifest_is_no_file_of_the_skill() {
    // deviation 7: fastmcp has one for each skill.
    let (origin, gateway) = served([report()]).await;
    let beside = "skill://report/_manifest";
    origin.set(|script| script.resources.push((beside.to_owned(), "{}".to_owned())));
    let host = gateway.host();
    let answer = host.read("skill://acme/report/_manifest").await;
    assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "unknown");
    assert!(
        answer.text.contains("not part of the skill's current manifest"),
        "{}",
        answer.text
    );
    for answer in [
        host.directory("skill://acme/report").await,
        host.ask("resources/list", json!({})).await,
    ] {
        answer.result();
        assert!(!answer.text.contains("_manifest"), "{}", answer.text);
    }
    assert!(!origin.reads().contains(&beside.to_owned()), "it is never asked for");
    gateway.finish().await;
}
