//! The audit log: append, rotate the key, let what shows it follow (design §7).
//!
//! Imports `commit`, `follow`, `journal`, `key`, `recover`, `tiles`, `durable` and `domain::audit`. The journal is the truth,
//! and "durable" means that a frame was flushed to it. Tiles and `log/checkpoint` are made from it afterwards;
//! `head/checkpoint` is what we last vouched for, never ahead of the journal, so that a log which was cut or replaced by an
//! older one is refused at start. Lock order: the queue, then `writer`, then `shown`, then `cosigned`, then `state`; nobody holds `state`
//! across a write.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use parking_lot::RwLock;
use tlog_tiles::tlog::HashReader as _;

use super::commit::Answer;
use super::commit::Batch;
use super::commit::Queue;
use super::durable;
use super::durable::Appender;
use super::durable::Disk;
use super::durable::Place;
use super::error::Error;
use super::follow::Follower;
use super::journal;
use super::key;
use super::key::Keys;
use super::recover;
use super::tiles::Hashes;
use super::tiles::Tiles;
use crate::domain::SkillKey;
use crate::domain::Timestamp;
use crate::domain::audit;
use crate::domain::audit::Actor;
use crate::domain::audit::Checkpoint;
use crate::domain::audit::Event;
use crate::domain::audit::Leaf;
use crate::domain::audit::NoteKey;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::TileName;
use crate::domain::audit::Tree;

/// Bytes of keys and checkpoints that are read.
pub(super) const MAX_NOTE_BYTES: u64 = 64 * 1024;

/// What a caller says of a leaf; the log adds the time and the index of the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLeaf {
    /// Who did it.
    pub actor: Actor,
    /// What happened.
    pub event: Event,
    /// What the actor wrote about it; cut to [`audit::MAX_NOTE_CHARS`].
    pub note: Option<String>,
}

/// The audit log of one data folder.
#[derive(Debug)]
pub(super) struct Log {
    queue: Queue,
    follower: Follower,
    pub(super) core: Arc<Core>,
}

/// What the callers and the follower share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) disk: Arc<Disk>,
    pub(super) places: Places,
    pub(super) reader: File,
    pub(super) state: RwLock<State>,
    pub(super) writer: Mutex<Writer>,
    /// Held for a round of the follower.
    pub(super) shown: Mutex<Shown>,
    /// The newest checkpoint that witnesses have cosigned.
    pub(super) cosigned: RwLock<Option<SignedCheckpoint>>,
}

/// Where the log's files lie.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) log: PathBuf,
    pub(super) journal: PathBuf,
    pub(super) checkpoint: PathBuf,
    pub(super) cosigned: PathBuf,
    pub(super) head: PathBuf,
    pub(super) key: PathBuf,
    /// The key that follows, until the leaf that says so is durable.
    pub(super) next_key: PathBuf,
}

/// What readers see: only what is durable.
#[derive(Debug)]
pub(super) struct State {
    /// May have leaves beyond `size` while a frame is being written.
    pub(super) tree: Tree,
    /// Leaves that are durable.
    pub(super) size: u64,
    /// Bytes of the journal that are durable.
    pub(super) bytes: u64,
    /// Where each leaf lies in the journal, and how long it is.
    places: Vec<(u64, usize)>,
    /// The index of the last leaf about each skill.
    last: HashMap<SkillKey, u64>,
    /// The keys that signed so far.
    pub(super) keys: Keys,
    /// The checkpoint over the durable leaves.
    pub(super) note: Vec<u8>,
}

/// What only the one who writes a frame needs.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) journal: Appender,
    pub(super) key: NoteKey,
}

/// What follows the journal.
#[derive(Debug)]
pub(super) struct Shown {
    /// Leaves that the tiles show; nothing when that is not known.
    pub(super) tiles: Option<u64>,
    /// What `head/checkpoint` holds by our knowledge.
    pub(super) head: Vec<u8>,
}

/// A frame before it is written: the leaves of its batches with their indexes, times and chains.
#[derive(Default)]
struct Draft {
    leaves: Vec<(u64, Leaf)>,
    bytes: Vec<Vec<u8>>,
    /// The last leaf about each skill that the frame has one of.
    last: HashMap<SkillKey, u64>,
}

