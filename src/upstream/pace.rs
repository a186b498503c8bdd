//! How soon a stream that ended is opened again: at once after it lasted, ever later where it does not (cases B4, D5).

use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng as _;
use tokio::time::Instant;

/// A stream that lasted so long is taken for one that works.
const LASTING: Duration = Duration::from_secs(60);

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// When a stream was opened last, and how often in a row it did not last. Held for a look.
#[derive(Default)]
pub(super) struct Pace(Mutex<Option<(Instant, u32)>>);

impl Pace {
    /// Waits until the stream may be opened, the first time not at all.
    pub(super) async fn wait(&self) {
        let wait = self.next(Instant::now());
        tokio::time::sleep(wait).await;
    }

    /// Takes the last stream for one that was meant to end.
    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }

    fn next(&self, now: Instant) -> Duration {
        let mut last = self.0.lock();
        let failures = match *last {
            None => 0,
            Some((opened, _)) if now.saturating_duration_since(opened) >= LASTING => 1,
            Some((_, failures)) => failures.saturating_add(1),
        };
        let doubled = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
        let wait = if failures == 0 {
            Duration::ZERO
        } else {
            doubled.min(LONGEST).mul_f64(rand::rng().random_range(0.8..1.2))
        };
        *last = Some((now + wait, failures));
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_while_streams_do_not_last_and_begin_anew_after_one_that_did() {
        let pace = Pace::default();
        let mut now = Instant::now();
        assert_eq!(pace.next(now), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = pace.next(now);
            waits.push(wait.as_secs_f64());
            now += wait;
        }
        assert!(
            (0.8..1.2).contains(&waits[0]) && (48.0..72.0).contains(&waits[7]),
            "{waits:?}"
        );
        now += LASTING;
        assert!(pace.next(now).as_secs_f64() < 1.2);
    }
}
