//! What was last seen of an origin beside its sets.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use super::unserved::Unserved;
use crate::domain::EntryFault;
use crate::domain::Finding;
use crate::domain::FrontmatterMatch;
use crate::domain::Held;
use crate::domain::IncompleteEntry;
use crate::domain::RejectedEntry;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillState;
use crate::domain::SkillUri;
use crate::domain::Timestamp;
use crate::domain::UnsizedEntry;

/// What was last seen of an origin beside its sets.
#[derive(Default)]
pub(super) struct Observed {
    /// Skills whose entry has no set that could be compared.
    pub(super) unreadable: BTreeMap<SkillUri, Unreadable>,
    /// Rejected entries that have no usable URI.
    pub(super) nameless: Vec<RejectedEntry>,
    /// Skills whose sizes were measured by us.
    pub(super) measured: BTreeMap<SkillUri, SetId>,
    /// Skills of a folder that another folder of the origin has by the same name, by what goes before them.
    pub(super) shadowed: BTreeMap<SkillUri, SkillUri>,
    /// How the frontmatter of sets matched, where that was looked at and unusual.
    pub(super) frontmatter: HashMap<(SkillUri, SetId), FrontmatterMatch>,
    pub(super) heard: Option<Timestamp>,
    pub(super) last_refresh: Option<Timestamp>,
    pub(super) last_error: Option<String>,
    pub(super) shortfall: Option<String>,
    pub(super) stale: bool,
}

/// An entry without a set.
#[derive(Clone)]
pub(super) enum Unreadable {
    /// It breaks a rule.
    Rejected(RejectedEntry),
    /// Its sizes are missing and a pull has not measured them.
    Unsized(UnsizedEntry, IncompleteEntry),
}

/// One thing that an origin showed.
pub(super) enum Sighting {
    Entry(Arc<SkillEntry>),
    Unsized(UnsizedEntry),
    Rejected(RejectedEntry),
    /// It says that it serves no such skill.
    Gone(SkillUri),
}

impl Observed {
    /// Notes an entry without a set, under its URI where it has one.
    pub(super) fn note(&mut self, unreadable: Unreadable) {
        let named = match &unreadable {
            Unreadable::Rejected(rejected) => rejected.uri.as_ref().and_then(|uri| uri.parse().ok()),
            Unreadable::Unsized(entry, _) => Some(entry.uri().clone()),
        };
        match (named, unreadable) {
            (Some(uri), unreadable) => {
                self.unreadable.insert(uri, unreadable);
            }
            (None, Unreadable::Rejected(rejected)) => self.nameless.push(rejected),
            (None, Unreadable::Unsized(..)) => {}
        }
    }

    /// The texts of entries that wait for their sizes.
    pub(super) fn unsized_texts(&self) -> Vec<String> {
        let text = |unreadable: &Unreadable| match unreadable {
            Unreadable::Unsized(entry, _) => Some(entry.text().to_owned()),
            Unreadable::Rejected(_) => None,
        };
        self.unreadable.values().filter_map(text).collect()
    }

    /// What a reviewer should see of a skill's set beside the entry's own findings.
    pub(super) fn findings(&self, uri: &SkillUri, set: SetId) -> Vec<Finding> {
        let measured = self
            .measured
            .get(uri)
            .filter(|of| **of == set)
            .map(|_| Finding::SizesMeasured);
        let loose = self
            .frontmatter
            .get(&(uri.clone(), set))
            .cloned()
            .map(Finding::LooseFrontmatter);
        let by = self.shadowed.get(uri).cloned();
        let shadowed = by.map(|by| Finding::Shadowed { by });
        measured.into_iter().chain(loose).chain(shadowed).collect()
    }
}

impl Unreadable {
    /// The state of a skill on the record whose entry now has no set.
    pub(super) fn state_of_known(&self) -> SkillState {
        if self.is_invalid() {
            SkillState::Invalid
        } else {
            SkillState::Changed
        }
    }

    /// Says whether the entry breaks a rule.
    pub(super) fn is_invalid(&self) -> bool {
        !self.waits_for_a_pull()
    }

    /// The state of a skill of which no set was ever seen.
    pub(super) fn state_of_unknown(&self) -> SkillState {
        if self.waits_for_a_pull() {
            SkillState::Pending
        } else {
            SkillState::Invalid
        }
    }

    /// What a host is told of such a skill: that it is there, as of any other that is held.
    pub(super) fn unserved(&self) -> Unserved {
        match self.fault() {
            Some(fault) if fault.is_over_limits() => Unserved::Limits,
            Some(_) | None => Unserved::Held(Held::State(self.state_of_unknown())),
        }
    }

    fn fault(&self) -> Option<&EntryFault> {
        match self {
            Self::Rejected(rejected) => Some(&rejected.fault),
            Self::Unsized(_, IncompleteEntry::Rejected(fault)) => Some(fault),
            Self::Unsized(_, IncompleteEntry::NotMeasured(_)) => None,
        }
    }

    /// Says whether nothing is wrong but that a pull has to measure it first.
    pub(super) fn waits_for_a_pull(&self) -> bool {
        matches!(self, Self::Unsized(_, IncompleteEntry::NotMeasured(_)))
    }

    /// Why there is no set.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Rejected(rejected) => rejected.fault.to_string(),
            Self::Unsized(_, why) => why.to_string(),
        }
    }

    /// The rule that is broken.
    pub(super) fn rule(&self) -> &'static str {
        self.fault().map_or("S-23", EntryFault::rule)
    }
}
