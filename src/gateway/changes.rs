//! What hosts see differently from one moment to the next, so that they can be told (base protocol §13; cases Q1, Q3).
//!
//! A change is told of only when what hosts see differs: a refresh that brings the same, or only what is held, is none.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::Gateway;
use super::Inner;
use super::catalog::CatalogSkill;
use super::catalog::OriginCatalog;
use super::catalog::Served;
use crate::domain::Label;
use crate::domain::Timestamp;

/// Changes that a listener may be behind; one that is behind more is told that everything may have changed.
const KEPT: usize = 256;

/// Which lists of one origin hosts now see differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub label: Label,
    /// Tools.
    pub tools: bool,
    /// Prompts.
    pub prompts: bool,
    /// Resources and templates, skills' among them.
    pub resources: bool,
    /// Skills, which some hosts see as tools and prompts.
    pub skills: bool,
    /// One resource that passes, as its origin names it, whose content is another.
    pub updated: Option<String>,
}

impl Change {
    /// That the content of a resource is another.
    pub(super) fn updated(label: Label, uri: String) -> Self {
        Self {
            label,
            tools: false,
            prompts: false,
            resources: false,
            skills: false,
            updated: Some(uri),
        }
    }
}

/// Tells of changes.
pub(super) struct Changes {
    sender: broadcast::Sender<Change>,
    /// How often, for each origin; held for a look.
    times: Mutex<HashMap<Label, u64>>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(KEPT),
            times: Mutex::default(),
        }
    }
}

impl Gateway {
    /// What changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.told.sender.subscribe()
    }
}

impl Inner {
    /// Tells of a change, if there is one.
    pub(super) fn tell(&self, change: Change) {
        if change.tools || change.prompts || change.resources || change.updated.is_some() {
            *self.told.times.lock().entry(change.label.clone()).or_default() += 1;
            // Nobody may be listening.
            let _listeners = self.told.sender.send(change).is_ok();
        }
    }

    /// How often a change of an origin was told of.
    pub(super) fn times_told(&self, label: &Label) -> u64 {
        self.told.times.lock().get(label).copied().unwrap_or_default()
    }

    /// Tells of what another part of the catalog shows differently.
    pub(super) fn tell_published(&self, label: &Label, before: Option<&OriginCatalog>, after: Option<&OriginCatalog>) {
        let now = self.clock.now();
        // What nobody approves comes and goes with the address.
        let is_moved = |part: Option<&OriginCatalog>| part.is_some_and(OriginCatalog::is_moved);
        let has_moved = is_moved(before) != is_moved(after);
        let definitions = |part: Option<&OriginCatalog>| part.and_then(|part| part.definitions().cloned());
        let skills = !all_shown(before, now).eq(all_shown(after, now));
        self.tell(Change {
            label: label.clone(),
            tools: has_moved || shown(definitions(before).as_ref(), now).ne(shown(definitions(after).as_ref(), now)),
            prompts: has_moved,
            resources: has_moved || skills,
            skills,
            updated: None,
        });
    }
}

fn all_shown(part: Option<&OriginCatalog>, now: Timestamp) -> impl Iterator<Item = *const Served> {
    let skills = part.into_iter().flat_map(|part| part.skills());
    skills.filter_map(move |skill| shown(Some(skill), now).next())
}

/// The encoded entry of what is served; the next catalog has the very same one while nothing changes.
fn shown(skill: Option<&Arc<CatalogSkill>>, now: Timestamp) -> std::option::IntoIter<*const Served> {
    skill
        .and_then(|skill| skill.served(now).ok().map(Arc::as_ptr))
        .into_iter()
}
