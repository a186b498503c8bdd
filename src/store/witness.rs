//! What a witness keeps: its own key, and of each log the checkpoint that it cosigned last.
//!
//! Imports `durable`, `location` and `domain::audit`. A folder of its own, which no gateway uses:
//!
//! | in the folder | what it is |
//! | --- | --- |
//! | `key` | the key that cosigns, 0600 |
//! | `logs/<SHA-256 of the origin line>` | the checkpoint cosigned last, with the cosignature |
//! | `lock`, `tmp` | as in a data folder |
//!
//! What is to be cosigned is durable before the cosignature leaves, so that no crash makes the witness say two things.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;

use parking_lot::Mutex;

use super::durable;
use super::durable::Disk;
use super::durable::Place;
use super::durable::TMP;
use super::error::Error;
use super::location;
use super::log::MAX_NOTE_BYTES;
use crate::domain::Digest;
use crate::domain::Timestamp;
use crate::domain::audit::AddCheckpoint;
use crate::domain::audit::KeyKind;
use crate::domain::audit::NoteKey;
use crate::domain::audit::Refused;
use crate::domain::audit::Seen;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::VerifierKey;

/// The folder of a witness that this process holds.
#[derive(Debug)]
pub struct WitnessFolder {
    disk: Disk,
    logs: PathBuf,
    key: NoteKey,
    /// The checkpoint cosigned last of each log, by the name of its file; held from the judgement until it is durable.
    last: Mutex<HashMap<String, SignedCheckpoint>>,
    _lock: File,
}

impl WitnessFolder {
    /// Takes the folder, making it and a key if it is new. `name` is for a new key alone.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`]; [`Error::Key`] for a key that is damaged, or missing where logs are known; [`Error::Head`] for a
    /// checkpoint that this key did not cosign.
    pub fn open(dir: &Path, name: &str, now: Timestamp) -> Result<Self, Error> {
        let dir = std::path::absolute(dir).map_err(|source| Error::io("find", dir, source))?;
        let (disk, logs) = (Disk::new(&dir, "witness"), dir.join("logs"));
        disk.make_dir(&dir)?;
        disk.close_dir(&dir);
        let lock = location::lock(&dir, now)?;
        disk.make_dir(&dir.join(TMP))?;
        disk.empty_tmp()?;
        disk.make_dir(&logs)?;
        let known = durable::names(&logs)?;
        let key = key_or_new(&disk, &dir.join("key"), name, known.is_empty())?;
        let mut last = HashMap::new();
        for file in known {
            let signed = read(&logs.join(&file), &file, key.verifier())?;
            last.insert(file, signed);
        }
        Ok(Self {
            disk,
            logs,
            key,
            last: Mutex::new(last),
            _lock: lock,
        })
    }

    /// The key that it cosigns with.
    pub fn key(&self) -> &VerifierKey {
        self.key.verifier()
    }

    /// Judges a request and cosigns it, `time` in seconds since 1970. What is cosigned is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`], [`Error::Io`], [`Error::WritingStopped`]: nothing is cosigned.
    pub fn add(
        &self,
        request: &AddCheckpoint,
        keys: &[VerifierKey],
        time: u64,
    ) -> Result<Result<Vec<u8>, Refused>, Error> {
        let file = file_of(&request.checkpoint.checkpoint().origin);
        let mut last = self.last.lock();
        let seen = last.get(&file).map(seen).unwrap_or_default();
        if let Err(refused) = request.judge(keys, seen) {
            return Ok(Err(refused));
        }
        let line = self.key.sign(request.checkpoint.text(), time);
        // What strangers signed beside the log is not kept: it could grow beyond what is read again.
        let mut signed = request.checkpoint.clone();
        signed.retain(keys);
        let taken = signed.take_cosignature(self.key.verifier(), &line);
        taken.map_err(|why| Error::Leaf { why: why.to_string() })?;
        self.disk.write(
            &self.logs.join(&file),
            &signed.to_bytes(),
            durable::PRIVATE,
            Place::Over,
        )?;
        last.insert(file, signed);
        Ok(Ok(line))
    }

    /// The checkpoint cosigned last of the log whose origin line has this SHA-256, in hexadecimal.
    pub fn checkpoint(&self, origin_hash: &str) -> Option<Vec<u8>> {
        self.last.lock().get(origin_hash).map(SignedCheckpoint::to_bytes)
    }
}

fn seen(signed: &SignedCheckpoint) -> Seen {
    let checkpoint = signed.checkpoint();
    Seen {
        size: checkpoint.size,
        root: checkpoint.root,
    }
}

fn file_of(origin: &str) -> String {
    Digest::of(origin.as_bytes()).hex()
}

