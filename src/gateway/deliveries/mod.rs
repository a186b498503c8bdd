//! Every answer about skills on its way to the record: accepted before it leaves, written soon, sealed each second.
//!
//! What waits is bounded in bytes. When there is no room, answers wait; when there is none for long, they are refused, and
//! none leaves unrecorded (design §2.9, §2.10). One task writes; it begins with the first delivery.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Gateway;
use super::Inner;
use super::caller::Caller;
use super::caller::Commitments;
use super::catalog::Served;
use super::catalog::View;
use crate::config::Audit;
use crate::domain::Delivery;
use crate::domain::Digest;
use crate::domain::Endpoint;
use crate::domain::Held;
use crate::domain::Label;
use crate::domain::Listed;
use crate::domain::Method;
use crate::domain::Outcome;
use crate::domain::Page;
use crate::domain::ServePermit;
use crate::domain::SkillKey;
use crate::domain::Source;
use crate::domain::Timestamp;
use crate::store;
use crate::store::NewDelivery;
use crate::store::Store;
use crate::telemetry::chain;

/// How long an answer waits for room on the record, or for its flush under `audit.strict`.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// How long deliveries are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(40);

/// How long deliveries lie open before they are sealed.
const SEAL_AFTER: Duration = Duration::from_secs(1);

/// How long until what could not be written is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How long a question about deliveries waits for those that were accepted before it.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// How long the last deliveries may take to be written when the process ends.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Time between two looks for deliveries that are kept no longer.
const RETIRE_EVERY: Duration = Duration::from_secs(60);

/// Segments that go into the index without a pause for others who want the disk.
const INDEX_AT_ONCE: u64 = 16;

/// Deliveries that are written together.
const BATCH: usize = 4_096;

/// What a host asked, and what came of it.
#[derive(Clone)]
pub struct Asked {
    /// Who.
    pub caller: Caller,
    /// Where.
    pub view: View,
    /// What.
    pub method: Method,
    /// The URI as the host wrote it.
    pub uri: Option<Box<str>>,
    /// What it was about.
    pub about: About,
    /// What came of it.
    pub outcome: Outcome,
}

/// An answer that cannot be recorded, and therefore not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the gateway cannot write its record, and answers nothing without")]
pub struct Unrecorded;

/// What an answer is about, as far as that is known.
#[derive(Clone, Default)]
pub struct About {
    /// The origin.
    pub label: Option<Label>,
    /// The skill.
    pub skill: Option<Arc<SkillKey>>,
    /// The set of it that is served.
    pub served: Option<Arc<Served>>,
    /// The file.
    pub digest: Option<Digest>,
    /// Where the file came from.
    pub source: Option<Source>,
    /// The skills on a page.
    pub page: Option<Vec<Arc<Served>>>,
}

/// How the record of deliveries is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Whether deliveries are recorded.
    pub on: bool,
    /// Whether answers wait until theirs would survive a power cut.
    pub strict: bool,
    /// Deliveries that wait to be written.
    pub waiting: u64,
    /// Why they cannot be written, if so.
    pub problem: Option<String>,
}

/// One accepted answer.
struct Accepted {
    time: Timestamp,
    asked: Asked,
}

/// Accepted answers on their way to the record.
pub(super) struct Deliveries {
    config: Audit,
    /// Held for a look.
    queue: Mutex<Queue>,
    /// Something waits, or the end has begun.
    filled: Notify,
    /// There may be room again.
    room: Notify,
    /// How many are written, and under `strict` flushed.
    done: watch::Sender<u64>,
    /// The task that writes has come to its end.
    ended: Notify,
    problem: Mutex<Option<String>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Accepted>,
    /// Bytes of what waits, and of what is being written.
    bytes: usize,
    /// How many were accepted since the start.
    accepted: u64,
    /// Whether a task writes.
    is_worked_off: bool,
    /// Whether nothing more is accepted.
    is_closed: bool,
}

/// The place of an answer on its way to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    /// How many were accepted with it.
    number: u64,
    /// Whether somebody has to begin to write.
    is_first: bool,
}

/// Why an answer has no place.
enum NoPlace {
    /// There is no room for it.
    Full(Box<Accepted>),
    /// Nothing is accepted any more.
    Closed,
}

impl About {
    /// Something of a skill that is served.
    pub fn of(served: &Arc<Served>) -> Self {
        Self {
            served: Some(Arc::clone(served)),
            ..Self::default()
        }
    }

