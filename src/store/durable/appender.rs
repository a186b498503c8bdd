//! A file that only grows: the journal, and the deliveries that are not sealed yet.
//!
//! Imports its parent.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;

use super::Call;
use super::Disk;
use super::pass;
use crate::store::error::Error;

/// A file that only grows.
#[derive(Debug)]
pub(crate) struct Appender {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) len: u64,
}

impl Appender {
    /// The file, for reading.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Bytes that are durable.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds `bytes` with one flush. When that fails nothing of them counts, and they are cut off again if that can be done.
    pub(crate) fn append(&mut self, disk: &Disk, bytes: &[u8]) -> Result<(), Error> {
        let flush = |file: &File, path: &Path| disk.must(Call::Sync(path), || file.sync_data());
        self.add(disk, bytes, &flush)
    }

    /// Adds `bytes` without a flush: they survive the end of the process, and a power cut only once [`Appender::flush`]
    /// was called. When that fails nothing of them counts, as in [`Appender::append`].
    pub(crate) fn extend(&mut self, disk: &Disk, bytes: &[u8]) -> Result<(), Error> {
        self.add(disk, bytes, &|_, _| Ok(()))
    }

    /// Flushes what was added.
    pub(crate) fn flush(&self, disk: &Disk) -> Result<(), Error> {
        disk.ensure_writing()?;
        disk.must(Call::Sync(&self.path), || self.file.sync_data())
    }

    fn add(
        &mut self,
        disk: &Disk,
        bytes: &[u8],
        flush: &dyn Fn(&File, &Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        disk.ensure_writing()?;
        let len = bytes.len() as u64;
        disk.allocate(
            &self.file,
            &self.path,
            self.len..self.len + len,
            FallocateFlags::KEEP_SIZE,
        )?;
        let (path, at) = (self.path.as_path(), self.len);
        let written = disk
            .must(Call::Write { path, at, bytes }, || self.file.write_all_at(bytes, at))
            .and_then(|()| flush(&self.file, path));
        if let Err(error) = written {
            let cut = pass(Call::Cut { path, len: at }, || self.file.set_len(at));
            if let Err(error) = cut.and_then(|()| pass(Call::Sync(path), || self.file.sync_data())) {
                tracing::error!(path = %self.path.display(), %error, "what was not acknowledged may come back");
            }
            return Err(error);
        }
        self.len += len;
        Ok(())
    }

    /// Cuts everything from `len` on.
    pub(crate) fn cut(&mut self, disk: &Disk, len: u64) -> Result<(), Error> {
        disk.ensure_writing()?;
        let path = self.path.as_path();
        disk.must(Call::Cut { path, len }, || self.file.set_len(len))?;
        disk.must(Call::Sync(path), || self.file.sync_all())?;
        self.len = len;
        Ok(())
    }
}
