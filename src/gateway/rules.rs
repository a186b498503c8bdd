//! Rules that approve: what is known of a set, what the policy says of it, and the leaf where it says yes (`trust = "auto"`).
//!
//! A rule is asked when its origin shows something, when files were stored, and when a time it waits for has come. What is
//! in files is looked into only where conditions ask for it, and only from the store: nothing is fetched for a rule.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use super::By;
use super::Error;
use super::Gateway;
use super::Inner;
use super::ledger::Ledger;
use super::review::ends_first;
use crate::domain::Held;
use crate::domain::Label;
use crate::domain::OriginRecord;
use crate::domain::Policy;
use crate::domain::Proposal;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::SkillRecord;
use crate::domain::SkillState;
use crate::domain::Tally;
use crate::domain::Trust;
use crate::domain::audit::Event;
use crate::domain::policy::Barred;
use crate::domain::policy::Change;
use crate::domain::policy::Content;
use crate::domain::policy::Facts;
use crate::domain::policy::Ruling;
use crate::domain::policy::Source;
use crate::domain::policy::Wait;

/// What is known of sets' files: content never changes under its digests, so it is looked into once.
pub(super) type Contents = HashMap<(SkillKey, SetId), Content>;

/// What holds for a skill, from where, and what it means for the set now seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Which skill.
    #[serde(flatten)]
    pub skill: SkillKey,
    /// The rule that is for it, if one is.
    pub rule: Option<String>,
    /// Every word that holds for it.
    pub policy: Vec<Word>,
    /// The set now seen.
    pub set: Option<SetId>,
    /// Its state; none when no set was ever seen.
    pub state: Option<SkillState>,
    /// What a rule would do: `approve`, `review`, `wait` or `deny`.
    pub ruling: Option<String>,
    /// What will become of the set now seen, in words.
    pub outlook: String,
    /// How far a vote is, where several people are needed.
    pub votes: Option<Tally>,
}

/// One word of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The key.
    pub key: String,
    /// Its value as it would be written.
    pub value: String,
    /// Where it stands.
    pub source: String,
}

/// A set that a rule may be asked about.
struct Candidate {
    key: SkillKey,
    entry: Arc<SkillEntry>,
    policy: Policy,
}

impl Gateway {
    /// What holds for a skill, from where, and what it means for the set now seen.
    ///
    /// # Errors
    ///
    /// [`Error::NoOrigin`] when the label is not configured; [`Error::Store`] when people cannot be looked up.
    pub async fn explain(&self, key: &SkillKey) -> Result<Explanation, Error> {
        let inner = &self.0;
        inner.origin(&key.label)?;
        let policy = inner.policy(key);
        let words = inner.policies.explain(key).into_iter().map(|word| Word {
            key: word.key.to_owned(),
            value: word.value,
            source: word.source.to_string(),
        });
        let mut explanation = Explanation {
            skill: key.clone(),
            rule: inner.policies.rule(key).map(|rule| rule.name.to_string()),
            policy: words.collect(),
            set: None,
            state: None,
            ruling: None,
            outlook: "no set of it was ever seen".to_owned(),
            votes: None,
        };
        let Ok(skill) = self.known(key) else {
            return Ok(explanation);
        };
        let now = inner.clock.now();
        explanation.set = skill.seen;
        explanation.state = Some(skill.state(now));
        let held = skill
            .served(now)
            .map_or_else(Some, |served| served.permit().would_hold());
        explanation.outlook = held.map_or_else(|| "it is served".to_owned(), |held| held.to_string());
        if let (Some(held), Some(entry)) = (held, &skill.entry) {
            inner.look_ahead(&mut explanation, &policy, entry, held).await?;
        }
        Ok(explanation)
    }
}

fn outlook(ruling: &Ruling, policy: &Policy, votes: u32) -> String {
    match ruling {
        Ruling::Approve(_) | Ruling::Wait(_) | Ruling::Deny => ruling.to_string(),
        Ruling::Review(_) if policy.quorum.get() > 1 => {
            format!("{ruling}: {votes} of {} gave their word", policy.quorum)
        }
        Ruling::Review(_) => ruling.to_string(),
    }
}

