//! What an earlier process left in `open` becomes a segment, once.
//!
//! Imports its parent. The first line of `open` says which segment it becomes. One that a leaf names is sealed, and `open`
//! is a left-over. One whose file begins as `open` does was about to get its leaf, and gets it. Anything else is sealed now.
//! A torn end is what the end of a process or of power leaves; a line that is not whole before others that are is damage.

use std::ops::ControlFlow;

use super::lines::Line;
use super::query::each_line;
use super::*;

/// What lies in `open`.
struct Left {
    /// The segment that it becomes; nothing when its first line cannot be relied on.
    segment: Option<u64>,
    contents: Contents,
    /// The lines before the first that is none.
    leading: Vec<u8>,
    /// The last line that is whole.
    last: Vec<u8>,
    /// Bytes up to the end of the last line.
    whole: u64,
    /// Whether something is not what was written.
    is_damaged: bool,
}

/// The lines of `open` as they are gone through.
#[derive(Default)]
struct Pass<'a> {
    segment: Option<u64>,
    /// The lines, but for those about them.
    lines: Vec<(&'a [u8], Line)>,
    /// How many stand before the first that is none.
    leading: Option<usize>,
    /// Since the last checksum.
    hasher: crc32fast::Hasher,
    batches: usize,
    is_damaged: bool,
}

impl Deliveries {
    /// Puts right what an earlier process left. Without room that is put off; deliveries wait until it is done.
    pub(in crate::store) fn recover(&self, log: &Log, index: &Index, now: Timestamp) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        match self.recover_if_needed(log, index, &mut writer, now) {
            Err(error @ Error::NoSpace { .. }) => {
                tracing::error!(%error, "the deliveries before the last end are not sealed yet");
                Ok(())
            }
            done => done,
        }
    }

    pub(super) fn recover_if_needed(
        &self,
        log: &Log,
        index: &Index,
        writer: &mut Writer,
        now: Timestamp,
    ) -> Result<(), Error> {
        if writer.is_recovered {
            return Ok(());
        }
        self.hear(log)?;
        self.remove_retired()?;
        self.match_index(index);
        let (files, next) = (filed(&self.dir)?, self.next());
        let left = self.left()?;
        let mut file = self.disk.appender(&self.open_path())?;
        let segment = match &left {
            Some(left) => self.becomes(left, next)?,
            None => None,
        };
        let strays = files
            .iter()
            .filter(|number| **number >= next && Some(**number) != segment);
        writer.taken_below = strays.max().map_or(0, |number| number.saturating_add(1));
        match left.zip(segment) {
            Some((left, segment)) => {
                if file.len() > left.whole {
                    file.cut(&self.disk, left.whole)?;
                }
                writer.open = Some(self.opened(left, segment, files.contains(&segment))?);
            }
            None if file.len() > 0 => file.cut(&self.disk, 0)?,
            None => {}
        }
        writer.file = Some(file);
        writer.is_recovered = true;
        self.seal_in(log, index, writer, now)
    }

    /// The segment that what was left becomes; none when it is sealed, or has no delivery.
    fn becomes(&self, left: &Left, next: u64) -> Result<Option<u64>, Error> {
        if left.contents.tally.deliveries == 0 {
            if left.is_damaged && left.segment.is_none_or(|segment| segment >= next) {
                self.name_damage(next);
            }
            return Ok(None);
        }
        match left.segment {
            Some(segment) => Ok((segment >= next).then_some(segment)),
            None => Ok((!self.is_sealed(next, &left.last)?).then_some(next)),
        }
    }

    /// Says whether the segment before `next` ends with a line.
    fn is_sealed(&self, next: u64, last: &[u8]) -> Result<bool, Error> {
        let Some(before) = next.checked_sub(1) else {
            return Ok(false);
        };
        let Some(packed) = durable::read(&self.path(before), MAX_SEGMENT_BYTES)? else {
            return Ok(false);
        };
        let mut end = Vec::new();
        let read = each_line(&packed, &mut |text| {
            end.clear();
            end.extend_from_slice(text);
            ControlFlow::Continue(())
        });
        Ok(read.is_ok() && end == last)
    }

    /// The open segment again, at the stage that it had.
    fn opened(&self, left: Left, segment: u64, has_file: bool) -> Result<Open, Error> {
        let mut open = Open {
            contents: left.contents,
            ..Open::new(segment)
        };
        open.contents.number(segment);
        if has_file && let Some((packed, contents)) = self.filed_as(segment, &left.leading)? {
            open.contents = contents;
            open.stage = Stage::Filed {
                digest: Digest::of(&packed),
                bytes: packed.len() as u64,
            };
        } else if left.is_damaged {
            open.note = Some(self.name_damage(segment));
        }
        let deliveries = open.contents.tally.deliveries;
        tracing::info!(segment, deliveries, "deliveries before the last end are sealed");
        Ok(open)
    }

    /// Says that not all of what was left of a segment is whole, here and in every check of this process.
    fn name_damage(&self, segment: u64) -> String {
        let why = "not all of it was what was written when it was sealed by a start".to_owned();
        tracing::error!(segment, "deliveries/open was damaged; what is whole of it is sealed");
        *self.damage.lock() = Some(SegmentFault::new(segment, None, why.clone()));
        why
    }

    /// The file of a segment that no leaf names, if it is the one that was made of `leading`.
    fn filed_as(&self, segment: u64, leading: &[u8]) -> Result<Option<(Vec<u8>, Contents)>, Error> {
        let Some(packed) = durable::read(&self.path(segment), MAX_SEGMENT_BYTES)? else {
            return Ok(None);
        };
        let mut contents = Contents::new(segment);
        let mut is_whole = true;
        let read = each_line(&packed, &mut |text| {
            match Line::parse(text) {
                Some(Line::First(number)) => is_whole &= number == segment,
                Some(line) => contents.take(text, &line),
                None => is_whole = false,
            }
            ControlFlow::Continue(())
        });
        let is_ours = read.is_ok() && is_whole && contents.lines().starts_with(leading);
        Ok(is_ours.then_some((packed, contents)))
    }

    /// What lies in `open`, if anything does.
    fn left(&self) -> Result<Option<Left>, Error> {
        let Some(bytes) = durable::read(&self.open_path(), MAX_SEGMENT_BYTES)? else {
            return Ok(None);
        };
        let (mut pass, mut whole) = (Pass::default(), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if let Some(text) = line.strip_suffix(b"\n") {
                whole += line.len() as u64;
                pass.take(text);
            }
        }
        Ok((!bytes.is_empty()).then(|| pass.left(whole)))
    }
}

