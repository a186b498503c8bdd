//! What happens because time passes: approvals end, trials begin and end, rules look again.
//!
//! One task does it. It sleeps until the next known end, at most [`LOOK_AGAIN`], or until somebody says that there is
//! something to look at. What could not be recorded is tried again at the next look; what closes is in force meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::By;
use super::Error;
use super::Gateway;
use super::Inner;
use super::Ledger;
use super::catalog::Catalog;
use super::status::TrialStatus;
use crate::domain::Label;
use crate::domain::Timestamp;
use crate::domain::audit::Event;
use crate::telemetry::chain;

/// The longest sleep: the machine's clock may be set, and what could not be recorded is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The shortest sleep, so that many who say the same are heard once.
const BREATH: Duration = Duration::from_millis(100);

/// How often the log says that a trial lasts.
const REMIND: Duration = Duration::from_secs(24 * 60 * 60);

/// What is to be looked at in its time.
#[derive(Default)]
pub(super) struct Timely {
    /// When rules have to be asked about an origin; held to add one or to take some.
    rules: Mutex<BTreeMap<Label, Timestamp>>,
    /// Whether an end came to be known that may be the next.
    is_new_end: AtomicBool,
    woken: Notify,
    /// The trials that last; held for a look.
    trials: Mutex<BTreeMap<Label, Lasting>>,
}

/// A trial that lasts.
#[derive(Clone, Copy)]
struct Lasting {
    until: Timestamp,
    /// When the log said so last.
    said: Timestamp,
}

impl Timely {
    /// The trials that last at `now`, with what they let through.
    pub(super) fn trials(&self, catalog: &Catalog, now: Timestamp) -> Vec<TrialStatus> {
        let skills = |label| {
            let part = catalog.origin(label).into_iter();
            let served = part
                .flat_map(|part| part.decided())
                .filter_map(|skill| skill.served(now).ok());
            served.filter(|served| served.permit().would_hold().is_some()).count()
        };
        let trials = self.trials.lock().clone();
        let lasting = trials.iter().filter(|(_, trial)| now < trial.until);
        lasting
            .map(|(label, trial)| TrialStatus {
                label: label.clone(),
                until: trial.until,
                skills: skills(label),
            })
            .collect()
    }

    /// Keeps that a trial lasts until `until`, or does not; says so loudly at first and then once a day.
    fn note_trial(&self, label: &Label, until: Option<Timestamp>, now: Timestamp) {
        let mut trials = self.trials.lock();
        let Some(until) = until else {
            if trials.remove(label).is_some() {
                tracing::warn!(%label, "the trial is over: what no approval covers is held from now on");
            }
            return;
        };
        let before = trials.get(label).copied();
        let is_known = before.is_some_and(|trial| trial.until == until && now.since(trial.said) < REMIND);
        if !is_known {
            tracing::warn!(%label, %until, "a trial lasts (observe): skills are served that nobody approved");
        }
        let said = before.filter(|_| is_known).map_or(now, |trial| trial.said);
        trials.insert(label.clone(), Lasting { until, said });
    }
}

impl Gateway {
    /// Begins the task that does what happens because time passes.
    pub fn start_timely(&self) {
        let inner = Arc::clone(&self.0);
        drop(self.0.shutdown.spawn(async move {
            for label in inner.origins.keys() {
                inner.look_soon(label);
            }
            let mut next = inner.clock.now();
            loop {
                let is_new = inner.timely.is_new_end.swap(false, Ordering::SeqCst);
                if is_new || next <= inner.clock.now() {
                    let wait = inner.keep_time().await.min(LOOK_AGAIN);
                    next = inner.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
                }
                let wait = inner.ask_rules().await.min(next.since(inner.clock.now()));
                tokio::select! {
                    () = tokio::time::sleep(BREATH) => {}
                    () = inner.shutdown.begun() => return,
                }
                tokio::select! {
                    () = tokio::time::sleep(wait.min(LOOK_AGAIN)) => {}
                    () = inner.timely.woken.notified() => {}
                    () = inner.shutdown.begun() => return,
                }
            }
        }));
    }
}

impl Inner {
    /// Says that something may have changed for an origin that rules look at.
    pub(super) fn look_soon(&self, label: &Label) {
        if self.policies.may_approve(label) {
            self.look_at_time(label, Timestamp::from_millis(0));
            self.timely.woken.notify_one();
        }
    }

    /// Says that rules have to be asked about an origin at that time, if not before.
    pub(super) fn look_at_time(&self, label: &Label, time: Timestamp) {
        let mut rules = self.timely.rules.lock();
        let known = rules.entry(label.clone()).or_insert(time);
        *known = time.min(*known);
    }

