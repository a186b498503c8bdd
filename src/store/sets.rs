//! Resource sets as first seen: `content/<label>/<skill>/set-<set id>.json` with the entry verbatim (design §6).
//!
//! Imports `content`, `durable` and `domain`. A set is read by parsing its entry again and computing its id again; only
//! when that is the id in its name is it returned.

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use super::content::Content;
use super::content::Plan;
use super::durable;
use super::durable::Place;
use super::error::Error;
use super::quarantine::QuarantineNote;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::Limits;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::Timestamp;

/// Bytes of entries kept in memory; over this, all are forgotten.
const MAX_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a set file that are read.
const MAX_SET_BYTES: u64 = 256 * 1024 * 1024;

/// A set file.
#[derive(Debug, Serialize, Deserialize)]
struct SetFile {
    /// The digest of the rest, to tell damage from an entry that today's rules refuse.
    digest: Digest,
    /// The entry's text.
    entry: String,
    /// When it was first seen.
    seen: Timestamp,
    /// Where.
    address: String,
}

impl SetFile {
    /// The bytes of the file for an entry.
    fn of(entry: &SkillEntry, address: &str, now: Timestamp) -> Vec<u8> {
        let mut file = Self {
            digest: Digest::of(b""),
            entry: entry.text().to_owned(),
            seen: now,
            address: address.to_owned(),
        };
        file.digest = file.digest_of_rest();
        serde_json::to_vec_pretty(&file).unwrap_or_default()
    }

    fn digest_of_rest(&self) -> Digest {
        Digest::of(format!("{}\n{}\n{}", self.seen, self.address, self.entry).as_bytes())
    }
}

/// What a set file turned out to be.
#[derive(Debug)]
pub(super) enum StoredSet {
    /// The set that its name says, and when it was first seen.
    Whole(Arc<SkillEntry>, Timestamp),
    /// Missing.
    Absent,
    /// Not what was written.
    Damaged(String),
    /// What was written, but no entry of this set by the rules that hold now.
    Refused(String),
}

/// Entries in memory, by label and set.
#[derive(Debug, Default)]
pub(super) struct SetCache {
    entries: HashMap<(Label, SetId), Arc<SkillEntry>>,
    bytes: usize,
}

impl SetCache {
    fn get(&self, key: &SkillKey, set: SetId) -> Option<Arc<SkillEntry>> {
        self.entries.get(&(key.label.clone(), set)).cloned()
    }

    fn keep(&mut self, key: &SkillKey, entry: &Arc<SkillEntry>) {
        if self.bytes > MAX_CACHE_BYTES {
            *self = Self::default();
        }
        let known = self.entries.insert((key.label.clone(), entry.set()), Arc::clone(entry));
        if known.is_none() {
            self.bytes += entry.text().len();
        }
    }

    /// Forgets an origin's entries.
    pub(super) fn forget(&mut self, label: &Label) {
        self.entries.retain(|(known, _), _| known != label);
        self.bytes = self.entries.values().map(|entry| entry.text().len()).sum();
    }
}

impl Content {
    /// Makes sets durable as first seen, all in one round of flushes. One that is stored already stays as it is.
    pub(super) fn put_sets(
        &self,
        sets: &[(SkillKey, Arc<SkillEntry>)],
        address: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let _held = self.hold(sets.iter().map(|(key, _)| key));
        let mut plan = Plan::begin(self)?;
        let mut new = HashMap::new();
        for (key, entry) in sets {
            let path = self.set_path(key, entry.set());
            if new.contains_key(&path) || self.stands(key, entry.set(), &path)? {
                continue;
            }
            plan.folder(key)?;
            plan.add(&path, &SetFile::of(entry, address, now), durable::IMMUTABLE, Place::New)?;
            new.insert(path, (key, entry));
        }
        if new.is_empty() {
            return Ok(());
        }
        plan.commit()?;
        let mut cache = self.cache.lock();
        for (key, entry) in new.into_values() {
            cache.keep(key, entry);
        }
        Ok(())
    }

