//! The life of a read: memory, disk re-verified, or one fetch shared by all who wait (design §5; H-25 … H-36).
//!
//! A fetch is a task of its own, detached from whoever asked first. After it, the permit is looked at again: a revocation
//! that came meanwhile wins.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::future::Shared;

use super::By;
use super::EncodedFile;
use super::Error;
use super::Gateway;
use super::Inner;
use super::catalog::CatalogSkill;
use super::catalog::Served;
use super::memory::FileKey;
use super::unserved::Unserved;
use super::unserved::reason_of;
use crate::config::Passed;
use crate::domain::Definitions;
use crate::domain::Digest;
use crate::domain::Held;
use crate::domain::Mismatch;
use crate::domain::Resource;
use crate::domain::ResourceUri;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::SkillState;
use crate::domain::Source;
use crate::domain::VerifiedFile;
use crate::domain::audit::Event;
use crate::domain::audit::clip;
use crate::store::QuarantineNote;
use crate::store::StoredFile;
use crate::telemetry::chain;
use crate::upstream;
use crate::upstream::Attempt;
use crate::upstream::Unverified;

/// Failures remembered as already recorded.
const FAILURES_KEPT: usize = 10_000;

/// Bytes that are hashed or encoded without leaving the runtime's thread.
const QUICK_BYTES: usize = 64 * 1024;

/// A fetch under way, awaited by any number of requests.
pub(super) type Flight = Shared<BoxFuture<'static, Result<Obtained, Unserved>>>;

/// Verified bytes, and where they came from.
#[derive(Clone)]
pub(super) struct Obtained {
    pub(super) file: Arc<VerifiedFile>,
    source: Source,
}

/// What is being fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlightKey {
    /// An operator's probe does not share the fate of a request that may not wait for an origin that is down.
    pub(super) attempt: Attempt,
    pub(super) skill: Arc<SkillKey>,
    /// What is fetched for one set is verified against that set's frontmatter too.
    pub(super) set: SetId,
    pub(super) uri: ResourceUri,
}

impl Gateway {
    /// The verified bytes of a file that `served` permits, ready to be sent, and where they came from.
    ///
    /// # Errors
    ///
    /// [`Unserved`], the reason to tell.
    pub async fn read(
        &self,
        served: &Arc<Served>,
        resource: &Resource,
    ) -> Result<(Arc<EncodedFile>, Source), Unserved> {
        let inner = &self.0;
        served.permit().check(inner.clock.now()).map_err(Unserved::Held)?;
        if served.permit().would_hold().is_some() {
            self.note_asked(served.key(), Some(served.permit().entry().set()));
        }
        let key = FileKey {
            skill: Arc::clone(served.key()),
            set: served.permit().entry().set(),
            digest: resource.digest,
        };
        // A skill's own file proves its frontmatter too, so it is never answered by another file's equal bytes.
        let is_own = resource.uri == *served.key().uri.as_resource();
        if let Some(file) = inner.memory.get(&key).filter(|file| !is_own || file.is_own()) {
            return Ok((file, Source::Memory));
        }
        let entry = served.permit().entry();
        let obtained = inner.obtain(served.key(), entry, resource, Attempt::Ordinary);
        let Obtained { file, source } = obtained.await?;
        let encoded = Arc::new(
            inner
                .off_runtime(file.bytes().len(), move || EncodedFile::of(&file))
                .await?,
        );
        inner.memory.put(key, Arc::clone(&encoded));
        inner.still_served(served)?;
        Ok((encoded, source))
    }

    /// Asks the origin for a skill that the catalog does not know (S-35, H-21), and says why it is not served: whatever comes
    /// is held.
    pub async fn ask_for_unknown(&self, key: &SkillKey) -> Unserved {
        let inner = &self.0;
        let has_skills =
            |origin: &super::Origin| origin.pass.passes(Passed::Skills) && !Definitions::is_about(&key.uri);
        if inner.unknown.has(key) || !inner.origins.get(&key.label).is_some_and(has_skills) {
            return Unserved::Unknown;
        }
        let looked = inner.look_again(key, Attempt::Ordinary).await;
        let catalog = inner.catalog();
        let part = catalog.origin(&key.label);
        match (part.and_then(|part| part.skill(&key.uri)), looked) {
            (Some(skill), _) => self.held(skill),
            (None, Ok(())) => {
                if let Some(reason) = part.and_then(|part| part.without_set(&key.uri)) {
                    return reason.clone();
                }
                inner.unknown.note(key);
                Unserved::Unknown
            }
            (None, Err(Error::Upstream { error, .. })) => reason_of(&error),
            (None, Err(_)) => Unserved::Disk,
        }
    }

