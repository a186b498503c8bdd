//! Stopping something everywhere with one command: a file by its digest, a skill, or all skills of an origin.
//!
//! What closes is in force before it is recorded. What could not be recorded for want of room is recorded when there is
//! room again; until then it stays in force in this process, and the answer says so (design §2.8).

use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use super::By;
use super::DeliveryQuery;
use super::Error;
use super::Gateway;
use super::Inner;
use super::Receiver;
use super::ledger::Ledger;
use super::ledger::closing;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::SkillRecord;
use crate::domain::Verdict;
use crate::domain::audit::Event;
use crate::store;
use crate::store::SegmentFault;
use crate::telemetry::chain;

/// How often what had no room is tried again.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// What is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recall {
    /// A file, in whatever skill it is or comes to be.
    Digest(Digest),
    /// A skill, with every set that was approved or is seen now.
    Skill(SkillKey),
    /// Every skill of an origin.
    Origin(Label),
}

impl Recall {
    /// The deliveries of it.
    fn query(&self) -> DeliveryQuery {
        let mut query = DeliveryQuery::default();
        match self {
            Self::Digest(digest) => query.digest = Some(*digest),
            Self::Skill(skill) => query.skill = Some(skill.clone()),
            Self::Origin(label) => query.origin = Some(label.clone()),
        }
        query
    }
}

/// What a recall closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalled {
    /// What was recalled.
    pub what: Recall,
    /// The sets that are not served any more, or not to be.
    pub closed: Vec<ClosedSet>,
    /// Who received it before, whoever did first before the others.
    pub received: Vec<Receiver>,
    /// What cannot be read of the record of deliveries: somebody may be missing above.
    pub damaged: Vec<SegmentFault>,
}

/// One set that a recall closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedSet {
    /// Whose.
    #[serde(flatten)]
    pub skill: SkillKey,
    /// Which.
    pub set: SetId,
}

/// Closing decisions that are in force and wait for room in the log.
#[derive(Debug, Default)]
pub(super) struct WaitingForRoom {
    decisions: VecDeque<(By, Vec<Event>)>,
    /// How many there are, for who must not wait for the ledger.
    count: Arc<AtomicUsize>,
}

impl WaitingForRoom {
    /// Counts with `count`.
    pub(super) fn counted(count: Arc<AtomicUsize>) -> Self {
        Self {
            decisions: VecDeque::new(),
            count,
        }
    }

    fn first(&self) -> Option<(By, Vec<Event>)> {
        self.decisions.front().cloned()
    }

    fn push(&mut self, by: &By, events: Vec<Event>) {
        self.decisions.push_back((by.clone(), events));
        self.count.store(self.decisions.len(), Ordering::SeqCst);
    }

    fn pop(&mut self) {
        self.decisions.pop_front();
        self.count.store(self.decisions.len(), Ordering::SeqCst);
    }

    fn closes(&self, key: &SkillKey) -> bool {
        let waiting = self.decisions.iter().flat_map(|(_, events)| closing(events));
        waiting.into_iter().any(|(other, _)| other == *key)
    }
}

impl Gateway {
    /// Stops something everywhere. In force at once, acknowledged when durable.
    ///
    /// # Errors
    ///
    /// [`Error::NoOrigin`], [`Error::NoSkill`] where nothing of the kind is known; [`Error::NotRecorded`] when it is in force
    /// and could not be recorded.
    pub async fn recall(&self, by: &By, what: Recall) -> Result<Recalled, Error> {
        let inner = &self.0;
        let labels = inner.labels_of(&what).await?;
        let mut turns = Vec::with_capacity(labels.len());
        for label in &labels {
            turns.push(inner.turns.of_origin(label).await);
        }
        let events = inner.recall_events(&what).await?;
        let closed = events.iter().filter_map(closed_set).collect();
        inner.close_all(by, events).await?;
        // Nobody receives it any more, so that everybody who did is found now.
        let (received, looked) = self.who_received(&what.query()).await?;
        Ok(Recalled {
            what,
            closed,
            received,
            damaged: looked.damaged,
        })
    }

    /// Lets a recalled file be served again where approvals allow it. Says whether it had been recalled.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be recorded, and then nothing changes.
    pub async fn lift_recall(&self, by: &By, digest: Digest) -> Result<bool, Error> {
        let inner = &self.0;
        let labels = inner.labels_of(&Recall::Digest(digest)).await?;
        let mut turns = Vec::with_capacity(labels.len());
        for label in &labels {
            turns.push(inner.turns.of_origin(label).await);
        }
        let mut ledger = inner.ledger.lock().await;
        if !ledger.record.is_recalled(digest) {
            return Ok(false);
        }
        inner
            .append(&mut ledger, by, vec![Event::RecallLifted { digest }])
            .await?;
        for label in &labels {
            inner.publish(&mut ledger, label);
        }
        Ok(true)
    }

    /// Begins the task that records closing decisions when there is room again.
    pub fn start_recording(&self) {
        let inner = Arc::clone(&self.0);
        drop(self.0.shutdown.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(BETWEEN_TRIES) => {}
                    () = inner.shutdown.begun() => return,
                }
                inner.record_what_waits().await;
            }
        }));
    }
}

