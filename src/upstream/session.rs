//! A session with an MCP server over whatever carries it: opened in the right era, kept, forgotten, and asked.
//!
//! The SDK keeps ids, revisions and lost sessions; answers to our requests are taken as text where they arrive
//! ([`Sink`]). Imports `carrier`, `era` and `sink`. Invariants: one session at a time, made by the first request that needs
//! it while the others wait; an era is believed only after a session was opened in it; who gives up a request says so to
//! the origin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::CancelledNotification;
use rmcp::model::CancelledNotificationParam;
use rmcp::model::ClientRequest;
use rmcp::model::CustomRequest;
use rmcp::model::GetExtensions as _;
use rmcp::model::RequestId;
use rmcp::model::ServerPeerInfo;
use rmcp::service::Peer;
use rmcp::service::PeerRequestOptions;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::sync::MutexGuard;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::Settings;
use super::carrier::Carrier;
use super::carrier::Client;
use super::ear::Calls;
use super::ear::Ear;
use super::era::Era;
use super::era::Failed;
use super::era::Verdict;
use super::framed::Line;
use super::http::innermost;
use super::notices::Notices;
use super::relay::Interim;
use super::sink::Sink;
use crate::domain::LogLevel;
use crate::shutdown::Shutdown;

/// How long what a server declares is taken as it was when its session was opened, where it lacks what is asked for.
const SETTLED: Duration = Duration::from_secs(1);

/// How long an older server's session goes on when looking for a newer one has failed.
const LOOK_AGAIN: Duration = Duration::from_secs(5 * 60);

/// How long it is believed that a server does not speak the older revisions beside the newest.
const FOUND_HOLDS: Duration = Duration::from_secs(60 * 60);

/// Sessions in which hosts can be asked something: as many as there are kinds of hosts.
const MAX_OFFERING: usize = 8;

/// An MCP server, with the session that is kept with it.
pub(super) struct Server {
    carrier: Carrier,
    timeout: Duration,
    shutdown: Shutdown,
    /// Made by the first request that needs it; the others wait for that one.
    held: Mutex<Held>,
    /// Sessions of before 2026-07-28 for hosts of before, by what those can be asked. Whoever needs one waits for no other
    /// request.
    offering: Mutex<HashMap<String, Arc<Session>>>,
    /// Cancelled when there will be no session any more.
    closed: CancellationToken,
    verdict: Verdict,
    /// The protocol revision last agreed on.
    revision: parking_lot::Mutex<Option<String>>,
    notices: Notices,
    /// When it was found not to speak the older revisions beside the newest.
    modern_alone: parking_lot::Mutex<Option<Instant>>,
    answer_bytes: u64,
}

#[derive(Default)]
struct Held {
    session: Option<Arc<Session>>,
}

/// One request.
pub(super) struct Question<'a> {
    pub(super) method: &'a str,
    pub(super) params: Value,
    /// Bytes that its answer may have, envelope included.
    pub(super) cap: u64,
    /// The longest that it may take, once there is a session.
    pub(super) timeout: Duration,
}

/// One session.
pub(super) struct Session {
    service: Client,
    /// What is known of a connection that is its own; HTTP has one for each request.
    line: Option<Line>,
    opened: Instant,
    /// When to look whether the origin has learned better; held for a look.
    expires: parking_lot::Mutex<Option<Instant>>,
    /// Whether the server at the other end may be another one by now: not so with a process.
    may_change: bool,
    era: Era,
    /// Calls of hosts under way.
    calls: Calls,
    /// From which level on a server of before 2026-07-28 was told to tell of log messages; held for a look.
    level: parking_lot::Mutex<Option<LogLevel>>,
    /// One call at a time, where it could not be told which of them a question is about.
    turn: Option<Mutex<()>>,
    /// Cancelled with the last that keeps it.
    over: CancellationToken,
}

