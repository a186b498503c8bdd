//! What the log says of one skill, and what that amounts to.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;

use super::ballot::Votes;
use crate::domain::origin::Fingerprint;
use crate::domain::set::SetId;
use crate::domain::time::Timestamp;

/// What the log says of one skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillRecord {
    pub(super) seen: Option<SetId>,
    /// Since when that set has been seen without a break.
    pub(super) seen_since: Option<Timestamp>,
    pub(super) verdicts: BTreeMap<SetId, Verdict>,
    pub(super) withdrawn: bool,
    pub(super) last_leaf: u64,
    pub(super) last_approved: Option<SetId>,
    pub(super) asked_for: BTreeSet<SetId>,
    /// For the set now seen at the label's address; any other is over.
    pub(super) votes: Votes,
    /// Whether an operator ended an approval of it, and no person has approved a set since.
    pub(super) taken_back: bool,
}

/// The last word on one set of one skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody decided yet.
    Undecided,
    /// It may be served where the approval says.
    Approved(Approval),
    /// It shall not be served.
    Denied,
    /// It was approved, and an operator ended that.
    Revoked,
    /// It was approved, and that ended by itself.
    Expired,
    /// It was approved, and the origin then served another set.
    Changed,
}

/// An approval in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The index of its leaf.
    pub leaf: u64,
    /// The address that it holds for.
    pub fingerprint: Fingerprint,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
}

/// What a skill's record amounts to, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillState {
    /// The set now seen waits for a decision.
    Pending,
    /// The set now seen may be served.
    Approved,
    /// The set now seen was denied.
    Denied,
    /// The set now seen was approved, and that was revoked.
    Revoked,
    /// The set now seen was approved until a time that has passed.
    Expired,
    /// Another set than the approved one is, or was, seen.
    Changed,
    /// The origin says that it serves the skill no more, or last served one in its place that breaks a rule.
    Withdrawn,
    /// The origin's entry breaks a rule.
    Invalid,
}

impl SkillRecord {
    pub(super) fn see(&mut self, set: SetId, now: Timestamp) {
        if self.seen != Some(set) {
            self.seen = Some(set);
            self.seen_since = Some(now);
            self.votes.end();
        }
        self.verdicts.entry(set).or_insert(Verdict::Undecided);
    }

    /// An approval of one set ends those of the others.
    pub(super) fn approve(&mut self, set: SetId, approval: Approval, by_rule: bool) {
        for (other, verdict) in &mut self.verdicts {
            let ends = *other != set && matches!(verdict, Verdict::Approved(_));
            if ends {
                *verdict = Verdict::Changed;
            }
        }
        self.verdicts.insert(set, Verdict::Approved(approval));
        self.last_approved = Some(set);
        self.taken_back &= by_rule;
        self.votes.end();
    }

    /// A person's no.
    pub(super) fn close(&mut self, set: SetId, verdict: Verdict) {
        self.taken_back |= verdict == Verdict::Revoked;
        self.verdicts.insert(set, verdict);
        self.votes.end();
    }

    pub(super) fn withdraw(&mut self) {
        self.withdrawn = true;
        self.votes.end();
    }

    pub(super) fn come_back(&mut self, now: Timestamp) {
        self.withdrawn = false;
        self.seen_since = Some(now);
    }

    /// The set last seen at the origin.
    pub fn seen(&self) -> Option<SetId> {
        self.seen
    }

    /// Since when the set last seen has been seen without a break, as the leaves say.
    pub fn seen_since(&self) -> Option<Timestamp> {
        self.seen_since
    }

    /// The last word on a set.
    pub fn verdict(&self, set: SetId) -> Option<&Verdict> {
        self.verdicts.get(&set)
    }

    /// Every set on the record.
    pub fn sets(&self) -> impl Iterator<Item = SetId> {
        self.verdicts.keys().copied()
    }

    /// The index of the last leaf about this skill.
    pub fn last_leaf(&self) -> u64 {
        self.last_leaf
    }

    /// The set that was approved last, in force or not: what a reviewer compares with.
    pub fn last_approved(&self) -> Option<SetId> {
        self.last_approved
    }

    /// Says whether a host has asked for `set` while it was held.
    pub fn was_asked_for(&self, set: SetId) -> bool {
        self.asked_for.contains(&set)
    }

    /// Says whether the origin says that it serves the skill no more.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Says whether an operator took an approval of the skill back, and no person has approved a set since.
    pub fn is_taken_back(&self) -> bool {
        self.taken_back
    }

    /// The approvals that no later leaf ended; whether they hold here and now is [`decide`](crate::domain::decide())'s.
    pub fn approved(&self) -> impl Iterator<Item = (SetId, Approval)> {
        self.verdicts.iter().filter_map(|(set, verdict)| match verdict {
            Verdict::Approved(approval) => Some((*set, *approval)),
            Verdict::Undecided | Verdict::Denied | Verdict::Revoked | Verdict::Expired | Verdict::Changed => None,
        })
    }

    /// What this amounts to at `now`, for an origin whose accepted address is not in question.
    pub fn state(&self, now: Timestamp) -> SkillState {
        if self.withdrawn {
            return SkillState::Withdrawn;
        }
        let was_approved = || {
            self.verdicts
                .values()
                .any(|verdict| matches!(verdict, Verdict::Approved(_) | Verdict::Expired | Verdict::Changed))
        };
        match self.seen.and_then(|set| self.verdicts.get(&set)) {
            Some(Verdict::Approved(approval)) if approval.is_over(now) => SkillState::Expired,
            Some(Verdict::Approved(_)) => SkillState::Approved,
            Some(Verdict::Denied) => SkillState::Denied,
            Some(Verdict::Revoked) => SkillState::Revoked,
            Some(Verdict::Expired) => SkillState::Expired,
            Some(Verdict::Changed) => SkillState::Changed,
            Some(Verdict::Undecided) | None if was_approved() => SkillState::Changed,
            Some(Verdict::Undecided) | None => SkillState::Pending,
        }
    }
}

impl Approval {
    /// Says whether it has ended by itself.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

impl fmt::Display for SkillState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::Changed => "changed",
            Self::Withdrawn => "withdrawn",
            Self::Invalid => "invalid",
        })
    }
}
