//! What is durable: content files, the audit log, people, tokens, and an index that can be made anew (design §6, §7).
//!
//! Imports `domain`. Everything is synchronous; callers move it off their event loop. Files are written, moved, removed
//! and flushed in `durable` alone, and sled is known to `index` alone. Bytes that come off the disk are hashed before
//! anybody sees them. What is returned as done survives `kill -9` and a power cut; after the first write that fails,
//! nothing is written any more and reads go on.
//!
//! Start reading at [`Store`], then `durable`, `content`, `journal` and `log`.

mod commit;
mod content;
mod deliveries;
mod durable;
mod error;
mod evidence;
mod folder;
mod follow;
mod fsck;
#[cfg(fuzzing)]
pub mod fuzzed;
mod index;
mod journal;
mod key;
mod location;
mod log;
mod note;
mod people;
mod quarantine;
mod recover;
mod scrub;
mod sets;
mod tiles;
mod tokens;
mod witness;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

pub use content::StoredFile;
pub use deliveries::DeliveriesReport;
pub use deliveries::Keep;
pub use deliveries::Looked;
pub use deliveries::NewDelivery;
pub use deliveries::SegmentFault;
#[cfg(test)]
pub(crate) use durable::Watch;
pub use error::Error;
pub use evidence::Consistency;
pub use evidence::Point;
pub use fsck::Kept;
pub use fsck::LogFault;
pub use fsck::LogReport;
pub use index::ListingNote;
pub use index::RejectedNote;
pub use key::EarlierKey;
pub use log::NewLeaf;
pub use quarantine::QuarantineNote;
pub use scrub::Damage;
pub use scrub::Damaged;
pub use scrub::Progress;
pub use scrub::VerifyReport;
pub use tokens::InvalidTokenId;
pub use tokens::TokenId;
pub use tokens::TokenNote;
pub use witness::WitnessFolder;

use crate::domain::Delivery;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::Limits;
use crate::domain::LockedSkill;
use crate::domain::Resource;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::Timestamp;
use crate::domain::VerifiedFile;
use crate::domain::Wanted;
use crate::domain::audit::Actor;
use crate::domain::audit::Envelope;
use crate::domain::audit::Event;
use crate::domain::audit::Leaf;
use crate::domain::audit::Proof;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::TileName;
use crate::domain::audit::VerifierKey;

/// Where the data folder lies, and its bounds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder; made when it is missing.
    pub data_dir: PathBuf,
    /// Whether the operator insists on a folder below a host's `skills`, or on a file system over a network.
    pub allow_unsafe_location: bool,
    /// `content_bytes` and `quarantine_bytes` count here.
    pub limits: Limits,
}

/// A data folder that this process holds. Cheap to clone; the folder is let go with the last clone.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    disk: Arc<durable::Disk>,
    quarantine: Arc<quarantine::Quarantine>,
    content: content::Content,
    log: log::Log,
    deliveries: deliveries::Deliveries,
    people: people::People,
    tokens: tokens::Tokens,
    index: index::Index,
    /// Last, so that the lock outlives everything that writes.
    location: location::Location,
}

/// How full the folder is, and whether it is written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes of content.
    pub content_bytes: u64,
    /// Bytes of content allowed.
    pub content_limit: u64,
    /// Bytes in quarantine.
    pub quarantine_bytes: u64,
    /// Bytes in quarantine allowed.
    pub quarantine_limit: u64,
    /// Bytes free on the disk.
    pub free_bytes: u64,
    /// Why nothing is written any more, if so.
    pub writing_stopped: Option<String>,
    /// Whether there is an index, rather than memory alone.
    pub index_open: bool,
}

/// What went into an index that was made anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RebuildReport {
    /// Origins with stored sets.
    pub origins: u64,
    /// Their stored sets.
    pub sets: u64,
    /// Segments of deliveries.
    pub segments: u64,
}

