//! The keys that sign the log's checkpoints, one after the other (design §7).
//!
//! Imports `error` and `domain::audit`. A leaf says which key follows which, and stands under a checkpoint of the old one:
//! whoever trusts the first key comes to the last by the leaves alone, and what an old key signs later counts no more.

use std::path::Path;

use super::error::Error;
use crate::domain::audit::Checkpoint;
use crate::domain::audit::KeyKind;
use crate::domain::audit::NoteKey;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::VerifierKey;

/// Makes a new key of the log with this origin line.
pub(super) fn generate(origin: &str) -> Result<NoteKey, Error> {
    NoteKey::new(origin, KeyKind::Log, &rand::random()).ok_or_else(|| Error::Leaf {
        why: format!("{origin} cannot be the name of a key"),
    })
}

/// Reads the key of the log with this origin line.
pub(super) fn parse(text: &[u8], origin: &str, path: &Path) -> Result<NoteKey, Error> {
    let bad = |why: String| Error::Key {
        path: path.to_owned(),
        why,
    };
    let text = String::from_utf8_lossy(text);
    let key = NoteKey::parse(&text).ok_or_else(|| bad("it is malformed".to_owned()))?;
    let other = key.verifier().name();
    if other != origin {
        return Err(bad(format!(
            "it is the key of {other}, but by FORMAT this log is {origin}"
        )));
    }
    if key.verifier().kind() != KeyKind::Log {
        return Err(bad("it is no log's key".to_owned()));
    }
    Ok(key)
}

/// The keys of a log in the order in which they signed.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    first: VerifierKey,
    /// Each later key, with the leaves that the checkpoint has which the one before it signed last.
    later: Vec<(u64, VerifierKey)>,
}

/// A key that signs no more.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EarlierKey {
    /// The key, as C2SP signed-note writes it.
    pub key: String,
    /// The most leaves that a checkpoint of it may cover.
    pub until: u64,
}

impl Keys {
    /// A log that one key alone signed so far.
    pub(super) fn of(first: VerifierKey) -> Self {
        Self {
            first,
            later: Vec::new(),
        }
    }

    /// The same log before any other key followed the first.
    pub(super) fn first(&self) -> Self {
        Self::of(self.first.clone())
    }

    /// The key that signs now.
    pub(super) fn current(&self) -> &VerifierKey {
        self.later.last().map_or(&self.first, |(_, key)| key)
    }

    /// Leaves that the log had when the current key took over.
    pub(super) fn since(&self) -> u64 {
        self.later.last().map_or(0, |(since, _)| *since)
    }

    /// Says whether a key ever signed for this log.
    pub(super) fn knows(&self, key: &VerifierKey) -> bool {
        self.each().any(|known| known == key)
    }

    /// Every key, the first one first.
    pub(super) fn each(&self) -> impl Iterator<Item = &VerifierKey> {
        [&self.first].into_iter().chain(self.later.iter().map(|(_, key)| key))
    }

    /// The keys before the current one.
    pub(super) fn earlier(&self) -> Vec<EarlierKey> {
        let until = self.later.iter().map(|(since, _)| *since);
        let earlier = self.each().zip(until).map(|(key, until)| EarlierKey {
            key: key.to_string(),
            until,
        });
        earlier.collect()
    }

    /// Takes in what the last of `size` leaves says: that `to` follows `from`.
    pub(super) fn rotate(&mut self, size: u64, from: &str, to: &str) -> Result<(), String> {
        if self.current().to_string() != from {
            return Err("it replaces a key that was not the log's".to_owned());
        }
        let to: VerifierKey = to.parse().map_err(|_| "the key that it names is none".to_owned())?;
        if to.kind() != KeyKind::Log || to.name() != self.first.name() || self.knows(&to) {
            return Err("the key that it names cannot be the log's next one".to_owned());
        }
        self.later.push((size, to));
        Ok(())
    }

    /// Reads a checkpoint in the journal: exactly one that the key of that time made.
    pub(super) fn open_frame(&self, bytes: &[u8]) -> Result<Checkpoint, String> {
        let signed = parsed(bytes)?;
        let size = signed.checkpoint().size;
        self.verify(&signed, [self.at(size)].into_iter())
    }

