//! The one writer: what was observed and what was decided become leaves, then state, then a catalog.
//!
//! Order of commitment (design §6): bytes, set file, leaf, catalog. What closes is published before it is recorded and
//! stays in force when recording fails; what opens is recorded first (design §2.8).

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Error;
use super::Inner;
use super::catalog::Catalog;
use super::catalog::CatalogSkill;
use super::catalog::OriginCatalog;
use super::catalog::Served;
use super::catalog::Standing;
use super::observed::Observed;
use super::observed::Sighting;
use super::observed::Unreadable;
use super::recall::WaitingForRoom;
use crate::domain::Circumstances;
use crate::domain::Decision;
use crate::domain::Label;
use crate::domain::OnChange;
use crate::domain::OriginRecord;
use crate::domain::Record;
use crate::domain::RejectedEntry;
use crate::domain::ServePermit;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::SkillState;
use crate::domain::SkillUri;
use crate::domain::StoredSets;
use crate::domain::Timestamp;
use crate::domain::UnsizedEntry;
use crate::domain::audit::Actor;
use crate::domain::audit::Event;
use crate::domain::audit::Leaf;
use crate::domain::audit::clip;
use crate::domain::decide;
use crate::store;
use crate::store::NewLeaf;
use crate::store::Store;

/// Everything that changes, behind the one lock of the writer.
pub(super) struct Ledger {
    pub(super) record: Record,
    pub(super) origins: BTreeMap<Label, Observed>,
    /// Closing decisions in force that the log does not have yet.
    pub(super) closed: BTreeMap<SkillKey, SkillState>,
    /// Those of them that are to be recorded when there is room.
    pub(super) unrecorded: WaitingForRoom,
    /// Entries of sets that are seen or approved.
    entries: HashMap<(Label, SetId), Arc<SkillEntry>>,
}

/// Who decides, and what they write beside it on the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// Who.
    pub who: Who,
    /// Their words; what is too long is cut with a mark.
    pub note: Option<String>,
}

/// Who decides. A person's commitment is made when the decision is recorded: what closes does not wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The gateway, by its rules.
    Gateway,
    /// The person of this name.
    Person(String),
}

impl Who {
    /// Who it is on the record, which is written down when it is new.
    pub(super) fn actor(&self, store: &Store) -> Result<Actor, store::Error> {
        match self {
            Self::Gateway => Ok(Actor::Gateway),
            Self::Person(name) => store.person(name),
        }
    }

    /// The name of the person, if it is one.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Gateway => None,
            Self::Person(name) => Some(name),
        }
    }
}

impl By {
    /// A person, without words.
    pub fn person(name: &str) -> Self {
        Self {
            who: Who::Person(name.to_owned()),
            note: None,
        }
    }

    /// The gateway itself, by its rules.
    pub(super) fn gateway() -> Self {
        Self {
            who: Who::Gateway,
            note: None,
        }
    }
}

impl Ledger {
    pub(super) fn new(record: Record, unrecorded: WaitingForRoom) -> Self {
        Self {
            record,
            origins: BTreeMap::new(),
            closed: BTreeMap::new(),
            unrecorded,
            entries: HashMap::new(),
        }
    }

    /// Takes durable leaves into the state.
    fn take_in(&mut self, appended: &[(u64, Leaf)]) {
        for (index, leaf) in appended {
            self.record.apply(*index, leaf);
            let skill = leaf.event.skill().map(|key| key.uri.as_str());
            let label = leaf.event.label().map(Label::as_str);
            tracing::info!(leaf = index, label, skill, "{}", leaf.event.action());
        }
    }

    /// The entry of a set, from memory or from the store.
    pub(super) fn entry(&mut self, store: &Store, key: &SkillKey, set: SetId) -> Option<Arc<SkillEntry>> {
        let held = self.entries.get(&(key.label.clone(), set)).cloned();
        held.or_else(|| {
            let entry = store.set(key, set)?;
            self.entries.insert((key.label.clone(), set), Arc::clone(&entry));
            Some(entry)
        })
    }