impl Store {
    /// Takes the data folder: its lock, its format, `tmp` emptied, the log recovered, the index opened, made anew or gone
    /// without.
    ///
    /// # Errors
    ///
    /// [`Error`]: a folder that is refused is not touched; a log that is not whole is not opened.
    pub fn open(options: &Options, now: Timestamp) -> Result<Self, Error> {
        let location = location::Location::take(&options.data_dir, options.allow_unsafe_location, now)?;
        let root = location.dir.as_path();
        let disk = Arc::new(durable::Disk::new(root, "store"));
        disk.empty_tmp()?;
        let log = log::Log::open(Arc::clone(&disk), &location.store_id)?;
        let quarantine = Arc::new(quarantine::Quarantine::open(
            Arc::clone(&disk),
            root.join("quarantine"),
            options.limits.quarantine_bytes,
            now,
        )?);
        let content = content::Content::open(
            Arc::clone(&quarantine),
            Arc::clone(&disk),
            root.join("content"),
            options.limits.content_bytes,
        )?;
        let deliveries = deliveries::Deliveries::open(Arc::clone(&disk), root.join("deliveries"))?;
        let people = people::People::open(Arc::clone(&disk), root.join("people"))?;
        let tokens = tokens::Tokens::open(Arc::clone(&disk), root.join("tokens"))?;
        let (index, kept) = index::Index::open(root);
        let store = Self(Arc::new(Inner {
            disk,
            quarantine,
            content,
            log,
            deliveries,
            people,
            tokens,
            index,
            location,
        }));
        if !kept {
            store.fill_index()?;
        }
        Ok(store)
    }

    /// The random id that the store got when it was made.
    pub fn id(&self) -> &str {
        &self.0.location.store_id
    }

    /// Stores one verified file.
    ///
    /// # Errors
    ///
    /// As [`Store::put_files`].
    pub fn put_file(&self, key: &SkillKey, file: &VerifiedFile) -> Result<(), Error> {
        self.put_files(&[(key, file)])
    }

    /// Stores verified files in one round of flushes. The same bytes under the same name are success; other
    /// bytes found there are put aside.
    ///
    /// # Errors
    ///
    /// [`Error::Quota`] and [`Error::NoSpace`] before anything is written; [`Error::Io`], [`Error::WritingStopped`].
    pub fn put_files(&self, files: &[(&SkillKey, &VerifiedFile)]) -> Result<(), Error> {
        self.0.content.put_files(files)
    }

    /// Reads a stored file and checks its length and digest against the resource. A damaged one is put aside.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk does not answer.
    pub fn read_file(&self, key: &SkillKey, resource: &Resource, now: Timestamp) -> Result<StoredFile, Error> {
        self.0.quarantine.hear(now);
        self.0.content.read_file(key, resource)
    }

    /// The length of a stored file in bytes. Its bytes are not looked at.
    pub fn measure(&self, key: &SkillKey, digest: Digest) -> Option<u64> {
        self.0.content.measure(key, digest)
    }

    /// Says whether a file of the right length is stored. Its bytes are not looked at.
    pub fn has_file(&self, key: &SkillKey, resource: &Resource) -> bool {
        self.measure(key, resource.digest) == Some(resource.size)
    }

    /// Stores a set as first seen; one that is stored already stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Store::put_files`].
    pub fn put_set(&self, key: &SkillKey, entry: &SkillEntry, address: &str, now: Timestamp) -> Result<(), Error> {
        self.put_sets(&[(key.clone(), Arc::new(entry.clone()))], address, now)
    }

    /// Stores many sets in one round of flushes.
    ///
    /// # Errors
    ///
    /// As [`Store::put_files`].
    pub fn put_sets(&self, sets: &[(SkillKey, Arc<SkillEntry>)], address: &str, now: Timestamp) -> Result<(), Error> {
        self.0.quarantine.hear(now);
        self.0.content.put_sets(sets, address, now)
    }

