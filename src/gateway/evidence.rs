//! What the log shows to others: checks of the whole, keys, proofs, tiles.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::Serialize;

use super::By;
use super::Error;
use super::Gateway;
use crate::domain::Held;
use crate::domain::LockedSkill;
use crate::domain::SkillKey;
use crate::domain::SkillState;
use crate::domain::audit::Envelope;
use crate::domain::audit::Proof;
use crate::domain::audit::TileName;
use crate::domain::audit::TreeHash;
use crate::domain::audit::clip;
use crate::store::DeliveriesReport;
use crate::store::EarlierKey;
use crate::store::Kept;
use crate::store::LogReport;
use crate::store::Point;
use crate::store::Progress;
use crate::store::Store;

/// What a check of the whole record found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordReport {
    /// Of the log.
    #[serde(flatten)]
    pub log: LogReport,
    /// Of the deliveries.
    pub deliveries: DeliveriesReport,
}

impl RecordReport {
    /// Says whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.log.is_sound() && self.deliveries.is_sound()
    }
}

/// The keys of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogKeys {
    /// The one that signs now, as C2SP signed-note writes it.
    pub key: String,
    /// Those before it, the first one first.
    pub earlier: Vec<EarlierKey>,
}

/// Another key signs from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotated {
    /// The leaf that says so.
    pub leaf: u64,
    /// The keys from now on.
    #[serde(flatten)]
    pub keys: LogKeys,
}

/// Whether one part of the log goes on from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consistent {
    /// Whether it does.
    pub consistent: bool,
    /// Why not, if so.
    pub why: Option<String>,
    /// The earlier part.
    pub old: Option<Covered>,
    /// The later part.
    pub new: Option<Covered>,
    /// The proof (RFC 6962 §2.1.2), each hash in base64.
    pub proof: Vec<String>,
}

/// Leaves from the first one on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// How many.
    pub size: u64,
    /// The root over them, in base64.
    pub root: String,
}

impl Covered {
    fn new((size, root): (u64, TreeHash)) -> Self {
        Self {
            size,
            root: base64(root),
        }
    }
}

impl Gateway {
    /// Checks the whole record: of the log, every leaf, the tree, the signatures, each skill's chain, tiles and head, and that it
    /// goes on from what was kept of it elsewhere; and every segment of deliveries against its leaf.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when the folder cannot be read.
    pub async fn verify_record(
        &self,
        kept: Kept,
        tell: impl Fn(u64, u64) + Send + 'static,
    ) -> Result<RecordReport, Error> {
        let check = move |store: &Store| {
            let mut tell = |step: Progress| tell(step.done, step.total);
            Ok(RecordReport {
                log: store.verify_log(&kept, &mut tell)?,
                deliveries: store.verify_deliveries(&mut tell)?,
            })
        };
        self.0.on_disk(check).await
    }

    /// The keys of the log.
    pub fn log_keys(&self) -> LogKeys {
        LogKeys {
            key: self.0.store.verifier_key().to_string(),
            earlier: self.0.store.earlier_keys(),
        }
    }

    /// Lets another key sign from now on. It is on the record, under a checkpoint of the old key.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be written; the old key goes on signing.
    pub async fn rotate_key(&self, by: &By) -> Result<Rotated, Error> {
        let inner = &self.0;
        let mut ledger = inner.ledger.lock().await;
        let (by, now) = (by.clone(), inner.clock.now());
        let rotate = inner.on_disk(move |store| {
            let actor = by.who.actor(store)?;
            store.rotate_key(actor, by.note.as_deref().map(clip), now)
        });
        let (index, leaf) = rotate.await?;
        ledger.record.apply(index, &leaf);
        let keys = self.log_keys();
        tracing::info!(leaf = index, key = keys.key, "another key signs the log");
        Ok(Rotated { leaf: index, keys })
    }

    /// A proof that a leaf is in the log, for somebody who has nothing but its key.
    ///
    /// # Errors
    ///
    /// [`Error::NoLeaf`]; [`Error::Store`] when it cannot be read.
    pub async fn prove(&self, index: u64) -> Result<Proof, Error> {
        let proof = self.0.on_disk(move |store| store.prove(index)).await?;
        proof.ok_or(Error::NoLeaf { index })
    }

    /// A statement about the set of a skill that is served now: its files, its approval, and the proof of that.
    ///
    /// # Errors
    ///
    /// [`Error::NoSet`] when no approval of it is in force.
    pub async fn attest(&self, key: &SkillKey) -> Result<Envelope, Error> {
        let known = self.known(key)?;
        let not_approved = |held: Held| Error::NoSet {
            key: key.clone(),
            reason: held.to_string(),
        };
        let served = known.served(self.clock().now()).map_err(not_approved)?;
        let (approval, would_hold) = (served.permit().approval(), served.permit().would_hold());
        let approval = *approval.ok_or_else(|| not_approved(would_hold.unwrap_or(Held::State(SkillState::Pending))))?;
        let skill = LockedSkill::of(key.clone(), approval.fingerprint, served.permit().entry());
        let attested = self.0.on_disk(move |store| store.attest(&skill, approval.leaf)).await?;
        attested.ok_or(Error::NoLeaf { index: approval.leaf })
    }

    /// Whether the log at `new` goes on from the log at `old`.
    pub fn consistency(&self, old: &Point, new: &Point) -> Consistent {
        let found = self.0.store.consistency(old, new);
        Consistent {
            consistent: found.why.is_none(),
            why: found.why,
            old: found.old.map(Covered::new),
            new: found.new.map(Covered::new),
            proof: found.proof.into_iter().map(base64).collect(),
        }
    }

    /// The newest checkpoint, with the cosignatures that there are for it (C2SP tlog-checkpoint).
    pub fn checkpoint(&self) -> Vec<u8> {
        let newest = self.0.store.checkpoint();
        let known = [self.0.witnessing.collected(), self.0.store.cosigned()];
        let known = known.into_iter().flatten().map(|signed| signed.to_bytes());
        // Cosignatures stand after what the log itself wrote.
        let same = known.filter(|cosigned| cosigned.starts_with(&newest));
        same.max_by_key(Vec::len).unwrap_or(newest)
    }

    /// The newest checkpoint that witnesses have cosigned, if there is one.
    pub fn cosigned_checkpoint(&self) -> Option<Vec<u8>> {
        self.0.store.cosigned().map(|signed| signed.to_bytes())
    }

    /// The bytes of a tile; nothing when the log is not so long.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be read.
    pub async fn tile(&self, name: TileName) -> Result<Option<Vec<u8>>, Error> {
        self.0.on_disk(move |store| store.tile(&name)).await
    }
}

fn base64(hash: TreeHash) -> String {
    BASE64_STANDARD.encode(hash.0)
}