/// A request of a host, ready to be sent.
pub(super) struct Relayed {
    pub(super) request: CustomRequest,
    pub(super) options: PeerRequestOptions,
    pub(super) sink: Sink,
    /// Where questions about it go.
    pub(super) interim: mpsc::Sender<Interim>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl Session {
    /// Whether it can still be asked.
    fn is_live(&self) -> bool {
        !self.service.is_closed() && !self.service.is_transport_closed()
    }

    /// Says whether the server can tell of log messages and has to be told to do so from `level` on; it is taken as told.
    pub(super) fn is_to_speak_from(&self, level: LogLevel) -> bool {
        let can = self.peer_info().is_some_and(|info| info.capabilities.logging.is_some());
        let mut told = self.level.lock();
        let is_new = can && told.is_none_or(|told| level < told);
        if is_new {
            *told = Some(level);
        }
        is_new
    }

    /// Whether it is time to look for what the origin has learned.
    fn has_expired(&self) -> bool {
        self.expires.lock().is_some_and(|at| Instant::now() >= at)
    }

    /// What the server said of itself.
    pub(super) fn peer_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.service.peer_info()
    }

    /// Says whether each request says for itself what the host can be asked.
    pub(super) fn is_modern(&self) -> bool {
        self.era == Era::Modern
    }

