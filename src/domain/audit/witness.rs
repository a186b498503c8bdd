//! What a witness is asked and how it judges: C2SP tlog-witness, `add-checkpoint`.

use thiserror::Error;
use tlog_tiles::tlog;
use tlog_tiles::tlog::Hash;

use super::checkpoint::InvalidCheckpoint;
use super::checkpoint::MAX_CHECKPOINT_BYTES;
use super::checkpoint::SignedCheckpoint;
use super::checkpoint::VerifierKey;
use super::proof::MAX_PROOF_HASHES;
use super::proof::hash_lines;
use super::proof::hashes;
use super::proof::is_consistent;
use super::proof::number;

/// Bytes of a request: its first line, its hashes and its checkpoint.
pub const MAX_REQUEST_BYTES: usize = MAX_CHECKPOINT_BYTES + MAX_PROOF_HASHES * 45 + 64;

/// What a log asks a witness to cosign.
#[derive(Clone, Debug)]
pub struct AddCheckpoint {
    /// Leaves under the checkpoint that the witness cosigned last, as the log believes.
    pub old: u64,
    /// The proof that the new one goes on from it.
    pub proof: Vec<Hash>,
    /// The new one.
    pub checkpoint: SignedCheckpoint,
}

/// What a witness cosigned last of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Leaves.
    pub size: u64,
    /// The root over them.
    pub root: Hash,
}

/// Why a witness does not cosign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The request has another form, or an old size beyond the new one.
    #[error("it is no request to add a checkpoint")]
    Malformed,
    /// No key of this log is known.
    #[error("this log is not known here")]
    UnknownLog,
    /// No key known of this log has signed it, or one of them wrongly.
    #[error("no key known of this log has signed it")]
    Unsigned,
    /// The witness knows another size.
    #[error("the checkpoint cosigned last covers {size} leaves")]
    Conflict {
        /// That size.
        size: u64,
    },
    /// The new checkpoint does not go on from the one cosigned last.
    #[error("it does not go on from the checkpoint cosigned last")]
    Inconsistent,
}

impl Default for Seen {
    /// Nothing yet.
    fn default() -> Self {
        Self {
            size: 0,
            root: tlog::EMPTY_HASH,
        }
    }
}

impl AddCheckpoint {
    /// The request's body.
    pub fn to_text(&self) -> Vec<u8> {
        let head = format!("old {}\n{}\n", self.old, hash_lines(&self.proof));
        [head.into_bytes(), self.checkpoint.to_bytes()].concat()
    }

