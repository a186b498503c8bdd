//! Connections to origins: list, get, read; limits, time-outs, back-off.
//!
//! Imports `domain` and the leaves. Answers about skills leave here as the text that the origin sent, never through a
//! typed result (design §4); nothing here verifies or stores. Each origin has its own connection, budget and circuit, so
//! that a slow, dead or lying one costs nobody else anything (design §2.6). Start reading at [`Upstream`].

mod answer;
mod carrier;
mod circuit;
mod ear;
mod era;
mod folder;
mod framed;
#[cfg(fuzzing)]
pub mod fuzzed;
mod http;
mod listing;
mod notices;
mod pace;
mod proxy;
mod relay;
mod session;
mod sink;
mod skills;
mod stdio;
mod supervise;
mod tap;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::domain::Limits;
use crate::domain::Media;
use crate::domain::RejectedEntry;
use crate::domain::Resource;
use crate::domain::SkillUri;
use crate::shutdown::Shutdown;

use carrier::Carrier;
pub use circuit::Attempt;
use circuit::Circuit;
use folder::Folder;
pub use folder::Gap;
pub use folder::Root;
pub use http::Headers;
pub use listing::Listing;
pub use listing::Shortfall;
pub use relay::Call;
pub use relay::Interim;
pub use relay::Offered;
pub use relay::Said;
use session::Question;
use session::Server;
pub use stdio::Program;
pub use stdio::own_program;
pub use supervise::SUPERVISE;
pub use supervise::supervise;

/// Bytes of answers that one origin may have on their way to us at once: one file of the largest size in its widest
/// spelling (`\u0000` for each byte) and some small ones.
const BYTES_IN_FLIGHT: u64 = 128 * 1024 * 1024;

/// Calls of hosts that one origin may be answering at once; more of them wait.
const CALLS_PER_ORIGIN: usize = 256;

/// The smallest share of [`BYTES_IN_FLIGHT`] that a request takes.
const SHARE_BYTES: u64 = 1024 * 1024;

/// How to reach one origin.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is.
    pub address: Address,
    /// The longest that a connection may take to be made.
    pub connect_timeout: Duration,
    /// The longest that one request may take.
    pub timeout: Duration,
    /// The longest that a whole listing or one file may take.
    pub total: Duration,
    /// Bounds on what it may send.
    pub limits: Limits,
    /// What tells how old a file in a folder is.
    pub clock: Clock,
    /// The end of the process, which waits for what an origin's connection still has to do.
    pub shutdown: Shutdown,
}

/// Where an origin is.
#[derive(Clone, Debug)]
pub enum Address {
    /// A Streamable HTTP endpoint.
    Http(Web),
    /// A WebSocket.
    WebSocket(Web),
    /// A program that we run.
    Program(Program),
    /// Folders of skills; at least one.
    Folders(Vec<Root>),
}

/// Where an origin is that a network reaches.
#[derive(Clone, Debug)]
pub struct Web {
    /// Its URL.
    pub url: String,
    /// Headers sent with every request, credentials among them.
    pub headers: Headers,
    /// Certificates (PEM) trusted for it instead of the system's.
    pub ca: Option<Vec<u8>>,
}

/// One origin, as the gateway asks it. Cheap to clone.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    transport: Transport,
    circuit: Circuit,
    in_flight: Semaphore,
    fetches: Semaphore,
    calls: Semaphore,
    limits: Limits,
    timeout: Duration,
    total: Duration,
}

enum Transport {
    Server(Box<Server>),
    Folder(Folder),
    /// `--offline`: not one socket is opened.
    Offline,
}

impl Transport {
    fn server(carrier: Carrier, settings: &Settings) -> Self {
        Self::Server(Box::new(Server::new(carrier, settings)))
    }
}

/// What `skills/get` gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The entry's text.
    Entry(String),
    /// It is in a folder, and not published.
    Rejected(RejectedEntry),
    /// The origin says in so many words that it serves no such skill (S-34).
    Unknown,
}

/// A file as an origin sent it: nothing about it was checked but its length.
#[derive(Clone, Debug)]
pub struct Unverified {
    /// The bytes.
    pub bytes: Bytes,
    /// How they came.
    pub media: Media,
}

