//! What the log shows to others: proofs under its checkpoints, and the checkpoint that witnesses have cosigned.
//!
//! Imports `log`, `recover`'s places and `durable`. `log/cosigned` is the newest checkpoint with cosignatures; it is asked
//! for again when it is lost, so that it is not flushed, and it is no longer known when it does not fit the log.

use super::durable;
use super::error::Error;
use super::log::Core;
use super::log::MAX_NOTE_BYTES;
use crate::domain::LockedSkill;
use crate::domain::audit::Envelope;
use crate::domain::audit::Proof;
use crate::domain::audit::SignedCheckpoint;
use crate::domain::audit::TreeHash;

/// Where somebody stands who knows an earlier or a later part of the log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// So many leaves, as the log has them.
    Size(u64),
    /// A checkpoint, as text.
    Checkpoint(String),
}

/// Whether one part of the log goes on from another, and what proves it to anybody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consistency {
    /// Why not, if so.
    pub why: Option<String>,
    /// Leaves and root of the earlier part.
    pub old: Option<(u64, TreeHash)>,
    /// Leaves and root of the later part.
    pub new: Option<(u64, TreeHash)>,
    /// The proof (RFC 6962 §2.1.2).
    pub proof: Vec<TreeHash>,
}

impl Core {
    /// A statement that a set was approved by the leaf at `index`, with the proof under the newest checkpoint, which the same
    /// key has signed. Nothing when there is no such leaf.
    pub(super) fn attest(&self, skill: &LockedSkill, index: u64) -> Result<Option<Envelope>, Error> {
        // The key stays the same meanwhile.
        let writer = self.writer.lock();
        let proof = self.prove_under(None, index)?;
        Ok(proof.map(|proof| Envelope::seal(skill, &proof, &writer.key)))
    }

    /// Takes in `log/cosigned`, as far as it fits the log.
    pub(super) fn load_cosigned(&self) -> Result<(), Error> {
        let bytes = durable::read(&self.places.cosigned, MAX_NOTE_BYTES)?;
        let signed = bytes.and_then(|bytes| SignedCheckpoint::parse(&bytes).ok());
        *self.cosigned.write() = signed.filter(|signed| self.fits(signed));
        Ok(())
    }

    /// Keeps a checkpoint of ours with its cosignatures, unless a longer one is kept.
    pub(super) fn keep_cosigned(&self, signed: &SignedCheckpoint) -> Result<(), Error> {
        let mut kept = self.cosigned.write();
        let size = signed.checkpoint().size;
        let is_older = kept.as_ref().is_some_and(|kept| kept.checkpoint().size > size);
        if is_older || !self.fits(signed) {
            return Ok(());
        }
        *kept = Some(signed.clone());
        self.disk.write_derived(&self.places.cosigned, &signed.to_bytes())
    }

    /// The newest checkpoint with cosignatures.
    pub(super) fn cosigned(&self) -> Option<SignedCheckpoint> {
        self.cosigned.read().clone()
    }

    /// Says whether a checkpoint is one of this log, as it is now.
    fn fits(&self, signed: &SignedCheckpoint) -> bool {
        let state = self.state.read();
        let checkpoint = signed.checkpoint();
        checkpoint.size <= state.size
            && state.keys.vouch_for(signed)
            && state.tree.root_at(checkpoint.size) == Some(checkpoint.root)
    }

    /// A proof that the leaf is in the log: under the newest cosigned checkpoint, or the newest one where that does not
    /// cover it. Nothing when there is no such leaf.
    pub(super) fn prove(&self, index: u64) -> Result<Option<Proof>, Error> {
        let cosigned = self.cosigned().filter(|signed| signed.checkpoint().size > index);
        self.prove_under(cosigned, index)
    }

    /// The proof under a checkpoint, or under the newest one.
    fn prove_under(&self, cosigned: Option<SignedCheckpoint>, index: u64) -> Result<Option<Proof>, Error> {
        let Some(leaf) = self.leaf_bytes(index)? else {
            return Ok(None);
        };
        let state = self.state.read();
        let damaged = |why: String| Error::LogDamaged { index, why };
        let checkpoint = match cosigned {
            Some(cosigned) => cosigned,
            None => SignedCheckpoint::parse(&state.note).map_err(|why| damaged(why.to_string()))?,
        };
        let hashes = state.tree.inclusion(index, checkpoint.checkpoint().size);
        Ok(Some(Proof {
            index,
            leaf,
            hashes: hashes.ok_or_else(|| damaged("its tree has no proof of it".to_owned()))?,
            checkpoint,
        }))
    }

    /// Whether the log at `new` goes on from the log at `old`.
    pub(super) fn consistency(&self, old: &Point, new: &Point) -> Consistency {
        let state = self.state.read();
        let find = |point: &Point| -> Result<(u64, TreeHash), String> {
            let (size, claimed) = match point {
                Point::Size(size) => (*size, None),
                Point::Checkpoint(text) => {
                    let signed = SignedCheckpoint::parse(text.as_bytes()).map_err(|why| why.to_string())?;
                    if !state.keys.vouch_for(&signed) {
                        return Err("no key of this log has signed it, or not in its time".to_owned());
                    }
                    (signed.checkpoint().size, Some(signed.checkpoint().root))
                }
            };
            let durable = size <= state.size;
            let root = state.tree.root_at(size).filter(|_| durable);
            let root = root.ok_or_else(|| format!("it covers {size} leaves, but the log has {}", state.size))?;
            match claimed {
                Some(claimed) if claimed != root => Err(format!("its first {size} leaves are not the log's")),
                Some(_) | None => Ok((size, root)),
            }
        };
        let mut found = Consistency::default();
        match (find(old), find(new)) {
            (Ok(old), Ok(new)) => {
                (found.old, found.new) = (Some(old), Some(new));
                match state.tree.consistency(old.0, new.0) {
                    Some(proof) => found.proof = proof,
                    None => found.why = Some(format!("{} leaves cannot go on from {}", new.0, old.0)),
                }
            }
            (Err(why), _) => found.why = Some(format!("the earlier one: {why}")),
            (Ok(old), Err(why)) => {
                found.old = Some(old);
                found.why = Some(format!("the later one: {why}"));
            }
        }
        found
    }
}
