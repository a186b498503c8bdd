//! What operators decide, and what they look at before they do.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use similar::TextDiff;

use super::By;
use super::Error;
use super::Gateway;
use super::Inner;
use super::catalog::CatalogSkill;
use super::inspected::path_of;
use super::ledger::Ledger;
use super::ledger::closing;
use crate::domain::Ballot;
use crate::domain::Digest;
use crate::domain::FileChange;
use crate::domain::Held;
use crate::domain::Label;
use crate::domain::OriginRecord;
use crate::domain::Proposal;
use crate::domain::Resource;
use crate::domain::ResourceUri;
use crate::domain::Reviewed;
use crate::domain::SetDiff;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::SkillState;
use crate::domain::SkillUri;
use crate::domain::Tally;
use crate::domain::Timestamp;
use crate::domain::Trust;
use crate::domain::VerifiedFile;
use crate::domain::VoteOutcome;
use crate::domain::audit::Actor;
use crate::domain::audit::Event;
use crate::domain::inspect::Remark;
use crate::store::Store;
use crate::upstream::Attempt;

/// Bytes of a text of which a line-by-line difference is made.
const DIFF_BYTES: usize = 512 * 1024;

/// What is said of a set on the record whose entry is not in the store: nobody could look at it.
const NOT_STORED: &str = "its set is not stored; it is stored when the origin shows it again and there is room";

/// What a person wants to be approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approving {
    /// The set, which must be the one now seen.
    pub set: SetId,
    /// When the approval is to end by itself; the policy may end it earlier.
    pub expires: Option<Timestamp>,
    /// Where it was reviewed, if that was not here.
    pub reviewed: Option<Reviewed>,
}

/// A decision that is in force and on the record, or a vote for one that is on the record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Decided {
    /// Whose.
    #[serde(flatten)]
    pub skill: SkillKey,
    /// The sets that it is about.
    pub sets: Vec<SetId>,
    /// `approved`, `voted`, `denied` or `revoked`.
    pub state: String,
    /// Whether anything changed; false when it had been decided so before.
    pub changed: bool,
    /// How far the vote is, where more people are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<Tally>,
}

/// What came of a person's word on an origin's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressDecided {
    /// Whether anything changed; false when there was nothing to accept, or the vote was given before.
    pub changed: bool,
    /// How far the vote is, where more people are needed.
    pub votes: Option<Tally>,
}

/// What differs between the set last approved and the one now seen.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Difference {
    /// Whose.
    #[serde(flatten)]
    pub skill: SkillKey,
    /// The set last approved; none when none ever was.
    pub approved: Option<SetId>,
    /// The set now seen.
    pub seen: SetId,
    /// Why the origin offers that set no more, if so: the skill is withdrawn, or its entry now breaks a rule.
    pub gone: Option<String>,
    /// The frontmatter as listed in the approved set, where it differs.
    pub frontmatter_before: Option<String>,
    /// The frontmatter as listed now, where it differs.
    pub frontmatter_after: Option<String>,
    /// The files that differ.
    pub files: Vec<FileDifference>,
}

/// What differs about one file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileDifference {
    /// The file.
    pub uri: ResourceUri,
    /// `added`, `removed` or `changed`.
    pub change: String,
    /// Its digest in the approved set.
    pub before: Option<Digest>,
    /// Its digest now.
    pub after: Option<Digest>,
    /// A unified difference of the texts, where both are stored and text.
    pub text: Option<String>,
    /// Where a reviewer should look in it as it is now, if it is stored.
    #[serde(default)]
    pub remarks: Vec<Remark>,
}