    /// Reads a checkpoint that lies beside the journal: where a key took over, the new one may have signed as well.
    pub(super) fn open(&self, bytes: &[u8]) -> Result<Checkpoint, String> {
        let signed = parsed(bytes)?;
        self.verify(&signed, self.candidates(signed.checkpoint().size))
    }

    /// Says whether the key of that time has signed a checkpoint, whoever cosigned it.
    pub(super) fn vouch_for(&self, signed: &SignedCheckpoint) -> bool {
        self.candidates(signed.checkpoint().size)
            .any(|key| signed.verify_log(key).is_ok())
    }

    /// The keys that may have signed over `size` leaves what does not lie in the journal.
    fn candidates(&self, size: u64) -> impl Iterator<Item = &VerifierKey> {
        let taken_over = self.later.iter().find(move |(since, _)| *since == size);
        [self.at(size)].into_iter().chain(taken_over.map(|(_, key)| key))
    }

    /// The key whose turn it is to sign over `size` leaves.
    fn at(&self, size: u64) -> &VerifierKey {
        let later = self.later.iter().rev().find(|(since, _)| *since < size);
        later.map_or(&self.first, |(_, key)| key)
    }

    fn verify<'a>(
        &self,
        signed: &SignedCheckpoint,
        mut keys: impl Iterator<Item = &'a VerifierKey>,
    ) -> Result<Checkpoint, String> {
        let why = match keys.try_fold(None, |_, key| match signed.verify_own(key) {
            Ok(()) => Err(()),
            Err(why) => Ok(Some(why)),
        }) {
            Err(()) => return Ok(signed.checkpoint().clone()),
            Ok(why) => why.map_or_else(String::new, |why| why.to_string()),
        };
        let stale = self.each().find(|key| signed.verify_own(key).is_ok());
        Err(stale.map_or(why, |key| {
            format!(
                "it is signed by {key}, which was not the log's key at {} leaves",
                signed.checkpoint().size
            )
        }))
    }
}

fn parsed(bytes: &[u8]) -> Result<SignedCheckpoint, String> {
    SignedCheckpoint::parse(bytes).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::audit::TreeHash;

    fn note(key: &NoteKey, size: u64) -> Vec<u8> {
        let checkpoint = Checkpoint {
            origin: "portcullis/x".to_owned(),
            size,
            root: TreeHash([7; 32]),
        };
        checkpoint.signed_by(key)
    }

    #[test]
    fn each_key_counts_in_its_own_time_and_no_longer() {
        let made: Vec<_> = (0..3).map(|_| generate("portcullis/x").unwrap()).collect();
        let names: Vec<_> = made.iter().map(|key| key.verifier().to_string()).collect();
        let mut keys = Keys::of(made[0].verifier().clone());
        keys.rotate(5, &names[0], &names[1]).unwrap();
        keys.rotate(9, &names[1], &names[2]).unwrap();
        for (size, signer) in [(0, 0), (5, 0), (6, 1), (9, 1), (10, 2), (1_000, 2)] {
            for (at, key) in made.iter().enumerate() {
                let note = note(key, size);
                assert_eq!(keys.open_frame(&note).is_ok(), at == signer, "{size} {at}");
                let took_over = matches!((size, at), (5, 1) | (9, 2));
                assert_eq!(keys.open(&note).is_ok(), at == signer || took_over, "{size} {at}");
            }
        }
        let why = keys.open(&note(&made[0], 6)).unwrap_err();
        assert!(why.contains("was not the log's key"), "{why}");
        assert_eq!(
            keys.earlier().iter().map(|earlier| earlier.until).collect::<Vec<_>>(),
            [5, 9]
        );
        assert!(keys.rotate(12, &names[0], &names[2]).is_err());
        assert!(keys.rotate(12, &names[2], &names[0]).is_err(), "no key comes back");
        let other = generate("portcullis/y").unwrap();
        assert!(keys.rotate(12, &names[2], &other.verifier().to_string()).is_err());
    }

    #[test]
    fn the_key_of_another_log_is_refused() {
        let text = generate("portcullis/y").unwrap().to_secret_text();
        let path = Path::new("key");
        assert!(parse(text.as_bytes(), "portcullis/y", path).is_ok());
        for text in [text.as_bytes(), b"PRIVATE+KEY+x", b""] {
            assert!(matches!(parse(text, "portcullis/x", path), Err(Error::Key { .. })));
        }
    }
}
