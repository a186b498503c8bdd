//! Whose turn it is: decisions about different skills go on side by side, so that they share a flush of the log.
//!
//! A decision is checked under the ledger's lock, recorded without it, and taken in under it again. Meanwhile nobody else
//! decides about the same skill, and nothing changes its whole origin. Lock order: a turn, then the ledger.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::OwnedRwLockReadGuard;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::sync::RwLock;

use crate::domain::Label;
use crate::domain::SkillKey;

/// Who decides about what at the moment.
#[derive(Default)]
pub(super) struct Turns {
    /// Fair, so that decisions without end do not keep a refresh waiting; as many as there ever were labels.
    labels: Mutex<HashMap<Label, Arc<RwLock<()>>>>,
    skills: Mutex<HashSet<SkillKey>>,
    skill_is_free: Notify,
}

/// The turn to decide about one skill.
pub(super) struct SkillTurn<'a> {
    turns: &'a Turns,
    key: SkillKey,
    _label: OwnedRwLockReadGuard<()>,
}

/// The turn to change what belongs to a whole origin.
pub(super) struct OriginTurn(#[expect(dead_code, reason = "it is held, not looked at")] OwnedRwLockWriteGuard<()>);

impl Turns {
    /// Waits for the turn to decide about a skill.
    pub(super) async fn of_skill(&self, key: &SkillKey) -> SkillTurn<'_> {
        let label = self.label(&key.label).read_owned().await;
        loop {
            let freed = self.skill_is_free.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.skills.lock().insert(key.clone()) {
                return SkillTurn {
                    turns: self,
                    key: key.clone(),
                    _label: label,
                };
            }
            freed.await;
        }
    }

    /// Waits for the turn to change what belongs to a whole origin.
    pub(super) async fn of_origin(&self, label: &Label) -> OriginTurn {
        OriginTurn(self.label(label).write_owned().await)
    }

    fn label(&self, label: &Label) -> Arc<RwLock<()>> {
        Arc::clone(self.labels.lock().entry(label.clone()).or_default())
    }
}

impl Drop for SkillTurn<'_> {
    fn drop(&mut self) {
        self.turns.skills.lock().remove(&self.key);
        self.turns.skill_is_free.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn skills_go_side_by_side_and_their_origin_alone() {
        let turns = Turns::default();
        let key = |text: &str| super::super::parse_skill(text).unwrap();
        let first = turns.of_skill(&key("acme/a")).await;
        let other = turns.of_skill(&key("acme/b")).await;
        assert!(turns.of_skill(&key("acme/a")).now_or_never().is_none());
        let label = key("acme/a").label;
        assert!(turns.of_origin(&label).now_or_never().is_none());
        let same = async {
            let _again = turns.of_skill(&key("acme/a")).await;
        };
        tokio::join!(same, async { drop(first) });
        drop(other);
        let whole = turns.of_origin(&label).await;
        assert!(turns.of_skill(&key("acme/b")).now_or_never().is_none());
        turns.of_skill(&key("zeta/b")).now_or_never().unwrap();
        drop(whole);
        turns.of_skill(&key("acme/b")).now_or_never().unwrap();
    }
}
