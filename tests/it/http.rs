//! The rules of the transport: who may ask, which headers agree with the body, and what comes back when they do not.

use serde_json::Value;
use serde_json::json;

use crate::support::approved;
use crate::support::client;
use crate::support::client::Answer;
use crate::support::client::Host;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;

/// A file in the merged view.
const FILE: &str = "skill://acme/refunds/SKILL.md";

/// A modern request.
fn message(method: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = client::meta();
    json!({ "jsonrpc": "2.0", "id": "one", "method": method, "params": params })
}

/// Posts a body with these headers and no others that matter.
async fn post(url: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut request = client::http()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client::send(request.body(body.to_string())).await
}

/// The headers that a modern request has.
fn headers(method: &str) -> Vec<(&str, &str)> {
    vec![("mcp-protocol-version", client::MODERN), ("mcp-method", method)]
}

/// The same headers with one of them changed, or left out.
fn with<'a>(headers: &[(&'a str, &'a str)], name: &'a str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let others = headers.iter().copied().filter(|(other, _)| *other != name);
    others.chain(value.map(|value| (name, value))).collect()
}

#[tokio::test]
async fn each_header_must_be_there_and_agree_with_the_body() {
    let (_origin, gateway) = approved().await;
    let list = headers("skills/list");
    let read = with(&headers("resources/read"), "mcp-name", Some(FILE));
    let (list_body, read_body) = (
        message("skills/list", json!({})),
        message("resources/read", json!({ "uri": FILE })),
    );
    for (headers, body) in [(&list, &list_body), (&read, &read_body)] {
        let answer = post(gateway.mcp(), headers, body).await;
        assert_eq!(
            (answer.status, answer.json["id"].as_str()),
            (200, Some("one")),
            "{}",
            answer.text
        );
        answer.result();
    }
    for (headers, body) in [
        (with(&list, "mcp-protocol-version", None), &list_body),
        (with(&list, "mcp-protocol-version", Some("2025-11-25")), &list_body),
        (with(&list, "mcp-protocol-version", Some("2099-01-01")), &list_body),
        (with(&list, "mcp-method", None), &list_body),
        (with(&list, "mcp-method", Some("skills/get")), &list_body),
        (with(&list, "mcp-method", Some("SKILLS/LIST")), &list_body),
        (with(&read, "mcp-name", None), &read_body),
        (
            with(&read, "mcp-name", Some("skill://acme/refunds/skill.md")),
            &read_body,
        ),
        (with(&read, "mcp-name", Some("=?base64?!!?=")), &read_body),
    ] {
        let answer = post(gateway.mcp(), &headers, body).await;
        answer.refusal(-32020);
        assert_eq!(
            (answer.status, answer.json["id"].as_str()),
            (400, Some("one")),
            "{headers:?}"
        );
    }
    // "skill://acme/refunds/SKILL.md", encoded though it need not be.
    let encoded = with(
        &read,
        "mcp-name",
        Some("=?base64?c2tpbGw6Ly9hY21lL3JlZnVuZHMvU0tJTEwubWQ=?="),
    );
    post(gateway.mcp(), &encoded, &read_body).await.result();
    gateway.finish().await;
}

#[tokio::test]
async fn names_are_asked_of_reads_alone() {
    // deviation 34.
    let (_origin, gateway) = approved().await;
    let get = message("skills/get", json!({ "uri": FILE }));
    post(gateway.mcp(), &headers("skills/get"), &get).await.result();
    let directory = message("resources/directory/read", json!({ "uri": "skill://acme/refunds" }));
    post(gateway.mcp(), &headers("resources/directory/read"), &directory)
        .await
        .result();
    gateway.finish().await;
}

