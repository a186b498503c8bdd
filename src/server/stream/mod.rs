//! A stream of JSON-RPC messages between a host and the gateway: WebSocket, standard input and output, `mcp.sock` (base
//! protocol §9, §22.2).
//!
//! There are no headers: each body says everything. The lane answers its methods concurrently; the rest goes to the SDK's
//! server over a transport of ours on the same stream, to one for each era that the host speaks. Bounds: so many requests
//! under way, and what they are answered with, until it is written; while there are more, nothing is read. A request whose
//! id is in use is refused, and one that is cancelled is not answered.

mod asked;
pub(super) mod lines;
mod sdk;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::batch;
use super::lane::Id;
use super::lane::Kind;
use super::lane::Message;
use super::lane::Outcome;
use super::lane::Refusal;
use super::lane::is_batch;
use super::sessions::Owner;

use asked::AnsweredBy;
use asked::Asked;
use sdk::Outgoing;
use sdk::Sdk;
use sdk::Wire;

/// Requests of one connection under way at once, and answers that wait to be written.
const UNDER_WAY: usize = 64;

/// Messages that wait to be written beside answers.
const NOTICES: usize = 32;

/// How long what runs may take to come to its end once nothing more is read.
const DRAIN: Duration = Duration::from_secs(10);

/// Time between two looks at whether a host that says nothing still may.
const LOOK: Duration = Duration::from_secs(30);

/// How long what has no end of its own may take to say goodbye.
const GOODBYE: Duration = Duration::from_millis(500);

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The method whose answer has no end of its own.
const LISTEN: &str = "subscriptions/listen";

/// What comes in.
pub(super) enum Incoming {
    /// The bytes of one message.
    Message(Bytes),
    /// A message that cannot be read, while the next ones may be.
    Unreadable(Refusal),
    /// Nothing more.
    End(Ending),
}

/// Why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The host has no more to say; what it asked is answered.
    Done,
    /// The host is gone, or its connection is.
    Left,
    /// It sent what is no text.
    NotText,
    /// It sent more than a message may have.
    TooLong,
    /// It is not heard any more.
    Silent,
    /// It may ask no more.
    Barred,
    /// The gateway ends.
    Shutdown,
}

/// The half of a stream that is read.
pub(super) trait Inward: Send + 'static {
    /// What comes next. May be dropped and called again.
    fn next(&mut self) -> impl Future<Output = Incoming> + Send;
}

/// The half of a stream that is written.
pub(super) trait Outward: Send + 'static {
    /// How often the host is asked whether it is there.
    const BEAT: Option<Duration>;

    /// Writes one message that lies in pieces; nothing when nobody takes it any more.
    fn send(&mut self, pieces: Vec<Bytes>) -> impl Future<Output = Option<()>> + Send;

    /// Asks whether the host is there.
    fn beat(&mut self) -> impl Future<Output = Option<()>> + Send;

    /// Says goodbye.
    fn close(&mut self, ending: Ending) -> impl Future<Output = ()> + Send;
}

