//! Tiles, `log/checkpoint` and the head follow the journal, on a thread of their own.
//!
//! Imports nothing of ours. At most one round is under way; the next takes in whatever came meanwhile, so that the lag is
//! one round. The end of the log waits for the last one.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Condvar;
use parking_lot::Mutex;

/// The thread, and what it has to do.
#[derive(Debug)]
pub(super) struct Follower {
    turn: Arc<Turn>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Turn {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Frames that were written.
    wanted: u64,
    /// Frames that a round has followed.
    done: u64,
    is_ending: bool,
}

impl Follower {
    /// Begins the thread; `round` lets everything follow what is durable by then.
    pub(super) fn begin(round: impl Fn() + Send + 'static) -> io::Result<Self> {
        let turn = Arc::new(Turn::default());
        let of_thread = Arc::clone(&turn);
        let work = move || {
            while let Some(wanted) = of_thread.next() {
                round();
                of_thread.done(wanted);
            }
        };
        let thread = std::thread::Builder::new()
            .name("log-follower".to_owned())
            .spawn(work)?;
        Ok(Self {
            turn,
            thread: Some(thread),
        })
    }

    /// Says that a frame was written.
    pub(super) fn wake(&self) {
        self.turn.state.lock().wanted += 1;
        self.turn.changed.notify_all();
    }

    /// Waits until the frames written so far have been followed, or a round has failed to.
    pub(super) fn settle(&self) {
        let mut state = self.turn.state.lock();
        let wanted = state.wanted;
        self.turn.changed.wait_while(&mut state, |state| state.done < wanted);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.turn.state.lock().is_ending = true;
        self.turn.changed.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that makes the log's tiles ended by itself");
        }
    }
}

impl Turn {
    /// Waits for work; nothing when there is none any more.
    fn next(&self) -> Option<u64> {
        let mut state = self.state.lock();
        self.changed
            .wait_while(&mut state, |state| state.wanted == state.done && !state.is_ending);
        (state.wanted > state.done).then_some(state.wanted)
    }

    fn done(&self, wanted: u64) {
        self.state.lock().done = wanted;
        self.changed.notify_all();
    }
}
