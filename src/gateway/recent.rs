//! Skills that something was just found out about, so that hosts cannot have an origin asked over and over.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::domain::SkillKey;

/// How long something stays recent.
const SPAN: Duration = Duration::from_secs(30);

/// Skills remembered at once; over that, nothing more is.
const KEPT: usize = 10_000;

/// Skills noted in the last [`SPAN`].
#[derive(Default)]
pub(super) struct Recent {
    /// Held for a look-up.
    until: Mutex<HashMap<SkillKey, Instant>>,
}

impl Recent {
    pub(super) fn has(&self, skill: &SkillKey) -> bool {
        self.until
            .lock()
            .get(skill)
            .is_some_and(|until| *until > Instant::now())
    }

    pub(super) fn note(&self, skill: &SkillKey) {
        let now = Instant::now();
        let mut until = self.until.lock();
        if until.len() >= KEPT {
            until.retain(|_, until| *until > now);
        }
        if until.len() < KEPT {
            until.insert(skill.clone(), now + SPAN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str) -> SkillKey {
        SkillKey {
            label: "acme".parse().unwrap(),
            uri: format!("skill://{name}/SKILL.md").parse().unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_noted_is_recent_for_half_a_minute() {
        let recent = Recent::default();
        assert!(!recent.has(&skill("a")));
        recent.note(&skill("a"));
        assert!(recent.has(&skill("a")) && !recent.has(&skill("b")));
        tokio::time::advance(SPAN).await;
        assert!(!recent.has(&skill("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_kept_than_there_is_room_for() {
        let recent = Recent::default();
        (0..=KEPT).for_each(|n| recent.note(&skill(&n.to_string())));
        assert!(!recent.has(&skill(&KEPT.to_string())));
        tokio::time::advance(SPAN).await;
        recent.note(&skill("late"));
        assert!(recent.has(&skill("late")));
        assert_eq!(recent.until.lock().len(), 1);
    }
}
