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
use hyper_util::rt::TokioIo;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWrite;
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

/// What carries a WebSocket.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

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
        let guard = Arc::clone(&shared.guard);
        let speaker = Speaker {
            owner,
            may_ask: Box::new(move || guard.still_admits(&headers)),
        };
        speak(shared, speaker, socket).await;
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

/// Serves who came in, to the last words.
async fn speak<S: Stream>(shared: Arc<Shared>, speaker: Speaker, socket: WebSocketStream<S>) {
    let (outward, inward) = socket.split();
    let inward = In {
        socket: inward,
        heard: Instant::now(),
    };
    if let Some((inward, Out(outward))) = serve(shared, speaker, inward, Out(outward)).await
        && let Ok(socket) = inward.socket.reunite(outward)
    {
        read_out(socket).await;
    }
}

/// Takes what still comes, for a moment: to close on a host that sends would take our last words from it.
async fn read_out<S: Stream>(mut socket: WebSocketStream<S>) {
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
struct In<S> {
    socket: SplitStream<WebSocketStream<S>>,
    /// When the host was last heard.
    heard: Instant,
}

/// What is written.
struct Out<S>(SplitSink<WebSocketStream<S>, Message>);

impl<S: Stream> Inward for In<S> {
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

impl<S: Stream> Outward for Out<S> {
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio::io::DuplexStream;

    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::gateway::Caller;
    use crate::gateway::Gateway;
    use crate::gateway::Mode;
    use crate::gateway::View;
    use crate::server::Doors;
    use crate::shutdown::Shutdown;

    /// A gateway without origins, which serves the one end of a pipe; the other end, and its folder. Time stands still.
    async fn speaking() -> (impl Future<Output = ()>, DuplexStream, TempDir) {
        let folder = TempDir::new().unwrap();
        let text = "[store]\nallow_unsafe_location = true\n";
        let config = Config::parse(text.as_bytes(), &folder.path().join("proxy.toml"), &|_| None).unwrap();
        let opened = Gateway::open(&config, Mode::default(), Clock::system(), Shutdown::new());
        let gateway = Box::pin(opened).await.unwrap();
        let Doors(shared) = Doors::new(&gateway, &config);
        tokio::time::pause();
        let (near, far) = tokio::io::duplex(4096);
        let socket = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
        let speaker = Speaker {
            owner: Owner {
                caller: Caller::at(std::net::Ipv4Addr::LOCALHOST.into()),
                view: View::Merged,
            },
            may_ask: Box::new(|| true),
        };
        (speak(shared, speaker, socket), far, folder)
    }

    #[tokio::test]
    async fn a_host_that_says_nothing_is_asked_for_a_sign_of_life_and_then_given_up() {
        let (speaking, mut far, _folder) = speaking().await;
        let (began, mut heard) = (Instant::now(), Vec::new());
        let (read, ()) = tokio::join!(far.read_to_end(&mut heard), speaking);
        read.unwrap();
        let seconds = began.elapsed().as_secs();
        assert!(
            (SILENCE.as_secs()..SILENCE.as_secs() + 5).contains(&seconds),
            "{seconds}"
        );
        // Pings, and a goodbye with its reason (RFC 6455 §5.5).
        assert_eq!(heard[..6], [0x89, 0, 0x89, 0, 0x89, 0]);
        let goodbye = &heard[heard.len() - 22..];
        assert_eq!(goodbye[..4], [0x88, 20, 0x03, 0xE9], "{goodbye:?}");
        assert!(goodbye.ends_with(b"no answer to pings"), "{goodbye:?}");
    }

    #[tokio::test]
    async fn a_host_that_answers_pings_may_say_nothing_else_for_long() {
        let (speaking, far, _folder) = speaking().await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        let quiet = async {
            let silent = async { while matches!(far.next().await, Some(Ok(Message::Ping(_)))) {} };
            assert!(tokio::time::timeout(10 * SILENCE, silent).await.is_err());
            far.send(Message::text("[]")).await.unwrap();
            loop {
                if let Message::Text(answer) = far.next().await.unwrap().unwrap() {
                    return answer;
                }
            }
        };
        tokio::select! {
            () = speaking => panic!("it is given up"),
            answer = quiet => assert!(answer.contains("-32600"), "{answer}"),
        }
    }
}