    /// Waits until a call can be told from others, for as long as what this gives is kept.
    pub(super) async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        match &self.turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        }
    }

    /// What notices can be asked for of.
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
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
            offering: Mutex::default(),
            closed: CancellationToken::new(),
            verdict: Verdict::default(),
            revision: parking_lot::Mutex::default(),
            notices: Notices::default(),
            modern_alone: parking_lot::Mutex::default(),
            answer_bytes: settings.limits.answer_bytes as u64,
        }
    }

    /// The most bytes of an answer that carries no file.
    pub(super) fn answer_bytes(&self) -> u64 {
        self.answer_bytes
    }

    /// Where its notices go.
    pub(super) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// The longest that one request may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Waits until the server says that something of it has changed.
    pub(super) async fn changed(&self) {
        tokio::select! {
            () = self.notices.changed() => {}
            () = self.carrier.stream_opened() => {}
        }
    }

    /// The protocol revision last agreed on.
    pub(super) fn revision(&self) -> Option<String> {
        self.revision.lock().clone()
    }

    /// Sends one request and gives its result's text.
    ///
    /// # Errors
    ///
    /// Those of the connection; [`Error::Rpc`] with the server's own code when it refuses.
    pub(super) async fn ask(&self, question: Question<'_>) -> Result<String, Error> {
        let session = self.session().await?;
        self.ask_in(&session, question).await
    }

    /// The same in a session that was looked at before.
    pub(super) async fn ask_in(&self, session: &Arc<Session>, question: Question<'_>) -> Result<String, Error> {
        let Question {
            method,
            params,
            cap,
            timeout,
        } = question;
        let sink = Sink::new(cap);
        let mut request = CustomRequest::new(method, Some(params));
        request.extensions_mut().insert(sink.clone());
        // A process or a peer that says nothing at all in this time is given up, and not this request alone.
        let heard = session.heard();
        let options = PeerRequestOptions::no_options();
        let sent = tokio::time::timeout(timeout, self.send(session, request, options, None)).await;
        match sent {
            Ok(failed) => self.settle(session, &sink, failed).await,
            Err(_elapsed) => match sink.take() {
                Some(answer) => answer,
                None => {
                    if heard.is_some() && session.heard() == heard {
                        self.forget(session).await;
                    }
                    Err(Error::TimedOut(timeout))
                }
            },
        }
    }

    /// Sends a request that is relayed, and gives its result's text once there is one.
    pub(super) async fn finish(&self, session: &Arc<Session>, relayed: Relayed) -> Result<String, Error> {
        let Relayed {
            request,
            options,
            sink,
            interim,
        } = relayed;
        let failed = self.send(session, request, options, Some(interim)).await;
        self.settle(session, &sink, failed).await
    }

    /// What came of a request that is over.
    async fn settle(&self, session: &Arc<Session>, sink: &Sink, failed: Option<String>) -> Result<String, Error> {
        if let Some(answer) = sink.take() {
            if matches!(answer, Err(Error::Unreachable(_))) {
                self.forget(session).await;
            }
            return answer;
        }
        self.forget(session).await;
        let words = failed.unwrap_or_else(|| "the connection closed".to_owned());
        let end = session.line.as_ref().and_then(Line::end);
        Err(end.unwrap_or_else(|| Error::Unreachable(self.carrier.tidy(&words))))
    }

    /// Sends a request and waits until the SDK says that it is over; tells why, when it failed. Questions about it go to
    /// `interim`, where somebody is there to hear them.
    async fn send(
        &self,
        session: &Session,
        request: CustomRequest,
        options: PeerRequestOptions,
        interim: Option<mpsc::Sender<Interim>>,
    ) -> Option<String> {
        let request = ClientRequest::CustomRequest(request);
        let handle = match session.service.send_request_with_option(request, options).await {
            Ok(handle) => handle,
            Err(error) => return Some(innermost(&error)),
        };
        let mut pending = Pending {
            peer: session.service.peer().clone(),
            id: Some(handle.id.clone()),
            shutdown: &self.shutdown,
        };
        let _listed = interim.map(|interim| session.calls.list(handle.id.clone(), interim));
        let over = handle.await_response().await;
        pending.id = None;
        over.err().map(|error| innermost(&error))
    }

    /// The session, made if there is none that lives.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Error> {
        let mut held = self.held.lock().await;
        if self.closed.is_cancelled() {
            return Err(ending());
        }
        let kept = held.session.clone().filter(|session| session.is_live());
        if let Some(session) = &kept
            && !session.has_expired()
        {
            return Ok(Arc::clone(session));
        }
        let made = tokio::select! {
            made = self.connect() => made,
            () = self.closed.cancelled() => Err(ending()),
        };
        let session = match (made, kept) {
            (Ok(made), _) => Arc::new(made),
            // It goes on as it did.
            (Err(_), Some(kept)) => {
                *kept.expires.lock() = Some(Instant::now() + LOOK_AGAIN);
                return Ok(kept);
            }
            (Err(error), None) => return Err(error),
        };
        held.session = Some(Arc::clone(&session));
        self.listen(&session);
        Ok(session)
    }

    /// A session in which a host can be asked so much. Since 2026-07-28 every request says so for itself; before, it is said
    /// once, so that there is a session for each. A host of before is asked on behalf of in a session of before, where the
    /// server still has those: what its tools do may hang on that.
    pub(super) async fn session_offering(&self, capabilities: &Value, host: Era) -> Result<Arc<Session>, Error> {
        let session = self.session().await?;
        let is_nothing = capabilities.as_object().is_none_or(serde_json::Map::is_empty);
        let is_apt = if session.is_modern() {
            host == Era::Modern || self.is_modern_alone()
        } else {
            is_nothing
        };
        if is_apt {
            return Ok(session);
        }
        let mut offering = self.offering.lock().await;
        let key = capabilities.to_string();
        if let Some(session) = offering.get(&key).filter(|session| session.is_live()) {
            return Ok(Arc::clone(session));
        }
        if offering.len() >= MAX_OFFERING {
            offering.clear();
        }
        let made = tokio::select! {
            made = self.shake_hands(Era::Legacy, capabilities) => made,
            () = self.closed.cancelled() => return Err(ending()),
        };
        match made {
            Ok(made) => {
                let made = Arc::new(made);
                offering.insert(key, Arc::clone(&made));
                Ok(made)
            }
            Err(_) if session.is_modern() => {
                *self.modern_alone.lock() = Some(Instant::now());
                Ok(session)
            }
            Err(failed) => Err(failed.error),
        }
    }

    /// Says whether the server was lately found not to speak the older revisions beside the newest.
    fn is_modern_alone(&self) -> bool {
        let found = *self.modern_alone.lock();
        found.is_some_and(|found| found.elapsed() < FOUND_HOLDS)
    }

    /// Begins to listen to what the server says has changed, where it has to be asked to, for as long as the session is kept.
    fn listen(&self, session: &Arc<Session>) {
        if !session.is_modern() {
            return;
        }
        let (listening, shutdown, over) = (
            self.notices.clone().listen(Arc::downgrade(session)),
            self.shutdown.clone(),
            session.over.clone(),
        );
        // One that outlived its session would wait for what its successor is to hear.
        drop(self.shutdown.spawn(async move {
            tokio::select! {
                () = listening => {}
                () = over.cancelled() => {}
                () = shutdown.begun() => {}
            }
        }));
    }

    /// Gives a session up, so that the next request makes another one.
    pub(super) async fn forget(&self, session: &Arc<Session>) {
        let is_it = |kept: &Arc<Session>| Arc::ptr_eq(kept, session);
        self.offering.lock().await.retain(|_, kept| !is_it(kept));
        let mut held = self.held.lock().await;
        if held.session.as_ref().is_some_and(is_it) {
            held.session = None;
            if session.line.is_some() {
                // Whoever else waits in it is told at once.
                session.service.cancellation_token().cancel();
            }
        }
    }

    /// Ends the session, and makes no other one.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let mut held = self.held.lock().await;
        let offering = std::mem::take(&mut *self.offering.lock().await);
        for session in held.session.take().into_iter().chain(offering.into_values()) {
            session.service.cancellation_token().cancel();
        }
    }

    /// Opens a session in the era that the origin is known to speak, or finds out which (base protocol §22.1).
    async fn connect(&self) -> Result<Session, Error> {
        if self.verdict.era() == Some(Era::Legacy) {
            match self.open(Era::Legacy, &Value::Null).await {
                Err(failed) if failed.says_upgraded() => {}
                opened => return opened.map_err(|failed| failed.error),
            }
        }
        let discover = match self.open(Era::Modern, &Value::Null).await {
            Err(failed) if failed.says_legacy(self.carrier.is_http()) => failed.error,
            opened => return opened.map_err(|failed| failed.error),
        };
        match self.open(Era::Legacy, &Value::Null).await {
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

    /// Opens a session one way, in which hosts can be asked so much.
    async fn open(&self, era: Era, capabilities: &Value) -> Result<Session, Failed> {
        let session = self.shake_hands(era, capabilities).await?;
        let info = session.peer_info();
        *self.revision.lock() = info.map(|info| info.protocol_version.as_str().to_owned());
        *session.expires.lock() = self.verdict.found(era).filter(|_| session.may_change);
        Ok(session)
    }

    /// The same without learning anything of the server.
    async fn shake_hands(&self, era: Era, capabilities: &Value) -> Result<Session, Failed> {
        let calls = Calls::default();
        let ear = Ear::new(capabilities, calls.clone(), self.notices.clone());
        let (service, line) = self.carrier.open(era, ear, self.timeout).await?;
        let may_be_mixed_up = line.is_some() && era == Era::Legacy && capabilities.is_object();
        Ok(Session {
            service,
            opened: Instant::now(),
            expires: parking_lot::Mutex::default(),
            may_change: self.carrier.is_http(),
            era,
            calls,
            level: parking_lot::Mutex::default(),
            turn: may_be_mixed_up.then(Mutex::default),
            over: CancellationToken::new(),
            line,
        })
    }
}

/// Why there is no session any more.
fn ending() -> Error {
    Error::Unreachable("the gateway is ending".to_owned())
}

/// An error's words without what [`Error::Unreachable`] puts before them.
fn bare(error: &Error) -> String {
    if let Error::Unreachable(words) = error {
        return words.clone();
    }
    error.to_string()
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
