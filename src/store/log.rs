//! The audit log: append, recover, verify (design §7).
//!
//! Imports `journal`, `key`, `tiles`, `durable` and `domain::audit`. The journal is the truth, and "durable" means that a
//! batch's frame was flushed to it. Tiles and `log/checkpoint` are made from it; `head/checkpoint` is what we last vouched
//! for, so that a log which was cut or replaced by an older one is refused at start. Lock order: `writer`, then `state`.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use parking_lot::RwLock;

use super::durable;
use super::durable::Appender;
use super::durable::Disk;
use super::durable::Found;
use super::durable::Place;
use super::error::Error;
use super::journal;
use super::journal::Flaw;
use super::journal::Frame;
use super::key::Checkpoint;
use super::key::LogKey;
use super::tiles::Tiles;
use crate::domain::SkillKey;
use crate::domain::Timestamp;
use crate::domain::audit;
use crate::domain::audit::Actor;
use crate::domain::audit::Event;
use crate::domain::audit::Leaf;
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
    pub(super) disk: Arc<Disk>,
    pub(super) places: Places,
    pub(super) key: LogKey,
    pub(super) reader: File,
    pub(super) state: RwLock<State>,
    pub(super) writer: Mutex<Writer>,
}

/// Where the log's files lie.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) log: PathBuf,
    pub(super) journal: PathBuf,
    pub(super) checkpoint: PathBuf,
    pub(super) head: PathBuf,
    pub(super) key: PathBuf,
}

/// What readers see: only what is durable.
#[derive(Debug)]
pub(super) struct State {
    /// May have leaves beyond `size` while a batch is being written.
    pub(super) tree: Tree,
    /// Leaves that are durable.
    pub(super) size: u64,
    /// Bytes of the journal that are durable.
    pub(super) bytes: u64,
    /// Where each leaf lies in the journal, and how long it is.
    places: Vec<(u64, usize)>,
    /// The index of the last leaf about each skill.
    last: HashMap<SkillKey, u64>,
    /// The checkpoint over the durable leaves.
    pub(super) note: Vec<u8>,
}

/// What only the one who appends needs.
#[derive(Debug)]
pub(super) struct Writer {
    journal: Appender,
    /// Leaves that the tiles show; nothing when that is not known.
    published: Option<u64>,
    /// What `head/checkpoint` holds by our knowledge.
    head: Vec<u8>,
}

/// The leaves of a batch with their bytes.
type Encoded = (Vec<(u64, Leaf)>, Vec<Vec<u8>>);

impl Log {
    /// Recovers the log, or makes an empty one at the very first start.
    pub(super) fn open(disk: Arc<Disk>, store_id: &str) -> Result<Self, Error> {
        let places = Places::below(disk.root());
        for file in [&places.journal, &places.head, &places.key] {
            disk.make_dir(file.parent().unwrap_or_else(|| disk.root()))?;
        }
        let origin = format!("portcullis/{store_id}");
        let key = places.key_or_new(&disk, &origin)?;
        let (head, shown) = (places.head(&key)?, places.shown(&key)?);
        let mut journal = disk.appender(&places.journal)?;
        let vouched = shown.map_or(head.size, |shown| shown.size.max(head.size));
        let state = recover(&disk, &key, &mut journal, vouched)?;
        places.check_against(head, shown, &state.tree)?;
        let Found::File(reader, _) = durable::open(&places.journal)? else {
            return Err(Error::LogDamaged {
                index: 0,
                why: "the journal is no file".to_owned(),
            });
        };
        let head = durable::read(&places.head, MAX_NOTE_BYTES)?.unwrap_or_default();
        let log = Self {
            disk,
            places,
            key,
            reader,
            state: RwLock::new(state),
            writer: Mutex::new(Writer {
                journal,
                published: None,
                head,
            }),
        };
        log.follow(&mut log.writer.lock());
        Ok(log)
    }

