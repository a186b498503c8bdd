//! A session with an MCP server over whatever carries it: opened in the right era, kept, forgotten, and asked.
//!
//! The SDK keeps ids, revisions and lost sessions; answers to our requests are taken as text where they arrive
//! ([`Sink`]). Imports `carrier`, `era` and `sink`. Invariants: one session at a time, made by the first request that needs
//! it while the others wait; an era is believed only after a session was opened in it; who gives up a request says so to
//! the origin.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::CancelledNotification;
use rmcp::model::CancelledNotificationParam;
use rmcp::model::ClientRequest;
use rmcp::model::CustomRequest;
use rmcp::model::GetExtensions as _;
use rmcp::model::RequestId;
use rmcp::service::Peer;
use rmcp::service::PeerRequestOptions;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Error;
use super::Settings;
use super::carrier::Carrier;
use super::carrier::Client;
use super::era::Era;
use super::era::Failed;
use super::era::LEGACY_HOLDS;
use super::era::Verdict;
use super::framed::Line;
use super::http::innermost;
use super::sink::Sink;
use crate::shutdown::Shutdown;

/// How long what a server declares is taken as it was when its session was opened, where it lacks what is asked for.
const SETTLED: Duration = Duration::from_secs(1);

/// An MCP server, with the session that is kept with it.
pub(super) struct Server {
    carrier: Carrier,
    timeout: Duration,
    shutdown: Shutdown,
    /// Made by the first request that needs it; the others wait for that one.
    held: Mutex<Held>,
    verdict: Verdict,
    /// The protocol revision last agreed on.
    revision: parking_lot::Mutex<Option<String>>,
}

#[derive(Default)]
struct Held {
    session: Option<Arc<Session>>,
    /// Whether there will be no other one.
    is_closed: bool,
}

/// One session.
pub(super) struct Session {
    service: Client,
    /// What is known of a connection that is its own; HTTP has one for each request.
    line: Option<Line>,
    opened: Instant,
    /// When to look whether the origin has learned better.
    expires: Option<Instant>,
    /// Whether the server at the other end may be another one by now: not so with a process.
    may_change: bool,
}

impl Session {
    /// Whether it can still be asked.
    fn is_live(&self) -> bool {
        !self.service.is_closed() && !self.service.is_transport_closed()
    }

    /// How many messages have come over a connection of its own; over HTTP, none is known of.
    fn heard(&self) -> Option<u64> {
        self.line.as_ref().map(Line::heard)
    }

    /// Says whether the server declares the skills extension (H-2).
    pub(super) fn has_skills(&self) -> bool {
        let info = self.service.peer_info();
        info.is_some_and(|info| info.capabilities.skills().is_some())
    }

    /// Says whether another session may show another server than this one, which was opened a while ago.
    pub(super) fn is_outdated(&self) -> bool {
        self.may_change && self.opened.elapsed() >= SETTLED
    }
}

impl Server {
    /// Makes ready to ask a server; nothing is sent yet.
    pub(super) fn new(carrier: Carrier, settings: &Settings) -> Self {
        Self {
            carrier,
            timeout: settings.timeout,
            shutdown: settings.shutdown.clone(),
            held: Mutex::default(),
            verdict: Verdict::default(),
            revision: parking_lot::Mutex::default(),
        }
    }

    /// The protocol revision last agreed on.
    pub(super) fn revision(&self) -> Option<String> {
        self.revision.lock().clone()
    }

    /// Sends one request and gives its result's text, which with its envelope has at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// Those of the connection; [`Error::Rpc`] with the server's own code when it refuses.
    pub(super) async fn ask(&self, method: &str, params: Value, cap: u64, timeout: Duration) -> Result<String, Error> {
        let session = self.session().await?;
        self.ask_in(&session, method, params, cap, timeout).await
    }

    /// The same in a session that was looked at before.
    pub(super) async fn ask_in(
        &self,
        session: &Arc<Session>,
        method: &str,
        params: Value,
        cap: u64,
        timeout: Duration,
    ) -> Result<String, Error> {
        let sink = Sink::new(cap);
        let mut request = CustomRequest::new(method, Some(params));
        request.extensions_mut().insert(sink.clone());
        // A process or a peer that says nothing at all in this time is given up, and not this request alone.
        let heard = session.heard();
        let sent = tokio::time::timeout(timeout, self.send(session, request)).await;
        match (sink.take(), sent) {
            (Some(answer), _) => {
                if matches!(answer, Err(Error::Unreachable(_))) {
                    self.forget(session).await;
                }
                answer
            }
            (None, Err(_elapsed)) => {
                if heard.is_some() && session.heard() == heard {
                    self.forget(session).await;
                }
                Err(Error::TimedOut(timeout))
            }
            (None, Ok(failed)) => {
                self.forget(session).await;
                let words = failed.unwrap_or_else(|| "the connection closed".to_owned());
                let end = session.line.as_ref().and_then(Line::end);
                Err(end.unwrap_or_else(|| Error::Unreachable(self.carrier.tidy(&words))))
            }
        }
    }

