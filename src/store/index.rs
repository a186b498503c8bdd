//! The index: what was heard of each origin, for quick starts, and which segments hold deliveries of what. The only code
//! that knows sled.
//!
//! Imports `durable` and `domain`. Nothing is true only here: the folder may be deleted at any time, and whatever fails is
//! said in the log and gone without. sled 0.34 promises less than it says, so it stands behind a guard:
//!
//! 1. half-written snapshots are removed before it opens;
//! 2. after that all its files and folders are flushed;
//! 3. after each of its flushes, so is its log file, through our own descriptor;
//! 4. each value is bound to its key by a checksum; what only is there or not has none, and `audit verify` compares it;
//! 5. values are at most 48 KiB, longer ones lie in pieces;
//! 6. it opens, and is read through once, on a thread of its own, with a time limit, and a panic is caught;
//! 7. when it has grown to many times its contents it is made anew;
//! 8. the data folder's lock is taken first.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::durable;
use super::durable::Disk;
use super::error::Error;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::Timestamp;

/// How long sled may take to open.
const OPEN_TIME: Duration = Duration::from_secs(20);

/// Bytes of one value.
const PIECE_BYTES: usize = 48 * 1024;

/// Bytes that the index may always have on disk.
const SMALL_BYTES: u64 = 64 * 1024 * 1024;

/// How many times its contents the index may have on disk beyond that.
const MAX_GROWTH: u64 = 4;

/// Bytes that sled may keep in memory.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// The version of what a value looks like.
const ENVELOPE: u8 = 1;

/// What was last heard of an origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingNote {
    /// When it last gave a whole listing.
    pub heard: Timestamp,
    /// The protocol revision that it speaks.
    pub era: Option<String>,
    /// Entries that were not published.
    #[serde(default)]
    pub rejected: Vec<RejectedNote>,
    /// The texts of entries that wait for their sizes (`repair = ["size"]`).
    #[serde(default)]
    pub unsized_entries: Vec<String>,
}

/// What a segment of deliveries holds: a kind, and the first bytes of a hash.
pub(super) type SegmentKey = [u8; 9];

/// The key of a segment that could not be read: it is looked into whatever is wanted.
pub(super) const UNREADABLE: SegmentKey = [b'!'; 9];

/// Before the keys of segments.
const SEGMENTS: &[u8] = b"deliveries/";

/// The name of the note about how far segments are indexed; no key of a segment is.
const INDEXED: &str = "indexed-deliveries";

/// How far the segments of deliveries are indexed: all those below a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexed {
    /// The number.
    pub(super) next: u64,
    /// The digest of the last one of them.
    pub(super) last: Option<Digest>,
}

impl ListingNote {
    /// What stored sets tell of an origin: that it was heard when the latest of them was first seen.
    pub(super) fn of_sets(heard: Timestamp) -> Self {
        Self {
            heard,
            era: None,
            rejected: Vec::new(),
            unsized_entries: Vec::new(),
        }
    }
}

/// An entry that was not published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedNote {
    /// Its URI as far as it could be read.
    pub uri: Option<String>,
    /// The rule that it breaks.
    pub rule: String,
    /// Why.
    pub reason: String,
}

/// The index of one data folder, with or without sled.
#[derive(Debug)]
pub(super) struct Index {
    /// Its own writer: a failure in here stops nothing else.
    disk: Disk,
    dir: PathBuf,
    /// Nothing when it is gone without.
    sled: Mutex<Option<sled::Db>>,
    /// What was put in the life of this process.
    fresh: Mutex<HashMap<Label, ListingNote>>,
}

/// An index that has opened.
struct Opened {
    db: sled::Db,
    /// Bytes of its contents.
    live: u64,
    /// Bytes that it has on disk.
    on_disk: u64,
}

