//! Hosts of older revisions have sessions: each its caller's own, for as long as it is used, and not more than there is
//! room for.

use http::Method;
use serde_json::Value;
use serde_json::json;
use tokio::time::Duration;
use tokio::time::Instant;

use crate::support::approved;
use crate::support::client;
use crate::support::client::Host;
use crate::support::client::LEGACY;
use crate::support::gateway::DEADLINE;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::refunds;

/// A file in the merged view.
const FILE: &str = "skill://acme/refunds/SKILL.md";

/// Sessions that wait for their hosts.
const SESSIONS: u16 = 1_000;

/// Requests that belong to none.
const REQUESTS: u16 = 2_000;

/// Asks for something that is not the lane's.
async fn resources(host: &Host) -> client::Answer {
    host.ask("resources/list", json!({})).await
}

#[tokio::test]
async fn a_session_is_opened_used_and_ended_by_its_host() {
    // base protocol §23.2.
    let (_origin, gateway) = approved().await;
    for url in [gateway.mcp().to_owned(), gateway.mcp_of("acme")] {
        let host = Host::legacy(&url).await;
        let id = host.session().expect("a session").to_owned();
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        assert_eq!(host.uris().await.len(), 1);
        resources(&host).await.result();
        host.ask("ping", json!({})).await.result();
        assert_eq!(host.without_body(Method::DELETE).await.status(), 202);
        for answer in [host.list().await, resources(&host).await] {
            assert_eq!(answer.status, 404, "{}", answer.text);
            answer.refusal(-32600);
        }
        assert_eq!(host.without_body(Method::GET).await.status(), 404);
        assert_eq!(host.without_body(Method::DELETE).await.status(), 404);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_session_that_is_not_there_is_not_found_and_the_newest_revision_has_none() {
    // case D1.
    let (_origin, gateway) = approved().await;
    let lost = Host::modern(gateway.mcp()).in_session(LEGACY, "0123456789abcdef0123456789abcdef");
    for answer in [lost.list().await, lost.read(FILE).await, resources(&lost).await] {
        assert_eq!(answer.status, 404, "{}", answer.text);
    }
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(lost.post(&notice).await.status, 404);
    let modern = Host::modern(gateway.mcp()).in_session(client::MODERN, "0123456789abcdef0123456789abcdef");
    assert_eq!(modern.read(FILE).await.bytes(), refunds().bytes("SKILL.md"));
    resources(&modern).await.result();
    assert_eq!(modern.without_body(Method::GET).await.status(), 405);
    // Whoever begins anew is let in, whatever it still names.
    let again = lost.shaking_hands(LEGACY).await;
    resources(&again).await.result();
    gateway.finish().await;
}

#[tokio::test]
async fn hosts_of_older_revisions_may_go_without_a_session() {
    let (_origin, gateway) = approved().await;
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let list = |id: u64, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} });
        for (id, method) in (1..).zip(["skills/list", "resources/list", "ping"]) {
            let request = client::http()
                .post(gateway.mcp())
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json")
                .header("mcp-protocol-version", version)
                .body(list(id, method).to_string());
            client::send(request).await.result();
        }
    }
    gateway.finish().await;
}

/// A gateway that tells callers apart, with the tokens of two.
async fn two_callers(origin: &Origin) -> (Gateway, [String; 2]) {
    let setup = Setup::new().origin("acme", origin).set("server.auth = \"token\"");
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    let mut tokens = Vec::new();
    for name in ["ann", "bob"] {
        let made = gateway.cli(&["token", "new", name]).await.expect(0);
        tokens.push(made.out.split_whitespace().last().unwrap().to_owned());
    }
    (gateway, tokens.try_into().unwrap())
}