    /// The entry of a set as first seen, parsed again; only if its set id is this one. A damaged one is put aside.
    pub fn set(&self, key: &SkillKey, set: SetId) -> Option<Arc<SkillEntry>> {
        self.0.content.set(key, set)
    }

    /// Removes all content of an origin; says how many bytes that freed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::WritingStopped`].
    pub fn remove_origin(&self, label: &Label) -> Result<u64, Error> {
        self.0.index.forget(label);
        self.0.content.remove_origin(label)
    }

    /// Keeps bytes from an origin that failed a check; the oldest leave when the quota is reached.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`], [`Error::Io`], [`Error::WritingStopped`].
    pub fn quarantine(&self, bytes: &[u8], note: &QuarantineNote) -> Result<(), Error> {
        self.0.quarantine.put(bytes, note)
    }

    /// How full the folder is, and whether it is written to.
    pub fn usage(&self) -> Usage {
        Usage {
            content_bytes: self.0.content.used(),
            content_limit: self.0.content.limit(),
            quarantine_bytes: self.0.quarantine.bytes(),
            quarantine_limit: self.0.quarantine.limit(),
            free_bytes: self.0.disk.free(),
            writing_stopped: self.0.disk.stopped().map(str::to_owned),
            index_open: self.0.index.is_open(),
        }
    }

    /// Hashes everything in `content/` again, and looks at the notes about people and tokens. What is damaged of content is
    /// put aside; strangers are reported and stay.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a folder cannot be listed.
    pub fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, Error> {
        let mut report = self.0.content.verify(progress)?;
        report.unreadable.extend(self.0.people.unreadable()?);
        report.unreadable.extend(self.0.tokens.unreadable()?);
        Ok(report)
    }

    /// Gives every leaf of the log in order; says how many there are.
    ///
    /// # Errors
    ///
    /// [`Error::LogDamaged`], [`Error::Io`].
    pub fn replay(&self, each: &mut dyn FnMut(u64, &Leaf)) -> Result<u64, Error> {
        if self.0.deliveries.is_heard() {
            return self.0.log.replay(each);
        }
        // The log is gone through once at a start, not twice.
        let mut known = deliveries::Known::default();
        let (mut made, mut ended) = (HashSet::new(), HashSet::new());
        let leaves = self.0.log.replay(&mut |index, leaf| {
            known.hear(index, &leaf.event);
            if let Event::TokenMade { token } = &leaf.event {
                made.insert(token.clone());
            }
            if let Event::TokenRevoked { token } = &leaf.event {
                ended.insert(token.clone());
            }
            each(index, leaf);
        })?;
        self.0.deliveries.adopt(known);
        self.0.tokens.match_record(&made, &ended);
        Ok(leaves)
    }

    /// Appends leaves under one checkpoint, all or none. When this returns they are durable.
    ///
    /// # Errors
    ///
    /// [`Error::Leaf`], [`Error::NoSpace`], [`Error::Io`], [`Error::WritingStopped`]; nothing of the batch counts.
    pub fn append(&self, leaves: Vec<NewLeaf>, now: Timestamp) -> Result<Vec<(u64, Leaf)>, Error> {
        self.0.log.append(leaves, now)
    }

    /// The leaf at `index`, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::LogDamaged`], [`Error::Io`].
    pub fn leaf(&self, index: u64) -> Result<Option<Leaf>, Error> {
        self.0.log.core.leaf(index)
    }

    /// Checks the whole log: frames, leaves, chains, checkpoints, tiles, head; and that it goes on from what was kept of it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk does not answer; what is wrong with the log is in the report.
    pub fn verify_log(&self, kept: &Kept, progress: &mut dyn FnMut(Progress)) -> Result<LogReport, Error> {
        self.0.log.verify(kept, progress)
    }

