//! Which commands the machine takes, and the leaves to write for them. Nothing here changes anything.

use std::num::NonZeroU32;

use thiserror::Error;

use super::OriginRecord;
use super::ballot::Ballot;
use super::ballot::VoteOutcome;
use super::recalls::Recalls;
use super::skill::SkillRecord;
use super::skill::Verdict;
use crate::domain::audit::Event;
use crate::domain::digest::Digest;
use crate::domain::label::Label;
use crate::domain::origin::Fingerprint;
use crate::domain::origin::SkillKey;
use crate::domain::policy::Barred;
use crate::domain::policy::OnChange;
use crate::domain::policy::Source;
use crate::domain::set::ResourceSet;
use crate::domain::set::SetId;
use crate::domain::time::Timestamp;

/// What somebody wants to be approved.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// The set.
    pub set: SetId,
    /// Its files, as they are stored.
    pub files: Option<&'a ResourceSet>,
    /// When the approval is to end by itself.
    pub expires: Option<Timestamp>,
    /// Where it was reviewed, if that was not here.
    pub reviewed: Option<Reviewed>,
}

/// A review in a lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reviewed {
    /// The file, digested.
    pub lock: Digest,
    /// The address that the set was seen at.
    pub address: Fingerprint,
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
    /// It was reviewed as another address serves it.
    #[error("it was reviewed at another address than the label's")]
    OtherAddress,
    /// There is nothing to revoke.
    #[error("no approval of it is in force")]
    NotApproved,
    /// Nobody could have looked at it.
    #[error("its set is not stored")]
    NotStored,
    /// One of its files is recalled.
    #[error("its file {digest} is recalled; that has to be lifted first")]
    Recalled {
        /// The file.
        digest: Digest,
    },
    /// It takes several people, and this one is none of them.
    #[error("it takes {quorum} people, and only those listed in proxy.toml count; you are none of them ([[person]])")]
    NotListed {
        /// How many it takes.
        quorum: NonZeroU32,
    },
}

impl OriginRecord {
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

    /// What comes of a person's word that a set, which must be the one now seen, be approved.
    ///
    /// # Errors
    ///
    /// [`Refusal`] when the set is not what is seen now, has a recalled file, the address is not accepted, or the person
    /// does not count.
    pub fn approve(
        &self,
        skill: &SkillKey,
        proposal: &Proposal<'_>,
        ballot: &Ballot<'_>,
        recalls: &Recalls,
    ) -> Result<VoteOutcome, Refusal> {
        let record = self.skill(&skill.uri).ok_or(Refusal::Unknown)?;
        let files = self.approvable(record, proposal, recalls)?;
        let Proposal { set, expires, .. } = *proposal;
        let lock = proposal.reviewed.map(|reviewed| reviewed.lock);
        let fingerprint = self.address;
        let stands = record
            .approved()
            .any(|(of, approval)| of == set && approval.fingerprint == fingerprint && approval.expires == expires);
        if stands {
            return Ok(VoteOutcome::Stands);
        }
        let cast = record.votes.cast(ballot, recalls.votes_since(files))?;
        let vote = || Event::Voted {
            skill: skill.clone(),
            set,
            fingerprint,
            lock,
        };
        Ok(cast.outcome(vote, |votes| Event::Approved {
            skill: skill.clone(),
            set,
            fingerprint,
            expires,
            rule: None,
            lock,
            votes,
        }))
    }

    /// The leaf with which a rule approves a set, where one may: the set now seen, about which nobody said no.
    pub fn approve_by_rule(
        &self,
        skill: &SkillKey,
        proposal: &Proposal<'_>,
        rule: &Source,
        recalls: &Recalls,
    ) -> Option<Event> {
        let record = self.skill(&skill.uri)?;
        let may = self.approvable(record, proposal, recalls).is_ok() && self.barred(record).is_none();
        let is_new = match record.verdict(proposal.set)? {
            Verdict::Undecided | Verdict::Changed => true,
            Verdict::Approved(_) | Verdict::Denied | Verdict::Revoked | Verdict::Expired => false,
        };
        (may && is_new).then(|| Event::Approved {
            skill: skill.clone(),
            set: proposal.set,
            fingerprint: self.address,
            expires: proposal.expires,
            rule: Some(rule.on_record()),
            lock: None,
            votes: Vec::new(),
        })
    }