impl Log {
    /// Recovers the log, or makes an empty one at the very first start.
    pub(super) fn open(disk: Arc<Disk>, store_id: &str) -> Result<Self, Error> {
        let core = Arc::new(recover::open(disk, &format!("portcullis/{store_id}"))?);
        core.follow();
        core.load_cosigned()?;
        let of_thread = Arc::clone(&core);
        let follower = Follower::begin(move || of_thread.follow());
        let follower = follower.map_err(|source| Error::io("begin a thread for", &core.places.log, source))?;
        Ok(Self {
            queue: Queue::default(),
            follower,
            core,
        })
    }

    /// Appends a batch: when this returns, all of it survives a power cut; when it fails, nothing of it counts.
    pub(super) fn append(&self, leaves: Vec<NewLeaf>, now: Timestamp) -> Answer {
        if leaves.is_empty() {
            return Ok(Vec::new());
        }
        self.queue.append(Batch { leaves, now }, &|batches| {
            let answers = self.core.write(batches);
            self.follower.wake();
            answers
        })
    }

    /// Lets another key sign from now on. What the leaf says counts once it is durable, under a checkpoint of the old key;
    /// a start finishes what a crash cut short.
    pub(super) fn rotate_key(&self, actor: Actor, note: Option<String>, now: Timestamp) -> Result<(u64, Leaf), Error> {
        let rotated = self.core.rotate_key(actor, note, now);
        self.follower.wake();
        rotated
    }

    /// Waits until tiles, checkpoint and head have followed what is durable now.
    pub(super) fn settle(&self) {
        self.follower.settle();
    }

    /// Gives every durable leaf in order; says how many there were.
    pub(super) fn replay(&self, each: &mut dyn FnMut(u64, &Leaf)) -> Result<u64, Error> {
        let size = self.core.state.read().size;
        for index in 0..size {
            if let Some(leaf) = self.core.leaf(index)? {
                each(index, &leaf);
            }
        }
        Ok(size)
    }
}

impl Core {
    /// Writes one frame for all batches, with one flush, and answers each.
    pub(super) fn write(&self, batches: Vec<Batch>) -> Vec<Answer> {
        let mut writer = self.writer.lock();
        let mut draft = Draft::default();
        let parts: Vec<_> = batches
            .into_iter()
            .map(|batch| {
                self.disk.ensure_writing()?;
                draft.add(&self.state.read(), batch)
            })
            .collect();
        if draft.leaves.is_empty() {
            return parts.into_iter().map(|part| part.map(|_| Vec::new())).collect();
        }
        let written = self.write_frame(&mut writer, &draft);
        let answer = |part: Result<std::ops::Range<usize>, Error>| match &written {
            Ok(()) => part.map(|range| draft.leaves.get(range).unwrap_or_default().to_vec()),
            Err(error) => part.and_then(|_| Err(error.again())),
        };
        parts.into_iter().map(answer).collect()
    }

    /// Writes a frame and makes it visible; when it fails, nothing of it is.
    fn write_frame(&self, writer: &mut Writer, draft: &Draft) -> Result<(), Error> {
        let begin = writer.journal.len();
        let written = self.flush_frame(writer, &draft.bytes);
        let mut state = self.state.write();
        match written {
            Ok(note) => {
                state.adopt(begin, &draft.leaves, &draft.bytes, note);
                state.bytes = writer.journal.len();
                Ok(())
            }
            Err(error) => {
                let size = state.size;
                state.tree.cut(size);
                Err(error)
            }
        }
    }

    fn flush_frame(&self, writer: &mut Writer, leaves: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
        let (first, note) = {
            let mut state = self.state.write();
            leaves.iter().for_each(|leaf| state.tree.push(leaf));
            (state.size, sign(&writer.key, &state.tree)?)
        };
        let frame = journal::encode(first, leaves, &note)?;
        writer.journal.append(&self.disk, &frame)?;
        Ok(note)
    }

