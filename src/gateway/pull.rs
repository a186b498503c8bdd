//! Pulling: an operator's explicit fetch of every file of a skill, verified and stored (design §2.5).
//!
//! Files that are stored already are hashed and not fetched again, so that a pull can be broken off and go on later.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::By;
use super::Error;
use super::Gateway;
use super::Unserved;
use super::observed::Sighting;
use super::observed::Unreadable;
use super::unserved::reason_of;
use crate::domain::Digest;
use crate::domain::FileProof;
use crate::domain::Media;
use crate::domain::Mismatch;
use crate::domain::Resource;
use crate::domain::ResourceUri;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::UnsizedEntry;
use crate::domain::VerifiedFile;
use crate::domain::VerifiedSkill;
use crate::domain::audit::Event;
use crate::store::Store;
use crate::upstream::Attempt;

/// One file further.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PullStep {
    /// The file that is done.
    pub uri: ResourceUri,
    /// Files done.
    pub done: usize,
    /// Files in all.
    pub files: usize,
    /// Bytes done.
    pub bytes: u64,
    /// Whether it was fetched; false when it was stored already.
    pub fetched: bool,
}

/// A skill whose every file is stored and verified.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pulled {
    /// Which.
    #[serde(flatten)]
    pub skill: SkillKey,
    /// Its set.
    pub set: SetId,
    /// Files in all.
    pub files: usize,
    /// Files that had to be fetched.
    pub fetched: usize,
    /// Bytes in all.
    pub bytes: u64,
}

impl Gateway {
    /// Fetches, verifies and stores every file of the set now seen, telling `step` of each.
    ///
    /// # Errors
    ///
    /// [`Error::File`] with the first file that could not be had; what was fetched before it stays.
    pub async fn pull(
        &self,
        by: &By,
        key: &SkillKey,
        step: &mut (dyn FnMut(PullStep) + Send),
    ) -> Result<Pulled, Error> {
        let measured = match self.unsized_entry(key).await {
            Some(entry) => self.measure(key, &entry, step).await?,
            None => 0,
        };
        let entry = self.seen_entry(key)?;
        let skill = Arc::new(key.clone());
        let (mut proofs, mut fetched, mut bytes) = (BTreeMap::new(), measured, 0);
        let files = entry.resources().len();
        for (at, resource) in entry.resources().iter().enumerate() {
            let (file, was_fetched) = self.store_one(&skill, &entry, resource).await?;
            bytes += resource.size;
            fetched += usize::from(was_fetched);
            proofs.insert(resource.uri.clone(), FileProof::from(&*file));
            step(PullStep {
                uri: resource.uri.clone(),
                done: at + 1,
                files,
                bytes,
                fetched: was_fetched,
            });
        }
        let whole = VerifiedSkill::of(entry, &proofs).map_err(|uri| file_error(key, &uri, Unserved::Missing))?;
        self.note_pulled(by, key, &whole).await?;
        Ok(Pulled {
            skill: key.clone(),
            set: whole.entry().set(),
            files,
            fetched,
            bytes,
        })
    }

    /// One file, from the disk or fetched, and then durable.
    async fn store_one(
        &self,
        skill: &Arc<SkillKey>,
        entry: &Arc<SkillEntry>,
        resource: &Resource,
    ) -> Result<(Arc<VerifiedFile>, bool), Error> {
        let inner = &self.0;
        let failed = |reason| file_error(skill, &resource.uri, reason);
        if let Some(file) = inner.read_disk(skill, entry, resource).await.map_err(failed)? {
            return Ok((Arc::new(file), false));
        }
        let obtained = inner
            .obtain(skill, entry, resource, Attempt::Probe)
            .await
            .map_err(failed)?;
        let file = obtained.file;
        let (key, stored) = (Arc::clone(skill), Arc::clone(&file));
        inner.on_disk(move |store| store.put_file(&key, &stored)).await?;
        Ok((file, true))
    }

    async fn note_pulled(&self, by: &By, key: &SkillKey, whole: &VerifiedSkill) -> Result<(), Error> {
        let inner = &self.0;
        if !whole.frontmatter().is_plain() {
            let mut ledger = inner.ledger.lock().await;
            let observed = inner.observed(&mut ledger, &key.label);
            observed
                .frontmatter
                .insert((key.uri.clone(), whole.entry().set()), whole.frontmatter().clone());
        }
        let pulled = Event::Pulled {
            skill: key.clone(),
            set: whole.entry().set(),
        };
        inner.record(by, vec![pulled]).await?;
        // Under on_change = "keep" a set that is whole now may be one that can be served now.
        inner.publish_shared(&key.label).await;
        // Rules may ask about what is in files.
        inner.look_soon(&key.label);
        Ok(())
    }