/// Why the index did not do it; said in the log, and that is all.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Disk(#[from] Error),
    #[error(transparent)]
    Sled(#[from] sled::Error),
    #[error("it panicked")]
    Panicked,
    #[error("it did not open in time")]
    Slow,
    #[error("the value of {0:?} is not the one that was put there")]
    Damaged(String),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Index {
    /// Opens the index, or an empty one in its place when it does not open; says whether it is as it was left.
    pub(super) fn open(root: &Path) -> (Self, bool) {
        let index = Self {
            disk: Disk::new(root, "index"),
            dir: root.join("index"),
            sled: Mutex::new(None),
            fresh: Mutex::default(),
        };
        let was_there = index.dir.exists();
        let kept = match index.connect() {
            Ok(()) => was_there,
            Err(fault) => {
                tracing::warn!(%fault, "the index does not open and is made anew");
                index.begin_anew();
                false
            }
        };
        (index, kept)
    }

    /// Puts an empty index in the place of this one.
    pub(super) fn begin_anew(&self) {
        let old = self.sled.lock().take();
        drop(old);
        self.fresh.lock().clear();
        let anew = self.set_aside().and_then(|()| self.connect());
        if let Err(fault) = anew {
            tracing::error!(%fault, "going on without an index");
        }
    }

    /// Says whether there is an index, rather than memory alone.
    pub(super) fn is_open(&self) -> bool {
        self.sled.lock().is_some()
    }

    /// Keeps what was heard of an origin.
    pub(super) fn put(&self, label: &Label, note: &ListingNote) {
        self.fresh.lock().insert(label.clone(), note.clone());
        let mut sled = self.sled.lock();
        if let Some(db) = sled.as_ref()
            && let Err(fault) = caught(|| self.put_in(db, label, note))
        {
            tracing::error!(%label, %fault, "going on without the index");
            *sled = None;
        }
    }

    /// What was last heard of an origin.
    pub(super) fn listing(&self, label: &Label) -> Option<ListingNote> {
        let fresh = self.fresh.lock().get(label).cloned();
        if fresh.is_some() {
            return fresh;
        }
        let sled = self.sled.lock();
        let read = caught(|| get_from(sled.as_ref(), label));
        read.unwrap_or_else(|fault| {
            tracing::warn!(%label, %fault, "what the index says of an origin is not relied on");
            None
        })
    }

    /// Forgets an origin.
    pub(super) fn forget(&self, label: &Label) {
        self.fresh.lock().remove(label);
        let mut sled = self.sled.lock();
        if let Some(db) = sled.as_ref()
            && let Err(fault) = caught(|| self.put_pieces(db, label, &[]))
        {
            tracing::error!(%label, %fault, "going on without the index");
            *sled = None;
        }
    }

    /// How far segments are indexed; nothing without an index.
    pub(super) fn indexed(&self) -> Option<Indexed> {
        self.ask(indexed_in)
    }

    /// Notes what a segment holds, and that all up to it are indexed.
    pub(super) fn put_segment(&self, segment: u64, digest: Digest, keys: &HashSet<SegmentKey>) {
        self.change(|db| {
            let mut batch = sled::Batch::default();
            keys.iter().for_each(|key| batch.insert(segment_key(key, segment), &[]));
            let next = segment.saturating_add(1).to_be_bytes();
            batch.insert(INDEXED, seal(INDEXED, &[&next[..], digest.as_bytes()].concat()));
            db.apply_batch(batch)?;
            self.flush(db)
        });
    }

    /// The indexed segments that have a key of each of these lists, and how far that goes; nothing when the index cannot
    /// tell.
    pub(super) fn segments_with(&self, wanted: &[Vec<SegmentKey>]) -> Option<(u64, BTreeSet<u64>)> {
        self.ask(|db| {
            let indexed = indexed_in(db)?;
            let mut hits: Option<BTreeSet<u64>> = None;
            for keys in wanted {
                let some = segments_of(db, keys)?;
                hits = Some(match hits {
                    None => some,
                    Some(hits) => hits.intersection(&some).copied().collect(),
                });
            }
            let mut hits = hits.unwrap_or_default();
            hits.extend(segments_of(db, &[UNREADABLE])?);
            Ok((indexed.next, hits))
        })
    }

    /// Says whether all of this is noted of a segment; without an index there is nothing to compare.
    pub(super) fn has_segment(&self, segment: u64, keys: &HashSet<SegmentKey>) -> bool {
        let has_all = self.ask(|db| {
            for key in keys {
                if !db.contains_key(segment_key(key, segment))? {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        has_all.unwrap_or(true)
    }

    /// Forgets segments, of each of which this is noted.
    pub(super) fn forget_segments(&self, gone: &[(u64, HashSet<SegmentKey>)]) {
        self.change(|db| {
            for (segment, keys) in gone {
                let mut batch = sled::Batch::default();
                keys.iter().for_each(|key| batch.remove(segment_key(key, *segment)));
                db.apply_batch(batch)?;
            }
            self.flush(db)
        });
    }

    /// Forgets all segments.
    pub(super) fn forget_all_segments(&self) {
        self.change(|db| {
            db.remove(INDEXED)?;
            for key in db.scan_prefix(SEGMENTS).keys() {
                db.remove(key?)?;
            }
            self.flush(db)
        });
    }

    /// Asks the index, if there is one and it answers.
    fn ask<T>(&self, question: impl FnOnce(&sled::Db) -> Result<T, Fault>) -> Option<T> {
        let sled = self.sled.lock();
        let db = sled.as_ref()?;
        let answer = caught(|| question(db));
        answer
            .inspect_err(|fault| tracing::warn!(%fault, "what the index says of deliveries is not relied on"))
            .ok()
    }

    /// Changes the index, or goes on without it.
    fn change(&self, change: impl FnOnce(&sled::Db) -> Result<(), Fault>) {
        let mut sled = self.sled.lock();
        if let Some(db) = sled.as_ref()
            && let Err(fault) = caught(|| change(db))
        {
            tracing::error!(%fault, "going on without the index");
            *sled = None;
        }
    }

    fn put_in(&self, db: &sled::Db, label: &Label, note: &ListingNote) -> Result<(), Fault> {
        let text = serde_json::to_vec(note)?;
        let tag = Digest::of(&text);
        let pieces: Vec<_> = text.chunks(PIECE_BYTES).collect();
        let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX).to_be_bytes();
        let piece = |piece: &&[u8]| [&count[..], tag.as_bytes(), piece].concat();
        self.put_pieces(db, label, &pieces.iter().map(piece).collect::<Vec<_>>())
    }

    /// Replaces all pieces of an origin at once.
    fn put_pieces(&self, db: &sled::Db, label: &Label, pieces: &[Vec<u8>]) -> Result<(), Fault> {
        let mut batch = sled::Batch::default();
        for old in db.scan_prefix(prefix(label)).keys() {
            batch.remove(old?);
        }
        for (at, piece) in pieces.iter().enumerate() {
            let key = piece_key(label, at);
            batch.insert(key.as_bytes(), seal(&key, piece));
        }
        db.apply_batch(batch)?;
        self.flush(db)
    }

    /// Makes what sled wrote durable (guard 3).
    fn flush(&self, db: &sled::Db) -> Result<(), Fault> {
        db.flush()?;
        Ok(self.disk.sync_data(&self.dir.join("db"))?)
    }

    fn connect(&self) -> Result<(), Fault> {
        let Opened { db, live, on_disk } = self.open_guarded()?;
        let db = if on_disk > SMALL_BYTES.saturating_add(live.saturating_mul(MAX_GROWTH)) {
            tracing::info!(live, on_disk, "the index is made smaller");
            self.copied(db)?
        } else {
            db
        };
        *self.sled.lock() = Some(db);
        Ok(())
    }

    /// Makes the index anew with the same contents (guard 7). A crash in between loses the index and nothing else.
    fn copied(&self, db: sled::Db) -> Result<sled::Db, Fault> {
        let contents: Vec<_> = caught(|| Ok(db.iter().collect::<Result<_, _>>()?))?;
        drop(db);
        self.set_aside()?;
        let Opened { db, .. } = self.open_guarded()?;
        caught(|| {
            for (key, value) in contents {
                db.insert(key, value)?;
            }
            self.flush(&db)
        })?;
        Ok(db)
    }

    /// Guards 1, 2 and 6.
    fn open_guarded(&self) -> Result<Opened, Fault> {
        self.disk.make_dir(&self.dir)?;
        for name in durable::names(&self.dir)? {
            if name.starts_with("snap.") && name.ends_with(".generating") {
                self.disk.remove(&self.dir.join(name))?;
            }
        }
        self.disk.sync_dir(&self.dir)?;
        let opened = open_in_time(self.dir.clone())?;
        self.disk.sync_files(&self.dir)?;
        self.disk.sync_dir(self.disk.root())?;
        Ok(opened)
    }

    fn set_aside(&self) -> Result<(), Fault> {
        if self.dir.symlink_metadata().is_ok() {
            self.disk.remove_tree(&self.dir)?;
        }
        Ok(())
    }
}

/// Opens sled and reads it through, on a thread that is left behind when it does not answer.
fn open_in_time(dir: PathBuf) -> Result<Opened, Fault> {
    let (send, answer) = mpsc::channel();
    let open = move || {
        let opened = caught(|| {
            let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES);
            let db = config.flush_every_ms(None).open()?;
            db.flush()?;
            Ok(Opened {
                live: live_bytes(&db)?,
                on_disk: db.size_on_disk()?,
                db,
            })
        });
        if send.send(opened).is_err() {
            tracing::warn!("the index opened after nobody waited for it any more");
        }
    };
    std::thread::Builder::new()
        .name("index-open".to_owned())
        .spawn(open)
        .map_err(|source| Error::io("start a thread for", "index", source))?;
    answer.recv_timeout(OPEN_TIME).unwrap_or(Err(Fault::Slow))
}

fn caught<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Fault::Panicked))
}

