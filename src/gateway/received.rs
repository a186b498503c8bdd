//! Who received what: questions about deliveries, by the names that operators know.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::Serialize;

use super::Error;
use super::Gateway;
use super::caller::is_called;
use crate::domain::Delivery;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::Timestamp;
use crate::domain::Wanted;
use crate::store::Looked;

/// Which deliveries an operator asks about: those that fit everything that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryQuery {
    /// Files with this digest.
    #[serde(default)]
    pub digest: Option<Digest>,
    /// Anything of this origin, listings that showed it included.
    #[serde(default)]
    pub origin: Option<Label>,
    /// Anything of this skill, listings that showed it included.
    #[serde(default)]
    pub skill: Option<SkillKey>,
    /// Anything of this set, listings that showed it included.
    #[serde(default)]
    pub set: Option<SetId>,
    /// To whom: a token's name or id, an address, or a commitment.
    #[serde(default)]
    pub who: Option<String>,
    /// Not before this moment.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Not after this moment.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// Whether refusals are left out.
    #[serde(default)]
    pub delivered: bool,
}

/// A delivery, with the caller's name unless it was erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The delivery.
    #[serde(flatten)]
    pub delivery: Delivery,
    /// The caller's name.
    pub name: Option<String>,
}

/// One caller, and when it received what was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receiver {
    /// Its commitment.
    pub caller: String,
    /// Its name, unless it was erased.
    pub name: Option<String>,
    /// When it received it first.
    pub first: Timestamp,
    /// When it received it last.
    pub last: Timestamp,
    /// How often.
    pub count: u64,
}

impl Gateway {
    /// Gives every delivery that is wanted, the oldest segment first, until `hear` has enough. Runs off the runtime's
    /// threads, where `hear` may wait.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when the disk does not answer; damaged segments are in the answer.
    pub async fn deliveries(
        &self,
        query: &DeliveryQuery,
        mut hear: impl FnMut(Recorded) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Looked, Error> {
        self.settle_deliveries().await;
        let people = self.0.store.people();
        let wanted = wanted(query, &people);
        let look = move |store: &crate::store::Store| {
            store.deliveries(&wanted, &mut |delivery| {
                hear(Recorded {
                    delivery: delivery.clone(),
                    name: people.get(&delivery.caller).cloned(),
                })
            })
        };
        self.0.on_disk(look).await
    }

    /// Everybody who received what is asked about, whoever did first before the others; refusals do not count.
    ///
    /// # Errors
    ///
    /// As [`Gateway::deliveries`].
    pub async fn who_received(&self, query: &DeliveryQuery) -> Result<(Vec<Receiver>, Looked), Error> {
        self.settle_deliveries().await;
        let people = self.0.store.people();
        let wanted = Wanted {
            delivered: true,
            ..wanted(query, &people)
        };
        let look = move |store: &crate::store::Store| {
            let mut receivers = BTreeMap::new();
            let looked = store.deliveries(&wanted, &mut |delivery| {
                count(&mut receivers, delivery);
                ControlFlow::Continue(())
            })?;
            Ok((receivers, looked))
        };
        let (receivers, looked) = self.0.on_disk(look).await?;
        let named = |(caller, times): (String, Times)| Receiver {
            name: people.get(&caller).cloned(),
            caller,
            first: times.first,
            last: times.last,
            count: times.count,
        };
        let mut receivers: Vec<_> = receivers.into_iter().map(named).collect();
        receivers.sort_by(|a, b| (a.first, &a.caller).cmp(&(b.first, &b.caller)));
        Ok((receivers, looked))
    }
}

/// When one caller received something.
struct Times {
    first: Timestamp,
    last: Timestamp,
    count: u64,
}

/// Callers are as many as have files in `people/`, which is bounded.
fn count(receivers: &mut BTreeMap<String, Times>, delivery: &Delivery) {
    let time = delivery.time;
    match receivers.get_mut(&delivery.caller) {
        Some(times) => {
            times.first = times.first.min(time);
            times.last = times.last.max(time);
            times.count += 1;
        }
        None => {
            let times = Times {
                first: time,
                last: time,
                count: 1,
            };
            receivers.insert(delivery.caller.clone(), times);
        }
    }
}

/// The same in the record's own terms: callers by their commitments.
fn wanted(query: &DeliveryQuery, people: &HashMap<String, String>) -> Wanted {
    let callers = query.who.as_ref().map(|who| {
        let called = people.iter().filter(|(_, name)| is_called(name, who));
        let mut callers: BTreeSet<String> = called.map(|(caller, _)| caller.clone()).collect();
        callers.insert(who.clone());
        callers
    });
    Wanted {
        digest: query.digest,
        origin: query.origin.clone(),
        skill: query.skill.clone(),
        set: query.set,
        callers,
        since: query.since,
        until: query.until,
        delivered: query.delivered,
    }
}