    /// Appends a batch: when this returns, all of it survives a power cut; when it fails, nothing of it counts.
    pub(super) fn append(&self, leaves: Vec<NewLeaf>, now: Timestamp) -> Result<Vec<(u64, Leaf)>, Error> {
        if leaves.is_empty() {
            return Ok(Vec::new());
        }
        let mut writer = self.writer.lock();
        self.disk.ensure_writing()?;
        let (leaves, bytes) = self.encode(leaves, now)?;
        let written = self.write(&mut writer, &bytes);
        let mut state = self.state.write();
        let (note, begin) = match written {
            Ok(written) => written,
            Err(error) => {
                let size = state.size;
                state.tree.cut(size);
                return Err(error);
            }
        };
        state.adopt(begin, &leaves, &bytes, note);
        state.bytes = writer.journal.len();
        drop(state);
        self.follow(&mut writer);
        Ok(leaves)
    }

    /// Gives the leaves their indexes, their times and the chain of their skill, and checks that they can be read back.
    fn encode(&self, leaves: Vec<NewLeaf>, now: Timestamp) -> Result<Encoded, Error> {
        let state = self.state.read();
        let mut last: HashMap<SkillKey, u64> = HashMap::new();
        let mut numbered = Vec::with_capacity(leaves.len());
        let mut encoded = Vec::with_capacity(leaves.len());
        for (index, new) in (state.size..).zip(leaves) {
            let skill = new.event.skill().cloned();
            let prev = skill
                .as_ref()
                .and_then(|skill| last.get(skill).or_else(|| state.last.get(skill)).copied());
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
                last.insert(skill, index);
            }
            numbered.push((index, leaf));
            encoded.push(bytes);
        }
        Ok((numbered, encoded))
    }

    /// Writes a batch's frame with one flush; gives its checkpoint, and where in the journal it begins.
    fn write(&self, writer: &mut Writer, leaves: &[Vec<u8>]) -> Result<(Vec<u8>, u64), Error> {
        let (first, note) = {
            let mut state = self.state.write();
            leaves.iter().for_each(|leaf| state.tree.push(leaf));
            (state.size, sign(&self.key, &state.tree)?)
        };
        let frame = journal::encode(first, leaves, &note)?;
        let begin = writer.journal.len();
        writer.journal.append(&self.disk, &frame)?;
        Ok((note, begin))
    }

    /// Lets tiles, checkpoint and head follow the journal. The batch is durable already, so that a failure here is told by
    /// the log alone; if the disk is at fault, writing has stopped.
    fn follow(&self, writer: &mut Writer) {
        let state = self.state.read();
        let outcome = self
            .vouch(writer, &state.note)
            .and_then(|()| self.publish(writer, &state));
        if let Err(error) = outcome {
            tracing::error!(%error, source = ?std::error::Error::source(&error), "tiles or head do not show the last leaves");
        }
    }

    /// Moves the head, if it is still where we left it.
    fn vouch(&self, writer: &mut Writer, note: &[u8]) -> Result<(), Error> {
        if writer.head == note {
            return Ok(());
        }
        let found = durable::read(&self.places.head, MAX_NOTE_BYTES)?;
        if found.as_ref() != Some(&writer.head) {
            self.disk.stop("head/checkpoint was changed by somebody else");
            return Err(Error::WritingStopped);
        }
        self.disk.write_beside(&self.places.head, note, durable::PRIVATE)?;
        writer.head = note.to_vec();
        Ok(())
    }

    fn publish(&self, writer: &mut Writer, state: &State) -> Result<(), Error> {
        self.tiles(state, &mut |tiles| {
            match writer.published.take() {
                Some(old) => tiles.publish(old, state.size)?,
                None => {
                    let repaired = tiles.repair(state.size)?;
                    if repaired > 0 {
                        tracing::warn!(repaired, "tiles were missing or different and were made anew");
                    }
                }
            }
            writer.published = Some(state.size);
            Ok(())
        })?;
        let shown = durable::read(&self.places.checkpoint, MAX_NOTE_BYTES)?;
        if shown.as_ref() != Some(&state.note) {
            self.disk.write_derived(&self.places.checkpoint, &state.note)?;
        }
        Ok(())
    }

    /// Works on the tiles of `state`.
    pub(super) fn tiles(
        &self,
        state: &State,
        work: &mut dyn FnMut(&Tiles<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let leaf = |index| self.leaf_bytes(state, index).map(Option::unwrap_or_default);
        work(&Tiles {
            disk: &self.disk,
            dir: &self.places.log,
            tree: &state.tree,
            leaf: &leaf,
        })
    }

    /// The leaf at `index`, if there is one.
    pub(super) fn leaf(&self, index: u64) -> Result<Option<Leaf>, Error> {
        let bytes = self.leaf_bytes(&self.state.read(), index)?;
        bytes.map(|bytes| read_leaf(index, &bytes)).transpose()
    }

    fn leaf_bytes(&self, state: &State, index: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some((at, len)) = usize::try_from(index).ok().and_then(|index| state.places.get(index)) else {
            return Ok(None);
        };
        let mut bytes = vec![0; *len];
        let journal = &self.places.journal;
        durable::reading(journal, || self.reader.read_exact_at(&mut bytes, *at))
            .map_err(|source| Error::io("read", journal, source))?;
        if state.tree.has(index, &bytes) {
            Ok(Some(bytes))
        } else {
            Err(Error::LogDamaged {
                index,
                why: "the leaf is not the one under the checkpoint".to_owned(),
            })
        }
    }

    /// Gives every durable leaf in order; says how many there were.
    pub(super) fn replay(&self, each: &mut dyn FnMut(u64, &Leaf)) -> Result<u64, Error> {
        let size = self.state.read().size;
        for index in 0..size {
            if let Some(leaf) = self.leaf(index)? {
                each(index, &leaf);
            }
        }
        Ok(size)
    }

    /// The checkpoint over all durable leaves.
    pub(super) fn checkpoint(&self) -> Vec<u8> {
        self.state.read().note.clone()
    }
}

