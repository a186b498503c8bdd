//! Verified files of skills: `content/<label>/<skill>/<hex>` and how each came, `<hex>.json` (design §6).
//!
//! Imports `durable`, `folder`, `note`, `quarantine` and `domain`. A file is named by the digest of its bytes, is never rewritten,
//! and is hashed again whenever it is read. One that no longer is what its name says leaves for quarantine, so that the
//! next put heals it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io;
use std::io::Read as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;
use parking_lot::MutexGuard;
use sha2::Digest as _;
use sha2::Sha256;

use super::durable;
use super::durable::Batch;
use super::durable::Disk;
use super::durable::Found;
use super::durable::Place;
use super::error::Error;
use super::folder;
use super::note;
use super::quarantine::Quarantine;
use super::quarantine::QuarantineNote;
use super::sets::SetCache;
use crate::domain::Digest;
use crate::domain::Form;
use crate::domain::Label;
use crate::domain::Media;
use crate::domain::Resource;
use crate::domain::ResourceUri;
use crate::domain::SkillKey;
use crate::domain::VerifiedFile;

/// Bytes that content leaves free on the disk, so that decisions can still be written down.
const KEEP_FREE_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of a media note that are read.
const MAX_MEDIA_BYTES: u64 = 16 * 1024 * 1024;

/// Locks over the skills; two skills share one now and then.
const STRIPES: usize = 16;

/// What a read of a stored file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredFile {
    /// The bytes have the size and the digest that the resource promises; how they came.
    Intact(Bytes, Media),
    /// No such file is stored.
    Absent,
    /// The file was no longer what its name says, and was put aside.
    Damaged {
        /// The digest it has; that of nothing when it could not be read.
        got: Digest,
    },
}

/// The content folder.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) disk: Arc<Disk>,
    pub(super) quarantine: Arc<Quarantine>,
    pub(super) dir: PathBuf,
    limit: u64,
    used: AtomicU64,
    /// Held by whoever changes a skill's folder. More than one is taken in order.
    stripes: [Mutex<()>; STRIPES],
    hash: std::hash::RandomState,
    pub(super) cache: Mutex<SetCache>,
}

/// What stands under the name of a content file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Bytes that have the digest.
    Intact,
    /// Nothing.
    Absent,
    /// Something else, with its digest if it can be read.
    Damaged(Option<Digest>),
}

/// How bytes came, by the URI they came under.
pub(super) type MediaNote = BTreeMap<ResourceUri, Media>;

impl Content {
    /// Takes in what lies in `dir`.
    pub(super) fn open(quarantine: Arc<Quarantine>, disk: Arc<Disk>, dir: PathBuf, limit: u64) -> Result<Self, Error> {
        disk.make_dir(&dir)?;
        let used = AtomicU64::new(bytes_below(&dir)?);
        Ok(Self {
            disk,
            quarantine,
            dir,
            limit,
            used,
            stripes: [const { Mutex::new(()) }; STRIPES],
            hash: std::hash::RandomState::new(),
            cache: Mutex::default(),
        })
    }

