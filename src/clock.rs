//! What time it is.
//!
//! The only reader of the time of day; whoever needs it is handed a [`Clock`]. Imports `domain` for [`Timestamp`].
//! Waiting and measuring are tokio's (`tokio::time`), since they ask for no date.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;

use crate::domain::Timestamp;

/// Tells the time. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock(Source);

/// Where a clock has its time from.
#[derive(Clone, Debug)]
enum Source {
    /// The machine's clock, which may be set back.
    System,
    /// Milliseconds since 1970, set by hand.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until it is set: for tests.
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicU64::new(start.as_millis()))))
    }

    /// The present moment; the beginning of 1970 when the machine's clock stands before it.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => system_now(),
            Source::Manual(millis) => Timestamp::from_millis(millis.load(Ordering::SeqCst)),
        }
    }

    /// Sets a manual clock, forwards or back, for all its clones. The machine's clock stays as it is.
    pub fn set(&self, now: Timestamp) {
        match &self.0 {
            Source::System => {}
            Source::Manual(millis) => millis.store(now.as_millis(), Ordering::SeqCst),
        }
    }

    /// Sets a manual clock `span` forwards, at most to the last moment there is.
    pub fn advance(&self, span: Duration) {
        self.set(self.now().checked_add(span).unwrap_or(Timestamp::MAX));
    }
}

/// Reads the machine's clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the time")]
fn system_now() -> Timestamp {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_knows_that_this_was_written_in_the_past() {
        let written = Timestamp::from_millis(1_760_000_000_000);
        assert!(Clock::system().now() > written);
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand_and_for_all_its_clones() {
        let clock = Clock::manual(Timestamp::from_millis(5_000));
        let clone = clock.clone();
        assert_eq!(clone.now(), clock.now());
        clock.advance(Duration::from_secs(2));
        assert_eq!(clone.now(), Timestamp::from_millis(7_000));
        clone.set(Timestamp::from_millis(1));
        assert_eq!(clock.now(), Timestamp::from_millis(1));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
    }
}
