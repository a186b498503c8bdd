//! Re-checks the whole audit log against itself (design §7).
//!
//! Imports `log`, `journal` and `domain`. Nothing is changed.

use std::collections::HashMap;

use serde::Serialize;

use super::durable;
use super::error::Error;
use super::journal;
use super::journal::Flaw;
use super::journal::Frame;
use super::log;
use super::log::Log;
use super::log::State;
use super::scrub::Progress;
use crate::domain::SkillKey;
use crate::domain::audit::Tree;

/// What a check of the log found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// Leaves that are as they were written.
    pub leaves: u64,
    /// Signed checkpoints that cover exactly what they say.
    pub checkpoints: u64,
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
#[derive(Default)]
struct Pass {
    tree: Tree,
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
    /// Checks frames, leaves, chains, every checkpoint, tiles and head.
    pub(super) fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<LogReport, Error> {
        let mut pass = self.verify_journal(progress)?;
        // Nobody appends while what follows the journal is compared with it.
        let _writer = self.writer.lock();
        let state = self.state.read();
        let report = &mut pass.report;
        let root = pass.tree.root_at(pass.tree.size());
        if report.is_sound() && state.tree.root_at(pass.tree.size()) != root {
            report.fault(0, "the journal is not the one that was recovered at start");
        }
        let tiles = self.tiles(&state, &mut |tiles| {
            tiles.each_wrong(state.size, &mut |path, expected, index| {
                let what = if expected.is_some() {
                    "missing or different"
                } else {
                    "none of the log's"
                };
                report.fault(index, format!("{} is {what}", path.display()));
                Ok(())
            })
        });
        if let Err(error) = tiles {
            report.fault(pass.tree.size(), format!("the tiles cannot be compared: {error}"));
        }
        self.verify_checkpoints(&state, report)?;
        report.faults.sort_by_key(|fault| fault.index);
        Ok(pass.report)
    }

    fn verify_journal(&self, progress: &mut dyn FnMut(Progress)) -> Result<Pass, Error> {
        let (len, size) = {
            let state = self.state.read();
            (state.bytes, state.size)
        };
        let mut pass = Pass::default();
        let mut at = 0;
        while at < len {
            let index = pass.tree.size();
            match journal::read(&self.reader, at, len, index) {
                Ok((frame, next)) => {
                    pass.take(self, &frame);
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

    fn verify_checkpoints(&self, state: &State, report: &mut LogReport) -> Result<(), Error> {
        for path in [&self.places.checkpoint, &self.places.head] {
            let note = durable::read(path, log::MAX_NOTE_BYTES)?.unwrap_or_default();
            let name = path.display();
            match self.key.open(&note) {
                Err(why) => report.fault(0, format!("{name}: {why}")),
                Ok(at) if at.size > state.size => report.fault(
                    state.size,
                    format!("{name} covers {} leaves, but the log has {}", at.size, state.size),
                ),
                Ok(at) if state.tree.root_at(at.size) != Some(at.root) => {
                    report.fault(0, format!("{name} covers other leaves than the log's"));
                }
                Ok(at) if at.size < state.size => {
                    report.fault(
                        at.size,
                        format!("{name} covers only {} of {} leaves", at.size, state.size),
                    );
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

impl Pass {
    /// Takes in one frame.
    fn take(&mut self, log: &Log, frame: &Frame) {
        for (index, bytes) in (frame.first..).zip(&frame.leaves) {
            match log::read_leaf(index, bytes) {
                Err(error) => return self.report.fault(index, error.to_string()),
                Ok(leaf) => {
                    let expected = leaf
                        .event
                        .skill()
                        .and_then(|skill| self.last.insert(skill.clone(), index));
                    if leaf.prev != expected {
                        let why = format!("it names {:?} as the leaf before it, not {expected:?}", leaf.prev);
                        return self.report.fault(index, why);
                    }
                }
            }
            self.tree.push(bytes);
        }
        let size = self.tree.size();
        match log.key.open(&frame.note) {
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
}