    /// Something of a skill that is not.
    pub fn held(skill: &Arc<SkillKey>) -> Self {
        Self {
            skill: Some(Arc::clone(skill)),
            ..Self::default()
        }
    }
}

impl Accepted {
    /// Bytes that it takes while it waits.
    fn bytes(&self) -> usize {
        let page = self.asked.about.page.as_ref().map_or(0, Vec::len);
        size_of::<Self>() + self.asked.uri.as_deref().map_or(0, str::len) + page * size_of::<Arc<Served>>()
    }
}

impl Deliveries {
    pub(super) fn new(config: Audit) -> Self {
        Self {
            config,
            queue: Mutex::default(),
            filled: Notify::new(),
            room: Notify::new(),
            done: watch::Sender::new(0),
            ended: Notify::new(),
            problem: Mutex::default(),
        }
    }

    fn place(&self, accepted: Accepted) -> Result<Placed, NoPlace> {
        let bytes = accepted.bytes().min(self.config.queue_bytes);
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Err(NoPlace::Closed);
        }
        if queue.bytes + bytes > self.config.queue_bytes {
            return Err(NoPlace::Full(Box::new(accepted)));
        }
        queue.bytes += bytes;
        queue.accepted += 1;
        let was_empty = queue.waiting.is_empty();
        queue.waiting.push(accepted);
        let placed = Placed {
            number: queue.accepted,
            is_first: !std::mem::replace(&mut queue.is_worked_off, true),
        };
        drop(queue);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(placed)
    }

    /// Takes an answer in as soon as there is room.
    async fn place_in_time(&self, mut accepted: Box<Accepted>) -> Result<Placed, Unrecorded> {
        let placed = async {
            loop {
                let mut room = std::pin::pin!(self.room.notified());
                // Heard from here on, so that no room goes unnoticed between the look and the wait.
                room.as_mut().enable();
                accepted = match self.place(*accepted) {
                    Ok(placed) => return Ok(placed),
                    Err(NoPlace::Closed) => return Err(Unrecorded),
                    Err(NoPlace::Full(accepted)) => accepted,
                };
                room.await;
            }
        };
        tokio::time::timeout(ROOM_WAIT, placed).await.unwrap_or(Err(Unrecorded))
    }

    /// Waits until so many are written.
    async fn until_done(&self, number: u64, wait: Duration) -> bool {
        let mut done = self.done.subscribe();
        let reached = done.wait_for(|done| *done >= number);
        matches!(tokio::time::timeout(wait, reached).await, Ok(Ok(_)))
    }

    /// Waits until there is something to write, or to seal.
    async fn until_due(&self, writing: &Writing) {
        if self.queue.lock().is_closed || writing.has_more() {
            return;
        }
        match writing.open_since {
            None => self.filled.notified().await,
            Some(since) => {
                // Whichever comes first is due.
                let _sealing = tokio::time::timeout_at(since + SEAL_AFTER, self.filled.notified())
                    .await
                    .is_err();
            }
        }
        if !self.config.strict && !self.queue.lock().is_closed {
            tokio::time::sleep(GATHER).await;
        }
    }

    /// What waits, taken out of the queue; its bytes still count.
    fn take(&self, emptied: Vec<Accepted>) -> Vec<Accepted> {
        std::mem::replace(&mut self.queue.lock().waiting, emptied)
    }

    /// Makes room for others.
    fn written(&self, bytes: usize, count: u64) {
        self.queue.lock().bytes -= bytes;
        self.room.notify_waiters();
        self.done.send_modify(|done| *done += count);
    }

    /// Notes that writing goes well, or why it does not; says it once.
    fn note(&self, problem: Option<String>) {
        let mut known = self.problem.lock();
        match &problem {
            Some(why) if *known != problem => tracing::error!(why, "deliveries wait, since they cannot be written"),
            None if known.is_some() => tracing::info!("deliveries are written again"),
            Some(_) | None => {}
        }
        *known = problem;
    }

    pub(super) fn recording(&self) -> Recording {
        let waiting = self.queue.lock().accepted - *self.done.borrow();
        Recording {
            on: self.config.deliveries,
            strict: self.config.strict,
            waiting,
            problem: self.problem.lock().clone(),
        }
    }
}

