//! Requests of hosts on their way to an origin, and what an origin offers beside skills.
//!
//! A relayed request is sent with an id and a progress token of our own, and with no more capabilities than the host has.
//! What comes before its answer goes to whoever relays it, and to nobody else.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::CustomRequest;
use rmcp::model::GetExtensions as _;
use rmcp::model::RequestMetaObject;
use rmcp::service::PeerRequestOptions;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Attempt;
use super::Error;
use super::Listing;
use super::SHARE_BYTES;
use super::Transport;
use super::Upstream;
use super::answer;
use super::era::Era;
use super::listing;
use super::session::Question;
use super::session::Relayed;
use super::session::Server;
use super::session::Session;
use super::sink::Sink;
use crate::domain::LogLevel;

/// The longest that a call may take, whatever comes meanwhile.
const LONGEST_CALL: Duration = Duration::from_secs(30 * 60);

/// Messages of an origin that wait to be passed on.
const INTERIM: usize = 16;

/// Bytes of an origin's words about itself.
const INSTRUCTIONS: usize = 16 * 1024;

/// How long a call waits until its origin has taken a level of log messages.
const LEVEL_PATIENCE: Duration = Duration::from_secs(5);

/// The members of `_meta` that a modern request has for what hosts can be asked, and for log messages (base protocol §3).
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What an origin says that it offers beside skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Tools.
    pub tools: bool,
    /// Prompts.
    pub prompts: bool,
    /// Resources.
    pub resources: bool,
    /// Completions of arguments.
    pub completions: bool,
    /// Log messages.
    pub logging: bool,
    /// Notices of updates of single resources.
    pub subscribe: bool,
    /// What it says of itself.
    pub instructions: Option<String>,
}

/// A request that is relayed.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: &'static str,
    /// Its parameters as the origin names things, without `_meta`.
    pub params: Map<String, Value>,
    /// What of the host's `_meta` goes on.
    pub meta: Map<String, Value>,
    /// From which level on the host wants to hear log messages.
    pub level: Option<LogLevel>,
    /// What the host can be asked, as a `ClientCapabilities` object.
    pub capabilities: Value,
    /// Whether the host speaks the newest revision.
    pub is_modern: bool,
    /// Arguments that are repeated in header fields: name without prefix, and value (base protocol §8.5).
    pub fields: Vec<(String, String)>,
}

/// What comes before an answer.
#[derive(Debug)]
pub enum Interim {
    /// Progress or a log message.
    Notice {
        /// The method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A question to the host, before 2026-07-28.
    Question {
        /// The method.
        method: String,
        /// Its parameters.
        params: Value,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Value, Said>>,
    },
}

/// An error as the other side said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The code.
    pub code: i64,
    /// The words.
    pub message: String,
    /// What else there is.
    pub data: Option<Value>,
}

impl Upstream {
    /// What the origin says that it offers beside skills.
    ///
    /// # Errors
    ///
    /// [`enum@Error`].
    pub async fn offered(&self, attempt: Attempt) -> Result<Offered, Error> {
        let inner = &self.0;
        let offered = async {
            match &inner.transport {
                Transport::Server(server) => server.offered().await,
                Transport::Folder(_) => Ok(Offered::default()),
                Transport::Offline => Err(Error::Offline),
            }
        };
        self.guarded(attempt, SHARE_BYTES, inner.total, offered).await
    }

    /// A whole listing of anything: the items in `member` of the results to `method`, each as its own text.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] when not even the first page was had.
    pub async fn list_items(
        &self,
        method: &'static str,
        member: &'static str,
        attempt: Attempt,
    ) -> Result<Listing, Error> {
        let inner = &self.0;
        let (cap, timeout) = (inner.limits.answer_bytes as u64, inner.timeout);
        let listing = async {
            match &inner.transport {
                Transport::Server(server) => {
                    listing::walk(&inner.limits, inner.total, |cursor| async move {
                        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
                        let question = Question {
                            method,
                            params,
                            cap,
                            timeout,
                        };
                        answer::items(&server.ask(question).await?, member)
                    })
                    .await
                }
                Transport::Folder(_) => Ok(Listing::default()),
                Transport::Offline => Err(Error::Offline),
            }
        };
        self.guarded(attempt, cap, inner.total, listing).await
    }

