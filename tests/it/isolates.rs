//! One bad origin hurts only itself, and one bad entry only itself.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use crate::support::client::strings;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::origin::Paging;
use crate::support::refunds;
use crate::support::skill::Skill;

/// How a server refuses today's revision that speaks a later one.
const LATER: &str = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2027-01-01"],"requested":"2026-07-28"}}}"#;

/// How a server refuses today's revision and offers it.
const CONTRADICTORY: &str = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}"#;

/// A skill of the healthy origin.
const GOOD: &str = "skill://good/refunds/SKILL.md";

/// A healthy origin beside one that is given, under the label `bad`.
async fn beside(bad: &Origin) -> (Origin, Gateway) {
    let good = Origin::with([refunds()]);
    let gateway = Setup::new().origin("bad", bad).origin("good", &good).start().await;
    (good, gateway)
}

async fn assert_good_is_served(gateway: &Gateway) {
    let host = gateway.host();
    assert!(host.uris().await.contains(&GOOD.to_owned()));
    assert_eq!(host.read(GOOD).await.bytes(), refunds().bytes("SKILL.md"));
}

#[tokio::test]
async fn an_origin_that_never_answers_holds_up_nobody() {
    // case B1, case B2.
    let silent = Origin::with([refunds()]);
    silent.break_everything(Fault::Hang);
    let (_good, gateway) = beside(&silent).await;
    gateway.approve("good/refunds").await;
    assert_good_is_served(&gateway).await;
    silent.mend();
    gateway.skill_is("bad/refunds", "pending").await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_read_that_hangs_lets_others_pass() {
    let slow = Origin::with([refunds()]);
    let (_good, gateway) = beside(&slow).await;
    gateway.approve("good/refunds").await;
    gateway.approve("bad/refunds").await;
    slow.break_method("resources/read", Fault::Hang);
    let host = gateway.host();
    let hanging = host.read("skill://bad/refunds/SKILL.md");
    let others = async {
        slow.was_asked("resources/read", 1).await;
        for _ in 0..20 {
            assert_good_is_served(&gateway).await;
        }
        assert_eq!(
            gateway.host().list().await.result()["skills"].as_array().unwrap().len(),
            2
        );
        slow.mend();
    };
    // Had the others waited for it, it would have been over its time before they were.
    let (answer, ()) = tokio::join!(hanging, others);
    assert_eq!(answer.bytes(), refunds().bytes("SKILL.md"));
    gateway.finish().await;
}

#[tokio::test]
async fn malformed_and_failing_origins_are_reported_and_change_nothing_for_others() {
    // case B1, case B6.
    for (fault, words) in [
        (Fault::Status(500), "500"),
        (Fault::Status(404), "404"),
        (Fault::Status(401), "it refused our credential (HTTP status 401)"),
        (Fault::Body("<html>no</html>"), "JSON"),
        (Fault::Body("[]"), "JSON"),
        (
            Fault::Body(r#"{"jsonrpc":"2.0","id":1,"result":{"skills":7}}"#),
            "response id",
        ),
        // case C7: the older transport with its two endpoints.
        (Fault::Status(405), "405"),
    ] {
        let bad = Origin::with([refunds()]);
        bad.break_everything(fault);
        let (_good, gateway) = beside(&bad).await;
        gateway.approve("good/refunds").await;
        let told = gateway
            .origin_when("bad", "has an error", |item| item["last_error"].is_string())
            .await;
        assert!(told["last_error"].as_str().unwrap().contains(words), "{words}: {told}");
        assert_eq!(told["state"], "down");
        assert_eq!(
            gateway.host().list().await.result()["_meta"]["dev.portcullis/stale"],
            true
        );
        assert_good_is_served(&gateway).await;
        bad.mend();
        gateway.skill_is("bad/refunds", "pending").await;
        gateway.finish().await;
    }
}

#[tokio::test]
async fn a_listing_that_does_not_end_is_ended_and_what_was_good_is_kept() {
    for paging in [Paging::Endless, Paging::Repeated] {
        let bad = Origin::with([refunds()]);
        bad.set(|script| script.paging = paging);
        let (_good, gateway) = beside(&bad).await;
        gateway.approve("good/refunds").await;
        gateway.approve("bad/refunds").await;
        assert_good_is_served(&gateway).await;
        assert_eq!(gateway.host().uris().await.len(), 2, "no skill twice");
        gateway.finish().await;
    }
}

#[tokio::test]
async fn an_empty_cursor_has_a_page_behind_it() {
    let origin = Origin::with(["a", "b", "c"].map(|name| Skill::at(&format!("skill://{name}/SKILL.md"))));
    origin.set(|script| script.paging = Paging::EmptyCursor(1));
    let gateway = Gateway::of(&origin).await;
    for name in ["a", "b", "c"] {
        gateway.approve(&format!("acme/{name}")).await;
    }
    assert_eq!(gateway.host().uris().await.len(), 3);
    gateway.finish().await;
}

/// Entries that break a rule each.
fn bad_entries() -> Vec<(&'static str, String)> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let entry = |name: &str, resources: &Value| {
        let frontmatter = json!({ "name": name, "description": "d" });
        json!({ "uri": format!("skill://{name}/SKILL.md"), "frontmatter": frontmatter, "resources": resources })
            .to_string()
    };
    let own = |name: &str| json!({ "uri": format!("skill://{name}/SKILL.md"), "digest": digest, "size": 1 });
    vec![
        ("S-26", entry("dynamic", &json!("dynamic"))),
        ("S-20", entry("cased", &json!("Dynamic"))),
        ("S-20", entry("nothing", &Value::Null)),
        ("S-20", entry("missing", &Value::Null).replace(r#","resources":null"#, "")),
        ("S-21", entry("empty", &json!([]))),
        ("S-21", entry("twice", &json!([own("twice"), own("twice")]))),
        ("S-21", entry("without", &json!([{ "uri": "skill://without/a.md", "digest": digest, "size": 1 }]))),
        ("S-22", entry("outside", &json!([own("outside"), own("elsewhere")]))),
        (
            "S-24",
            entry(
                "digest",
                &json!([{ "uri": "skill://digest/SKILL.md", "digest": digest.to_uppercase(), "size": 1 }]),
            ),
        ),
        (
            "S-23",
            entry(
                "size",
                &json!([{ "uri": "skill://size/SKILL.md", "digest": digest, "size": -1 }]),
            ),
        ),
        (
            "S-23",
            entry("no-size", &json!([{ "uri": "skill://no-size/SKILL.md", "digest": digest }])),
        ),
        ("S-9", entry("Upper", &json!([own("Upper")]))),
        ("S-9", entry("\u{43c}\u{43e}\u{439}", &json!([own("\u{43c}\u{43e}\u{439}")]))),
        ("S-9", entry("evil\u{202e}", &json!([own("evil\u{202e}")]))),
        (
            "S-17",
            entry("other-name", &json!([own("other-name")])).replace(r#""name":"other-name""#, r#""name":"right-name""#),
        ),
        (
            "S-6",
            json!({ "name": "draft", "description": "d", "uri": "skill://draft/SKILL.md", "mimeType": "text/markdown" })
                .to_string(),
        ),
        (
            "duplicate-key",
            entry("again", &json!([own("again")])).replacen('{', r#"{"uri":"skill://first/SKILL.md","#, 1),
        ),
        (
            "case-twin",
            entry("twin", &json!([own("twin")])).replacen('{', r#"{"URI":"skill://first/SKILL.md","#, 1),
        ),
        ("S-20", "null".to_owned()),
    ]
}

#[tokio::test]
async fn bad_entries_are_rejected_one_by_one_with_rule_and_reason() {
    // case L1, case J2, case J3; of case C6 (d), entries of an older draft.
    let origin = Origin::with([refunds(), Skill::at("skill://last/SKILL.md")]);
    let bad = bad_entries();
    origin.set(|script| script.extra_entries = bad.iter().map(|(_, text)| text.clone()).collect());
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    gateway.approve("acme/last").await;
    assert_eq!(gateway.host().uris().await.len(), 2);
    let seen = gateway
        .origin_when("acme", "was listed", |item| {
            item["rejected"].as_array().is_some_and(|r| !r.is_empty())
        })
        .await;
    let rejected = seen["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), bad.len(), "{rejected:#?}");
    let mut wanted: Vec<_> = bad.iter().map(|(rule, _)| *rule).collect();
    let mut found = strings(&seen["rejected"], "rule");
    found.sort();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{rejected:#?}");
    let reasons = strings(&seen["rejected"], "reason");
    assert!(reasons.iter().all(|reason| !reason.is_empty()), "{reasons:?}");
    gateway.finish().await;
}

#[tokio::test]
async fn origins_of_every_era_and_form_stand_side_by_side() {
    // case C3: without sessions, and with a server that refuses what comes without session or version.
    let mut setup = Setup::new();
    let mut origins = Vec::new();
    for (label, era, answers) in [
        ("a", Era::Modern, Answers::Json),
        ("b", Era::Modern, Answers::Events),
        ("c", Era::Legacy, Answers::Events),
        ("d", Era::LegacyWithSessions, Answers::Json),
    ] {
        let origin = Origin::speaking(era, answers, [refunds()]);
        origin.set(|script| script.has_hints = era == Era::Modern && answers == Answers::Json);
        setup = setup.origin(label, &origin);
        origins.push((label, origin));
    }
    let gateway = setup.start().await;
    for (label, _) in &origins {
        gateway.approve(&format!("{label}/refunds")).await;
        let answer = gateway
            .host()
            .read(&format!("skill://{label}/refunds/assets/form.bin"))
            .await;
        assert_eq!(answer.bytes(), refunds().bytes("assets/form.bin"));
    }
    gateway.finish().await;
}

#[tokio::test]
async fn however_an_older_server_refuses_discovery_it_is_spoken_to_as_one() {
    // case C1; deviation 33.
    let json = "application/json";
    for refusal in [
        Fault::Whole(
            200,
            json,
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        Fault::Whole(
            404,
            json,
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        Fault::Whole(
            400,
            json,
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"Invalid request"}}"#,
        ),
        Fault::Whole(
            400,
            json,
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"Invalid params"}}"#,
        ),
        Fault::Whole(
            400,
            json,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}"#,
        ),
        Fault::Whole(400, "text/plain", "no session"),
        Fault::Whole(404, "text/plain", "not found"),
        Fault::Status(405),
    ] {
        let origin = Origin::speaking(Era::LegacyWithSessions, Answers::Json, [refunds()]);
        origin.break_method("server/discover", refusal.clone());
        let gateway = Gateway::of(&origin).await;
        let seen = gateway
            .origin_when("acme", &format!("is up in spite of {refusal:?}"), |item| {
                item["state"] == "up"
            })
            .await;
        assert_eq!(seen["era"], "2025-11-25", "{refusal:?}");
        gateway.approve("acme/refunds").await;
        assert_eq!(
            gateway.host().read("skill://acme/refunds/SKILL.md").await.bytes(),
            refunds().bytes("SKILL.md")
        );
        let asked = origin
            .log()
            .iter()
            .filter(|asked| asked.method == "server/discover")
            .count();
        assert_eq!(asked, 1, "once for all: {refusal:?}");
        gateway.finish().await;
    }
}

#[tokio::test]
async fn what_proves_nothing_about_the_era_is_an_error_and_no_handshake_follows() {
    // case C8.
    for fault in [Fault::Status(401), Fault::Status(403), Fault::Status(503)] {
        let origin = Origin::with([refunds()]);
        origin.break_method("server/discover", fault.clone());
        let gateway = Gateway::of(&origin).await;
        gateway
            .origin_when("acme", "has an error", |item| item["last_error"].is_string())
            .await;
        let methods: Vec<_> = origin.log().into_iter().map(|asked| asked.method).collect();
        assert!(!methods.contains(&"initialize".to_owned()), "{fault:?}: {methods:?}");
        origin.mend();
        gateway.skill_is("acme/refunds", "pending").await;
        gateway.finish().await;
    }
}

#[tokio::test]
async fn a_legacy_session_that_ended_is_opened_anew() {
    let mut origin = Origin::speaking(Era::LegacyWithSessions, Answers::Json, [refunds()]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    origin.stop().await;
    origin.restart();
    let listed = tokio::time::timeout(Duration::from_secs(30), origin.is_asked_again("skills/list")).await;
    assert!(listed.is_ok());
    gateway
        .origin_when("acme", "is well", |item| item["last_error"].is_null())
        .await;
    assert_eq!(
        gateway.host().read("skill://acme/refunds/SKILL.md").await.bytes(),
        refunds().bytes("SKILL.md")
    );
    gateway.finish().await;
}

#[tokio::test]
async fn no_entry_of_a_large_listing_is_lost_without_a_word() {
    // case A12, case L4.
    let skills = (0..136).map(|number| Skill::at(&format!("skill://s{number}/SKILL.md")));
    let origin = Origin::with(skills);
    let bad = ["a", "b", "c"].map(|name| format!(r#"{{"uri":"skill://{name}/SKILL.md","frontmatter":{{}}}}"#));
    origin.set(|script| {
        script.paging = Paging::Of(50);
        script.extra_entries = bad.to_vec();
    });
    let gateway = Gateway::of(&origin).await;
    let seen = gateway
        .origin_when("acme", "was listed", |item| item["skills"] == 136)
        .await;
    assert_eq!(
        strings(&seen["rejected"], "uri"),
        ["skill://a/SKILL.md", "skill://b/SKILL.md", "skill://c/SKILL.md"]
    );
    assert_eq!(seen["last_error"], Value::Null);
    gateway.finish().await;
}

#[tokio::test]
async fn what_is_stored_of_an_origin_that_never_answers_is_served_while_it_is_waited_for() {
    // case B2.
    let slow = Origin::with([refunds()]);
    let (_good, mut gateway) = beside(&slow).await;
    gateway.approve("good/refunds").await;
    gateway.approve("bad/refunds").await;
    let stored = "skill://bad/refunds/SKILL.md";
    gateway.host().read(stored).await.result();
    assert_eq!(gateway.stop().await, 0);
    slow.break_everything(Fault::Hang);
    gateway.start().await;
    assert_good_is_served(&gateway).await;
    let read = gateway.host().read(stored).await;
    assert_eq!(read.bytes(), refunds().bytes("SKILL.md"));
    assert_eq!(read.result()["_meta"]["dev.portcullis/stale"], true);
    gateway
        .origin_when("bad", "is waited for", |item| item["state"] == "connecting")
        .await;
    slow.mend();
    gateway.origin_when("bad", "is up", |item| item["state"] == "up").await;
    gateway.finish().await;
}

#[tokio::test]
async fn an_origin_that_comes_after_the_start_is_found_by_itself() {
    // case B3; of case B1, a connection that is refused.
    let mut late = Origin::with([refunds()]);
    late.stop().await;
    let (_good, gateway) = beside(&late).await;
    gateway.approve("good/refunds").await;
    let told = gateway
        .origin_when("bad", "has an error", |item| item["last_error"].is_string())
        .await;
    let words = told["last_error"].as_str().unwrap();
    assert!(words.starts_with("it cannot be reached: Connection refused"), "{words}");
    assert_good_is_served(&gateway).await;
    gateway.cli(&["health"]).await.expect(0);
    late.restart();
    gateway.approve("bad/refunds").await;
    assert_eq!(gateway.host().uris().await.len(), 2);
    gateway.finish().await;
}

#[tokio::test]
async fn a_request_whose_origin_dies_meanwhile_is_answered_at_once() {
    // case B5.
    let mut origin = Origin::speaking(Era::LegacyWithSessions, Answers::Events, [refunds()]);
    let setup = Setup::new().origin_with(
        "acme",
        &origin,
        "refresh = \"1s\"\ntimeout = \"10min\"\ntotal = \"10min\"",
    );
    let gateway = setup.start().await;
    gateway.skill_is("acme/refunds", "pending").await;
    origin.break_method("skills/get", Fault::Hang);
    let host = gateway.host();
    let asked = host.get("skill://acme/unknown/SKILL.md");
    let dies = async {
        origin.was_asked("skills/get", 1).await;
        origin.stop().await;
    };
    let (answer, ()) = tokio::join!(asked, dies);
    let data = answer.refusal(-32603);
    assert_eq!(
        (&data["dev.portcullis/reason"], &data["dev.portcullis/origin"]),
        (&json!("origin-down"), &json!("acme"))
    );
    gateway
        .origin_when("acme", "is down", |item| item["state"] == "down")
        .await;
    gateway.finish().await;
}

#[tokio::test]
async fn one_file_that_an_origin_fails_at_is_all_that_fails() {
    // case B6.
    let origin = Origin::with([refunds()]);
    let gateway = Gateway::of(&origin).await;
    gateway.approve("acme/refunds").await;
    origin.break_uri("skill://refunds/SKILL.md", Fault::Status(500));
    origin.break_uri("skill://refunds/references/limits.md", Fault::Status(401));
    let host = gateway.host();
    for path in ["SKILL.md", "references/limits.md"] {
        let answer = host.read(&format!("skill://acme/refunds/{path}")).await;
        assert_eq!(answer.refusal(-32603)["dev.portcullis/reason"], "origin-fault");
    }
    let other = host.read("skill://acme/refunds/assets/form.bin").await;
    assert_eq!(other.bytes(), refunds().bytes("assets/form.bin"));
    assert!(
        gateway.stderr().contains("it refused our credential"),
        "{}",
        gateway.stderr()
    );
    let seen = gateway.origin_when("acme", "is up", |item| item["state"] == "up").await;
    assert_eq!(seen["last_error"], Value::Null);
    gateway.finish().await;
}

#[tokio::test]
async fn every_older_revision_is_spoken() {
    // case C2.
    let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let mut setup = Setup::new();
    let mut origins = Vec::new();
    for revision in revisions {
        let origin = Origin::speaking(Era::LegacyWithSessions, Answers::Json, [refunds()]);
        origin.rewrite(move |method, result| {
            if method == "initialize" {
                result["protocolVersion"] = json!(revision);
            }
        });
        setup = setup.origin(&format!("r{revision}"), &origin);
        origins.push(origin);
    }
    let gateway = setup.start().await;
    for revision in revisions {
        let label = format!("r{revision}");
        gateway.approve_all(&label, 1).await;
        let seen = gateway.origin_when(&label, "is up", |item| item["state"] == "up").await;
        assert_eq!(seen["era"], revision);
        let read = gateway.host().read(&format!("skill://{label}/refunds/SKILL.md")).await;
        assert_eq!(read.bytes(), refunds().bytes("SKILL.md"));
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_server_of_a_later_revision_is_not_taken_for_an_older_one() {
    // case C5: one that names a later revision, and one that names the very revision it refused.
    for supported in [LATER, CONTRADICTORY] {
        let origin = Origin::with([refunds()]);
        origin.break_everything(Fault::Whole(400, "application/json", supported));
        let gateway = Gateway::of(&origin).await;
        let told = gateway
            .origin_when("acme", "has an error", |item| item["last_error"].is_string())
            .await;
        let words = told["last_error"].as_str().unwrap();
        assert!(words.contains("2026-07-28"), "{words}");
        assert!(words.contains("2027-01-01") == (supported == LATER), "{words}");
        assert_eq!(origin.count("initialize"), 0);
        assert!(origin.count("server/discover") <= 4, "{:?}", origin.log());
        origin.mend();
        gateway.skill_is("acme/refunds", "pending").await;
        gateway.finish().await;
    }
}

/// Answers that are none, whatever was asked.
const NO_ANSWERS: [&str; 19] = [
    "",
    "null",
    "[]",
    "7",
    "\"x\"",
    "{}",
    "\u{feff}{}",
    r#"{"jsonrpc":"2.0","id":{id}}"#,
    r#"{"jsonrpc":"2.0","id":{id},"result":null}"#,
    r#"{"jsonrpc":"2.0","id":{id},"result":[]}"#,
    r#"{"jsonrpc":"2.0","id":{id},"result":"x"}"#,
    r#"{"jsonrpc":"2.0","id":{id},"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":{id},"result":{"skills":[null,7,{},[]],"skill":null,"contents":[null,7]}}"#,
    r#"{"jsonrpc":"2.0","id":{id},"result":{"skills":[],"skills":[],"skill":{},"contents":[],"contents":[]}}"#,
    r#"{"jsonrpc":"2.0","id":"{id}","result":{"skills":[]}}"#,
    r#"{"jsonrpc":"2.0","result":{"skills":[]}}"#,
    r#"{"jsonrpc":"2.0","id":{id},"error":7}"#,
    r#"{"jsonrpc":"2.0","id":{id},"error":{"code":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32603,"message":"a\u0000b\u202e"},"result":{}}"#,
];

#[tokio::test]
async fn whatever_an_origin_answers_the_process_and_the_others_go_on() {
    // case R4: in an open session, and then from the first message on.
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":{{id}},"result":{}1{}}}"#,
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let answers: Vec<&'static str> = NO_ANSWERS.into_iter().chain([&*deep.leak()]).collect();
    let good = Origin::with([refunds()]);
    let mut setup = Setup::new().origin("good", &good);
    let mut origins = Vec::new();
    for number in 0..answers.len() {
        let origin = Origin::with([refunds()]);
        setup = setup.origin(&format!("bad-{number}"), &origin);
        origins.push(origin);
    }
    let mut gateway = setup.start().await;
    gateway.approve("good/refunds").await;
    for (number, answer) in answers.iter().enumerate() {
        gateway.approve_all(&format!("bad-{number}"), 1).await;
        origins[number].break_everything(Fault::Whole(200, "application/json", answer));
    }
    for is_open in [true, false] {
        let host = gateway.host();
        for (number, answer) in answers.iter().enumerate() {
            for refused in [
                host.read(&format!("skill://bad-{number}/refunds/SKILL.md")).await,
                host.get(&format!("skill://bad-{number}/unknown/SKILL.md")).await,
            ] {
                assert!(refused.json["error"].is_object(), "{answer}: {}", refused.text);
            }
            assert_good_is_served(&gateway).await;
        }
        for number in 0..answers.len() {
            let is_told = |item: &Value| item["last_error"].is_string() || item["rejected"] != json!([]);
            gateway
                .origin_when(&format!("bad-{number}"), "is told of", is_told)
                .await;
        }
        if is_open {
            gateway.restart().await;
        }
    }
    assert!(!gateway.stderr().contains("panicked"), "{}", gateway.stderr());
    gateway.finish().await;
}
