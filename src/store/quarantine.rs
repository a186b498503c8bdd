//! Bytes that failed a check, kept for whoever looks into it (design §6).
//!
//! Imports `durable` and `domain`. Each is a pair of files named by time, so that the oldest leave first when the quota is
//! reached: the bytes, 0400, and a JSON note with what was expected, what came, from where and when. Nothing in here is
//! ever served.

use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::durable;
use super::durable::Disk;
use super::durable::Place;
use super::error::Error;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::Timestamp;

/// What is known about bytes in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineNote {
    /// The origin's label.
    pub origin: Label,
    /// The file's URI, or the skill's when it is not known.
    pub uri: String,
    /// The digest or set id that they should have had.
    pub expected: String,
    /// The digest that they have, when they were read.
    pub got: Option<Digest>,
    /// Which check failed.
    pub reason: String,
    /// When.
    pub when: Timestamp,
}

/// The quarantine of one data folder.
#[derive(Debug)]
pub(super) struct Quarantine {
    disk: Arc<Disk>,
    dir: PathBuf,
    limit: u64,
    /// The latest time that anybody told us, for damage found by calls that bring none.
    latest: AtomicU64,
    /// What lies there, oldest first: the name of the bytes, and both files' length.
    held: Mutex<Vec<(String, u64)>>,
}

impl Quarantine {
    /// Takes in what lies in `dir`.
    pub(super) fn open(disk: Arc<Disk>, dir: PathBuf, limit: u64, now: Timestamp) -> Result<Self, Error> {
        disk.make_dir(&dir)?;
        let length = |name: &str| dir.join(name).symlink_metadata().map_or(0, |meta| meta.len());
        let held = durable::names(&dir)?
            .into_iter()
            .filter(|name| !name.ends_with(".json"))
            .map(|name| {
                let bytes = length(&name) + length(&format!("{name}.json"));
                (name, bytes)
            })
            .collect();
        Ok(Self {
            disk,
            dir,
            limit,
            latest: AtomicU64::new(now.as_millis()),
            held: Mutex::new(held),
        })
    }

    /// The latest time heard of.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.latest.load(Ordering::Relaxed))
    }

    /// Hears what time it is.
    pub(super) fn hear(&self, now: Timestamp) {
        self.latest.fetch_max(now.as_millis(), Ordering::Relaxed);
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.held.lock().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The most bytes that it may hold.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Puts bytes from an origin aside. Bytes that alone are over the quota are not kept, only their note.
    pub(super) fn put(&self, bytes: &[u8], note: &QuarantineNote) -> Result<(), Error> {
        let kept = if bytes.len() as u64 > self.limit { &[] } else { bytes };
        self.add(note, kept.len() as u64, |to| {
            self.disk.write(to, kept, durable::ASIDE, Place::New).map(|_| ())
        })
    }

    /// Moves a file of ours that no longer is what its name says.
    pub(super) fn take(&self, from: &Path, note: &QuarantineNote) -> Result<(), Error> {
        tracing::error!(
            path = %from.display(), expected = note.expected, got = ?note.got, reason = note.reason,
            "a stored file is damaged and was put aside"
        );
        let bytes = from.symlink_metadata().map_or(0, |meta| meta.len());
        self.add(note, bytes, |to| {
            self.disk.rename(from, to)?;
            if let durable::Found::File(file, _) = durable::open(to)? {
                close(&file);
            }
            Ok(())
        })
    }

    fn add(
        &self,
        note: &QuarantineNote,
        bytes: u64,
        put: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(note).unwrap_or_default();
        let needed = bytes + text.len() as u64;
        let mut held = self.held.lock();
        self.make_room(&mut held, needed)?;
        let expected = note.expected.rsplit(':').next().unwrap_or_default();
        let expected: String = expected.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let stem = format!("{:013}-{expected}", note.when.as_millis());
        let name = (0..)
            .map(|n: u32| format!("{stem}-{n:04}"))
            .find(|name| self.dir.join(name).symlink_metadata().is_err())
            .unwrap_or(stem);
        put(&self.dir.join(&name))?;
        let note = self.dir.join(format!("{name}.json"));
        self.disk.write(&note, &text, durable::ASIDE, Place::Over)?;
        held.push((name, needed));
        Ok(())
    }

    fn make_room(&self, held: &mut Vec<(String, u64)>, needed: u64) -> Result<(), Error> {
        let mut total: u64 = held.iter().map(|(_, bytes)| bytes).sum();
        let mut leaving = 0;
        for (name, bytes) in held.iter() {
            if total.saturating_add(needed) <= self.limit {
                break;
            }
            self.disk.remove(&self.dir.join(name))?;
            self.disk.remove(&self.dir.join(format!("{name}.json")))?;
            total -= bytes;
            leaving += 1;
        }
        held.drain(..leaving);
        Ok(())
    }
}

/// Lets only the owner read a file.
fn close(file: &File) {
    use std::os::unix::fs::PermissionsExt as _;
    if let Err(error) = file.set_permissions(std::fs::Permissions::from_mode(durable::ASIDE)) {
        tracing::debug!(%error, "the mode of a file in quarantine stays");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarantine(dir: &Path, limit: u64) -> Quarantine {
        let disk = Arc::new(Disk::new(dir, "t"));
        disk.make_dir(&dir.join(durable::TMP)).unwrap();
        Quarantine::open(disk, dir.join("quarantine"), limit, Timestamp::from_millis(0)).unwrap()
    }

    fn note(when: u64) -> QuarantineNote {
        QuarantineNote {
            origin: "acme".parse().unwrap(),
            uri: "skill://a/x".to_owned(),
            expected: Digest::of(b"good").to_string(),
            got: Some(Digest::of(b"bad")),
            reason: "digest".to_owned(),
            when: Timestamp::from_millis(when),
        }
    }

    #[test]
    fn bytes_and_note_lie_side_by_side_and_only_their_owner_reads_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let quarantine = quarantine(dir.path(), 10_000);
        quarantine.put(b"bad", &note(7)).unwrap();
        let names = durable::names(&quarantine.dir).unwrap();
        let [bytes, json] = names.as_slice() else {
            panic!("{names:?}")
        };
        assert_eq!(&format!("{bytes}.json"), json);
        let path = quarantine.dir.join(bytes);
        assert_eq!(durable::read(&path, 99).unwrap().unwrap(), b"bad");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o400);
        let text = durable::read(&quarantine.dir.join(json), 9999).unwrap().unwrap();
        assert_eq!(serde_json::from_slice::<QuarantineNote>(&text).unwrap(), note(7));
    }

    #[test]
    fn the_oldest_leave_when_the_quota_is_reached_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = quarantine(dir.path(), 5_000);
        for when in 1..=4 {
            first.put(&[0; 1_000], &note(when)).unwrap();
        }
        assert!(first.bytes() <= 5_000);
        drop(first);
        let second = quarantine(dir.path(), 2_000);
        second.put(&[0; 1_000], &note(9)).unwrap();
        second.put(&[0; 9_000], &note(10)).unwrap();
        let names = durable::names(&second.dir).unwrap();
        let times: Vec<_> = names.iter().filter_map(|name| name.split('-').next()).collect();
        assert_eq!(
            times,
            ["0000000000009", "0000000000009", "0000000000010", "0000000000010"]
        );
        assert_eq!(
            second.bytes(),
            names
                .iter()
                .map(|name| second.dir.join(name).metadata().unwrap().len())
                .sum::<u64>()
        );
    }
}