    /// Sends a host's request on, once, and gives its result's text or the origin's own error. What comes before goes to
    /// `interim`. It may take long as long as something comes; dropping the future cancels it at the origin.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] when there is no answer.
    pub async fn relay(&self, call: Call, interim: mpsc::Sender<Interim>) -> Result<Result<String, Said>, Error> {
        let inner = &self.0;
        inner.circuit.admit(Attempt::Ordinary)?;
        let relay = async {
            let _call = inner.calls.acquire().await;
            match &inner.transport {
                Transport::Server(server) => server.relay(call, interim, inner.total).await,
                Transport::Folder(_) => Err(Error::NoMethod(call.method)),
                Transport::Offline => Err(Error::Offline),
            }
        };
        let answer = match tokio::time::timeout(LONGEST_CALL, relay).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(Error::TimedOut(LONGEST_CALL)),
        };
        match answer {
            Ok(result) => Ok(Ok(result)),
            Err(Error::Rpc { code, message, data }) => Ok(Err(Said { code, message, data })),
            Err(error) => {
                // A call that takes too long says nothing of the next one.
                if matches!(error, Error::Unreachable(_)) {
                    inner.circuit.open(&error);
                }
                Err(error)
            }
        }
    }

    /// Has the origin tell of updates of a resource.
    ///
    /// # Errors
    ///
    /// [`enum@Error`].
    pub async fn watch(&self, uri: &str) -> Result<(), Error> {
        match &self.0.transport {
            Transport::Server(server) => server.watch(uri).await,
            Transport::Folder(_) => Err(Error::NoMethod("resources/subscribe")),
            Transport::Offline => Err(Error::Offline),
        }
    }

    /// Has the origin tell no more of updates of a resource.
    ///
    /// # Errors
    ///
    /// [`enum@Error`].
    pub async fn unwatch(&self, uri: &str) -> Result<(), Error> {
        match &self.0.transport {
            Transport::Server(server) => server.unwatch(uri).await,
            Transport::Folder(_) | Transport::Offline => Ok(()),
        }
    }

    /// Makes sure that the origin tells of everything that is watched.
    ///
    /// # Errors
    ///
    /// [`enum@Error`].
    pub async fn watch_again(&self) -> Result<(), Error> {
        match &self.0.transport {
            Transport::Server(server) => server.watch_again().await,
            Transport::Folder(_) | Transport::Offline => Ok(()),
        }
    }

    /// The resources that the origin says are updated, from now on.
    pub fn updated(&self) -> broadcast::Receiver<String> {
        match &self.0.transport {
            Transport::Server(server) => server.notices().updated(),
            Transport::Folder(_) | Transport::Offline => broadcast::Sender::new(1).subscribe(),
        }
    }

    /// Waits until the origin says that something of it has changed.
    pub async fn changed(&self) {
        match &self.0.transport {
            Transport::Server(server) => server.changed().await,
            Transport::Folder(folder) => folder.changed().await,
            Transport::Offline => std::future::pending().await,
        }
    }
}

impl Server {
    async fn offered(&self) -> Result<Offered, Error> {
        let session = self.session().await?;
        let info = session
            .peer_info()
            .ok_or_else(|| Error::Malformed("it did not say what it is".to_owned()))?;
        let can = &info.capabilities;
        Ok(Offered {
            tools: can.tools.is_some(),
            prompts: can.prompts.is_some(),
            resources: can.resources.is_some(),
            completions: can.completions.is_some(),
            logging: can.logging.is_some(),
            subscribe: can.resources.as_ref().and_then(|resources| resources.subscribe) == Some(true),
            instructions: info.instructions.as_deref().map(shortened),
        })
    }

    /// Has a server of before 2026-07-28 tell of log messages from `level` on, unless it does already. It knows one level for
    /// all who share the session; each host is given what it asked for.
    async fn let_speak(&self, session: &Arc<Session>, level: LogLevel) {
        if !session.is_to_speak_from(level) {
            return;
        }
        let question = Question {
            method: "logging/setLevel",
            params: json!({ "level": level }),
            cap: SHARE_BYTES,
            timeout: LEVEL_PATIENCE,
        };
        if let Err(error) = self.ask_in(session, question).await {
            tracing::debug!(%error, "an origin did not take a level of log messages");
        }
    }

    /// Sends a call in a session in which the host can be asked so much, and waits for as long as something comes.
    async fn relay(&self, call: Call, interim: mpsc::Sender<Interim>, patience: Duration) -> Result<String, Error> {
        let era = if call.is_modern { Era::Modern } else { Era::Legacy };
        let session = self.session_offering(&call.capabilities, era).await?;
        let _turn = session.turn().await;
        let (sender, mut came) = mpsc::channel(INTERIM);
        let sink = Sink::relaying(self.answer_bytes(), sender.clone(), call.fields);
        let mut meta = call.meta;
        if session.is_modern() {
            meta.insert(CAPABILITIES.to_owned(), call.capabilities);
            meta.extend(call.level.map(|level| (LOG_LEVEL.to_owned(), json!(level))));
        } else if let Some(level) = call.level {
            self.let_speak(&session, level).await;
        }
        let mut request = CustomRequest::new(call.method, Some(Value::Object(call.params)));
        request.extensions_mut().insert(sink.clone());
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject::from(meta));
        let relayed = Relayed {
            request,
            options,
            sink,
            interim: sender,
        };
        let mut over = pin!(self.finish(&session, relayed));
        let mut deadline = Instant::now() + patience;
        loop {
            tokio::select! {
                biased;
                Some(message) = came.recv() => {
                    let is_question = matches!(message, Interim::Question { .. });
                    deadline = Instant::now() + if is_question { LONGEST_CALL } else { patience };
                    // Nobody is there to hear it: nobody waits for the answer either.
                    interim.send(message).await.map_err(|_| Error::TimedOut(patience))?;
                }
                answer = &mut over => {
                    // What came before it may still lie there.
                    while let Ok(message) = came.try_recv() {
                        interim.send(message).await.map_err(|_| Error::TimedOut(patience))?;
                    }
                    return answer;
                }
                () = tokio::time::sleep_until(deadline) => return Err(Error::TimedOut(patience)),
            }
        }
    }
}

/// An origin's words about itself, cut with a mark.
fn shortened(words: &str) -> String {
    if words.len() <= INSTRUCTIONS {
        return words.to_owned();
    }
    let end = words.floor_char_boundary(INSTRUCTIONS);
    format!("{} […]", words.get(..end).unwrap_or_default())
}