/// Why an origin gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The gateway runs with `--offline`.
    #[error("the gateway runs offline")]
    Offline,
    /// It did not answer before, and is not asked again until the refresher finds it back.
    #[error("it is known to be down ({last})")]
    Down {
        /// What happened when it was last asked.
        last: String,
    },
    /// No connection, or none in time, or it broke.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It took longer than it may.
    #[error("it did not answer within {}", humantime::format_duration(*.0))]
    TimedOut(Duration),
    /// It answered with an HTTP status that is no answer.
    #[error("it answered with HTTP status {0}")]
    Status(u16),
    /// It refused our credential.
    #[error("it refused our credential (HTTP status {0}); look at the origin's headers")]
    Unauthorized(u16),
    /// It does not declare the skills extension (H-2).
    #[error("it does not declare the skills extension")]
    NoSkills,
    /// It declares the extension and lacks one of its methods (S-1).
    #[error("it declares the skills extension and does not know {0}; it may speak a draft of the extension")]
    NoMethod(&'static str),
    /// It says that it has no such resource (S-42).
    #[error("it says that it has no such resource")]
    NotFound,
    /// It answered with a JSON-RPC error.
    #[error("it answered with error {code}: {message}")]
    Rpc {
        /// The code.
        code: i64,
        /// Its words, cut short.
        message: String,
        /// What it says beside them.
        data: Option<Value>,
    },
    /// Its answer is not of the form the protocol has.
    #[error("its answer is malformed: {0}")]
    Malformed(String),
    /// Its answer is longer than what was asked for can be.
    #[error("its answer is over {limit} bytes long")]
    TooLong {
        /// Bytes allowed.
        limit: u64,
    },
    /// The folder cannot be read.
    #[error("the folder cannot be read: {0}")]
    Folder(String),
    /// Of the folder, what was asked for cannot be read.
    #[error("the folder can be read in part only: {0}")]
    Partial(String),
}

impl Error {
    /// Says whether the origin as a whole, not this request alone, is at fault. Of the statuses, those of a proxy that does
    /// not reach its server: 500 may be about one file alone.
    fn is_of_the_connection(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::Folder(_) => true,
            Self::Status(status) => (502..=504).contains(status),
            Self::Offline
            | Self::Down { .. }
            | Self::Unauthorized(_)
            | Self::NoSkills
            | Self::NoMethod(_)
            | Self::NotFound
            | Self::Rpc { .. }
            | Self::Malformed(_)
            | Self::Partial(_)
            | Self::TooLong { .. } => false,
        }
    }
}

