//! The approval machine: what the record's leaves add up to, and which commands it takes.
//!
//! State is a fold over the audit log and nothing else: [`Record::apply`] is the only way it changes, so a restart, a
//! rebuilt index and a second reader of the log come to the same answer. Approvals are *keyed* by set id, so that a set
//! which was never approved has no approval to find (design §2.1, §7; H-58, H-59).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use super::audit::Event;
use super::audit::Leaf;
use super::decide::OnChange;
use super::digest::Digest;
use super::label::Label;
use super::origin::Fingerprint;
use super::origin::SkillKey;
use super::set::SetId;
use super::time::Timestamp;
use super::uri::SkillUri;

/// What the whole log says, by origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    origins: BTreeMap<Label, OriginRecord>,
    recalled: BTreeSet<Digest>,
}

/// What the log says of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRecord {
    address: Fingerprint,
    accepted: Fingerprint,
    removed: bool,
    skills: BTreeMap<SkillUri, SkillRecord>,
}

/// What the log says of one skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillRecord {
    seen: Option<SetId>,
    verdicts: BTreeMap<SetId, Verdict>,
    withdrawn: bool,
    last_leaf: u64,
    last_approved: Option<SetId>,
    asked_for: BTreeSet<SetId>,
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

/// Why a command is not taken. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No such label or skill is on the record.
    #[error("no such skill was ever seen there")]
    Unknown,
    /// The set named is not the one now seen.
    #[error("the set now seen is {}, not {named}", seen.map_or_else(|| "not known".to_owned(), |set| set.to_string()))]
    OtherSet {
        /// The set that the command names.
        named: SetId,
        /// The set now seen.
        seen: Option<SetId>,
    },
    /// The label points elsewhere and nobody accepted that yet.
    #[error("the label points to another address; accept it first (origin accept)")]
    AddressMoved,
    /// There is nothing to revoke.
    #[error("no approval of it is in force")]
    NotApproved,
}

impl Record {
    /// Takes in the leaf at `index`.
    pub fn apply(&mut self, index: u64, leaf: &Leaf) {
        match &leaf.event {
            Event::OriginAdded { label, fingerprint, .. } => {
                let origin = self
                    .origins
                    .entry(label.clone())
                    .or_insert_with(|| OriginRecord::at(*fingerprint));
                origin.address = *fingerprint;
                origin.accepted = *fingerprint;
                origin.removed = false;
            }
            Event::OriginMoved { label, fingerprint, .. } => self.with(label, |origin| origin.address = *fingerprint),
            Event::OriginAccepted { label, fingerprint, .. } => self.with(label, |origin| origin.accept(*fingerprint)),
            Event::OriginRemoved { label } => self.with(label, OriginRecord::remove),
            Event::SetSeen { skill, set } => self.with_skill(index, skill, |record| record.see(*set)),
            Event::Changed { skill, from, set, kept } => self.with_skill(index, skill, |record| {
                if !kept {
                    record.verdicts.insert(*from, Verdict::Changed);
                }
                record.see(*set);
            }),
            Event::Approved {
                skill,
                set,
                fingerprint,
                expires,
                ..
            } => {
                let approval = Approval {
                    leaf: index,
                    fingerprint: *fingerprint,
                    expires: *expires,
                };
                self.with_skill(index, skill, |record| record.approve(*set, approval));
            }
            Event::Denied { skill, set } => self.decided(index, skill, *set, Verdict::Denied),
            Event::Revoked { skill, set } => self.decided(index, skill, *set, Verdict::Revoked),
            Event::Withdrawn { skill } => self.with_skill(index, skill, |record| record.withdrawn = true),
            Event::Returned { skill } => self.with_skill(index, skill, |record| record.withdrawn = false),
            Event::Held { skill, set } => self.with_skill(index, skill, |record| record.asked_for.extend(set)),
            Event::Voted { skill, .. }
            | Event::Expired { skill, .. }
            | Event::Pulled { skill, .. }
            | Event::VerificationFailed { skill, .. }
            | Event::Quarantined { skill, .. } => self.with_skill(index, skill, |_| {}),
            Event::Recalled { digest } => drop(self.recalled.insert(*digest)),
            Event::RecallLifted { digest } => drop(self.recalled.remove(digest)),
            Event::AcceptVoted { .. }
            | Event::TrialBegan { .. }
            | Event::TrialEnded { .. }
            | Event::Configured { .. }
            | Event::SignedIn { .. }
            | Event::Refused { .. }
            | Event::TokenMade { .. }
            | Event::TokenRevoked { .. }
            | Event::KeyRotated { .. }
            | Event::Sealed { .. }
            | Event::SegmentsRemoved { .. }
            | Event::Forgotten { .. } => {}
        }
    }