    async fn unsized_entry(&self, key: &SkillKey) -> Option<UnsizedEntry> {
        let ledger = self.0.ledger.lock().await;
        match ledger.origins.get(&key.label)?.unreadable.get(&key.uri)? {
            Unreadable::Unsized(entry, _) => Some(entry.clone()),
            Unreadable::Rejected(_) => None,
        }
    }

    /// Fetches every file of an entry without sizes, checks its digest, and makes the entry whole (`repair = ["size"]`).
    /// Gives how many files that took.
    async fn measure(
        &self,
        key: &SkillKey,
        entry: &UnsizedEntry,
        step: &mut (dyn FnMut(PullStep) + Send),
    ) -> Result<usize, Error> {
        let mut held: BTreeMap<ResourceUri, (Bytes, Media)> = BTreeMap::new();
        let files = entry.files().len();
        let mut bytes = 0;
        for (at, (uri, digest, _)) in entry.files().enumerate() {
            let file = self.measure_one(key, uri, digest).await?;
            bytes += file.0.len() as u64;
            if bytes > self.0.limits.skill_bytes {
                return Err(file_error(key, uri, Unserved::Limits));
            }
            held.insert(uri.clone(), file);
            step(PullStep {
                uri: uri.clone(),
                done: at + 1,
                files,
                bytes,
                fetched: true,
            });
        }
        let sizes: BTreeMap<Digest, u64> = entry
            .files()
            .filter_map(|(uri, digest, _)| Some((digest, held.get(uri)?.0.len() as u64)))
            .collect();
        let whole = entry.complete(|digest| sizes.get(&digest).copied(), &self.0.limits);
        let whole = whole.map_err(|why| Error::NoSet {
            key: key.clone(),
            reason: why.to_string(),
        })?;
        self.keep_measured(key, whole, held).await?;
        Ok(files)
    }

    async fn measure_one(&self, key: &SkillKey, uri: &ResourceUri, digest: Digest) -> Result<(Bytes, Media), Error> {
        let origin = self.0.origin(&key.label)?;
        let fetched = origin.upstream.read_unsized(uri, Attempt::Probe).await;
        let fetched = fetched.map_err(|error| file_error(key, uri, reason_of(&error)))?;
        let got = Digest::of(&fetched.bytes);
        if got == digest {
            return Ok((fetched.bytes, fetched.media));
        }
        let mismatch = Mismatch::Digest {
            uri: uri.to_string(),
            expected: digest,
            got,
        };
        Err(file_error(key, uri, Unserved::Mismatch(Box::new(mismatch))))
    }

    /// Stores the measured files, then lets the whole entry be seen.
    async fn keep_measured(
        &self,
        key: &SkillKey,
        whole: SkillEntry,
        mut held: BTreeMap<ResourceUri, (Bytes, Media)>,
    ) -> Result<(), Error> {
        let inner = &self.0;
        let policy = inner.policy(key).frontmatter;
        let mut verified = Vec::with_capacity(held.len());
        for resource in whole.resources().iter() {
            let Some((bytes, media)) = held.remove(&resource.uri) else {
                continue;
            };
            let file = whole.verify(resource.uri.as_str(), bytes, media, policy);
            verified.push(file.map_err(|why| file_error(key, &resource.uri, Unserved::Mismatch(Box::new(why))))?);
        }
        let skill = key.clone();
        let put = move |store: &Store| {
            let files = verified.iter().map(|file| (&skill, file));
            store.put_files(&files.collect::<Vec<_>>())
        };
        inner.on_disk(put).await?;
        let _turn = inner.turns.of_origin(&key.label).await;
        let mut ledger = inner.ledger.lock().await;
        let set = whole.set();
        inner
            .observe(&mut ledger, &key.label, vec![Sighting::Entry(Arc::new(whole))])
            .await?;
        inner
            .observed(&mut ledger, &key.label)
            .measured
            .insert(key.uri.clone(), set);
        Ok(())
    }
}

fn file_error(key: &SkillKey, uri: &ResourceUri, reason: Unserved) -> Error {
    Error::File {
        label: key.label.clone(),
        uri: uri.to_string(),
        reason,
    }
}