    /// Says that an approval was given that may end soon.
    pub(super) fn note_end(&self) {
        self.timely.is_new_end.store(true, Ordering::SeqCst);
        self.timely.woken.notify_one();
    }

    /// Asks rules about the origins whose time has come. Gives how long there is no other.
    async fn ask_rules(&self) -> Duration {
        let now = self.clock.now();
        let due = |time: &Timestamp| *time <= now;
        let labels: Vec<Label> = {
            let mut rules = self.timely.rules.lock();
            let labels = rules.iter().filter(|(_, time)| due(time));
            let labels = labels.map(|(label, _)| label.clone()).collect();
            rules.retain(|_, time| !due(time));
            labels
        };
        for label in labels {
            let wait = match self.ask_rules_about(&label).await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!(%label, error = %chain(&error), "what rules approve is not on the record, nor in force");
                    Some(LOOK_AGAIN)
                }
            };
            if let Some(time) = wait.and_then(|wait| self.clock.now().checked_add(wait)) {
                self.look_at_time(&label, time);
            }
        }
        let now = self.clock.now();
        let next = self.timely.rules.lock().values().min().copied();
        next.map_or(LOOK_AGAIN, |time| time.since(now))
    }

    /// Ends what is over, begins trials, and tells the record of the configuration. Gives how long nothing else ends.
    pub(super) async fn keep_time(&self) -> Duration {
        let now = self.clock.now();
        let mut is_done = self.tell_configuration().await.is_ok();
        let known: Vec<Label> = {
            let ledger = self.ledger.lock().await;
            ledger.record.origins().map(|(label, _)| label.clone()).collect()
        };
        for label in known {
            is_done &= told(&label, self.end_approvals(&label, now).await);
        }
        for label in self.origins.keys() {
            is_done &= told(label, self.keep_trial(label).await);
        }
        if !is_done {
            tracing::warn!(
                "what time brought is in force as far as it closes, and not all on the record; tried again soon"
            );
            return LOOK_AGAIN;
        }
        let next = self.ledger.lock().await.record.next_end(now);
        next.map_or(LOOK_AGAIN, |end| end.since(self.clock.now()))
    }

    async fn tell_configuration(&self) -> Result<(), Error> {
        let mut ledger = self.ledger.lock().await;
        let event = ledger.record.reconfigure(&self.tables);
        self.append(&mut ledger, &By::gateway(), event.into_iter().collect())
            .await
    }

    /// Holds each skill of an origin whose approval has ended by itself: from now on, also when clocks are set back.
    async fn end_approvals(&self, label: &Label, now: Timestamp) -> Result<(), Error> {
        let ended = |ledger: &Ledger| {
            let origin = ledger.record.origin(label).into_iter();
            let ended = origin.flat_map(|origin| origin.ended(label, now));
            // What is in force already is recorded when there is room.
            let is_new = |event: &Event| event.skill().is_none_or(|key| !ledger.closed.contains_key(key));
            ended.filter(is_new).collect::<Vec<_>>()
        };
        if ended(&*self.ledger.lock().await).is_empty() {
            return Ok(());
        }
        let _turn = self.turns.of_origin(label).await;
        let events = ended(&*self.ledger.lock().await);
        self.close(&By::gateway(), label, events).await
    }

    /// Begins and ends an origin's trial as the configuration and the time say.
    async fn keep_trial(&self, label: &Label) -> Result<(), Error> {
        let observe = self.policies.trial_of(label);
        let now = self.clock.now();
        let change = |ledger: &Ledger| ledger.record.configure_trial(label, observe, now);
        // Named first: what an `if let` looks at stays locked to its end.
        let event = change(&*self.ledger.lock().await);
        if let Some(event) = event {
            if matches!(event, Event::TrialBegan { .. }) {
                self.witnessed().await?;
            }
            let _turn = self.turns.of_origin(label).await;
            let mut ledger = self.ledger.lock().await;
            let events = change(&ledger).into_iter().collect();
            let recorded = self.append_at(&mut ledger, &By::gateway(), events, now).await;
            self.publish(&mut ledger, label);
            recorded?;
        }
        let ledger = self.ledger.lock().await;
        let trial = ledger.record.origin(label).and_then(|origin| origin.trial());
        let until = trial.filter(|_| observe.is_some()).and_then(|trial| trial.lasts(now));
        self.timely.note_trial(label, until, now);
        Ok(())
    }
}

/// Whether it went well; else the log says what did not.
fn told(label: &Label, outcome: Result<(), Error>) -> bool {
    outcome
        .inspect_err(|error| tracing::error!(%label, error = %chain(error), "what time brought is not on the record"))
        .is_ok()
}
