//! What concerns the data folder alone: verification, tokens, the socket's place.

use std::path::PathBuf;

use super::By;
use super::Caller;
use super::Error;
use super::Gateway;
use super::TokenStatus;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::store::Damage;
use crate::store::Damaged;
use crate::store::RebuildReport;
use crate::store::Store;
use crate::store::TokenId;
use crate::store::TokenNote;
use crate::store::VerifyReport;

impl Gateway {
    /// Makes room for the socket for operators' commands, where an earlier process left its own.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when that cannot be removed.
    pub async fn clear_socket(&self, path: PathBuf) -> Result<(), Error> {
        self.0.on_disk(move |store| store.clear_socket(&path)).await
    }

    /// Hashes every stored byte again; what is damaged goes to quarantine. `tell` hears what is done of how much.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when the folder cannot be read.
    pub async fn verify(&self, tell: impl Fn(u64, u64) + Send + 'static) -> Result<VerifyReport, Error> {
        let check = move |store: &Store| store.verify(&mut |step| tell(step.done, step.total));
        let mut report = self.0.on_disk(check).await?;
        self.0.memory.clear();
        let missing = self.missing_sets().await;
        let is_new = |damage: &Damage| report.damaged.iter().all(|known| known.expected != damage.expected);
        let missing: Vec<_> = missing.into_iter().filter(is_new).collect();
        report.damaged.extend(missing);
        Ok(report)
    }

    /// The approved sets whose entry is in the store no more: nothing of them can be served until their origin shows them.
    async fn missing_sets(&self) -> Vec<Damage> {
        let inner = &self.0;
        let mut ledger = inner.ledger.lock().await;
        let (mut approved, now) = (Vec::new(), inner.clock.now());
        for (label, origin) in ledger.record.origins() {
            for (uri, skill) in origin.skills() {
                let key = SkillKey {
                    label: label.clone(),
                    uri: uri.clone(),
                };
                let live = skill.approved().filter(|(_, approval)| !approval.is_over(now));
                approved.extend(live.map(|(set, _)| (key.clone(), set)));
            }
        }
        approved.retain(|(key, set)| ledger.entry(&inner.store, key, *set).is_none());
        let damage = |(key, set): (SkillKey, SetId)| Damage {
            key,
            what: Damaged::Set,
            expected: set.to_string(),
            got: "nothing, but it is approved".to_owned(),
        };
        approved.into_iter().map(damage).collect()
    }

    /// Makes the index anew from content, sets and log.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be written.
    pub async fn rebuild_index(&self) -> Result<RebuildReport, Error> {
        self.0.on_disk(Store::rebuild_index).await
    }

    /// Makes a token, which speaks for who makes it; its secret is told once, when it is on the record.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be written or recorded.
    pub async fn new_token(&self, by: &By, name: &str) -> Result<(TokenId, String), Error> {
        let (who, name, now) = (by.who.clone(), name.to_owned(), self.0.clock.now());
        let make = move |store: &Store| store.new_token(&name, who.name(), now);
        self.0.on_disk(make).await
    }

    /// The tokens, the oldest first.
    pub fn tokens(&self) -> Vec<TokenStatus> {
        let shown = |TokenNote {
                         id,
                         name,
                         created,
                         revoked,
                         by,
                         hash: _,
                     }| TokenStatus {
            id: id.to_string(),
            name,
            created,
            revoked,
            by,
        };
        self.0.store.tokens().into_iter().map(shown).collect()
    }

    /// Who shows this secret, if it is a live token's.
    pub fn caller_with_token(&self, secret: &str) -> Option<Caller> {
        let token = self.0.store.token_by_secret(secret)?;
        Some(Caller::with_token(&token.id, &token.name))
    }

    /// Whoever has a user id on this machine: a person by their name, if they are listed.
    pub fn caller_with_uid(&self, uid: u32) -> Caller {
        Caller::called(&self.people().of_uid(uid))
    }

    /// Takes back, at once, the token with this id, or every live token of this name. Gives how many there were.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`] when they are dead in this process and that cannot be written or recorded.
    pub async fn revoke_tokens(&self, by: &By, id_or_name: &str) -> Result<u64, Error> {
        let now = self.0.clock.now();
        let meant = |token: &TokenNote| token.id.to_string() == id_or_name || token.name == id_or_name;
        let (mut revoked, mut failed) = (0, None);
        for token in self.0.store.tokens().into_iter().filter(meant) {
            // One that cannot be written does not keep the others alive.
            let who = by.who.clone();
            let revoke = move |store: &Store| store.revoke_token(&token.id, who.name(), now);
            match self.0.on_disk(revoke).await {
                Ok(ended) => revoked += u64::from(ended),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(Error::NotRecorded(Box::new(error)));
        }
        Ok(revoked)
    }
}
