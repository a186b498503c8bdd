//! `admin.sock`: commands from whoever the kernel says has connected.
//!
//! The socket is its owner's alone, or takes commands from everybody listed with a uid too; then anybody can knock, and who
//! is not listed is refused, on the record.

use std::convert::Infallible;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::extract::State;
use axum::extract::connect_info::Connected;
use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::routing::post;
use axum::serve::IncomingStream;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use thiserror::Error;
use tokio::net::UnixListener;

use super::command::Command;
use super::failure::Failure;
use super::failure::Fault;
use super::lines::Event;
use super::lines::Lines;
use crate::config::SocketFor;
use crate::gateway::By;
use crate::gateway::Gateway;

/// How the record calls this door.
const DOOR: &str = "admin.sock";

/// Why the socket did not come about.
#[derive(Debug, Error)]
#[error("cannot listen on {}", path.display())]
pub struct Error {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Listens on a socket that nobody but the gateway's own user can reach, or that anybody can.
///
/// # Errors
///
/// [`struct@Error`] when the path is taken or too long for a socket.
pub fn bind(path: &Path, socket: SocketFor) -> Result<UnixListener, Error> {
    let mode = match socket {
        SocketFor::Owner => 0o600,
        SocketFor::People => 0o666,
    };
    let bound = UnixListener::bind(path)
        .and_then(|listener| std::fs::set_permissions(path, Permissions::from_mode(mode)).map(|()| listener));
    bound.map_err(|source| Error {
        path: path.to_owned(),
        source,
    })
}

/// Serves commands until the end begins.
pub async fn serve(listener: UnixListener, socket: SocketFor, gateway: Gateway) {
    let shutdown = gateway.shutdown().clone();
    let service = router(&gateway, socket).into_make_service_with_connect_info::<Peer>();
    let served = axum::serve(listener, service)
        .with_graceful_shutdown(async move { shutdown.begun().await })
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the admin socket ended");
    }
}

/// The routes of the socket.
pub(super) fn router(gateway: &Gateway, socket: SocketFor) -> Router {
    let door = Door {
        gateway: gateway.clone(),
        socket,
    };
    Router::new().route("/v1/command", post(command)).with_state(door)
}

/// What a command comes through.
#[derive(Clone)]
struct Door {
    gateway: Gateway,
    socket: SocketFor,
}

impl Door {
    /// Whether this user's commands are taken: where the file is the owner's, the kernel has asked already.
    fn admits(&self, uid: u32) -> bool {
        match self.socket {
            SocketFor::Owner => true,
            SocketFor::People => uid == rustix::process::geteuid().as_raw() || self.gateway.people().has_uid(uid),
        }
    }
}

/// Who connected.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The user id that the kernel names.
    pub(super) uid: Option<u32>,
    /// The door that they came through; none for who opened the folder for one command.
    pub(super) door: Option<&'static str>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self {
            uid: stream.io().peer_cred().ok().map(|peer| peer.uid()),
            door: Some(DOOR),
        }
    }
}

async fn command(
    State(door): State<Door>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(command): Json<Command>,
) -> Response {
    let Some(uid) = peer.uid else {
        return (StatusCode::FORBIDDEN, "the kernel does not say who you are").into_response();
    };
    let person = door.gateway.people().of_uid(uid);
    if !door.admits(uid) {
        let reason = "only the gateway's own user and people listed with their uid in proxy.toml ([[person]]) may ask";
        let wanted = command.decision().unwrap_or("look");
        door.gateway.note_stranger(&By::person(&person), wanted, reason).await;
        let failed = Event::Failed(Failure::no(format!("{reason}; you are uid {uid}")));
        return answer(StatusCode::FORBIDDEN, Body::from(line(&failed)));
    }
    let gateway = door.gateway;
    let (lines, written) = Lines::new();
    let (worker, door) = (gateway.clone(), peer.door);
    // A task of its own: a caller that leaves does not stop a decision half-way.
    drop(gateway.shutdown().spawn(async move {
        let outcome = carry_out(&worker, &person, door, command, &lines).await;
        lines.end(outcome).await;
    }));
    let written = stream::unfold(
        written,
        |mut written| async move { Some((written.recv().await?, written)) },
    );
    let body = Body::from_stream(written.map(|event| Ok::<_, Infallible>(line(&event))));
    answer(StatusCode::OK, body)
}

fn answer(status: StatusCode, body: Body) -> Response {
    (status, [(CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// Carries a command out, with what the record says about whoever asks.
async fn carry_out(
    gateway: &Gateway,
    person: &str,
    door: Option<&str>,
    command: Command,
    lines: &Lines,
) -> Result<Value, Failure> {
    let by = By::person(person);
    if let Some(door) = door {
        gateway.came_in(&by, door).await;
    }
    let decision = command.decision();
    let outcome = command.run(gateway, person.to_owned(), lines).await;
    if let (Some(decision), Err(failure)) = (decision, &outcome)
        && failure.fault == Fault::No
    {
        gateway.note_refused(&by, decision, &failure.message).await;
    }
    outcome
}

fn line(event: &Event) -> Bytes {
    let mut text = serde_json::to_string(event).unwrap_or_default();
    text.push('\n');
    Bytes::from(text)
}