impl Upstream {
    /// Makes ready to ask an origin; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] when its certificates or headers cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let transport = match &settings.address {
            Address::Folders(roots) => Transport::Folder(Folder::new(roots, settings)),
            Address::Http(web) => Transport::server(Carrier::http(settings, web)?, settings),
            Address::WebSocket(web) => Transport::server(Carrier::websocket(settings, web)?, settings),
            Address::Program(program) => Transport::server(Carrier::program(settings, program), settings),
        };
        Ok(Self::over(transport, settings))
    }

    /// An origin that is never asked (`--offline`).
    pub fn offline(settings: &Settings) -> Self {
        Self::over(Transport::Offline, settings)
    }

    fn over(transport: Transport, settings: &Settings) -> Self {
        let shares = usize::try_from(BYTES_IN_FLIGHT / SHARE_BYTES).unwrap_or(usize::MAX);
        Self(Arc::new(Inner {
            transport,
            circuit: Circuit::default(),
            in_flight: Semaphore::new(shares),
            fetches: Semaphore::new(settings.limits.fetches_per_origin),
            calls: Semaphore::new(CALLS_PER_ORIGIN),
            limits: settings.limits.clone(),
            timeout: settings.timeout,
            total: settings.total,
        }))
    }

    /// The protocol revision spoken with it, once that is known.
    pub fn era(&self) -> Option<String> {
        match &self.0.transport {
            Transport::Server(server) => server.revision(),
            Transport::Folder(_) | Transport::Offline => None,
        }
    }

    /// Ends the connection for good; no other one is made.
    pub async fn close(&self) {
        match &self.0.transport {
            Transport::Server(server) => server.close().await,
            Transport::Folder(_) | Transport::Offline => {}
        }
    }

    /// Sends any request of the protocol, and gives its result's text, which with its envelope has at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// [`enum@Error`]; [`Error::Rpc`] holds the server's own code. A folder knows no method.
    pub async fn ask(&self, method: &'static str, params: Value, cap: u64, attempt: Attempt) -> Result<String, Error> {
        let timeout = self.0.timeout;
        let question = Question {
            method,
            params,
            cap,
            timeout,
        };
        self.guarded(attempt, cap, timeout, async {
            match &self.0.transport {
                Transport::Server(server) => server.ask(question).await,
                Transport::Folder(_) => Err(Error::NoMethod(method)),
                Transport::Offline => Err(Error::Offline),
            }
        })
        .await
    }

    /// How long to wait before the next probe of an origin that is down.
    pub fn retry_in(&self) -> Option<Duration> {
        self.0.circuit.retry_in()
    }

    /// Waits until a request finds the origin down.
    pub async fn went_down(&self) {
        self.0.circuit.opened().await;
    }

    /// Lists its skills, page by page; what was good is kept when the listing has to end early (H-20).
    ///
    /// # Errors
    ///
    /// [`enum@Error`] when not even the first page was had.
    pub async fn list(&self, attempt: Attempt) -> Result<Listing, Error> {
        let inner = &self.0;
        let listing = self.guarded(attempt, inner.limits.answer_bytes as u64, inner.total, async {
            match &inner.transport {
                Transport::Server(server) => {
                    listing::walk(&inner.limits, inner.total, |cursor| {
                        server.list_page(cursor, &inner.limits, inner.timeout)
                    })
                    .await
                }
                Transport::Folder(folder) => folder.list().await,
                Transport::Offline => Err(Error::Offline),
            }
        });
        let listing = listing.await;
        // One file may be all that a server fails at; where its listing fails, so does the rest.
        if let Err(error @ Error::Status(500..)) = &listing {
            inner.circuit.open(error);
        }
        listing
    }

    /// Asks for one skill, listed or not (H-21).
    ///
    /// # Errors
    ///
    /// [`enum@Error`]; that there is no such skill is [`Got::Unknown`].
    pub async fn get(&self, skill: &SkillUri, attempt: Attempt) -> Result<Got, Error> {
        let inner = &self.0;
        let got = self.guarded(attempt, inner.limits.answer_bytes as u64, inner.timeout, async {
            match &inner.transport {
                Transport::Server(server) => {
                    let got = server.get(skill, &inner.limits, inner.timeout).await;
                    got.map(Got::Entry)
                }
                Transport::Folder(folder) => folder.get(skill).await,
                Transport::Offline => Err(Error::Offline),
            }
        });
        match got.await {
            Err(Error::NotFound) => Ok(Got::Unknown),
            got => got,
        }
    }

    /// Fetches a file of a manifest, reading no further than its size allows.
    ///
    /// # Errors
    ///
    /// [`enum@Error`].
    pub async fn read(&self, resource: &Resource, attempt: Attempt) -> Result<Unverified, Error> {
        let inner = &self.0;
        let cap = Limits::read_answer_bytes(resource.size);
        self.guarded(attempt, cap, inner.total, async {
            match &inner.transport {
                Transport::Server(server) => {
                    let (uri, size) = (resource.uri.as_str(), Some(resource.size));
                    server.read(uri, size, cap, inner.total).await
                }
                Transport::Folder(folder) => folder.read(&resource.uri, Some(resource.digest)).await,
                Transport::Offline => Err(Error::Offline),
            }
        })
        .await
    }

    /// Fetches a file whose size its entry leaves out, up to what a whole skill may have.
    ///
    /// # Errors
    ///
    /// [`enum@Error`].
    pub async fn read_unsized(&self, uri: &crate::domain::ResourceUri, attempt: Attempt) -> Result<Unverified, Error> {
        let inner = &self.0;
        let cap = Limits::read_answer_bytes(inner.limits.skill_bytes);
        self.guarded(attempt, cap, inner.total, async {
            match &inner.transport {
                Transport::Server(server) => server.read(uri.as_str(), None, cap, inner.total).await,
                Transport::Folder(folder) => folder.read(uri, None).await,
                Transport::Offline => Err(Error::Offline),
            }
        })
        .await
    }

    /// Runs a request inside the origin's circuit, byte budget and total time. It is deep inside of libraries, and boxed, so
    /// that the futures of whoever waits for it neither hold nor spell it out.
    fn guarded<'a, T: 'a>(
        &'a self,
        attempt: Attempt,
        bytes: u64,
        total: Duration,
        request: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'a {
        let request = request.boxed();
        async move {
            self.0.circuit.admit(attempt)?;
            let deadline = Instant::now() + total;
            let shares = u32::try_from(bytes.div_ceil(SHARE_BYTES).min(BYTES_IN_FLIGHT / SHARE_BYTES)).unwrap_or(1);
            let within = async {
                let _fetch = self.0.fetches.acquire().await;
                let _share = self.0.in_flight.acquire_many(shares).await;
                request.await
            };
            let outcome = match tokio::time::timeout_at(deadline, within).await {
                Ok(outcome) => outcome,
                Err(_elapsed) => Err(Error::TimedOut(total)),
            };
            match &outcome {
                Err(error) if error.is_of_the_connection() => self.0.circuit.open(error),
                Ok(_) => self.0.circuit.close(),
                Err(_) => {}
            }
            outcome
        }
    }
}