fn live_bytes(db: &sled::Db) -> Result<u64, Fault> {
    db.iter().try_fold(0, |bytes, pair| {
        let (key, value) = pair?;
        Ok(bytes + (key.len() + value.len()) as u64)
    })
}

fn get_from(db: Option<&sled::Db>, label: &Label) -> Result<Option<ListingNote>, Fault> {
    let Some(db) = db else {
        return Ok(None);
    };
    let mut text = Vec::new();
    let mut tag = None;
    let mut expected = 0;
    let mut found = 0;
    for pair in db.scan_prefix(prefix(label)) {
        let (key, value) = pair?;
        let key = String::from_utf8_lossy(&key);
        let damaged = || Fault::Damaged(key.clone().into_owned());
        let piece = open_sealed(&key, &value).ok_or_else(damaged)?;
        let (count, piece) = piece.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (digest, piece) = piece.split_first_chunk::<32>().ok_or_else(damaged)?;
        expected = u32::from_be_bytes(*count);
        found += 1;
        if *tag.get_or_insert(*digest) != *digest {
            return Err(damaged());
        }
        text.extend_from_slice(piece);
    }
    let Some(tag) = tag else {
        return Ok(None);
    };
    if found != expected || Digest::of(&text).as_bytes() != &tag {
        return Err(Fault::Damaged(prefix(label)));
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

fn indexed_in(db: &sled::Db) -> Result<Indexed, Fault> {
    let Some(sealed) = db.get(INDEXED)? else {
        return Ok(Indexed::default());
    };
    let damaged = || Fault::Damaged(INDEXED.to_owned());
    let note = open_sealed(INDEXED, &sealed).ok_or_else(damaged)?;
    let (next, digest) = note.split_first_chunk::<8>().ok_or_else(damaged)?;
    let digest = <[u8; 32]>::try_from(digest).map_err(|_| damaged())?;
    Ok(Indexed {
        next: u64::from_be_bytes(*next),
        last: Some(Digest::from_bytes(digest)),
    })
}

/// The segments that have one of these keys.
fn segments_of(db: &sled::Db, keys: &[SegmentKey]) -> Result<BTreeSet<u64>, Fault> {
    let mut segments = BTreeSet::new();
    for key in keys {
        for found in db.scan_prefix([SEGMENTS, key].concat()).keys() {
            let found = found?;
            let number = found.last_chunk::<8>().map(|number| u64::from_be_bytes(*number));
            segments.extend(number);
        }
    }
    Ok(segments)
}

fn segment_key(key: &SegmentKey, segment: u64) -> Vec<u8> {
    [SEGMENTS, key, &segment.to_be_bytes()].concat()
}

/// A label has no `/`, so that no prefix is that of another one.
fn prefix(label: &Label) -> String {
    format!("listing/{label}/")
}

fn piece_key(label: &Label, at: usize) -> String {
    format!("{}{at:08}", prefix(label))
}

/// Wraps a value (guard 4): the version, a checksum over the key and the value, the value.
fn seal(key: &str, value: &[u8]) -> Vec<u8> {
    [&[ENVELOPE][..], checksum(key, value).as_bytes(), value].concat()
}

fn open_sealed<'a>(key: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (version, rest) = sealed.split_first()?;
    let (check, value) = rest.split_first_chunk::<32>()?;
    (*version == ENVELOPE && check == checksum(key, value).as_bytes()).then_some(value)
}

fn checksum(key: &str, value: &[u8]) -> Digest {
    let length = (key.len() as u64).to_be_bytes();
    Digest::of(&[&length[..], key.as_bytes(), value].concat())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what others do to the folder is done here")]
mod tests {
    use std::fs;

    use super::*;

    fn open(dir: &Path) -> (Index, bool) {
        fs::create_dir_all(dir.join(durable::TMP)).unwrap();
        Index::open(dir)
    }

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    fn note(entries: usize) -> ListingNote {
        ListingNote {
            heard: Timestamp::from_millis(1_790_000_000_000),
            era: Some("2026-07-28".to_owned()),
            rejected: vec![RejectedNote {
                uri: None,
                rule: "S-26".to_owned(),
                reason: "dynamic".to_owned(),
            }],
            unsized_entries: (0..entries).map(|n| format!("{n}-{}", "x".repeat(1_000))).collect(),
        }
    }

    #[test]
    fn notes_of_any_length_come_back_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (index, kept) = open(dir.path());
        assert!(!kept && index.is_open());
        index.put(&label("long"), &note(300));
        index.put(&label("long-2"), &note(1));
        index.put(&label("long"), &note(100));
        index.put(&label("gone"), &note(100));
        index.forget(&label("gone"));
        drop(index);
        let (index, kept) = open(dir.path());
        assert!(kept);
        assert_eq!(index.listing(&label("long")), Some(note(100)));
        assert_eq!(index.listing(&label("long-2")), Some(note(1)));
        assert_eq!(index.listing(&label("gone")), None);
        assert_eq!(index.listing(&label("lon")), None);
    }

    #[test]
    fn a_half_written_snapshot_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let (index, _) = open(dir.path());
        index.put(&label("a"), &note(1));
        drop(index);
        let half = dir.path().join("index").join("snap.00000000000FFFFF.generating");
        fs::write(&half, "x").unwrap();
        let (index, kept) = open(dir.path());
        assert!(kept && !half.exists());
        assert_eq!(index.listing(&label("a")), Some(note(1)));
    }

    #[test]
    fn a_folder_of_garbage_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("index")).unwrap();
        for name in ["db", "conf", "snap.0000000000000001"] {
            fs::write(dir.path().join("index").join(name), vec![0xA5; 5_000]).unwrap();
        }
        let (index, kept) = open(dir.path());
        assert!(!kept && index.is_open());
        index.put(&label("a"), &note(1));
        assert_eq!(index.listing(&label("a")), Some(note(1)));
    }

    #[test]
    fn a_value_under_another_key_or_with_another_byte_is_refused() {
        let sealed = seal("listing/a/00000000", b"value");
        assert_eq!(open_sealed("listing/a/00000000", &sealed), Some(&b"value"[..]));
        assert_eq!(open_sealed("listing/b/00000000", &sealed), None);
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert_eq!(open_sealed("listing/a/00000000", &bad), None, "{at}");
        }
    }

    #[test]
    fn without_sled_memory_serves_until_the_end_of_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let (index, _) = open(dir.path());
        *index.sled.lock() = None;
        index.put(&label("a"), &note(1));
        assert_eq!(index.listing(&label("a")), Some(note(1)));
        assert_eq!(index.listing(&label("b")), None);
    }
}