    /// Why no rule may approve the set now seen of a skill, as far as the record says.
    pub fn barred(&self, record: &SkillRecord) -> Option<Barred> {
        if self.is_moved() {
            return Some(Barred::AddressMoved);
        }
        if record.withdrawn {
            return Some(Barred::Gone);
        }
        match record.seen.and_then(|set| record.verdict(set)) {
            Some(Verdict::Denied) => Some(Barred::Denied),
            Some(Verdict::Revoked) => Some(Barred::Revoked),
            Some(Verdict::Expired) => Some(Barred::Expired),
            Some(Verdict::Undecided | Verdict::Approved(_) | Verdict::Changed) if record.taken_back => {
                Some(Barred::Revoked)
            }
            Some(Verdict::Undecided | Verdict::Approved(_) | Verdict::Changed) | None => None,
        }
    }

    /// The files of a set that may be approved at all.
    fn approvable<'a>(
        &self,
        record: &SkillRecord,
        proposal: &Proposal<'a>,
        recalls: &Recalls,
    ) -> Result<&'a ResourceSet, Refusal> {
        if record.seen != Some(proposal.set) {
            return Err(Refusal::OtherSet {
                named: proposal.set,
                seen: record.seen,
            });
        }
        if self.is_moved() {
            return Err(Refusal::AddressMoved);
        }
        if proposal
            .reviewed
            .is_some_and(|reviewed| reviewed.address != self.address)
        {
            return Err(Refusal::OtherAddress);
        }
        let files = proposal.files.ok_or(Refusal::NotStored)?;
        match recalls.first_in(files) {
            Some(digest) => Err(Refusal::Recalled { digest }),
            None => Ok(files),
        }
    }

    /// What comes of a person's word that the address to which the label now points be accepted.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotListed`] when the person does not count.
    pub fn accept(&self, label: &Label, ballot: &Ballot<'_>) -> Result<VoteOutcome, Refusal> {
        if !self.is_moved() {
            return Ok(VoteOutcome::Stands);
        }
        let (label, fingerprint) = (label.clone(), self.address);
        let cast = self.votes.cast(ballot, 0)?;
        let vote = || Event::AcceptVoted {
            label: label.clone(),
            fingerprint,
        };
        Ok(cast.outcome(vote, |votes| Event::OriginAccepted {
            label: label.clone(),
            fingerprint,
            votes,
        }))
    }

    /// The leaf that denies `set`, which must have been seen; none when it is denied already and nobody wants it otherwise.
    ///
    /// # Errors
    ///
    /// [`Refusal`] when no such set was seen.
    pub fn deny(&self, skill: &SkillKey, set: SetId) -> Result<Option<Event>, Refusal> {
        let record = self.skill(&skill.uri).ok_or(Refusal::Unknown)?;
        match record.verdicts.get(&set) {
            Some(Verdict::Denied) if record.votes.is_empty() => Ok(None),
            Some(
                Verdict::Undecided
                | Verdict::Approved(_)
                | Verdict::Denied
                | Verdict::Revoked
                | Verdict::Expired
                | Verdict::Changed,
            ) => Ok(Some(Event::Denied {
                skill: skill.clone(),
                set,
            })),
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

    /// The leaves to write about approvals under `label` that ended by themselves.
    pub fn ended(&self, label: &Label, now: Timestamp) -> Vec<Event> {
        let approved = self
            .skills()
            .flat_map(|(uri, record)| record.approved().map(move |(set, approval)| (uri, set, approval)));
        let over = approved.filter(|(_, _, approval)| approval.is_over(now));
        over.map(|(uri, set, _)| Event::Expired {
            skill: SkillKey {
                label: label.clone(),
                uri: uri.clone(),
            },
            set,
        })
        .collect()
    }
}
