//! Origins behind a WebSocket: one message for each text frame, and what becomes of frames that are none.

use std::sync::Arc;

use futures_util::SinkExt as _;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::ErrorResponse;
use tokio_tungstenite::tungstenite::handshake::server::Request;
use tokio_tungstenite::tungstenite::handshake::server::Response;

use crate::support::client;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::network::Certificate;
use crate::support::network::Listening;
use crate::support::network::Proxy;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Origin;
use crate::support::refunds;

/// What a door does otherwise than it should.
#[derive(Clone, Default)]
struct Script {
    /// The status that a handshake is refused with.
    refuses: Option<u16>,
    /// Whether it leaves out the subprotocol.
    is_silent_about_mcp: bool,
    /// What is sent instead of a listing.
    listing: Option<Message>,
}

/// A scripted origin's door for WebSockets.
struct Door {
    listening: Listening,
    script: Arc<Mutex<Script>>,
    /// The headers of each handshake: credential and subprotocol.
    handshakes: Arc<Mutex<Vec<[Option<String>; 2]>>>,
}

impl Door {
    async fn of(origin: &Origin, certificate: Option<&Certificate>) -> Self {
        let (script, handshakes) = (Arc::<Mutex<Script>>::default(), Arc::default());
        let acceptor = certificate.map(Certificate::acceptor);
        let (url, scripted, noted) = (origin.url(), Arc::clone(&script), Arc::clone(&handshakes));
        let serve = move |stream: TcpStream| {
            let (url, script, handshakes) = (url.clone(), Arc::clone(&scripted), Arc::clone(&noted));
            let acceptor = acceptor.clone();
            async move {
                match acceptor {
                    None => pass_on(stream, url, script, handshakes).await,
                    Some(acceptor) => {
                        let Ok(stream) = acceptor.accept(stream).await else {
                            return;
                        };
                        pass_on(stream, url, script, handshakes).await;
                    }
                }
            }
        };
        Self {
            listening: Listening::new(serve).await,
            script,
            handshakes,
        }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/mcp", self.listening.address)
    }
}

/// Answers a handshake, then passes each message on to the origin, and its answer back.
async fn pass_on(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    url: String,
    script: Arc<Mutex<Script>>,
    handshakes: Arc<Mutex<Vec<[Option<String>; 2]>>>,
) {
    let now = script.lock().clone();
    #[expect(clippy::result_large_err, reason = "the library's own signature")]
    let answer = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let header = |name: &str| Some(request.headers().get(name)?.to_str().unwrap().to_owned());
        handshakes
            .lock()
            .push([header("authorization"), header("sec-websocket-protocol")]);
        if let Some(status) = now.refuses {
            let refusal = http::Response::builder()
                .status(status)
                .header("location", "http://127.0.0.1:1/");
            return Err(refusal.body(None).unwrap());
        }
        if !now.is_silent_about_mcp {
            response
                .headers_mut()
                .insert("sec-websocket-protocol", "mcp".parse().unwrap());
        }
        Ok(response)
    };
    let Ok(mut socket) = accept_hdr_async(stream, answer).await else {
        return;
    };
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let asked: Value = serde_json::from_str(&text).unwrap();
        let odd = script
            .lock()
            .listing
            .clone()
            .filter(|_| asked["method"] == "skills/list");
        let answer = match odd {
            Some(odd) => odd,
            None => {
                let answer = over_http(&url, &asked).await;
                if answer.is_empty() {
                    continue;
                }
                Message::text(answer)
            }
        };
        if socket.send(answer).await.is_err() {
            return;
        }
    }
}

/// The origin's answer to a message, with the headers that go with it over HTTP.
async fn over_http(url: &str, message: &Value) -> String {
    let meta = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    let mut request = client::http()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-method", message["method"].as_str().unwrap());
    if let Some(version) = meta.as_str() {
        request = request.header("mcp-protocol-version", version);
    }
    if let Some(uri) = message["params"]["uri"].as_str() {
        request = request.header("mcp-name", uri);
    }
    client::send(request.body(message.to_string())).await.text
}

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
