//! An origin behind a WebSocket: subprotocol `mcp`, one JSON-RPC message for each text frame.
//!
//! Imports `framed`, `http` (header fields). Invariants: no redirect is followed; no message is longer than the largest
//! answer that any request may have; a connection that is silent is asked for a sign of life, and given up without one.

use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderValue;
use ::http::Uri;
use ::http::header::SEC_WEBSOCKET_PROTOCOL;
use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::SplitSink;
use futures_util::stream::SplitStream;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::Error;
use super::Settings;
use super::Web;
use super::framed::Framed;
use super::framed::Line;
use super::framed::Outlet;
use super::framed::Source;
use super::http::Headers;
use super::http::innermost;
use super::proxy;
use crate::domain::Limits;
use crate::tls;

/// The name of this use of a WebSocket.
const SUBPROTOCOL: HeaderValue = HeaderValue::from_static("mcp");

/// How long a connection may be silent before it is asked for a sign of life, and then once more before it is given up.
const SILENCE: Duration = Duration::from_secs(30);

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Bytes that come and go, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

type Connection = WebSocketStream<Box<dyn Stream>>;

/// Where an origin is, and how it is reached.
pub(super) struct WebSocket {
    uri: Uri,
    headers: Headers,
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    /// Bytes of the largest message.
    largest: u64,
    /// Bytes of a message that answers none of our requests.
    longest: u64,
}

impl WebSocket {
    /// Makes ready to connect; nothing is sent yet.
    pub(super) fn new(settings: &Settings, web: &Web) -> Result<Self, Error> {
        let unusable = |why: String| Error::Unreachable(format!("its settings cannot be used: {why}"));
        let limits = &settings.limits;
        let longest = limits.answer_bytes as u64;
        Ok(Self {
            uri: web.url.parse().map_err(|error| unusable(format!("{error}")))?,
            headers: web.headers.clone(),
            tls: Arc::new(tls::client_config(web.ca.as_deref(), &[]).map_err(|error| unusable(error.to_string()))?),
            connect_timeout: settings.connect_timeout,
            largest: longest.max(Limits::read_answer_bytes(limits.skill_bytes)),
            longest,
        })
    }

    /// Connects.
    pub(super) async fn connect(&self, line: Line) -> Result<Framed<Frames, Outgoing>, Error> {
        let connecting = tokio::time::timeout(self.connect_timeout, self.open());
        let connection = connecting.await.map_err(|_| Error::TimedOut(self.connect_timeout))??;
        let (frames, outgoing) = both_ways(connection);
        Ok(Framed::new(frames, outgoing, line, self.longest))
    }

    async fn open(&self) -> Result<Connection, Error> {
        let stream = self.stream().await?;
        let mut request = (&self.uri).into_client_request().map_err(|error| refused(&error))?;
        request.headers_mut().extend(self.headers.fields());
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
        let most = usize::try_from(self.largest).unwrap_or(usize::MAX);
        let config = WebSocketConfig::default()
            .max_message_size(Some(most))
            .max_frame_size(Some(most));
        let (connection, _response) = client_async_with_config(request, stream, Some(config))
            .await
            .map_err(|error| refused(&error))?;
        Ok(connection)
    }

    async fn stream(&self) -> Result<Box<dyn Stream>, Error> {
        let host = self.uri.host().unwrap_or_default();
        let is_encrypted = self.uri.scheme_str() == Some("wss");
        let port = self.uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        // IPv6 stands in brackets in an address, and nowhere else.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let unreachable = |error: std::io::Error| Error::Unreachable(innermost(&error));
        let tcp = match proxy::for_websocket(&self.uri) {
            Some(proxy) => proxy.tunnel(host, port).await?,
            None => TcpStream::connect((host, port)).await.map_err(unreachable)?,
        };
        tcp.set_nodelay(true).map_err(unreachable)?;
        if !is_encrypted {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| Error::Unreachable(error.to_string()))?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let encrypted = connector.connect(name, tcp).await.map_err(unreachable)?;
        Ok(Box::new(encrypted))
    }
}

/// What comes, and what goes.
fn both_ways(connection: Connection) -> (Frames, Arc<tokio::sync::Mutex<Outgoing>>) {
    let (outgoing, incoming) = connection.split();
    let outgoing = Arc::new(tokio::sync::Mutex::new(Outgoing(outgoing)));
    let frames = Frames {
        incoming,
        outgoing: Arc::clone(&outgoing),
        silent_at: Instant::now() + SILENCE,
        is_asked: false,
    };
    (frames, outgoing)
}

