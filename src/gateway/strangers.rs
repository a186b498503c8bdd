//! Who knocked and was not let in.

use super::By;
use super::Gateway;
use super::Who;

/// Strangers who are remembered: each is on the record once until the next start, and no more than these.
const STRANGERS_KEPT: usize = 256;

impl Gateway {
    /// Puts on the record that somebody knocked whose commands are not taken; once each, so that nobody can fill it so.
    pub async fn note_stranger(&self, by: &By, command: &str, reason: &str) {
        let Who::Person(person) = &by.who else { return };
        tracing::warn!(person, command, reason, "a command was refused");
        let is_new = {
            let mut strangers = self.0.strangers.lock();
            strangers.len() < STRANGERS_KEPT && strangers.insert(person.clone())
        };
        if is_new {
            self.note_refused(by, command, reason).await;
        }
    }
}
