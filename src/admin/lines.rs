//! The lines of an answer: progress, items, and a last word. Imports nothing of the gateway.
//!
//! What waits to be read is bounded: items wait for the reader, progress is left out when it would.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::failure::Failure;

/// Lines that wait for their reader.
const WAITING: usize = 1_000;

/// One line of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Event {
    /// A long command is further.
    Progress(Progress),
    /// One of many things that were asked for.
    Item(Value),
    /// It is done; the value is the command's own.
    Done(Value),
    /// It is not.
    Failed(Failure),
}

/// How far a long command is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// What there is in all, as far as it is known.
    pub total: u64,
    /// What was last worked on.
    pub what: String,
}

/// What comes before the last word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A long command is further.
    Progress(Progress),
    /// One of many things that were asked for.
    Item(Value),
}

/// Where the lines of an answer go. A caller that left is no reason to stop a decision.
#[derive(Clone, Debug)]
pub(super) struct Lines(mpsc::Sender<Event>);

impl Lines {
    /// Where lines go in, and where they come out.
    pub(super) fn new() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Turns progress into lines.
    pub(super) fn told(&self) -> impl Fn(u64, u64, String) + Send + 'static {
        let lines = self.0.clone();
        move |done, total, what| {
            // Who does not read as fast hears of the next step; who left does not want to know.
            let _unheard = lines.try_send(Event::Progress(Progress { done, total, what })).is_err();
        }
    }

    /// The same where nothing has a name.
    pub(super) fn counted(&self) -> impl Fn(u64, u64) + Send + 'static {
        let tell = self.told();
        move |done, total| tell(done, total, String::new())
    }

    /// Gives an item; says whether anybody listens.
    pub(super) async fn item(&self, item: Value) -> bool {
        self.0.send(Event::Item(item)).await.is_ok()
    }

    /// The same from a thread that may wait.
    pub(super) fn blocking_item(&self, item: Value) -> bool {
        self.0.blocking_send(Event::Item(item)).is_ok()
    }

    /// The last word.
    pub(super) async fn end(self, outcome: Result<Value, Failure>) {
        let last = outcome.map_or_else(Event::Failed, Event::Done);
        let _gone = self.0.send(last).await.is_err();
    }

    /// Ends when nobody listens any more.
    pub(super) async fn left(&self) {
        self.0.closed().await;
    }
}
