//! May this skill be served now? The one place that says yes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::approval::Approval;
use super::approval::OriginRecord;
use super::approval::SkillState;
use super::entry::SkillEntry;
use super::frontmatter::FrontmatterPolicy;
use super::origin::SkillKey;
use super::set::SetId;
use super::time::Timestamp;

/// How an origin's skills come to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who decides.
    pub trust: Trust,
    /// What happens to an approval when another set is seen.
    pub on_change: OnChange,
    /// How strictly frontmatter is compared.
    pub frontmatter: FrontmatterPolicy,
    /// How long an origin may be silent before its skills are held; without it, for ever.
    pub max_stale: Option<Duration>,
}

impl Default for Policy {
    /// What holds where an operator says nothing: people decide, and every change is held.
    fn default() -> Self {
        Self {
            trust: Trust::Review,
            on_change: OnChange::Suspend,
            frontmatter: FrontmatterPolicy::Readings,
            max_stale: None,
        }
    }
}

/// Who decides about an origin's sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// People, one set at a time.
    Review,
    /// Nobody: its skills are listed to operators and never served.
    Deny,
}

/// What happens to an approval when another set is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// It ends (the protocol's letter, H-59).
    Suspend,
    /// The approved set goes on being served from the store while the new one waits.
    Keep,
}

/// What may be done with a skill now.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Its approved set may be served.
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
    /// The operator never serves this origin.
    TrustDenied,
    /// The origin was silent for longer than `max_stale`.
    Stale,
    /// The approved set's entry is not in the store, or, under `on_change = "keep"`, not all of its files are.
    NotStored,
}

/// The right to serve one approved set of one skill. Only [`decide`] makes one.
#[derive(Clone, Debug)]
pub struct ServePermit {
    key: SkillKey,
    entry: Arc<SkillEntry>,
    approval: Approval,
    /// When the origin's silence ends it, under `max_stale`.
    stale_at: Option<Timestamp>,
}

impl ServePermit {
    /// The skill.
    pub fn key(&self) -> &SkillKey {
        &self.key
    }

    /// The entry whose set is approved.
    pub fn entry(&self) -> &Arc<SkillEntry> {
        &self.entry
    }

    /// The approval it rests on.
    pub fn approval(&self) -> &Approval {
        &self.approval
    }

    /// Whether it still holds at `now`: time alone ends a permit, whether or not anybody decides anew.
    ///
    /// # Errors
    ///
    /// Why it has lapsed.
    pub fn check(&self, now: Timestamp) -> Result<(), Held> {
        if self.approval.is_over(now) {
            return Err(Held::State(SkillState::Expired));
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
            && self.approval == other.approval
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

/// Decides about one skill: serve the set that a live approval binds, or hold and say why.
///
/// Nothing is served on a missing setting or an unknown state.
pub fn decide(
    skill: &SkillKey,
    origin: &OriginRecord,
    policy: &Policy,
    stored: &dyn StoredSets,
    now: Circumstances,
) -> Decision {
    match bound_set(skill, origin, policy, now) {
        Err(held) => Decision::Hold(held),
        Ok(bound) => match stored.entry(skill, bound.set) {
            Some(entry) if entry.set() == bound.set && (!bound.kept || stored.is_whole(skill, &entry)) => {
                Decision::Serve(ServePermit {
                    key: skill.clone(),
                    entry,
                    approval: bound.approval,
                    stale_at: bound.stale_at,
                })
            }
            Some(_) | None => Decision::Hold(Held::NotStored),
        },
    }
}

/// What a decision looks at beside the record.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Now.
    pub now: Timestamp,
    /// When the origin last answered.
    pub heard: Option<Timestamp>,
    /// A closing decision that is in force before it is on the record (design §2.8).
    pub closed: Option<SkillState>,
    /// Set when the entry now listed has no set that could be compared: it breaks a rule, or lacks sizes.
    pub unreadable: Option<SkillState>,
}

/// A set with a live approval.
struct Bound {
    set: SetId,
    approval: Approval,
    /// Whether the origin now serves another one.
    kept: bool,
    /// When the origin's silence ends it.
    stale_at: Option<Timestamp>,
}

fn bound_set(
    skill: &SkillKey,
    origin: &OriginRecord,
    policy: &Policy,
    circumstances: Circumstances,
) -> Result<Bound, Held> {
    let Circumstances {
        now,
        heard,
        closed,
        unreadable,
    } = circumstances;
    if let Some(state) = closed {
        return Err(Held::State(state));
    }
    match policy.trust {
        Trust::Review => {}
        Trust::Deny => return Err(Held::TrustDenied),
    }
    if origin.is_moved() {
        return Err(Held::AddressMoved);
    }
    let record = origin.skill(&skill.uri).ok_or(Held::State(SkillState::Pending))?;
    let state = unreadable.unwrap_or_else(|| record.state(now));
    let seen = if unreadable.is_some() { None } else { record.seen() };
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
    let (set, approval) = match (live, state) {
        (_, SkillState::Withdrawn) | (None, _) => return Err(Held::State(state)),
        (Some(live), _) => live,
    };
    let stale_at = match policy.max_stale {
        None => None,
        // An origin never heard of is silent for longer than any limit.
        Some(limit) => Some(heard.and_then(|heard| heard.checked_add(limit)).ok_or(Held::Stale)?),
    };
    if stale_at.is_some_and(|end| end <= now) {
        return Err(Held::Stale);
    }
    Ok(Bound {
        set,
        approval,
        kept: Some(set) != seen,
        stale_at,
    })
}

/// The set that a skill's approvals allow, before the store is asked.
#[cfg(test)]
pub(super) fn bound_set_for_tests(
    skill: &SkillKey,
    origin: &OriginRecord,
    policy: &Policy,
    circumstances: Circumstances,
) -> Option<SetId> {
    bound_set(skill, origin, policy, circumstances)
        .ok()
        .map(|bound| bound.set)
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
            Self::Stale => "its origin has been silent for longer than max_stale",
            Self::NotStored => "its approved set is not in the store",
        })
    }
}