#[tokio::test]
async fn modern_metadata_must_be_complete_and_of_a_known_revision() {
    let (_origin, gateway) = approved().await;
    let list = headers("skills/list");
    for missing in [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
    ] {
        let mut body = message("skills/list", json!({}));
        body["params"]["_meta"].as_object_mut().unwrap().remove(missing);
        let answer = post(gateway.mcp(), &list, &body).await;
        answer.refusal(-32602);
        assert_eq!(answer.status, 400, "{missing}");
    }
    let mut body = message("skills/list", json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let answer = post(
        gateway.mcp(),
        &with(&list, "mcp-protocol-version", Some("2099-01-01")),
        &body,
    )
    .await;
    let data = answer.refusal(-32022);
    assert_eq!((answer.status, &data["requested"]), (400, &json!("2099-01-01")));
    assert!(data["supported"].as_array().unwrap().contains(&json!(client::MODERN)));
    let mut body = message("skills/list", json!({}));
    body["params"]["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("io.modelcontextprotocol/clientInfo");
    post(gateway.mcp(), &list, &body).await.result();
    gateway.finish().await;
}

#[tokio::test]
async fn both_eras_declare_skills_with_directories() {
    // case A1, case C9; deviation 37.
    let (_origin, gateway) = approved().await;
    for url in [gateway.mcp().to_owned(), gateway.mcp_of("acme")] {
        let answer = Host::modern(&url).ask("server/discover", json!({})).await;
        let result = answer.result();
        assert_eq!(
            result["capabilities"]["extensions"]["io.modelcontextprotocol/skills"]["directoryRead"],
            true
        );
        assert!(result["capabilities"]["resources"].is_object());
        assert_eq!(result["supportedVersions"], json!([client::MODERN]));
        assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string());
        let hello = json!({ "protocolVersion": client::MODERN, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        let answer = post(&url, &[], &body).await;
        assert_eq!(
            answer.result()["protocolVersion"],
            client::LEGACY,
            "a handshake is never granted the newest"
        );
        assert_eq!(answer.json["id"], 0);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn what_a_server_does_not_know_is_not_found() {
    let (_origin, gateway) = approved().await;
    for method in ["initialize", "ping", "tools/list", "logging/setLevel", "no/such"] {
        let answer = gateway.host().ask(method, json!({})).await;
        answer.refusal(-32601);
        assert_eq!(answer.status, 404, "{method}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn request_ids_come_back_as_they_were() {
    // deviation 36.
    let (_origin, gateway) = approved().await;
    for id in [
        json!(0),
        json!(-7),
        json!(9_007_199_254_740_993_u64),
        json!(""),
        json!("a\"\u{e9}\n"),
        json!("0"),
    ] {
        for (method, is_good) in [("skills/list", true), ("skills/get", false), ("no/such", false)] {
            let mut body = message(method, json!({}));
            body["id"] = id.clone();
            let answer = post(gateway.mcp(), &headers(method), &body).await;
            assert_eq!(answer.json["id"], id, "{}", answer.text);
            assert_eq!(answer.json.get("result").is_some(), is_good, "{}", answer.text);
        }
    }
    gateway.finish().await;
}

#[tokio::test]
async fn notifications_are_accepted_and_batches_and_responses_are_not() {
    let (_origin, gateway) = approved().await;
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let answer = post(
        gateway.mcp(),
        &[("mcp-protocol-version", client::LEGACY)],
        &notification,
    )
    .await;
    assert_eq!((answer.status, answer.text.as_str()), (202, ""));
    let batch = json!([message("skills/list", json!({}))]);
    let answer = post(gateway.mcp(), &headers("skills/list"), &batch).await;
    answer.refusal(-32600);
    assert_eq!(answer.status, 400);
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let answer = post(gateway.mcp(), &headers("skills/list"), &response).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    gateway.finish().await;
}

#[tokio::test]
async fn only_posts_are_answered() {
    let (_origin, gateway) = approved().await;
    for method in ["GET", "DELETE", "PUT"] {
        let request = client::http().request(method.parse().unwrap(), gateway.mcp());
        let answer = client::send(request.header("accept", "text/event-stream")).await;
        assert_eq!(answer.status, 405, "{method}");
    }
    let elsewhere = gateway.mcp().replace("/mcp", "/elsewhere");
    assert_eq!(client::send(client::http().post(elsewhere)).await.status, 404);
    gateway.finish().await;
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::new()
        .origin("acme", &origin)
        .set("server.origins = [\"https://app.example\"]");
    let gateway = setup.start().await;
    let body = message("skills/list", json!({}));
    // A page of the very host that is asked may ask it.
    let address = gateway.mcp().trim_start_matches("http://").trim_end_matches("/mcp");
    for (name, value, status) in [
        ("host", "evil.example", 403),
        ("host", "127.0.0.1.evil.example", 403),
        ("host", "localhost:1", 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "https://app.example.evil.example", 403),
        ("origin", "https://app.example", 200),
        ("origin", &format!("http://{address}"), 200),
    ] {
        let answer = post(gateway.mcp(), &with(&headers("skills/list"), name, Some(value)), &body).await;
        assert_eq!(answer.status, status, "{name}: {value}");
        assert_eq!(answer.json.get("result").is_some(), status == 200);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_host_name_that_is_configured_is_answered_to_and_a_refusal_names_the_setting() {
    // case D7.
    let origin = Origin::with([refunds()]);
    let setup = Setup::new().origin("acme", &origin);
    let setup = setup.set("server.hosts = [\"127.0.0.1\", \"skills.corp.example\"]");
    let gateway = setup.start().await;
    let body = message("skills/list", json!({}));
    let asked_as = |name: &'static str, value: &'static str| {
        let headers = with(&headers("skills/list"), name, Some(value));
        let (url, body) = (gateway.mcp().to_owned(), body.clone());
        async move { post(&url, &headers, &body).await }
    };
    asked_as("host", "skills.corp.example").await.result();
    for (name, value, setting) in [
        ("host", "evil.example", "server.hosts"),
        ("origin", "https://evil.example", "server.origins"),
    ] {
        let refused = asked_as(name, value).await;
        assert_eq!(refused.status, 403, "{value}");
        assert!(refused.text.contains(setting), "{}", refused.text);
    }
    gateway.finish().await;
}

/// A gateway that serves nobody without a token.
async fn admitting_by_token(origin: &Origin) -> Gateway {
    let setup = Setup::new().origin("acme", origin);
    setup.set("server.auth = \"token\"").start().await
}

#[tokio::test]
async fn with_tokens_nobody_is_served_without_one() {
    let origin = Origin::with([refunds()]);
    let gateway = admitting_by_token(&origin).await;
    gateway.approve("acme/refunds").await;
    let made = gateway.cli(&["token", "new", "laptops"]).await.expect(0);
    let token = made.out.split_whitespace().last().unwrap().to_owned();
    let host = gateway.host().with_token(&token);
    assert_eq!(host.uris().await, [FILE]);
    for stranger in [
        gateway.host(),
        gateway.host().with_token("x"),
        gateway.host().with_token(&format!("{token}x")),
    ] {
        for answer in [
            stranger.list().await,
            stranger.read(FILE).await,
            stranger.ask("server/discover", json!({})).await,
        ] {
            assert_eq!(answer.status, 401, "{}", answer.text);
            assert!(answer.headers.contains_key("www-authenticate"));
        }
    }
    let listed = gateway.cli(&["token", "list", "--json"]).await.expect(0);
    assert!(
        listed.out.contains("laptops") && !listed.out.contains(&token),
        "{}",
        listed.out
    );
    gateway.cli(&["token", "revoke", "laptops"]).await.expect(0);
    assert_eq!(host.list().await.status, 401);
    gateway.finish().await;
}

#[tokio::test]
async fn tokens_of_one_name_all_end_also_when_that_cannot_be_written() {
    let origin = Origin::with([refunds()]);
    let gateway = admitting_by_token(&origin).await;
    let mut hosts = Vec::new();
    for _ in 0..3 {
        let made = gateway.cli(&["token", "new", "laptops"]).await.expect(0);
        let token = made.out.split_whitespace().last().unwrap().to_owned();
        hosts.push(gateway.host().with_token(&token));
    }
    for host in &hosts {
        host.list().await.result();
    }
    gateway.write_no_more();
    let revoked = gateway.cli(&["token", "revoke", "laptops"]).await.expect(2);
    assert!(revoked.err.contains("in force, not yet recorded"), "{revoked:?}");
    for host in &hosts {
        assert_eq!(host.list().await.status, 401);
    }
    gateway.abandon();
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_tls_and_tokens() {
    for (settings, mentions) in [
        (vec!["server.listen = \"0.0.0.0:0\""], "server.listen"),
        (
            vec!["server.listen = \"0.0.0.0:0\"", "server.auth = \"token\""],
            "server.listen",
        ),
        (vec!["server.auth = \"basic\""], "server.auth"),
        (vec!["server.lisen = \"127.0.0.1:0\""], "lisen"),
    ] {
        let setup = settings.into_iter().fold(Setup::default(), Setup::set);
        let gateway = setup.written();
        let refused = gateway.cli(&["serve"]).await.expect(64);
        assert!(refused.err.contains(mentions), "{}", refused.err);
        assert_eq!(refused.out, "");
        assert!(!gateway.data().exists(), "nothing was touched");
        gateway.abandon();
    }
}

#[tokio::test]
async fn operators_are_told_health_and_nothing_else() {
    let (_origin, gateway) = approved().await;
    let get = async |path: &str| client::send(client::http().get(format!("{}{path}", gateway.admin()))).await;
    assert_eq!(get("/healthz").await.status, 200);
    assert_eq!(get("/readyz").await.status, 200);
    for path in [
        "/",
        "/mcp",
        "/skills",
        "/api/skills",
        "/origins",
        "/approve",
        "/metrics",
        "/debug/pprof",
    ] {
        assert_eq!(get(path).await.status, 404, "{path}");
    }
    let answer = post(
        &format!("{}/mcp", gateway.admin()),
        &headers("skills/list"),
        &message("skills/list", json!({})),
    )
    .await;
    assert_eq!(answer.status, 404);
    gateway.cli(&["health"]).await.expect(0);
    let health = client::http().get(gateway.mcp().replace("/mcp", "/healthz"));
    assert_eq!(
        client::send(health).await.status,
        404,
        "the hosts' listener tells no health"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_handshake_agrees_on_the_revision_that_was_asked_for() {
    // case C9, case A1.
    let (_origin, gateway) = approved().await;
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2099-01-01", client::LEGACY),
        ("1.0", client::LEGACY),
    ] {
        let hello =
            json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        let answer = post(gateway.mcp(), &[], &body).await;
        assert_eq!(answer.result()["protocolVersion"], agreed, "{asked}");
        let skills = &answer.result()["capabilities"]["extensions"]["io.modelcontextprotocol/skills"];
        assert_eq!(skills["directoryRead"], true);
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "skills/list" });
        let answer = post(gateway.mcp(), &[("mcp-protocol-version", agreed)], &list).await;
        let members: Vec<_> = answer.result().as_object().unwrap().keys().collect();
        assert_eq!(members, ["_meta", "skills"], "{agreed}");
    }
    gateway.finish().await;
}
