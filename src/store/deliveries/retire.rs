//! Old segments leave: on the record first, then from the disk.
//!
//! Imports its parent. The leaves that sealed them stay, so that the log still says what there was.

use std::time::Duration;

use super::*;

/// For how long segments are kept; what is not named bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// How old the last delivery in a segment may be.
    pub age: Option<Duration>,
    /// Bytes of all segments.
    pub bytes: Option<u64>,
}

/// Segments that leave at once: nothing is written meanwhile.
const AT_ONCE: usize = 256;

impl Deliveries {
    /// Removes some of the oldest segments that are kept no longer; says how many. There may be more unless it is none.
    pub(in crate::store) fn retire(&self, log: &Log, index: &Index, keep: Keep, now: Timestamp) -> Result<u64, Error> {
        let mut writer = self.writer.lock();
        self.recover_if_needed(log, index, &mut writer, now)?;
        let mut removed = 0;
        for (last, reason) in [(self.too_old(keep, now), "age"), (self.too_much(keep), "size")] {
            let Some(last) = last else { continue };
            let gone = self.up_to(last);
            let Some(((first, _), (last, _))) = gone.first().zip(gone.last()) else {
                continue;
            };
            let event = Event::SegmentsRemoved {
                first: *first,
                last: *last,
                reason: reason.to_owned(),
            };
            let keys: Vec<_> = gone
                .iter()
                .map(|(segment, sealed)| (*segment, self.keys_of(*segment, sealed)))
                .collect();
            self.append(log, event, None, now)?;
            index.forget_segments(&keys);
            removed += gone.len() as u64;
        }
        if removed > 0 {
            self.remove_retired()?;
        }
        Ok(removed)
    }

    /// Removes the files that a leaf said leave.
    pub(super) fn remove_retired(&self) -> Result<(), Error> {
        let kept_from = self.known.read().as_ref().map_or(0, |known| known.kept_from);
        for segment in filed(&self.dir)?.into_iter().filter(|segment| *segment < kept_from) {
            self.disk.remove(&self.path(segment))?;
        }
        Ok(())
    }

    /// The last of the oldest segments whose deliveries are all too old.
    fn too_old(&self, keep: Keep, now: Timestamp) -> Option<u64> {
        let age = keep.age?;
        let known = self.known.read();
        let old = known.as_ref()?.segments.iter();
        let old = old.take_while(|(_, sealed)| sealed.until.checked_add(age).is_some_and(|end| end < now));
        old.last().map(|(segment, _)| *segment)
    }

    /// The last of the oldest segments that there is no room for.
    fn too_much(&self, keep: Keep) -> Option<u64> {
        let limit = keep.bytes?;
        let known = self.known.read();
        let known = known.as_ref()?;
        let mut bytes = known.bytes;
        let over = known.segments.iter().take_while(|(_, sealed)| {
            let is_over = bytes > limit;
            bytes = bytes.saturating_sub(sealed.bytes);
            is_over
        });
        over.last().map(|(segment, _)| *segment)
    }

    /// The oldest segments up to one, some at once.
    fn up_to(&self, last: u64) -> Vec<(u64, SealedSegment)> {
        let known = self.known.read();
        let segments = known.iter().flat_map(|known| known.segments.range(..=last));
        segments
            .take(AT_ONCE)
            .map(|(segment, sealed)| (*segment, *sealed))
            .collect()
    }
}