    /// Says whether the set is stored whole; what else stands under its name is put aside.
    fn stands(&self, key: &SkillKey, set: SetId, path: &Path) -> Result<bool, Error> {
        if self.cache.lock().get(key, set).is_some() && path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(true);
        }
        match load(path, key, set)? {
            StoredSet::Whole(entry, _) => {
                self.cache.lock().keep(key, &entry);
                Ok(true)
            }
            StoredSet::Absent => Ok(false),
            StoredSet::Damaged(why) | StoredSet::Refused(why) => {
                self.put_set_aside(key, set, path, &why)?;
                Ok(false)
            }
        }
    }

    /// The set as it was first seen, if it is stored whole. A damaged one is put aside.
    pub(super) fn set(&self, key: &SkillKey, set: SetId) -> Option<Arc<SkillEntry>> {
        let cached = self.cache.lock().get(key, set);
        if let Some(entry) = cached {
            return (entry.uri() == &key.uri).then_some(entry);
        }
        let path = self.set_path(key, set);
        match load(&path, key, set) {
            Ok(StoredSet::Whole(entry, _)) => {
                self.cache.lock().keep(key, &entry);
                Some(entry)
            }
            Ok(StoredSet::Absent) => None,
            Ok(StoredSet::Refused(why)) => {
                tracing::warn!(%key, %set, why, "a stored set breaks a rule that holds now");
                None
            }
            Ok(StoredSet::Damaged(_)) => {
                if let Err(error) = self.set_set_aside(key, set, &path) {
                    tracing::error!(%key, %set, %error, "a damaged set cannot be put aside");
                }
                None
            }
            Err(error) => {
                tracing::error!(%key, %set, %error, "a stored set cannot be read");
                None
            }
        }
    }

    /// Puts a damaged set aside unless somebody healed it meanwhile.
    pub(super) fn set_set_aside(&self, key: &SkillKey, set: SetId, path: &Path) -> Result<(), Error> {
        let _held = self.hold([key]);
        match load(path, key, set)? {
            StoredSet::Damaged(why) => self.put_set_aside(key, set, path, &why),
            StoredSet::Whole(..) | StoredSet::Absent | StoredSet::Refused(_) => Ok(()),
        }
    }

    fn put_set_aside(&self, key: &SkillKey, set: SetId, path: &Path, why: &str) -> Result<(), Error> {
        let note = QuarantineNote {
            origin: key.label.clone(),
            uri: key.uri.to_string(),
            expected: set.to_string(),
            got: None,
            reason: format!("the stored set is damaged: {why}"),
            when: self.quarantine.now(),
        };
        self.leave(path, &note)
    }

    fn set_path(&self, key: &SkillKey, set: SetId) -> PathBuf {
        self.skill_dir(key).join(set_name(set))
    }
}

/// The name of a set's file.
pub(super) fn set_name(set: SetId) -> String {
    format!("set-{}.json", set.hex())
}

/// The set whose file has this name.
pub(super) fn set_named(name: &str) -> Option<SetId> {
    let hex = name.strip_prefix("set-")?.strip_suffix(".json")?;
    format!("set1:{hex}").parse().ok()
}

/// Reads a set file and checks that it is what its name says.
pub(super) fn load(path: &Path, key: &SkillKey, set: SetId) -> Result<StoredSet, Error> {
    let damaged = |why: &str| Ok(StoredSet::Damaged(why.to_owned()));
    let Some(bytes) = durable::read(path, MAX_SET_BYTES)? else {
        return if path.symlink_metadata().is_ok() {
            damaged("it is no file")
        } else {
            Ok(StoredSet::Absent)
        };
    };
    let file: SetFile = match serde_json::from_slice(&bytes) {
        Ok(file) => file,
        Err(error) => return damaged(&error.to_string()),
    };
    if file.digest_of_rest() != file.digest {
        return damaged("it does not have its digest");
    }
    // It was within the limits of its day; what is served today is decided elsewhere.
    let limits = Limits {
        skill_files: usize::MAX,
        skill_bytes: u64::MAX,
        entry_bytes: usize::MAX,
        ..Limits::default()
    };
    match SkillEntry::parse(&file.entry, &limits) {
        Ok(entry) if entry.set() == set && entry.uri() == &key.uri => Ok(StoredSet::Whole(Arc::new(entry), file.seen)),
        Ok(entry) => Ok(StoredSet::Refused(format!("it is {entry}"))),
        Err(rejected) => Ok(StoredSet::Refused(rejected.to_string())),
    }
}
