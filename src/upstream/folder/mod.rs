//! Folders of skills as an origin: read leniently, published strictly, and never a byte from outside of them.
//!
//! Whoever asks gets what the last scan found; a file's bytes are read when they are asked for, and given only if they still
//! have the digest that was published. Start reading at [`Folder`].

mod gap;
mod names;
mod scan;
mod snapshot;
#[cfg(test)]
mod tests;
mod tree;

use std::io::Read as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Error;
use super::Got;
use super::Settings;
use super::Unverified;
use super::listing::Listing;
use crate::domain::Digest;
use crate::domain::Form;
use crate::domain::Label;
use crate::domain::Media;
use crate::domain::ResourceUri;
use crate::domain::SkillUri;
use crate::domain::mime_type;
use scan::Scanner;
use scan::SkillFile;
use snapshot::Roots;
use snapshot::Snapshot;
use tree::Opened;

pub use gap::Gap;

/// How often a folder is looked at for changes.
const POLL: Duration = Duration::from_secs(1);

/// How many times as long as a look took is waited before the next one, so that a slow disk is not kept busy by it.
const LOOKS_APART: u32 = 20;

/// One folder of an origin.
#[derive(Clone, Debug)]
pub struct Root {
    /// What its skills' URIs begin with; nothing when the origin has no other.
    pub name: Option<Label>,
    /// Where it is.
    pub path: PathBuf,
    /// Whether nothing of it is published, since it is a project's that nobody trusts yet.
    pub is_held: bool,
}

impl Root {
    /// The only folder of an origin.
    pub fn alone(path: &Path) -> Self {
        Self {
            name: None,
            path: path.to_owned(),
            is_held: false,
        }
    }
}

/// The folders of an origin, and what was last seen of them.
pub(super) struct Folder {
    /// One scan at a time: one that hangs holds up none but those that wait for it.
    roots: Arc<tokio::sync::Mutex<Roots>>,
    paths: Vec<PathBuf>,
    /// What the last scan found, for reads.
    seen: Mutex<Option<Arc<Snapshot>>>,
    /// What the last listing gave, if it gave anything.
    listed: Mutex<Option<Arc<Snapshot>>>,
}

impl Folder {
    pub(super) fn new(roots: &[Root], settings: &Settings) -> Self {
        let scanner = |root: &Root| Scanner::new(root.clone(), settings.limits.clone(), settings.clock.clone());
        Self {
            roots: Arc::new(tokio::sync::Mutex::new(Roots::new(roots.iter().map(scanner).collect()))),
            paths: roots.iter().map(|root| root.path.clone()).collect(),
            seen: Mutex::new(None),
            listed: Mutex::new(None),
        }
    }

    /// Scans the folder again and lists what it has.
    pub(super) async fn list(&self) -> Result<Listing, Error> {
        let scanned = self.scan().await;
        let before = std::mem::replace(&mut *self.listed.lock(), scanned.as_ref().ok().cloned());
        let snapshot = scanned?;
        snapshot.log_rejected(before.as_deref());
        Ok(snapshot.listing())
    }

    /// One skill of the folder as it is now.
    pub(super) async fn get(&self, skill: &SkillUri) -> Result<Got, Error> {
        self.scan().await?.get(skill)
    }

    /// A file that the last scan found, if it still has the bytes that were published, and those are the ones wanted.
    pub(super) async fn read(&self, uri: &ResourceUri, wanted: Option<Digest>) -> Result<Unverified, Error> {
        let seen = self.seen.lock().clone();
        let snapshot = match seen {
            Some(snapshot) => snapshot,
            None => self.scan().await?,
        };
        let (root, file) = snapshot.file(uri).ok_or(Error::NotFound)?;
        if wanted.is_some_and(|wanted| wanted != file.digest) {
            return Err(Error::NotFound);
        }
        let root = self.paths.get(root).cloned().ok_or(Error::NotFound)?;
        off_the_runtime(move || read_published(&root, &file)).await?
    }

    /// Waits until the folder shows something else than was last listed.
    pub(super) async fn changed(&self) {
        let mut pause = POLL;
        loop {
            tokio::time::sleep(pause).await;
            let began = Instant::now();
            if self.shows_something_else().await {
                return;
            }
            pause = POLL.max(began.elapsed() * LOOKS_APART);
        }
    }

    async fn shows_something_else(&self) -> bool {
        let listed = self.listed.lock().clone();
        let mut roots = Arc::clone(&self.roots).lock_owned().await;
        let looked = off_the_runtime(move || {
            if listed.is_some() && roots.are_as_they_were() {
                return Ok(None);
            }
            roots.scan().map(Some)
        });
        let listed = self.listed.lock().clone();
        match looked.await.and_then(|looked| looked) {
            Ok(None) => false,
            Ok(Some(snapshot)) => {
                *self.seen.lock() = Some(Arc::clone(&snapshot));
                listed.is_none_or(|listed| !listed.shows_as(&snapshot))
            }
            Err(_) => listed.is_some(),
        }
    }

    async fn scan(&self) -> Result<Arc<Snapshot>, Error> {
        let mut roots = Arc::clone(&self.roots).lock_owned().await;
        let snapshot = off_the_runtime(move || roots.scan()).await??;
        *self.seen.lock() = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

/// Does work on the disk where it holds up nobody.
async fn off_the_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Folder(error.to_string()))
}

/// The bytes that were published of a file; what has others by now is not found.
fn read_published(root: &Path, file: &SkillFile) -> Result<Unverified, Error> {
    let root = Opened::open(root).map_err(|error| Error::Folder(error.to_string()))?;
    let opened = root.open_file(&file.path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            Error::Partial(format!("{}: {error}", file.path))
        } else {
            Error::NotFound
        }
    })?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).unwrap_or_default());
    let read = opened.take(file.size.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Error::Partial(format!("{}: {error}", file.path)))?;
    if Digest::of(&bytes) != file.digest {
        return Err(Error::NotFound);
    }
    let mime_type = mime_type(tree::name_of(&file.path));
    Ok(Unverified {
        media: Media {
            form: form_of(&bytes, mime_type),
            mime_type: mime_type.map(str::to_owned),
        },
        bytes: Bytes::from(bytes),
    })
}

/// Text where a host can have it as one, byte for byte.
fn form_of(bytes: &[u8], mime_type: Option<&str>) -> Form {
    let is_binary = mime_type.is_some_and(|mime_type| {
        let is_image = mime_type.starts_with("image/") && mime_type != "image/svg+xml";
        is_image || ["application/pdf", "application/zip"].contains(&mime_type)
    });
    if is_binary || bytes.contains(&0) || str::from_utf8(bytes).is_err() {
        Form::Blob
    } else {
        Form::Text
    }
}