impl Gateway {
    /// Approves exactly one set, or gives a person's vote for it where the policy asks for several. Durable before it is in
    /// force (design §2.8).
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when another set is seen meanwhile, or the person's word does not count; [`Error::Store`] when it
    /// cannot be recorded, and then nothing is in force.
    pub async fn approve(&self, by: &By, key: &SkillKey, wanted: Approving) -> Result<Decided, Error> {
        let inner = &self.0;
        self.witnessed().await?;
        let policy = inner.policy(key);
        let voters = inner.voters(by, policy.quorum).await?;
        let _turn = inner.turns.of_skill(key).await;
        let now = inner.clock.now();
        let outcome = {
            let mut ledger = inner.ledger.lock().await;
            inner.refuse_without_set(&mut ledger, key, wanted.set)?;
            let entry = ledger.entry(&inner.store, key, wanted.set);
            let proposal = Proposal {
                set: wanted.set,
                files: entry.as_deref().map(SkillEntry::resources),
                expires: ends_first(wanted.expires, policy.expires, now),
                reviewed: wanted.reviewed,
            };
            let origin = ledger.origin_of(key)?;
            origin.approve(key, &proposal, &voters.ballot(), ledger.record.recalls())
        };
        let outcome = outcome.map_err(|refusal| Error::Refused {
            key: key.clone(),
            refusal,
        })?;
        let (event, votes) = split(outcome);
        let changed = event.is_some();
        inner.record(by, event.into_iter().collect()).await?;
        inner.publish_shared(&key.label).await;
        inner.note_end();
        Ok(Decided {
            skill: key.clone(),
            sets: vec![wanted.set],
            state: if votes.is_some() { "voted" } else { "approved" }.to_owned(),
            changed,
            votes,
        })
    }

    /// Denies `set`, or the set now seen. In force at once, acknowledged when durable.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`] when it is in force and could not be recorded.
    pub async fn deny(&self, by: &By, key: &SkillKey, set: Option<SetId>) -> Result<Decided, Error> {
        let inner = &self.0;
        let _turn = inner.turns.of_skill(key).await;
        let (set, event) = {
            let ledger = inner.ledger.lock().await;
            let origin = ledger.origin_of(key)?;
            let seen = origin.skill(&key.uri).and_then(|record| record.seen());
            let set = set.or(seen).ok_or_else(|| Error::NoSkill(key.clone()))?;
            (set, origin.deny(key, set))
        };
        let event = event.map_err(|refusal| Error::Refused {
            key: key.clone(),
            refusal,
        })?;
        let changed = event.is_some();
        inner.close(by, &key.label, event.into_iter().collect()).await?;
        Ok(Decided {
            skill: key.clone(),
            sets: vec![set],
            state: "denied".to_owned(),
            changed,
            votes: None,
        })
    }

    /// Ends every approval of a skill. In force at once, acknowledged when durable.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`] when it is in force and could not be recorded.
    pub async fn revoke(&self, by: &By, key: &SkillKey) -> Result<Decided, Error> {
        let inner = &self.0;
        let _turn = inner.turns.of_skill(key).await;
        let events = inner.ledger.lock().await.origin_of(key)?.revoke(key);
        let events = events.map_err(|refusal| Error::Refused {
            key: key.clone(),
            refusal,
        })?;
        let sets = events.iter().filter_map(revoked_set).collect();
        inner.close(by, &key.label, events).await?;
        Ok(Decided {
            skill: key.clone(),
            sets,
            state: "revoked".to_owned(),
            changed: true,
            votes: None,
        })
    }

    /// Accepts the address that a label now points to, so that its approvals hold there, or gives a person's vote for that:
    /// it takes as many people as for any skill that the origin may have.
    ///
    /// # Errors
    ///
    /// [`Error::NoOrigin`] when the label is not configured; [`Error::Address`] when the person's word does not count.
    pub async fn accept_origin(&self, by: &By, label: &Label) -> Result<AddressDecided, Error> {
        let inner = &self.0;
        self.witnessed().await?;
        let voters = inner.voters(by, inner.policies.quorum_of_origin(label)).await?;
        let _turn = inner.turns.of_origin(label).await;
        let mut ledger = inner.ledger.lock().await;
        let origin = ledger
            .record
            .origin(label)
            .filter(|_| inner.origins.contains_key(label));
        let origin = origin.ok_or_else(|| Error::NoOrigin(label.clone()))?;
        let outcome = origin.accept(label, &voters.ballot());
        let (event, votes) = split(outcome.map_err(|refusal| Error::Address {
            label: label.clone(),
            refusal,
        })?);
        let changed = event.is_some();
        inner.append(&mut ledger, by, event.into_iter().collect()).await?;
        inner.publish(&mut ledger, label);
        inner.look_soon(label);
        Ok(AddressDecided { changed, votes })
    }

