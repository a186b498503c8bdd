//! Finding deliveries: what the index leads to, what it does not cover, and what is still open.
//!
//! Imports its parent. Each segment is checked against its leaf while it is read; one that is damaged is named, and the
//! others are read on. What is in memory at once is one segment's file and one line of it.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::Serialize;

use super::lines::Line;
use super::lines::delivery_keys;
use super::lines::page_keys;
use super::lines::wanted_keys;
use super::verify::SegmentFault;
use super::*;
use crate::domain::Wanted;
use crate::store::index::SegmentKey;
use crate::store::index::UNREADABLE;

/// What came of looking for deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Deliveries that fit.
    pub found: u64,
    /// Sealed segments that were read.
    pub segments: u64,
    /// Segments that cannot be relied on, so that deliveries may be missing.
    pub damaged: Vec<SegmentFault>,
}

/// Hears of a delivery that fits, and says whether to go on.
pub(in crate::store) type Hear<'a> = dyn FnMut(&Delivery) -> ControlFlow<()> + 'a;

/// Lets through what is wanted of one segment.
struct Sieve<'a> {
    wanted: &'a Wanted,
    /// Whether each page shows what is wanted.
    shown: HashMap<Digest, bool>,
}

impl Sieve<'_> {
    /// The delivery in a line, if it fits. An error says that it is no line.
    fn take(&mut self, text: &[u8]) -> Result<Option<Box<Delivery>>, String> {
        match Line::parse(text) {
            None => Err("it has a line that is none".to_owned()),
            Some(Line::First(_) | Line::Check(_)) => Ok(None),
            Some(Line::Page(page)) => {
                self.shown.insert(page.page, page.shows(self.wanted));
                Ok(None)
            }
            Some(Line::Delivery(delivery)) => {
                let shown = delivery.page.and_then(|page| self.shown.get(&page).copied());
                Ok(Some(delivery).filter(|delivery| self.wanted.fits(delivery, shown.unwrap_or(false))))
            }
        }
    }
}

