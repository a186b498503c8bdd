//! Group commit: callers on many threads share one frame, one signed checkpoint and one flush.
//!
//! Imports `error`, `log`. Whoever finds nobody writing leads: it takes what has queued and writes for all. A caller is
//! answered when its frame is durable or failed; each caller's batch counts wholly or not at all.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Condvar;
use parking_lot::Mutex;
use parking_lot::MutexGuard;

use super::error::Error;
use super::log::NewLeaf;
use crate::domain::Timestamp;
use crate::domain::audit::Leaf;

/// Leaves in one frame, unless the batch of one caller alone is longer.
pub(super) const MAX_FRAME_LEAVES: usize = 256;

/// How long a leader waits for callers who came together with others the last time. Nobody else waits for company.
const COMPANY_WAIT: Duration = Duration::from_millis(1);

/// What one caller appends.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) leaves: Vec<NewLeaf>,
    pub(super) now: Timestamp,
}

/// What one caller is answered: its leaves with their indexes.
pub(super) type Answer = Result<Vec<(u64, Leaf)>, Error>;

/// The callers who wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    line: Mutex<Line>,
    /// So many have come as the leader waits for.
    arrived: Condvar,
    /// A frame is done.
    answered: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<(u64, Batch)>,
    next: u64,
    /// Whether somebody writes.
    is_led: bool,
    /// Callers in the last frame.
    company: usize,
    /// Callers that the leader waits for; 0 when it does not.
    wanted: usize,
    answers: HashMap<u64, Answer>,
}

impl Queue {
    /// Has a batch written, together with those of others. `write` writes one frame and answers each of its batches.
    pub(super) fn append(&self, batch: Batch, write: &dyn Fn(Vec<Batch>) -> Vec<Answer>) -> Answer {
        let mut line = self.line.lock();
        let ticket = line.next;
        line.next += 1;
        line.waiting.push_back((ticket, batch));
        if line.waiting.len() >= line.wanted {
            self.arrived.notify_one();
        }
        loop {
            if let Some(answer) = line.answers.remove(&ticket) {
                return answer;
            }
            if line.is_led {
                self.answered.wait(&mut line);
                continue;
            }
            line.is_led = true;
            self.await_company(&mut line);
            let (tickets, batches): (Vec<_>, Vec<_>) = line.take().into_iter().unzip();
            let answers = MutexGuard::unlocked(&mut line, || write(batches));
            line.answers.extend(tickets.into_iter().zip(answers));
            line.is_led = false;
            self.answered.notify_all();
        }
    }

    /// Callers who were answered together mostly come again together: one frame for all of them is cheaper than two.
    fn await_company(&self, line: &mut MutexGuard<'_, Line>) {
        if line.waiting.len() < line.company {
            line.wanted = line.company;
            self.arrived.wait_for(line, COMPANY_WAIT);
            line.wanted = 0;
        }
    }
}

impl Line {
    /// The batches of the next frame, in the order in which they came; at least one.
    fn take(&mut self) -> Vec<(u64, Batch)> {
        let mut leaves = 0;
        let fits = |(_, batch): &&(u64, Batch)| {
            let is_first = leaves == 0;
            leaves += batch.leaves.len();
            is_first || leaves <= MAX_FRAME_LEAVES
        };
        let count = self.waiting.iter().take_while(fits).count();
        self.company = count;
        self.waiting.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::audit::Actor;
    use crate::domain::audit::Event;

    fn batch(leaves: usize) -> Batch {
        let leaf = NewLeaf {
            actor: Actor::Gateway,
            event: Event::SignedIn { via: "test".to_owned() },
            note: None,
        };
        Batch {
            leaves: vec![leaf; leaves],
            now: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn a_frame_has_at_most_so_many_leaves_unless_one_caller_has_more() {
        let mut line = Line::default();
        for (ticket, leaves) in (0..).zip([100, 156, 1, 900, 2, 255]) {
            line.waiting.push_back((ticket, batch(leaves)));
        }
        let mut frames = Vec::new();
        while !line.waiting.is_empty() {
            frames.push(
                line.take()
                    .iter()
                    .map(|(_, batch)| batch.leaves.len())
                    .collect::<Vec<_>>(),
            );
        }
        assert_eq!(frames, [vec![100, 156], vec![1], vec![900], vec![2], vec![255]]);
    }

    #[test]
    fn callers_share_a_frame_and_each_gets_its_own_answer() {
        const CALLERS: usize = 32;
        let queue = Queue::default();
        let frames = Mutex::new(Vec::new());
        let write = |batches: Vec<Batch>| -> Vec<Answer> {
            // The first frame takes so long that all others come meanwhile.
            let is_first = frames.lock().is_empty();
            frames.lock().push(batches.len());
            while is_first && queue.line.lock().waiting.len() + batches.len() < CALLERS {
                std::thread::yield_now();
            }
            let refused = |batch: &Batch| {
                let why = batch.leaves.len().to_string();
                Err(Error::Leaf { why })
            };
            batches.iter().map(refused).collect()
        };
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (queue, write) = (&queue, &write);
                scope.spawn(move || {
                    let answer = queue.append(batch(caller % 7 + 1), write);
                    let Err(Error::Leaf { why }) = answer else {
                        panic!("{answer:?}")
                    };
                    assert_eq!(why, (caller % 7 + 1).to_string());
                });
            }
        });
        let frames = frames.into_inner();
        assert_eq!((frames.len(), frames.iter().sum()), (2, CALLERS), "{frames:?}");
        assert!(queue.line.lock().answers.is_empty());
    }
}