impl Gateway {
    /// Puts an answer on the record before it leaves.
    ///
    /// # Errors
    ///
    /// [`Unrecorded`]: it may not leave.
    pub async fn record(&self, asked: Asked) -> Result<(), Unrecorded> {
        let deliveries = &self.0.deliveries;
        if !deliveries.config.deliveries {
            return Ok(());
        }
        let accepted = Accepted {
            time: self.0.clock.now(),
            asked,
        };
        let Placed { number, is_first } = match deliveries.place(accepted) {
            Ok(placed) => placed,
            Err(NoPlace::Full(accepted)) => deliveries.place_in_time(accepted).await?,
            Err(NoPlace::Closed) => return Err(Unrecorded),
        };
        if is_first {
            let inner = Arc::clone(&self.0);
            drop(self.0.shutdown.spawn(async move { inner.write_deliveries().await }));
        }
        if deliveries.config.strict && !deliveries.until_done(number, ROOM_WAIT).await {
            return Err(Unrecorded);
        }
        Ok(())
    }

    /// Begins what is done about deliveries beside answers: the index catches up, what is kept no longer leaves.
    pub fn start_keeping_deliveries(&self) {
        let inner = Arc::clone(&self.0);
        drop(self.0.shutdown.spawn(async move {
            tokio::select! {
                () = inner.keep_deliveries() => {}
                () = inner.shutdown.begun() => {}
            }
        }));
    }

    /// Writes and seals what was accepted, and accepts nothing more: the end of the process.
    pub async fn close_deliveries(&self) {
        let deliveries = &self.0.deliveries;
        let is_worked_off = {
            let mut queue = deliveries.queue.lock();
            queue.is_closed = true;
            queue.is_worked_off
        };
        deliveries.filled.notify_one();
        deliveries.room.notify_waiters();
        let ended = tokio::time::timeout(CLOSE_WAIT, deliveries.ended.notified());
        let is_over = !is_worked_off || ended.await.is_ok();
        let Recording { waiting, .. } = deliveries.recording();
        if waiting > 0 || !is_over {
            tracing::error!(waiting, "the last deliveries could not be written");
        }
    }

    /// Waits a moment until what was accepted is written, so that questions are answered with it.
    pub(super) async fn settle_deliveries(&self) {
        let accepted = self.0.deliveries.queue.lock().accepted;
        if !self.0.deliveries.until_done(accepted, SETTLE_WAIT).await {
            tracing::warn!("the last deliveries are not written yet, and missing in an answer about them");
        }
    }
}

impl Inner {
    async fn keep_deliveries(&self) {
        if !self.deliveries.config.deliveries {
            tracing::warn!("audit.deliveries is false: nobody can say who received what");
        }
        while let Ok(put) = self.on_disk(|store| store.index_deliveries(INDEX_AT_ONCE)).await
            && put == INDEX_AT_ONCE
        {}
        let keep = store::Keep {
            age: self.deliveries.config.keep,
            bytes: self.deliveries.config.keep_bytes,
        };
        loop {
            let now = self.clock.now();
            match self.on_disk(move |store| store.retire_deliveries(keep, now)).await {
                Ok(0) => {}
                Ok(segments) => {
                    tracing::info!(segments, "deliveries that are kept no longer were removed");
                    continue;
                }
                Err(error) => tracing::error!(error = %chain(&error), "old deliveries could not be removed"),
            }
            tokio::time::sleep(RETIRE_EVERY).await;
        }
    }

