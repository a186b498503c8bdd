//! How real servers and hosts carry it all: framing, handshakes, what they declare, what they listen to.

use futures_util::future::join_all;
use serde_json::Value;
use serde_json::json;

use super::side_by_side;
use crate::support::approved;
use crate::support::client;
use crate::support::client::Host;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::refunds;
use crate::support::skill::Skill;

/// A file in the merged view.
const LIMITS: &str = "skill://acme/refunds/references/limits.md";

#[tokio::test]
async fn event_streams_of_every_make_carry_the_same_bytes() {
    // deviation 31; case D3, a character that is cut in two on its way.
    let makes = [
        ("dripped", Era::Modern, Answers::DrippedEvents),
        ("rmcp", Era::Modern, Answers::PrimedEvents),
        ("rmcp-legacy", Era::LegacyWithSessions, Answers::PrimedEvents),
        ("python", Era::Modern, Answers::CrlfEvents),
        ("python-legacy", Era::LegacyWithSessions, Answers::CrlfEvents),
        ("comments", Era::Legacy, Answers::Events),
    ];
    let odd = "\u{5317}\u{4eac} \u{1f600}\r\ndata: x\n\n: y\u{2028}";
    let long = "\u{5317}\u{1f600}".repeat(15_000);
    let skill = || {
        Skill::at("skill://report/SKILL.md")
            .text("odd.md", odd)
            .text("long.md", &long)
    };
    let (_origins, gateway) = side_by_side(&makes, skill).await;
    let host = gateway.host();
    for (label, era, _) in makes {
        for (file, text) in [("odd.md", odd), ("long.md", long.as_str())] {
            let read = host.read(&format!("skill://{label}/report/{file}")).await;
            assert!(read.bytes() == text.as_bytes(), "{label} {file}");
        }
        let seen = gateway.origin_when(label, "is up", |item| item["state"] == "up").await;
        let version = if era == Era::Modern {
            client::MODERN
        } else {
            client::LEGACY
        };
        assert_eq!(seen["era"], version);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_server_that_does_not_declare_skills_is_not_asked_for_any() {
    // deviation 32; case C6 (b), (c): resources called skill://, or a capability elsewhere, declare nothing; of case A1.
    let undeclared = |era, capabilities: fn() -> Value| {
        let origin = Origin::speaking(era, Answers::Json, [refunds()]);
        origin.set(|script| {
            let index = ("skill://index.json".to_owned(), "{\"skills\":[]}".to_owned());
            script.resources.push(index);
        });
        origin.rewrite(move |method, result| {
            if ["initialize", "server/discover"].contains(&method) {
                result["capabilities"] = capabilities();
            }
        });
        origin
    };
    let nothing = undeclared(Era::Legacy, || json!({ "resources": {} }));
    let elsewhere = undeclared(
        Era::Modern,
        || json!({ "resources": {}, "experimental": { "io.modelcontextprotocol/skills": {} } }),
    );
    let good = Origin::with([refunds()]);
    let setup = Setup::new().origin("nothing", &nothing).origin("elsewhere", &elsewhere);
    let gateway = setup.origin("good", &good).start().await;
    gateway.approve("good/refunds").await;
    for (label, origin) in [("nothing", &nothing), ("elsewhere", &elsewhere)] {
        let told = gateway
            .origin_when(label, "is told of", |item| item["last_error"].is_string())
            .await;
        assert_eq!(told["last_error"], "it does not declare the skills extension");
        assert_eq!((&told["state"], &told["skills"]), (&json!("down"), &json!(0)));
        for method in ["skills/list", "skills/get", "resources/list", "resources/read"] {
            assert_eq!(origin.count(method), 0, "{label} {method}");
        }
        let host = gateway.host();
        for answer in [
            host.get(&format!("skill://{label}/refunds/SKILL.md")).await,
            host.read(&format!("skill://{label}/index.json")).await,
        ] {
            assert!(answer.json["error"].is_object(), "{}", answer.text);
        }
    }
    assert_eq!(gateway.host().uris().await, ["skill://good/refunds/SKILL.md"]);
    gateway.finish().await;
}

/// Reads a file as a host that says this of itself.
async fn read_as(gateway: &Gateway, meta: &Value) -> client::Answer {
    let params = json!({ "uri": LIMITS, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": "same", "method": "resources/read", "params": params });
    let request = client::http()
        .post(gateway.mcp())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", client::MODERN)
        .header("mcp-method", "resources/read")
        .header("mcp-name", LIMITS);
    client::send(request.body(body.to_string())).await
}

#[tokio::test]
async fn what_hosts_say_of_themselves_changes_no_answer_and_divides_no_cache() {
    // deviations 35 and 36; of case S2, equal ids in flight together.
    let (origin, gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let skills = json!({ "extensions": { "io.modelcontextprotocol/skills": {} } });
    let metas: Vec<Value> = [
        json!({}),
        json!({ "io.modelcontextprotocol/clientCapabilities": skills }),
        json!({ "io.modelcontextprotocol/clientInfo": { "name": "other", "version": "" } }),
        json!({ "progressToken": 1, "io.modelcontextprotocol/logLevel": "debug", "com.example/x": [1] }),
    ]
    .into_iter()
    .map(|more| {
        let mut meta = client::meta();
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        meta
    })
    .collect();
    let reads = join_all(metas.iter().map(|meta| read_as(&gateway, meta)));
    let mend = async {
        origin.was_asked("resources/read", 1).await;
        gateway.host().list().await.result();
        origin.mend();
    };
    let (answers, ()) = tokio::join!(reads, mend);
    for answer in &answers {
        assert_eq!(answer.json["id"], "same");
        assert_eq!(answer.text, answers[0].text);
        assert_eq!(answer.bytes(), refunds().bytes("references/limits.md"));
    }
    assert_eq!(origin.reads().len(), 1);
    gateway.finish().await;
}

#[tokio::test]
async fn capabilities_are_the_same_in_both_eras_and_what_they_promise_is_kept() {
    // deviations 37 and 39.
    let (origin, gateway) = approved().await;
    let discovered = gateway.host().ask("server/discover", json!({})).await;
    let hello = client::hello(client::LEGACY);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    let request = client::http()
        .post(gateway.mcp())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    let initialized = client::send(request.body(body.to_string())).await;
    let capabilities = &discovered.result()["capabilities"];
    assert_eq!(capabilities, &initialized.result()["capabilities"]);
    assert_eq!(
        capabilities,
        &json!({ "resources": { "listChanged": true }, "extensions": { "io.modelcontextprotocol/skills": { "directoryRead": true } } })
    );
    let asked = json!({ "notifications": { "resourcesListChanged": true } });
    let legacy = Host::legacy(gateway.mcp()).await;
    legacy.ask("subscriptions/listen", asked).await.refusal(-32601);
    let mut told = gateway.host().listen(json!({ "resourcesListChanged": true })).await;
    gateway.cli(&["revoke", "acme/refunds"]).await.expect(0);
    assert_eq!(told.next().await["method"], "notifications/resources/list_changed");
    // The origin promises none, and is not asked for any.
    for method in ["subscriptions/listen", "GET"] {
        assert_eq!(origin.count(method), 0, "{method}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_stream_of_notices_that_does_not_last_is_opened_ever_later() {
    // case B4: one that closes at once brings nothing, and requests go on without it.
    let origin = Origin::speaking(Era::LegacyWithSessions, Answers::Json, [refunds()]);
    origin.set(|script| script.stream = Some(""));
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.host().read(LIMITS).await.result();
    origin.is_asked_again("skills/list").await;
    origin.is_asked_again("skills/list").await;
    assert!((1..=4).contains(&origin.count("GET")), "{:?}", origin.log());
    gateway.finish().await;
}
