//! The approval machine: what the record's leaves add up to, and which commands it takes.
//!
//! State is a fold over the audit log and nothing else: [`Record::apply`] is the only way it changes, so a restart, a
//! rebuilt index and a second reader of the log come to the same answer. Approvals are *keyed* by set id, so that a set
//! which was never approved has no approval to find (design §2.1, §7; H-58, H-59).

mod ballot;
mod commands;
mod recalls;
mod skill;
mod trial;

use std::collections::BTreeMap;
use std::time::Duration;

pub use ballot::Ballot;
pub use ballot::Tally;
pub use ballot::VoteOutcome;
use ballot::Votes;
pub use commands::Proposal;
pub use commands::Refusal;
pub use commands::Reviewed;
pub use recalls::Recalls;
pub use skill::Approval;
pub use skill::SkillRecord;
pub use skill::SkillState;
pub use skill::Verdict;
pub use trial::Trial;

use super::audit::Actor;
use super::audit::Event;
use super::audit::Leaf;
use super::digest::Digest;
use super::label::Label;
use super::origin::Fingerprint;
use super::origin::SkillKey;
use super::set::ResourceSet;
use super::time::Timestamp;
use super::uri::SkillUri;

/// What the whole log says, by origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    origins: BTreeMap<Label, OriginRecord>,
    recalls: Recalls,
    /// The configuration that the log last told of.
    configured: BTreeMap<String, Digest>,
}

/// What the log says of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRecord {
    address: Fingerprint,
    accepted: Fingerprint,
    /// For the address that the label now points to.
    votes: Votes,
    trial: Option<Trial>,
    removed: bool,
    skills: BTreeMap<SkillUri, SkillRecord>,
}

impl Record {
    /// Takes in the leaf at `index`.
    pub fn apply(&mut self, index: u64, leaf: &Leaf) {
        match &leaf.event {
            Event::OriginAdded { .. }
            | Event::OriginMoved { .. }
            | Event::AcceptVoted { .. }
            | Event::OriginAccepted { .. }
            | Event::OriginRemoved { .. }
            | Event::TrialBegan { .. }
            | Event::TrialEnded { .. } => self.apply_to_origin(index, leaf),
            Event::SetSeen { skill, .. }
            | Event::Changed { skill, .. }
            | Event::Held { skill, .. }
            | Event::Voted { skill, .. }
            | Event::Approved { skill, .. }
            | Event::Denied { skill, .. }
            | Event::Revoked { skill, .. }
            | Event::Expired { skill, .. }
            | Event::Withdrawn { skill }
            | Event::Returned { skill }
            | Event::Pulled { skill, .. }
            | Event::VerificationFailed { skill, .. }
            | Event::Quarantined { skill, .. } => self.with(&skill.label, |origin| {
                let record = origin.skills.entry(skill.uri.clone()).or_default();
                record.apply(index, leaf, origin.address);
            }),
            Event::Recalled { digest } => self.recalls.recall(index, *digest),
            Event::RecallLifted { digest } => self.recalls.lift(*digest),
            Event::Configured { tables } => self.configured.clone_from(tables),
            Event::Forgotten { person } => self.origins.values_mut().for_each(|origin| origin.forget(person)),
            Event::SignedIn { .. }
            | Event::Refused { .. }
            | Event::TokenMade { .. }
            | Event::TokenRevoked { .. }
            | Event::KeyRotated { .. }
            | Event::Sealed { .. }
            | Event::SegmentsRemoved { .. } => {}
        }
    }