/// Who speaks over a stream.
pub(super) struct Speaker {
    /// Who, and at which address.
    pub(super) owner: Owner,
    /// Whether they still may, asked for each message and now and then.
    pub(super) may_ask: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Serves a stream until the host leaves, may ask no more, or the end of the process begins. Gives both halves back, if the
/// host took the last words.
pub(super) async fn serve<I: Inward, O: Outward>(
    shared: Arc<Shared>,
    speaker: Speaker,
    mut inward: I,
    outward: O,
) -> Option<(I, O)> {
    let (mut connection, queue, mut passed) = Connection::new(shared, speaker);
    let shutdown = connection.shared.gateway.shutdown().clone();
    let writer = shutdown.spawn(write(outward, queue, connection.end.clone()));
    let (places, end) = (Arc::clone(&connection.places), connection.end.clone());
    let mut looks = tokio::time::interval(LOOK);
    let ending = loop {
        let is_full = connection.place.is_none();
        let mut batch = std::mem::take(&mut connection.batch);
        let next = async {
            match batch.pop_front() {
                Some(message) => Incoming::Message(message),
                None => inward.next().await,
            }
        };
        let incoming = tokio::select! {
            place = Arc::clone(&places).acquire_owned(), if is_full => {
                connection.place = place.ok();
                None
            }
            incoming = next, if !is_full => Some(incoming),
            Some(message) = passed.recv() => {
                connection.pass(message).await;
                None
            }
            _ = looks.tick() => {
                if !(connection.speaker.may_ask)() {
                    break Ending::Barred;
                }
                None
            }
            () = end.cancelled() => break Ending::Left,
            () = shutdown.begun() => break Ending::Shutdown,
        };
        connection.batch = batch;
        if let Some(incoming) = incoming
            && let ControlFlow::Break(ending) = connection.take_in(incoming).await
        {
            break ending;
        }
    };
    connection.finish(ending, passed).await;
    let outward = tokio::time::timeout(LAST_WORDS, writer).await.ok()?.ok()?;
    Some((inward, outward))
}

/// Writes what waits, in turn, until the connection ends.
async fn write<O: Outward>(mut outward: O, mut queue: mpsc::Receiver<Outgoing>, end: CancellationToken) -> O {
    let mut beats = O::BEAT.map(tokio::time::interval);
    let beat = async |beats: &mut Option<tokio::time::Interval>| match beats {
        Some(beats) => drop(beats.tick().await),
        None => std::future::pending().await,
    };
    loop {
        let written = tokio::select! {
            next = queue.recv() => match next {
                Some(Outgoing::Message { pieces, place }) => {
                    let written = tokio::select! {
                        written = outward.send(pieces) => written,
                        () = end.cancelled() => return outward,
                    };
                    drop(place);
                    written
                }
                Some(Outgoing::Close(ending)) => {
                    outward.close(ending).await;
                    return outward;
                }
                None => return outward,
            },
            () = beat(&mut beats) => outward.beat().await,
            () = end.cancelled() => return outward,
        };
        if written.is_none() {
            end.cancel();
            return outward;
        }
    }
}

/// One connection, as its reader has it.
struct Connection {
    shared: Arc<Shared>,
    speaker: Speaker,
    asked: Arc<Asked>,
    places: Arc<Semaphore>,
    /// The place of the next request: without one, nothing is read.
    place: Option<OwnedSemaphorePermit>,
    /// Messages that came together, and are still to be done.
    batch: VecDeque<Bytes>,
    queue: mpsc::Sender<Outgoing>,
    /// For requests that only looking showed not to be the lane's.
    passing: mpsc::Sender<Bytes>,
    legacy: Option<Sdk>,
    modern: Option<Sdk>,
    /// Whether a handshake was under way or agreed on.
    has_shaken_hands: bool,
    end: CancellationToken,
}

impl Connection {
    fn new(shared: Arc<Shared>, speaker: Speaker) -> (Self, mpsc::Receiver<Outgoing>, mpsc::Receiver<Bytes>) {
        let (queue, to_write) = mpsc::channel(UNDER_WAY + NOTICES);
        let (passing, passed) = mpsc::channel(UNDER_WAY);
        let connection = Self {
            shared,
            speaker,
            asked: Arc::new(Asked::default()),
            places: Arc::new(Semaphore::new(UNDER_WAY)),
            place: None,
            batch: VecDeque::new(),
            queue,
            passing,
            legacy: None,
            modern: None,
            has_shaken_hands: false,
            end: CancellationToken::new(),
        };
        (connection, to_write, passed)
    }

    /// Does what comes in; breaks when that is the end.
    async fn take_in(&mut self, incoming: Incoming) -> ControlFlow<Ending> {
        let bytes = match incoming {
            Incoming::Message(bytes) => bytes,
            Incoming::Unreadable(refusal) => {
                self.refuse(&refusal, None).await;
                return ControlFlow::Continue(());
            }
            Incoming::End(ending) => return ControlFlow::Break(ending),
        };
        if !(self.speaker.may_ask)() {
            return ControlFlow::Break(Ending::Barred);
        }
        // In the revision that has arrays of messages, their answers go out one by one.
        if self.asked.has_batches() && is_batch(&bytes) {
            match batch::messages(&bytes) {
                Ok(messages) => self.batch.extend(messages),
                Err(refusal) => self.refuse(&refusal, None).await,
            }
        } else {
            self.take(bytes).await;
        }
        ControlFlow::Continue(())
    }

    /// Does one message.
    async fn take(&mut self, bytes: Bytes) {
        let message = match Message::read(&bytes) {
            Ok(message) => message,
            Err(refusal) => return self.refuse(&refusal, None).await,
        };
        match message.kind() {
            Kind::Request => {
                if let Err(refusal) = self.ask(&message, &bytes).await {
                    self.refuse(&refusal, message.id()).await;
                }
            }
            Kind::Notification => self.notice(&message, &bytes).await,
            Kind::Response => {
                if let Some(sdk) = &self.legacy {
                    sdk.tell(&bytes).await;
                }
            }
        }
    }

    /// Has a request answered: by the lane, in its own time, or by the SDK.
    async fn ask(&mut self, message: &Message<'_>, bytes: &Bytes) -> Result<(), Refusal> {
        let id = message.id().and_then(Id::read);
        let id = id.ok_or(Refusal::Invalid("id is neither a string nor an integer"))?;
        if message.method_name() == Some("initialize") && !message.is_modern() {
            if self.has_shaken_hands && self.legacy.as_ref().is_some_and(Sdk::runs) {
                return Err(Refusal::Invalid("this connection has had its handshake"));
            }
            self.has_shaken_hands = true;
        }
        let is_endless = message.method_name() == Some(LISTEN);
        let cancelled = self.asked.begin(&id, &mut self.place, is_endless)?;
        if message.is_of_the_lane() {
            self.ask_lane(id, bytes.clone(), cancelled);
            return Ok(());
        }
        let owner = &self.speaker.owner;
        let answered = self.shared.lane.answer(&owner.view, &owner.caller, None, message).await;
        match answered {
            Outcome::Reply(reply) => self.asked.answer(&id, reply.frames, &self.queue).await,
            Outcome::Pass => self.pass(bytes.clone()).await,
        }
        Ok(())
    }