impl Inner {
    /// The origins that a recall may concern, in the order in which their turns are taken.
    async fn labels_of(&self, what: &Recall) -> Result<Vec<Label>, Error> {
        let ledger = self.ledger.lock().await;
        match what {
            Recall::Digest(_) => Ok(ledger.record.origins().map(|(label, _)| label.clone()).collect()),
            Recall::Skill(key) => {
                let origin = ledger.record.origin(&key.label);
                let skill = origin.and_then(|origin| origin.skill(&key.uri));
                skill.ok_or_else(|| Error::NoSkill(key.clone()))?;
                Ok(vec![key.label.clone()])
            }
            Recall::Origin(label) => {
                ledger
                    .record
                    .origin(label)
                    .ok_or_else(|| Error::NoOrigin(label.clone()))?;
                Ok(vec![label.clone()])
            }
        }
    }

    /// The leaves of a recall.
    async fn recall_events(&self, what: &Recall) -> Result<Vec<Event>, Error> {
        let mut ledger = self.ledger.lock().await;
        let mut events = Vec::new();
        if let Recall::Digest(digest) = what
            && !ledger.record.is_recalled(*digest)
        {
            events.push(Event::Recalled { digest: *digest });
        }
        for (key, set, event) in candidates(&ledger, what) {
            let concerned = match what {
                Recall::Skill(_) | Recall::Origin(_) => true,
                Recall::Digest(digest) => {
                    let entry = ledger.entry(&self.store, &key, set);
                    entry.is_some_and(|entry| entry.resources().iter().any(|file| file.digest == *digest))
                }
            };
            if concerned {
                events.push(event);
            }
        }
        Ok(events)
    }

    /// What closes, all at once: in force, then on the record. The caller has the turns of the origins that it is about.
    async fn close_all(&self, by: &By, events: Vec<Event>) -> Result<(), Error> {
        let mut ledger = self.ledger.lock().await;
        let closes = closing(&events);
        let labels: BTreeSet<_> = closes.iter().map(|(key, _)| key.label.clone()).collect();
        ledger.closed.extend(closes.iter().cloned());
        for label in &labels {
            self.publish(&mut ledger, label);
        }
        if let Err(error) = self.append(&mut ledger, by, events.clone()).await {
            ledger.wait_for_room(by, events, &error);
            return Err(Error::NotRecorded(Box::new(error)));
        }
        for (key, _) in closes {
            ledger.closed.remove(&key);
        }
        for label in &labels {
            self.publish(&mut ledger, label);
        }
        Ok(())
    }

    /// Records closing decisions that had no room, the oldest first.
    async fn record_what_waits(&self) {
        let mut ledger = self.ledger.lock().await;
        while let Some((by, events)) = ledger.unrecorded.first() {
            let closes = closing(&events);
            match self.append(&mut ledger, &by, events).await {
                Ok(()) => tracing::info!("a closing decision that had no room is on the record now"),
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "closing decisions are in force and not on the record");
                    return;
                }
            }
            ledger.unrecorded.pop();
            for (key, _) in closes {
                if !ledger.unrecorded.closes(&key) {
                    ledger.closed.remove(&key);
                }
                self.publish(&mut ledger, &key.label);
            }
        }
    }
}

impl Ledger {
    /// Keeps what could not be recorded for want of room. After any other failure nothing is written any more.
    pub(super) fn wait_for_room(&mut self, by: &By, events: Vec<Event>, error: &Error) {
        if matches!(error, Error::Store(store::Error::NoSpace { .. })) && !events.is_empty() {
            self.unrecorded.push(by, events);
        }
    }
}

/// Every set that a recall may close: those that are approved, and the one seen last unless it is closed already.
fn candidates(ledger: &Ledger, what: &Recall) -> Vec<(SkillKey, SetId, Event)> {
    let concerns = |key: &SkillKey| match what {
        Recall::Digest(_) => true,
        Recall::Skill(skill) => key == skill,
        Recall::Origin(label) => key.label == *label,
    };
    let mut found = Vec::new();
    for (label, origin) in ledger.record.origins() {
        for (uri, record) in origin.skills() {
            let key = SkillKey {
                label: label.clone(),
                uri: uri.clone(),
            };
            if concerns(&key) {
                found.extend(closable(&key, record));
            }
        }
    }
    found
}

fn closable(key: &SkillKey, record: &SkillRecord) -> Vec<(SkillKey, SetId, Event)> {
    let revoked = record.approved().map(|(set, _)| {
        let skill = key.clone();
        (key.clone(), set, Event::Revoked { skill, set })
    });
    let seen = record.seen().filter(|seen| match record.verdict(*seen) {
        Some(Verdict::Undecided | Verdict::Expired | Verdict::Changed) | None => true,
        Some(Verdict::Approved(_) | Verdict::Denied | Verdict::Revoked) => false,
    });
    let denied = seen.map(|set| {
        let skill = key.clone();
        (key.clone(), set, Event::Denied { skill, set })
    });
    revoked.chain(denied).collect()
}

fn closed_set(event: &Event) -> Option<ClosedSet> {
    if let Event::Revoked { skill, set } | Event::Denied { skill, set } = event {
        Some(ClosedSet {
            skill: skill.clone(),
            set: *set,
        })
    } else {
        None
    }
}