fn key_or_new(disk: &Disk, path: &Path, name: &str, is_new: bool) -> Result<NoteKey, Error> {
    let bad = |why: &str| Error::Key {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    if let Some(bytes) = durable::read(path, MAX_NOTE_BYTES)? {
        let key = NoteKey::parse(&String::from_utf8_lossy(&bytes));
        let key = key.filter(|key| key.verifier().kind() == KeyKind::Witness);
        return key.ok_or_else(|| bad("it is no witness's key"));
    }
    if !is_new {
        return Err(bad("it is missing, but there are logs that it cosigned"));
    }
    let key = NoteKey::new(name, KeyKind::Witness, &rand::random());
    let key = key.ok_or_else(|| bad("its name has blanks or a plus sign, or is empty"))?;
    disk.write(path, key.to_secret_text().as_bytes(), durable::PRIVATE, Place::New)?;
    Ok(key)
}

/// Reads what was cosigned last: damage here must not make the witness forget what it said.
fn read(path: &Path, file: &str, key: &VerifierKey) -> Result<SignedCheckpoint, Error> {
    let bad = |why: String| Error::Head {
        path: path.to_owned(),
        why,
    };
    let bytes = durable::read(path, MAX_NOTE_BYTES)?.unwrap_or_default();
    let signed = SignedCheckpoint::parse(&bytes).map_err(|why| bad(why.to_string()))?;
    signed.verify(key).map_err(|why| bad(why.to_string()))?;
    if file_of(&signed.checkpoint().origin) == file {
        Ok(signed)
    } else {
        Err(bad("it lies under the name of another log".to_owned()))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what others do to the folder is done here")]
mod tests {
    use std::fs;

    use rustix::io::Errno;

    use super::*;
    use crate::domain::audit::Checkpoint;
    use crate::domain::audit::Tree;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn log_key() -> NoteKey {
        NoteKey::new("portcullis/x", KeyKind::Log, &[1; 32]).unwrap()
    }

    fn request(leaves: &[&str], old: u64) -> AddCheckpoint {
        let mut tree = Tree::default();
        leaves.iter().for_each(|leaf| tree.push(leaf.as_bytes()));
        let checkpoint = Checkpoint {
            origin: "portcullis/x".to_owned(),
            size: tree.size(),
            root: tree.root_at(tree.size()).unwrap(),
        };
        AddCheckpoint {
            old,
            proof: tree.consistency(old, tree.size()).unwrap(),
            checkpoint: SignedCheckpoint::parse(&checkpoint.signed_by(&log_key())).unwrap(),
        }
    }

    fn open(dir: &Path) -> Result<WitnessFolder, Error> {
        WitnessFolder::open(dir, "witness.example", NOW)
    }

    fn add(witness: &WitnessFolder, request: &AddCheckpoint) -> Result<Result<Vec<u8>, Refused>, Error> {
        witness.add(request, &[log_key().verifier().clone()], 1_790_000_000)
    }

    #[test]
    fn what_was_cosigned_is_known_after_a_restart_and_a_fork_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let witness = open(dir.path()).unwrap();
        let key = witness.key().clone();
        let first = request(&["a", "b"], 0);
        let line = add(&witness, &first).unwrap().unwrap();
        let mut signed = first.checkpoint.clone();
        assert_eq!(signed.take_cosignature(&key, &line).unwrap().time, Some(1_790_000_000));
        drop(witness);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(""), mode("key"), mode("logs")), (0o700, 0o600, 0o700));
        let witness = open(dir.path()).unwrap();
        assert_eq!(witness.key(), &key);
        let fork = request(&["a", "x", "y"], 2);
        assert_eq!(add(&witness, &fork).unwrap(), Err(Refused::Inconsistent));
        let anew = request(&["x"], 0);
        assert_eq!(add(&witness, &anew).unwrap(), Err(Refused::Conflict { size: 2 }));
        assert!(add(&witness, &request(&["a", "b", "c"], 2)).unwrap().is_ok());
        let shown = witness.checkpoint(&file_of("portcullis/x")).unwrap();
        let shown = SignedCheckpoint::parse(&shown).unwrap();
        assert_eq!(shown.checkpoint().size, 3);
        shown.verify_log(log_key().verifier()).unwrap();
        shown.verify(&key).unwrap();
        assert_eq!(witness.checkpoint("..%2fkey"), None);
    }

    #[test]
    fn every_call_of_a_cosignature_may_fail_and_nothing_is_said_twice() {
        let whole = tempfile::tempdir().unwrap();
        for call in 0.. {
            let dir = whole.path().join(call.to_string());
            let witness = open(&dir).unwrap();
            add(&witness, &request(&["a"], 0)).unwrap().unwrap();
            witness.disk.watch.arm(call, Errno::IO);
            let answer = add(&witness, &request(&["a", "b"], 1));
            let passed = witness.disk.watch.disarm();
            drop(witness);
            let witness = open(&dir).unwrap();
            // What was cosigned is known; what failed may be known, and then no fork of it is cosigned.
            let fork = add(&witness, &request(&["a", "x"], 1)).unwrap();
            if answer.is_ok() {
                assert_eq!(fork, Err(Refused::Conflict { size: 2 }), "{call}");
            }
            if passed {
                assert!(call > 3);
                break;
            }
        }
    }

    #[test]
    fn a_witness_that_lost_its_memory_does_not_start() {
        let dir = tempfile::tempdir().unwrap();
        let witness = open(dir.path()).unwrap();
        add(&witness, &request(&["a"], 0)).unwrap().unwrap();
        assert!(matches!(open(dir.path()), Err(Error::Locked { .. })));
        drop(witness);
        let (key, log) = (
            dir.path().join("key"),
            dir.path().join("logs").join(file_of("portcullis/x")),
        );
        let good = fs::read(&log).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&log, &bad).unwrap();
            let opened = open(dir.path());
            // The log's own signature is checked when it comes; the cosignature covers the rest.
            let own = String::from_utf8_lossy(&good[..at]).matches('—').count() == 1;
            assert!(own || matches!(opened, Err(Error::Head { .. })), "{at}");
        }
        fs::write(&log, &good).unwrap();
        let secret = fs::read(&key).unwrap();
        fs::write(&key, "PRIVATE+KEY+x").unwrap();
        assert!(matches!(open(dir.path()), Err(Error::Key { .. })));
        fs::remove_file(&key).unwrap();
        assert!(matches!(open(dir.path()), Err(Error::Key { .. })));
        fs::write(&key, secret).unwrap();
        open(dir.path()).unwrap();
    }
}