    /// Has a request answered that may be the lane's.
    fn ask_lane(&self, id: Id, bytes: Bytes, cancelled: CancellationToken) {
        let (shared, owner) = (Arc::clone(&self.shared), self.speaker.owner.clone());
        let (asked, queue, passing) = (Arc::clone(&self.asked), self.queue.clone(), self.passing.clone());
        let end = self.end.clone();
        drop(self.shared.gateway.shutdown().spawn(async move {
            let answer = async {
                let message = Message::read(&bytes).ok()?;
                Some(shared.lane.answer(&owner.view, &owner.caller, None, &message).await)
            };
            let answered = tokio::select! {
                answered = answer => answered,
                () = cancelled.cancelled() => None,
                () = end.cancelled() => None,
            };
            match answered {
                Some(Outcome::Reply(reply)) => asked.answer(&id, reply.frames, &queue).await,
                // Whoever would take it has gone with the connection.
                Some(Outcome::Pass) => drop(passing.send(bytes).await),
                None => {}
            }
        }));
    }

    /// Hands a request to the SDK's server of its era, which begins with the first.
    async fn pass(&mut self, bytes: Bytes) {
        let Ok(message) = Message::read(&bytes) else {
            return;
        };
        let is_modern = message.is_modern();
        let Some(id) = message.id().and_then(Id::read) else {
            return;
        };
        let unoffered = message.method_name().filter(|method| is_modern && is_legacy(method));
        let refusal = match unoffered {
            Some(method) => Some(Refusal::Unoffered(method.to_owned())),
            None => {
                self.asked.pass(&id, is_modern);
                self.sdk(is_modern).tell(&bytes).await
            }
        };
        if let Some(refusal) = refusal {
            let pieces = refusal.reply(message.id()).frames;
            self.asked.answer(&id, pieces, &self.queue).await;
        }
    }

    fn sdk(&mut self, is_modern: bool) -> &Sdk {
        let sdk = if is_modern { &mut self.modern } else { &mut self.legacy };
        if sdk.as_ref().is_some_and(|sdk| !sdk.runs()) {
            *sdk = None;
        }
        sdk.get_or_insert_with(|| {
            let wire = Wire {
                asked: Arc::clone(&self.asked),
                queue: self.queue.clone(),
                is_modern,
            };
            Sdk::begin(&self.shared, &self.speaker.owner, wire, self.end.child_token())
        })
    }

    /// Takes note of what wants no answer.
    async fn notice(&mut self, message: &Message<'_>, bytes: &Bytes) {
        if message.method_name() != Some("notifications/cancelled") {
            // Before a handshake there is nobody to tell.
            if let Some(sdk) = self.legacy.as_ref().filter(|_| self.has_shaken_hands) {
                sdk.tell(bytes).await;
            }
            return;
        }
        let Some(id) = message.cancelled() else {
            return;
        };
        let sdk = match self.asked.cancel(&id) {
            Some(AnsweredBy::Legacy) => self.legacy.as_ref(),
            Some(AnsweredBy::Modern) => self.modern.as_ref(),
            Some(AnsweredBy::Lane) | None => None,
        };
        if let Some(sdk) = sdk {
            sdk.tell(bytes).await;
        }
    }

    async fn refuse(&self, refusal: &Refusal, id: Option<&str>) {
        let message = Outgoing::Message {
            pieces: refusal.reply(id).frames,
            place: None,
        };
        let _told = self.tell(message).await;
    }

    async fn tell(&self, message: Outgoing) -> Option<()> {
        tokio::select! {
            told = self.queue.send(message) => told.ok(),
            () = self.end.cancelled() => None,
        }
    }

    /// Lets what runs come to its end, and says goodbye.
    async fn finish(mut self, ending: Ending, mut passed: mpsc::Receiver<Bytes>) {
        let waits = matches!(ending, Ending::Done | Ending::Shutdown);
        if waits {
            let asked = Arc::clone(&self.asked);
            let drained = async {
                loop {
                    tokio::select! {
                        () = asked.until_answered() => return,
                        Some(message) = passed.recv() => self.pass(message).await,
                        () = self.end.cancelled() => return,
                    }
                }
            };
            if tokio::time::timeout(DRAIN, drained).await.is_err() {
                tracing::warn!("requests of a connection were still under way when its drain ended");
            }
            if ending == Ending::Shutdown {
                let _said = tokio::time::timeout(GOODBYE, self.asked.until_empty()).await;
            }
        }
        // Their servers end with them.
        drop((self.legacy.take(), self.modern.take()));
        let _told = tokio::time::timeout(LAST_WORDS, self.tell(Outgoing::Close(ending))).await;
        if !waits {
            self.asked.cancel_all();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.asked.cancel_all();
    }
}

/// Methods that revisions with a handshake have, and the SDK would answer before it knows the era.
fn is_legacy(method: &str) -> bool {
    ["initialize", "ping"].contains(&method)
}
