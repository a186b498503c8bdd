//! Asking for commands: of the running gateway over its socket, or of one opened for the purpose.

use std::io;
use std::path::Path;

use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use http::Request;
use http::header::CONTENT_TYPE;
use http::header::HOST;
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tower::ServiceExt as _;

use super::command::Command;
use super::failure::Failure;
use super::lines::Event;
use super::lines::Heard;
use super::socket;
use super::socket::Peer;
use crate::config::SocketFor;
use crate::gateway::Gateway;

/// Bytes of one line of an answer: a file of the largest size, base64, and room.
const LINE_BYTES: usize = 256 * 1024 * 1024;

/// Takes what comes before the last word; a failure ends the asking.
pub type Hear<'a> = dyn FnMut(Heard) -> Result<(), Failure> + 'a;

/// Who carries commands out.
pub enum Client {
    /// The running gateway.
    Running(UnixStream),
    /// A gateway of our own, opened since none runs.
    Opened(Gateway),
}

impl Client {
    /// Connects to the running gateway; none when no gateway runs.
    ///
    /// # Errors
    ///
    /// When the socket is there and cannot be used.
    pub async fn connect(socket: &Path) -> Result<Option<Self>, Failure> {
        match UnixStream::connect(socket).await {
            Ok(stream) => Ok(Some(Self::Running(stream))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Ok(None)
            }
            Err(error) => Err(Failure::unknown(format!(
                "cannot reach the gateway at {}: {error}",
                socket.display()
            ))),
        }
    }

    /// Has a command carried out, telling `hear` what comes before the last word.
    ///
    /// # Errors
    ///
    /// [`Failure`] as the gateway tells it, that it cannot be asked, or as `hear` gives it.
    pub async fn run(self, command: &Command, hear: &mut Hear<'_>) -> Result<Value, Failure> {
        let lost = |error: &dyn std::fmt::Display| Failure::unknown(format!("the gateway did not answer: {error}"));
        let text = serde_json::to_string(command).map_err(|error| Failure::ours(error.to_string()))?;
        let request = Request::post("/v1/command")
            .header(HOST, "portcullis")
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(text))
            .map_err(|error| Failure::ours(error.to_string()))?;
        match self {
            Self::Running(stream) => {
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
                    .await
                    .map_err(|error| lost(&error))?;
                let ask = async {
                    let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
                    read_lines(response.into_body(), hear).await
                };
                tokio::select! {
                    biased;
                    answer = ask => answer,
                    ended = connection => Err(lost(&ended.err().map_or_else(|| "it ended".to_owned(), |e| e.to_string()))),
                }
            }
            Self::Opened(gateway) => {
                let uid = rustix::process::getuid().as_raw();
                let router = socket::router(&gateway, SocketFor::Owner).layer(MockConnectInfo(Peer {
                    uid: Some(uid),
                    door: None,
                }));
                let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
                let answer = read_lines(response.into_body(), hear).await;
                let drained = gateway.shutdown().drain(std::time::Duration::from_secs(10)).await;
                tracing::debug!(?drained, "the gateway opened for this command is closed");
                answer
            }
        }
    }
}

/// Reads lines until the last one.
async fn read_lines<B>(mut body: B, hear: &mut Hear<'_>) -> Result<Value, Failure>
where
    B: http_body::Body<Data = bytes::Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut held: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::unknown(format!("the gateway's answer broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        held.extend_from_slice(&data);
        while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = held.drain(..=end).collect();
            let event = serde_json::from_slice(&line)
                .map_err(|error| Failure::unknown(format!("the gateway's answer is not ours: {error}")))?;
            match event {
                Event::Progress(step) => hear(Heard::Progress(step))?,
                Event::Item(item) => hear(Heard::Item(item))?,
                Event::Done(value) => return Ok(value),
                Event::Failed(failure) => return Err(failure),
            }
        }
        if held.len() > LINE_BYTES {
            return Err(Failure::unknown("the gateway's answer has no end".to_owned()));
        }
    }
    let rest = String::from_utf8_lossy(&held).trim().to_owned();
    Err(Failure::unknown(format!("the gateway's answer broke off {rest}")))
}