impl Deliveries {
    /// Gives every delivery that fits, the oldest segment first.
    pub(in crate::store) fn look(
        &self,
        log: &Log,
        index: &Index,
        wanted: &Wanted,
        hear: &mut Hear<'_>,
    ) -> Result<Looked, Error> {
        self.hear(log)?;
        let (sealed, open) = {
            // Nothing is sealed in between, so that nothing is seen twice or not at all.
            let writer = self.writer.lock();
            let open = writer
                .open
                .as_ref()
                .filter(|open| !matches!(open.stage, Stage::Recorded(_)));
            let open = open.map(|open| open.contents.text.clone());
            (self.candidates(index, wanted), open.unwrap_or_default())
        };
        let mut looked = Looked {
            damaged: self.damage().into_iter().collect(),
            ..Looked::default()
        };
        for (segment, sealed) in sealed {
            if self.look_in((segment, &sealed), wanted, &mut looked, hear)?.is_break() {
                return Ok(looked);
            }
        }
        let mut sieve = Sieve::new(wanted);
        for text in open.split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
            if let Ok(Some(delivery)) = sieve.take(text) {
                looked.found += 1;
                if hear(&delivery).is_break() {
                    break;
                }
            }
        }
        Ok(looked)
    }

    /// Looks into one sealed segment.
    fn look_in(
        &self,
        (segment, sealed): (u64, &SealedSegment),
        wanted: &Wanted,
        looked: &mut Looked,
        hear: &mut Hear<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        let packed = match self.packed(segment, sealed)? {
            Ok(packed) => packed,
            // It left meanwhile.
            Err(_) if !self.is_kept(segment) => return Ok(ControlFlow::Continue(())),
            Err(why) => {
                looked.damaged.push(SegmentFault::new(segment, Some(sealed.leaf), why));
                return Ok(ControlFlow::Continue(()));
            }
        };
        looked.segments += 1;
        let (mut sieve, mut flow, mut wrong) = (Sieve::new(wanted), ControlFlow::Continue(()), None);
        let read = each_line(&packed, &mut |text| {
            match sieve.take(text) {
                Err(why) => wrong = Some(why),
                Ok(None) => {}
                Ok(Some(delivery)) => {
                    looked.found += 1;
                    flow = hear(&delivery);
                }
            }
            flow
        });
        if let Some(why) = read.err().or(wrong) {
            looked.damaged.push(SegmentFault::new(segment, Some(sealed.leaf), why));
        }
        Ok(flow)
    }

    /// The segments that may hold something wanted.
    fn candidates(&self, index: &Index, wanted: &Wanted) -> Vec<(u64, SealedSegment)> {
        let keys = wanted_keys(wanted);
        let hits = if keys.is_empty() {
            None
        } else {
            index.segments_with(&keys)
        };
        let known = self.known.read();
        let segments = known.iter().flat_map(|known| &known.segments);
        segments
            .filter(|(_, sealed)| wanted.fits_in_time(sealed.from, sealed.until))
            .filter(|(segment, _)| {
                hits.as_ref()
                    .is_none_or(|(indexed, hits)| *segment >= indexed || hits.contains(segment))
            })
            .map(|(segment, sealed)| (*segment, *sealed))
            .collect()
    }

    /// What of the deliveries before the last start is not whole.
    pub(super) fn damage(&self) -> Option<SegmentFault> {
        self.damage.lock().clone()
    }

    pub(super) fn is_kept(&self, segment: u64) -> bool {
        let known = self.known.read();
        known
            .as_ref()
            .is_some_and(|known| known.segments.contains_key(&segment))
    }

    /// The file of a segment, if it is the one that its leaf names; else why not.
    pub(super) fn packed(&self, segment: u64, sealed: &SealedSegment) -> Result<Result<Vec<u8>, String>, Error> {
        let bytes = durable::read(&self.path(segment), MAX_SEGMENT_BYTES)?;
        Ok(match bytes {
            None => Err("its file is missing".to_owned()),
            Some(bytes) if Digest::of(&bytes) != sealed.digest => Err("its file does not have its digest".to_owned()),
            Some(bytes) => Ok(bytes),
        })
    }

    /// What the index says of a segment; of one that cannot be read, that it has to be looked into.
    pub(super) fn keys_of(&self, segment: u64, sealed: &SealedSegment) -> HashSet<SegmentKey> {
        let mut keys = HashSet::new();
        let is_read = match self.packed(segment, sealed) {
            Ok(Ok(packed)) => each_line(&packed, &mut |text| {
                match Line::parse(text) {
                    Some(Line::Delivery(delivery)) => keys.extend(delivery_keys(&delivery)),
                    Some(Line::Page(page)) => keys.extend(page_keys(&page)),
                    Some(Line::First(_) | Line::Check(_)) | None => {}
                }
                ControlFlow::Continue(())
            })
            .is_ok(),
            Ok(Err(_)) | Err(_) => false,
        };
        if is_read { keys } else { HashSet::from([UNREADABLE]) }
    }

    /// Puts up to `most` segments into the index; says how many, which is fewer when all are there.
    pub(in crate::store) fn fill_index(&self, log: &Log, index: &Index, most: u64) -> Result<u64, Error> {
        self.hear(log)?;
        for put in 0..most {
            let Some((segment, sealed)) = self.not_indexed(index) else {
                return Ok(put);
            };
            let keys = self.keys_of(segment, &sealed);
            self.put_in_index(index, segment, &sealed, &keys);
        }
        Ok(most)
    }

    /// Puts a segment into the index, if it is the next one there.
    pub(super) fn put_in_index(&self, index: &Index, segment: u64, sealed: &SealedSegment, keys: &HashSet<SegmentKey>) {
        let _indexing = self.indexing.lock();
        if self.not_indexed(index).is_some_and(|(next, _)| next == segment) {
            index.put_segment(segment, sealed.digest, keys);
        }
    }

    /// The first segment that the index does not have; none without an index.
    fn not_indexed(&self, index: &Index) -> Option<(u64, SealedSegment)> {
        let indexed = index.indexed()?.next;
        let known = self.known.read();
        let segments: &BTreeMap<_, _> = &known.as_ref()?.segments;
        let (segment, sealed) = segments.range(indexed..).next()?;
        Some((*segment, *sealed))
    }

    /// Empties what the index says of segments when it is about others: an older copy of one of the two was put back.
    pub(super) fn match_index(&self, index: &Index) {
        let Some(indexed) = index.indexed() else { return };
        let known = self.known.read();
        let Some(known) = known.as_ref() else { return };
        let last = indexed.next.checked_sub(1);
        let is_ours = match last.and_then(|last| known.segments.get(&last)) {
            Some(sealed) => indexed.last == Some(sealed.digest),
            None => indexed.next <= known.kept_from,
        };
        if !is_ours {
            tracing::warn!("what the index says of deliveries is made anew");
            index.forget_all_segments();
        }
    }
}

impl<'a> Sieve<'a> {
    fn new(wanted: &'a Wanted) -> Self {
        Self {
            wanted,
            shown: HashMap::new(),
        }
    }
}

/// Gives each line of a segment's file, without its end.
pub(super) fn each_line(packed: &[u8], each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), String> {
    let unread = |error: std::io::Error| format!("it cannot be unpacked: {error}");
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(unread)?;
    let mut lines = BufReader::new(decoder.take(MAX_SEGMENT_BYTES));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(unread)? == 0 {
            return Ok(());
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if each(text).is_break() {
            return Ok(());
        }
    }
}
