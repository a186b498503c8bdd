//! Opening the audit log: what a crash left is mended, what somebody changed is refused (design §7).
//!
//! Imports `log`, `journal`, `key`, `durable`. Nothing is taken for a torn end that a checkpoint of ours vouches for, and a
//! rotation of the key that was cut short is finished or undone, as the log says.

use std::fs::File;
use std::path::Path;
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
use super::key;
use super::key::Keys;
use super::log::Core;
use super::log::MAX_NOTE_BYTES;
use super::log::Places;
use super::log::Shown;
use super::log::State;
use super::log::Writer;
use super::log::read_leaf;
use super::log::sign;
use crate::domain::audit::Checkpoint;
use crate::domain::audit::Event;
use crate::domain::audit::NoteKey;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::Tree;
use crate::domain::audit::VerifierKey;

/// Opens the log with this origin line, or makes an empty one at the very first start.
pub(super) fn open(disk: Arc<Disk>, origin: &str) -> Result<Core, Error> {
    let places = Places::below(disk.root());
    for file in [&places.journal, &places.head, &places.key] {
        disk.make_dir(file.parent().unwrap_or_else(|| disk.root()))?;
    }
    let key = places.key_or_new(&disk, origin)?;
    let next = places.next_key(origin)?;
    let claims = Claims::read(&places)?;
    let mut journal = disk.appender(&places.journal)?;
    let own: Vec<_> = [Some(&key), next.as_ref()].into_iter().flatten().collect();
    let own: Vec<_> = own.iter().map(|key| key.verifier().clone()).collect();
    let mut state = recover(&disk, &key, &mut journal, &claims, &own)?;
    claims.refuse_missing_leaves(&places, &state, &own)?;
    if state.size > 0 {
        check_note(&state)?;
    }
    let key = settle_key(&disk, &places, &state.keys, key, next)?;
    claims.check_against(&places, &state)?;
    if state.size == state.keys.since() {
        state.note = sign(&key, &state.tree)?;
    }
    let Found::File(reader, _) = durable::open(&places.journal)? else {
        return Err(Error::LogDamaged {
            index: 0,
            why: "the journal is no file".to_owned(),
        });
    };
    Ok(Core {
        disk,
        places,
        reader,
        state: RwLock::new(state),
        writer: Mutex::new(Writer { journal, key }),
        shown: Mutex::new(Shown {
            tiles: None,
            head: claims.head,
        }),
        cosigned: RwLock::default(),
    })
}

impl Places {
    fn below(root: &Path) -> Self {
        let (log, keys) = (root.join("log"), root.join("keys"));
        Self {
            journal: log.join("journal"),
            checkpoint: log.join("checkpoint"),
            cosigned: log.join("cosigned"),
            head: root.join("head").join("checkpoint"),
            key: keys.join("log"),
            next_key: keys.join("next"),
            log,
        }
    }

    /// The log's key. It is the last thing that the first start writes, so that with a key there must be a head.
    fn key_or_new(&self, disk: &Disk, origin: &str) -> Result<NoteKey, Error> {
        if let Some(bytes) = durable::read(&self.key, MAX_NOTE_BYTES)? {
            return key::parse(&bytes, origin, &self.key);
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
        let key = key::generate(origin)?;
        let note = sign(&key, &Tree::default())?;
        disk.write_beside(&self.head, &note, durable::PRIVATE)?;
        let secret = key.to_secret_text();
        disk.write(&self.key, secret.as_bytes(), durable::PRIVATE, Place::New)?;
        Ok(key)
    }

    /// Puts the key in its place that a rotation has made the log's own. It lies under its other name until that is durable.
    pub(super) fn put_key(&self, disk: &Disk, key: &NoteKey) -> Result<(), Error> {
        let secret = key.to_secret_text();
        disk.write(&self.key, secret.as_bytes(), durable::PRIVATE, Place::Over)?;
        disk.discard(&self.next_key);
        Ok(())
    }

    /// The key that a rotation was about to put in place; one that cannot be read is none.
    fn next_key(&self, origin: &str) -> Result<Option<NoteKey>, Error> {
        let bytes = durable::read(&self.next_key, MAX_NOTE_BYTES)?;
        Ok(bytes.and_then(|bytes| key::parse(&bytes, origin, &self.next_key).ok()))
    }
}

/// Finishes or undoes a rotation, as the log says which key is its own; gives that key.
fn settle_key(
    disk: &Disk,
    places: &Places,
    keys: &Keys,
    key: NoteKey,
    next: Option<NoteKey>,
) -> Result<NoteKey, Error> {
    if keys.current() == key.verifier() {
        if places.next_key.exists() {
            disk.discard(&places.next_key);
        }
        return Ok(key);
    }
    match next.filter(|next| next.verifier() == keys.current()) {
        Some(next) => {
            places.put_key(disk, &next)?;
            tracing::warn!(key = %next.verifier(), "a rotation of the log's key was cut short and is finished now");
            Ok(next)
        }
        None => Err(Error::Key {
            path: places.key.clone(),
            why: format!("by its leaves the log's key is {}", keys.current()),
        }),
    }
}

/// Checkpoints of ours that lie around, and what they claim.
struct Claims {
    head: Vec<u8>,
    shown: Option<Vec<u8>>,
}

impl Claims {
    fn read(places: &Places) -> Result<Self, Error> {
        let missing = || Error::Head {
            path: places.head.clone(),
            why: "it is missing".to_owned(),
        };
        Ok(Self {
            head: durable::read(&places.head, MAX_NOTE_BYTES)?.ok_or_else(missing)?,
            shown: durable::read(&places.checkpoint, MAX_NOTE_BYTES)?,
        })
    }