    /// Bytes in the folder.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that it may hold.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Makes files durable, all in one round of flushes.
    pub(super) fn put_files(&self, files: &[(&SkillKey, &VerifiedFile)]) -> Result<(), Error> {
        let skills: BTreeSet<&SkillKey> = files.iter().map(|(key, _)| *key).collect();
        let _held = self.hold(skills.iter().copied());
        let mut plan = Plan::begin(self)?;
        for key in skills {
            plan.folder(key)?;
        }
        let mut notes: BTreeMap<(&SkillKey, Digest), (&VerifiedFile, MediaNote, bool)> = BTreeMap::new();
        for (key, file) in files {
            let (_, note, changed) = match notes.entry((key, file.digest())) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(new) => {
                    let note = media_note(&self.skill_dir(key), file.digest())?.unwrap_or_default();
                    new.insert((file, note, false))
                }
            };
            if note.get(file.uri()) != Some(file.media()) {
                note.insert(file.uri().clone(), file.media().clone());
                *changed = true;
            }
        }
        // Notes get their names first: one without its file is no harm, a file without its note is damage.
        for ((key, digest), (_, note, _)) in notes.iter().filter(|(_, (_, _, changed))| *changed) {
            let sealed = note::seal(&media_name(*digest), note);
            plan.add(&self.media_path(key, *digest), &sealed, durable::PRIVATE, Place::Over)?;
        }
        for ((key, _), (file, _, _)) in &notes {
            self.put_bytes(&mut plan, key, file)?;
        }
        plan.commit()
    }

    fn put_bytes(&self, plan: &mut Plan<'_>, key: &SkillKey, file: &VerifiedFile) -> Result<(), Error> {
        let path = self.file_path(key, file.digest());
        match state(&path, file.digest())? {
            State::Intact => return Ok(()),
            State::Absent => {}
            State::Damaged(got) => self.put_aside(key, file.uri(), file.digest(), got)?,
        }
        plan.add(&path, file.bytes(), durable::IMMUTABLE, Place::New)
    }

    /// Reads a file whole and checks it against the resource before anything of it is returned.
    pub(super) fn read_file(&self, key: &SkillKey, resource: &Resource) -> Result<StoredFile, Error> {
        let path = self.file_path(key, resource.digest);
        let state = match durable::open(&path)? {
            Found::Nothing => State::Absent,
            Found::Other => State::Damaged(None),
            Found::File(file, len) if len == resource.size => {
                let mut bytes = Vec::new();
                let limit = resource.size.saturating_add(1);
                let read = durable::reading(&path, || file.take(limit).read_to_end(&mut bytes));
                let got = read.ok().map(|_| Digest::of(&bytes));
                if got == Some(resource.digest) && bytes.len() as u64 == resource.size {
                    let media = self.media(key, resource, &bytes)?;
                    return Ok(StoredFile::Intact(bytes.into(), media));
                }
                State::Damaged(got)
            }
            Found::File(file, _) => state_of(file, &path, resource.digest),
        };
        match state {
            // Whole, but not of the size promised: the entry is wrong about this digest, not the disk.
            State::Intact | State::Absent => Ok(StoredFile::Absent),
            State::Damaged(got) => {
                self.set_aside(key, resource);
                Ok(StoredFile::Damaged {
                    got: got.unwrap_or_else(|| Digest::of(b"")),
                })
            }
        }
    }

    /// How the bytes came under the resource's URI, or under any; else what the bytes themselves allow.
    fn media(&self, key: &SkillKey, resource: &Resource, bytes: &[u8]) -> Result<Media, Error> {
        let note = media_note(&self.skill_dir(key), resource.digest)?.unwrap_or_default();
        let known = note.get(&resource.uri).or_else(|| note.values().next());
        Ok(known.cloned().unwrap_or_else(|| Media {
            form: if std::str::from_utf8(bytes).is_ok() {
                Form::Text
            } else {
                Form::Blob
            },
            mime_type: None,
        }))
    }

    /// Puts a damaged file aside unless somebody healed it meanwhile; when that cannot be done, the file stays and is
    /// refused again next time.
    fn set_aside(&self, key: &SkillKey, resource: &Resource) {
        let _held = self.hold([key]);
        let path = self.file_path(key, resource.digest);
        let done = state(&path, resource.digest).and_then(|state| match state {
            State::Intact | State::Absent => Ok(()),
            State::Damaged(got) => self.put_aside(key, &resource.uri, resource.digest, got),
        });
        if let Err(error) = done {
            tracing::error!(path = %path.display(), %error, "a damaged file cannot be put aside");
        }
    }

    /// Moves a damaged file to quarantine. The skill's stripe is held.
    pub(super) fn put_aside(
        &self,
        key: &SkillKey,
        uri: &ResourceUri,
        expected: Digest,
        got: Option<Digest>,
    ) -> Result<(), Error> {
        let note = QuarantineNote {
            origin: key.label.clone(),
            uri: uri.to_string(),
            expected: expected.to_string(),
            got,
            reason: "the stored file no longer has its digest".to_owned(),
            when: self.quarantine.now(),
        };
        self.leave(&self.file_path(key, expected), &note)
    }

    /// Moves a file of the folder to quarantine.
    pub(super) fn leave(&self, path: &Path, note: &QuarantineNote) -> Result<(), Error> {
        let bytes = path.symlink_metadata().map_or(0, |meta| meta.len());
        self.quarantine.take(path, note)?;
        self.release(bytes);
        Ok(())
    }

    /// The length of a stored file in bytes, by its name alone.
    pub(super) fn measure(&self, key: &SkillKey, digest: Digest) -> Option<u64> {
        let meta = self.file_path(key, digest).symlink_metadata().ok()?;
        meta.is_file().then_some(meta.len())
    }

    /// Removes all content of an origin; says how many bytes that freed.
    pub(super) fn remove_origin(&self, label: &Label) -> Result<u64, Error> {
        let _held: Vec<_> = self.stripes.iter().map(Mutex::lock).collect();
        self.cache.lock().forget(label);
        let dir = self.dir.join(label.as_str());
        if dir.symlink_metadata().is_err() {
            return Ok(0);
        }
        let bytes = bytes_below(&dir)?;
        self.disk.remove_tree(&dir)?;
        self.release(bytes);
        Ok(bytes)
    }

    /// The folder of a skill.
    pub(super) fn skill_dir(&self, key: &SkillKey) -> PathBuf {
        self.dir.join(key.label.as_str()).join(folder::name(&key.uri))
    }

    fn file_path(&self, key: &SkillKey, digest: Digest) -> PathBuf {
        self.skill_dir(key).join(digest.hex())
    }

    fn media_path(&self, key: &SkillKey, digest: Digest) -> PathBuf {
        self.skill_dir(key).join(media_name(digest))
    }

    /// Keeps others from changing these skills' folders.
    pub(super) fn hold<'a>(&self, keys: impl IntoIterator<Item = &'a SkillKey>) -> Vec<MutexGuard<'_, ()>> {
        let stripe = |key: &SkillKey| usize::try_from(self.hash.hash_one(key) % STRIPES as u64).unwrap_or_default();
        let wanted: BTreeSet<usize> = keys.into_iter().map(stripe).collect();
        let stripes = self.stripes.iter().enumerate();
        stripes
            .filter(|(at, _)| wanted.contains(at))
            .map(|(_, stripe)| stripe.lock())
            .collect()
    }

    /// Takes `bytes` of the quota, if both it and the disk have them.
    fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let free = self.disk.free();
        if free < bytes.saturating_add(KEEP_FREE_BYTES) {
            return Err(Error::NoSpace { needed: bytes, free });
        }
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.limit)
        });
        taken.map(|_| ()).map_err(|used| Error::Quota {
            needed: bytes,
            used,
            limit: self.limit,
        })
    }

    fn release(&self, bytes: u64) {
        // The closure always gives a value, so this cannot fail.
        let _always = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            Some(used.saturating_sub(bytes))
        });
    }
}