    /// Lets another key sign the log from now on; gives the leaf that says so.
    ///
    /// # Errors
    ///
    /// As [`Store::append`]; the old key goes on signing.
    pub fn rotate_key(&self, actor: Actor, note: Option<String>, now: Timestamp) -> Result<(u64, Leaf), Error> {
        self.0.log.rotate_key(actor, note, now)
    }

    /// Waits until the log's files have followed it, so that only what a test does comes to what the test breaks.
    #[cfg(test)]
    pub(crate) fn settle(&self) {
        self.0.log.settle();
    }

    /// Seals the deliveries that an earlier process left open. Without room that is put off.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::WritingStopped`], [`Error::LogDamaged`].
    pub fn recover_deliveries(&self, now: Timestamp) -> Result<(), Error> {
        self.0.deliveries.recover(&self.0.log, &self.0.index, now)
    }

    /// Writes deliveries, where the end of the process does not lose them; what is written leaves `waiting`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`], [`Error::Io`], [`Error::WritingStopped`]; what is still in `waiting` is not written.
    pub fn write_deliveries(&self, waiting: &mut VecDeque<NewDelivery>, now: Timestamp) -> Result<(), Error> {
        self.0.deliveries.write(&self.0.log, &self.0.index, waiting, now)
    }

    /// Flushes the deliveries that were written, so that they survive a power cut.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::WritingStopped`].
    pub fn flush_deliveries(&self) -> Result<(), Error> {
        self.0.deliveries.flush()
    }

    /// Seals the deliveries that were written: a file of their own, and its digest on the record.
    ///
    /// # Errors
    ///
    /// As [`Store::write_deliveries`]; asking again goes on where it stopped.
    pub fn seal_deliveries(&self, now: Timestamp) -> Result<(), Error> {
        self.0.deliveries.seal(&self.0.log, &self.0.index, now)
    }

    /// Removes some of the oldest deliveries that are kept no longer, whole segments and on the record; says how many segments.
    /// There may be more unless it is none.
    ///
    /// # Errors
    ///
    /// As [`Store::append`].
    pub fn retire_deliveries(&self, keep: Keep, now: Timestamp) -> Result<u64, Error> {
        self.0.deliveries.retire(&self.0.log, &self.0.index, keep, now)
    }

    /// Gives every delivery that is wanted, the oldest segment first, until `hear` has enough.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::LogDamaged`]; segments that are damaged are in the answer.
    pub fn deliveries(
        &self,
        wanted: &Wanted,
        hear: &mut dyn FnMut(&Delivery) -> ControlFlow<()>,
    ) -> Result<Looked, Error> {
        self.0.deliveries.look(&self.0.log, &self.0.index, wanted, hear)
    }

    /// Puts up to `most` more segments of deliveries into the index; says how many, which is fewer when all are there.
    ///
    /// # Errors
    ///
    /// [`Error::LogDamaged`], [`Error::Io`].
    pub fn index_deliveries(&self, most: u64) -> Result<u64, Error> {
        self.0.deliveries.fill_index(&self.0.log, &self.0.index, most)
    }

    /// Checks every segment of deliveries against its leaf, and that there is no other.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk does not answer; what is wrong is in the report.
    pub fn verify_deliveries(&self, progress: &mut dyn FnMut(Progress)) -> Result<DeliveriesReport, Error> {
        self.0.deliveries.verify(&self.0.log, &self.0.index, progress)
    }

    /// The signed checkpoint over all leaves (C2SP tlog-checkpoint).
    pub fn checkpoint(&self) -> Vec<u8> {
        self.0.log.core.state.read().note.clone()
    }

    /// A proof that a leaf is in the log, which needs nothing but the log's key to be checked; nothing when there is no such
    /// leaf.
    ///
    /// # Errors
    ///
    /// [`Error::LogDamaged`], [`Error::Io`].
    pub fn prove(&self, index: u64) -> Result<Option<Proof>, Error> {
        self.0.log.core.prove(index)
    }