    /// Loads the entries that decisions about `label` need, and forgets those that none does.
    fn load(&mut self, store: &Store, label: &Label) {
        let Some(origin) = self.record.origin(label) else {
            self.entries.retain(|(of, _), _| of != label);
            return;
        };
        let needed: HashMap<SetId, SkillKey> = origin
            .skills()
            .flat_map(|(uri, record)| {
                let sets = record.seen().into_iter().chain(record.approved().map(|(set, _)| set));
                sets.map(|set| {
                    (
                        set,
                        SkillKey {
                            label: label.clone(),
                            uri: uri.clone(),
                        },
                    )
                })
            })
            .collect();
        self.entries
            .retain(|(of, set), _| of != label || needed.contains_key(set));
        for (set, key) in needed {
            let _loaded = self.entry(store, &key, set).is_some();
        }
    }
}

/// What `decide` sees of the store: entries that were loaded, files that lie there.
struct Loaded<'a> {
    entries: &'a HashMap<(Label, SetId), Arc<SkillEntry>>,
    store: &'a Store,
}

impl StoredSets for Loaded<'_> {
    fn entry(&self, skill: &SkillKey, set: SetId) -> Option<Arc<SkillEntry>> {
        self.entries.get(&(skill.label.clone(), set)).cloned()
    }

    fn is_whole(&self, skill: &SkillKey, entry: &SkillEntry) -> bool {
        entry
            .resources()
            .iter()
            .all(|resource| self.store.has_file(skill, resource))
    }
}

impl Inner {
    /// Appends leaves durably and takes them into the state; for what concerns a whole origin, whose turn it is.
    pub(super) async fn append(&self, ledger: &mut Ledger, by: &By, events: Vec<Event>) -> Result<(), Error> {
        self.append_at(ledger, by, events, self.clock.now()).await
    }

    /// The same as of a moment that the events reckon with.
    pub(super) async fn append_at(
        &self,
        ledger: &mut Ledger,
        by: &By,
        events: Vec<Event>,
        now: Timestamp,
    ) -> Result<(), Error> {
        ledger.take_in(&self.write(by, events, now).await?);
        Ok(())
    }

    /// The same without holding the ledger meanwhile, so that many share a flush; for what concerns one skill, whose turn it
    /// is, and for what no decision looks at.
    pub(super) async fn record(&self, by: &By, events: Vec<Event>) -> Result<(), Error> {
        let appended = self.write(by, events, self.clock.now()).await?;
        self.ledger.lock().await.take_in(&appended);
        Ok(())
    }

