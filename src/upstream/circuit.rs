//! Whether an origin is worth asking: back-off with jitter, and an answer at once while it is known to be down.

use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng as _;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Error;

/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait between two probes.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// The refresher or an operator: asked also when the origin is down, since somebody has to find it back.
    Probe,
    /// A host's request: never waits for an origin that is known to be down.
    Ordinary,
}

/// Closed while the origin answers. Opened by a failure of the connection; closed by the next answer.
#[derive(Default)]
pub(super) struct Circuit {
    /// Held for a few instructions, never across an await.
    open: Mutex<Option<Outage>>,
    opened: Notify,
}

struct Outage {
    last: String,
    failures: u32,
    probe_at: Instant,
}

impl Circuit {
    /// Lets a request pass, or answers for the origin.
    pub(super) fn admit(&self, attempt: Attempt) -> Result<(), Error> {
        match (&*self.open.lock(), attempt) {
            (Some(outage), Attempt::Ordinary) => Err(Error::Down {
                last: outage.last.clone(),
            }),
            (Some(_), Attempt::Probe) | (None, _) => Ok(()),
        }
    }

    /// The origin failed.
    pub(super) fn open(&self, error: &Error) {
        let mut open = self.open.lock();
        let failures = open.as_ref().map_or(0, |outage| outage.failures).saturating_add(1);
        *open = Some(Outage {
            last: error.to_string(),
            failures,
            probe_at: Instant::now() + wait(failures),
        });
        drop(open);
        self.opened.notify_waiters();
    }

    /// The origin answered.
    pub(super) fn close(&self) {
        *self.open.lock() = None;
    }

    /// Waits for the next failure.
    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// The time until the next probe is due, when the origin is down.
    pub(super) fn retry_in(&self) -> Option<Duration> {
        self.open
            .lock()
            .as_ref()
            .map(|outage| outage.probe_at.saturating_duration_since(Instant::now()))
    }
}

/// Doubles with each failure up to [`LONGEST_WAIT`], then varies by a fifth either way so that gateways do not march.
fn wait(failures: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(LONGEST_WAIT).mul_f64(rand::rng().random_range(0.8..1.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hosts_are_answered_at_once_while_the_origin_is_down() {
        let circuit = Circuit::default();
        assert_eq!(circuit.admit(Attempt::Ordinary), Ok(()));
        circuit.open(&Error::Unreachable("connection refused".to_owned()));
        let down = Error::Down {
            last: "it cannot be reached: connection refused".to_owned(),
        };
        assert_eq!(circuit.admit(Attempt::Ordinary), Err(down.clone()));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(
            circuit.admit(Attempt::Ordinary),
            Err(down),
            "only a probe finds it back"
        );
        assert_eq!(circuit.admit(Attempt::Probe), Ok(()));
        circuit.close();
        assert_eq!(circuit.admit(Attempt::Ordinary), Ok(()));
    }

    #[test]
    fn waits_double_to_a_minute_and_vary_by_a_fifth() {
        for (failures, seconds) in [(1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (u32::MAX, 60.0)] {
            let wait = wait(failures).as_secs_f64();
            assert!(
                (seconds * 0.8..seconds * 1.2).contains(&wait),
                "{failures} failures wait {wait} s"
            );
        }
    }
}