impl State {
    fn empty(key: &LogKey) -> Result<Self, Error> {
        let tree = Tree::default();
        Ok(Self {
            note: sign(key, &tree)?,
            tree,
            size: 0,
            bytes: 0,
            places: Vec::new(),
            last: HashMap::new(),
        })
    }

    /// Makes a batch visible whose frame begins at `begin` in the journal, and whose leaves the tree has.
    fn adopt(&mut self, begin: u64, leaves: &[(u64, Leaf)], bytes: &[Vec<u8>], note: Vec<u8>) {
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

impl Places {
    fn below(root: &Path) -> Self {
        let log = root.join("log");
        Self {
            journal: log.join("journal"),
            checkpoint: log.join("checkpoint"),
            head: root.join("head").join("checkpoint"),
            key: root.join("keys").join("log"),
            log,
        }
    }

    /// The log's key. It is the last thing that the first start writes, so that with a key there must be a head.
    fn key_or_new(&self, disk: &Disk, origin: &str) -> Result<LogKey, Error> {
        if let Some(bytes) = durable::read(&self.key, MAX_NOTE_BYTES)? {
            return LogKey::parse(&String::from_utf8_lossy(&bytes), origin, &self.key);
        }
        let journal = self.journal.symlink_metadata().map_or(0, |meta| meta.len());
        let head = durable::read(&self.head, MAX_NOTE_BYTES)?.unwrap_or_default();
        // The second line of a checkpoint is its size; the key that signed this one is not there to ask.
        let head_is_empty = head.is_empty() || head.split(|byte| *byte == b'\n').nth(1) == Some(b"0");
        if journal > 0 || !head_is_empty {
            return Err(Error::Key {
                path: self.key.clone(),
                why: "it is missing, but the log is not empty".to_owned(),
            });
        }
        let text = LogKey::generate(origin);
        let key = LogKey::parse(&text, origin, &self.key)?;
        let note = sign(&key, &Tree::default())?;
        disk.write_beside(&self.head, &note, durable::PRIVATE)?;
        disk.write(&self.key, text.as_bytes(), durable::PRIVATE, Place::New)?;
        Ok(key)
    }

    /// What the head vouches for.
    pub(super) fn head(&self, key: &LogKey) -> Result<Checkpoint, Error> {
        let bad = |why: String| Error::Head {
            path: self.head.clone(),
            why,
        };
        let note = durable::read(&self.head, MAX_NOTE_BYTES)?.ok_or_else(|| bad("it is missing".to_owned()))?;
        key.open(&note).map_err(bad)
    }

    /// What `log/checkpoint` covers; one that cannot be read is made anew.
    fn shown(&self, key: &LogKey) -> Result<Option<Checkpoint>, Error> {
        let note = durable::read(&self.checkpoint, MAX_NOTE_BYTES)?;
        Ok(note.and_then(|note| key.open(&note).ok()))
    }

    /// Compares the recovered tree with every checkpoint of ours that lies around.
    fn check_against(&self, head: Checkpoint, shown: Option<Checkpoint>, tree: &Tree) -> Result<(), Error> {
        let shown = shown.map(|checkpoint| (&self.checkpoint, checkpoint));
        for (path, checkpoint) in [Some((&self.head, head)), shown].into_iter().flatten() {
            if checkpoint.size > tree.size() {
                return Err(Error::HeadAhead {
                    head: checkpoint.size,
                    log: tree.size(),
                });
            }
            if tree.root_at(checkpoint.size) != Some(checkpoint.root) {
                return Err(Error::Head {
                    path: path.clone(),
                    why: format!("the first {} leaves of the log are other ones", checkpoint.size),
                });
            }
        }
        Ok(())
    }
}

/// Signs what the tree holds.
fn sign(key: &LogKey, tree: &Tree) -> Result<Vec<u8>, Error> {
    let root = tree.root_at(tree.size()).ok_or_else(|| Error::Leaf {
        why: "the tree has no root".to_owned(),
    })?;
    key.sign(tree.size(), root)
}

/// Reads the journal from its beginning. `vouched` leaves were acknowledged for sure, so that damage among them is never
/// taken for a torn end.
fn recover(disk: &Disk, key: &LogKey, journal: &mut Appender, vouched: u64) -> Result<State, Error> {
    let mut state = State::empty(key)?;
    let len = journal.len();
    while state.bytes < len {
        match journal::read(journal.file(), state.bytes, len, state.size) {
            Ok((frame, next)) => {
                let begin = state.bytes;
                take_in(&mut state, begin, frame)?;
                state.bytes = next;
            }
            Err(flaw) => {
                refuse_damage(journal.file(), flaw, &state, len, vouched)?;
                tracing::warn!(
                    leaves = state.size,
                    bytes = len - state.bytes,
                    "the log ends in a batch that was never acknowledged; it is cut off"
                );
                journal.cut(disk, state.bytes)?;
                break;
            }
        }
    }
    check_last(key, &state)?;
    Ok(state)
}

/// Takes in a frame that begins at `begin`.
fn take_in(state: &mut State, begin: u64, frame: Frame) -> Result<(), Error> {
    let mut leaves = Vec::with_capacity(frame.leaves.len());
    for (index, bytes) in (frame.first..).zip(&frame.leaves) {
        leaves.push((index, read_leaf(index, bytes)?));
        state.tree.push(bytes);
    }
    state.adopt(begin, &leaves, &frame.leaves, frame.note);
    Ok(())
}

/// Passes a torn end, and nothing else.
fn refuse_damage(file: &File, flaw: Flaw, state: &State, len: u64, vouched: u64) -> Result<(), Error> {
    let damaged = |why: &str| Error::LogDamaged {
        index: state.size,
        why: why.to_owned(),
    };
    let why = match flaw {
        Flaw::Unreadable(error) => return Err(error),
        Flaw::Incomplete if vouched > state.size => {
            return Err(Error::HeadAhead {
                head: vouched,
                log: state.size,
            });
        }
        Flaw::Incomplete => "its batch is cut short",
        Flaw::Damaged(why) if vouched > state.size => return Err(damaged(why)),
        Flaw::Damaged(why) => why,
    };
    match journal::another_follows(file, state.bytes, len) {
        Ok(false) => Ok(()),
        Ok(true) => Err(damaged(why)),
        Err(Flaw::Unreadable(error)) => Err(error),
        Err(Flaw::Incomplete | Flaw::Damaged(_)) => Err(damaged(why)),
    }
}

/// Compares the tree with the last checkpoint in the journal.
fn check_last(key: &LogKey, state: &State) -> Result<(), Error> {
    let damaged = |why: String| Error::LogDamaged {
        index: state.size.saturating_sub(1),
        why,
    };
    let checkpoint = key.open(&state.note).map_err(damaged)?;
    if checkpoint.size == state.size && state.tree.root_at(state.size) == Some(checkpoint.root) {
        Ok(())
    } else {
        Err(damaged("the checkpoint signed over it is another one".to_owned()))
    }
}

/// Reads one leaf.
pub(super) fn read_leaf(index: u64, bytes: &[u8]) -> Result<Leaf, Error> {
    Leaf::from_bytes(bytes).map_err(|error| Error::LogDamaged {
        index,
        why: format!("the leaf is {error}"),
    })
}