    /// Removes an origin: its approvals end and its content leaves the disk; its record stays (H-65). Gives the bytes freed.
    ///
    /// # Errors
    ///
    /// [`Error::NoOrigin`] when nothing is known of the label.
    pub async fn remove_origin(&self, by: &By, label: &Label) -> Result<u64, Error> {
        let inner = &self.0;
        let _turn = inner.turns.of_origin(label).await;
        let mut ledger = inner.ledger.lock().await;
        let origin = ledger.record.origin(label);
        let origin = origin.ok_or_else(|| Error::NoOrigin(label.clone()))?;
        let key = |uri: &SkillUri| SkillKey {
            label: label.clone(),
            uri: uri.clone(),
        };
        let closes: Vec<_> = origin
            .skills()
            .map(|(uri, _)| (key(uri), SkillState::Revoked))
            .collect();
        // It closes: out of the catalog first, then onto the record. Where that fails, no later catalog opens it again.
        ledger.closed.extend(closes);
        inner.close_origin(label);
        inner.memory.clear();
        let removed = vec![Event::OriginRemoved { label: label.clone() }];
        let recorded = inner.append(&mut ledger, by, removed).await;
        recorded.map_err(|error| Error::NotRecorded(Box::new(error)))?;
        ledger.origins.remove(label);
        ledger.closed.retain(|key, _| key.label != *label);
        let of = label.clone();
        inner.on_disk(move |store| store.remove_origin(&of)).await
    }

    /// A file of the set now seen, verified, for an operator's eyes: approved or not.
    ///
    /// # Errors
    ///
    /// [`Error::File`] with the reason when it cannot be had.
    pub async fn look_at(&self, key: &SkillKey, file: &str) -> Result<Arc<VerifiedFile>, Error> {
        let entry = self.seen_entry(key)?;
        let uri = if file.contains("://") {
            file.to_owned()
        } else {
            format!("{}/{file}", key.uri.root())
        };
        let failed = |reason| Error::File {
            label: key.label.clone(),
            uri: uri.clone(),
            reason,
        };
        let resource = entry
            .resources()
            .get(&uri)
            .ok_or_else(|| failed(super::Unserved::Unlisted))?;
        let obtained = self
            .0
            .obtain(&Arc::new(key.clone()), &entry, resource, Attempt::Probe)
            .await;
        obtained.map(|obtained| obtained.file).map_err(failed)
    }

