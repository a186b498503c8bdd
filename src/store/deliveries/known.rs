//! What the audit log says of the segments.
//!
//! Imports `domain`. A segment counts when its leaf does: the leaf has its digest, so that no other file can stand for it.

use std::collections::BTreeMap;

use crate::domain::Digest;
use crate::domain::Timestamp;
use crate::domain::audit::Event;

/// What a leaf says of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SealedSegment {
    /// The index of the leaf.
    pub(super) leaf: u64,
    pub(super) digest: Digest,
    pub(super) deliveries: u64,
    pub(super) bytes: u64,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// The segments that there are by the log.
#[derive(Debug, Default)]
pub(in crate::store) struct Known {
    /// Those that were not removed.
    pub(super) segments: BTreeMap<u64, SealedSegment>,
    /// The first number that no leaf names.
    pub(super) next: u64,
    /// The first number that was not removed.
    pub(super) kept_from: u64,
    /// Bytes of those that were not removed.
    pub(super) bytes: u64,
}

impl Known {
    /// Takes in what a leaf says.
    pub(in crate::store) fn hear(&mut self, leaf: u64, event: &Event) {
        if let Event::Sealed {
            segment,
            digest,
            deliveries,
            bytes,
            from,
            until,
        } = event
        {
            let sealed = SealedSegment {
                leaf,
                digest: *digest,
                deliveries: *deliveries,
                bytes: *bytes,
                from: *from,
                until: *until,
            };
            self.segments.insert(*segment, sealed);
            self.bytes = self.bytes.saturating_add(*bytes);
            self.next = self.next.max(segment.saturating_add(1));
        }
        if let Event::SegmentsRemoved { first: _, last, .. } = event {
            self.kept_from = self.kept_from.max(last.saturating_add(1));
            let kept = self.segments.split_off(&self.kept_from);
            let gone: u64 = self.segments.values().map(|segment| segment.bytes).sum();
            self.bytes = self.bytes.saturating_sub(gone);
            self.segments = kept;
        }
    }
}
