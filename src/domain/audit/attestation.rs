//! Attestations: an in-toto statement about a whole resource set, in a DSSE envelope that the log's key signed.
//!
//! Whoever has the log's verifier key can check offline that the files are those of the set, that the set was approved,
//! and that the approval is in the log. What the log says after its checkpoint (a revocation) is not in it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;

use super::Event;
use super::InvalidProof;
use super::Leaf;
use super::MAX_PROOF_BYTES;
use super::NoteKey;
use super::Proof;
use super::VerifierKey;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::label::Label;
use crate::domain::lock::LockedSkill;
use crate::domain::origin::Fingerprint;
use crate::domain::origin::SkillKey;
use crate::domain::set::Resource;
use crate::domain::set::ResourceSet;
use crate::domain::set::SetId;
use crate::domain::uri::ResourceUri;
use crate::domain::uri::SkillUri;

/// What the payload of the envelope is (in-toto attestation framework, version 1).
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// What the statement says of its subjects.
const PREDICATE_TYPE: &str = "https://portcullis.dev/attestation/approval/v1";

/// Bytes of an attestation that are read.
pub const MAX_ATTESTATION_BYTES: usize = 16 * 1024 * 1024;

/// A DSSE envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EnvelopeSignature {
    keyid: String,
    sig: String,
}

/// What an attestation that was checked says.
#[derive(Clone, Debug)]
pub struct Attested {
    /// The set, file by file.
    pub skill: LockedSkill,
    /// The proof of its approval.
    pub proof: Proof,
    /// Its approval.
    pub approval: Leaf,
}

/// Why an attestation attests nothing.
#[derive(Debug, Error)]
pub enum InvalidAttestation {
    /// It is no DSSE envelope around a statement of this kind.
    #[error("it is no attestation of an approval: {0}")]
    Form(String),
    /// No signature of it is one of the key.
    #[error("it is not signed by {0}")]
    Unsigned(String),
    /// Its files and frontmatter are not those of its set.
    #[error("its files and frontmatter make {found}, not {named}")]
    OtherSet {
        /// The set that follows from what stands there.
        found: SetId,
        /// The set that it names.
        named: SetId,
    },
    /// The proof in it proves nothing.
    #[error("its proof: {0}")]
    Proof(#[from] InvalidProof),
    /// The leaf that it proves approves something else.
    #[error("leaf {0} does not approve this set")]
    OtherLeaf(u64),
}

#[derive(Serialize, Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

/// A file.
#[derive(Serialize, Deserialize)]
struct Subject {
    name: ResourceUri,
    digest: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Predicate {
    origin: Label,
    address: Fingerprint,
    skill: SkillUri,
    set: SetId,
    /// The size of each file in bytes; with the subjects and the frontmatter it makes the set id.
    sizes: BTreeMap<ResourceUri, u64>,
    /// Canonical JSON.
    frontmatter: String,
    /// C2SP tlog-proof of the approval.
    proof: String,
}

impl Envelope {
    /// Says that `skill` was approved by the leaf that `proof` proves, signed with the log's key.
    pub fn seal(skill: &LockedSkill, proof: &Proof, key: &NoteKey) -> Self {
        let subject = |file: &Resource| Subject {
            name: file.uri.clone(),
            digest: BTreeMap::from([("sha256".to_owned(), file.digest.hex())]),
        };
        let statement = Statement {
            kind: STATEMENT_TYPE.to_owned(),
            subject: skill.files.iter().map(subject).collect(),
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: Predicate {
                origin: skill.key.label.clone(),
                address: skill.address,
                skill: skill.key.uri.clone(),
                set: skill.set,
                sizes: skill.files.iter().map(|file| (file.uri.clone(), file.size)).collect(),
                frontmatter: skill.frontmatter.clone(),
                proof: String::from_utf8_lossy(&proof.to_text()).into_owned(),
            },
        };
        // Texts and numbers alone: this cannot fail.
        let payload = serde_json::to_vec(&statement).unwrap_or_default();
        let signature = key.sign_message(&signed_bytes(&payload));
        Self {
            payload: BASE64_STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![EnvelopeSignature {
                keyid: key.verifier().key_id(),
                sig: BASE64_STANDARD.encode(signature),
            }],
        }
    }

