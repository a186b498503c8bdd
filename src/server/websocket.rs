//! MCP over WebSocket: subprotocol `mcp`, one message a text frame. A frame of bytes, of no text or of too much ends the
//! connection with the code that says so (RFC 6455 §7.4.1), and so does a host that answers no pings.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::IntoResponse as _;
use axum::response::Response;
use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::SplitSink;
use futures_util::stream::SplitStream;
use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use http::Method;
use http::StatusCode;
use http::header::CONNECTION;
use http::header::SEC_WEBSOCKET_ACCEPT;
use http::header::SEC_WEBSOCKET_KEY;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::header::SEC_WEBSOCKET_VERSION;
use http::header::UPGRADE;
use hyper::upgrade::OnUpgrade;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::Shared;
use super::accept::Place;
use super::sessions::Owner;
use super::stream::Ending;
use super::stream::Incoming;
use super::stream::Inward;
use super::stream::Outward;
use super::stream::Speaker;
use super::stream::serve;

/// The subprotocol.
const SUBPROTOCOL: &str = "mcp";

/// Time between two pings.
const BEAT: Duration = Duration::from_secs(30);

/// How long a host may say nothing, not even that it is there.
const SILENCE: Duration = Duration::from_secs(90);

/// How long the host may take to say goodbye in turn.
const GOODBYE: Duration = Duration::from_secs(1);

/// The version of WebSocket that there is.
const VERSION: &str = "13";

/// A socket that became a WebSocket.
type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Opens a WebSocket for who was let in.
pub(super) fn open(shared: &Arc<Shared>, owner: Owner, mut request: Request) -> Response {
    if let Err(refusal) = is_upgrade(&request) {
        return *refusal;
    }
    let (Some(upgrade), Some(key)) = (
        request.extensions_mut().remove::<OnUpgrade>(),
        request.headers().get(SEC_WEBSOCKET_KEY),
    ) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Ok(accept) = HeaderValue::try_from(derive_accept_key(key.as_bytes())) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let place = request.extensions().get::<Place>().cloned();
    let headers = request.headers().clone();
    let (shared, limits) = (Arc::clone(shared), shared.gateway.limits());
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.request_bytes))
        .max_frame_size(Some(limits.request_bytes));
    let shutdown = shared.gateway.shutdown().clone();
    drop(shutdown.spawn(async move {
        let upgraded = match upgrade.await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => return tracing::debug!(%error, "a connection did not become a WebSocket"),
        };
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
        let (outward, inward) = socket.split();
        let guard = Arc::clone(&shared.guard);
        let speaker = Speaker {
            owner,
            may_ask: Box::new(move || guard.still_admits(&headers)),
        };
        let inward = In {
            socket: inward,
            heard: Instant::now(),
        };
        if let Some((inward, Out(outward))) = serve(shared, speaker, inward, Out(outward)).await
            && let Ok(socket) = inward.socket.reunite(outward)
        {
            read_out(socket).await;
        }
        drop(place);
    }));
    let switch = [
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (SEC_WEBSOCKET_ACCEPT, accept),
        (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL)),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, switch).into_response()
}

/// Takes what still comes, for a moment: to close on a host that sends would take our last words from it.
async fn read_out(mut socket: Socket) {
    let mut nothing = vec![0; 16 * 1024];
    let rest = async { while matches!(socket.get_mut().read(&mut nothing).await, Ok(1..)) {} };
    let _late = tokio::time::timeout(GOODBYE, rest).await;
}

/// Whether a request asks for a WebSocket that speaks MCP (RFC 6455 §4.2.1).
fn is_upgrade(request: &Request) -> Result<(), Box<Response>> {
    let headers = request.headers();
    let refused = |status, words: &'static str| Err(Box::new((status, words).into_response()));
    if request.method() != Method::GET
        || !lists(headers, &UPGRADE, "websocket")
        || !lists(headers, &CONNECTION, "upgrade")
    {
        let words = "a WebSocket begins with GET and Upgrade: websocket, over HTTP/1.1";
        return refused(StatusCode::UPGRADE_REQUIRED, words);
    }
    if !lists(headers, &SEC_WEBSOCKET_VERSION, VERSION) {
        return refused(StatusCode::BAD_REQUEST, "only version 13 of WebSocket is spoken here");
    }
    if !lists(headers, &SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        return refused(StatusCode::BAD_REQUEST, "the subprotocol mcp has to be offered");
    }
    Ok(())
}

/// Whether a word stands in a header that is a list.
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let mut words = values.flat_map(|value| value.split(',')).map(str::trim);
    words.any(|found| found.eq_ignore_ascii_case(word))
}

/// What is read.
struct In {
    socket: SplitStream<Socket>,
    /// When the host was last heard.
    heard: Instant,
}

/// What is written.
struct Out(SplitSink<Socket, Message>);

impl Inward for In {
    async fn next(&mut self) -> Incoming {
        loop {
            let Ok(next) = tokio::time::timeout_at(self.heard + SILENCE, self.socket.next()).await else {
                return Incoming::End(Ending::Silent);
            };
            self.heard = Instant::now();
            return match next {
                Some(Ok(Message::Text(text))) => Incoming::Message(text.into()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Binary(_)) | Err(Error::Utf8(_))) => Incoming::End(Ending::NotText),
                Some(Err(Error::Capacity(_))) => Incoming::End(Ending::TooLong),
                Some(Ok(Message::Close(_) | Message::Frame(_)) | Err(_)) | None => Incoming::End(Ending::Left),
            };
        }
    }
}

impl Outward for Out {
    const BEAT: Option<Duration> = Some(BEAT);

    async fn send(&mut self, pieces: Vec<Bytes>) -> Option<()> {
        // One message is one frame.
        let whole = match <[Bytes; 1]>::try_from(pieces) {
            Ok([whole]) => whole,
            Err(pieces) => pieces.concat().into(),
        };
        let text = Utf8Bytes::try_from(whole).ok()?;
        self.0.send(Message::Text(text)).await.ok()
    }

    async fn beat(&mut self) -> Option<()> {
        self.0.send(Message::Ping(Bytes::new())).await.ok()
    }

    async fn close(&mut self, ending: Ending) {
        let (code, reason) = match ending {
            Ending::Done | Ending::Left => (CloseCode::Normal, ""),
            Ending::NotText => (CloseCode::Unsupported, "messages are text"),
            Ending::TooLong => (CloseCode::Size, "the message is over the gateway's limit on bytes"),
            Ending::Silent => (CloseCode::Away, "no answer to pings"),
            Ending::Barred => (CloseCode::Policy, "the token is not valid any more"),
            Ending::Shutdown => (CloseCode::Away, "the gateway ends"),
        };
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::from_static(reason),
        };
        let goodbye = async {
            // Whoever has left hears no goodbye.
            let _gone = self.0.send(Message::Close(Some(frame))).await;
            let _gone = self.0.close().await;
        };
        let _late = tokio::time::timeout(GOODBYE, goodbye).await;
    }
}
