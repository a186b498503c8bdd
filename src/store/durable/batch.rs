//! Files that become durable together, in one round of flushes.
//!
//! Imports its parent. Each is whole under a temporary name and flushed before the first of them gets its own name.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::Call;
use super::Disk;
use super::Place;
use super::TMP;
use super::parent;
use super::pass;
use super::unlink;
use crate::store::error::Error;

/// Files in a batch from which one `syncfs` costs less than a flush each.
const SYNCFS_FROM: usize = 8;

/// Files that become durable together.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    disk: &'a Disk,
    /// Opened before the first write, so that `syncfs` on it reports every failure since.
    folder: File,
    staged: Vec<Staged>,
    /// Folders that got a new name.
    folders: BTreeSet<PathBuf>,
}
/// A file that is written but not in its place; it is removed if it never gets there.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    /// Open until it is flushed, or until a flush of the whole file system is sure to follow.
    pub(super) file: Option<File>,
    pub(super) place: Place,
    pub(super) placed: bool,
}

impl<'a> Batch<'a> {
    /// Begins a batch.
    pub(super) fn begin(disk: &'a Disk) -> Result<Self, Error> {
        disk.ensure_writing()?;
        let tmp = disk.root.join(TMP);
        let call = Call::Open(&tmp);
        let folder = pass(call, || File::open(&tmp)).map_err(|source| disk.not_begun(call, 0, source))?;
        Ok(Self {
            disk,
            folder,
            staged: Vec::new(),
            folders: BTreeSet::new(),
        })
    }

    /// Makes a folder and those above it, 0700; durable with the rest.
    pub(crate) fn make_dir(&mut self, dir: &Path) -> Result<(), Error> {
        if dir.is_dir() {
            return Ok(());
        }
        let above = parent(dir);
        self.make_dir(above)?;
        let call = Call::MakeDir(dir);
        match pass(call, || fs::DirBuilder::new().mode(0o700).create(dir)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|source| self.disk.not_begun(call, 0, source))?,
        }
        self.folders.insert(above.to_owned());
        Ok(())
    }

    /// Reserves room for a file and writes it; its folder must exist.
    pub(crate) fn add(&mut self, to: &Path, bytes: &[u8], mode: u32, place: Place) -> Result<(), Error> {
        let mut staged = self.disk.stage(self.disk.temporary(), to, bytes, (mode, place))?;
        if !syncfs_reports_failures() {
            self.disk.flush(&mut staged)?;
        }
        self.staged.push(staged);
        if self.staged.len() >= SYNCFS_FROM {
            // Not a descriptor for each of thousands: all are flushed at once.
            self.staged.iter_mut().for_each(|staged| drop(staged.file.take()));
        }
        Ok(())
    }

    /// Flushes all, then gives all their names, then flushes the folders. What stood in the way of a new file is returned.
    pub(crate) fn commit(mut self) -> Result<Vec<PathBuf>, Error> {
        if self.staged.len() >= SYNCFS_FROM && syncfs_reports_failures() {
            self.flush_file_system()?;
        } else {
            for staged in &mut self.staged {
                self.disk.flush(staged)?;
            }
        }
        let mut in_the_way = Vec::new();
        for staged in &mut self.staged {
            if !self.disk.put_in_place(staged)? {
                in_the_way.push(staged.to.clone());
            }
            self.folders.insert(parent(&staged.to).to_owned());
        }
        if self.folders.len() >= SYNCFS_FROM && syncfs_reports_failures() {
            self.flush_file_system()?;
        } else {
            for folder in &self.folders {
                self.disk.sync_dir(folder)?;
            }
        }
        Ok(in_the_way)
    }

    fn flush_file_system(&self) -> Result<(), Error> {
        let path = self.disk.root.join(TMP);
        self.disk
            .must(Call::SyncFileSystem(&path), || sync_file_system(&self.folder))
    }
}
impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = pass(Call::Discard(&self.from), || unlink(&self.from))
        {
            tracing::debug!(path = %self.from.display(), %error, "a left-over stays");
        }
    }
}
#[cfg(target_os = "linux")]
fn sync_file_system(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_folder: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Says whether `syncfs` tells of failed write-back: Linux 5.8 or later.
fn syncfs_reports_failures() -> bool {
    static REPORTS: OnceLock<bool> = OnceLock::new();
    *REPORTS.get_or_init(|| {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(5), Some(8))
    })
}