#[tokio::test]
async fn a_session_is_nobody_elses() {
    let origin = Origin::with([refunds()]);
    let (gateway, [ann, bob]) = two_callers(&origin).await;
    let host = gateway.host().with_token(&ann).shaking_hands(LEGACY).await;
    let id = host.session().unwrap();
    let thief = gateway.host().with_token(&bob).in_session(LEGACY, id);
    let elsewhere = Host::modern(&gateway.mcp_of("acme"))
        .with_token(&ann)
        .in_session(LEGACY, id);
    for other in [&thief, &elsewhere] {
        for answer in [other.list().await, resources(other).await] {
            assert_eq!(answer.status, 404, "{}", answer.text);
        }
        assert_eq!(other.without_body(Method::GET).await.status(), 404);
        assert_eq!(other.without_body(Method::DELETE).await.status(), 404);
    }
    assert_eq!(gateway.host().in_session(LEGACY, id).list().await.status, 401);
    resources(&host).await.result();
    gateway.finish().await;
}

#[tokio::test]
async fn requests_for_skills_keep_a_session_alive_and_silence_ends_it() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().origin("acme", &origin).set("limits.session_idle = \"2s\"");
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    let (host, silent) = (Host::legacy(gateway.mcp()).await, Host::legacy(gateway.mcp()).await);
    let listening = Host::legacy(gateway.mcp()).await;
    let stream = listening.without_body(Method::GET).await;
    assert_eq!(stream.status(), 200);
    let begin = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(200));
    while resources(&silent).await.status != 404 {
        assert!(begin.elapsed() < DEADLINE, "a silent session goes on");
        // Looking at it is using it, so it is left alone for longer than it may be idle.
        let pause = Instant::now() + Duration::from_secs(3);
        while Instant::now() < pause {
            interval.tick().await;
            host.list().await.result();
        }
    }
    resources(&host).await.result();
    resources(&listening).await.result();
    gateway.finish().await;
}

#[tokio::test]
async fn a_stream_with_nothing_to_tell_shows_that_it_is_there() {
    // case D6.
    let (_origin, gateway) = approved().await;
    let host = Host::legacy(gateway.mcp()).await;
    let mut stream = host.without_body(Method::GET).await;
    assert_eq!(stream.headers()["cache-control"], "no-cache");
    assert_eq!(stream.headers()["x-accel-buffering"], "no");
    let mut heard = Vec::new();
    while !heard.split(|byte| *byte == b'\n').any(|line| line.starts_with(b":")) {
        let piece = tokio::time::timeout(DEADLINE, stream.chunk()).await.unwrap();
        heard.extend(piece.unwrap().expect("a stream that goes on"));
    }
    gateway.finish().await;
}

#[tokio::test]
async fn there_are_not_more_sessions_than_there_is_room_for() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().origin("acme", &origin).set("limits.sessions = 2");
    let gateway = setup.start().await;
    gateway.approve("acme/refunds").await;
    let (first, second) = (Host::legacy(gateway.mcp()).await, Host::legacy(gateway.mcp()).await);
    first.list().await.result();
    let third = Host::legacy(gateway.mcp()).await;
    assert_eq!(second.list().await.status, 404, "it was idle longest");
    first.list().await.result();
    let streams = [
        first.without_body(Method::GET).await,
        third.without_body(Method::GET).await,
    ];
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client::hello(LEGACY) });
    let refused = gateway.host().in_session(LEGACY, "none").post(&hello).await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.json["error"]["message"].as_str().unwrap().contains("sessions"));
    drop(streams);
    gateway.finish().await;
}