    async fn write(&self, by: &By, events: Vec<Event>, now: Timestamp) -> Result<Vec<(u64, Leaf)>, Error> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let by = by.clone();
        let record = move |store: &Store| {
            let actor = by.who.actor(store)?;
            let leaf = |event| NewLeaf {
                actor: actor.clone(),
                event,
                note: by.note.as_deref().map(clip),
            };
            store.append(events.into_iter().map(leaf).collect(), now)
        };
        self.on_disk(record).await
    }

    /// Takes in what an origin showed: new sets are recorded, changed ones close at once.
    pub(super) async fn observe(
        &self,
        ledger: &mut Ledger,
        label: &Label,
        sightings: Vec<Sighting>,
    ) -> Result<(), Error> {
        let (entries, gone) = self.sort_sightings(ledger, label, sightings);
        let Some(origin) = ledger.record.origin(label) else {
            return Ok(());
        };
        let key = |uri: &SkillUri| SkillKey {
            label: label.clone(),
            uri: uri.clone(),
        };
        let mut room = self.limits.listing_entries.saturating_sub(origin.skills().count());
        let mut events: Vec<_> = gone.iter().filter_map(|uri| origin.withdraw(&key(uri))).collect();
        let mut fresh = Vec::new();
        for entry in entries {
            let skill = key(entry.uri());
            let record = origin.skill(entry.uri());
            // One on the record whose file is lost, or never had room, is stored now that it is seen again.
            let known = record.is_some_and(|record| record.verdict(entry.set()).is_some())
                && ledger.entries.contains_key(&(label.clone(), entry.set()));
            if record.is_none() {
                if room == 0 {
                    tracing::warn!(%skill, "not taken in: the origin has shown as many skills as limits.listing_entries allows");
                    continue;
                }
                room -= 1;
            }
            let on_change = self.policy(&skill).on_change;
            events.extend(origin.observe(&skill, entry.set(), on_change));
            if !known {
                fresh.push((skill, entry));
            }
        }
        let closing = closing(&events);
        ledger.closed.extend(closing.iter().cloned());
        if !closing.is_empty() || !self.observed(ledger, label).unreadable.is_empty() {
            self.publish(ledger, label);
        }
        let committed = self.commit(ledger, label, fresh, events).await;
        self.publish(ledger, label);
        self.look_soon(label);
        committed
    }

    /// Set files first, then the leaves that name them. What closes is recorded even when a set file has no room, so that
    /// no restart opens it again; the rest waits for the next sighting.
    async fn commit(
        &self,
        ledger: &mut Ledger,
        label: &Label,
        fresh: Vec<(SkillKey, Arc<SkillEntry>)>,
        mut events: Vec<Event>,
    ) -> Result<(), Error> {
        let stored = self.store_sets(ledger, label, fresh).await;
        if stored.is_err() {
            events.retain(|event| closed_by(event).is_some());
        }
        let closing = closing(&events);
        self.append(ledger, &By::gateway(), events).await?;
        for (skill, _) in closing {
            ledger.closed.remove(&skill);
        }
        stored
    }

    async fn store_sets(
        &self,
        ledger: &mut Ledger,
        label: &Label,
        fresh: Vec<(SkillKey, Arc<SkillEntry>)>,
    ) -> Result<(), Error> {
        if fresh.is_empty() {
            return Ok(());
        }
        let (sets, now) = (fresh.clone(), self.clock.now());
        let address = self
            .origins
            .get(label)
            .map(|origin| origin.address.clone())
            .unwrap_or_default();
        self.on_disk(move |store| store.put_sets(&sets, &address, now)).await?;
        for (skill, entry) in fresh {
            ledger.entries.insert((skill.label, entry.set()), entry);
        }
        Ok(())
    }

    /// Notes what has no set, completes what only lacked sizes, and gives the whole entries and the skills gone.
    fn sort_sightings(
        &self,
        ledger: &mut Ledger,
        label: &Label,
        sightings: Vec<Sighting>,
    ) -> (Vec<Arc<SkillEntry>>, Vec<SkillUri>) {
        let mut whole: BTreeMap<SkillUri, Arc<SkillEntry>> = BTreeMap::new();
        let mut gone = Vec::new();
        for sighting in sightings {
            let entry = match sighting {
                Sighting::Entry(entry) => {
                    self.observed(ledger, label).measured.remove(entry.uri());
                    Ok(entry)
                }
                Sighting::Unsized(entry) => self.complete(ledger, label, entry),
                Sighting::Rejected(rejected) => Err(Box::new(Unreadable::Rejected(rejected))),
                Sighting::Gone(uri) => {
                    self.observed(ledger, label).unreadable.remove(&uri);
                    gone.push(uri);
                    continue;
                }
            };
            let observed = self.observed(ledger, label);
            match entry {
                Ok(entry) => match whole.get(entry.uri()) {
                    Some(first) if first.set() != entry.set() => {
                        let uri = entry.uri().clone();
                        let fault = crate::domain::EntryFault::ListedTwice;
                        let rejected = RejectedEntry {
                            uri: Some(uri.to_string()),
                            fault,
                        };
                        observed.unreadable.insert(uri, Unreadable::Rejected(rejected));
                    }
                    Some(_) => {}
                    None => {
                        observed.unreadable.remove(entry.uri());
                        whole.insert(entry.uri().clone(), entry);
                    }
                },
                Err(unreadable) => observed.note(*unreadable),
            }
        }
        // A skill that the listing has twice is none that could be compared.
        let observed = self.observed(ledger, label);
        whole.retain(|uri, _| !observed.unreadable.contains_key(uri));
        // What is no valid skill is not served by its origin; on the record, so that no restart opens it again.
        let suspends = |uri: &SkillUri| {
            let key = SkillKey {
                label: label.clone(),
                uri: uri.clone(),
            };
            self.policy(&key).on_change == OnChange::Suspend
        };
        let invalid = observed.unreadable.iter().filter(|(_, why)| why.is_invalid());
        gone.extend(invalid.map(|(uri, _)| uri.clone()).filter(suspends));
        (whole.into_values().collect(), gone)
    }

    /// Fills in sizes that a pull, or an earlier set of the same skill, knows.
    pub(super) fn complete(
        &self,
        ledger: &mut Ledger,
        label: &Label,
        entry: UnsizedEntry,
    ) -> Result<Arc<SkillEntry>, Box<Unreadable>> {
        let key = SkillKey {
            label: label.clone(),
            uri: entry.uri().clone(),
        };
        let record = ledger.record.origin(label).and_then(|origin| origin.skill(&key.uri));
        let known: Vec<_> = record
            .into_iter()
            .flat_map(|record| record.sets())
            .filter_map(|set| ledger.entries.get(&(label.clone(), set)))
            .flat_map(|entry| {
                entry
                    .resources()
                    .iter()
                    .map(|resource| (resource.digest, resource.size))
            })
            .collect();
        let size = |digest| {
            let listed = known.iter().find(|(of, _)| *of == digest).map(|(_, size)| *size);
            listed.or_else(|| self.store.measure(&key, digest))
        };
        match entry.complete(size, &self.limits) {
            Ok(whole) => {
                let whole = Arc::new(whole);
                self.observed(ledger, label).measured.insert(key.uri, whole.set());
                Ok(whole)
            }
            Err(why) => Err(Box::new(Unreadable::Unsized(entry, why))),
        }
    }

    pub(super) fn observed<'a>(&self, ledger: &'a mut Ledger, label: &Label) -> &'a mut Observed {
        ledger.origins.entry(label.clone()).or_default()
    }

    /// Publishes what was just taken in; many who do so at once share one new part of the catalog.
    pub(super) async fn publish_shared(&self, label: &Label) {
        let mine = self.changes.fetch_add(1, Ordering::SeqCst);
        let mut published = self.published.lock().await;
        if published.get(label).is_some_and(|changes| *changes > mine) {
            return;
        }
        let mut ledger = self.ledger.lock().await;
        let changes = self.changes.load(Ordering::SeqCst);
        self.publish(&mut ledger, label);
        published.insert(label.clone(), changes);
    }

    /// Makes the origin's part of the catalog anew and swaps it in.
    pub(super) fn publish(&self, ledger: &mut Ledger, label: &Label) {
        ledger.load(&self.store, label);
        let before = self.catalog();
        let after = match ledger.record.origin(label).filter(|_| self.origins.contains_key(label)) {
            Some(origin) => before.with(self.part(ledger, label, origin)),
            None => before.without(label),
        };
        self.swap_in(label, &before, after);
    }

    /// Takes an origin out of the catalog, before the record says that it is gone.
    pub(super) fn close_origin(&self, label: &Label) {
        let before = self.catalog();
        self.swap_in(label, &before, before.without(label));
        self.forget_offer(label);
    }

    /// Puts a catalog in the place of another, and then tells of what hosts see differently of an origin: one who is told
    /// looks at once.
    fn swap_in(&self, label: &Label, before: &Catalog, after: Catalog) {
        let after = Arc::new(after);
        *self.catalog.write() = Arc::clone(&after);
        self.tell_published(
            label,
            before.origin(label).map(Arc::as_ref),
            after.origin(label).map(Arc::as_ref),
        );
    }

    fn part(&self, ledger: &Ledger, label: &Label, origin: &OriginRecord) -> OriginCatalog {
        let nothing = Observed::default();
        let observed = ledger.origins.get(label).unwrap_or(&nothing);
        let before = self.catalog();
        let stored = Loaded {
            entries: &ledger.entries,
            store: &self.store,
        };
        let skills = origin.skills().map(|(uri, record)| {
            let key = SkillKey {
                label: label.clone(),
                uri: uri.clone(),
            };
            let unreadable = observed.unreadable.get(uri).map(Unreadable::state_of_known);
            let now = Circumstances {
                now: self.clock.now(),
                heard: observed.heard,
                closed: ledger.closed.get(&key).copied(),
                unreadable,
                recalls: ledger.record.recalls(),
            };
            let state = now.closed.or(unreadable).unwrap_or_else(|| record.state(now.now));
            let decision = decide(&key, origin, &self.policy(&key), &stored, now);
            let key = Arc::new(key);
            CatalogSkill {
                state,
                seen: record.seen(),
                entry: record.seen().and_then(|set| stored.entry(&key, set)),
                decision: match decision {
                    Decision::Hold(held) => Err(held),
                    Decision::Serve(permit) => Ok(encoded_before(&before, &permit)
                        .unwrap_or_else(|| Arc::new(Served::new(Arc::clone(&key), permit)))),
                },
                key,
            }
        });
        let unreadable = observed.unreadable.iter();
        let without_set = unreadable
            .filter(|(uri, _)| origin.skill(uri).is_none())
            .map(|(uri, why)| (uri, why.unserved()));
        let standing = Standing {
            is_stale: observed.stale,
            is_moved: origin.is_moved(),
        };
        OriginCatalog::new(label.clone(), standing, skills.collect(), without_set.collect())
    }
}

