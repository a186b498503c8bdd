//! Re-checks the whole audit log against itself, and against what an auditor kept of it (design §7).
//!
//! Imports `log`, `journal`, `key` and `domain`. Nothing is changed.

use std::collections::HashMap;

use serde::Serialize;

use super::durable;
use super::error::Error;
use super::journal;
use super::journal::Flaw;
use super::journal::Frame;
use super::key::Keys;
use super::log;
use super::log::Core;
use super::log::Log;
use super::scrub::Progress;
use crate::domain::SkillKey;
use crate::domain::audit::Event;
use crate::domain::audit::Leaf;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::Tree;
use crate::domain::audit::VerifierKey;

/// What an auditor compares the log with.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// A checkpoint of it that was kept elsewhere.
    pub checkpoint: Option<Vec<u8>>,
    /// A key of it that was kept elsewhere.
    pub key: Option<VerifierKey>,
}

/// What a check of the log found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// Leaves that are as they were written.
    pub leaves: u64,
    /// Signed checkpoints that cover exactly what they say.
    pub checkpoints: u64,
    /// Keys that signed them, one after the other.
    pub keys: u64,
    /// What is wrong, the earliest leaf first.
    pub faults: Vec<LogFault>,
}

/// One thing that is wrong with the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogFault {
    /// The first leaf that it concerns.
    pub index: u64,
    /// What it is.
    pub why: String,
}

/// What is known after some frames.
struct Pass {
    tree: Tree,
    keys: Keys,
    last: HashMap<SkillKey, u64>,
    report: LogReport,
}

impl LogReport {
    /// Says whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    fn fault(&mut self, index: u64, why: impl Into<String>) {
        self.faults.push(LogFault { index, why: why.into() });
    }
}

impl Log {
    /// Checks frames, leaves, chains, every checkpoint, tiles and head, and that all of it goes on from what was kept.
    pub(super) fn verify(&self, kept: &Kept, progress: &mut dyn FnMut(Progress)) -> Result<LogReport, Error> {
        // What is merely about to follow the journal is no fault.
        self.settle();
        let core = &self.core;
        let mut pass = core.verify_journal(progress)?;
        core.verify_recovered(&mut pass);
        core.verify_shown(&mut pass.report)?;
        pass.verify_kept(kept);
        pass.report.keys = pass.keys.each().count() as u64;
        pass.report.faults.sort_by_key(|fault| fault.index);
        Ok(pass.report)
    }
}

impl Core {
    fn verify_journal(&self, progress: &mut dyn FnMut(Progress)) -> Result<Pass, Error> {
        let (len, size, mut pass) = {
            let state = self.state.read();
            (state.bytes, state.size, Pass::new(&state.keys))
        };
        let mut at = 0;
        while at < len {
            let index = pass.tree.size();
            match journal::read(&self.reader, at, len, index) {
                Ok((frame, next)) => {
                    pass.take(&frame);
                    at = next;
                }
                Err(Flaw::Unreadable(error)) => return Err(error),
                Err(Flaw::Incomplete) => pass.report.fault(index, "the journal is cut short"),
                Err(Flaw::Damaged(why)) => pass.report.fault(index, why),
            }
            if !pass.report.is_sound() {
                break;
            }
            progress(Progress {
                done: pass.tree.size(),
                total: size,
            });
        }
        Ok(pass)
    }

    /// Compares the journal as it lies there with what was recovered at start.
    fn verify_recovered(&self, pass: &mut Pass) {
        let size = pass.tree.size();
        if pass.report.is_sound() && self.state.read().tree.root_at(size) != pass.tree.root_at(size) {
            pass.report
                .fault(0, "the journal is not the one that was recovered at start");
        }
    }

    /// Compares tiles, checkpoint and head with the leaves that they were made from. They stand still meanwhile.
    fn verify_shown(&self, report: &mut LogReport) -> Result<(), Error> {
        let shown = self.shown.lock();
        let size = shown.tiles.unwrap_or_else(|| self.state.read().size);
        let tiles = self.tiles(&mut |tiles| {
            tiles.each_wrong(size, &mut |path, expected, index| {
                let what = if expected.is_some() {
                    "missing or different"
                } else {
                    "none of the log's"
                };
                report.fault(index, format!("the tile {} is {what}", path.display()));
                Ok(())
            })
        });
        if let Err(error) = tiles {
            report.fault(size, format!("the tiles cannot be compared: {error}"));
        }
        self.verify_checkpoints(size, report)
    }