    /// What differs between the set last approved and the one now seen; texts where both are stored.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] when the skill or its entries are not known.
    pub async fn diff(&self, key: &SkillKey) -> Result<Difference, Error> {
        let inner = &self.0;
        let after = self.seen_entry(key)?;
        let (before, gone) = {
            let mut ledger = inner.ledger.lock().await;
            let record = ledger.origin_of(key)?.skill(&key.uri);
            let approved = record.and_then(|record| record.last_approved());
            let withdrawn = record.is_some_and(|record| record.is_withdrawn());
            let withdrawn = withdrawn.then(|| Held::State(SkillState::Withdrawn).to_string());
            let observed = ledger.origins.get(&key.label);
            let unreadable = observed.and_then(|observed| observed.unreadable.get(&key.uri));
            let gone = unreadable.map(|why| why.reason()).or(withdrawn);
            (approved.and_then(|set| ledger.entry(&inner.store, key, set)), gone)
        };
        let diff = before.as_deref().map_or_else(
            || SetDiff::from_nothing(&after),
            |before| SetDiff::between(before, &after),
        );
        let frontmatter = |entry: &SkillEntry| diff.frontmatter.then(|| entry.frontmatter().canonical());
        let skill = Arc::new(key.clone());
        let sighted = self.sighted(key).await;
        let mut files = Vec::with_capacity(diff.files.len());
        for change in &diff.files {
            let text = match &before {
                Some(before) => inner.text_difference(&skill, before, &after, &change.uri).await,
                None => None,
            };
            files.push(FileDifference::new(
                change,
                text,
                sighted.on(&path_of(&after, &change.uri)),
            ));
        }
        Ok(Difference {
            skill: key.clone(),
            approved: before.as_ref().map(|entry| entry.set()),
            seen: after.set(),
            gone,
            frontmatter_before: before.as_deref().and_then(frontmatter),
            frontmatter_after: frontmatter(&after),
            files,
        })
    }

    /// The entry now seen of a skill.
    pub(super) fn seen_entry(&self, key: &SkillKey) -> Result<Arc<SkillEntry>, Error> {
        let entry = self.known(key)?.entry.clone();
        entry.ok_or_else(|| Error::NoSet {
            key: key.clone(),
            reason: NOT_STORED.to_owned(),
        })
    }

    /// The skill in the catalog.
    pub(super) fn known(&self, key: &SkillKey) -> Result<Arc<CatalogSkill>, Error> {
        let catalog = self.catalog();
        let skill = catalog
            .origin(&key.label)
            .and_then(|part| part.decided_about(&key.uri))
            .cloned();
        skill.ok_or_else(|| Error::NoSkill(key.clone()))
    }
}

/// Who votes, and who counts.
struct Voters {
    quorum: NonZeroU32,
    by: Actor,
    listed: Vec<Actor>,
}

impl Voters {
    fn ballot(&self) -> Ballot<'_> {
        Ballot {
            quorum: self.quorum,
            by: &self.by,
            listed: &self.listed,
        }
    }
}

/// The leaf to write, and how far the vote is where that decides nothing.
fn split(outcome: VoteOutcome) -> (Option<Event>, Option<Tally>) {
    match outcome {
        VoteOutcome::Stands => (None, None),
        VoteOutcome::Voted(event, tally) => (event, Some(tally)),
        VoteOutcome::Decided(event) => (Some(event), None),
    }
}

/// The earlier end of the two; a person may only shorten what the policy says.
pub(super) fn ends_first(asked: Option<Timestamp>, policy: Option<Duration>, now: Timestamp) -> Option<Timestamp> {
    let by_policy = policy.map(|span| now.checked_add(span).unwrap_or(Timestamp::MAX));
    asked.into_iter().chain(by_policy).min()
}

fn revoked_set(event: &Event) -> Option<SetId> {
    if let Event::Revoked { set, .. } = event {
        Some(*set)
    } else {
        None
    }
}

impl Ledger {
    pub(super) fn origin_of(&self, key: &SkillKey) -> Result<&OriginRecord, Error> {
        self.record
            .origin(&key.label)
            .ok_or_else(|| Error::NoOrigin(key.label.clone()))
    }
}

impl Inner {
    /// Who votes and who counts, as the record knows them. Where one person is enough, nobody is asked about.
    async fn voters(&self, by: &By, quorum: NonZeroU32) -> Result<Voters, Error> {
        let one_is_enough = quorum == NonZeroU32::MIN;
        let (by, listed) = if one_is_enough {
            (Actor::Gateway, Vec::new())
        } else {
            let who = by.who.clone();
            (self.on_disk(move |store| who.actor(store)).await?, self.listed().await?)
        };
        Ok(Voters { quorum, by, listed })
    }

