//! May this skill be served now? The one place that says yes.

use std::fmt;
use std::sync::Arc;

use super::approval::Approval;
use super::approval::OriginRecord;
use super::approval::Recalls;
use super::approval::SkillRecord;
use super::approval::SkillState;
use super::approval::Verdict;
use super::entry::SkillEntry;
use super::origin::SkillKey;
use super::policy::OnChange;
use super::policy::Policy;
use super::policy::Trust;
use super::set::SetId;
use super::time::Timestamp;

/// What may be done with a skill now.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Its approved set may be served; on a trial, the set now seen.
    Serve(ServePermit),
    /// It waits.
    Hold(Held),
}

/// Why a skill is not served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// By its state.
    State(SkillState),
    /// Its label points elsewhere than its approvals do.
    AddressMoved,
    /// The operator never serves it.
    TrustDenied,
    /// One of its files is recalled.
    Recalled,
    /// The origin was silent for longer than `max_stale`.
    Stale,
    /// The approved set's entry is not in the store, or, under `on_change = "keep"`, not all of its files are.
    NotStored,
}

impl Held {
    /// The state, where it is that alone.
    pub fn state(self) -> Option<SkillState> {
        match self {
            Self::State(state) => Some(state),
            Self::AddressMoved | Self::TrustDenied | Self::Stale | Self::NotStored | Self::Recalled => None,
        }
    }
}

/// The right to serve one set of one skill: by an approval, or while a trial lasts. Only [`decide`] makes one.
#[derive(Clone, Debug)]
pub struct ServePermit {
    key: SkillKey,
    entry: Arc<SkillEntry>,
    basis: Basis,
    /// When the origin's silence ends it, under `max_stale`.
    stale_at: Option<Timestamp>,
}

/// What a permit rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    Approval(Approval),
    Trial {
        until: Timestamp,
        /// Why it would be held without the trial.
        otherwise: Held,
    },
}

impl ServePermit {
    /// The skill.
    pub fn key(&self) -> &SkillKey {
        &self.key
    }

    /// The entry whose set may be served.
    pub fn entry(&self) -> &Arc<SkillEntry> {
        &self.entry
    }

    /// The approval it rests on; none on a trial.
    pub fn approval(&self) -> Option<&Approval> {
        match &self.basis {
            Basis::Approval(approval) => Some(approval),
            Basis::Trial { .. } => None,
        }
    }

    /// Why it would be held if there were no trial; none when an approval covers it.
    pub fn would_hold(&self) -> Option<Held> {
        match self.basis {
            Basis::Approval(_) => None,
            Basis::Trial { otherwise, .. } => Some(otherwise),
        }
    }

    /// When the trial ends that it rests on.
    pub fn observed_until(&self) -> Option<Timestamp> {
        match self.basis {
            Basis::Approval(_) => None,
            Basis::Trial { until, .. } => Some(until),
        }
    }

    /// Whether it still holds at `now`: time alone ends a permit, whether or not anybody decides anew.
    ///
    /// # Errors
    ///
    /// Why it has lapsed.
    pub fn check(&self, now: Timestamp) -> Result<(), Held> {
        match self.basis {
            Basis::Approval(approval) if approval.is_over(now) => return Err(Held::State(SkillState::Expired)),
            Basis::Trial { until, otherwise } if until <= now => return Err(otherwise),
            Basis::Approval(_) | Basis::Trial { .. } => {}
        }
        if self.stale_at.is_some_and(|end| end <= now) {
            Err(Held::Stale)
        } else {
            Ok(())
        }
    }

    /// Says whether `other` allows the same for as long.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key
            && self.entry.set() == other.entry.set()
            && self.basis == other.basis
            && self.stale_at == other.stale_at
    }
}

/// What [`decide`] asks of the store.
pub trait StoredSets {
    /// The entry of a set as it was first seen.
    fn entry(&self, skill: &SkillKey, set: SetId) -> Option<Arc<SkillEntry>>;
    /// Whether every file of a set is stored.
    fn is_whole(&self, skill: &SkillKey, entry: &SkillEntry) -> bool;
}

/// Decides about one skill: serve the set that a live approval binds, or hold and say why. While a trial lasts, the set now
/// seen is served where it would only wait.
///
/// Nothing is served on a missing setting or an unknown state.
pub fn decide(
    skill: &SkillKey,
    origin: &OriginRecord,
    policy: &Policy,
    stored: &dyn StoredSets,
    now: Circumstances<'_>,
) -> Decision {
    let bound = match bound_set(skill, origin, policy, now) {
        Err(held) => return Decision::Hold(held),
        Ok(bound) => bound,
    };
    match stored.entry(skill, bound.set) {
        Some(entry) if now.recalls.first_in(entry.resources()).is_some() => Decision::Hold(Held::Recalled),
        Some(entry) if entry.set() == bound.set && (!bound.kept || stored.is_whole(skill, &entry)) => {
            Decision::Serve(ServePermit {
                key: skill.clone(),
                entry,
                basis: bound.basis,
                stale_at: bound.stale_at,
            })
        }
        Some(_) | None => Decision::Hold(Held::NotStored),
    }
}

