//! Requests of hosts: any headers and body get an answer that fits them, and never a word of what is held.
//!
//! Input: the path, header lines, an empty line, the body.
#![no_main]

mod skills;

use std::net::Ipv4Addr;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::HeaderName;
use http::HeaderValue;
use http::Request;
use http::header::CONTENT_TYPE;
use http::header::HOST;
use http_body_util::BodyExt as _;
use libfuzzer_sys::fuzz_target;
use portcullis::gateway::Caller;
use serde_json::Value;
use skills::HELD;
use skills::Serving;
use tower::ServiceExt as _;

static SERVING: LazyLock<Serving<Router>> =
    LazyLock::new(|| Serving::by(|doors, config| doors.router(&config.server, Router::new())));

fuzz_target!(|bytes: &[u8]| {
    let (request, body) = request(bytes);
    SERVING.runtime.block_on(async {
        let answer = SERVING
            .way
            .clone()
            .oneshot(request)
            .await
            .expect("a router does not fail");
        assert_ne!(answer.status(), 500, "our own fault");
        let is_json = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == "application/json");
        let collected = tokio::time::timeout(Duration::from_secs(5), answer.into_body().collect()).await;
        let answered = collected.expect("in time").expect("a whole body").to_bytes();
        let text = String::from_utf8_lossy(&answered);
        assert!(!text.contains(HELD), "what is held was served");
        if is_json && !answered.is_empty() {
            check(body, &serde_json::from_slice(&answered).expect("valid JSON"));
        }
    });
});

/// The request in `bytes`, and its body.
fn request(bytes: &[u8]) -> (Request<Body>, &[u8]) {
    let cut = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = bytes.split_at(cut);
    let body = body.get(2..).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split('\n');
    let path = if lines.next() == Some("/mcp") {
        "/mcp"
    } else {
        "/mcp/acme"
    };
    let mut request = Request::post(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .header("accept", "application/json, text/event-stream")
        .extension(Caller::at(Ipv4Addr::LOCALHOST.into()))
        .body(Body::from(body.to_vec()))
        .expect("a request");
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            request.headers_mut().insert(name, value);
        }
    }
    (request, body)
}

/// An answer has the id of its request, where that has one.
fn check(body: &[u8], answer: &Value) {
    assert_eq!(answer["jsonrpc"], "2.0");
    assert!(
        answer.get("result").is_some() != answer.get("error").is_some(),
        "a result or an error"
    );
    if let Ok(Value::Object(request)) = serde_json::from_slice(body)
        && answer.get("result").is_some()
    {
        assert_eq!(request.get("id"), answer.get("id"));
    }
}