    /// Checks everything that it says against the log's verifier key.
    ///
    /// # Errors
    ///
    /// [`InvalidAttestation`].
    pub fn check(&self, key: &VerifierKey) -> Result<Attested, InvalidAttestation> {
        let payload = self.signed_payload(key)?;
        let form = |why: &dyn std::fmt::Display| InvalidAttestation::Form(why.to_string());
        let statement: Statement = serde_json::from_slice(&payload).map_err(|why| form(&why))?;
        if statement.kind != STATEMENT_TYPE || statement.predicate_type != PREDICATE_TYPE {
            return Err(form(&"it states something else"));
        }
        let predicate = statement.predicate;
        let files: Option<Vec<_>> = statement
            .subject
            .into_iter()
            .map(|subject| subject.file(&predicate.sizes))
            .collect();
        let resources = ResourceSet::new(files.ok_or_else(|| form(&"a subject is no file of a set"))?);
        let frontmatter = Json::parse(&predicate.frontmatter).map_err(|why| form(&why))?;
        let found = SetId::of(&predicate.skill, &resources, &frontmatter);
        if found != predicate.set {
            return Err(InvalidAttestation::OtherSet {
                found,
                named: predicate.set,
            });
        }
        let proof = Proof::parse(predicate.proof.as_bytes())?;
        let approval = proof.check(key)?;
        let skill = LockedSkill {
            key: SkillKey {
                label: predicate.origin,
                uri: predicate.skill,
            },
            address: predicate.address,
            set: found,
            frontmatter: frontmatter.canonical(),
            files: resources.sorted().cloned().collect(),
        };
        if skill.is_approved_by(&approval) {
            Ok(Attested { skill, proof, approval })
        } else {
            Err(InvalidAttestation::OtherLeaf(proof.index))
        }
    }

