//! The only code that opens files for writing, renames, unlinks and flushes (design §6).
//!
//! Imports nothing of ours but the error. System calls it makes to change the disk: `mkdir`, `open(O_CREAT)`, `fallocate`,
//! `write`, `ftruncate`, `fsync`, `fdatasync`, `syncfs`, `renameat2(RENAME_NOREPLACE)`, `rename`, `unlink`, `rmdir`. A file
//! appears under its name only when its bytes are on the disk, and the name is on the disk before the call returns.
//!
//! After the first of them that fails, everything later answers [`Error::WritingStopped`]: after a failed flush the page
//! cache may lie, so that nothing is ever retried. Room that a *reservation* does not find is no such failure, since
//! nothing was written yet.

mod appender;
mod batch;
mod call;
mod look;
#[cfg(test)]
mod watch;

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use rustix::fs::FallocateFlags;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

pub(super) use appender::Appender;
pub(super) use batch::Batch;
use batch::Staged;
use call::Call;
use call::pass;
pub(super) use look::Found;
pub(super) use look::names;
pub(super) use look::open;
pub(super) use look::read;
pub(super) use look::reading;
#[cfg(test)]
pub(super) use watch::Done;
#[cfg(test)]
pub(crate) use watch::Watch;

use super::error::Error;

/// The name of the folder for unfinished writes.
pub(super) const TMP: &str = "tmp";

/// Mode of what nobody changes again: content, sets, tiles.
pub(super) const IMMUTABLE: u32 = 0o444;

/// Mode of bytes that failed: only their owner reads them.
pub(super) const ASIDE: u32 = 0o400;

/// Mode of everything else.
pub(super) const PRIVATE: u32 = 0o600;

/// One writer of a data folder, with the switch that its first failure throws.
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    /// Keeps the temporary names of two writers of the same folder apart.
    name: &'static str,
    next: AtomicU64,
    stopped: OnceLock<String>,
    #[cfg(test)]
    pub(super) watch: std::sync::Arc<Watch>,
}

/// What may stand under the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing; what stands there stays.
    New,
    /// Anything; it is replaced.
    Over,
}
impl Disk {
    /// A writer below `root`, whose `tmp` must exist before the first write.
    pub(super) fn new(root: &Path, name: &'static str) -> Self {
        Self {
            root: root.to_owned(),
            name,
            next: AtomicU64::new(0),
            stopped: OnceLock::new(),
            #[cfg(test)]
            watch: Watch::over(root),
        }
    }

    /// The folder that this writes below.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Why writing stopped, if it did.
    pub(super) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Says whether writing goes on.
    ///
    /// # Errors
    ///
    /// [`Error::WritingStopped`].
    pub(super) fn ensure_writing(&self) -> Result<(), Error> {
        match self.stopped() {
            None => Ok(()),
            Some(_) => Err(Error::WritingStopped),
        }
    }

    /// Ends writing for the life of this process.
    pub(super) fn stop(&self, why: &str) {
        if self.stopped.set(why.to_owned()).is_ok() {
            tracing::error!(why, "writing has stopped; reads go on");
        }
    }

    /// Bytes free for us on the folder's file system; nothing when it does not say.
    pub(super) fn free(&self) -> u64 {
        rustix::fs::statvfs(&self.root).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Makes a folder and those above it, 0700, each durable.
    pub(super) fn make_dir(&self, dir: &Path) -> Result<(), Error> {
        if dir.is_dir() {
            return Ok(());
        }
        self.ensure_writing()?;
        let parent = parent(dir);
        self.make_dir(parent)?;
        let call = Call::MakeDir(dir);
        match pass(call, || fs::DirBuilder::new().mode(0o700).create(dir)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made.map_err(|source| self.not_begun(call, 0, source))?,
        }
        self.sync_dir(parent)
    }

    /// Begins a batch.
    pub(super) fn batch(&self) -> Result<Batch<'_>, Error> {
        Batch::begin(self)
    }

    /// Makes one file durable under its name; says whether it did, or something stood there.
    pub(super) fn write(&self, to: &Path, bytes: &[u8], mode: u32, place: Place) -> Result<bool, Error> {
        let mut batch = self.batch()?;
        batch.add(to, bytes, mode, place)?;
        Ok(batch.commit()?.is_empty())
    }

    /// Replaces a file through a temporary one beside it, for a folder that may lie on another disk.
    pub(super) fn write_beside(&self, to: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
        self.ensure_writing()?;
        let from = to.with_extension("new");
        self.discard(&from);
        let mut staged = self.stage(from, to, bytes, (mode, Place::Over))?;
        self.flush(&mut staged)?;
        self.put_in_place(&mut staged)?;
        self.sync_dir(parent(to))
    }

