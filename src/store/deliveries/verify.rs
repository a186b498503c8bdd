//! Checks all deliveries against the log: each segment that a leaf names, and that there is no other.
//!
//! Imports its parent. Nothing is changed.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::Serialize;

use super::lines::Line;
use super::lines::Tally;
use super::lines::delivery_keys;
use super::lines::page_keys;
use super::query::each_line;
use super::*;
use crate::store::Progress;
use crate::store::index::SegmentKey;

/// Faults that are told one by one.
const FAULTS_TOLD: usize = 1_000;

/// What a check of all deliveries found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveriesReport {
    /// Segments that are as they were sealed.
    pub segments: u64,
    /// Deliveries in them.
    pub deliveries: u64,
    /// What is wrong, by segment; the first thousand.
    pub faults: Vec<SegmentFault>,
}

/// One thing that is wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentFault {
    /// The segment's number.
    pub segment: u64,
    /// The index of the leaf that names it, if one does.
    pub leaf: Option<u64>,
    /// What it is.
    pub why: String,
}

impl SegmentFault {
    pub(super) fn new(segment: u64, leaf: Option<u64>, why: impl Into<String>) -> Self {
        Self {
            segment,
            leaf,
            why: why.into(),
        }
    }
}

impl DeliveriesReport {
    /// Says whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    fn fault(&mut self, segment: u64, leaf: Option<u64>, why: impl Into<String>) {
        if self.faults.len() < FAULTS_TOLD {
            self.faults.push(SegmentFault::new(segment, leaf, why));
        }
    }
}

impl Deliveries {
    /// Reads every segment, and compares its digest, its number, its deliveries, their times and the index.
    pub(in crate::store) fn verify(
        &self,
        log: &Log,
        index: &Index,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<DeliveriesReport, Error> {
        self.hear(log)?;
        let mut report = DeliveriesReport {
            faults: self.damage().into_iter().collect(),
            ..DeliveriesReport::default()
        };
        let sealed = self.without_strangers(&mut report)?;
        let total = sealed.iter().map(|(_, sealed)| sealed.deliveries).sum();
        for (segment, sealed) in sealed {
            match self.check(index, segment, &sealed)? {
                Ok(()) => {
                    report.segments += 1;
                    report.deliveries += sealed.deliveries;
                }
                Err(_) if !self.is_kept(segment) => {}
                Err(why) => report.fault(segment, Some(sealed.leaf), why),
            }
            progress(Progress {
                done: report.deliveries,
                total,
            });
        }
        report.faults.sort_by_key(|fault| fault.segment);
        Ok(report)
    }

    /// The segments that leaves name; files that none names are reported.
    fn without_strangers(&self, report: &mut DeliveriesReport) -> Result<Vec<(u64, SealedSegment)>, Error> {
        // Nothing is sealed in between: a segment has its file before its leaf.
        let writer = self.writer.lock();
        let known = self.known.read();
        let Some(known) = known.as_ref() else {
            return Ok(Vec::new());
        };
        let open = writer.open.as_ref().map(|open| open.segment);
        for segment in filed(&self.dir)? {
            if !known.segments.contains_key(&segment) && Some(segment) != open {
                report.fault(segment, None, "no leaf of the log names it");
            }
        }
        Ok(known
            .segments
            .iter()
            .map(|(segment, sealed)| (*segment, *sealed))
            .collect())
    }

    fn check(&self, index: &Index, segment: u64, sealed: &SealedSegment) -> Result<Result<(), String>, Error> {
        let packed = match self.packed(segment, sealed)? {
            Ok(packed) => packed,
            Err(why) => return Ok(Err(why)),
        };
        let mut seen = Seen {
            tally: Tally::default(),
            number: None,
            keys: HashSet::new(),
            is_indexed: index.indexed().is_some_and(|indexed| segment < indexed.next),
        };
        let mut wrong = None;
        let read = each_line(&packed, &mut |text| match Line::parse(text) {
            None => {
                wrong = Some("it has a line that is none".to_owned());
                ControlFlow::Break(())
            }
            Some(line) => {
                seen.take(&line);
                ControlFlow::Continue(())
            }
        });
        if let Some(why) = read.err().or(wrong) {
            return Ok(Err(why));
        }
        let why = if packed.len() as u64 != sealed.bytes {
            "its file does not have the bytes that its leaf says"
        } else if seen.number != Some(segment) {
            "it says that it is another segment"
        } else if seen.tally.deliveries != sealed.deliveries || seen.tally.span != Some((sealed.from, sealed.until)) {
            "its deliveries are not those that its leaf says"
        } else if seen.is_indexed && !index.has_segment(segment, &seen.keys) {
            "the index leaves something of it out; rebuild-index makes it anew"
        } else {
            return Ok(Ok(()));
        };
        Ok(Err(why.to_owned()))
    }
}

/// What a segment turned out to hold.
struct Seen {
    tally: Tally,
    number: Option<u64>,
    /// What the index should say of it, if it covers it.
    keys: HashSet<SegmentKey>,
    is_indexed: bool,
}

impl Seen {
    fn take(&mut self, line: &Line) {
        match line {
            Line::First(number) => self.number = Some(*number),
            Line::Page(page) if self.is_indexed => self.keys.extend(page_keys(page)),
            Line::Page(_) | Line::Check(_) => {}
            Line::Delivery(delivery) => {
                self.tally.count(delivery.time);
                if self.is_indexed {
                    self.keys.extend(delivery_keys(delivery));
                }
            }
        }
    }
}