    /// Says whether a file is stopped everywhere.
    pub fn is_recalled(&self, digest: Digest) -> bool {
        self.recalled.contains(&digest)
    }

    /// What the log says of a label, unless it was removed.
    pub fn origin(&self, label: &Label) -> Option<&OriginRecord> {
        self.origins.get(label).filter(|origin| !origin.removed)
    }

    /// Every label on the record that was not removed.
    pub fn origins(&self) -> impl Iterator<Item = (&Label, &OriginRecord)> {
        self.origins.iter().filter(|(_, origin)| !origin.removed)
    }

    /// The index of the last leaf about a skill.
    pub fn last_leaf(&self, skill: &SkillKey) -> Option<u64> {
        self.origins
            .get(&skill.label)?
            .skills
            .get(&skill.uri)
            .map(|record| record.last_leaf)
    }

    /// The leaf to write when the configuration has `label` at `address`, if any.
    pub fn configure(&self, label: &Label, address: &str) -> Option<Event> {
        let fingerprint = Fingerprint::of(address);
        let (label, address) = (label.clone(), address.to_owned());
        match self.origin(&label) {
            None => Some(Event::OriginAdded {
                label,
                fingerprint,
                address,
            }),
            Some(origin) if origin.address != fingerprint => Some(Event::OriginMoved {
                label,
                fingerprint,
                address,
            }),
            Some(_) => None,
        }
    }

    fn with(&mut self, label: &Label, change: impl FnOnce(&mut OriginRecord)) {
        if let Some(origin) = self.origins.get_mut(label) {
            change(origin);
        }
    }

    fn with_skill(&mut self, index: u64, skill: &SkillKey, change: impl FnOnce(&mut SkillRecord)) {
        self.with(&skill.label, |origin| {
            let record = origin.skills.entry(skill.uri.clone()).or_default();
            record.last_leaf = record.last_leaf.max(index);
            change(record);
        });
    }

    fn decided(&mut self, index: u64, skill: &SkillKey, set: SetId, verdict: Verdict) {
        self.with_skill(index, skill, |record| {
            record.verdicts.insert(set, verdict);
        });
    }
}

impl OriginRecord {
    fn at(address: Fingerprint) -> Self {
        Self {
            address,
            accepted: address,
            removed: false,
            skills: BTreeMap::new(),
        }
    }

    fn accept(&mut self, address: Fingerprint) {
        if self.address == address {
            let from = std::mem::replace(&mut self.accepted, address);
            for verdict in self.skills.values_mut().flat_map(|record| record.verdicts.values_mut()) {
                match verdict {
                    Verdict::Approved(approval) if approval.fingerprint == from => approval.fingerprint = address,
                    Verdict::Approved(_)
                    | Verdict::Undecided
                    | Verdict::Denied
                    | Verdict::Revoked
                    | Verdict::Changed => {}
                }
            }
        }
    }

    /// Naming the label again does not bring its approvals back.
    fn remove(&mut self) {
        self.removed = true;
        for record in self.skills.values_mut() {
            *record = SkillRecord {
                last_leaf: record.last_leaf,
                ..SkillRecord::default()
            };
        }
    }

    /// The address that the label points to.
    pub fn address(&self) -> Fingerprint {
        self.address
    }

    /// Says whether the label points elsewhere than its approvals do.
    pub fn is_moved(&self) -> bool {
        self.address != self.accepted
    }

    /// What the log says of a skill, if it says that there is one.
    pub fn skill(&self, uri: &SkillUri) -> Option<&SkillRecord> {
        self.skills.get(uri).filter(|record| record.seen.is_some())
    }

    /// Every skill that was seen.
    pub fn skills(&self) -> impl Iterator<Item = (&SkillUri, &SkillRecord)> {
        self.skills.iter().filter(|(_, record)| record.seen.is_some())
    }

    /// The leaves to write when the origin is seen to serve `set`: none when that is what was last seen.
    pub fn observe(&self, skill: &SkillKey, set: SetId, on_change: OnChange) -> Vec<Event> {
        let fresh = SkillRecord::default();
        let record = self.skills.get(&skill.uri).unwrap_or(&fresh);
        let mut events = Vec::new();
        if record.withdrawn {
            events.push(Event::Returned { skill: skill.clone() });
        }
        let kept = match on_change {
            OnChange::Suspend => false,
            OnChange::Keep => true,
        };
        let changed = record
            .approved()
            .filter(|(from, _)| *from != set && (record.seen != Some(set) || !kept));
        let before = events.len();
        events.extend(changed.map(|(from, _)| Event::Changed {
            skill: skill.clone(),
            from,
            set,
            kept,
        }));
        if events.len() == before && record.seen != Some(set) {
            events.push(Event::SetSeen {
                skill: skill.clone(),
                set,
            });
        }
        events
    }

