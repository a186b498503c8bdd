//! There is one door to the bytes of a skill. Every other way to ask is shut.

use serde_json::json;

use crate::support::client::Host;
use crate::support::gateway::Gateway;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

/// Words that stand in held files alone.
const SECRET: &str = "open sesame";

/// A gateway with one approved skill and one that is held, beside pseudo-files of both.
async fn gateway() -> (Origin, Gateway) {
    let held = Skill::at("skill://held/SKILL.md").text("notes.md", SECRET);
    let origin = Origin::with([refunds(), held]);
    let beside = [
        "skill://held/_manifest",
        "skill://refunds/_manifest",
        "SKILL://held/notes.md",
        "skill://held/%6Eotes.md",
    ];
    origin.set(|script| {
        script
            .resources
            .extend(beside.map(|uri| (uri.to_owned(), SECRET.to_owned())));
    });
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.skill_is("acme/held", "pending").await;
    (origin, gateway)
}

/// Other ways to write the URI of a file below `root`, or to ask for what stands beside it.
fn spellings(root: &str) -> Vec<String> {
    let rest = root.strip_prefix("skill://").unwrap();
    let (first, inner) = rest.split_once('/').map_or((rest, ""), |(first, inner)| (first, inner));
    let inner = if inner.is_empty() {
        String::new()
    } else {
        format!("/{inner}")
    };
    vec![
        format!("SKILL://{rest}/SKILL.md"),
        format!("Skill://{rest}/notes.md"),
        format!("skill:{rest}/SKILL.md"),
        format!("skill:/{rest}/SKILL.md"),
        format!("skill:///{rest}/SKILL.md"),
        format!("skill://{}{inner}/SKILL.md", first.to_uppercase()),
        format!("skill://{first}{inner}/skill.md"),
        format!("skill://{first}{inner}/SKILL%2Emd"),
        format!("skill://{first}{inner}/%53KILL.md"),
        format!("skill://{first}{inner}/%6Eotes.md"),
        format!("skill://{first}{inner}%2FSKILL.md"),
        format!("skill://{first}{inner}//SKILL.md"),
        format!("skill://{first}{inner}/./SKILL.md"),
        format!("skill://{first}{inner}/x/../SKILL.md"),
        format!("skill://{first}{inner}/%2e%2e/held/notes.md"),
        format!("skill://{first}{inner}/SKILL.md/"),
        format!("skill://{first}{inner}/SKILL.md?"),
        format!("skill://{first}{inner}/SKILL.md#top"),
        format!("skill://{first}:80{inner}/SKILL.md"),
        format!("skill://user@{first}{inner}/SKILL.md"),
        format!("skill://{first}{inner}\\SKILL.md"),
        format!("skill://{first}{inner}/SKILL.md\u{0}"),
        format!(" skill://{first}{inner}/SKILL.md"),
        format!("skill://{first}{inner}/_manifest"),
        format!("skill://{first}{inner}"),
    ]
}

/// Asserts that one URI opens nothing, by any method that takes one.
async fn assert_shut(host: &Host, uri: &str) {
    for answer in [host.read(uri).await, host.get(uri).await] {
        answer.assert_shut();
        assert!(!answer.text.contains(SECRET), "{uri}: {}", answer.text);
    }
}

#[tokio::test]
async fn no_other_spelling_of_a_uri_opens_anything() {
    // case K2, deviations 7 and 22, and of case G1 what hosts may not ask for.
    let (origin, gateway) = gateway().await;
    let merged = [gateway.host(), Host::legacy(gateway.mcp()).await];
    let own = [
        Host::modern(&gateway.mcp_of("acme")),
        Host::legacy(&gateway.mcp_of("acme")).await,
    ];
    for name in ["held", "refunds"] {
        for (hosts, root) in [
            (&merged, format!("skill://acme/{name}")),
            (&own, format!("skill://{name}")),
        ] {
            for host in hosts {
                for uri in spellings(&root) {
                    assert_shut(host, &uri).await;
                }
            }
        }
    }
    assert_eq!(origin.reads(), [""; 0], "none of it reached the origin");
    gateway.finish().await;
}

#[tokio::test]
async fn the_name_of_a_passed_resource_opens_no_skill() {
    let (origin, gateway) = gateway().await;
    for host in [gateway.host(), Host::legacy(gateway.mcp()).await] {
        for uri in [
            "acme+skill://refunds/SKILL.md",
            "acme+skill://held/notes.md",
            "acme+SKILL://held/notes.md",
            "acme+skill://held/_manifest",
            "acme+skill:held/notes.md",
            "acme+skill://acme/held/notes.md",
            "skill://acme/~skill/held/notes.md",
            "skill://acme/~skill/refunds/SKILL.md",
            "skill://acme/~SKILL/held/notes.md",
        ] {
            assert_shut(&host, uri).await;
        }
    }
    assert_eq!(origin.reads(), [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn lists_of_other_things_show_no_skill_that_is_held() {
    let (_origin, gateway) = gateway().await;
    for url in [gateway.mcp().to_owned(), gateway.mcp_of("acme")] {
        for host in [Host::modern(&url), Host::legacy(&url).await] {
            for method in ["resources/list", "resources/templates/list", "skills/list"] {
                let answer = host.ask(method, json!({})).await;
                answer.result();
                assert!(
                    !answer.text.contains("held") && !answer.text.contains("_manifest"),
                    "{}",
                    answer.text
                );
            }
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn methods_that_are_not_offered_are_unknown() {
    let (origin, gateway) = gateway().await;
    for host in [gateway.host(), Host::legacy(gateway.mcp()).await] {
        let skill = json!({ "name": "acme__held", "uri": "skill://acme/held/notes.md", "arguments": {} });
        for method in [
            "prompts/list",
            "prompts/get",
            "tools/list",
            "tools/call",
            "resources/subscribe",
            "completion/complete",
            "skills/read",
            "skills/read_file",
            "resources/directory/list",
            "skills",
        ] {
            let answer = host.ask(method, skill.clone()).await;
            answer.refusal(-32601);
            assert!(!answer.text.contains(SECRET), "{}", answer.text);
        }
    }
    assert_eq!(origin.reads(), [""; 0]);
    gateway.finish().await;
}

#[tokio::test]
async fn directories_of_held_skills_are_held() {
    let (_origin, gateway) = gateway().await;
    for host in [gateway.host(), Host::legacy(gateway.mcp()).await] {
        let answer = host.directory("skill://acme/held").await;
        assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "held");
        assert!(!answer.text.contains("notes.md"));
        host.directory("SKILL://acme/refunds").await.refusal(-32602);
    }
    gateway.finish().await;
}