    /// The payload, if the key signed it.
    fn signed_payload(&self, key: &VerifierKey) -> Result<Vec<u8>, InvalidAttestation> {
        let form = |why: &str| InvalidAttestation::Form(why.to_owned());
        if self.payload_type != PAYLOAD_TYPE {
            return Err(form("its payload is of another type"));
        }
        let payload = BASE64_STANDARD
            .decode(&self.payload)
            .map_err(|_| form("its payload is not base64"))?;
        let message = signed_bytes(&payload);
        // The key id is a hint (DSSE): each signature is tried.
        let signed = self.signatures.iter().any(|signature| {
            let bytes = BASE64_STANDARD.decode(&signature.sig);
            bytes.is_ok_and(|bytes| key.is_message_signed(&message, &bytes))
        });
        if signed {
            Ok(payload)
        } else {
            Err(InvalidAttestation::Unsigned(key.to_string()))
        }
    }
}

impl Subject {
    fn file(self, sizes: &BTreeMap<ResourceUri, u64>) -> Option<Resource> {
        let hex = self.digest.get("sha256").filter(|_| self.digest.len() == 1)?;
        Some(Resource {
            size: *sizes.get(&self.name)?,
            digest: Digest::from_hex(hex).ok()?,
            uri: self.name,
        })
    }
}

impl LockedSkill {
    /// Says whether a leaf approves exactly this set, here.
    fn is_approved_by(&self, leaf: &Leaf) -> bool {
        matches!(
            &leaf.event,
            Event::Approved { skill, set, fingerprint, .. }
                if *skill == self.key && *set == self.set && *fingerprint == self.address
        )
    }
}

/// What is signed: the pre-authentication encoding of DSSE version 1. No checkpoint begins like it.
fn signed_bytes(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

const _: () = assert!(MAX_PROOF_BYTES < MAX_ATTESTATION_BYTES);

#[cfg(test)]
mod tests {
    use super::super::Actor;
    use super::super::Checkpoint;
    use super::super::KeyKind;
    use super::super::SignedCheckpoint;
    use super::super::Tree;
    use super::*;
    use crate::domain::Limits;
    use crate::domain::SkillEntry;
    use crate::domain::Timestamp;

    fn key() -> NoteKey {
        NoteKey::new("portcullis/x", KeyKind::Log, &[1; 32]).unwrap()
    }

    fn skill() -> LockedSkill {
        let text = serde_json::json!({
            "uri": "skill://one/SKILL.md",
            "frontmatter": { "name": "one", "description": "d" },
            "resources": [{ "uri": "skill://one/SKILL.md", "digest": Digest::of(b"a").to_string(), "size": 1 }],
        });
        let entry = SkillEntry::parse(&text.to_string(), &Limits::default()).unwrap();
        let key = SkillKey {
            label: "acme".parse().unwrap(),
            uri: entry.uri().clone(),
        };
        LockedSkill::of(key, Fingerprint::of("x"), &entry)
    }

    fn approval(of: &LockedSkill) -> Leaf {
        Leaf {
            v: Leaf::VERSION,
            time: Timestamp::from_millis(1),
            actor: Actor::Gateway,
            event: Event::Approved {
                skill: of.key.clone(),
                set: of.set,
                fingerprint: of.address,
                expires: None,
                rule: None,
                lock: None,
                votes: Vec::new(),
            },
            note: None,
            prev: None,
        }
    }

    fn proof(leaf: &Leaf, key: &NoteKey) -> Proof {
        let mut tree = Tree::default();
        [b"before".to_vec(), leaf.to_bytes()]
            .iter()
            .for_each(|leaf| tree.push(leaf));
        let checkpoint = Checkpoint {
            origin: key.verifier().name().to_owned(),
            size: 2,
            root: tree.root_at(2).unwrap(),
        };
        Proof {
            index: 1,
            leaf: leaf.to_bytes(),
            hashes: tree.inclusion(1, 2).unwrap(),
            checkpoint: SignedCheckpoint::parse(&checkpoint.signed_by(key)).unwrap(),
        }
    }

    #[test]
    fn what_was_attested_can_be_checked_with_the_key_alone() {
        let (key, skill) = (key(), skill());
        let envelope = Envelope::seal(&skill, &proof(&approval(&skill), &key), &key);
        let text = serde_json::to_string(&envelope).unwrap();
        let read: Envelope = serde_json::from_str(&text).unwrap();
        let attested = read.check(key.verifier()).unwrap();
        assert_eq!((attested.skill, attested.proof.index), (skill, 1));
        let other = NoteKey::new("portcullis/x", KeyKind::Log, &[2; 32]).unwrap();
        assert!(matches!(
            read.check(other.verifier()),
            Err(InvalidAttestation::Unsigned(_))
        ));
    }

    #[test]
    fn another_set_or_another_leaf_is_refused_even_if_the_key_signed_it() {
        let (key, good) = (key(), skill());
        let mut other = good.clone();
        other.files[0].size = 2;
        let sealed = Envelope::seal(&other, &proof(&approval(&good), &key), &key);
        assert!(matches!(
            sealed.check(key.verifier()),
            Err(InvalidAttestation::OtherSet { .. })
        ));
        let moved = LockedSkill {
            address: Fingerprint::of("y"),
            ..good.clone()
        };
        let sealed = Envelope::seal(&moved, &proof(&approval(&good), &key), &key);
        assert!(matches!(
            sealed.check(key.verifier()),
            Err(InvalidAttestation::OtherLeaf(1))
        ));
        let forger = NoteKey::new("portcullis/x", KeyKind::Log, &[2; 32]).unwrap();
        let sealed = Envelope::seal(&good, &proof(&approval(&good), &forger), &key);
        assert!(matches!(
            sealed.check(key.verifier()),
            Err(InvalidAttestation::Proof(_))
        ));
    }

    #[test]
    fn every_flipped_bit_of_the_payload_is_noticed() {
        let (key, skill) = (key(), skill());
        let good = Envelope::seal(&skill, &proof(&approval(&skill), &key), &key);
        let payload = BASE64_STANDARD.decode(&good.payload).unwrap();
        for at in 0..payload.len() {
            let mut bad = payload.clone();
            bad[at] ^= 1;
            let bad = Envelope {
                payload: BASE64_STANDARD.encode(bad),
                ..good.clone()
            };
            assert!(bad.check(key.verifier()).is_err(), "{at}");
        }
    }
}
