//! Sessions of hosts of older revisions (base protocol §23.2): which there are, whose they are, how many, and when they end.
//!
//! What happens in a session is the SDK's; [`Door`] is how the SDK reaches this register. A session belongs to the caller
//! that opened it, at the address where it did: for anybody else, and anywhere else, it is not there. What the lane answers
//! keeps a session alive as much as what the SDK answers, so the SDK's own idle timeout is switched off.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::poll_fn;
use parking_lot::Mutex;
use rand::RngCore as _;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::ProtocolVersion;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::model::ServerResult;
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::EventIdParseError;
use rmcp::transport::streamable_http_server::session::local::LocalSessionHandle;
use rmcp::transport::streamable_http_server::session::local::LocalSessionWorker;
use rmcp::transport::streamable_http_server::session::local::SessionConfig;
use rmcp::transport::streamable_http_server::session::local::SessionError;
use rmcp::transport::streamable_http_server::session::local::StreamableHttpMessageReceiver;
use rmcp::transport::streamable_http_server::session::local::create_local_session;
use thiserror::Error;
use tokio::time::Instant;

use super::lane::Id;
use super::lane::Refusal;
use crate::domain::Limits;
use crate::gateway::Caller;
use crate::gateway::View;
use crate::shutdown::Shutdown;

/// How long ending a session may wait for what runs in it.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// The longest between two looks for sessions that are idle too long.
const SWEEP: Duration = Duration::from_secs(60);

/// Bytes of a session's id, before they are written as hexadecimal.
const ID_BYTES: usize = 16;

/// Requests of one session under way at once.
const MAX_ASKED: usize = 256;

/// Requests with a handshake before them are resumed where this is spoken, or later (base protocol §23.2).
const PRIMING: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// Where a host speaks, and who it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    /// Who.
    pub(super) caller: Caller,
    /// Where.
    pub(super) view: View,
}

/// All sessions.
pub(super) struct Sessions {
    /// Held for a look.
    register: Mutex<Register>,
    idle: Duration,
    shutdown: Shutdown,
}

/// The session manager that the SDK is given for one request: it knows who asks, and sees the sessions of nobody else.
#[derive(Clone)]
pub(super) struct Door {
    sessions: Arc<Sessions>,
    owner: Owner,
    /// Whether the host understands events without data.
    primes: bool,
}

/// A request, or an open stream, that keeps its session from being idle.
pub(super) struct InUse {
    sessions: Arc<Sessions>,
    id: SessionId,
    request: Option<Id>,
}

/// Why the SDK cannot do in a session what it wants to.
#[derive(Debug, Error)]
pub(super) enum Error {
    /// It is not there, or somebody else's.
    #[error("there is no such session")]
    Unknown,
    /// There is no room for one more.
    #[error("there is no room for one more session")]
    Full,
    /// What runs in it has ended, or an event is unknown.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An event's id is none of ours.
    #[error(transparent)]
    Event(#[from] EventIdParseError),
}

/// The sessions, by their ids.
struct Register {
    open: HashMap<SessionId, Open>,
    most: usize,
    /// Whether a task looks for idle ones.
    is_swept: bool,
}

/// One session.
struct Open {
    owner: Owner,
    handle: LocalSessionHandle,
    version: Option<ProtocolVersion>,
    /// When it was last in use.
    last: Instant,
    /// Requests and streams that use it now.
    uses: usize,
    /// The ids of those requests.
    asked: HashSet<Id>,
}

impl Sessions {
    /// None, and room for as many as `limits` say.
    pub(super) fn new(limits: &Limits, shutdown: Shutdown) -> Self {
        Self {
            register: Mutex::new(Register {
                open: HashMap::new(),
                most: limits.sessions,
                is_swept: false,
            }),
            idle: limits.session_idle,
            shutdown,
        }
    }