    fn rotate_key(&self, actor: Actor, note: Option<String>, now: Timestamp) -> Result<(u64, Leaf), Error> {
        let mut writer = self.writer.lock();
        self.disk.ensure_writing()?;
        let next = key::generate(writer.key.verifier().name())?;
        let (from, to) = (writer.key.verifier().to_string(), next.verifier().to_string());
        let places = &self.places;
        let secret = next.to_secret_text();
        self.disk
            .write(&places.next_key, secret.as_bytes(), durable::PRIVATE, Place::Over)?;
        let mut draft = Draft::default();
        let rotation = NewLeaf {
            actor,
            event: Event::KeyRotated {
                from: from.clone(),
                to: to.clone(),
            },
            note,
        };
        draft.push(&self.state.read(), rotation, now)?;
        // Where this fails the next key stays: what was not acknowledged may come back, and the next start decides.
        self.write_frame(&mut writer, &draft)?;
        writer.key = next;
        let mut state = self.state.write();
        let size = state.size;
        let rotated = state.keys.rotate(size, &from, &to);
        rotated.map_err(|why| Error::Leaf { why })?;
        // The old key's checkpoint is in the journal; from here on the new one is shown.
        state.note = sign(&writer.key, &state.tree)?;
        drop(state);
        if let Err(error) = places.put_key(&self.disk, &writer.key) {
            tracing::error!(%error, "the log's new key is not in its place; the next start puts it there");
        }
        draft.leaves.pop().ok_or_else(|| Error::Leaf {
            why: "the rotation has no leaf".to_owned(),
        })
    }

    /// Lets tiles, checkpoint and head follow the journal. What they follow is durable already, so that a failure here is
    /// told by the log alone; if the disk is at fault, writing has stopped.
    fn follow(&self) {
        let mut shown = self.shown.lock();
        let (size, note) = {
            let state = self.state.read();
            (state.size, state.note.clone())
        };
        let outcome = self
            .vouch(&mut shown, &note)
            .and_then(|()| self.publish(&mut shown, size, &note));
        if let Err(error) = outcome {
            tracing::error!(%error, source = ?std::error::Error::source(&error), "tiles or head do not show the last leaves");
        }
    }

    /// Moves the head, if it is still where we left it.
    fn vouch(&self, shown: &mut Shown, note: &[u8]) -> Result<(), Error> {
        if shown.head == note {
            return Ok(());
        }
        let found = durable::read(&self.places.head, MAX_NOTE_BYTES)?;
        if found.as_ref() != Some(&shown.head) {
            self.disk.stop("head/checkpoint was changed by somebody else");
            return Err(Error::WritingStopped);
        }
        self.disk.write_beside(&self.places.head, note, durable::PRIVATE)?;
        shown.head = note.to_vec();
        Ok(())
    }

    fn publish(&self, shown: &mut Shown, size: u64, note: &[u8]) -> Result<(), Error> {
        self.tiles(&mut |tiles| {
            match shown.tiles.take() {
                Some(old) => tiles.publish(old, size)?,
                None => {
                    let repaired = tiles.repair(size)?;
                    if repaired > 0 {
                        tracing::warn!(repaired, "tiles were missing or different and were made anew");
                    }
                }
            }
            shown.tiles = Some(size);
            Ok(())
        })?;
        let found = durable::read(&self.places.checkpoint, MAX_NOTE_BYTES)?;
        if found.as_deref() != Some(note) {
            self.disk.write_derived(&self.places.checkpoint, note)?;
        }
        Ok(())
    }