    /// Replaces a file that can be computed again: whole at any time, but not flushed.
    pub(super) fn write_derived(&self, to: &Path, bytes: &[u8]) -> Result<(), Error> {
        self.ensure_writing()?;
        let mut staged = self.stage(self.temporary(), to, bytes, (IMMUTABLE, Place::Over))?;
        self.put_in_place(&mut staged).map(|_| ())
    }

    /// Moves a file or folder within the data folder, durably.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.ensure_writing()?;
        self.must(Call::Rename { from, to }, || plain_rename(from, to))?;
        self.sync_dir(parent(to))?;
        self.sync_dir(parent(from))
    }

    /// Removes a file or an empty folder if it is there; what a crash may bring back.
    pub(super) fn remove(&self, path: &Path) -> Result<(), Error> {
        self.ensure_writing()?;
        let call = Call::Remove(path);
        match pass(call, || unlink(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| self.failed(call, source)),
        }
    }

    /// Removes a folder with all that is in it, by moving it out of sight first.
    pub(super) fn remove_tree(&self, dir: &Path) -> Result<(), Error> {
        let out_of_sight = self.temporary();
        self.rename(dir, &out_of_sight)?;
        self.must(Call::RemoveTree(&out_of_sight), || remove_all(&out_of_sight))
    }

    /// Empties `tmp`: nothing in it was ever acknowledged.
    pub(super) fn empty_tmp(&self) -> Result<(), Error> {
        let tmp = self.root.join(TMP);
        let names = pass(Call::List(&tmp), || fs::read_dir(&tmp)).map_err(|source| Error::io("list", &tmp, source))?;
        for name in names {
            let path = name.map_err(|source| Error::io("list", &tmp, source))?.path();
            self.must(Call::RemoveTree(&path), || remove_all(&path))?;
        }
        Ok(())
    }

    /// Removes a file without minding whether that works.
    pub(super) fn discard(&self, path: &Path) {
        if let Err(error) = pass(Call::Discard(path), || unlink(path))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(path = %path.display(), %error, "a left-over stays");
        }
    }

    /// Takes every right but the owner's from a folder that somebody else made.
    pub(super) fn close_dir(&self, dir: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        if let Err(error) = fs::set_permissions(dir, fs::Permissions::from_mode(0o700)) {
            tracing::warn!(dir = %dir.display(), %error, "the data folder cannot be closed to others");
        }
    }

    /// Opens a file that only grows, making it if it is missing.
    pub(super) fn appender(&self, path: &Path) -> Result<Appender, Error> {
        if !path.exists() {
            self.write(path, b"", PRIVATE, Place::New)?;
        }
        let opened = pass(Call::Open(path), || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(flags(OFlags::NOFOLLOW))
                .open(path)
        });
        let file = opened.map_err(|source| Error::io("open", path, source))?;
        let len = file
            .metadata()
            .map_err(|source| Error::io("look at", path, source))?
            .len();
        Ok(Appender {
            path: path.to_owned(),
            file,
            len,
        })
    }

    /// Opens a file that another process's open does not wait for, to lock it; made if it is missing, and left as it is.
    pub(super) fn lock_file(path: &Path) -> Result<File, Error> {
        let call = if path.exists() {
            Call::Open(path)
        } else {
            Call::Create(path)
        };
        let opened = pass(call, || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(PRIVATE)
                .custom_flags(flags(OFlags::NOFOLLOW))
                .open(path)
        });
        opened.map_err(|source| Error::io("open", path, source))
    }

    /// Replaces what a lock file says; it only informs, so that a full disk does not matter.
    pub(super) fn inscribe(file: &File, path: &Path, text: &str) {
        let bytes = text.as_bytes();
        let written = pass(Call::Cut { path, len: 0 }, || file.set_len(0))
            .and_then(|()| pass(Call::Write { path, at: 0, bytes }, || file.write_all_at(bytes, 0)));
        if let Err(error) = written {
            tracing::warn!(%error, "the lock file cannot say who holds it");
        }
    }

    /// Flushes every file in a folder that another library writes, then the folder.
    pub(super) fn sync_files(&self, dir: &Path) -> Result<(), Error> {
        let names = pass(Call::List(dir), || fs::read_dir(dir)).map_err(|source| Error::io("list", dir, source))?;
        for name in names.flatten() {
            let path = name.path();
            if path.is_dir() {
                self.sync_files(&path)?;
            } else {
                self.must(Call::Sync(&path), || File::open(&path)?.sync_all())?;
            }
        }
        self.sync_dir(dir)
    }

    /// Flushes the data of a file that another library writes.
    pub(super) fn sync_data(&self, path: &Path) -> Result<(), Error> {
        self.must(Call::Sync(path), || File::open(path)?.sync_data())
    }

    /// Flushes a folder's names.
    pub(super) fn sync_dir(&self, dir: &Path) -> Result<(), Error> {
        self.must(Call::SyncDir(dir), || File::open(dir)?.sync_all())
    }

    fn temporary(&self) -> PathBuf {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.root.join(TMP).join(format!("{}-{n}", self.name))
    }

    /// Reserves room, then writes `bytes` to a new file that is not in its place yet.
    fn stage(&self, from: PathBuf, to: &Path, bytes: &[u8], how: (u32, Place)) -> Result<Staged, Error> {
        let (mode, place) = how;
        let call = Call::Create(&from);
        let opened = pass(call, || {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .custom_flags(flags(OFlags::NOFOLLOW))
                .open(&from)
        });
        let file = opened.map_err(|source| self.not_begun(call, bytes.len() as u64, source))?;
        let mut staged = Staged {
            from,
            to: to.to_owned(),
            file: None,
            place,
            placed: false,
        };
        self.allocate(&file, &staged.from, 0..bytes.len() as u64, FallocateFlags::empty())?;
        let write = Call::Write {
            path: &staged.from,
            at: 0,
            bytes,
        };
        self.must(write, || file.write_all_at(bytes, 0))?;
        staged.file = Some(file);
        Ok(staged)
    }

    /// Flushes a written file if nobody did yet, and closes it.
    fn flush(&self, staged: &mut Staged) -> Result<(), Error> {
        match staged.file.take() {
            Some(file) => self.must(Call::Sync(&staged.from), || file.sync_all()),
            None => Ok(()),
        }
    }

    /// Asks the file system for the room before anything is written to it, where it can tell.
    fn allocate(&self, file: &File, path: &Path, room: Range<u64>, flags: FallocateFlags) -> Result<(), Error> {
        let (at, len) = (room.start, room.end - room.start);
        if len == 0 {
            return Ok(());
        }
        let call = Call::Reserve {
            path,
            end: room.end,
            grows: !flags.contains(FallocateFlags::KEEP_SIZE),
        };
        match pass(call, || Ok(rustix::fs::fallocate(file, flags, at, len)?)) {
            Ok(()) => Ok(()),
            Err(error) if is_errno(&error, &[Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL]) => Ok(()),
            Err(error) => Err(self.not_begun(call, len, error)),
        }
    }

    /// Gives a written file its name; says whether it did.
    fn put_in_place(&self, staged: &mut Staged) -> Result<bool, Error> {
        let (from, to) = (staged.from.clone(), staged.to.clone());
        let call = Call::Rename { from: &from, to: &to };
        let renamed = pass(call, || match staged.place {
            Place::Over => plain_rename(&from, &to),
            Place::New => Ok(rename_without_replacing(&from, &to)?),
        });
        match renamed {
            Ok(()) => {
                staged.placed = true;
                Ok(true)
            }
            Err(error) if staged.place == Place::New && is_errno(&error, &[Errno::EXIST]) => Ok(false),
            Err(error) => Err(self.failed(call, error)),
        }
    }

    /// Makes a call whose failure ends writing.
    fn must<T>(&self, call: Call<'_>, make: impl FnOnce() -> io::Result<T>) -> Result<T, Error> {
        pass(call, make).map_err(|source| self.failed(call, source))
    }

    /// A failure after which the disk cannot be relied on.
    fn failed(&self, call: Call<'_>, source: io::Error) -> Error {
        let (operation, path) = (call.operation(), call.path());
        self.stop(&format!("cannot {operation} {}: {source}", path.display()));
        Error::io(operation, path, source)
    }

    /// A failure before anything was written: no room and too many open files pass, everything else stays.
    fn not_begun(&self, call: Call<'_>, needed: u64, source: io::Error) -> Error {
        if is_errno(&source, &[Errno::NOSPC, Errno::DQUOT]) {
            return Error::NoSpace {
                needed,
                free: self.free(),
            };
        }
        if is_errno(&source, &[Errno::MFILE, Errno::NFILE]) {
            return Error::io(call.operation(), call.path(), source);
        }
        self.failed(call, source)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new("/"))
}

/// open(2) takes its flags as a signed integer.
fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn is_errno(error: &io::Error, wanted: &[Errno]) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| wanted.contains(&errno))
}

#[expect(clippy::disallowed_methods, reason = "this module is where files are moved")]
fn plain_rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

fn rename_without_replacing(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, RenameFlags::NOREPLACE)
}

#[expect(clippy::disallowed_methods, reason = "this module is where files are removed")]
fn unlink(path: &Path) -> io::Result<()> {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir(path)
    } else {
        fs::remove_file(path)
    }
}

/// Removes a folder with all that is in it, or whatever else it is.
fn remove_all(path: &Path) -> io::Result<()> {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        unlink(path)
    }
}

#[cfg(test)]
mod tests;
