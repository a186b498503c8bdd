//! Results as real servers give them: without hints, with hints of every kind, with members of their own.

use serde_json::Value;
use serde_json::json;

use super::served;
use super::side_by_side;
use crate::support::client::Answer;
use crate::support::client::Host;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Origin;
use crate::support::origin::Paging;
use crate::support::skill::Skill;

const REPORT: &str = "skill://report/SKILL.md";

fn report() -> Skill {
    Skill::at(REPORT).text("refs/a.md", "a")
}

/// Everything that a host can be given of the skill.
async fn everything(gateway: &Gateway, label: &str) -> Vec<Answer> {
    let host = Host::modern(gateway.mcp());
    let root = format!("skill://{label}/report");
    vec![
        host.list().await,
        host.get(&format!("{root}/SKILL.md")).await,
        host.read(&format!("{root}/refs/a.md")).await,
        host.directory(&root).await,
    ]
}

/// Asserts that a result has the hints that the gateway gives, and no other.
fn assert_our_hints(answer: &Answer) {
    let result = answer.result();
    assert_eq!(result["resultType"], "complete", "{}", answer.text);
    assert_eq!(result["cacheScope"], "private", "{}", answer.text);
    assert!(
        result["ttlMs"].as_u64().is_some_and(|ttl| ttl <= 30_000),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn whatever_hints_a_server_gives_hosts_are_given_ours() {
    // deviations 23, 24 and 25.
    let origin = Origin::with([report(), Skill::at("skill://hidden/SKILL.md").unlisted()]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/report").await;
    let host = gateway.host();
    host.get("skill://acme/hidden/SKILL.md").await.refusal(-32602);
    gateway.approve("acme/hidden").await;
    for hints in [
        None,
        Some((json!(0), json!("private"))),
        Some((json!(10_800_000), json!("public"))),
        Some((json!(-1), json!("shared"))),
        Some((json!("soon"), Value::Null)),
    ] {
        origin.rewrite(move |_, result| {
            let members = result.as_object_mut().unwrap();
            match &hints {
                None => members.retain(|name, _| name != "ttlMs" && name != "cacheScope"),
                Some((ttl, scope)) => {
                    members.insert("ttlMs".to_owned(), ttl.clone());
                    members.insert("cacheScope".to_owned(), scope.clone());
                }
            }
        });
        // However fresh a server calls itself, it is listed when the operator says so; unlisted skills are asked for.
        origin.is_asked_again("skills/list").await;
        origin.is_asked_again("skills/get").await;
        for answer in everything(&gateway, "acme").await {
            assert_our_hints(&answer);
        }
        assert_our_hints(&host.get("skill://acme/hidden/SKILL.md").await);
    }
    gateway
        .origin_when("acme", "is well", |item| item["last_error"].is_null())
        .await;
    gateway.finish().await;
}

#[tokio::test]
async fn legacy_results_need_no_hints_and_foreign_metadata_names_nobody() {
    // deviation 26; of case A5, that no label comes from what a server says of itself.
    let makes = [("one", Era::Legacy, Answers::Json), ("two", Era::Modern, Answers::Json)];
    let (origins, gateway) = side_by_side(&makes, report).await;
    for origin in &origins {
        origin.rewrite(|method, result| {
            let us = json!({ "name": "globex", "version": "" });
            match method {
                "initialize" => result["serverInfo"] = us,
                "server/discover" => {}
                _ => {
                    result["_meta"] = json!({
                        "io.modelcontextprotocol/serverInfo": us,
                        "io.agentskills/catalog": { "generation": 7 },
                        "dev.portcullis/origin": "globex",
                        "dev.portcullis/stale": true,
                    });
                }
            }
        });
    }
    for (origin, label) in origins.iter().zip(["one", "two"]) {
        origin.is_asked_again("skills/list").await;
        let answers = everything(&gateway, label).await;
        for answer in &answers {
            assert_our_hints(answer);
            let meta = &answer.result()["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "portcullis");
            assert_eq!(meta["dev.portcullis/stale"], false);
            assert!(
                !answer.text.contains("globex") && !answer.text.contains("generation"),
                "{}",
                answer.text
            );
        }
        assert_eq!(answers[2].result()["_meta"]["dev.portcullis/origin"], label);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn directories_are_the_gateways_own_answer_whatever_a_server_makes_of_them() {
    // deviation 27: trailing slashes, empty directories, prefixes and orders differ; no server is asked for any.
    let (origin, gateway) = served([report(), Skill::at("skill://team/inner/SKILL.md")]).await;
    let host = gateway.host();
    for nothing in [
        "skill://acme/report/",
        "skill://acme/report/refs/",
        "skill://acme/team",
        "skill://acme/report/none",
    ] {
        let answer = host.directory(nothing).await;
        assert_eq!(answer.refusal(-32602)["dev.portcullis/reason"], "unknown", "{nothing}");
    }
    let listed = host.directory("skill://acme/report/refs").await;
    assert_eq!(listed.result()["resources"][0]["size"], 1);
    assert_eq!(origin.count("resources/directory/read"), 0);
    gateway.finish().await;
}

#[tokio::test]
async fn a_server_that_takes_every_cursor_for_none_loses_no_skill_and_gains_none() {
    // deviation 28; case L4.
    let names = ["a", "b", "c", "d", "e"];
    let skills = || names.map(|name| Skill::at(&format!("skill://{name}/SKILL.md")));
    let (paged, stuck) = (Origin::with(skills()), Origin::with(skills()));
    paged.set(|script| script.paging = Paging::Of(1));
    stuck.set(|script| script.paging = Paging::Repeated);
    let gateway = Setup::new()
        .origin("paged", &paged)
        .origin("stuck", &stuck)
        .start()
        .await;
    for label in ["paged", "stuck"] {
        gateway.approve_all(label, 5).await;
        let host = Host::modern(&gateway.mcp_of(label));
        assert_eq!(host.uris().await, names.map(|name| format!("skill://{name}/SKILL.md")));
    }
    let told = gateway
        .origin_when("stuck", "is told of", |item| item["last_error"].is_string())
        .await;
    assert_eq!(told["last_error"], "the listing repeats the cursor \"again\"");
    assert_eq!(told["state"], "up");
    gateway.finish().await;
}