    /// Writes what is accepted, until nothing more is.
    async fn write_deliveries(self: &Arc<Self>) {
        let deliveries = &self.deliveries;
        let mut writing = Writing::default();
        loop {
            deliveries.until_due(&writing).await;
            // Asked before the queue is emptied: once it is closed, nothing comes after.
            let is_last = deliveries.queue.lock().is_closed;
            writing.take_in(deliveries);
            let (inner, now) = (Arc::clone(self), self.clock.now());
            let turn = tokio::task::spawn_blocking(move || {
                let outcome = writing.turn(&inner.store, &inner.deliveries, is_last, now);
                (writing, outcome)
            });
            let outcome;
            (writing, outcome) = match turn.await {
                Ok(done) => done,
                Err(error) => {
                    // Nothing is accepted that nobody would write.
                    deliveries.queue.lock().is_closed = true;
                    tracing::error!(%error, "deliveries are written no more");
                    break;
                }
            };
            deliveries.note(outcome.as_ref().err().map(|error| chain(error)));
            if is_last {
                break;
            }
            if outcome.is_err() {
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
        deliveries.ended.notify_one();
    }
}

/// What the one who writes has in hand.
#[derive(Default)]
struct Writing {
    accepted: VecDeque<Accepted>,
    /// Ready to be written, with the bytes that they took in the queue.
    ready: VecDeque<NewDelivery>,
    bytes: VecDeque<usize>,
    commitments: Commitments,
    page: Option<(Vec<Arc<Served>>, Arc<Page>)>,
    /// When the first delivery was written that is not sealed.
    open_since: Option<Instant>,
    /// Kept for its room.
    emptied: Vec<Accepted>,
}

impl Writing {
    /// Says whether some of what was taken in is not written.
    fn has_more(&self) -> bool {
        !self.accepted.is_empty() || !self.ready.is_empty()
    }

    fn take_in(&mut self, deliveries: &Deliveries) {
        let mut taken = deliveries.take(std::mem::take(&mut self.emptied));
        self.accepted.extend(taken.drain(..));
        self.emptied = taken;
    }

    /// Writes what is in hand, and seals when it is time or nothing more comes.
    fn turn(
        &mut self,
        store: &Store,
        deliveries: &Deliveries,
        is_last: bool,
        now: Timestamp,
    ) -> Result<(), store::Error> {
        self.commitments.forget();
        while self.has_more() {
            self.make_ready(store, deliveries.config.queue_bytes)?;
            let written = store.write_deliveries(&mut self.ready, now);
            let count = self.bytes.len() - self.ready.len();
            if count > 0 {
                self.open_since.get_or_insert_with(Instant::now);
            }
            if count > 0 && deliveries.config.strict {
                store.flush_deliveries()?;
            }
            deliveries.written(self.bytes.drain(..count).sum(), count as u64);
            written?;
        }
        if self
            .open_since
            .is_some_and(|since| is_last || since.elapsed() >= SEAL_AFTER)
        {
            store.seal_deliveries(now)?;
            self.open_since = None;
        }
        Ok(())
    }

    /// Makes deliveries of the next answers.
    fn make_ready(&mut self, store: &Store, most: usize) -> Result<(), store::Error> {
        while self.ready.len() < BATCH
            && let Some(accepted) = self.accepted.pop_front()
        {
            let caller = match self.commitments.of(store, &accepted.asked.caller) {
                Ok(caller) => caller,
                Err(error) => {
                    self.accepted.push_front(accepted);
                    return Err(error);
                }
            };
            self.bytes.push_back(accepted.bytes().min(most));
            let Accepted { time, mut asked } = accepted;
            let page = asked.about.page.take().map(|page| self.page_of(page));
            let mut delivery = delivery_of(time, caller, asked);
            delivery.page = page.as_ref().map(|page| page.page);
            self.ready.push_back(NewDelivery { delivery, page });
        }
        Ok(())
    }

    /// The page with these skills; mostly it is the last one again.
    fn page_of(&mut self, skills: Vec<Arc<Served>>) -> Arc<Page> {
        if let Some((last, page)) = &self.page
            && last.len() == skills.len()
            && last.iter().zip(&skills).all(|(last, now)| Arc::ptr_eq(last, now))
        {
            return Arc::clone(page);
        }
        let listed = skills.iter().map(|served| Listed {
            skill: SkillKey::clone(served.key()),
            set: served.permit().entry().set(),
        });
        let page = Arc::new(Page::new(listed.collect()));
        self.page = Some((skills, Arc::clone(&page)));
        page
    }
}

fn delivery_of(time: Timestamp, caller: String, asked: Asked) -> Delivery {
    let About {
        label,
        skill,
        served,
        digest,
        source,
        page: _,
    } = asked.about;
    let served = served.as_deref();
    let permit = served.map(Served::permit);
    let skill = served.map(|served| served.key().as_ref()).or(skill.as_deref());
    Delivery {
        time,
        caller,
        endpoint: Endpoint(match asked.view {
            View::Merged => None,
            View::Origin(label) => Some(label),
        }),
        method: asked.method,
        label: label.or_else(|| skill.map(|skill| skill.label.clone())),
        uri: asked.uri.map(String::from),
        skill: skill.map(|skill| skill.uri.clone()),
        digest,
        set: permit.map(|permit| permit.entry().set()),
        approval: permit.and_then(|permit| Some(permit.approval()?.leaf)),
        page: None,
        outcome: asked.outcome,
        source,
        would: permit.and_then(ServePermit::would_hold).and_then(Held::state),
    }
}

#[cfg(test)]
mod tests;