/// The encoded entry of the last catalog, when the same set is served under the same approval.
fn encoded_before(before: &Catalog, permit: &ServePermit) -> Option<Arc<Served>> {
    let skill = before.origin(&permit.key().label)?.decided_about(&permit.key().uri)?;
    let served = skill.decision.as_ref().ok()?;
    served.permit().is_same(permit).then(|| Arc::clone(served))
}

/// Which of `events` take something away, and what the skill's state is from then on.
pub(super) fn closing(events: &[Event]) -> Vec<(SkillKey, SkillState)> {
    events.iter().filter_map(closed_by).collect()
}

fn closed_by(event: &Event) -> Option<(SkillKey, SkillState)> {
    match event {
        Event::Changed { skill, kept: false, .. } => Some((skill.clone(), SkillState::Changed)),
        Event::Withdrawn { skill } => Some((skill.clone(), SkillState::Withdrawn)),
        Event::Denied { skill, .. } => Some((skill.clone(), SkillState::Denied)),
        Event::Revoked { skill, .. } => Some((skill.clone(), SkillState::Revoked)),
        Event::Expired { skill, .. } => Some((skill.clone(), SkillState::Expired)),
        Event::Changed { kept: true, .. }
        | Event::OriginAdded { .. }
        | Event::OriginMoved { .. }
        | Event::OriginAccepted { .. }
        | Event::OriginRemoved { .. }
        | Event::SetSeen { .. }
        | Event::Held { .. }
        | Event::Approved { .. }
        | Event::Returned { .. }
        | Event::Pulled { .. }
        | Event::VerificationFailed { .. }
        | Event::Quarantined { .. }
        | Event::AcceptVoted { .. }
        | Event::TrialBegan { .. }
        | Event::TrialEnded { .. }
        | Event::Voted { .. }
        | Event::Recalled { .. }
        | Event::RecallLifted { .. }
        | Event::Configured { .. }
        | Event::SignedIn { .. }
        | Event::Refused { .. }
        | Event::TokenMade { .. }
        | Event::TokenRevoked { .. }
        | Event::KeyRotated { .. }
        | Event::Sealed { .. }
        | Event::SegmentsRemoved { .. }
        | Event::Forgotten { .. } => None,
    }
}