    /// Why a file is not served that the set of a served skill does not have: the entry is asked for again, though not at
    /// every such request, since the set may have changed (H-31, H-40). The file itself is never asked for.
    pub async fn unlisted(&self, served: &Served) -> Unserved {
        let inner = &self.0;
        if inner.looked_at.has(served.key()) {
            return Unserved::Unlisted;
        }
        inner.looked_at.note(served.key());
        if let Err(error) = inner.look_again(served.key(), Attempt::Ordinary).await {
            tracing::debug!(skill = %served.key(), error = %chain(&error), "the entry could not be asked for again");
        }
        inner.still_served(served).err().unwrap_or(Unserved::Unlisted)
    }

    /// Why a known skill is not served, noting on the record that a host asked for it.
    pub fn held(&self, skill: &CatalogSkill) -> Unserved {
        match skill.served(self.0.clock.now()) {
            Ok(_) => Unserved::Unknown,
            Err(held) => {
                self.note_asked(&skill.key, skill.seen);
                Unserved::Held(held)
            }
        }
    }

    /// Learns how the frontmatter of a skill's own file matches, where that file is stored.
    pub(super) async fn look_at_frontmatter(&self, key: &SkillKey) {
        let Ok(entry) = self.seen_entry(key) else { return };
        let Some(own) = entry.resources().get(key.uri.as_str()) else {
            return;
        };
        if let Ok(Some(file)) = self.0.read_disk(&Arc::new(key.clone()), &entry, own).await {
            self.0.note_frontmatter(key, &entry, &file).await;
        }
    }

    /// Puts on the record, once for each set, that a host asked for a skill that is held, or would be without a trial.
    fn note_asked(&self, key: &SkillKey, set: Option<SetId>) {
        // Most such requests repeat one another: those make no task each.
        if self.0.asked_for.has(key) {
            return;
        }
        self.0.asked_for.note(key);
        let (inner, key) = (Arc::clone(&self.0), key.clone());
        drop(self.0.shutdown.spawn(async move {
            let _turn = inner.turns.of_skill(&key).await;
            let is_new = {
                let ledger = inner.ledger.lock().await;
                let origin = ledger.record.origin(&key.label);
                let record = origin.and_then(|origin| origin.skill(&key.uri));
                set.is_some_and(|set| record.is_some_and(|record| !record.was_asked_for(set)))
            };
            if is_new {
                let held = Event::Held {
                    skill: key.clone(),
                    set,
                };
                let noted = inner.record(&By::gateway(), vec![held]).await;
                if let Err(error) = noted {
                    tracing::warn!(error = %chain(&error), "a refusal is not on the record");
                }
            }
        }));
    }
}