#[tokio::test]
async fn an_id_that_is_under_way_in_a_session_is_refused_and_not_crossed() {
    // case S2.
    let (origin, gateway) = approved().await;
    origin.break_method("resources/read", Fault::Hang);
    let (one, two) = (Host::legacy(gateway.mcp()).await, Host::legacy(gateway.mcp()).await);
    let read = json!({ "jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": { "uri": FILE } });
    let list = json!({ "jsonrpc": "2.0", "id": 7, "method": "resources/list", "params": {} });
    let waiting = one.post(&read);
    let meanwhile = async {
        origin.was_asked("resources/read", 1).await;
        let refused = one.post(&list).await;
        refused.refusal(-32600);
        assert_eq!(refused.status, 400);
        two.post(&list).await.result()["resources"]
            .as_array()
            .expect("another session's own");
        origin.mend();
    };
    let (answer, ()) = tokio::join!(waiting, meanwhile);
    assert_eq!(answer.bytes(), refunds().bytes("SKILL.md"));
    one.post(&list).await.result();
    gateway.finish().await;
}

#[tokio::test]
async fn streams_without_an_end_of_their_own_hold_up_no_shutdown() {
    let (_origin, mut gateway) = approved().await;
    let host = Host::legacy(gateway.mcp()).await;
    let stream = host.without_body(Method::GET).await;
    assert!(
        stream.headers()["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/event-stream")
    );
    let begin = Instant::now();
    assert_eq!(gateway.stop().await, 0);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    stream.bytes().await.expect("it ends in good order");
    gateway.finish().await;
}

#[tokio::test]
async fn a_batch_is_answered_in_the_one_revision_that_has_them() {
    // base protocol §23.4.
    let (_origin, gateway) = approved().await;
    let message = |id: u64, method: &str, uri: Option<&str>| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "uri": uri } });
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let batch = json!([
        message(1, "skills/get", Some(FILE)),
        notice,
        message(2, "resources/list", None),
        message(3, "resources/read", Some("skill://acme/none/SKILL.md")),
        { "jsonrpc": "2.0", "id": 4, "method": "initialize", "params": client::hello("2025-03-26") },
        5,
    ]);
    let old = gateway.host().shaking_hands("2025-03-26").await;
    let answer = old.post(&batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answers = answer.json.as_array().unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!(3), &json!(4), &Value::Null]);
    assert_eq!(answers[0]["result"]["skill"]["uri"], FILE);
    assert!(answers[1]["result"]["resources"].is_array());
    assert_eq!(answers[2]["error"]["code"], -32002);
    assert_eq!(
        (&answers[3]["error"]["code"], &answers[4]["error"]["code"]),
        (&json!(-32600), &json!(-32600))
    );
    assert_eq!(old.post(&json!([notice, notice])).await.status, 202);
    for (bad, code) in [(json!([]), -32600), (json!(vec![notice; 65]), -32600)] {
        let answer = old.post(&bad).await;
        answer.refusal(code);
        assert_eq!(answer.status, 400);
    }
    for version in ["2025-06-18", "2025-11-25"] {
        let host = gateway.host().shaking_hands(version).await;
        let answer = host.post(&batch).await;
        answer.refusal(-32600);
        assert_eq!(answer.status, 400, "{version}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn idle_sessions_cost_little_and_requests_without_one_cost_nothing_that_stays() {
    let (_origin, gateway) = approved().await;
    let client = client::http();
    let host = || gateway.host().with_client(client.clone());
    host().list().await.result();
    gateway.peak_memory();
    let before = gateway.peak_memory();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(host().shaking_hands(LEGACY).await);
    }
    gateway.peak_memory();
    let with = gateway.peak_memory();
    let modern = host();
    for _ in 0..REQUESTS / 2 {
        modern.list().await.result();
        resources(&modern).await.result();
    }
    gateway.peak_memory();
    let after = gateway.peak_memory();
    for host in &sessions {
        host.list().await.result();
    }
    let each = (with - before) * 1024.0 / f64::from(SESSIONS);
    println!(
        "{SESSIONS} idle sessions: {before:.0} MB before, {with:.0} MB with them ({each:.0} KiB each); \
         {after:.0} MB after {REQUESTS} requests without one"
    );
    assert!(each < 512.0, "{each} KiB a session");
    assert!(after - with < 64.0, "{with} MB, then {after} MB");
    gateway.finish().await;
}