/// A batch of writes with their bytes reserved; what is not committed gives them back.
pub(super) struct Plan<'a> {
    content: &'a Content,
    batch: Batch<'a>,
    reserved: Reserved<'a>,
}

/// Bytes taken of the quota.
struct Reserved<'a> {
    content: &'a Content,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.content.release(self.bytes);
    }
}

impl<'a> Plan<'a> {
    /// Begins a batch.
    pub(super) fn begin(content: &'a Content) -> Result<Self, Error> {
        Ok(Self {
            content,
            batch: content.disk.batch()?,
            reserved: Reserved { content, bytes: 0 },
        })
    }

    /// Makes a skill's folder, with its URI inside when its name is a hash.
    pub(super) fn folder(&mut self, key: &SkillKey) -> Result<PathBuf, Error> {
        let dir = self.content.skill_dir(key);
        self.batch.make_dir(&dir)?;
        if folder::is_hashed(&folder::name(&key.uri)) {
            let sidecar = dir.join(folder::SIDECAR);
            let uri = key.uri.as_str().as_bytes();
            if durable::read(&sidecar, uri.len() as u64)?.as_deref() != Some(uri) {
                self.add(&sidecar, uri, durable::PRIVATE, Place::Over)?;
            }
        }
        Ok(dir)
    }

    /// Reserves and writes one file.
    pub(super) fn add(&mut self, path: &Path, bytes: &[u8], mode: u32, place: Place) -> Result<(), Error> {
        let len = bytes.len() as u64;
        self.content.reserve(len)?;
        self.reserved.bytes += len;
        self.batch.add(path, bytes, mode, place)
    }

    /// Makes all durable.
    pub(super) fn commit(mut self) -> Result<(), Error> {
        let in_the_way = self.batch.commit()?;
        self.reserved.bytes = 0;
        match in_the_way.into_iter().next() {
            None => Ok(()),
            // Nobody else may write here, so what stands there now is not ours to judge.
            Some(path) => Err(Error::io("store", path, io::ErrorKind::AlreadyExists.into())),
        }
    }
}

/// Judges what stands under the name of a content file.
pub(super) fn state(path: &Path, digest: Digest) -> Result<State, Error> {
    Ok(match durable::open(path)? {
        Found::Nothing => State::Absent,
        Found::Other => State::Damaged(None),
        Found::File(file, _) => state_of(file, path, digest),
    })
}

/// A file that the disk cannot give back is as damaged as one with other bytes.
fn state_of(file: File, path: &Path, digest: Digest) -> State {
    match durable::reading(path, || digest_of(file)) {
        Ok(got) if got == digest => State::Intact,
        Ok(got) => State::Damaged(Some(got)),
        Err(_) => State::Damaged(None),
    }
}

fn digest_of(mut file: File) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            n => hash.update(chunk.get(..n).unwrap_or_default()),
        }
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Digest::from_hex(&hex).map_err(io::Error::other)
}

/// How bytes came, unless the note is missing or not what was written.
pub(super) fn media_note(skill_dir: &Path, digest: Digest) -> Result<Option<MediaNote>, Error> {
    let name = media_name(digest);
    let bytes = durable::read(&skill_dir.join(&name), MAX_MEDIA_BYTES)?;
    Ok(bytes.and_then(|bytes| note::open(&name, &bytes)))
}

fn media_name(digest: Digest) -> String {
    format!("{}.json", digest.hex())
}

/// The sum of the lengths of all files below a folder.
fn bytes_below(dir: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for name in durable::names(dir)? {
        let path = dir.join(name);
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => bytes += bytes_below(&path)?,
            Ok(meta) => bytes += meta.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("look at", path, error)),
        }
    }
    Ok(bytes)
}
