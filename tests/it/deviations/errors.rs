//! Errors as real servers answer them: one meaning under many codes and statuses, and pages that mean nothing.

use serde_json::Value;

use super::side_by_side;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

const JSON: &str = "application/json";

/// How servers say that they have no such thing.
const NOT_FOUND: [Fault; 4] = [
    Fault::Whole(
        200,
        JSON,
        r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32602,"message":"unknown"}}"#,
    ),
    Fault::Whole(
        400,
        JSON,
        r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32602,"message":"unknown"}}"#,
    ),
    Fault::Whole(
        404,
        JSON,
        r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32602,"message":"unknown"}}"#,
    ),
    Fault::Whole(
        200,
        JSON,
        r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32002,"message":"Resource not found"}}"#,
    ),
];

/// What says nothing about a skill, and what operators are told of each when a listing is answered so.
const NO_ANSWER: [(Fault, &str); 8] = [
    (
        Fault::Whole(
            404,
            JSON,
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        "it declares the skills extension and does not know skills/list; it may speak a draft of the extension",
    ),
    (
        Fault::Whole(
            200,
            JSON,
            r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32603,"message":"boom"}}"#,
        ),
        "it answered with error -32603: boom",
    ),
    (
        Fault::Whole(
            400,
            JSON,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"bad request"}}"#,
        ),
        "it answered with error -32000: bad request",
    ),
    (
        Fault::Whole(400, "text/html; charset=utf-8", "<html>no</html>"),
        "it answered with HTTP status 400",
    ),
    (
        Fault::Whole(415, "text/plain", "Unsupported Media Type"),
        "it answered with HTTP status 415",
    ),
    (Fault::Status(405), "it answered with HTTP status 405"),
    (
        Fault::Whole(200, "text/html", "<html>welcome</html>"),
        "its answer is malformed: its content type is \"text/html\"",
    ),
    (
        Fault::Whole(200, JSON, r#"{"jsonrpc":"2.0","id":{id}}"#),
        "its answer is malformed: it answers another request",
    ),
];

#[tokio::test]
async fn not_found_is_not_found_under_every_status_and_code() {
    // deviations 29 and 30, in both eras.
    let makes = [
        ("modern", Era::Modern, Answers::Json),
        ("plain", Era::Legacy, Answers::Json),
        ("sessions", Era::LegacyWithSessions, Answers::PrimedEvents),
    ];
    let (origins, gateway) = side_by_side(&makes, || Skill::at("skill://report/SKILL.md").text("a.md", "a")).await;
    let host = gateway.host();
    for (origin, (label, era, _)) in origins.iter().zip(&makes) {
        for (number, fault) in NOT_FOUND.into_iter().enumerate() {
            // In a session, 404 says that the session is over, whatever stands in the body.
            if *era == Era::LegacyWithSessions && matches!(fault, Fault::Whole(404, ..)) {
                continue;
            }
            origin.break_method("skills/get", fault.clone());
            let answer = host.get(&format!("skill://{label}/unknown-{number}/SKILL.md")).await;
            let data = answer.refusal(-32602);
            assert_eq!(
                data["dev.portcullis/reason"], "unknown",
                "{label} {fault:?}: {}",
                answer.text
            );
            origin.mend();
            origin.break_method("resources/read", fault);
            let answer = host.read(&format!("skill://{label}/report/a.md")).await;
            assert_eq!(
                answer.refusal(-32603)["dev.portcullis/reason"],
                "origin-fault",
                "{}",
                answer.text
            );
            origin.mend();
        }
        assert_eq!(host.read(&format!("skill://{label}/report/a.md")).await.bytes(), b"a");
        // The same said of a skill that was served takes it away.
        origin.set(|script| script.skills.clear());
        gateway.skill_is(&format!("{label}/report"), "withdrawn").await;
    }
    gateway.finish().await;
}

#[tokio::test]
async fn what_says_nothing_about_a_skill_changes_nothing_about_it() {
    // deviation 29; of case C6, a server that declares skills and knows none of the methods (a).
    let mut setup = Setup::new();
    let mut origins = Vec::new();
    for number in 0..NO_ANSWER.len() {
        let origin = Origin::with([Skill::at("skill://report/SKILL.md").text("a.md", "a")]);
        setup = setup.origin(&format!("origin-{number}"), &origin);
        origins.push(origin);
    }
    let gateway = setup.start().await;
    for (number, (fault, _)) in NO_ANSWER.into_iter().enumerate() {
        gateway.approve_all(&format!("origin-{number}"), 1).await;
        origins[number].break_method("skills/get", fault.clone());
        origins[number].break_method("skills/list", fault.clone());
        origins[number].break_method("resources/read", fault);
    }
    for (number, (fault, words)) in NO_ANSWER.iter().enumerate() {
        let label = format!("origin-{number}");
        let seen = told(&gateway, &label).await;
        assert_eq!(seen["last_error"], *words, "{fault:?}");
        let host = gateway.host();
        for answer in [
            host.get(&format!("skill://{label}/unknown/SKILL.md")).await,
            host.read(&format!("skill://{label}/report/a.md")).await,
        ] {
            let data = answer.refusal(-32603);
            assert_eq!(
                data["dev.portcullis/reason"], "origin-fault",
                "{fault:?}: {}",
                answer.text
            );
            assert!(
                !answer.text.contains("boom") && !answer.text.contains("html"),
                "{}",
                answer.text
            );
        }
        host.get(&format!("skill://{label}/report/SKILL.md")).await.result();
        origins[number].mend();
    }
    for number in 0..NO_ANSWER.len() {
        let label = format!("origin-{number}");
        gateway
            .origin_when(&label, "is well", |item| item["state"] == "up")
            .await;
        let read = gateway.host().read(&format!("skill://{label}/report/a.md")).await;
        assert_eq!(read.bytes(), b"a");
    }
    gateway.finish().await;
}

async fn told(gateway: &Gateway, label: &str) -> Value {
    gateway
        .origin_when(label, "is told of", |item| item["last_error"].is_string())
        .await
}

#[tokio::test]
async fn a_session_that_is_said_to_be_over_at_every_request_is_given_up_at_once() {
    // deviation 29: unknown methods are 404, which in a session says that it is over.
    let origin = Origin::speaking(
        Era::LegacyWithSessions,
        Answers::Json,
        [Skill::at("skill://report/SKILL.md")],
    );
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/report").await;
    let unknown = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32601,"message":"Method not found"}}"#;
    origin.break_method("skills/get", Fault::Whole(404, JSON, unknown));
    let before = origin.count("initialize");
    let answer = gateway.host().get("skill://acme/unknown/SKILL.md").await;
    answer.refusal(-32603);
    let opened = origin.count("initialize") - before;
    assert!(opened <= 2, "{opened} handshakes for one request");
    gateway.host().get("skill://acme/report/SKILL.md").await.result();
    gateway.finish().await;
}