/// What a decision looks at beside the record of the origin.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// Now.
    pub now: Timestamp,
    /// When the origin last answered.
    pub heard: Option<Timestamp>,
    /// A closing decision that is in force before it is on the record (design §2.8).
    pub closed: Option<SkillState>,
    /// Set when the entry now listed has no set that could be compared: it breaks a rule, or lacks sizes.
    pub unreadable: Option<SkillState>,
    /// The files that are stopped everywhere.
    pub recalls: &'a Recalls,
}

/// A set that may be served.
struct Bound {
    set: SetId,
    basis: Basis,
    /// Whether the origin now serves another one.
    kept: bool,
    /// When the origin's silence ends it.
    stale_at: Option<Timestamp>,
}

fn bound_set(
    skill: &SkillKey,
    origin: &OriginRecord,
    policy: &Policy,
    circumstances: Circumstances<'_>,
) -> Result<Bound, Held> {
    if let Some(state) = circumstances.closed {
        return Err(Held::State(state));
    }
    match policy.trust {
        Trust::Review | Trust::Auto => {}
        Trust::Deny => return Err(Held::TrustDenied),
    }
    if origin.is_moved() {
        return Err(Held::AddressMoved);
    }
    let record = origin.skill(&skill.uri).ok_or(Held::State(SkillState::Pending))?;
    let seen = record.seen().filter(|_| circumstances.unreadable.is_none());
    let (set, basis) = match approved_set(record, seen, origin, policy, circumstances) {
        Ok((set, approval)) => (set, Basis::Approval(approval)),
        Err(held) => {
            // A trial that is no longer configured is over, whether or not the log says so yet.
            let trial = origin.trial().filter(|_| policy.observe.is_some());
            let until = trial.and_then(|trial| trial.lasts(circumstances.now));
            on_trial(record, seen, until, held).ok_or(held)?
        }
    };
    let stale_at = match policy.max_stale {
        None => None,
        // An origin never heard of is silent for longer than any limit.
        Some(limit) => {
            let heard = circumstances.heard;
            Some(heard.and_then(|heard| heard.checked_add(limit)).ok_or(Held::Stale)?)
        }
    };
    if stale_at.is_some_and(|end| end <= circumstances.now) {
        return Err(Held::Stale);
    }
    Ok(Bound {
        set,
        basis,
        kept: Some(set) != seen,
        stale_at,
    })
}

/// The set that a live approval binds.
fn approved_set(
    record: &SkillRecord,
    seen: Option<SetId>,
    origin: &OriginRecord,
    policy: &Policy,
    circumstances: Circumstances<'_>,
) -> Result<(SetId, Approval), Held> {
    let Circumstances { now, unreadable, .. } = circumstances;
    let state = unreadable.unwrap_or_else(|| record.state(now));
    let may_keep = match policy.on_change {
        OnChange::Suspend => false,
        OnChange::Keep => {
            unreadable.is_some() || matches!(state, SkillState::Changed | SkillState::Denied | SkillState::Revoked)
        }
    };
    let live = record
        .approved()
        .filter(|(set, _)| Some(*set) == seen || may_keep)
        .filter(|(_, approval)| approval.fingerprint == origin.address() && !approval.is_over(now))
        .max_by_key(|(_, approval)| approval.leaf);
    match (live, state) {
        (_, SkillState::Withdrawn) | (None, _) => Err(Held::State(state)),
        (Some(live), _) => Ok(live),
    }
}

/// The set now seen, where a trial lasts `until` some time, nobody said no to it, and it is held for nothing but want of an
/// approval.
fn on_trial(
    record: &SkillRecord,
    seen: Option<SetId>,
    until: Option<Timestamp>,
    otherwise: Held,
) -> Option<(SetId, Basis)> {
    let until = until?;
    let merely_waits = match otherwise {
        Held::State(SkillState::Pending | SkillState::Changed | SkillState::Expired) => true,
        Held::State(
            SkillState::Approved
            | SkillState::Denied
            | SkillState::Revoked
            | SkillState::Withdrawn
            | SkillState::Invalid,
        )
        | Held::AddressMoved
        | Held::TrustDenied
        | Held::Recalled
        | Held::Stale
        | Held::NotStored => false,
    };
    let set = seen?;
    let nobody_said_no = match record.verdict(set)? {
        Verdict::Undecided | Verdict::Changed | Verdict::Expired | Verdict::Approved(_) => !record.is_taken_back(),
        Verdict::Denied | Verdict::Revoked => false,
    };
    (merely_waits && nobody_said_no).then_some((set, Basis::Trial { until, otherwise }))
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State(SkillState::Pending) => "it waits for approval",
            Self::State(SkillState::Approved) => "its approval does not hold for this address",
            Self::State(SkillState::Denied) => "it was denied",
            Self::State(SkillState::Revoked) => "its approval was revoked",
            Self::State(SkillState::Expired) => "its approval has expired",
            Self::State(SkillState::Changed) => "it changed after it was approved and waits for a new approval",
            Self::State(SkillState::Withdrawn) => "its origin says that it serves it no more",
            Self::State(SkillState::Invalid) => "its origin's entry breaks a rule",
            Self::AddressMoved => "its origin's address changed and waits to be accepted",
            Self::TrustDenied => "its origin is not served by policy",
            Self::Recalled => "one of its files is recalled",
            Self::Stale => "its origin has been silent for longer than max_stale",
            Self::NotStored => "its approved set is not in the store",
        })
    }
}
