//! The record: what a leaf of the audit log says, and how leaves become a tree (design §7).
//!
//! A leaf is canonical JSON, at most [`MAX_LEAF_BYTES`]; it names digests, never documents. Each leaf about a skill names
//! the index of the one before it about the same skill, so that an auditor sees that none was left out.

mod tree;

use std::fmt;

use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;
pub use tree::Tree;

use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::label::Label;
use crate::domain::origin::Fingerprint;
use crate::domain::origin::SkillKey;
use crate::domain::set::SetId;
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

/// What a leaf says happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Event {
    /// A label appeared in the configuration for the first time, or again after its removal.
    OriginAdded {
        /// The label.
        label: Label,
        /// Its address, digested.
        fingerprint: Fingerprint,
        /// Its address.
        address: String,
    },
    /// A label points elsewhere; approvals bound to the old address are suspended.
    OriginMoved {
        /// The label.
        label: Label,
        /// The new address, digested.
        fingerprint: Fingerprint,
        /// The new address.
        address: String,
    },
    /// An operator accepts a label's new address; approvals hold there.
    OriginAccepted {
        /// The label.
        label: Label,
        /// The address accepted, digested.
        fingerprint: Fingerprint,
    },
    /// An operator removed a label and its content; its approvals end.
    OriginRemoved {
        /// The label.
        label: Label,
    },
    /// A skill was seen with another set than the last time, or for the first time.
    SetSeen {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set.
        set: SetId,
    },
    /// An approved skill was seen with another set; the approval ends unless it is kept.
    Changed {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set that was approved.
        from: SetId,
        /// The set now seen.
        set: SetId,
        /// Whether the operator's `on_change = "keep"` lets the old set be served meanwhile.
        kept: bool,
    },
    /// A host asked for a skill that no approval covers.
    Held {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set that waits, if one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<SetId>,
    },
    /// A set may be served.
    Approved {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set.
        set: SetId,
        /// The address it was seen at, digested.
        fingerprint: Fingerprint,
        /// When the approval ends by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<Timestamp>,
    },
    /// A set shall not be served.
    Denied {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set.
        set: SetId,
    },
    /// An approval ends.
    Revoked {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set.
        set: SetId,
    },
    /// The origin says that it serves the skill no more, or what it serves in its place breaks a rule.
    Withdrawn {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
    },
    /// The origin serves the skill again.
    Returned {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
    },
    /// An operator fetched and verified every file of a set.
    Pulled {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set.
        set: SetId,
    },
    /// Bytes from the origin did not match the manifest, and a fresh entry did not mend it.
    VerificationFailed {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set they were checked against.
        set: SetId,
        /// The file.
        file: String,
        /// The digest promised.
        expected: Digest,
        /// Why it failed.
        reason: String,
    },
    /// Bytes on our own disk no longer matched their name and were put aside.
    Quarantined {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The digest they should have had.
        expected: Digest,
        /// The digest they had.
        got: Digest,
    },
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

impl Event {
    /// What happened, as the leaf's `action` says it.
    pub fn action(&self) -> &'static str {
        match self {
            Self::OriginAdded { .. } => "origin-added",
            Self::OriginMoved { .. } => "origin-moved",
            Self::OriginAccepted { .. } => "origin-accepted",
            Self::OriginRemoved { .. } => "origin-removed",
            Self::SetSeen { .. } => "set-seen",
            Self::Changed { .. } => "changed",
            Self::Held { .. } => "held",
            Self::Approved { .. } => "approved",
            Self::Denied { .. } => "denied",
            Self::Revoked { .. } => "revoked",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Returned { .. } => "returned",
            Self::Pulled { .. } => "pulled",
            Self::VerificationFailed { .. } => "verification-failed",
            Self::Quarantined { .. } => "quarantined",
        }
    }

    /// The skill that this is about.
    pub fn skill(&self) -> Option<&SkillKey> {
        self.subject().ok()
    }

    /// The label that this is about.
    pub fn label(&self) -> &Label {
        self.subject().map_or_else(|label| label, |skill| &skill.label)
    }

    /// A skill, or a whole origin.
    fn subject(&self) -> Result<&SkillKey, &Label> {
        match self {
            Self::OriginAdded { label, .. }
            | Self::OriginMoved { label, .. }
            | Self::OriginAccepted { label, .. }
            | Self::OriginRemoved { label } => Err(label),
            Self::SetSeen { skill, .. }
            | Self::Changed { skill, .. }
            | Self::Held { skill, .. }
            | Self::Approved { skill, .. }
            | Self::Denied { skill, .. }
            | Self::Revoked { skill, .. }
            | Self::Withdrawn { skill }
            | Self::Returned { skill }
            | Self::Pulled { skill, .. }
            | Self::VerificationFailed { skill, .. }
            | Self::Quarantined { skill, .. } => Ok(skill),
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