    /// Sends a request and waits until the SDK says that it is over; tells why, when it failed.
    async fn send(&self, session: &Session, request: CustomRequest) -> Option<String> {
        let request = ClientRequest::CustomRequest(request);
        let options = PeerRequestOptions::no_options();
        let handle = match session.service.send_request_with_option(request, options).await {
            Ok(handle) => handle,
            Err(error) => return Some(innermost(&error)),
        };
        let mut pending = Pending {
            peer: session.service.peer().clone(),
            id: Some(handle.id.clone()),
            shutdown: &self.shutdown,
        };
        let over = handle.await_response().await;
        pending.id = None;
        over.err().map(|error| innermost(&error))
    }

    /// The session, made if there is none that lives.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Error> {
        let mut held = self.held.lock().await;
        if held.is_closed {
            return Err(Error::Unreachable("the gateway is ending".to_owned()));
        }
        let kept = held.session.clone().filter(|session| session.is_live());
        if let Some(session) = &kept
            && session.expires.is_none_or(|at| Instant::now() < at)
        {
            return Ok(Arc::clone(session));
        }
        let made = match (self.connect().await, kept) {
            (Ok(made), _) => made,
            // It goes on as it did; whoever asks next looks again.
            (Err(_), Some(kept)) => return Ok(kept),
            (Err(error), None) => return Err(error),
        };
        let session = Arc::new(made);
        held.session = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Gives a session up, so that the next request makes another one.
    pub(super) async fn forget(&self, session: &Arc<Session>) {
        let mut held = self.held.lock().await;
        if held.session.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, session)) {
            held.session = None;
            if session.line.is_some() {
                // Whoever else waits in it is told at once.
                session.service.cancellation_token().cancel();
            }
        }
    }

    /// Ends the session, and makes no other one.
    pub(super) async fn close(&self) {
        let mut held = self.held.lock().await;
        held.is_closed = true;
        if let Some(session) = held.session.take() {
            session.service.cancellation_token().cancel();
        }
    }

    /// Opens a session in the era that the origin is known to speak, or finds out which (base protocol §22.1).
    async fn connect(&self) -> Result<Session, Error> {
        if self.verdict.era() == Some(Era::Legacy) {
            match self.open(Era::Legacy).await {
                Err(failed) if failed.says_upgraded() => {}
                opened => return opened.map_err(|failed| failed.error),
            }
        }
        let discover = match self.open(Era::Modern).await {
            Err(failed) if failed.says_legacy(self.carrier.is_http()) => failed.error,
            opened => return opened.map_err(|failed| failed.error),
        };
        match self.open(Era::Legacy).await {
            Ok(session) => Ok(session),
            Err(initialize) => Err(self.both_failed(&discover, initialize).await),
        }
    }

    /// Why neither handshake opened a session.
    async fn both_failed(&self, discover: &Error, initialize: Failed) -> Error {
        if matches!(initialize.error, Error::Unauthorized(_)) {
            return initialize.error;
        }
        if self.carrier.is_of_2024(&initialize.error, self.timeout).await {
            return Error::Unreachable(
                "it speaks the transport of 2024-11-05 (HTTP+SSE), which this gateway does not; ask its operator for the \
                 address of its Streamable HTTP endpoint"
                    .to_owned(),
            );
        }
        if *discover == initialize.error {
            return initialize.error;
        }
        Error::Unreachable(format!(
            "server/discover: {}; initialize: {}",
            bare(discover),
            bare(&initialize.error)
        ))
    }

    /// Opens a session one way.
    async fn open(&self, era: Era) -> Result<Session, Failed> {
        let (service, line) = self.carrier.open(era, self.timeout).await?;
        let revision = service.peer_info().map(|info| info.protocol_version.as_str().to_owned());
        *self.revision.lock() = revision;
        self.verdict.found(era);
        let may_change = self.carrier.is_http();
        let expires = match era {
            Era::Legacy if may_change => Some(Instant::now() + LEGACY_HOLDS),
            Era::Legacy | Era::Modern => None,
        };
        Ok(Session {
            service,
            opened: Instant::now(),
            expires,
            may_change,
            line,
        })
    }
}

/// An error's words without what [`Error::Unreachable`] puts before them.
fn bare(error: &Error) -> String {
    match error {
        Error::Unreachable(words) => words.clone(),
        other => other.to_string(),
    }
}

/// A request that is waited for. When it is given up, the origin is told.
struct Pending<'a> {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    shutdown: &'a Shutdown,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let params = CancelledNotificationParam::new(Some(id), Some("nobody waits for the answer any more".to_owned()));
        let (peer, notification) = (self.peer.clone(), CancelledNotification::new(params));
        if tokio::runtime::Handle::try_current().is_ok() {
            // Whether it arrives is not waited for: the connection may be what failed.
            drop(self.shutdown.spawn(async move {
                let _told = peer.send_notification(notification.into()).await.is_ok();
            }));
        }
    }
}
