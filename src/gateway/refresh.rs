//! One refresher an origin: asks for its listing in time, and finds it back when it is down (H-28, base protocol §10.3).
//!
//! Only entries are asked for, never files (H-34).

use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;

use super::Error;
use super::Gateway;
use super::Inner;
use super::Origin;
use super::observed::Sighting;
use crate::config::Passed;
use crate::domain::Definitions;
use crate::domain::EntryFault;
use crate::domain::Label;
use crate::domain::Limits;
use crate::domain::ReadEntry;
use crate::domain::RejectedEntry;
use crate::domain::SkillKey;
use crate::domain::SkillUri;
use crate::domain::UnsizedEntry;
use crate::store::ListingNote;
use crate::store::RejectedNote;
use crate::telemetry::chain;
use crate::upstream;
use crate::upstream::Attempt;
use crate::upstream::Got;
use crate::upstream::Listing;

/// The least time for which notices of change are taken together.
const TOGETHER: Duration = Duration::from_millis(500);

/// The longest.
const LONGEST_TOGETHER: Duration = Duration::from_secs(60);

/// Skills that are known but not listed, asked for one by one in one refresh; the others have their turn in the next.
const UNLISTED_PER_REFRESH: usize = 256;

impl Gateway {
    /// Begins one refresher for each origin. The first answers come while listeners already serve what is stored.
    pub fn start_refreshers(&self) {
        for label in self.0.origins.keys() {
            let (inner, of) = (Arc::clone(&self.0), label.clone());
            drop(self.0.shutdown.spawn(async move { inner.keep_fresh(&of).await }));
            let (inner, label) = (Arc::clone(&self.0), label.clone());
            drop(self.0.shutdown.spawn(async move { inner.tell_updates(&label).await }));
        }
    }
}

