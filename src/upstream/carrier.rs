//! What carries messages to an MCP server and back: HTTP, a WebSocket, or the pipes of a program that we run.
//!
//! One handshake over each, and what its failure means. Imports the carriers' modules and `era`. Connecting is rare, and
//! deep inside of libraries: its futures are boxed here, so that those of requests neither hold nor spell them out.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::ClientInitializeError;
use rmcp::service::ClientLifecycleMode;
use rmcp::service::ClientServiceExt as _;
use rmcp::service::RunningService;
use rmcp::transport::Transport;

use super::Error;
use super::Settings;
use super::Web;
use super::ear::Ear;
use super::era::Era;
use super::era::Evidence;
use super::era::Failed;
use super::era::evidence;
use super::framed::Line;
use super::http::Http;
use super::http::innermost;
use super::http::refused_post;
use super::stdio::Program;
use super::websocket::WebSocket;
use crate::shutdown::Shutdown;

/// The SDK's side of a session.
pub(super) type Client = RunningService<RoleClient, Ear>;

/// What carries messages.
pub(super) enum Carrier {
    /// A request for each message, and nothing in between.
    Http(Box<Http>),
    /// A connection for each session.
    WebSocket(Box<WebSocket>),
    /// A process for each session.
    Program(Box<Process>),
}

/// A program, and what it takes to run it.
pub(super) struct Process {
    program: Program,
    /// Bytes of a message that answers none of our requests.
    longest: u64,
    shutdown: Shutdown,
}

impl Carrier {
    /// Streamable HTTP.
    pub(super) fn http(settings: &Settings, web: &Web) -> Result<Self, Error> {
        Ok(Self::Http(Box::new(Http::new(settings, web)?)))
    }

    /// A WebSocket.
    pub(super) fn websocket(settings: &Settings, web: &Web) -> Result<Self, Error> {
        Ok(Self::WebSocket(Box::new(WebSocket::new(settings, web)?)))
    }

    /// A program.
    pub(super) fn program(settings: &Settings, program: &Program) -> Self {
        Self::Program(Box::new(Process {
            program: program.clone(),
            longest: settings.limits.answer_bytes as u64,
            shutdown: settings.shutdown.clone(),
        }))
    }

    /// Says whether each message is a request of its own, so that the server behind the address may change unseen.
    pub(super) fn is_http(&self) -> bool {
        match self {
            Self::Http(_) => true,
            Self::WebSocket(_) | Self::Program(_) => false,
        }
    }

    /// Waits until a stream was opened on which the server says things unasked, so that what it said before was missed.
    pub(super) async fn stream_opened(&self) {
        match self {
            Self::Http(http) => http.stream_opened().await,
            Self::WebSocket(_) | Self::Program(_) => std::future::pending().await,
        }
    }

    /// Words that may be told of.
    pub(super) fn tidy(&self, words: &str) -> String {
        match self {
            Self::Http(http) => http.without_address(words),
            Self::WebSocket(_) | Self::Program(_) => words.to_owned(),
        }
    }

    /// Says whether the address is one of the transport of 2024-11-05, after a handshake that failed so.
    pub(super) fn is_of_2024<'a>(&'a self, failed: &'a Error, patience: Duration) -> BoxFuture<'a, bool> {
        let asked = async move {
            match self {
                Self::Http(http) => {
                    refused_post(failed) && tokio::time::timeout(patience, http.is_of_2024()).await == Ok(true)
                }
                Self::WebSocket(_) | Self::Program(_) => false,
            }
        };
        asked.boxed()
    }

    /// Opens a session one way, within `patience`.
    pub(super) fn open(
        &self,
        era: Era,
        ear: Ear,
        patience: Duration,
    ) -> BoxFuture<'_, Result<(Client, Option<Line>), Failed>> {
        self.opened(era, ear, patience).boxed()
    }

    async fn opened(&self, era: Era, ear: Ear, patience: Duration) -> Result<(Client, Option<Line>), Failed> {
        let line = Line::default();
        match self {
            Self::Http(http) => {
                let client = shake_hands(http.transport(), era, ear, patience).await;
                let client = client.map_err(|error| over_http(http, error.as_deref(), patience))?;
                Ok((client, None))
            }
            Self::WebSocket(socket) => {
                let transport = socket.connect(line.clone()).await.map_err(Failed::unreached)?;
                framed(transport, line, (era, ear), patience).await
            }
            Self::Program(process) => {
                let Process {
                    program,
                    longest,
                    shutdown,
                } = process.as_ref();
                let started = program.start(line.clone(), *longest, shutdown);
                framed(started.map_err(Failed::unreached)?, line, (era, ear), patience).await
            }
        }
    }
}

/// A handshake over a connection of its own.
async fn framed<T>(
    transport: T,
    line: Line,
    (era, ear): (Era, Ear),
    patience: Duration,
) -> Result<(Client, Option<Line>), Failed>
where
    T: Transport<RoleClient> + 'static,
{
    match shake_hands(transport, era, ear, patience).await {
        Ok(client) => Ok((client, Some(line))),
        Err(None) => Err(Failed::silent(patience)),
        Err(Some(error)) => Err(match (line.end(), evidence(&error)) {
            (Some(error), _) => Failed {
                error,
                evidence: Evidence::Ended,
            },
            // What could not be sent was sent to nobody.
            (None, Evidence::None) => Failed {
                error: Error::Unreachable(innermost(&error)),
                evidence: Evidence::Ended,
            },
            (None, evidence) => Failed {
                error: Error::Unreachable(innermost(&error)),
                evidence,
            },
        }),
    }
}

/// What a handshake over HTTP means that failed; without an error, it took too long.
fn over_http(http: &Http, error: Option<&ClientInitializeError>, patience: Duration) -> Failed {
    let Some(error) = error else {
        return Failed::silent(patience);
    };
    let told = http.failure(error);
    let evidence = match evidence(error) {
        Evidence::None if refused_post(&told) => Evidence::Unknown,
        // A connection that breaks says nothing of who is behind it.
        Evidence::Ended => Evidence::None,
        evidence @ (Evidence::Unknown | Evidence::Silent | Evidence::Modern | Evidence::None) => evidence,
    };
    Failed { error: told, evidence }
}

/// The SDK's handshake; the error is none when it took too long.
async fn shake_hands<T>(
    transport: T,
    era: Era,
    ear: Ear,
    patience: Duration,
) -> Result<Client, Option<Box<ClientInitializeError>>>
where
    T: Transport<RoleClient> + 'static,
{
    let lifecycle = match era {
        Era::Modern => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        Era::Legacy => ClientLifecycleMode::Initialize,
    };
    let handshake = ear.serve_with_lifecycle(transport, lifecycle);
    match tokio::time::timeout(patience, handshake).await {
        Ok(done) => done.map_err(|error| Some(Box::new(error))),
        Err(_elapsed) => Err(None),
    }
}