    fn apply_to_origin(&mut self, index: u64, leaf: &Leaf) {
        match &leaf.event {
            Event::OriginAdded { label, fingerprint, .. } => {
                let origin = self
                    .origins
                    .entry(label.clone())
                    .or_insert_with(|| OriginRecord::at(*fingerprint));
                origin.point_to(*fingerprint);
                origin.accepted = *fingerprint;
                origin.removed = false;
            }
            Event::OriginMoved { label, fingerprint, .. } => self.with(label, |origin| origin.point_to(*fingerprint)),
            Event::AcceptVoted { label, fingerprint } => self.with(label, |origin| {
                if origin.address == *fingerprint {
                    origin.votes.add(index, &leaf.actor);
                }
            }),
            Event::OriginAccepted { label, fingerprint, .. } => {
                self.with(label, |origin| origin.move_approvals(*fingerprint));
            }
            Event::OriginRemoved { label } => self.with(label, OriginRecord::remove),
            Event::TrialBegan { label, until } => self.with(label, |origin| {
                origin.trial = Some(Trial::begin(origin.trial, leaf.time, *until));
            }),
            Event::TrialEnded { label } => self.with(label, |origin| {
                origin.trial.iter_mut().for_each(Trial::end);
            }),
            Event::SetSeen { .. }
            | Event::Changed { .. }
            | Event::Held { .. }
            | Event::Voted { .. }
            | Event::Approved { .. }
            | Event::Denied { .. }
            | Event::Revoked { .. }
            | Event::Expired { .. }
            | Event::Withdrawn { .. }
            | Event::Returned { .. }
            | Event::Pulled { .. }
            | Event::VerificationFailed { .. }
            | Event::Quarantined { .. }
            | Event::Recalled { .. }
            | Event::RecallLifted { .. }
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

    /// What the log says of a label, unless it was removed.
    pub fn origin(&self, label: &Label) -> Option<&OriginRecord> {
        self.origins.get(label).filter(|origin| !origin.removed)
    }

    /// Every label on the record that was not removed.
    pub fn origins(&self) -> impl Iterator<Item = (&Label, &OriginRecord)> {
        self.origins.iter().filter(|(_, origin)| !origin.removed)
    }

    /// The files that are stopped everywhere.
    pub fn recalls(&self) -> &Recalls {
        &self.recalls
    }

    /// Says whether a file is stopped everywhere.
    pub fn is_recalled(&self, digest: Digest) -> bool {
        self.recalls.has(digest)
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

    /// The leaf to write when the configuration says that the trial of `label` lasts for `observe`, or that there is none. A
    /// trial counts from its first beginning, whatever restarts and other lengths come between.
    pub fn configure_trial(&self, label: &Label, observe: Option<Duration>, now: Timestamp) -> Option<Event> {
        trial::configure(label, self.origin(label)?.trial, observe, now)
    }

    /// The leaf to write when the gateway runs with these tables, unless the log last told of the same.
    pub fn reconfigure(&self, tables: &BTreeMap<String, Digest>) -> Option<Event> {
        (self.configured != *tables).then(|| Event::Configured { tables: tables.clone() })
    }

    /// The moment at which the next approval ends by itself or the next trial is over, if one will.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let origins = || self.origins().map(|(_, origin)| origin);
        let skills = origins().flat_map(|origin| origin.skills.values());
        let approvals = skills.flat_map(|skill| skill.approved().filter_map(|(_, approval)| approval.expires));
        let trials = origins().filter_map(|origin| origin.trial?.lasts(now));
        approvals.chain(trials).filter(|end| *end > now).min()
    }

    fn with(&mut self, label: &Label, change: impl FnOnce(&mut OriginRecord)) {
        if let Some(origin) = self.origins.get_mut(label) {
            change(origin);
        }
    }
}

impl OriginRecord {
    fn at(address: Fingerprint) -> Self {
        Self {
            address,
            accepted: address,
            votes: Votes::default(),
            trial: None,
            removed: false,
            skills: BTreeMap::new(),
        }
    }

    /// Votes are for what was seen at one address.
    fn point_to(&mut self, address: Fingerprint) {
        self.address = address;
        self.votes.end();
        self.skills.values_mut().for_each(|record| record.votes.end());
    }

    fn move_approvals(&mut self, address: Fingerprint) {
        if self.address != address {
            return;
        }
        self.votes.end();
        let from = std::mem::replace(&mut self.accepted, address);
        for verdict in self.skills.values_mut().flat_map(|record| record.verdicts.values_mut()) {
            match verdict {
                Verdict::Approved(approval) if approval.fingerprint == from => approval.fingerprint = address,
                Verdict::Approved(_)
                | Verdict::Undecided
                | Verdict::Denied
                | Verdict::Revoked
                | Verdict::Expired
                | Verdict::Changed => {}
            }
        }
    }

    /// Naming the label again does not bring its approvals back.
    fn remove(&mut self) {
        self.removed = true;
        self.trial = None;
        self.votes.end();
        for record in self.skills.values_mut() {
            *record = SkillRecord {
                last_leaf: record.last_leaf,
                ..SkillRecord::default()
            };
        }
    }

    fn forget(&mut self, person: &str) {
        self.votes.forget(person);
        self.skills.values_mut().for_each(|record| record.votes.forget(person));
    }

    /// The address that the label points to.
    pub fn address(&self) -> Fingerprint {
        self.address
    }

    /// Says whether the label points elsewhere than its approvals do.
    pub fn is_moved(&self) -> bool {
        self.address != self.accepted
    }

    /// The trial that the origin has or had since it was last added.
    pub fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    /// What the log says of a skill, if it says that there is one.
    pub fn skill(&self, uri: &SkillUri) -> Option<&SkillRecord> {
        self.skills.get(uri).filter(|record| record.seen.is_some())
    }

    /// Every skill that was seen.
    pub fn skills(&self) -> impl Iterator<Item = (&SkillUri, &SkillRecord)> {
        self.skills.iter().filter(|(_, record)| record.seen.is_some())
    }

    /// How many of the people listed have given their word for the set now seen of a skill, with these files.
    pub fn votes(&self, uri: &SkillUri, files: &ResourceSet, listed: &[Actor], recalls: &Recalls) -> u32 {
        let since = recalls.votes_since(files);
        self.skill(uri).map_or(0, |record| record.votes.count(listed, since))
    }
}

impl SkillRecord {
    /// Takes in a leaf about the skill, whose label points to `address`.
    fn apply(&mut self, index: u64, leaf: &Leaf, address: Fingerprint) {
        self.last_leaf = self.last_leaf.max(index);
        match &leaf.event {
            Event::SetSeen { set, .. } => self.see(*set, leaf.time),
            Event::Changed { from, set, kept, .. } => {
                if !kept {
                    self.verdicts.insert(*from, Verdict::Changed);
                }
                self.see(*set, leaf.time);
            }
            Event::Voted { set, fingerprint, .. } => {
                if self.seen == Some(*set) && *fingerprint == address {
                    self.votes.add(index, &leaf.actor);
                }
            }
            Event::Approved {
                set,
                fingerprint,
                expires,
                rule,
                ..
            } => {
                let approval = Approval {
                    leaf: index,
                    fingerprint: *fingerprint,
                    expires: *expires,
                };
                self.approve(*set, approval, rule.is_some());
            }
            Event::Denied { set, .. } => self.close(*set, Verdict::Denied),
            Event::Revoked { set, .. } => self.close(*set, Verdict::Revoked),
            Event::Expired { set, .. } => drop(self.verdicts.insert(*set, Verdict::Expired)),
            Event::Withdrawn { .. } => self.withdraw(),
            Event::Returned { .. } => self.come_back(leaf.time),
            Event::Held { set, .. } => self.asked_for.extend(set),
            Event::Pulled { .. }
            | Event::VerificationFailed { .. }
            | Event::Quarantined { .. }
            | Event::OriginAdded { .. }
            | Event::OriginMoved { .. }
            | Event::AcceptVoted { .. }
            | Event::OriginAccepted { .. }
            | Event::OriginRemoved { .. }
            | Event::TrialBegan { .. }
            | Event::TrialEnded { .. }
            | Event::Recalled { .. }
            | Event::RecallLifted { .. }
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
}

#[cfg(test)]
mod tests;
