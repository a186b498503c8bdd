//! The lines of a segment: which one it is, pages, deliveries; and what is counted of them.
//!
//! Imports `domain` and the index's keys. The first line is `{"segment":<number>}`, so that no segment can stand in for
//! another one. Each page stands before the first delivery that names it. While a segment is open, what was added at once is
//! followed by `{"check":<CRC-32>}`, since no leaf has its digest yet.

use std::collections::HashSet;

use serde::Deserialize;
use serde::Serialize;

use crate::domain::Delivery;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::Page;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::SkillUri;
use crate::domain::Timestamp;
use crate::domain::Wanted;

use super::Error;
use super::NewDelivery;
use crate::store::index::SegmentKey;

/// The first line of a segment.
#[derive(Debug, Serialize, Deserialize)]
struct First {
    segment: u64,
}

/// The line after what was added at once.
#[derive(Debug, Serialize, Deserialize)]
struct Check {
    check: u32,
}

/// One line.
#[derive(Debug)]
pub(super) enum Line {
    /// The number of the segment.
    First(u64),
    /// The checksum of the lines since the last one.
    Check(u32),
    /// A page.
    Page(Page),
    /// A delivery.
    Delivery(Box<Delivery>),
}

impl Line {
    /// Reads a line without its end.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.starts_with(b"{\"time\":") {
            serde_json::from_slice(text).ok().map(Self::Delivery)
        } else if text.starts_with(b"{\"page\":") {
            serde_json::from_slice(text).ok().map(Self::Page)
        } else if text.starts_with(b"{\"check\":") {
            let check = serde_json::from_slice(text).ok();
            check.map(|Check { check }| Self::Check(check))
        } else {
            let first = serde_json::from_slice(text).ok();
            first.map(|First { segment }| Self::First(segment))
        }
    }
}

/// What a segment holds, as far as it is written.
#[derive(Debug)]
pub(super) struct Contents {
    /// Its lines.
    pub(super) text: Vec<u8>,
    pub(super) tally: Tally,
    /// The pages that stand in it.
    pages: HashSet<Digest>,
    /// What the index says of it.
    pub(super) keys: HashSet<SegmentKey>,
}

/// How many deliveries there are, and from when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) deliveries: u64,
    /// The first and the last moment.
    pub(super) span: Option<(Timestamp, Timestamp)>,
}

/// Lines that are to be added together, or not at all.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: Vec<u8>,
    tally: Tally,
    pages: Vec<Digest>,
    keys: HashSet<SegmentKey>,
}

impl Tally {
    pub(super) fn count(&mut self, time: Timestamp) {
        self.deliveries += 1;
        let (from, until) = self.span.unwrap_or((time, time));
        self.span = Some((from.min(time), until.max(time)));
    }

    fn add(&mut self, other: Self) {
        self.deliveries += other.deliveries;
        self.span = match (self.span, other.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, None) | (None, one) => one,
        };
    }
}

impl Contents {
    /// An empty segment.
    pub(super) fn new(segment: u64) -> Self {
        Self {
            text: first_line(segment),
            tally: Tally::default(),
            pages: HashSet::new(),
            keys: HashSet::new(),
        }
    }

    /// Gives the segment another number.
    pub(super) fn number(&mut self, segment: u64) {
        self.text = [&first_line(segment), self.lines()].concat();
    }

    /// The lines after the first.
    pub(super) fn lines(&self) -> &[u8] {
        let end = self.text.iter().position(|byte| *byte == b'\n');
        self.text.get(end.map_or(0, |end| end + 1)..).unwrap_or_default()
    }

    /// Adds a delivery to a draft, with its page if no line has that yet.
    pub(super) fn draft(&self, draft: &mut Draft, new: &NewDelivery) {
        if let Some(page) = new.page.as_deref()
            && !self.pages.contains(&page.page)
            && !draft.pages.contains(&page.page)
        {
            draft.line(page);
            draft.pages.push(page.page);
            draft.keys.extend(page_keys(page));
        }
        draft.line(&new.delivery);
        draft.keys.extend(delivery_keys(&new.delivery));
        draft.tally.count(new.delivery.time);
    }