impl<'a> Pass<'a> {
    fn take(&mut self, text: &'a [u8]) {
        match Line::parse(text) {
            Some(Line::Check(check)) => {
                let hasher = std::mem::take(&mut self.hasher);
                if hasher.finalize() != check {
                    self.damaged();
                }
                self.batches += 1;
                return;
            }
            Some(Line::First(segment)) => self.segment = Some(segment),
            Some(line) => self.lines.push((text, line)),
            None => self.damaged(),
        }
        self.hasher.update(text);
        self.hasher.update(b"\n");
    }

    fn damaged(&mut self) {
        if self.batches == 0 {
            self.segment = None;
        }
        self.leading.get_or_insert(self.lines.len());
        self.is_damaged = true;
    }

    fn left(self, whole: u64) -> Left {
        let mut contents = Contents::new(0);
        let mut leading = None;
        for (at, (text, line)) in self.lines.iter().enumerate() {
            if self.leading == Some(at) {
                leading = Some(contents.lines().to_vec());
            }
            contents.take(text, line);
        }
        Left {
            segment: self.segment,
            leading: leading.unwrap_or_else(|| contents.lines().to_vec()),
            last: self.lines.last().map(|(text, _)| text.to_vec()).unwrap_or_default(),
            contents,
            whole,
            is_damaged: self.is_damaged,
        }
    }
}
