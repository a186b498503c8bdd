//! What a leaf can say happened.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::domain::digest::Digest;
use crate::domain::label::Label;
use crate::domain::origin::Fingerprint;
use crate::domain::origin::SkillKey;
use crate::domain::set::SetId;
use crate::domain::time::Timestamp;

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
    /// A person wants a label's new address to be accepted, and not enough others do yet.
    AcceptVoted {
        /// The label.
        label: Label,
        /// The address, digested.
        fingerprint: Fingerprint,
    },
    /// An operator accepts a label's new address; approvals hold there.
    OriginAccepted {
        /// The label.
        label: Label,
        /// The address accepted, digested.
        fingerprint: Fingerprint,
        /// The leaves of the votes before the deciding one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        votes: Vec<u64>,
    },
    /// An operator removed a label and its content; its approvals end.
    OriginRemoved {
        /// The label.
        label: Label,
    },
    /// A trial begins, or gets another end: until then everything of the label is served and recorded (`observe`).
    TrialBegan {
        /// The label.
        label: Label,
        /// When it ends.
        until: Timestamp,
    },
    /// A trial is over: what no approval covers is held.
    TrialEnded {
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
    /// A person wants a set to be approved, and not enough others do yet.
    Voted {
        /// Whose.
        #[serde(flatten)]
        skill: SkillKey,
        /// The set.
        set: SetId,
        /// The address it was seen at, digested.
        fingerprint: Fingerprint,
        /// The lock file that it was reviewed in, digested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lock: Option<Digest>,
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
        /// The rule that approved it, where no person did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The lock file that it was reviewed in, digested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lock: Option<Digest>,
        /// The leaves of the votes before the deciding one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        votes: Vec<u64>,
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
    /// An approval ended by itself.
    Expired {
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
    /// A file is stopped everywhere: no set that has it is served, whatever its approval.
    Recalled {
        /// Its digest.
        digest: Digest,
    },
    /// A recalled file may be served again where approvals allow it.
    RecallLifted {
        /// Its digest.
        digest: Digest,
    },
    /// The gateway runs with another configuration than before: a digest for each table, secrets left out.
    Configured {
        /// The tables, as `server`, `policy`, `rule` or `origin.acme`.
        tables: BTreeMap<String, Digest>,
    },
    /// A person's first command since the gateway started.
    SignedIn {
        /// The door, as `admin.sock`.
        via: String,
    },
    /// A command of a person was refused.
    Refused {
        /// The command.
        command: String,
        /// Why.
        reason: String,
    },
    /// A token was made; the actor is who it speaks for.
    TokenMade {
        /// Its id.
        token: String,
    },
    /// A token was taken back.
    TokenRevoked {
        /// Its id.
        token: String,
    },
    /// From the next checkpoint on, another key signs; this leaf is under one of the old key.
    KeyRotated {
        /// The old key, as C2SP signed-note writes verifier keys.
        from: String,
        /// The new key.
        to: String,
    },
    /// A segment of deliveries was sealed.
    Sealed {
        /// Its number, from 0.
        segment: u64,
        /// The digest of its file.
        digest: Digest,
        /// Deliveries in it.
        deliveries: u64,
        /// Bytes of its file.
        bytes: u64,
        /// When the first one in it was made.
        from: Timestamp,
        /// When the last one in it was made.
        until: Timestamp,
    },
    /// Old segments of deliveries left the disk.
    SegmentsRemoved {
        /// The first one's number.
        first: u64,
        /// The last one's number.
        last: u64,
        /// Why: `age` or `size`.
        reason: String,
    },
    /// What opened the commitment to a person was destroyed; their votes count no more.
    Forgotten {
        /// The commitment.
        person: String,
    },
}

/// What an event is about.
enum Subject<'a> {
    Skill(&'a SkillKey),
    Origin(&'a Label),
    Gateway,
}

impl Event {
    /// Every action there is.
    pub const ACTIONS: [&'static str; 31] = [
        "origin-added",
        "origin-moved",
        "accept-voted",
        "origin-accepted",
        "origin-removed",
        "trial-began",
        "trial-ended",
        "set-seen",
        "changed",
        "held",
        "voted",
        "approved",
        "denied",
        "revoked",
        "expired",
        "withdrawn",
        "returned",
        "pulled",
        "verification-failed",
        "quarantined",
        "recalled",
        "recall-lifted",
        "configured",
        "signed-in",
        "refused",
        "token-made",
        "token-revoked",
        "key-rotated",
        "sealed",
        "segments-removed",
        "forgotten",
    ];

    /// What happened, as the leaf's `action` says it.
    pub fn action(&self) -> &'static str {
        match self {
            Self::OriginAdded { .. } => "origin-added",
            Self::OriginMoved { .. } => "origin-moved",
            Self::AcceptVoted { .. } => "accept-voted",
            Self::OriginAccepted { .. } => "origin-accepted",
            Self::OriginRemoved { .. } => "origin-removed",
            Self::TrialBegan { .. } => "trial-began",
            Self::TrialEnded { .. } => "trial-ended",
            Self::SetSeen { .. } => "set-seen",
            Self::Changed { .. } => "changed",
            Self::Held { .. } => "held",
            Self::Voted { .. } => "voted",
            Self::Approved { .. } => "approved",
            Self::Denied { .. } => "denied",
            Self::Revoked { .. } => "revoked",
            Self::Expired { .. } => "expired",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Returned { .. } => "returned",
            Self::Pulled { .. } => "pulled",
            Self::VerificationFailed { .. } => "verification-failed",
            Self::Quarantined { .. } => "quarantined",
            Self::Recalled { .. } => "recalled",
            Self::RecallLifted { .. } => "recall-lifted",
            Self::Configured { .. } => "configured",
            Self::SignedIn { .. } => "signed-in",
            Self::Refused { .. } => "refused",
            Self::TokenMade { .. } => "token-made",
            Self::TokenRevoked { .. } => "token-revoked",
            Self::KeyRotated { .. } => "key-rotated",
            Self::Sealed { .. } => "sealed",
            Self::SegmentsRemoved { .. } => "segments-removed",
            Self::Forgotten { .. } => "forgotten",
        }
    }

    /// The skill that this is about.
    pub fn skill(&self) -> Option<&SkillKey> {
        match self.subject() {
            Subject::Skill(skill) => Some(skill),
            Subject::Origin(_) | Subject::Gateway => None,
        }
    }

    /// The label that this is about.
    pub fn label(&self) -> Option<&Label> {
        match self.subject() {
            Subject::Skill(skill) => Some(&skill.label),
            Subject::Origin(label) => Some(label),
            Subject::Gateway => None,
        }
    }

    fn subject(&self) -> Subject<'_> {
        match self {
            Self::OriginAdded { label, .. }
            | Self::OriginMoved { label, .. }
            | Self::AcceptVoted { label, .. }
            | Self::OriginAccepted { label, .. }
            | Self::OriginRemoved { label }
            | Self::TrialBegan { label, .. }
            | Self::TrialEnded { label } => Subject::Origin(label),
            Self::SetSeen { skill, .. }
            | Self::Changed { skill, .. }
            | Self::Held { skill, .. }
            | Self::Voted { skill, .. }
            | Self::Approved { skill, .. }
            | Self::Denied { skill, .. }
            | Self::Revoked { skill, .. }
            | Self::Expired { skill, .. }
            | Self::Withdrawn { skill }
            | Self::Returned { skill }
            | Self::Pulled { skill, .. }
            | Self::VerificationFailed { skill, .. }
            | Self::Quarantined { skill, .. } => Subject::Skill(skill),
            Self::Recalled { .. }
            | Self::RecallLifted { .. }
            | Self::Configured { .. }
            | Self::SignedIn { .. }
            | Self::Refused { .. }
            | Self::TokenMade { .. }
            | Self::TokenRevoked { .. }
            | Self::KeyRotated { .. }
            | Self::Sealed { .. }
            | Self::SegmentsRemoved { .. }
            | Self::Forgotten { .. } => Subject::Gateway,
        }
    }
}