    /// Takes in what was written.
    pub(super) fn adopt(&mut self, draft: Draft) {
        self.text.extend_from_slice(&draft.text);
        self.tally.add(draft.tally);
        self.pages.extend(draft.pages);
        self.keys.extend(draft.keys);
    }

    /// Takes in a line that stands in an open segment already.
    pub(super) fn take(&mut self, text: &[u8], line: &Line) {
        match line {
            Line::First(_) | Line::Check(_) => return,
            Line::Page(page) => {
                self.pages.insert(page.page);
                self.keys.extend(page_keys(page));
            }
            Line::Delivery(delivery) => {
                self.keys.extend(delivery_keys(delivery));
                self.tally.count(delivery.time);
            }
        }
        self.text.extend_from_slice(text);
        self.text.push(b'\n');
    }
}

impl Draft {
    /// Has its lines written with their checksum behind them, as they stand in an open segment.
    pub(super) fn checked(&mut self, write: impl FnOnce(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let (check, len) = (crc32fast::hash(&self.text), self.text.len());
        self.line(&Check { check });
        let written = write(&self.text);
        self.text.truncate(len);
        written
    }

    fn line(&mut self, value: &impl Serialize) {
        // Writing into memory cannot fail, and every member is text or a number.
        let _infallible = serde_json::to_writer(&mut self.text, value).is_ok();
        self.text.push(b'\n');
    }
}

fn first_line(segment: u64) -> Vec<u8> {
    let mut line = serde_json::to_vec(&First { segment }).unwrap_or_default();
    line.push(b'\n');
    line
}

/// What the index says of the segment of a delivery.
pub(super) fn delivery_keys(delivery: &Delivery) -> impl Iterator<Item = SegmentKey> {
    let skill = delivery.label.as_ref().zip(delivery.skill.as_ref());
    [
        Some(caller_key(&delivery.caller)),
        delivery.digest.map(digest_key),
        delivery.set.map(set_key),
        skill.map(|(label, uri)| skill_key(label, uri)),
    ]
    .into_iter()
    .flatten()
}

/// What the index says of the segment of a page.
pub(super) fn page_keys(page: &Page) -> impl Iterator<Item = SegmentKey> {
    let keys = page.skills.iter().map(|listed| {
        let SkillKey { label, uri } = &listed.skill;
        [set_key(listed.set), skill_key(label, uri)]
    });
    keys.flatten()
}

/// The keys of which every segment has at least one that holds anything wanted: one list for each thing that is named.
pub(super) fn wanted_keys(wanted: &Wanted) -> Vec<Vec<SegmentKey>> {
    let callers = wanted.callers.as_ref();
    [
        wanted.digest.map(|digest| vec![digest_key(digest)]),
        wanted.set.map(|set| vec![set_key(set)]),
        wanted
            .skill
            .as_ref()
            .map(|SkillKey { label, uri }| vec![skill_key(label, uri)]),
        callers.map(|callers| callers.iter().map(|caller| caller_key(caller)).collect()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn digest_key(digest: Digest) -> SegmentKey {
    key(b'd', digest.as_bytes())
}

fn set_key(set: SetId) -> SegmentKey {
    key(b't', set.as_bytes())
}

fn skill_key(label: &Label, uri: &SkillUri) -> SegmentKey {
    let bytes = label.as_str().bytes().chain(*b" ").chain(uri.as_str().bytes());
    key(b's', &fnv(bytes))
}

fn caller_key(commitment: &str) -> SegmentKey {
    key(b'c', &fnv(commitment.bytes()))
}

/// FNV-1a with 64 bits. Two that have the same lead to a segment too many and to no wrong answer, so that it need not be
/// hard to find some.
fn fnv(bytes: impl Iterator<Item = u8>) -> [u8; 8] {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, mix).to_be_bytes()
}

/// The kind, and the first eight bytes of a hash.
fn key(kind: u8, hash: &[u8]) -> SegmentKey {
    let mut key = [kind; size_of::<SegmentKey>()];
    key.iter_mut().skip(1).zip(hash).for_each(|(to, from)| *to = *from);
    key
}