    /// Everybody who counts, as the record knows them.
    pub(super) async fn listed(&self) -> Result<Vec<Actor>, Error> {
        let people = self.people.clone();
        let find = move |store: &Store| people.iter().map(|person| store.person(person.name.as_str())).collect();
        self.on_disk(find).await
    }

    /// What closes: in force at once, then on the record. The caller has the turn of the skills that it is about.
    pub(super) async fn close(&self, by: &By, label: &Label, events: Vec<Event>) -> Result<(), Error> {
        let closes = closing(&events);
        self.ledger.lock().await.closed.extend(closes.iter().cloned());
        self.publish_shared(label).await;
        if let Err(error) = self.record(by, events.clone()).await {
            self.ledger.lock().await.wait_for_room(by, events, &error);
            return Err(Error::NotRecorded(Box::new(error)));
        }
        {
            let mut ledger = self.ledger.lock().await;
            for (key, _) in closes {
                ledger.closed.remove(&key);
            }
        }
        self.publish_shared(label).await;
        Ok(())
    }

    /// A skill whose entry now has no set must not be approved by the set it had before, none by whose origin nothing is
    /// served, and no set whose entry nobody can look at.
    fn refuse_without_set(&self, ledger: &mut Ledger, key: &SkillKey, set: SetId) -> Result<(), Error> {
        let no_set = |reason| {
            Err(Error::NoSet {
                key: key.clone(),
                reason,
            })
        };
        self.origin(&key.label)?;
        match self.policy(key).trust {
            Trust::Review | Trust::Auto => {}
            Trust::Deny => return no_set("it is never served (trust = \"deny\")".to_owned()),
        }
        if let Some(state) = ledger.closed.get(key) {
            return no_set(format!(
                "that it is {state} is in force and not yet recorded; look at the log, then try again"
            ));
        }
        let record = ledger.origin_of(key)?.skill(&key.uri);
        let is_seen = record.is_some_and(|record| record.seen() == Some(set));
        let observed = ledger.origins.get(&key.label);
        if let Some(unreadable) = observed.and_then(|observed| observed.unreadable.get(&key.uri)) {
            return no_set(unreadable.reason());
        }
        if is_seen && ledger.entry(&self.store, key, set).is_none() {
            return no_set(NOT_STORED.to_owned());
        }
        Ok(())
    }

    /// A unified difference of one file, where both sides are stored, text and short enough.
    async fn text_difference(
        &self,
        skill: &Arc<SkillKey>,
        before: &Arc<SkillEntry>,
        after: &Arc<SkillEntry>,
        uri: &ResourceUri,
    ) -> Option<String> {
        let (old, new) = (
            before.resources().get(uri.as_str()),
            after.resources().get(uri.as_str()),
        );
        let old = self.stored_text(skill, before, old?).await?;
        let new = self.stored_text(skill, after, new?).await?;
        let diff = TextDiff::from_lines(&old, &new);
        Some(
            diff.unified_diff()
                .context_radius(3)
                .header("approved", "seen")
                .to_string(),
        )
    }

    async fn stored_text(&self, skill: &Arc<SkillKey>, entry: &Arc<SkillEntry>, resource: &Resource) -> Option<String> {
        let file = self.read_disk(skill, entry, resource).await.ok()??;
        let text = std::str::from_utf8(file.bytes())
            .ok()
            .filter(|text| text.len() <= DIFF_BYTES)?;
        Some(text.to_owned())
    }
}

impl FileDifference {
    fn new(change: &FileChange, text: Option<String>, remarks: Vec<Remark>) -> Self {
        let kind = match (&change.before, &change.after) {
            (None, _) => "added",
            (Some(_), None) => "removed",
            (Some(_), Some(_)) => "changed",
        };
        Self {
            uri: change.uri.clone(),
            change: kind.to_owned(),
            before: change.before.map(|(digest, _)| digest),
            after: change.after.map(|(digest, _)| digest),
            text,
            remarks,
        }
    }
}
