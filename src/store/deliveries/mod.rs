//! Who received what: `deliveries/`, the segments that are sealed and the one that is open (design §6, §7).
//!
//! Imports `durable`, `log`, `index` and `domain`. Deliveries are lines of JSON. They go into `open` soon, where the end of
//! the process does not lose them. To seal it, all of it becomes `<number>.zst`, its digest becomes a leaf of the audit log,
//! and `open` begins anew. In that order, and no delivery is added in between, so that whatever interrupts it, a start knows
//! what `open` holds: what its own first line says is sealed already, or is not.
//!
//! Lock order: `writer`, then the log's, then `known`.
//! Start reading at [`Deliveries::write`] and [`Deliveries::seal`], then `recover`.

mod known;
mod lines;
mod query;
mod recover;
mod retire;
mod verify;

use std::collections::VecDeque;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use parking_lot::RwLock;

use super::durable;
use super::durable::Appender;
use super::durable::Disk;
use super::durable::Place;
use super::error::Error;
use super::index::Index;
use super::log::Log;
use super::log::NewLeaf;
use crate::domain::Delivery;
use crate::domain::Digest;
use crate::domain::Page;
use crate::domain::Timestamp;
use crate::domain::audit::Actor;
use crate::domain::audit::Event;

pub(super) use known::Known;
use known::SealedSegment;
use lines::Contents;
use lines::Draft;
pub use query::Looked;
pub use retire::Keep;
pub use verify::DeliveriesReport;
pub use verify::SegmentFault;

/// Bytes of lines from which on a segment is sealed.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of lines that a segment may have: the last of them is a page of the longest URIs.
const MAX_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// How hard zstd tries; the lines are much alike, so that its least leaves a small part of them.
const LEVEL: i32 = 1;

/// A delivery that is to be written, with the page that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// Its page, for a listing.
    pub page: Option<Arc<Page>>,
}

/// The deliveries of one data folder.
#[derive(Debug)]
pub(super) struct Deliveries {
    disk: Arc<Disk>,
    dir: PathBuf,
    writer: Mutex<Writer>,
    /// Nothing until the log was read.
    known: RwLock<Option<Known>>,
    /// Held while a segment goes into the index.
    indexing: Mutex<()>,
    /// What this process found not to be whole in `open`.
    damage: Mutex<Option<SegmentFault>>,
}

/// What only the one who writes needs.
#[derive(Debug, Default)]
struct Writer {
    /// Whether what an earlier process left is put right.
    is_recovered: bool,
    file: Option<Appender>,
    open: Option<Open>,
    /// No segment gets a number below this: files lie there.
    taken_below: u64,
}

/// The segment that is being written.
#[derive(Debug)]
struct Open {
    segment: u64,
    contents: Contents,
    stage: Stage,
    /// What its leaf says beside it.
    note: Option<String>,
    /// Whether all of it would survive a power cut.
    is_flushed: bool,
}

/// How far a segment is on its way to be sealed.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Deliveries are added.
    Growing,
    /// Its file lies there, and no leaf names it.
    Filed { digest: Digest, bytes: u64 },
    /// A leaf names it; `open` still holds it.
    Recorded(SealedSegment),
}

impl Deliveries {
    /// The deliveries in `dir`; nothing in it is looked at before [`Deliveries::recover`].
    pub(super) fn open(disk: Arc<Disk>, dir: PathBuf) -> Result<Self, Error> {
        disk.make_dir(&dir)?;
        Ok(Self {
            disk,
            dir,
            writer: Mutex::default(),
            known: RwLock::default(),
            indexing: Mutex::default(),
            damage: Mutex::default(),
        })
    }

    /// Writes deliveries to `open`, and seals what is full. What is written leaves `waiting`; on a failure the rest stays.
    pub(super) fn write(
        &self,
        log: &Log,
        index: &Index,
        waiting: &mut VecDeque<NewDelivery>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        self.recover_if_needed(log, index, &mut writer, now)?;
        while !waiting.is_empty() {
            if writer.open.as_ref().is_some_and(Open::is_full) {
                self.seal_in(log, index, &mut writer, now)?;
            }
            let written = self.write_some(&mut writer, waiting)?;
            drop(waiting.drain(..written));
        }
        Ok(())
    }

