//! Origins behind a WebSocket: one message for each text frame, and what becomes of frames that are none.

use serde_json::Value;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::support::client;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::network::Certificate;
use crate::support::network::Proxy;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Origin;
use crate::support::pipe::Pipe;
use crate::support::refunds;
use crate::support::skill::Skill;
use crate::support::socket::Door;
use crate::support::socket::Script;

async fn is_up(gateway: &Gateway, label: &str) -> Value {
    gateway
        .origin_when(label, "is up", |item| item["state"] == "up" && item["skills"] == 1)
        .await
}

async fn is_told_of(gateway: &Gateway, label: &str, words: &str) {
    let says = |item: &Value| item["last_error"].as_str().is_some_and(|told| told.contains(words));
    gateway
        .origin_when(label, &format!("is told of with {words:?}"), says)
        .await;
}

#[tokio::test]
async fn a_server_behind_a_websocket_is_an_origin_like_any_other() {
    let settings = "refresh = \"1s\"\nheaders = { Authorization = \"Bearer ${env:ACME_TOKEN}\" }";
    for era in [Era::Modern, Era::Legacy] {
        let origin = Origin::speaking(era, Answers::Json, [refunds()]);
        let door = Door::of(&origin, None).await;
        let gateway = Setup::new()
            .env("ACME_TOKEN", "s3cret-4711")
            .origin_at("acme", &door.url("ws"), settings)
            .start()
            .await;
        let seen = is_up(&gateway, "acme").await;
        let revision = if era == Era::Modern {
            client::MODERN
        } else {
            client::LEGACY
        };
        assert_eq!((&seen["kind"], &seen["era"]), (&json!("websocket"), &json!(revision)));
        assert_eq!(seen["address"], door.url("ws"));
        gateway.approve("acme/refunds").await;
        for path in ["SKILL.md", "references/limits.md", "assets/form.bin"] {
            let read = gateway.host().read(&format!("skill://acme/refunds/{path}")).await;
            assert_eq!(read.bytes(), refunds().bytes(path));
        }
        let handshakes = door.handshakes.lock().clone();
        let ours = [Some("Bearer s3cret-4711".to_owned()), Some("mcp".to_owned())];
        let ways = if era == Era::Modern { 1 } else { 2 };
        assert_eq!(handshakes, vec![ours; ways], "one connection for all, after one probe");
        gateway.finish().await;
    }
}

#[tokio::test]
async fn what_is_no_message_ends_the_connection_and_the_next_one_is_as_good_as_new() {
    let origin = Origin::with([refunds()]);
    let door = Door::of(&origin, None).await;
    let gateway = Setup::new()
        .origin_at("acme", &door.url("ws"), "refresh = \"1s\"")
        .start()
        .await;
    is_up(&gateway, "acme").await;
    for (listing, words) in [
        (Message::text("x".repeat(17 << 20)), "over 16777216 bytes long"),
        (Message::binary(vec![1, 2, 3]), "as bytes, not as text"),
        (Message::Close(None), "it closed the connection"),
        (Message::text("x".repeat(120 << 20)), "bytes long"),
    ] {
        let before = door.handshakes.lock().len();
        door.script.lock().listing = Some(listing);
        is_told_of(&gateway, "acme", words).await;
        door.script.lock().listing = None;
        gateway
            .origin_when("acme", "is well again", |item| item["last_error"].is_null())
            .await;
        assert!(door.handshakes.lock().len() > before, "{words}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_handshake_that_is_refused_is_told_of_and_no_redirect_followed() {
    // of case P3.
    let origin = Origin::with([refunds()]);
    let door = Door::of(&origin, None).await;
    let refuses = |status| {
        *door.script.lock() = Script {
            refuses: Some(status),
            ..Script::default()
        };
    };
    refuses(302);
    let gateway = Setup::new()
        .origin_at("acme", &door.url("ws"), "refresh = \"1s\"")
        .start()
        .await;
    is_told_of(&gateway, "acme", "HTTP status 302").await;
    refuses(401);
    is_told_of(&gateway, "acme", "refused our credential (HTTP status 401)").await;
    *door.script.lock() = Script {
        is_silent_about_mcp: true,
        ..Script::default()
    };
    is_told_of(&gateway, "acme", "does not speak the WebSocket subprotocol").await;
    *door.script.lock() = Script::default();
    is_up(&gateway, "acme").await;
    gateway.finish().await;
}

#[tokio::test]
async fn an_encrypted_one_is_trusted_by_its_authority_alone_and_reached_through_a_proxy() {
    // case R5.
    let (certificate, proxy) = (Certificate::new(), Proxy::new().await);
    let origin = Origin::with([refunds()]);
    let door = Door::of(&origin, Some(&certificate)).await;
    let url = door.url("wss");
    let gateway = Setup::new()
        .env("HTTPS_PROXY", &proxy.url("ada:s3cret-4711"))
        .origin_at("known", &url, &certificate.trusted())
        .origin_at("unknown", &url, "refresh = \"1s\"")
        .start()
        .await;
    is_up(&gateway, "known").await;
    is_told_of(
        &gateway,
        "unknown",
        "certificate not trusted, issuer \"CN=rcgen self signed cert\"",
    )
    .await;
    let line = format!("CONNECT {} HTTP/1.1\r\n", door.listening.address);
    let heads = proxy.heads();
    assert!(heads.iter().all(|head| head.starts_with(&line)), "{heads:?}");
    let credential = "proxy-authorization: Basic YWRhOnMzY3JldC00NzEx\r\n";
    assert!(heads.iter().all(|head| head.contains(credential)), "{heads:?}");
    assert_eq!(gateway.stderr().matches("s3cret").count(), 0);
    gateway.finish().await;
}

#[tokio::test]
async fn the_largest_file_there_may_be_comes_whole_from_one_websocket_to_another() {
    // case F1: over 22 MB in one message.
    let uri = "skill://big/SKILL.md";
    let room = (16 << 20) - Skill::at(uri).bytes("SKILL.md").len();
    let origin = Origin::with([Skill::at(uri).blob("all.bin", vec![255; room])]);
    let door = Door::of(&origin, None).await;
    let gateway = Setup::new()
        .origin_at("acme", &door.url("ws"), "refresh = \"1s\"")
        .start()
        .await;
    is_up(&gateway, "acme").await;
    gateway.approve("acme/big").await;
    let mut pipe = Pipe::socket(&gateway, None).await;
    let read = pipe.read("skill://acme/big/all.bin").await;
    assert!(read.bytes() == vec![255; room]);
    pipe.read("skill://acme/big/SKILL.md").await.result();
    assert_eq!(door.handshakes.lock().len(), 1, "one connection for all of it");
    gateway.finish().await;
}