    /// A statement that a set was approved by the leaf at `index`, signed with the log's key; nothing when there is no such
    /// leaf.
    ///
    /// # Errors
    ///
    /// [`Error::LogDamaged`], [`Error::Io`].
    pub fn attest(&self, skill: &LockedSkill, index: u64) -> Result<Option<Envelope>, Error> {
        self.0.log.core.attest(skill, index)
    }

    /// Whether the log at `new` goes on from the log at `old`, with what proves it.
    pub fn consistency(&self, old: &Point, new: &Point) -> Consistency {
        self.0.log.core.consistency(old, new)
    }

    /// Keeps a checkpoint of ours with its cosignatures, unless it does not fit the log or a longer one is kept.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`], [`Error::Io`], [`Error::WritingStopped`]; it is known in this process even then.
    pub fn keep_cosigned(&self, signed: &SignedCheckpoint) -> Result<(), Error> {
        self.0.log.core.keep_cosigned(signed)
    }

    /// The newest checkpoint with cosignatures.
    pub fn cosigned(&self) -> Option<SignedCheckpoint> {
        self.0.log.core.cosigned()
    }

    /// The bytes of a tile, from the leaves and the tree themselves; nothing when the log is not so long.
    ///
    /// # Errors
    ///
    /// [`Error::LogDamaged`], [`Error::Io`].
    pub fn tile(&self, name: &TileName) -> Result<Option<Vec<u8>>, Error> {
        self.0.log.core.tile(name)
    }

    /// The key that checkpoints are verified with (C2SP signed-note).
    pub fn verifier_key(&self) -> VerifierKey {
        self.0.log.core.state.read().keys.current().clone()
    }

    /// The keys before it, each with the most leaves that a checkpoint of it may cover.
    pub fn earlier_keys(&self) -> Vec<EarlierKey> {
        self.0.log.core.state.read().keys.earlier()
    }

    /// The commitment by which the log names a person; always the same one for a name.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`], [`Error::Io`], [`Error::WritingStopped`].
    pub fn person(&self, name: &str) -> Result<Actor, Error> {
        self.0.people.actor(name)
    }

    /// Destroys what opens a commitment; the log still verifies.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::WritingStopped`].
    pub fn forget_person(&self, commitment: &str) -> Result<(), Error> {
        self.0.people.forget(commitment)
    }

    /// The name behind a commitment, unless it was erased.
    pub fn person_name(&self, actor: &Actor) -> Option<String> {
        self.0.people.name(actor)
    }

    /// Says whether there is a commitment to a name.
    pub fn knows_person(&self, name: &str) -> bool {
        self.0.people.knows(name)
    }

    /// Every name that was not erased, by its commitment.
    pub fn people(&self) -> HashMap<String, String> {
        self.0.people.all()
    }

    /// Keeps what was heard of an origin. A failure is in the log and nowhere else, since the index is never the truth.
    pub fn put_listing(&self, label: &Label, listing: &ListingNote) {
        self.0.index.put(label, listing);
    }

    /// What was last heard of an origin; where the index does not know, when its stored sets were first seen.
    pub fn listing(&self, label: &Label) -> Option<ListingNote> {
        self.0.index.listing(label).or_else(|| {
            let heard = self.0.content.latest_set_of(label).unwrap_or_else(|error| {
                tracing::error!(%label, %error, "the stored sets of an origin cannot be listed");
                None
            });
            heard.map(ListingNote::of_sets)
        })
    }

    /// Makes the index anew from the stored sets. What only an origin can say again (entries that it had wrong) is
    /// forgotten.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the content cannot be listed.
    pub fn rebuild_index(&self) -> Result<RebuildReport, Error> {
        self.0.index.begin_anew();
        let mut report = self.fill_index()?;
        report.segments = self.index_deliveries(u64::MAX)?;
        Ok(report)
    }

