//! What a lock file says of this gateway: the sets that are served, or those that are seen.

use serde::Deserialize;
use serde::Serialize;

use super::CatalogSkill;
use super::Gateway;
use crate::domain::Label;
use crate::domain::Lock;
use crate::domain::LockedSkill;

/// A lock file, and what it cannot know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// The text of the file.
    pub text: String,
    /// Origins that could not be asked the last time: what they now show is not known.
    pub stale: Vec<Label>,
}

impl Gateway {
    /// The sets that are served now, or, where `seen` says so, those that are seen now, whatever was decided about them.
    pub async fn lock(&self, seen: bool) -> Locked {
        let ledger = self.0.ledger.lock().await;
        let (catalog, now) = (self.catalog(), self.0.clock.now());
        let mut skills = Vec::new();
        for part in catalog.origins() {
            let Some(origin) = ledger.record.origin(part.label()) else {
                continue;
            };
            let entry = |skill: &CatalogSkill| {
                if seen {
                    skill.entry.clone()
                } else {
                    let served = skill.served(now).ok()?;
                    Some(std::sync::Arc::clone(served.permit().entry()))
                }
            };
            skills.extend(part.decided().filter_map(|skill| {
                let key = (*skill.key).clone();
                Some(LockedSkill::of(key, origin.address(), &*entry(skill)?))
            }));
        }
        let stale = catalog.origins().filter(|part| part.is_stale());
        Locked {
            text: Lock::of(skills).to_text(),
            stale: stale.map(|part| part.label().clone()).collect(),
        }
    }
}
