//! A file that only grows: the journal.
//!
//! Imports its parent.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;

use super::Disk;
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
        disk.ensure_writing()?;
        let len = bytes.len() as u64;
        disk.allocate(
            &self.file,
            &self.path,
            self.len..self.len + len,
            FallocateFlags::KEEP_SIZE,
        )?;
        let written = disk
            .must("write", &self.path, || self.file.write_all_at(bytes, self.len))
            .and_then(|()| disk.must("flush", &self.path, || self.file.sync_data()));
        if let Err(error) = written {
            if let Err(error) = self.file.set_len(self.len).and_then(|()| self.file.sync_data()) {
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
        disk.must("cut", &self.path, || self.file.set_len(len))?;
        disk.must("flush", &self.path, || self.file.sync_all())?;
        self.len = len;
        Ok(())
    }
}