    fn verify_checkpoints(&self, size: u64, report: &mut LogReport) -> Result<(), Error> {
        for path in [&self.places.checkpoint, &self.places.head] {
            let note = durable::read(path, log::MAX_NOTE_BYTES)?.unwrap_or_default();
            let (name, state) = (path.display(), self.state.read());
            match state.keys.open(&note) {
                Err(why) => report.fault(0, format!("{name}: {why}")),
                Ok(at) if at.size > state.size => report.fault(
                    state.size,
                    format!("{name} covers {} leaves, but the log has {}", at.size, state.size),
                ),
                Ok(at) if state.tree.root_at(at.size) != Some(at.root) => {
                    report.fault(0, format!("{name} covers other leaves than the log's"));
                }
                Ok(at) if at.size < size => {
                    report.fault(at.size, format!("{name} covers only {} of {size} leaves", at.size));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

impl Pass {
    /// Before the first frame; the log's first key is known from its recovery.
    fn new(keys: &Keys) -> Self {
        Self {
            tree: Tree::default(),
            keys: keys.first(),
            last: HashMap::new(),
            report: LogReport::default(),
        }
    }

    /// Takes in one frame.
    fn take(&mut self, frame: &Frame) {
        let mut rotation = None;
        for (index, bytes) in (frame.first..).zip(&frame.leaves) {
            let leaf = match log::read_leaf(index, bytes) {
                Ok(leaf) => leaf,
                Err(error) => return self.report.fault(index, error.to_string()),
            };
            if rotation.is_some() {
                return self
                    .report
                    .fault(index, "it follows a rotation of the key in the same batch");
            }
            if !self.is_next_of_its_skill(index, &leaf) {
                return;
            }
            if let Event::KeyRotated { from, to } = leaf.event {
                rotation = Some((from, to));
            }
            self.tree.push(bytes);
        }
        self.take_note(frame);
        if let Some((from, to)) = rotation {
            let size = self.tree.size();
            if let Err(why) = self.keys.rotate(size, &from, &to) {
                self.report.fault(size - 1, why);
            }
        }
    }

    /// Compares what a leaf says of the one before it about the same skill.
    fn is_next_of_its_skill(&mut self, index: u64, leaf: &Leaf) -> bool {
        let skill = leaf.event.skill();
        let expected = skill.and_then(|skill| self.last.insert(skill.clone(), index));
        if leaf.prev != expected {
            let why = format!("it names {:?} as the leaf before it, not {expected:?}", leaf.prev);
            self.report.fault(index, why);
        }
        leaf.prev == expected
    }

    fn take_note(&mut self, frame: &Frame) {
        let size = self.tree.size();
        match self.keys.open_frame(&frame.note) {
            Err(why) => self.report.fault(frame.first, format!("its checkpoint: {why}")),
            Ok(at) if at.size != size || self.tree.root_at(size) != Some(at.root) => {
                self.report.fault(frame.first, "its checkpoint covers other leaves");
            }
            Ok(_) => {
                self.report.checkpoints += 1;
                self.report.leaves = size;
            }
        }
    }

    /// Compares the log with what an auditor kept of it.
    fn verify_kept(&mut self, kept: &Kept) {
        if let Some(key) = kept.key.as_ref().filter(|key| !self.keys.knows(key)) {
            let current = self.keys.current();
            self.report.fault(
                0,
                format!("the log is signed by {current}, which {key} never handed over to"),
            );
        }
        let Some(bytes) = &kept.checkpoint else { return };
        match self.kept_checkpoint(bytes) {
            Err(why) => self.report.fault(0, format!("the checkpoint kept: {why}")),
            Ok((size, _)) if size > self.tree.size() => {
                let has = self.tree.size();
                let why = format!(
                    "the checkpoint kept covers {size} leaves: leaves {has} to {} are missing",
                    size - 1
                );
                self.report.fault(has, why);
            }
            Ok((size, root)) if self.tree.root_at(size) != Some(root) => {
                let why = format!("the checkpoint kept covers other leaves: history was rewritten before leaf {size}");
                self.report.fault(0, why);
            }
            Ok(_) => {}
        }
    }

    /// What a checkpoint says that was kept elsewhere, whoever cosigned it.
    fn kept_checkpoint(&self, bytes: &[u8]) -> Result<(u64, crate::domain::audit::TreeHash), String> {
        let signed = SignedCheckpoint::parse(bytes).map_err(|why| why.to_string())?;
        let of_log = self.keys.each().any(|key| signed.verify_log(key).is_ok());
        if of_log {
            Ok((signed.checkpoint().size, signed.checkpoint().root))
        } else {
            Err("no key of this log has signed it".to_owned())
        }
    }
}
