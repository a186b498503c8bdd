//! Hosts that start a command: `mcp.sock`, to which `portcullis stdio` leads, and standard input and output themselves.
//!
//! The first line on the socket says which address is meant and is answered by a line that says whether there is one; then
//! each line is a message. Who asks is the user that the kernel names.

use std::fs::Permissions;
use std::io;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::poll_fn;
use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;
use tokio::io::AsyncRead;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;

use super::Shared;
use super::sessions::Owner;
use super::stream::Speaker;
use super::stream::lines::LinesIn;
use super::stream::lines::LinesOut;
use super::stream::serve;
use crate::domain::Label;
use crate::gateway::View;

/// How long the first line may take.
const FIRST_LINE: Duration = Duration::from_secs(5);

/// Bytes of the first line, and of its answer.
const FIRST_BYTES: usize = 1024;

/// How long accepting rests after the system refused a socket (too many open files).
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Bytes that standard input is read in.
const CHUNK: usize = 64 * 1024;

/// Chunks of standard input that wait to be read.
const CHUNKS: usize = 4;

/// Why the socket did not come about.
#[derive(Debug, Error)]
#[error("cannot listen on {}", path.display())]
pub struct SocketError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Why a host was not led to the gateway.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// No gateway listens.
    #[error("no gateway runs at {}; start one with: portcullis serve", .0.display())]
    NotRunning(PathBuf),
    /// It refused.
    #[error("{0}")]
    Refused(String),
    /// It went away before the host did.
    #[error("the gateway ended")]
    Ended,
    /// It cannot be spoken with.
    #[error("the gateway cannot be reached")]
    Io(#[from] io::Error),
}

/// The first line: what is meant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    /// One origin; without it all.
    origin: Option<String>,
}

/// The answer to it.
#[derive(Debug, Serialize, Deserialize)]
struct Welcome {
    /// Why not, if not.
    refused: Option<String>,
}

/// Listens on a socket that nobody but the gateway's own user can reach.
///
/// # Errors
///
/// [`SocketError`] when the path is taken or too long for a socket.
pub fn bind_socket(path: &Path) -> Result<UnixListener, SocketError> {
    let bound = UnixListener::bind(path)
        .and_then(|listener| std::fs::set_permissions(path, Permissions::from_mode(0o600)).map(|()| listener));
    bound.map_err(|source| SocketError {
        path: path.to_owned(),
        source,
    })
}

/// Serves who connects until the end begins.
pub(super) async fn serve_socket(shared: Arc<Shared>, listener: UnixListener) {
    let shutdown = shared.gateway.shutdown().clone();
    let places = Arc::new(Semaphore::new(shared.gateway.limits().connections));
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.begun() => return,
        };
        match accepted {
            Ok((socket, _)) => {
                let shared = Arc::clone(&shared);
                drop(shutdown.spawn(async move {
                    serve_one(shared, socket).await;
                    drop(place);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

async fn serve_one(shared: Arc<Shared>, socket: UnixStream) {
    let Ok(uid) = socket.peer_cred().map(|peer| peer.uid()) else {
        return;
    };
    let (read, mut write) = socket.into_split();
    let mut lines = LinesIn::new(read, shared.gateway.limits().request_bytes);
    let first = tokio::time::timeout(FIRST_LINE, lines.line()).await;
    let Ok(Some(Ok(first))) = first else {
        return;
    };
    let view = match serde_json::from_slice::<Hello>(&first) {
        Ok(hello) => shared.view(hello.origin.as_deref()),
        Err(_) => Err("the first line on this socket says which address is meant; use: portcullis stdio".to_owned()),
    };
    let welcome = Welcome {
        refused: view.as_ref().err().cloned(),
    };
    let mut answer = serde_json::to_vec(&welcome).unwrap_or_default();
    answer.push(b'\n');
    if write.write_all(&answer).await.is_err() {
        return;
    }
    if let Ok(view) = view {
        let speaker = speaker(&shared, uid, view);
        drop(serve(shared, speaker, lines, LinesOut(write)).await);
    }
}

/// Serves the host that started this very process, until it closes standard input.
pub(super) async fn serve_stdio(shared: Arc<Shared>, origin: Option<&Label>) -> Result<(), String> {
    let view = shared.view(origin.map(Label::as_str))?;
    let uid = rustix::process::getuid().as_raw();
    let lines = LinesIn::new(standard_input(), shared.gateway.limits().request_bytes);
    let speaker = speaker(&shared, uid, view);
    drop(serve(shared, speaker, lines, LinesOut(tokio::io::stdout())).await);
    Ok(())
}

fn speaker(shared: &Shared, uid: u32, view: View) -> Speaker {
    Speaker {
        owner: Owner {
            caller: shared.gateway.caller_with_uid(uid),
            view,
        },
        may_ask: Box::new(|| true),
    }
}

/// Leads standard input and output to the running gateway, until the host closes the one or the gateway the other.
///
/// # Errors
///
/// [`BridgeError`] when none runs, it refuses, or it ends before the host does.
pub async fn bridge(socket: &Path, origin: Option<&Label>) -> Result<(), BridgeError> {
    let stream = UnixStream::connect(socket).await.map_err(|error| {
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            BridgeError::NotRunning(socket.to_owned())
        } else {
            BridgeError::Io(error)
        }
    })?;
    let (read, mut write) = stream.into_split();
    let mut lines = LinesIn::new(read, FIRST_BYTES);
    let hello = Hello {
        origin: origin.map(|label| label.as_str().to_owned()),
    };
    let mut first = serde_json::to_vec(&hello).map_err(io::Error::from)?;
    first.push(b'\n');
    write.write_all(&first).await?;
    let answer = lines.line().await.and_then(Result::ok).ok_or(BridgeError::Ended)?;
    let welcome: Welcome = serde_json::from_slice(&answer).map_err(io::Error::from)?;
    if let Some(refused) = welcome.refused {
        return Err(BridgeError::Refused(refused));
    }
    let (mut stdin, mut stdout) = (standard_input(), tokio::io::stdout());
    let mut answers = lines.into_inner();
    let (mut is_over, mut has_ended) = (false, false);
    let (mut asking, mut answering) = (
        std::pin::pin!(async {
            tokio::io::copy(&mut stdin, &mut write).await?;
            write.shutdown().await
        }),
        std::pin::pin!(tokio::io::copy_buf(&mut answers, &mut stdout)),
    );
    loop {
        tokio::select! {
            asked = asking.as_mut(), if !has_ended => {
                has_ended = true;
                is_over = asked.is_ok();
            }
            answered = answering.as_mut() => {
                answered?;
                return if is_over { Ok(()) } else { Err(BridgeError::Ended) };
            }
        }
    }
}

/// Standard input, read by a thread of its own: one that waits for it would hold up the end of the runtime.
fn standard_input() -> impl AsyncRead + Unpin + Send + 'static {
    let (chunks, mut read) = mpsc::channel::<io::Result<Bytes>>(CHUNKS);
    let reading = move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut chunk = vec![0; CHUNK];
            let next = match stdin.read(&mut chunk) {
                Ok(0) => return,
                Ok(length) => {
                    chunk.truncate(length);
                    Ok(chunk.into())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_over = next.is_err();
            if chunks.blocking_send(next).is_err() || is_over {
                return;
            }
        }
    };
    drop(std::thread::spawn(reading));
    StreamReader::new(poll_fn(move |context| read.poll_recv(context)))
}
