//! Looking at the record: its leaves as operators see them, and forgetting the names behind it.

use serde::Deserialize;
use serde::Serialize;

use super::By;
use super::Error;
use super::Gateway;
use super::Who;
use super::caller::is_called;
use crate::domain::Label;
use crate::domain::SkillKey;
use crate::domain::Timestamp;
use crate::domain::audit::Event;
use crate::domain::audit::Leaf;
use crate::domain::audit::clip;
use crate::store;
use crate::store::Store;
use crate::telemetry::chain;

/// Leaves looked at in one go, so that nobody waits long for the disk.
const LOOKED_AT: u64 = 2_048;

/// Which leaves are wanted; what is not said wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafFilter {
    /// About this origin.
    pub origin: Option<Label>,
    /// About this skill.
    pub skill: Option<SkillKey>,
    /// By this person, a name or a commitment; or by `gateway`.
    pub who: Option<String>,
    /// Not earlier than this.
    pub since: Option<Timestamp>,
    /// One of these actions; all when there is none.
    pub kinds: Vec<String>,
}

/// A leaf with its place and, unless that was erased, the name behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLeaf {
    /// Its index.
    pub index: u64,
    /// The name behind the actor's commitment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// What it says.
    #[serde(flatten)]
    pub leaf: Leaf,
}

/// Some of the wanted leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SomeLeaves {
    /// In their order.
    pub leaves: Vec<RecordedLeaf>,
    /// Where to go on.
    pub next: u64,
    /// Whether the log ended there.
    pub is_end: bool,
}

/// Whose name left the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// What the record goes on calling them.
    pub people: Vec<String>,
}

impl LeafFilter {
    /// Says whether a leaf is wanted, given the name behind its actor.
    fn wants(&self, leaf: &Leaf, who: Option<&str>) -> bool {
        let is = |wanted: &str| who == Some(wanted) || leaf.actor.to_string() == wanted;
        self.origin
            .as_ref()
            .is_none_or(|label| leaf.event.label() == Some(label))
            && self
                .skill
                .as_ref()
                .is_none_or(|skill| leaf.event.skill() == Some(skill))
            && self.who.as_deref().is_none_or(is)
            && self.since.is_none_or(|since| leaf.time >= since)
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == leaf.event.action()))
    }
}

impl Gateway {
    /// The wanted ones of the next leaves from index `from` on.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when the log cannot be read.
    pub async fn leaves(&self, from: u64, filter: LeafFilter) -> Result<SomeLeaves, Error> {
        self.0.on_disk(move |store| some_leaves(store, from, &filter)).await
    }

    /// Puts on the record that a person came in through `door`, once for each start.
    pub async fn came_in(&self, by: &By, door: &str) {
        let Who::Person(name) = &by.who else { return };
        if !self.0.came_in.lock().insert(name.clone()) {
            return;
        }
        let signed_in = Event::SignedIn { via: door.to_owned() };
        if let Err(error) = self.0.record(by, vec![signed_in]).await {
            self.0.came_in.lock().remove(name);
            tracing::warn!(error = %chain(&error), "a sign-in is not on the record");
        }
    }

    /// Puts on the record that a decision of a person was refused, and why.
    pub async fn note_refused(&self, by: &By, command: &str, reason: &str) {
        let refused = Event::Refused {
            command: command.to_owned(),
            reason: clip(reason),
        };
        if let Err(error) = self.0.record(by, vec![refused]).await {
            tracing::warn!(error = %chain(&error), "a refused command is not on the record");
        }
    }

    /// Destroys what opens the commitments to whoever is called so: a person, the tokens of a name, an address. The record
    /// stays whole and no longer says who it was. Durable before it is done, so that the next start finishes what is cut short.
    ///
    /// # Errors
    ///
    /// [`Error::NoPerson`] when nobody is called so on the record; [`Error::Store`] when it cannot be recorded.
    pub async fn forget(&self, by: &By, who: &str) -> Result<Forgotten, Error> {
        let people = self.0.store.people().into_iter();
        let called = people.filter(|(_, name)| is_called(name, who));
        let mut commitments: Vec<_> = called.map(|(commitment, _)| commitment).collect();
        if commitments.is_empty() {
            return Err(Error::NoPerson(who.to_owned()));
        }
        commitments.sort();
        let forgotten = |person: &String| Event::Forgotten { person: person.clone() };
        self.0.record(by, commitments.iter().map(forgotten).collect()).await?;
        let gone = commitments.clone();
        let destroy = move |store: &Store| gone.iter().try_for_each(|person| store.forget_person(person));
        self.0.on_disk(destroy).await?;
        Ok(Forgotten { people: commitments })
    }
}

fn some_leaves(store: &Store, from: u64, filter: &LeafFilter) -> Result<SomeLeaves, store::Error> {
    let mut some = SomeLeaves {
        leaves: Vec::new(),
        next: from,
        is_end: false,
    };
    while some.next < from.saturating_add(LOOKED_AT) {
        let Some(leaf) = store.leaf(some.next)? else {
            some.is_end = true;
            break;
        };
        let who = store.person_name(&leaf.actor);
        if filter.wants(&leaf, who.as_deref()) {
            some.leaves.push(RecordedLeaf {
                index: some.next,
                who,
                leaf,
            });
        }
        some.next += 1;
    }
    Ok(some)
}