impl Inner {
    async fn keep_fresh(self: &Arc<Self>, label: &Label) {
        let Some(origin) = self.origins.get(label) else { return };
        let (mut turn, mut in_vain, mut has_heard) = (0, 0_u32, false);
        loop {
            let before = self.times_told(label);
            let outcome = tokio::select! {
                outcome = self.refresh(label, &mut turn) => outcome,
                () = self.shutdown.begun() => return,
            };
            in_vain = match (self.times_told(label) == before, has_heard) {
                (true, true) => in_vain.saturating_add(1),
                (true, false) => in_vain,
                (false, _) => 0,
            };
            let wait = match &outcome {
                Ok(ttl) => origin.next_refresh(*ttl),
                Err(error) => {
                    tracing::warn!(%label, error = %chain(error), "refresh failed");
                    origin.upstream.retry_in().unwrap_or(origin.refresh)
                }
            };
            has_heard = tokio::select! {
                () = tokio::time::sleep(wait) => false,
                () = origin.upstream.went_down() => false,
                () = self.hear_of_change(origin, in_vain) => true,
                () = self.shutdown.begun() => return,
            };
            if let Some(wait) = origin.upstream.retry_in() {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = self.shutdown.begun() => return,
                }
            }
        }
    }

    /// Waits for a notice of change, and then for others to come with it: the longer, the oftener nothing had changed, so
    /// that an origin that gives notice of every listing is not asked in a circle (case Q2).
    async fn hear_of_change(&self, origin: &Origin, in_vain: u32) {
        origin.upstream.changed().await;
        let wait = TOGETHER.saturating_mul(2_u32.saturating_pow(in_vain.saturating_sub(1)));
        tokio::time::sleep(wait.min(LONGEST_TOGETHER)).await;
    }

    /// Lists the origin, takes in what it shows, and asks for the skills that are known but not listed.
    async fn refresh(&self, label: &Label, turn: &mut usize) -> Result<Option<Duration>, Error> {
        let origin = self.origin(label)?;
        let skills = if origin.pass.passes(Passed::Skills) {
            self.refresh_skills(label, origin, turn).await
        } else {
            Ok(None)
        };
        let offered = self.refresh_offer(label, origin).await;
        match (skills, offered) {
            // A server without skills is of use for what else it has (case C6).
            (
                Err(Error::Upstream {
                    error: upstream::Error::NoSkills,
                    ..
                }),
                offered,
            ) if origin.pass.passes_more() => {
                self.note_heard(label, offered.err()).await;
                Ok(None)
            }
            (Ok(ttl), offered) => {
                if origin.pass.passes_more() {
                    self.note_heard(label, offered.err()).await;
                }
                Ok(ttl)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Notes that the origin answered, and what of its answers was no use.
    async fn note_heard(&self, label: &Label, error: Option<Error>) {
        let mut ledger = self.ledger.lock().await;
        let now = self.clock.now();
        let observed = self.observed(&mut ledger, label);
        observed.last_refresh = Some(now);
        observed.last_error = error.as_ref().map(|error| chain(error));
        observed.stale = false;
        observed.heard = Some(now);
        self.publish(&mut ledger, label);
    }

    async fn refresh_skills(
        &self,
        label: &Label,
        origin: &Origin,
        turn: &mut usize,
    ) -> Result<Option<Duration>, Error> {
        let listing = match origin.upstream.list(Attempt::Probe).await {
            Ok(listing) => listing,
            Err(error) => {
                self.note_failure(label, &error).await;
                return Err(Error::Upstream {
                    label: label.clone(),
                    error,
                });
            }
        };
        let ttl = listing.ttl;
        let unlisted = self.take_in_listing(label, origin, listing).await?;
        let mut sightings = Vec::new();
        let count = unlisted.len();
        for uri in unlisted
            .into_iter()
            .cycle()
            .skip(*turn)
            .take(count.min(UNLISTED_PER_REFRESH))
        {
            match origin.upstream.get(&uri, Attempt::Probe).await {
                Ok(got) => sightings.push(self.sighting(origin, &uri, got)),
                // A folder answers for the others all the same.
                Err(error @ upstream::Error::Partial(_)) => {
                    tracing::debug!(%label, %uri, %error, "a skill is not seen");
                }
                Err(error) => {
                    tracing::warn!(%label, %uri, %error, "a skill that is not listed could not be asked for");
                    break;
                }
            }
        }
        *turn = turn.wrapping_add(UNLISTED_PER_REFRESH).checked_rem(count).unwrap_or(0);
        if !sightings.is_empty() {
            let _turn = self.turns.of_origin(label).await;
            let mut ledger = self.ledger.lock().await;
            self.observe(&mut ledger, label, sightings).await?;
        }
        Ok(ttl)
    }

    /// Takes in a listing; gives the known skills that it does not have (absence proves nothing, H-20).
    async fn take_in_listing(&self, label: &Label, origin: &Origin, listing: Listing) -> Result<Vec<SkillUri>, Error> {
        let (entries, rejected) = (listing.entries, listing.rejected);
        let (repair_size, limits) = (origin.repair_size, self.limits.clone());
        // A listing may be long: reading it must not hold up what else runs.
        let read = tokio::task::spawn_blocking(move || {
            entries
                .iter()
                .map(|text| Sighting::read(text, repair_size, &limits))
                .chain(rejected.into_iter().map(Sighting::Rejected))
                .collect::<Vec<_>>()
        });
        let sightings = read.await.map_err(|error| Error::Task(error.to_string()))?;
        let listed: std::collections::BTreeSet<SkillUri> = sightings.iter().filter_map(Sighting::uri).collect();
        let _turn = self.turns.of_origin(label).await;
        let mut ledger = self.ledger.lock().await;
        let known: Vec<_> = ledger
            .record
            .origin(label)
            .into_iter()
            .flat_map(|origin| origin.skills().map(|(uri, _)| uri.clone()))
            .filter(|uri| !Definitions::is_about(uri))
            .collect();
        let now = self.clock.now();
        let observed = self.observed(&mut ledger, label);
        observed.nameless.clear();
        observed.unreadable.retain(|uri, _| known.binary_search(uri).is_ok());
        observed.heard = Some(now);
        observed.last_refresh = Some(now);
        observed.last_error = None;
        observed.stale = false;
        observed.shadowed = listing
            .shadowed
            .iter()
            .filter_map(|(uri, by)| Some((uri.parse().ok()?, by.parse().ok()?)))
            .collect();
        observed.shortfall = listing.shortfall.map(|shortfall| shortfall.to_string());
        if let Some(shortfall) = &observed.shortfall {
            tracing::warn!(%label, shortfall, "the listing was ended with what was good");
        }
        let recorded = self.observe(&mut ledger, label, sightings).await;
        if let Err(error) = &recorded {
            self.observed(&mut ledger, label).last_error = Some(error.to_string());
        }
        self.note_listing(&mut ledger, label, origin);
        drop(ledger);
        recorded?;
        Ok(known.into_iter().filter(|uri| !listed.contains(uri)).collect())
    }

    /// Keeps in the index what a restart would not know: it is never the truth.
    fn note_listing(&self, ledger: &mut super::Ledger, label: &Label, origin: &Origin) {
        let observed = self.observed(ledger, label);
        let rejected = observed.rejections().map(|(uri, rule, reason)| RejectedNote {
            uri,
            rule: rule.to_owned(),
            reason,
        });
        let note = ListingNote {
            heard: observed.heard.unwrap_or_else(|| self.clock.now()),
            era: origin.upstream.era(),
            rejected: rejected.collect(),
            unsized_entries: observed.unsized_texts(),
        };
        self.store.put_listing(label, &note);
    }

    async fn note_failure(&self, label: &Label, error: &upstream::Error) {
        let mut ledger = self.ledger.lock().await;
        let now = self.clock.now();
        let observed = self.observed(&mut ledger, label);
        observed.last_refresh = Some(now);
        observed.last_error = Some(error.to_string());
        observed.stale = true;
        self.publish(&mut ledger, label);
    }

    /// An entry that waited for its sizes before the last stop, if the operator still lets them be measured.
    pub(super) fn unsized_entry_of(&self, label: &Label, text: &str) -> Option<UnsizedEntry> {
        let repair_size = self.origins.get(label)?.repair_size;
        match ReadEntry::parse(text, repair_size, &self.limits) {
            Ok(ReadEntry::Unsized(entry)) => Some(entry),
            Ok(ReadEntry::Whole(_)) | Err(_) => None,
        }
    }

    /// What `skills/get` showed of the skill at `uri`.
    pub(super) fn sighting(&self, origin: &Origin, uri: &SkillUri, got: Got) -> Sighting {
        let text = match got {
            Got::Unknown => return Sighting::Gone(uri.clone()),
            Got::Rejected(rejected) => return Sighting::Rejected(rejected),
            Got::Entry(text) => text,
        };
        let other = |found: String| {
            let fault = EntryFault::OtherSkill { found };
            Sighting::Rejected(RejectedEntry {
                uri: Some(uri.to_string()),
                fault,
            })
        };
        match read(&text, origin.repair_size, &self.limits) {
            Ok(entry) if entry.uri() != uri => other(entry.uri().to_string()),
            Ok(ReadEntry::Whole(entry)) => Sighting::Entry(Arc::new(entry)),
            Ok(ReadEntry::Unsized(entry)) => Sighting::Unsized(entry),
            Err(rejected) => Sighting::Rejected(RejectedEntry {
                uri: Some(uri.to_string()),
                fault: rejected.fault,
            }),
        }
    }

    /// Asks the origin for one skill and takes in what it says. Definite answers are remembered for a short while.
    pub(super) async fn look_again(&self, key: &SkillKey, attempt: Attempt) -> Result<(), Error> {
        let origin = self.origin(&key.label)?;
        let got = origin.upstream.get(&key.uri, attempt).await;
        let got = got.map_err(|error| Error::Upstream {
            label: key.label.clone(),
            error,
        })?;
        let sighting = self.sighting(origin, &key.uri, got);
        let _turn = self.turns.of_origin(&key.label).await;
        let mut ledger = self.ledger.lock().await;
        let observed = self.observed(&mut ledger, &key.label);
        observed.heard = Some(self.clock.now());
        self.observe(&mut ledger, &key.label, vec![sighting]).await
    }
}

impl Origin {
    /// The origin's own word on freshness, within the operator's bounds, and a little early so that gateways do not march.
    fn next_refresh(&self, ttl: Option<Duration>) -> Duration {
        let longest = self.refresh_max.max(self.refresh);
        let wait = ttl.unwrap_or_default().clamp(self.refresh, longest);
        wait.mul_f64(rand::rng().random_range(0.9..1.0))
    }
}

impl Sighting {
    fn read(text: &str, repair_size: bool, limits: &Limits) -> Self {
        match read(text, repair_size, limits) {
            Ok(ReadEntry::Whole(entry)) => Self::Entry(Arc::new(entry)),
            Ok(ReadEntry::Unsized(entry)) => Self::Unsized(entry),
            Err(rejected) => Self::Rejected(rejected),
        }
    }

    fn uri(&self) -> Option<SkillUri> {
        match self {
            Self::Entry(entry) => Some(entry.uri().clone()),
            Self::Unsized(entry) => Some(entry.uri().clone()),
            Self::Rejected(rejected) => rejected.uri.as_ref()?.parse().ok(),
            Self::Gone(uri) => Some(uri.clone()),
        }
    }
}

/// Reads what an origin calls a skill. Under the scheme of tool definitions nobody but the gateway has any.
fn read(text: &str, repair_size: bool, limits: &Limits) -> Result<ReadEntry, RejectedEntry> {
    let entry = ReadEntry::parse(text, repair_size, limits)?;
    if Definitions::is_about(entry.uri()) {
        return Err(RejectedEntry {
            uri: Some(entry.uri().to_string()),
            fault: EntryFault::Reserved,
        });
    }
    Ok(entry)
}