impl Inner {
    /// Verified bytes of a file of `entry`: from the disk, or by one fetch that all who ask meanwhile share.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        skill: &Arc<SkillKey>,
        entry: &Arc<SkillEntry>,
        resource: &Resource,
        attempt: Attempt,
    ) -> Result<Obtained, Unserved> {
        let key = FlightKey {
            attempt,
            skill: Arc::clone(skill),
            set: entry.set(),
            uri: resource.uri.clone(),
        };
        let flight = {
            let mut flights = self.flights.lock();
            landed(&flights, &key).unwrap_or_else(|| {
                let flight = flights.entry(key.clone());
                flight.or_insert_with(|| self.take_off(key, entry, resource)).clone()
            })
        };
        flight.await
    }

    /// Begins a fetch that goes on when everybody who waits for it has left.
    fn take_off(self: &Arc<Self>, key: FlightKey, entry: &Arc<SkillEntry>, resource: &Resource) -> Flight {
        let (inner, entry, resource) = (Arc::clone(self), Arc::clone(entry), resource.clone());
        let task = self.shutdown.spawn(async move {
            if let Some(outcome) = inner.read_disk(&key.skill, &entry, &resource).await.transpose() {
                inner.flights.lock().remove(&key);
                let file = Arc::new(outcome?);
                inner.inspect_soon(&key.skill, &entry, &file);
                return Ok(Obtained {
                    file,
                    source: Source::Disk,
                });
            }
            let fetched = Box::pin(inner.fetch_verified(&key.skill, &entry, &resource, key.attempt)).await;
            match fetched.map(Arc::new) {
                Ok(file) => {
                    inner.inspect_soon(&key.skill, &entry, &file);
                    inner.keep(key, &file).await;
                    Ok(Obtained {
                        file,
                        source: Source::Fetched,
                    })
                }
                Err(reason) => {
                    inner.flights.lock().remove(&key);
                    Err(reason)
                }
            }
        });
        task.map(|ended| ended.unwrap_or(Err(Unserved::Disk))).boxed().shared()
    }

    /// The file as it lies on the disk, hashed again (H-62); none when it is absent or damaged.
    pub(super) async fn read_disk(
        &self,
        key: &Arc<SkillKey>,
        entry: &Arc<SkillEntry>,
        resource: &Resource,
    ) -> Result<Option<VerifiedFile>, Unserved> {
        let (skill, wanted, now) = (Arc::clone(key), resource.clone(), self.clock.now());
        let read = self.on_disk(move |store| store.read_file(&skill, &wanted, now)).await;
        match read {
            Ok(StoredFile::Intact(bytes, media)) => {
                let verified = self.verify(key, entry, resource, Unverified { bytes, media }).await?;
                verified.map(Some).map_err(|why| Unserved::Mismatch(Box::new(why)))
            }
            Ok(StoredFile::Absent) => Ok(None),
            Ok(StoredFile::Damaged { got }) => {
                tracing::error!(skill = %key, uri = %resource.uri, %got, "a stored file is damaged; it is quarantined");
                self.note_quarantined(key, resource.digest, got).await;
                Ok(None)
            }
            Err(error) => {
                tracing::error!(skill = %key, error = %chain(&error), "a stored file cannot be read");
                Err(Unserved::Disk)
            }
        }
    }

    /// Verifies bytes, off the runtime's threads where there are many.
    async fn verify(
        &self,
        key: &SkillKey,
        entry: &Arc<SkillEntry>,
        resource: &Resource,
        file: Unverified,
    ) -> Result<Result<VerifiedFile, Mismatch>, Unserved> {
        let Unverified { bytes, media } = file;
        let policy = self.policy(key).frontmatter;
        let (entry, uri) = (Arc::clone(entry), resource.uri.clone());
        self.off_runtime(bytes.len(), move || entry.verify(uri.as_str(), bytes, media, policy))
            .await
    }

    /// Does work on `bytes` bytes: at once where they are few, else where it holds up nobody.
    pub(super) async fn off_runtime<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unserved> {
        if bytes <= QUICK_BYTES {
            return Ok(work());
        }
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            tracing::error!(%error, "a task of the gateway ended by itself");
            Unserved::Disk
        })
    }

    async fn note_quarantined(&self, key: &Arc<SkillKey>, expected: Digest, got: Digest) {
        let event = Event::Quarantined {
            skill: SkillKey::clone(key),
            expected,
            got,
        };
        if let Err(error) = self.record(&By::gateway(), vec![event]).await {
            tracing::error!(error = %chain(&error), "a quarantined file is not on the record");
        }
    }

    /// Fetches and verifies. On a failure the entry is asked for once more: a changed one closes the skill, the same one
    /// gives the file one more chance (H-28).
    async fn fetch_verified(
        &self,
        key: &Arc<SkillKey>,
        entry: &Arc<SkillEntry>,
        resource: &Resource,
        attempt: Attempt,
    ) -> Result<VerifiedFile, Unserved> {
        if Definitions::is_about(&key.uri) {
            // They come with the listing of tools, and are stored again with the next one.
            return Err(Unserved::Missing);
        }
        match self.fetch_once(key, entry, resource, attempt).await {
            Ok(file) => return Ok(file),
            Err(Failed::Plain(reason)) => return Err(reason),
            Err(Failed::Mendable(reason)) => {
                tracing::warn!(skill = %key, uri = %resource.uri, %reason, "asking for the entry again");
            }
        }
        if let Err(error) = self.look_again(key, attempt).await {
            tracing::warn!(skill = %key, error = %chain(&error), "the entry could not be asked for again");
        }
        self.still_seen(key, entry)?;
        match self.fetch_once(key, entry, resource, attempt).await {
            Ok(file) => Ok(file),
            Err(Failed::Plain(reason)) => Err(reason),
            Err(Failed::Mendable(reason)) => {
                self.note_failed(key, entry, resource, &reason).await;
                Err(reason)
            }
        }
    }

    async fn fetch_once(
        &self,
        key: &Arc<SkillKey>,
        entry: &Arc<SkillEntry>,
        resource: &Resource,
        attempt: Attempt,
    ) -> Result<VerifiedFile, Failed> {
        let origin = self.origins.get(&key.label).ok_or(Failed::Plain(Unserved::Unknown))?;
        let fetched = origin.upstream.read(resource, attempt).await.map_err(|error| {
            tracing::warn!(skill = %key, uri = %resource.uri, %error, "a file could not be fetched");
            match error {
                upstream::Error::NotFound => Failed::Mendable(Unserved::Missing),
                upstream::Error::TooLong { limit } => Failed::Mendable(Unserved::Mismatch(Box::new(Mismatch::Size {
                    uri: resource.uri.to_string(),
                    expected: resource.size,
                    got: limit.max(resource.size.saturating_add(1)),
                }))),
                upstream::Error::Offline
                | upstream::Error::Down { .. }
                | upstream::Error::Unreachable(_)
                | upstream::Error::TimedOut(_)
                | upstream::Error::Status(_)
                | upstream::Error::Unauthorized(_)
                | upstream::Error::NoSkills
                | upstream::Error::NoMethod(_)
                | upstream::Error::Rpc { .. }
                | upstream::Error::Malformed(_)
                | upstream::Error::Folder(_)
                | upstream::Error::Partial(_) => Failed::Plain(reason_of(&error)),
            }
        })?;
        let bytes = fetched.bytes.clone();
        let verified = self.verify(key, entry, resource, fetched).await;
        match verified.map_err(Failed::Plain)? {
            Ok(file) => {
                self.note_frontmatter(key, entry, &file).await;
                Ok(file)
            }
            Err(mismatch) => {
                self.set_aside(key, resource, bytes, &mismatch).await;
                Err(Failed::Mendable(Unserved::Mismatch(Box::new(mismatch))))
            }
        }
    }

    /// Keeps what a reviewer should see about how the frontmatter matched.
    async fn note_frontmatter(&self, key: &SkillKey, entry: &SkillEntry, file: &VerifiedFile) {
        if let Some(matched) = file.frontmatter().filter(|matched| !matched.is_plain()) {
            let mut ledger = self.ledger.lock().await;
            let observed = self.observed(&mut ledger, &key.label);
            observed
                .frontmatter
                .insert((key.uri.clone(), entry.set()), matched.clone());
        }
    }

    /// Puts bytes that failed into quarantine.
    async fn set_aside(&self, key: &Arc<SkillKey>, resource: &Resource, bytes: Bytes, reason: &Mismatch) {
        let note = QuarantineNote {
            origin: key.label.clone(),
            uri: resource.uri.to_string(),
            expected: resource.digest.to_string(),
            got: Some(Digest::of(&bytes)),
            reason: reason.to_string(),
            when: self.clock.now(),
        };
        let aside = self.on_disk(move |store| store.quarantine(&bytes, &note)).await;
        if let Err(error) = aside {
            tracing::warn!(skill = %key, error = %chain(&error), "bytes that failed are not in quarantine");
        }
    }

    /// Puts a lasting failure on the record, once.
    async fn note_failed(&self, key: &Arc<SkillKey>, entry: &SkillEntry, resource: &Resource, reason: &Unserved) {
        let event = Event::VerificationFailed {
            skill: SkillKey::clone(key),
            set: entry.set(),
            file: resource.uri.to_string(),
            expected: resource.digest,
            reason: clip(&reason.to_string()),
        };
        let is_new = {
            let mut failures = self.failures.lock();
            failures.len() < FAILURES_KEPT && failures.insert(format!("{event:?}"))
        };
        if is_new && let Err(error) = self.record(&By::gateway(), vec![event]).await {
            tracing::error!(error = %chain(&error), "a failed verification is not on the record");
        }
    }

    /// Refuses when the catalog no longer serves the set that `served` permits.
    fn still_served(&self, served: &Served) -> Result<(), Unserved> {
        let catalog = self.catalog();
        let skill = catalog
            .origin(&served.key().label)
            .and_then(|part| part.decided_about(&served.key().uri));
        match skill.map(|skill| skill.served(self.clock.now())) {
            Some(Ok(now)) if now.permit().entry().set() == served.permit().entry().set() => Ok(()),
            Some(Ok(_)) | None => Err(Unserved::Held(Held::State(SkillState::Changed))),
            Some(Err(held)) => Err(Unserved::Held(held)),
        }
    }

    /// Refuses when the origin now shows another set than `entry`'s, and the skill is held for that.
    fn still_seen(&self, key: &SkillKey, entry: &SkillEntry) -> Result<(), Unserved> {
        let catalog = self.catalog();
        let skill = catalog.origin(&key.label).and_then(|part| part.decided_about(&key.uri));
        match skill {
            Some(skill) if skill.seen == Some(entry.set()) => Ok(()),
            Some(skill) => Err(skill
                .served(self.clock.now())
                .map_or_else(Unserved::Held, |_| Unserved::OriginDown)),
            None => Err(Unserved::Unknown),
        }
    }
}

/// What anybody fetched and is still being stored.
fn landed(flights: &HashMap<FlightKey, Flight>, wanted: &FlightKey) -> Option<Flight> {
    [Attempt::Ordinary, Attempt::Probe].into_iter().find_map(|attempt| {
        let key = FlightKey {
            attempt,
            ..wanted.clone()
        };
        let flight = flights.get(&key)?;
        flight.peek().is_some_and(Result::is_ok).then(|| flight.clone())
    })
}

/// How one fetch failed.
enum Failed {
    /// A fresh entry might explain it.
    Mendable(Unserved),
    /// It would not.
    Plain(Unserved),
}