    /// Flushes what was written.
    pub(super) fn flush(&self) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        let Writer { file, open, .. } = &mut *writer;
        if let (Some(file), Some(open)) = (file, open)
            && !open.is_flushed
        {
            file.flush(&self.disk)?;
            open.is_flushed = true;
        }
        Ok(())
    }

    /// Seals what was written, if anything was.
    pub(super) fn seal(&self, log: &Log, index: &Index, now: Timestamp) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        self.recover_if_needed(log, index, &mut writer, now)?;
        self.seal_in(log, index, &mut writer, now)
    }

    /// Writes as many deliveries as the open segment takes; says how many.
    fn write_some(&self, writer: &mut Writer, waiting: &VecDeque<NewDelivery>) -> Result<usize, Error> {
        if writer.file.is_none() {
            writer.file = Some(self.disk.appender(&self.open_path())?);
        }
        let Some(file) = &mut writer.file else { return Ok(0) };
        let segment = self.next().max(writer.taken_below);
        let open = writer.open.get_or_insert_with(|| Open::new(segment));
        let mut draft = Draft::default();
        if file.len() == 0 {
            draft.text.extend_from_slice(&open.contents.text);
            open.contents.text.clear();
        }
        let mut written = 0;
        for new in waiting {
            if open.contents.text.len() + draft.text.len() >= SEGMENT_BYTES {
                break;
            }
            open.contents.draft(&mut draft, new);
            written += 1;
        }
        if let Err(error) = draft.checked(|text| file.extend(&self.disk, text)) {
            if file.len() == 0 {
                writer.open = None;
            }
            return Err(error);
        }
        open.contents.adopt(draft);
        open.is_flushed = false;
        Ok(written)
    }

    /// Seals the open segment from where it was left.
    fn seal_in(&self, log: &Log, index: &Index, writer: &mut Writer, now: Timestamp) -> Result<(), Error> {
        let Writer { file, open: slot, .. } = writer;
        let Some(open) = slot else { return Ok(()) };
        if let Stage::Growing = open.stage {
            let (digest, bytes) = self.file(open)?;
            open.stage = Stage::Filed { digest, bytes };
        }
        if let Stage::Filed { digest, bytes } = open.stage {
            open.stage = Stage::Recorded(self.record(log, open, (digest, bytes), now)?);
        }
        if let Some(file) = file {
            file.cut(&self.disk, 0)?;
        }
        if let Stage::Recorded(sealed) = open.stage {
            self.put_in_index(index, open.segment, &sealed, &open.contents.keys);
        }
        *slot = None;
        Ok(())
    }

    /// Makes the segment's file; what an interrupted attempt left in its place goes.
    fn file(&self, open: &Open) -> Result<(Digest, u64), Error> {
        let path = self.path(open.segment);
        let packed = zstd::bulk::compress(&open.contents.text, LEVEL)
            .map_err(|source| Error::io("compress", path.as_path(), source))?;
        self.disk.write(&path, &packed, durable::IMMUTABLE, Place::Over)?;
        Ok((Digest::of(&packed), packed.len() as u64))
    }

    /// Appends the segment's leaf.
    fn record(
        &self,
        log: &Log,
        open: &Open,
        (digest, bytes): (Digest, u64),
        now: Timestamp,
    ) -> Result<SealedSegment, Error> {
        let (from, until) = open.contents.tally.span.unwrap_or((now, now));
        let event = Event::Sealed {
            segment: open.segment,
            digest,
            deliveries: open.contents.tally.deliveries,
            bytes,
            from,
            until,
        };
        let leaf = self.append(log, event, open.note.clone(), now)?;
        Ok(SealedSegment {
            leaf,
            digest,
            deliveries: open.contents.tally.deliveries,
            bytes,
            from,
            until,
        })
    }

    /// Puts an event about segments on the record, and into what is known of them; gives the index of its leaf.
    fn append(&self, log: &Log, event: Event, note: Option<String>, now: Timestamp) -> Result<u64, Error> {
        let leaf = NewLeaf {
            actor: Actor::Gateway,
            event,
            note,
        };
        let appended = log.append(vec![leaf], now)?;
        let mut known = self.known.write();
        let mut at = 0;
        for (index, leaf) in &appended {
            at = *index;
            if let Some(known) = known.as_mut() {
                known.hear(*index, &leaf.event);
            }
        }
        Ok(at)
    }

    /// The first number that no leaf names.
    fn next(&self) -> u64 {
        self.known.read().as_ref().map_or(0, |known| known.next)
    }

    /// Takes in what the log says of segments, unless that is known.
    pub(super) fn hear(&self, log: &Log) -> Result<(), Error> {
        if self.is_heard() {
            return Ok(());
        }
        let mut known = Known::default();
        log.replay(&mut |index, leaf| known.hear(index, &leaf.event))?;
        self.adopt(known);
        Ok(())
    }

    /// Says whether it is known what the log says of segments.
    pub(super) fn is_heard(&self) -> bool {
        self.known.read().is_some()
    }

    /// Takes in what was heard of the log's segments.
    pub(super) fn adopt(&self, known: Known) {
        self.known.write().get_or_insert(known);
    }

    fn open_path(&self) -> PathBuf {
        self.dir.join("open")
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(file_name(segment))
    }
}

impl Open {
    fn new(segment: u64) -> Self {
        Self {
            segment,
            contents: Contents::new(segment),
            stage: Stage::Growing,
            note: None,
            is_flushed: false,
        }
    }

    /// Says whether nothing may be added any more.
    fn is_full(&self) -> bool {
        match self.stage {
            Stage::Growing => self.contents.text.len() >= SEGMENT_BYTES,
            Stage::Filed { .. } | Stage::Recorded(_) => true,
        }
    }
}

/// The name of a segment's file; names sort as numbers do.
fn file_name(segment: u64) -> String {
    format!("{segment:012}.zst")
}

/// The number in a segment's file name.
fn number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".zst")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// The numbers of the segments that have files, in order.
fn filed(dir: &Path) -> Result<Vec<u64>, Error> {
    let mut numbers: Vec<u64> = durable::names(dir)?.iter().filter_map(|name| number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests;