    /// The most leaves that a checkpoint signed by any of our keys covers.
    fn vouched(&self, keys: &Keys, own: &[VerifierKey]) -> u64 {
        let notes = [Some(&self.head), self.shown.as_ref()].into_iter().flatten();
        let claimed = notes.filter_map(|note| claim(note, keys, own).ok());
        claimed.map(|checkpoint| checkpoint.size).max().unwrap_or(0)
    }

    /// Refuses a log that has fewer leaves than a checkpoint of ours says, whichever key signed that.
    fn refuse_missing_leaves(&self, places: &Places, state: &State, own: &[VerifierKey]) -> Result<(), Error> {
        claim(&self.head, &state.keys, own).map_err(|why| Error::Head {
            path: places.head.clone(),
            why,
        })?;
        let vouched = self.vouched(&state.keys, own);
        if vouched > state.size {
            return Err(Error::HeadAhead {
                head: vouched,
                log: state.size,
            });
        }
        Ok(())
    }

    /// Compares the recovered tree with every checkpoint of ours. What is shown to others is made anew if it cannot be read.
    fn check_against(&self, places: &Places, state: &State) -> Result<(), Error> {
        let bad = |path: &Path, why: String| Error::Head {
            path: path.to_owned(),
            why,
        };
        let head = state.keys.open(&self.head).map_err(|why| bad(&places.head, why))?;
        let shown = self.shown.as_ref().and_then(|note| state.keys.open(note).ok());
        let shown = shown.map(|checkpoint| (&places.checkpoint, checkpoint));
        for (path, checkpoint) in [Some((&places.head, head)), shown].into_iter().flatten() {
            if state.tree.root_at(checkpoint.size) != Some(checkpoint.root) {
                let why = format!("the first {} leaves of the log are other ones", checkpoint.size);
                return Err(bad(path, why));
            }
        }
        Ok(())
    }
}

/// What a checkpoint claims that any of our keys signed, in its time or not.
fn claim(note: &[u8], keys: &Keys, own: &[VerifierKey]) -> Result<Checkpoint, String> {
    let signed = SignedCheckpoint::parse(note).map_err(|why| why.to_string())?;
    let mut why = String::new();
    for key in keys.each().chain(own) {
        match signed.verify_own(key) {
            Ok(()) => return Ok(signed.checkpoint().clone()),
            Err(not) => why = not.to_string(),
        }
    }
    Err(why)
}

/// Reads the journal from its beginning. What a checkpoint vouches for was acknowledged for sure, so that damage among it is
/// never taken for a torn end.
fn recover(
    disk: &Disk,
    key: &NoteKey,
    journal: &mut Appender,
    claims: &Claims,
    own: &[VerifierKey],
) -> Result<State, Error> {
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
                let vouched = claims.vouched(&state.keys, own);
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
    let rotation = leaves.iter().find_map(|(index, leaf)| {
        if let Event::KeyRotated { from, to } = &leaf.event {
            Some((*index, from, to))
        } else {
            None
        }
    });
    match rotation {
        Some((index, from, to)) => take_in_rotation(state, index, from, to),
        None => Ok(()),
    }
}

/// Takes in that another key follows. The first such leaf says which key was the log's first one.
fn take_in_rotation(state: &mut State, index: u64, from: &str, to: &str) -> Result<(), Error> {
    let damaged = |why: String| Error::LogDamaged { index, why };
    if state.keys.since() == 0 {
        let first = from.parse();
        state.keys = Keys::of(first.map_err(|_| damaged("the key that it replaces is none".to_owned()))?);
    }
    if state.size != index + 1 {
        return Err(damaged(
            "a rotation of the key is not the last leaf of its batch".to_owned(),
        ));
    }
    check_note(state)?;
    state.keys.rotate(state.size, from, to).map_err(damaged)
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

/// Compares the tree with the last checkpoint in the journal so far.
fn check_note(state: &State) -> Result<(), Error> {
    let damaged = |why: String| Error::LogDamaged {
        index: state.size.saturating_sub(1),
        why,
    };
    let checkpoint = state.keys.open_frame(&state.note).map_err(damaged)?;
    if checkpoint.size == state.size && state.tree.root_at(state.size) == Some(checkpoint.root) {
        Ok(())
    } else {
        Err(damaged("the checkpoint signed over it is another one".to_owned()))
    }
}