impl Inner {
    /// Says what will become of a set that is held.
    async fn look_ahead(
        &self,
        explanation: &mut Explanation,
        policy: &Policy,
        entry: &Arc<SkillEntry>,
        held: Held,
    ) -> Result<(), Error> {
        let key = explanation.skill.clone();
        let content = self.content_of(&key, entry, policy).await;
        let listed = self.listed().await?;
        let mut ledger = self.ledger.lock().await;
        let Some(facts) = self.facts(&mut ledger, &key, entry, content) else {
            return Ok(());
        };
        let ruling = policy.ruling(&facts);
        let (origin, recalls) = (ledger.origin_of(&key)?, ledger.record.recalls());
        let votes = origin.votes(&key.uri, entry.resources(), &listed, recalls);
        explanation.ruling = Some(ruling.word().to_owned());
        // What is held for another reason waits for nothing that a rule or people could give.
        if matches!(held, Held::State(_)) {
            explanation.outlook = outlook(&ruling, policy, votes);
        }
        explanation.votes = Some(Tally {
            votes,
            of: policy.quorum,
            yours_already: false,
        });
        Ok(())
    }

    /// Approves what rules approve of an origin, all in one round. Gives after how long the next `hold` ends.
    pub(super) async fn ask_rules_about(&self, label: &Label) -> Result<Option<Duration>, Error> {
        let candidates = self.candidates(&mut *self.ledger.lock().await, label);
        self.forget_contents(label, &candidates);
        if candidates.is_empty() {
            return Ok(None);
        }
        // Files are looked into before anybody has to wait.
        let mut contents = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            let Candidate { key, entry, policy } = candidate;
            contents.push(self.content_of(key, entry, policy).await);
        }
        self.witnessed().await?;
        let _turn = self.turns.of_origin(label).await;
        let mut ledger = self.ledger.lock().await;
        let (mut events, mut waits) = (Vec::new(), Vec::new());
        for (candidate, content) in candidates.iter().zip(contents) {
            match self.ruling(&mut ledger, candidate, content) {
                Some(Ruling::Approve(rule)) => events.extend(self.approval(&ledger, candidate, &rule)),
                Some(Ruling::Wait(Wait::Hold(rest))) => waits.push(rest),
                Some(Ruling::Wait(Wait::NotStored) | Ruling::Review(_) | Ruling::Deny) | None => {}
            }
        }
        if !events.is_empty() {
            self.append(&mut ledger, &By::gateway(), events).await?;
            self.publish(&mut ledger, label);
            self.note_end();
        }
        Ok(waits.into_iter().min())
    }

    fn ruling(&self, ledger: &mut Ledger, candidate: &Candidate, content: Option<Content>) -> Option<Ruling> {
        let Candidate { key, entry, policy } = candidate;
        let facts = self.facts(ledger, key, entry, content)?;
        Some(policy.ruling(&facts))
    }

    /// The leaf with which a rule approves.
    fn approval(&self, ledger: &Ledger, candidate: &Candidate, rule: &Source) -> Option<Event> {
        let Candidate { key, entry, policy } = candidate;
        let proposal = Proposal {
            set: entry.set(),
            files: Some(entry.resources()),
            expires: ends_first(None, policy.expires, self.clock.now()),
            reviewed: None,
        };
        let origin = ledger.record.origin(&key.label)?;
        origin.approve_by_rule(key, &proposal, rule, ledger.record.recalls())
    }

    /// Forgets what is known of sets about which no rule is asked any more.
    fn forget_contents(&self, label: &Label, candidates: &[Candidate]) {
        let asked: HashSet<(&SkillKey, SetId)> = candidates.iter().map(|of| (&of.key, of.entry.set())).collect();
        let mut contents = self.contents.lock();
        contents.retain(|(key, set), _| key.label != *label || asked.contains(&(key, *set)));
    }

    /// The sets now seen of an origin that no approval covers and about which a rule has something to say.
    fn candidates(&self, ledger: &mut Ledger, label: &Label) -> Vec<Candidate> {
        if !self.origins.contains_key(label) || !self.policies.may_approve(label) {
            return Vec::new();
        }
        let origin = ledger.record.origin(label);
        let waiting = origin.into_iter().flat_map(|origin| {
            let barred = |record: &SkillRecord| origin.barred(record).is_some();
            origin.skills().filter(move |(_, record)| !barred(record))
        });
        let waiting: Vec<_> = waiting
            .filter_map(|(uri, record)| {
                let key = SkillKey {
                    label: label.clone(),
                    uri: uri.clone(),
                };
                let set = record.seen()?;
                let has_approval = record.approved().any(|(approved, _)| approved == set);
                let policy = self.policy(&key);
                (!has_approval && policy.trust == Trust::Auto).then_some((key, set, policy))
            })
            .collect();
        let found = waiting.into_iter().filter_map(|(key, set, policy)| {
            let entry = ledger.entry(&self.store, &key, set)?;
            Some(Candidate { key, entry, policy })
        });
        found.collect()
    }

    /// What is known of the set now seen of a skill, if that is `entry`'s.
    fn facts(
        &self,
        ledger: &mut Ledger,
        key: &SkillKey,
        entry: &SkillEntry,
        content: Option<Content>,
    ) -> Option<Facts> {
        let record = ledger.record.origin(&key.label)?.skill(&key.uri)?;
        let (last_approved, since) = (record.last_approved(), record.seen_since()?);
        if record.seen() != Some(entry.set()) {
            return None;
        }
        let before = last_approved.map(|set| ledger.entry(&self.store, key, set));
        let change = match &before {
            None => Some(Change::between(None, entry)),
            Some(before) => before.as_deref().map(|before| Change::between(Some(before), entry)),
        };
        let origin = ledger.record.origin(&key.label)?;
        Some(Facts {
            seen_for: self.clock.now().since(since),
            barred: self.barred(ledger, key, origin, entry),
            change,
            content,
        })
    }

    fn barred(&self, ledger: &Ledger, key: &SkillKey, origin: &OriginRecord, entry: &SkillEntry) -> Option<Barred> {
        let by_record = origin.skill(&key.uri).and_then(|record| origin.barred(record));
        if by_record.is_some() {
            return by_record;
        }
        let observed = ledger.origins.get(&key.label);
        let is_unreadable = observed.is_some_and(|observed| observed.unreadable.contains_key(&key.uri));
        if is_unreadable || ledger.closed.contains_key(key) {
            return Some(Barred::Gone);
        }
        if ledger.record.recalls().first_in(entry.resources()).is_some() {
            return Some(Barred::Recalled);
        }
        // Where sizes may have been left out, a manifest is as good as its measured files.
        let measures = self.origins.get(&key.label).is_some_and(|origin| origin.repair_size);
        let is_whole = || entry.resources().iter().all(|file| self.store.has_file(key, file));
        (measures && !is_whole()).then_some(Barred::Unmeasured)
    }

    /// What a set's files are, where conditions ask for it and every one of them is stored and sound.
    async fn content_of(&self, key: &SkillKey, entry: &Arc<SkillEntry>, policy: &Policy) -> Option<Content> {
        if policy.trust != Trust::Auto || !policy.auto.is_about_content() {
            return None;
        }
        let known = self.contents.lock().get(&(key.clone(), entry.set())).copied();
        if known.is_some() {
            return known;
        }
        if !entry.resources().iter().all(|file| self.store.has_file(key, file)) {
            return None;
        }
        let skill = Arc::new(key.clone());
        let mut content = Content::NOTHING.and_remarks(&self.remarks_on_entry(entry).await);
        for resource in entry.resources().iter() {
            let file = Arc::new(self.read_disk(&skill, entry, resource).await.ok()??);
            let remarks = self.remarks_on(entry, &file).await.ok()?;
            content = content.and(&file).and_remarks(&remarks);
        }
        self.contents.lock().insert((key.clone(), entry.set()), content);
        Some(content)
    }
}