    /// Writes into an empty index when each origin was heard at the latest, by its stored sets.
    fn fill_index(&self) -> Result<RebuildReport, Error> {
        let mut heard: BTreeMap<Label, Timestamp> = BTreeMap::new();
        let mut report = RebuildReport::default();
        self.0.content.each_set(&mut |key, seen| {
            let latest = heard.entry(key.label.clone()).or_insert(seen);
            *latest = seen.max(*latest);
            report.sets += 1;
        })?;
        for (label, heard) in heard {
            report.origins += 1;
            self.put_listing(&label, &ListingNote::of_sets(heard));
        }
        Ok(report)
    }

    /// Takes away the socket at `path`, if one is there: a killed process leaves its own behind. Anything else stays.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::WritingStopped`].
    pub fn clear_socket(&self, path: &Path) -> Result<(), Error> {
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
        if is_socket { self.0.disk.remove(path) } else { Ok(()) }
    }

    /// Makes a token for a caller, on the record before its secret is told; the secret is in the answer and nowhere else.
    /// `by` is the person who makes it; without one it is the gateway itself.
    ///
    /// # Errors
    ///
    /// As [`Store::append`]; then there is no token.
    pub fn new_token(&self, name: &str, by: Option<&str>, now: Timestamp) -> Result<(TokenId, String), Error> {
        let (note, secret) = self.0.tokens.make(name, by, now)?;
        let token = note.id.to_string();
        if let Err(error) = self.append_by(by, Event::TokenMade { token }, now) {
            self.0.tokens.discard(&note);
            return Err(error);
        }
        let id = note.id.clone();
        self.0.tokens.let_in(note);
        Ok((id, secret))
    }

    /// All tokens, the oldest first.
    pub fn tokens(&self) -> Vec<TokenNote> {
        self.0.tokens.all()
    }

    /// Ends a token at once, then on the disk, then on the record; says whether there was a live one.
    ///
    /// # Errors
    ///
    /// When it is in force in this process but not durable or not recorded, as [`Store::append`]; asking again tries again.
    pub fn revoke_token(&self, id: &TokenId, by: Option<&str>, now: Timestamp) -> Result<bool, Error> {
        if !self.0.tokens.revoke(id, now)? {
            return Ok(false);
        }
        let token = id.to_string();
        self.append_by(by, Event::TokenRevoked { token }, now)?;
        self.0.tokens.recorded(id);
        Ok(true)
    }

    /// Puts on the record the ends of tokens that an earlier process had in force and on the disk, and no further; the log
    /// must have been replayed.
    ///
    /// # Errors
    ///
    /// As [`Store::append`].
    pub fn record_ended_tokens(&self, now: Timestamp) -> Result<(), Error> {
        for id in self.0.tokens.unrecorded() {
            let token = id.to_string();
            self.append_by(None, Event::TokenRevoked { token }, now)?;
            self.0.tokens.recorded(&id);
        }
        Ok(())
    }

    /// Appends what a person did, or the gateway itself.
    fn append_by(&self, by: Option<&str>, event: Event, now: Timestamp) -> Result<(), Error> {
        let leaf = NewLeaf {
            actor: by.map_or(Ok(Actor::Gateway), |name| self.person(name))?,
            event,
            note: None,
        };
        self.append(vec![leaf], now).map(|_| ())
    }

    /// The live token with this secret.
    pub fn token_by_secret(&self, secret: &str) -> Option<TokenNote> {
        self.0.tokens.by_secret(secret)
    }
}

/// Writes a file that somebody asked for, outside any data folder; what stood there is replaced at once or not at all.
///
/// # Errors
///
/// [`Error::NoSpace`], [`Error::Io`].
pub fn write_out(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let path = std::path::absolute(path).map_err(|source| Error::io("find", path, source))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("/"));
    durable::Disk::new(folder, "out").write_beside(&path, bytes, durable::PRIVATE)
}

#[cfg(test)]
mod tests;