/// Why there is no WebSocket, or none any more.
fn refused(error: &tungstenite::Error) -> Error {
    if let tungstenite::Error::Http(response) = error {
        return match response.status().as_u16() {
            status @ (401 | 403) => Error::Unauthorized(status),
            status => Error::Status(status),
        };
    }
    if let tungstenite::Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(_)) = error {
        return Error::Unreachable("it does not speak the WebSocket subprotocol \"mcp\"".to_owned());
    }
    Error::Unreachable(innermost(error))
}

/// What comes.
pub(super) struct Frames {
    incoming: SplitStream<Connection>,
    outgoing: Arc<tokio::sync::Mutex<Outgoing>>,
    /// When it has been silent for too long.
    silent_at: Instant,
    /// Whether it was asked for a sign of life.
    is_asked: bool,
}

impl Source for Frames {
    async fn next(&mut self, cap: u64) -> Result<Bytes, Error> {
        loop {
            let frame = match tokio::time::timeout_at(self.silent_at, self.incoming.next()).await {
                Err(_silent) if self.is_asked => {
                    return Err(Error::Unreachable("it gives no sign of life any more".to_owned()));
                }
                Err(_silent) => {
                    self.is_asked = true;
                    self.silent_at = Instant::now() + SILENCE;
                    // Where a message cannot be sent, a sign of life will not come either.
                    if let Ok(mut outgoing) = self.outgoing.try_lock() {
                        let ping = outgoing.0.send(Message::Ping(Bytes::new()));
                        let _sent = tokio::time::timeout(GOODBYE, ping).await;
                    }
                    continue;
                }
                Ok(frame) => frame,
            };
            self.is_asked = false;
            self.silent_at = Instant::now() + SILENCE;
            match frame {
                Some(Ok(Message::Text(text))) if text.len() as u64 <= cap => return Ok(text.into()),
                Some(Ok(Message::Text(_))) => return Err(Error::TooLong { limit: cap }),
                Some(Ok(Message::Binary(_))) => {
                    return Err(Error::Malformed("a message came as bytes, not as text".to_owned()));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(tungstenite::Error::Capacity(_))) => return Err(Error::TooLong { limit: cap }),
                Some(Err(error)) => return Err(refused(&error)),
                Some(Ok(Message::Close(_))) | None => {
                    return Err(Error::Unreachable("it closed the connection".to_owned()));
                }
            }
        }
    }
}

/// What goes.
pub(super) struct Outgoing(SplitSink<Connection, Message>);

impl Outlet for Outgoing {
    async fn put(&mut self, message: String) -> Result<(), Error> {
        let sent = self.0.send(Message::text(message)).await;
        sent.map_err(|error| refused(&error))
    }

    async fn end(&mut self) {
        let _said = tokio::time::timeout(GOODBYE, self.0.close()).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::io::DuplexStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// A connection, and the other end of what carries it.
    async fn connected() -> (Frames, DuplexStream) {
        let (near, far) = tokio::io::duplex(4096);
        let near: Box<dyn Stream> = Box::new(near);
        let connection = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
        (both_ways(connection).0, far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_asked_for_a_sign_of_life_and_then_given_up() {
        let (mut frames, mut far) = connected().await;
        let began = Instant::now();
        assert!(matches!(frames.next(100).await, Err(Error::Unreachable(_))));
        assert_eq!(began.elapsed().as_secs(), 2 * SILENCE.as_secs());
        // The only frame that came is a ping (RFC 6455 §5.5.2).
        assert_eq!(far.read_u8().await.unwrap(), 0x89);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_answers_when_it_is_asked_may_be_silent_for_long() {
        let (mut frames, far) = connected().await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
        let began = Instant::now();
        let patient = async {
            let silent = async { while far.next().await.is_some() {} };
            assert!(tokio::time::timeout(10 * SILENCE, silent).await.is_err());
            far.send(Message::text("{}")).await.unwrap();
            far
        };
        let (said, _far) = tokio::join!(frames.next(100), patient);
        assert_eq!(said.unwrap(), "{}");
        assert!(began.elapsed() >= 10 * SILENCE);
    }
}
