//! The record: what a leaf of the audit log says, and how leaves become a tree (design §7).
//!
//! A leaf is canonical JSON, at most [`MAX_LEAF_BYTES`]; it names digests, never documents. Each leaf about a skill names
//! the index of the one before it about the same skill, so that an auditor sees that none was left out. Checkpoints over the
//! tree, proofs under them and what a witness says of them are read and checked here, so that nobody needs a store for it.

mod attestation;
mod checkpoint;
mod event;
mod proof;
mod tile;
mod tree;
mod witness;

use std::fmt;

use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;

pub use attestation::Attested;
pub use attestation::Envelope;
pub use attestation::InvalidAttestation;
pub use attestation::MAX_ATTESTATION_BYTES;
pub use checkpoint::Checkpoint;
pub use checkpoint::InvalidCheckpoint;
pub use checkpoint::InvalidKey;
pub use checkpoint::KeyKind;
pub use checkpoint::MAX_CHECKPOINT_BYTES;
pub use checkpoint::MAX_LEAVES;
pub use checkpoint::NoteKey;
pub use checkpoint::Signed;
pub use checkpoint::SignedCheckpoint;
pub use checkpoint::VerifierKey;
pub use event::Event;
pub use proof::InvalidProof;
pub use proof::MAX_PROOF_BYTES;
pub use proof::Proof;
pub use proof::is_consistent;
pub use tile::InvalidTileName;
pub use tile::TILE_WIDTH;
pub use tile::TileKind;
pub use tile::TileName;
pub use tlog_tiles::tlog::Hash as TreeHash;
pub use tree::Tree;
pub use witness::AddCheckpoint;
pub use witness::MAX_REQUEST_BYTES;
pub use witness::Refused;
pub use witness::Seen;

use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// Bytes in one leaf: what a C2SP entry bundle can hold.
pub const MAX_LEAF_BYTES: usize = 65_535;

/// Characters kept of a text that people or origins wrote (a note, a reason).
pub const MAX_NOTE_CHARS: usize = 2_000;

/// One leaf of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    /// The version of this form.
    pub v: u8,
    /// When it was decided.
    pub time: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// What the actor wrote about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The index of the previous leaf about the same skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<u64>,
}

/// Who did something: the gateway itself, or a person by a salted commitment whose opening lies beside the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// The gateway, by its rules.
    Gateway,
    /// A person: `person1:` and 64 hexadecimal digits.
    Person(String),
}

/// Why a leaf cannot be read.
#[derive(Debug, Error)]
pub enum InvalidLeaf {
    /// It is not JSON of this form.
    #[error("not a leaf of this version")]
    Form(#[source] serde_json::Error),
    /// It is not in canonical form, so that equal leaves could hash differently.
    #[error("not in canonical form")]
    NotCanonical,
    /// It has more than [`MAX_LEAF_BYTES`].
    #[error("over {MAX_LEAF_BYTES} bytes")]
    TooLong,
}

impl Leaf {
    /// The version of the form written now.
    pub const VERSION: u8 = 1;

    /// The leaf's bytes in the log: canonical JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Every member is a string, an integer or absent, so neither step can fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        Json::parse(&text)
            .map_or_else(|_| text.clone(), |json| json.canonical())
            .into_bytes()
    }

    /// Reads a leaf.
    ///
    /// # Errors
    ///
    /// [`InvalidLeaf`] for anything but the bytes that [`Leaf::to_bytes`] gives.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidLeaf> {
        if bytes.len() > MAX_LEAF_BYTES {
            return Err(InvalidLeaf::TooLong);
        }
        let leaf: Self = serde_json::from_slice(bytes).map_err(InvalidLeaf::Form)?;
        if leaf.to_bytes() == bytes {
            Ok(leaf)
        } else {
            Err(InvalidLeaf::NotCanonical)
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("gateway"),
            Self::Person(commitment) => f.write_str(commitment),
        }
    }
}

/// Cuts `text` to what a leaf keeps of it, with a visible mark.
pub fn clip(text: &str) -> String {
    if text.chars().count() <= MAX_NOTE_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_NOTE_CHARS).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Fingerprint;
    use crate::domain::SkillKey;

    /// The bytes that a published vector writes in hexadecimal.
    pub(super) fn hex(text: &str) -> Vec<u8> {
        let byte = |digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
        text.as_bytes().chunks(2).map(byte).collect()
    }

    fn leaf() -> Leaf {
        Leaf {
            v: Leaf::VERSION,
            time: Timestamp::from_millis(1_790_000_000_123),
            actor: Actor::Person("person1:ab".to_owned()),
            event: Event::Approved {
                skill: SkillKey {
                    label: "acme".parse().unwrap(),
                    uri: "skill://a/SKILL.md".parse().unwrap(),
                },
                set: format!("set1:{}", "0".repeat(64)).parse().unwrap(),
                fingerprint: Fingerprint::of("https://acme.example/mcp"),
                expires: None,
                rule: None,
                lock: None,
                votes: Vec::new(),
            },
            note: Some("looked at it".to_owned()),
            prev: Some(3),
        }
    }

    #[test]
    fn a_leaf_reads_back_and_is_canonical() {
        let bytes = leaf().to_bytes();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(
            text.starts_with(r#"{"action":"approved","actor":{"person":"person1:ab"},"fingerprint":"origin1:"#),
            "{text}"
        );
        assert_eq!(Leaf::from_bytes(&bytes).unwrap(), leaf());
        assert!(text.contains(&format!(r#""action":"{}""#, leaf().event.action())));
    }

    #[test]
    fn another_spelling_of_a_leaf_is_refused() {
        let text = String::from_utf8(leaf().to_bytes()).unwrap();
        let spaced = text.replacen(':', ": ", 1);
        assert!(matches!(
            Leaf::from_bytes(spaced.as_bytes()),
            Err(InvalidLeaf::NotCanonical)
        ));
        assert!(matches!(Leaf::from_bytes(b"{}"), Err(InvalidLeaf::Form(_))));
    }

    #[test]
    fn the_longest_leaf_fits_an_entry_bundle() {
        let mut leaf = leaf();
        leaf.note = Some(clip(&"\u{1}".repeat(100_000)));
        assert!(leaf.to_bytes().len() < MAX_LEAF_BYTES);
    }
}