    /// The leaf to write when the origin does not serve a skill, or only one that breaks a rule.
    pub fn withdraw(&self, skill: &SkillKey) -> Option<Event> {
        let record = self.skill(&skill.uri)?;
        (!record.withdrawn).then(|| Event::Withdrawn { skill: skill.clone() })
    }

    /// The leaf that approves `set`, which must be the one now seen; none when the same approval is in force already.
    ///
    /// # Errors
    ///
    /// [`Refusal`] when the set is not what is seen now, or the address is not accepted.
    pub fn approve(&self, skill: &SkillKey, set: SetId, expires: Option<Timestamp>) -> Result<Option<Event>, Refusal> {
        let record = self.skill(&skill.uri).ok_or(Refusal::Unknown)?;
        if record.seen != Some(set) {
            return Err(Refusal::OtherSet {
                named: set,
                seen: record.seen,
            });
        }
        if self.is_moved() {
            return Err(Refusal::AddressMoved);
        }
        let fingerprint = self.address;
        let stands = record
            .approved()
            .any(|(of, approval)| of == set && approval.fingerprint == fingerprint && approval.expires == expires);
        Ok((!stands).then(|| Event::Approved {
            skill: skill.clone(),
            set,
            fingerprint,
            expires,
            rule: None,
            lock: None,
            votes: Vec::new(),
        }))
    }

    /// The leaf that denies `set`, which must have been seen; none when it is denied already.
    ///
    /// # Errors
    ///
    /// [`Refusal`] when no such set was seen.
    pub fn deny(&self, skill: &SkillKey, set: SetId) -> Result<Option<Event>, Refusal> {
        let record = self.skill(&skill.uri).ok_or(Refusal::Unknown)?;
        match record.verdicts.get(&set) {
            Some(Verdict::Denied) => Ok(None),
            Some(Verdict::Undecided | Verdict::Approved(_) | Verdict::Revoked | Verdict::Changed) => {
                Ok(Some(Event::Denied {
                    skill: skill.clone(),
                    set,
                }))
            }
            None => Err(Refusal::OtherSet {
                named: set,
                seen: record.seen,
            }),
        }
    }

    /// The leaves that end every approval of a skill in force.
    ///
    /// # Errors
    ///
    /// [`Refusal`] when there is none.
    pub fn revoke(&self, skill: &SkillKey) -> Result<Vec<Event>, Refusal> {
        let record = self.skill(&skill.uri).ok_or(Refusal::Unknown)?;
        let events: Vec<_> = record
            .approved()
            .map(|(set, _)| Event::Revoked {
                skill: skill.clone(),
                set,
            })
            .collect();
        if events.is_empty() {
            Err(Refusal::NotApproved)
        } else {
            Ok(events)
        }
    }
}

impl SkillRecord {
    fn see(&mut self, set: SetId) {
        self.seen = Some(set);
        self.verdicts.entry(set).or_insert(Verdict::Undecided);
    }

    /// An approval of one set ends those of the others.
    fn approve(&mut self, set: SetId, approval: Approval) {
        for (other, verdict) in &mut self.verdicts {
            let ends = *other != set && matches!(verdict, Verdict::Approved(_));
            if ends {
                *verdict = Verdict::Changed;
            }
        }
        self.verdicts.insert(set, Verdict::Approved(approval));
        self.last_approved = Some(set);
    }

    /// The set last seen at the origin.
    pub fn seen(&self) -> Option<SetId> {
        self.seen
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

    /// The approvals that no later leaf ended; whether they hold here and now is [`decide`](super::decide())'s.
    pub fn approved(&self) -> impl Iterator<Item = (SetId, Approval)> {
        self.verdicts.iter().filter_map(|(set, verdict)| match verdict {
            Verdict::Approved(approval) => Some((*set, *approval)),
            Verdict::Undecided | Verdict::Denied | Verdict::Revoked | Verdict::Changed => None,
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
                .any(|verdict| matches!(verdict, Verdict::Approved(_) | Verdict::Changed))
        };
        match self.seen.and_then(|set| self.verdicts.get(&set)) {
            Some(Verdict::Approved(approval)) if approval.is_over(now) => SkillState::Expired,
            Some(Verdict::Approved(_)) => SkillState::Approved,
            Some(Verdict::Denied) => SkillState::Denied,
            Some(Verdict::Revoked) => SkillState::Revoked,
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

#[cfg(test)]
mod tests;
