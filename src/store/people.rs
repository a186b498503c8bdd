//! The names behind the log's commitments (design §7).
//!
//! Imports `durable` and `domain`. The log says `person1:` and a hash; only `people/<hash>.json` has the name and the salt
//! that open it, so that a person leaves the record when that file does.

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::durable;
use super::durable::Disk;
use super::durable::Place;
use super::error::Error;
use crate::domain::Digest;
use crate::domain::audit::Actor;

const PREFIX: &str = "person1:";

/// Bytes of a person's file that are read.
const MAX_PERSON_BYTES: u64 = 64 * 1024;

/// What opens a commitment.
#[derive(Debug, Serialize, Deserialize)]
struct Person {
    name: String,
    salt: String,
}

/// The people of one data folder.
#[derive(Debug)]
pub(super) struct People {
    disk: Arc<Disk>,
    dir: PathBuf,
    /// Held while a new one is written, so that nobody gets two.
    known: Mutex<Known>,
}

/// Names and hashes, both ways.
#[derive(Debug, Default)]
struct Known {
    hashes: HashMap<String, String>,
    names: HashMap<String, String>,
}

impl Known {
    fn insert(&mut self, name: String, hash: String) {
        self.names.insert(hash.clone(), name.clone());
        self.hashes.insert(name, hash);
    }
}

impl Person {
    fn hash(&self) -> String {
        Digest::of(format!("portcullis person v1\n{}\n{}", self.salt, self.name).as_bytes()).hex()
    }
}

impl People {
    /// Takes in the people in `dir`.
    pub(super) fn open(disk: Arc<Disk>, dir: PathBuf) -> Result<Self, Error> {
        disk.make_dir(&dir)?;
        let mut known = Known::default();
        for name in durable::names(&dir)? {
            match read(&dir, &name)? {
                Some((person, hash)) => known.insert(person.name, hash),
                None => tracing::warn!(name, "a file in people/ opens no commitment"),
            }
        }
        Ok(Self {
            disk,
            dir,
            known: Mutex::new(known),
        })
    }

    /// The commitment to a name, always the same one, made durable when it is new.
    pub(super) fn actor(&self, name: &str) -> Result<Actor, Error> {
        let mut known = self.known.lock();
        if let Some(hash) = known.hashes.get(name) {
            return Ok(Actor::Person(format!("{PREFIX}{hash}")));
        }
        let person = Person {
            name: name.to_owned(),
            salt: format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>()),
        };
        let hash = person.hash();
        let text = serde_json::to_vec_pretty(&person).unwrap_or_default();
        let path = self.dir.join(format!("{hash}.json"));
        self.disk.write(&path, &text, durable::PRIVATE, Place::New)?;
        known.insert(name.to_owned(), hash.clone());
        Ok(Actor::Person(format!("{PREFIX}{hash}")))
    }

    /// Says whether there is a commitment to a name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.known.lock().hashes.contains_key(name)
    }

    /// Every name, by its commitment.
    pub(super) fn all(&self) -> HashMap<String, String> {
        let known = self.known.lock();
        let named = known.names.iter();
        named
            .map(|(hash, name)| (format!("{PREFIX}{hash}"), name.clone()))
            .collect()
    }

    /// The files that open no commitment.
    pub(super) fn unreadable(&self) -> Result<Vec<PathBuf>, Error> {
        let mut unreadable = Vec::new();
        for name in durable::names(&self.dir)? {
            if read(&self.dir, &name)?.is_none() {
                unreadable.push(self.dir.join(name));
            }
        }
        Ok(unreadable)
    }

    /// The name behind a commitment, unless it was erased.
    pub(super) fn name(&self, actor: &Actor) -> Option<String> {
        let Actor::Person(commitment) = actor else {
            return None;
        };
        let hash = commitment.strip_prefix(PREFIX)?;
        self.known.lock().names.get(hash).cloned()
    }

    /// Destroys what opens a commitment. Nothing happens where nothing does.
    pub(super) fn forget(&self, commitment: &str) -> Result<(), Error> {
        let Some(hash) = commitment
            .strip_prefix(PREFIX)
            .filter(|hash| Digest::from_hex(hash).is_ok())
        else {
            return Ok(());
        };
        let mut known = self.known.lock();
        if let Some(name) = known.names.remove(hash) {
            known.hashes.remove(&name);
        }
        self.disk.remove(&self.dir.join(format!("{hash}.json")))
    }
}

/// The person in a file, and the hash that is its name too.
fn read(dir: &Path, name: &str) -> Result<Option<(Person, String)>, Error> {
    let bytes = durable::read(&dir.join(name), MAX_PERSON_BYTES)?;
    let person: Option<Person> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let known = person.map(|person| (person.hash(), person));
    Ok(known
        .filter(|(hash, _)| name == format!("{hash}.json"))
        .map(|(hash, person)| (person, hash)))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what others do to the folder is done here")]
mod tests {
    use super::*;

    fn people(dir: &Path) -> People {
        let disk = Arc::new(Disk::new(dir, "t"));
        disk.make_dir(&dir.join(durable::TMP)).unwrap();
        People::open(disk, dir.join("people")).unwrap()
    }

    #[test]
    fn a_name_has_one_commitment_also_after_a_restart_until_it_is_erased() {
        let dir = tempfile::tempdir().unwrap();
        let actor = people(dir.path()).actor("zoe").unwrap();
        let again = people(dir.path());
        assert_eq!(again.actor("zoe").unwrap(), actor);
        assert_ne!(again.actor("bob").unwrap(), actor);
        assert_eq!(again.name(&actor).as_deref(), Some("zoe"));
        assert_eq!(again.name(&Actor::Gateway), None);
        assert!(again.knows("zoe") && !again.knows("eve"));
        assert_eq!(again.all().get(&actor.to_string()).map(String::as_str), Some("zoe"));
        let Actor::Person(commitment) = &actor else { panic!() };
        assert!(!commitment.contains("zoe"));
        again.forget(commitment).unwrap();
        again.forget(commitment).unwrap();
        again.forget("person1:../../x").unwrap();
        assert!(!again.knows("zoe") && again.name(&actor).is_none());
        assert_eq!(people(dir.path()).name(&actor), None);
        assert_ne!(people(dir.path()).actor("zoe").unwrap(), actor);
    }

    #[test]
    fn a_changed_name_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let actor = people(dir.path()).actor("ada").unwrap();
        let folder = dir.path().join("people");
        let path = folder.join(durable::names(&folder).unwrap().remove(0));
        let text = String::from_utf8(durable::read(&path, 9_999).unwrap().unwrap()).unwrap();
        std::fs::write(&path, text.replace("ada", "eve")).unwrap();
        assert_eq!(people(dir.path()).name(&actor), None);
    }
}
