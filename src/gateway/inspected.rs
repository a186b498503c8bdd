//! What reviewers should look at in a skill, found once for each entry and file and kept in memory.
//!
//! A file is inspected when a reviewer opens it, a pull brings it, a host reads it first, or a rule asks. Behind answers that is
//! one file at a time, and only while what waits is bounded; what was passed over, or a restart forgot, is found from the stored
//! bytes when somebody asks. Nothing is fetched for it, and nothing waits for it but who asks.

use std::sync::Arc;

use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use super::Gateway;
use super::Inner;
use super::unserved::Unserved;
use crate::domain::Digest;
use crate::domain::ResourceUri;
use crate::domain::SKILL_FILE;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::VerifiedFile;
use crate::domain::inspect;
use crate::domain::inspect::Remark;
use crate::domain::inspect::Severity;

/// Files whose remarks are kept.
const FILES: usize = 50_000;

/// Entries whose remarks are kept.
const ENTRIES: usize = 10_000;

/// KiB of files that may wait to be inspected behind answers.
const ROOM_KIB: u32 = 64 * 1024;

/// The remarks on a file, or on an entry.
type Remarks = Arc<[Remark]>;

/// What was found. The checks are those of this program, so that another version of it begins anew.
pub(super) struct Inspected {
    files: Cache<(Box<str>, Digest), Remarks>,
    entries: Cache<SetId, Remarks>,
    /// For files that wait behind answers.
    room: Arc<Semaphore>,
    /// For the one of them that is inspected.
    turn: Semaphore,
}

/// What there is to look at in a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sighted {
    /// Entry first, then files as the manifest has them.
    pub(super) remarks: Vec<Remark>,
    /// Files that are not stored, and were therefore not inspected.
    pub(super) uninspected: usize,
}

impl Sighted {
    /// The remarks on the file at `path`.
    pub(super) fn on(&self, path: &str) -> Vec<Remark> {
        let remarks = self.remarks.iter().filter(|remark| remark.path == path);
        remarks.cloned().collect()
    }
}

impl Default for Inspected {
    fn default() -> Self {
        Self {
            files: Cache::new(FILES),
            entries: Cache::new(ENTRIES),
            room: Arc::new(Semaphore::new(ROOM_KIB as usize)),
            turn: Semaphore::new(1),
        }
    }
}

impl Inspected {
    /// What is known already to weigh more than a note in a set, without looking at anything.
    pub(super) fn known(&self, entry: &SkillEntry) -> Vec<Remark> {
        let of_entry = self.entries.get(&entry.set());
        let files = entry.resources().iter();
        let of_files = files.filter_map(|file| self.files.get(&(path_of(entry, &file.uri), file.digest)));
        let all = of_entry.into_iter().chain(of_files);
        let remarks = all.flat_map(|remarks| remarks.to_vec());
        remarks
            .filter(|remark| remark.check.severity() > Severity::Note)
            .collect()
    }
}

impl Gateway {
    /// Everything that there is to look at in the set now seen of a skill, as far as its files are stored; nothing of a skill
    /// that is not known.
    pub(super) async fn sighted(&self, key: &SkillKey) -> Sighted {
        let Ok(entry) = self.seen_entry(key) else {
            return Sighted::default();
        };
        let inner = &self.0;
        let mut sighted = Sighted::default();
        let skill = Arc::new(key.clone());
        for resource in entry.resources().iter() {
            let known = inner
                .inspected
                .files
                .get(&(path_of(&entry, &resource.uri), resource.digest));
            let remarks = match known {
                Some(remarks) => Some(remarks),
                None => match inner.read_disk(&skill, &entry, resource).await {
                    Ok(Some(file)) => inner.remarks_on(&entry, &Arc::new(file)).await.ok(),
                    Ok(None) | Err(_) => None,
                },
            };
            match remarks {
                Some(remarks) => sighted.remarks.extend(remarks.iter().cloned()),
                None => sighted.uninspected += 1,
            }
        }
        let of_entry = inner.remarks_on_entry(&entry).await;
        // What the frontmatter says is told with its place, where the file itself was inspected.
        let is_told = |remark: &Remark| {
            let mut told = sighted.remarks.iter();
            remark.path == SKILL_FILE && told.any(|other| other.path == SKILL_FILE && other.check == remark.check)
        };
        let mut remarks: Vec<_> = of_entry.iter().filter(|remark| !is_told(remark)).cloned().collect();
        remarks.append(&mut sighted.remarks);
        Sighted { remarks, ..sighted }
    }
}

impl Inner {
    /// Inspects a verified file behind the answer that it is for.
    pub(super) fn inspect_soon(
        self: &Arc<Self>,
        skill: &Arc<SkillKey>,
        entry: &Arc<SkillEntry>,
        file: &Arc<VerifiedFile>,
    ) {
        let key = (path_of(entry, file.uri()), file.digest());
        if self.inspected.files.get(&key).is_some() {
            return;
        }
        let kib = u32::try_from(file.bytes().len() / 1024 + 1).unwrap_or(ROOM_KIB);
        let room = Arc::clone(&self.inspected.room).try_acquire_many_owned(kib.min(ROOM_KIB));
        let Ok(room) = room else { return };
        let (inner, skill) = (Arc::clone(self), Arc::clone(skill));
        let (entry, file) = (Arc::clone(entry), Arc::clone(file));
        drop(self.shutdown.spawn(async move {
            let _turn = inner.inspected.turn.acquire().await;
            let remarks = inner.remarks_on(&entry, &file).await.unwrap_or_default();
            drop(room);
            let high = remarks
                .iter()
                .filter(|remark| remark.check.severity() == Severity::High);
            for remark in high {
                tracing::warn!(%skill, %remark, "a reviewer should look at a file");
            }
        }));
    }

    /// The remarks on a verified file.
    pub(super) async fn remarks_on(&self, entry: &SkillEntry, file: &Arc<VerifiedFile>) -> Result<Remarks, Unserved> {
        let key = (path_of(entry, file.uri()), file.digest());
        if let Some(known) = self.inspected.files.get(&key) {
            return Ok(known);
        }
        let (path, of) = (key.0.clone(), Arc::clone(file));
        let found = tokio::task::spawn_blocking(move || inspect::file(&path, of.bytes())).await;
        let remarks: Remarks = found.map_err(|_ended| Unserved::Disk)?.into();
        self.inspected.files.insert(key, Arc::clone(&remarks));
        Ok(remarks)
    }

    /// The remarks on what an entry says by itself.
    pub(super) async fn remarks_on_entry(&self, entry: &Arc<SkillEntry>) -> Remarks {
        if let Some(known) = self.inspected.entries.get(&entry.set()) {
            return known;
        }
        let of = Arc::clone(entry);
        let found = self.off_runtime(entry.text().len(), move || inspect::entry(&of)).await;
        let remarks: Remarks = found.unwrap_or_default().into();
        self.inspected.entries.insert(entry.set(), Arc::clone(&remarks));
        remarks
    }
}

/// A file's path below its skill's root, as the manifest spells it.
pub(super) fn path_of(entry: &SkillEntry, uri: &ResourceUri) -> Box<str> {
    let below = uri.as_str().strip_prefix(entry.uri().root());
    let path = below.and_then(|path| path.strip_prefix('/'));
    path.unwrap_or(uri.as_str()).into()
}
