//! The audit log: leaves a second by many callers at once and by one, and how long a caller waits for its own to be durable,
//! beside what a flush of the same disk takes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use portcullis::domain::Limits;
use portcullis::domain::Timestamp;
use portcullis::domain::audit::Actor;
use portcullis::domain::audit::Event;
use portcullis::store::NewLeaf;
use portcullis::store::Options;
use portcullis::store::Store;
use tokio::time::Instant;

use super::median;
use super::report::Aim;
use super::report::Report;

/// Callers at once.
const CALLERS: usize = 64;

/// Leaves of each of them in one turn.
const EACH: usize = 100;

/// Leaves of one caller alone in one turn.
const ALONE: usize = 300;

/// Flushes measured in one turn.
const FLUSHES: usize = 100;

/// Bytes written before each flush: about a frame of one leaf.
const FRAME: [u8; 1_024] = [7; 1_024];

/// What one turn gave.
struct Turn {
    leaves: usize,
    took: Duration,
    waits: Vec<Duration>,
}

pub(crate) fn measure(report: &mut Report, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("data"));
    let (mut flushes, mut together, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        flushes.extend(flush(&folder.path().join("flushed")));
        together.push(append(&store, CALLERS, EACH));
        alone.push(append(&store, 1, ALONE));
    }
    let flush = median(flushes);
    let rate = |turns: &[Turn]| median(turns.iter().map(Turn::rate).collect());
    let (many, one) = (rate(&together), rate(&alone));
    report.figure(
        &format!("leaves of the log, {CALLERS} callers at once"),
        many,
        Aim::AtLeast(5_000.0),
        format!("leaves/s, each durable when its caller goes on; a flush of this disk takes {flush:.2} ms"),
    );
    report.ratio(
        &format!("leaves of the log a second, {CALLERS} callers at once, of one alone"),
        many / one,
        Aim::None,
        format!("{many:.0} : {one:.0} leaves/s"),
    );
    for (who, turns) in [
        (format!("{CALLERS} callers at once"), together),
        ("one caller".to_owned(), alone),
    ] {
        let mut waits: Vec<f64> = turns.iter().flat_map(|turn| &turn.waits).map(millis).collect();
        waits.sort_by(f64::total_cmp);
        let at = |share: usize| waits[(waits.len() - 1) * share / 100];
        // 25 ms on a disk that takes 4 for a flush, and more on a slower one.
        report.figure(
            &format!("wait for a leaf to be durable, {who}, 99th percentile"),
            at(99),
            Aim::AtMost(25.0 * (flush / 4.0).max(1.0)),
            format!("ms; median {:.2} ms, and {flush:.2} ms for a flush alone", at(50)),
        );
    }
}

fn open(data: &Path) -> Store {
    let options = Options {
        data_dir: data.to_owned(),
        allow_unsafe_location: false,
        limits: Limits::default(),
    };
    Store::open(&options, Timestamp::from_millis(0)).unwrap()
}

/// How long the disk takes for a write and a flush, in ms.
fn flush(path: &Path) -> Vec<f64> {
    let file = File::create(path).unwrap();
    let once = |number: usize| {
        let begun = Instant::now();
        file.write_all_at(&FRAME, (number * FRAME.len()) as u64).unwrap();
        file.sync_data().unwrap();
        millis(&begun.elapsed())
    };
    (0..FLUSHES).map(once).collect()
}

/// Appends one leaf after the other on each of so many threads.
fn append(store: &Store, callers: usize, each: usize) -> Turn {
    let begun = Instant::now();
    let waits = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(|| append_each(store, each))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    Turn {
        leaves: callers * each,
        took: begun.elapsed(),
        waits,
    }
}

fn append_each(store: &Store, each: usize) -> Vec<Duration> {
    let once = |number: usize| {
        let leaf = NewLeaf {
            actor: Actor::Gateway,
            event: Event::SignedIn {
                via: format!("bench-{number}"),
            },
            note: Some("as long as a note usually is".to_owned()),
        };
        let begun = Instant::now();
        store.append(vec![leaf], Timestamp::from_millis(0)).unwrap();
        begun.elapsed()
    };
    (0..each).map(once).collect()
}

fn millis(span: &Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

impl Turn {
    fn rate(&self) -> f64 {
        self.leaves as f64 / self.took.as_secs_f64()
    }
}
