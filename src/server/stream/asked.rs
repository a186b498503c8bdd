//! What a host asked over a stream and has no answer to yet. No id stands here twice.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::sdk::Outgoing;
use crate::server::lane::Id;
use crate::server::lane::Refusal;

/// The requests under way.
#[derive(Default)]
pub(super) struct Asked {
    /// Held for a look.
    state: Mutex<State>,
    /// One fewer is under way.
    answered: Notify,
    /// Whether the handshake agreed on the revision that has arrays of messages.
    has_batches: AtomicBool,
}

#[derive(Default)]
struct State {
    under_way: HashMap<Id, One>,
    /// Answers that are there and have not found room in the queue yet.
    leaving: usize,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnsweredBy {
    /// The lane.
    Lane,
    /// The SDK, after a handshake.
    Legacy,
    /// The SDK, from the request alone.
    Modern,
}

/// One request.
struct One {
    /// Given back once the answer is written.
    place: OwnedSemaphorePermit,
    cancelled: CancellationToken,
    by: AnsweredBy,
    /// Whether it has no end of its own.
    is_endless: bool,
}

impl Asked {
    /// Takes a request in, with the place that there is for it; what is given back is cancelled with it.
    pub(super) fn begin(
        &self,
        id: &Id,
        place: &mut Option<OwnedSemaphorePermit>,
        is_endless: bool,
    ) -> Result<CancellationToken, Refusal> {
        let mut state = self.state.lock();
        if state.under_way.contains_key(id) {
            return Err(Refusal::Invalid(
                "a request with the same id is under way on this connection",
            ));
        }
        let place = place.take().ok_or(Refusal::Unrecorded)?;
        let cancelled = CancellationToken::new();
        let one = One {
            place,
            cancelled: cancelled.clone(),
            by: AnsweredBy::Lane,
            is_endless,
        };
        state.under_way.insert(id.clone(), one);
        Ok(cancelled)
    }

    /// Notes that the SDK answers a request.
    pub(super) fn pass(&self, id: &Id, is_modern: bool) {
        if let Some(one) = self.state.lock().under_way.get_mut(id) {
            one.by = AnsweredBy::by_sdk(is_modern);
        }
    }

    /// Answers a request, unless it was cancelled.
    pub(super) async fn answer(&self, id: &Id, pieces: Vec<Bytes>, queue: &mpsc::Sender<Outgoing>) {
        let one = {
            let mut state = self.state.lock();
            let Some(one) = state.under_way.remove(id) else {
                return;
            };
            state.leaving += 1;
            one
        };
        let place = Some(one.place);
        // Whoever would write it has gone with the connection.
        drop(queue.send(Outgoing::Message { pieces, place }).await);
        self.state.lock().leaving -= 1;
        self.answered.notify_waiters();
    }

    /// Forgets a request that is not to be answered any more, and says who would have.
    pub(super) fn cancel(&self, id: &Id) -> Option<AnsweredBy> {
        let one = self.state.lock().under_way.remove(id)?;
        one.cancelled.cancel();
        self.answered.notify_waiters();
        Some(one.by)
    }

    /// Forgets all requests.
    pub(super) fn cancel_all(&self) {
        let all = std::mem::take(&mut self.state.lock().under_way);
        all.into_values().for_each(|one| one.cancelled.cancel());
        self.answered.notify_waiters();
    }

    /// The requests that the SDK has not answered.
    pub(super) fn left_by_sdk(&self, is_modern: bool) -> Vec<Id> {
        let by = AnsweredBy::by_sdk(is_modern);
        let state = self.state.lock();
        let left = state.under_way.iter().filter(|(_, one)| one.by == by);
        left.map(|(id, _)| id.clone()).collect()
    }

    /// Waits until every request is answered that has an end of its own.
    pub(super) async fn until_answered(&self) {
        self.until(|state| state.under_way.values().all(|one| one.is_endless))
            .await;
    }

    /// Waits until every request is answered.
    pub(super) async fn until_empty(&self) {
        self.until(|state| state.under_way.is_empty()).await;
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        loop {
            let mut answered = std::pin::pin!(self.answered.notified());
            // Heard from here on, so that no answer goes unnoticed between the look and the wait.
            answered.as_mut().enable();
            {
                let state = self.state.lock();
                if state.leaving == 0 && holds(&state) {
                    return;
                }
            }
            answered.await;
        }
    }

    /// Notes what the handshake agreed on.
    pub(super) fn agree_on_batches(&self, has_batches: bool) {
        self.has_batches.store(has_batches, Ordering::Relaxed);
    }

    /// Whether the handshake agreed on the revision that has arrays of messages.
    pub(super) fn has_batches(&self) -> bool {
        self.has_batches.load(Ordering::Relaxed)
    }
}

impl AnsweredBy {
    fn by_sdk(is_modern: bool) -> Self {
        if is_modern { Self::Modern } else { Self::Legacy }
    }
}