    /// Works on the tiles, whose tree may grow meanwhile.
    pub(super) fn tiles(&self, work: &mut dyn FnMut(&Tiles<'_>) -> Result<(), Error>) -> Result<(), Error> {
        work(&Tiles {
            disk: &self.disk,
            dir: &self.places.log,
            hashes: Hashes(&|indexes| self.state.read().tree.read_hashes(indexes)),
            leaf: &|index| self.leaf_bytes(index).map(Option::unwrap_or_default),
        })
    }

    /// The bytes of a tile, if the log has it.
    pub(super) fn tile(&self, name: &TileName) -> Result<Option<Vec<u8>>, Error> {
        if !name.is_in(self.state.read().size) {
            return Ok(None);
        }
        let mut bytes = None;
        self.tiles(&mut |tiles| {
            bytes = Some(tiles.named(name)?);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// The leaf at `index`, if there is one.
    pub(super) fn leaf(&self, index: u64) -> Result<Option<Leaf>, Error> {
        let bytes = self.leaf_bytes(index)?;
        bytes.map(|bytes| read_leaf(index, &bytes)).transpose()
    }

    /// The bytes of the leaf at `index`, if there is one.
    pub(super) fn leaf_bytes(&self, index: u64) -> Result<Option<Vec<u8>>, Error> {
        let place = usize::try_from(index).ok();
        let place = place.and_then(|index| self.state.read().places.get(index).copied());
        let Some((at, len)) = place else {
            return Ok(None);
        };
        let mut bytes = vec![0; len];
        let journal = &self.places.journal;
        durable::reading(journal, || self.reader.read_exact_at(&mut bytes, at))
            .map_err(|source| Error::io("read", journal, source))?;
        if self.state.read().tree.has(index, &bytes) {
            Ok(Some(bytes))
        } else {
            Err(Error::LogDamaged {
                index,
                why: "the leaf is not the one under the checkpoint".to_owned(),
            })
        }
    }
}

impl Draft {
    /// Adds a batch, wholly or not at all; says where its leaves are.
    fn add(&mut self, state: &State, batch: Batch) -> Result<std::ops::Range<usize>, Error> {
        let (begin, last) = (self.leaves.len(), self.last.clone());
        for new in batch.leaves {
            let added = if matches!(new.event, Event::KeyRotated { .. }) {
                Err(Error::Leaf {
                    why: "a rotation is written by the log itself".to_owned(),
                })
            } else {
                self.push(state, new, batch.now)
            };
            if let Err(error) = added {
                self.leaves.truncate(begin);
                self.bytes.truncate(begin);
                self.last = last;
                return Err(error);
            }
        }
        Ok(begin..self.leaves.len())
    }

    /// Gives a leaf its index, its time and the chain of its skill, and checks that it can be read back.
    fn push(&mut self, state: &State, new: NewLeaf, now: Timestamp) -> Result<(), Error> {
        let index = state.size + self.leaves.len() as u64;
        let skill = new.event.skill().cloned();
        let prev = skill
            .as_ref()
            .and_then(|skill| self.last.get(skill).or_else(|| state.last.get(skill)).copied());
        let leaf = Leaf {
            v: Leaf::VERSION,
            time: now,
            actor: new.actor,
            event: new.event,
            note: new.note.map(|note| audit::clip(&note)),
            prev,
        };
        let bytes = leaf.to_bytes();
        let read = Leaf::from_bytes(&bytes).map_err(|error| Error::Leaf { why: error.to_string() })?;
        if read != leaf {
            return Err(Error::Leaf {
                why: "it reads back as another one".to_owned(),
            });
        }
        if let Some(skill) = skill {
            self.last.insert(skill, index);
        }
        self.leaves.push((index, leaf));
        self.bytes.push(bytes);
        Ok(())
    }
}

impl State {
    /// A log without leaves, whose first key is this one as far as is known.
    pub(super) fn empty(key: &NoteKey) -> Result<Self, Error> {
        let tree = Tree::default();
        Ok(Self {
            note: sign(key, &tree)?,
            keys: Keys::of(key.verifier().clone()),
            tree,
            size: 0,
            bytes: 0,
            places: Vec::new(),
            last: HashMap::new(),
        })
    }

    /// Makes a frame visible that begins at `begin` in the journal, and whose leaves the tree has.
    pub(super) fn adopt(&mut self, begin: u64, leaves: &[(u64, Leaf)], bytes: &[Vec<u8>], note: Vec<u8>) {
        let mut at = begin + journal::FIRST_LEAF_AT;
        for ((index, leaf), bytes) in leaves.iter().zip(bytes) {
            self.places.push((at, bytes.len()));
            at += bytes.len() as u64 + journal::BETWEEN_LEAVES;
            self.size = index + 1;
            if let Some(skill) = leaf.event.skill() {
                self.last.insert(skill.clone(), *index);
            }
        }
        self.note = note;
    }
}

/// Signs what the tree holds.
pub(super) fn sign(key: &NoteKey, tree: &Tree) -> Result<Vec<u8>, Error> {
    let root = tree.root_at(tree.size()).ok_or_else(|| Error::Leaf {
        why: "the tree has no root".to_owned(),
    })?;
    let checkpoint = Checkpoint {
        origin: key.verifier().name().to_owned(),
        size: tree.size(),
        root,
    };
    Ok(checkpoint.signed_by(key))
}

/// Reads one leaf.
pub(super) fn read_leaf(index: u64, bytes: &[u8]) -> Result<Leaf, Error> {
    Leaf::from_bytes(bytes).map_err(|error| Error::LogDamaged {
        index,
        why: format!("the leaf is {error}"),
    })
}