    /// Reads a request's body, and checks nothing of it.
    ///
    /// # Errors
    ///
    /// [`Refused::Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Refused> {
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|text| text.len() <= MAX_REQUEST_BYTES);
        let (head, checkpoint) = text
            .and_then(|text| text.split_once("\n\n"))
            .ok_or(Refused::Malformed)?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| number(line.strip_prefix("old ")?));
        let (old, proof) = old.zip(hashes(lines)).ok_or(Refused::Malformed)?;
        let checkpoint = SignedCheckpoint::parse(checkpoint.as_bytes()).map_err(|_| Refused::Malformed)?;
        let parsed = Self { old, proof, checkpoint };
        (parsed.to_text() == bytes).then_some(parsed).ok_or(Refused::Malformed)
    }

    /// Judges the request of a log with these keys, of which `seen` was cosigned last; gives what is to be remembered before
    /// it is cosigned.
    ///
    /// # Errors
    ///
    /// [`Refused`], in the order in which the specification wants them.
    pub fn judge(&self, keys: &[VerifierKey], seen: Seen) -> Result<Seen, Refused> {
        let new = self.checkpoint.checkpoint();
        if !keys.iter().any(|key| key.name() == new.origin) {
            return Err(Refused::UnknownLog);
        }
        let mut is_signed = false;
        for key in keys {
            match self.checkpoint.verify_log(key) {
                Ok(()) => is_signed = true,
                Err(InvalidCheckpoint::Unsigned(_) | InvalidCheckpoint::OtherLog(_)) => {}
                Err(
                    InvalidCheckpoint::Forged(_)
                    | InvalidCheckpoint::NotAlone(_)
                    | InvalidCheckpoint::Note
                    | InvalidCheckpoint::Text,
                ) => return Err(Refused::Unsigned),
            }
        }
        if !is_signed {
            return Err(Refused::Unsigned);
        }
        if self.old > new.size {
            return Err(Refused::Malformed);
        }
        if self.old != seen.size {
            return Err(Refused::Conflict { size: seen.size });
        }
        let next = Seen {
            size: new.size,
            root: new.root,
        };
        if is_consistent(&self.proof, (seen.size, seen.root), (next.size, next.root)) {
            Ok(next)
        } else {
            Err(Refused::Inconsistent)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::checkpoint::Checkpoint;
    use super::super::checkpoint::KeyKind;
    use super::super::checkpoint::NoteKey;
    use super::*;
    use crate::domain::audit::Tree;

    fn key(seed: u8) -> NoteKey {
        NoteKey::new("portcullis/x", KeyKind::Log, &[seed; 32]).unwrap()
    }

    fn tree(leaves: &[&str]) -> Tree {
        let mut tree = Tree::default();
        leaves.iter().for_each(|leaf| tree.push(leaf.as_bytes()));
        tree
    }

    fn seen(tree: &Tree, size: u64) -> Seen {
        Seen {
            size,
            root: tree.root_at(size).unwrap(),
        }
    }

    fn request(tree: &Tree, old: u64, size: u64, key: &NoteKey) -> AddCheckpoint {
        let checkpoint = Checkpoint {
            origin: "portcullis/x".to_owned(),
            size,
            root: tree.root_at(size).unwrap(),
        };
        AddCheckpoint {
            old,
            proof: tree.consistency(old.min(size), size).unwrap(),
            checkpoint: SignedCheckpoint::parse(&checkpoint.signed_by(key)).unwrap(),
        }
    }

    #[test]
    fn a_witness_goes_along_with_what_grows_and_with_nothing_else() {
        let (log, keys) = (key(1), [key(1).verifier().clone()]);
        let grown = tree(&["a", "b", "c", "d", "e", "f", "g"]);
        let forked = tree(&["a", "b", "x", "d", "e", "f", "g"]);
        for old in 0..=7 {
            for size in old..=7 {
                let request = request(&grown, old, size, &log);
                assert_eq!(
                    request.judge(&keys, seen(&grown, old)),
                    Ok(seen(&grown, size)),
                    "{old} {size}"
                );
                if old > 2 {
                    let judged = request.judge(&keys, seen(&forked, old));
                    assert_eq!(judged, Err(Refused::Inconsistent), "{old} {size}");
                }
            }
        }
        // A fork of the same size, an older log, and proofs where none belongs.
        let same = request(&forked, 7, 7, &log);
        assert_eq!(same.judge(&keys, seen(&grown, 7)), Err(Refused::Inconsistent));
        let older = request(&grown, 3, 3, &log);
        assert_eq!(older.judge(&keys, seen(&grown, 5)), Err(Refused::Conflict { size: 5 }));
        let backwards = AddCheckpoint { old: 5, ..older };
        assert_eq!(backwards.judge(&keys, seen(&grown, 5)), Err(Refused::Malformed));
        let mut first = request(&grown, 0, 3, &log);
        first.proof.push(grown.root_at(1).unwrap());
        assert_eq!(first.judge(&keys, Seen::default()), Err(Refused::Inconsistent));
        assert_eq!(
            request(&grown, 0, 3, &log).judge(&keys, seen(&grown, 2)),
            Err(Refused::Conflict { size: 2 })
        );
        let not_empty = Checkpoint {
            origin: "portcullis/x".to_owned(),
            size: 0,
            root: grown.root_at(1).unwrap(),
        };
        let lie = AddCheckpoint {
            old: 0,
            proof: Vec::new(),
            checkpoint: SignedCheckpoint::parse(&not_empty.signed_by(&log)).unwrap(),
        };
        assert_eq!(lie.judge(&keys, Seen::default()), Err(Refused::Inconsistent));
    }

    #[test]
    fn who_did_not_sign_is_refused_before_anything_is_told() {
        let (old, new) = (key(1), key(2));
        let grown = tree(&["a", "b"]);
        let keys = [old.verifier().clone(), new.verifier().clone()];
        for signer in [&old, &new] {
            assert!(request(&grown, 0, 2, signer).judge(&keys, Seen::default()).is_ok());
        }
        let stranger = request(&grown, 0, 2, &key(3));
        assert_eq!(stranger.judge(&keys, seen(&grown, 1)), Err(Refused::Unsigned));
        let other = NoteKey::new("portcullis/y", KeyKind::Log, &[1; 32]).unwrap();
        assert_eq!(
            stranger.judge(&[other.verifier().clone()], Seen::default()),
            Err(Refused::UnknownLog)
        );
    }

    #[test]
    fn a_request_reads_back_and_only_in_its_own_form() {
        let grown = tree(&["a", "b", "c"]);
        let good = request(&grown, 1, 3, &key(1)).to_text();
        assert_eq!(AddCheckpoint::parse(&good).unwrap().to_text(), good);
        let text = String::from_utf8(good).unwrap();
        for bad in [
            text.replacen("old 1", "old 01", 1),
            text.replacen("old 1", "old -1", 1),
            text.replacen("old 1\n", "old 1\n\n", 1),
            text.replacen("old", "new", 1),
            format!("\n{text}"),
            format!("{text}\n"),
            text.replacen("old 1\n", &format!("old 1\n{}", "AAAA\n".repeat(70)), 1),
        ] {
            assert!(AddCheckpoint::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_witness_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..400) {
            let (log, grown) = (key(1), tree(&["a", "b", "c"]));
            let mut text = request(&grown, 1, 3, &log).to_text();
            let at = at.min(text.len());
            drop(text.splice(at..(at + bytes.len()).min(text.len()), bytes));
            if let Ok(request) = AddCheckpoint::parse(&text) {
                prop_assert_eq!(request.to_text(), text);
                let _judged = request.judge(&[log.verifier().clone()], seen(&grown, 1));
            }
        }
    }
}