    /// Uses a session, until what is given back is dropped.
    pub(super) fn enter(self: &Arc<Self>, id: &str, owner: &Owner, request: Option<Id>) -> Result<InUse, Refusal> {
        let id = SessionId::from(id);
        self.register
            .lock()
            .enter(&id, owner, request.as_ref(), Instant::now())?;
        Ok(InUse {
            sessions: Arc::clone(self),
            id,
            request,
        })
    }

    /// Says whether one more may be opened; one that is idle may end for it when it is.
    pub(super) fn has_room(&self) -> bool {
        let register = self.register.lock();
        register.open.len() < register.most || register.longest_idle().is_some()
    }

    /// The revision that a session agreed on, if it is `owner`'s.
    pub(super) fn version(&self, id: &str, owner: &Owner) -> Option<ProtocolVersion> {
        let register = self.register.lock();
        register.of(&id.into(), owner)?.version.clone()
    }

    /// The way to one session.
    pub(super) fn door(self: &Arc<Self>, owner: &Owner, version: Option<&str>) -> Door {
        Door {
            sessions: Arc::clone(self),
            owner: owner.clone(),
            primes: version.is_some_and(|version| version >= PRIMING.as_str()),
        }
    }

    /// Begins to look for idle sessions, unless somebody does.
    fn sweep(self: &Arc<Self>) {
        if std::mem::replace(&mut self.register.lock().is_swept, true) {
            return;
        }
        let (sessions, between) = (Arc::clone(self), (self.idle / 4).min(SWEEP));
        drop(self.shutdown.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(between) => {}
                    () = sessions.shutdown.begun() => return,
                }
                let Some(over) = sessions.register.lock().sweep(sessions.idle, Instant::now()) else {
                    return;
                };
                for handle in over {
                    close(&handle).await;
                }
            }
        }));
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut register = self.sessions.register.lock();
        register.leave(&self.id, self.request.as_ref(), Instant::now());
    }
}

impl Register {
    fn of(&self, id: &SessionId, owner: &Owner) -> Option<&Open> {
        self.open.get(id).filter(|open| open.owner == *owner)
    }

    fn enter(&mut self, id: &SessionId, owner: &Owner, request: Option<&Id>, now: Instant) -> Result<(), Refusal> {
        let open = self.open.get_mut(id).filter(|open| open.owner == *owner);
        let open = open.ok_or(Refusal::Session)?;
        if let Some(request) = request {
            if open.asked.len() >= MAX_ASKED {
                return Err(Refusal::Invalid(
                    "too many requests of this session are under way; wait for some",
                ));
            }
            if !open.asked.insert(request.clone()) {
                return Err(Refusal::Invalid(
                    "a request of this session with the same id is under way",
                ));
            }
        }
        open.uses += 1;
        open.last = now;
        Ok(())
    }

    fn leave(&mut self, id: &SessionId, request: Option<&Id>, now: Instant) {
        if let Some(open) = self.open.get_mut(id) {
            open.uses = open.uses.saturating_sub(1);
            open.last = now;
            if let Some(request) = request {
                open.asked.remove(request);
            }
        }
    }

    /// Takes a session in, and gives the one that ends for it, if one has to.
    fn add(&mut self, id: SessionId, open: Open) -> Result<Option<LocalSessionHandle>, Error> {
        let ended = if self.open.len() < self.most {
            None
        } else {
            let id = self.longest_idle().ok_or(Error::Full)?;
            self.open.remove(&id).map(|open| open.handle)
        };
        self.open.insert(id, open);
        Ok(ended)
    }

    /// Of the caller that holds most sessions, the one that was idle longest: whoever opens many loses their own.
    fn longest_idle(&self) -> Option<SessionId> {
        let mut held: HashMap<&Caller, usize> = HashMap::new();
        for open in self.open.values() {
            *held.entry(&open.owner.caller).or_default() += 1;
        }
        let idle = self.open.iter().filter(|(_, open)| open.uses == 0);
        let first = idle.max_by_key(|(_, open)| {
            let many = held.get(&open.owner.caller).copied();
            (many, std::cmp::Reverse(open.last))
        });
        first.map(|(id, _)| SessionId::clone(id))
    }

