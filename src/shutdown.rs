//! How the process ends: stop accepting, drain within a deadline, flush, exit.
//!
//! Owns every task of the process, so that nothing that was begun is dropped half-way. Imports nothing of ours. One
//! [`Shutdown`] is made in `main` and handed down; there is no other way to begin a task.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Exit code after a second signal, as a shell would report the interrupt.
const ENDED_AT_ONCE: i32 = 130;

/// The end of the process, to be begun, awaited and drained. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Cancelled when the end begins.
    begun: CancellationToken,
    /// Every task that a drain waits for.
    tasks: TaskTracker,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whether every task came to its end in time.
    pub all: bool,
    /// Tasks that still ran at the deadline.
    pub left: usize,
}

impl Shutdown {
    /// A process that is not ending.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a task that the drain waits for. One that runs for ever has to watch [`Shutdown::begun`].
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(task)
    }

    /// Begins the end. A second call changes nothing.
    pub fn begin(&self) {
        self.begun.cancel();
        self.tasks.close();
    }

    /// Whether the end has begun.
    pub fn is_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until the end begins.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Begins the end if nobody has, and waits at most `deadline` for the tasks that run.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        self.begin();
        let all = tokio::time::timeout(deadline, self.tasks.wait()).await.is_ok();
        let left = if all { 0 } else { self.tasks.len() };
        Drained { all, left }
    }

    /// Begins the end on the first SIGTERM or SIGINT; a second one ends the process at once, which loses nothing that
    /// was acknowledged. A file that reaches the process's size limit (SIGXFSZ) ends nothing: that write fails, as on a
    /// full disk. Must be called inside the runtime.
    ///
    /// # Errors
    ///
    /// When the signals cannot be listened to.
    pub fn on_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // Being heard once is enough: the signal kills no more.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        let shutdown = self.clone();
        let watch = async move {
            for first in [true, false] {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if first {
                    tracing::info!("ending: no new connections, waiting for what runs");
                    shutdown.begin();
                }
            }
            end_at_once();
        };
        // The drain must not wait for this one: it listens as long as the process lives.
        #[expect(clippy::disallowed_methods, reason = "the one task that outlives the drain")]
        drop(tokio::spawn(watch));
        Ok(())
    }
}

/// Ends the process without waiting for anything.
#[expect(clippy::exit, reason = "an operator who signals twice wants no more patience")]
fn end_at_once() {
    std::process::exit(ENDED_AT_ONCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_drain_waits_for_the_tasks_that_watch_the_end() {
        let shutdown = Shutdown::new();
        let watcher = shutdown.clone();
        let task = shutdown.spawn(async move {
            watcher.begun().await;
            "ended in order"
        });
        assert!(!shutdown.is_begun());
        assert_eq!(
            shutdown.drain(Duration::from_secs(60)).await,
            Drained { all: true, left: 0 }
        );
        assert!(shutdown.is_begun());
        assert_eq!(task.await.unwrap(), "ended in order");
    }

    #[tokio::test]
    async fn a_drain_tells_how_many_it_left_behind() {
        let shutdown = Shutdown::new();
        let stuck = [
            shutdown.spawn(std::future::pending::<()>()),
            shutdown.spawn(std::future::pending::<()>()),
        ];
        assert_eq!(shutdown.drain(Duration::ZERO).await, Drained { all: false, left: 2 });
        stuck.iter().for_each(JoinHandle::abort);
    }

    #[tokio::test]
    async fn a_task_that_panics_holds_up_no_drain() {
        let shutdown = Shutdown::new();
        let task = shutdown.spawn(async { panic!("on purpose") });
        assert!(shutdown.drain(Duration::from_secs(60)).await.all);
        assert!(task.await.is_err());
    }

    #[tokio::test]
    async fn a_signal_begins_the_end() {
        let shutdown = Shutdown::new();
        shutdown.on_signals().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        shutdown.begun().await;
        assert!(shutdown.is_begun());
    }
}
