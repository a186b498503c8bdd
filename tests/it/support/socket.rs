//! Origins behind a WebSocket: a door before a scripted one, which passes messages on and misbehaves as it is told to.

use std::sync::Arc;

use futures_util::SinkExt as _;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::ErrorResponse;
use tokio_tungstenite::tungstenite::handshake::server::Request;
use tokio_tungstenite::tungstenite::handshake::server::Response;

use super::client;
use super::network::Certificate;
use super::network::Listening;
use super::origin::Origin;

/// What a door does otherwise than it should.
#[derive(Clone, Default)]
pub(crate) struct Script {
    /// The status that a handshake is refused with.
    pub(crate) refuses: Option<u16>,
    /// Whether it leaves out the subprotocol.
    pub(crate) is_silent_about_mcp: bool,
    /// What is sent instead of a listing.
    pub(crate) listing: Option<Message>,
}

/// A scripted origin's door for WebSockets.
pub(crate) struct Door {
    /// Where it is.
    pub(crate) listening: Listening,
    /// What it does.
    pub(crate) script: Arc<Mutex<Script>>,
    /// The headers of each handshake: credential and subprotocol.
    pub(crate) handshakes: Arc<Mutex<Vec<[Option<String>; 2]>>>,
}

impl Door {
    /// Opens one before an origin, encrypted where there is a certificate.
    pub(crate) async fn of(origin: &Origin, certificate: Option<&Certificate>) -> Self {
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

    /// Its URL.
    pub(crate) fn url(&self, scheme: &str) -> String {
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