    /// Takes out what was idle too long; nothing, when there is none left to look for.
    fn sweep(&mut self, idle: Duration, now: Instant) -> Option<Vec<LocalSessionHandle>> {
        if self.open.is_empty() {
            self.is_swept = false;
            return None;
        }
        let over = self
            .open
            .extract_if(|_, open| open.uses == 0 && now.duration_since(open.last) >= idle);
        Some(over.map(|(_, open)| open.handle).collect())
    }
}

/// Ends what runs in a session.
async fn close(handle: &LocalSessionHandle) {
    if tokio::time::timeout(CLOSE_WAIT, handle.close()).await.is_err() {
        tracing::debug!("a session did not end at once");
    }
}

/// An id that nobody can guess, of visible ASCII characters.
fn session_id() -> SessionId {
    let mut bytes = [0; ID_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into()
}

/// Events as they come.
fn events(receiver: StreamableHttpMessageReceiver) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    let mut inner = receiver.inner;
    poll_fn(move |context: &mut Context<'_>| -> Poll<Option<ServerSseMessage>> { inner.poll_recv(context) })
}

impl Door {
    fn handle(&self, id: &SessionId) -> Result<LocalSessionHandle, Error> {
        let register = self.sessions.register.lock();
        let open = register.of(id, &self.owner).ok_or(Error::Unknown)?;
        Ok(open.handle.clone())
    }

    /// Whether the host understands events without data.
    pub(super) fn primes(&self) -> bool {
        self.primes
    }
}

impl SessionManager for Door {
    type Error = Error;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Error> {
        let mut config = SessionConfig::default();
        config.keep_alive = None;
        if !self.primes {
            config.sse_retry = None;
        }
        let id = session_id();
        let (handle, worker) = create_local_session(id.clone(), config);
        let open = Open {
            owner: self.owner.clone(),
            handle,
            version: None,
            last: Instant::now(),
            uses: 0,
            asked: HashSet::new(),
        };
        let ended = self.sessions.register.lock().add(id.clone(), open)?;
        self.sessions.sweep();
        if let Some(ended) = ended {
            tracing::info!("the session that was idle longest of whoever holds most was ended: there are too many");
            close(&ended).await;
        }
        Ok((id, WorkerTransport::spawn(worker)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        let answer = self.handle(id)?.initialize(message).await?;
        if let ServerJsonRpcMessage::Response(response) = &answer
            && let ServerResult::InitializeResult(agreed) = &response.result
            && let Some(open) = self.sessions.register.lock().open.get_mut(id)
        {
            open.version = Some(agreed.protocol_version.clone());
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        Ok(self.handle(id).is_ok())
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        let Ok(handle) = self.handle(id) else {
            return Ok(());
        };
        drop(self.sessions.register.lock().open.remove(id));
        close(&handle).await;
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let handle = self.handle(id)?;
        let receiver = handle.establish_request_wise_channel().await?;
        handle.push_message(message, receiver.http_request_id).await?;
        Ok(events(receiver))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Error> {
        Ok(self.handle(id)?.push_message(message, None).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        Ok(events(self.handle(id)?.establish_common_channel().await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        Ok(events(self.handle(id)?.resume(last_event_id.parse()?).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(most: usize) -> Register {
        Register {
            open: HashMap::new(),
            most,
            is_swept: true,
        }
    }

    fn owner(last: u8) -> Owner {
        Owner {
            caller: Caller::at([192, 0, 2, last].into()),
            view: View::Merged,
        }
    }

    fn add(register: &mut Register, id: &str, owner: Owner, now: Instant) -> Result<(), Error> {
        let (handle, _worker) = create_local_session(id, SessionConfig::default());
        let open = Open {
            owner,
            handle,
            version: None,
            last: now,
            uses: 0,
            asked: HashSet::new(),
        };
        register.add(id.into(), open).map(drop)
    }

    fn ids(register: &Register) -> Vec<&str> {
        let mut ids: Vec<&str> = register.open.keys().map(|id| &**id).collect();
        ids.sort_unstable();
        ids
    }

    const IDLE: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_used_is_not_idle_and_what_is_not_ends() {
        let (mut register, begin) = (register(8), Instant::now());
        for id in ["used", "streaming", "idle"] {
            add(&mut register, id, owner(1), begin).unwrap();
        }
        register.enter(&"streaming".into(), &owner(1), None, begin).unwrap();
        for minute in 0..10 {
            let now = begin + IDLE * minute;
            register.enter(&"used".into(), &owner(1), None, now).unwrap();
            register.leave(&"used".into(), None, now);
            register.sweep(IDLE, now + IDLE / 2).unwrap();
        }
        assert_eq!(ids(&register), ["streaming", "used"]);
        let over = begin + IDLE * 9;
        register.leave(&"streaming".into(), None, over);
        assert_eq!(register.sweep(IDLE, over + IDLE / 2).unwrap().len(), 0);
        assert_eq!(register.sweep(IDLE, over + IDLE).unwrap().len(), 2);
        assert!(register.sweep(IDLE, over + IDLE).is_none() && !register.is_swept);
    }

    #[test]
    fn a_session_is_there_for_its_caller_at_its_address_and_for_nobody_else() {
        let (mut register, now) = (register(8), Instant::now());
        add(&mut register, "a", owner(1), now).unwrap();
        let elsewhere = Owner {
            view: View::Origin("acme".parse().unwrap()),
            ..owner(1)
        };
        for other in [owner(2), elsewhere] {
            assert_eq!(register.enter(&"a".into(), &other, None, now), Err(Refusal::Session));
            assert!(register.of(&"a".into(), &other).is_none());
        }
        assert_eq!(register.enter(&"b".into(), &owner(1), None, now), Err(Refusal::Session));
        register.enter(&"a".into(), &owner(1), None, now).unwrap();
    }

    #[test]
    fn whoever_opens_too_many_loses_their_own() {
        let (mut register, begin) = (register(4), Instant::now());
        let at = |second| begin + Duration::from_secs(second);
        add(&mut register, "modest", owner(1), at(0)).unwrap();
        for (second, id) in (1..).zip(["first", "second", "third"]) {
            add(&mut register, id, owner(2), at(second)).unwrap();
        }
        register.enter(&"first".into(), &owner(2), None, at(4)).unwrap();
        add(&mut register, "fourth", owner(2), at(5)).unwrap();
        assert_eq!(ids(&register), ["first", "fourth", "modest", "third"]);
        add(&mut register, "another", owner(3), at(6)).unwrap();
        assert_eq!(ids(&register), ["another", "first", "fourth", "modest"]);
        for (id, whose) in [("another", 3), ("fourth", 2), ("modest", 1)] {
            register.enter(&id.into(), &owner(whose), None, at(7)).unwrap();
        }
        assert!(matches!(add(&mut register, "none", owner(4), at(8)), Err(Error::Full)));
    }

    #[test]
    fn an_id_under_way_is_not_used_twice() {
        // case S2.
        let (mut register, now) = (register(8), Instant::now());
        add(&mut register, "a", owner(1), now).unwrap();
        let (one, text) = (Id::Number(1), Id::Text("1".into()));
        let mut enter = |id: &Id| register.enter(&"a".into(), &owner(1), Some(id), now);
        enter(&one).unwrap();
        enter(&text).unwrap();
        assert!(matches!(enter(&one), Err(Refusal::Invalid(_))));
        register.leave(&"a".into(), Some(&one), now);
        register.enter(&"a".into(), &owner(1), Some(&one), now).unwrap();
    }
}
