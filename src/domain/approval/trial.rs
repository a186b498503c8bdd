//! Trials: for a time, what merely waits is served too, and the record says what would have been held (`observe`).

use std::time::Duration;

use crate::domain::audit::Event;
use crate::domain::label::Label;
use crate::domain::time::Timestamp;

/// The trial of one origin, of which it has one until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    began: Timestamp,
    until: Timestamp,
    ended: bool,
}

impl Trial {
    /// What the leaf about a trial's beginning, or its other end, makes of the trial there was.
    pub(super) fn begin(before: Option<Self>, now: Timestamp, until: Timestamp) -> Self {
        Self {
            began: before.map_or(now, |trial| trial.began),
            until,
            ended: false,
        }
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// When it ends, if it lasts at `now`. One that was over stays so when clocks are set back.
    pub fn lasts(&self, now: Timestamp) -> Option<Timestamp> {
        (!self.ended && now < self.until).then_some(self.until)
    }

    /// When it ends or ended.
    pub fn until(&self) -> Timestamp {
        self.until
    }
}

/// The leaf to write when the configuration says that the trial of `label` lasts for `observe`, if any. It counts from the
/// first beginning; a trial that is over begins again only with another length.
pub(super) fn configure(
    label: &Label,
    trial: Option<Trial>,
    observe: Option<Duration>,
    now: Timestamp,
) -> Option<Event> {
    let end = |began: Timestamp, span| began.checked_add(span).unwrap_or(Timestamp::MAX);
    let begin = |until| Event::TrialBegan {
        label: label.clone(),
        until,
    };
    let over = || Event::TrialEnded { label: label.clone() };
    match (trial, observe) {
        (None, None) => None,
        (None, Some(span)) => Some(begin(end(now, span))),
        (Some(trial), None) => (!trial.ended).then(over),
        (Some(trial), Some(span)) => {
            let until = end(trial.began, span);
            if until != trial.until && now < until {
                return Some(begin(until));
            }
            (!trial.ended && until.min(trial.until) <= now).then(over)
        }
    }
}
