//! The calls to the disk, each by its name.
//!
//! Imports nothing of ours. Every one passes through [`pass`], so that a test can watch over a folder: see all of them in
//! their order, and make any one fail. In the program that is a plain call.

use std::io;
use std::path::Path;

/// One call to the disk.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what a call does is read by the tests that watch it")
)]
pub(crate) enum Call<'a> {
    /// Opens what is there.
    Open(&'a Path),
    /// Reads of a file that is open.
    Read(&'a Path),
    /// Lists the names in a folder.
    List(&'a Path),
    /// Makes a folder.
    MakeDir(&'a Path),
    /// Makes an empty file.
    Create(&'a Path),
    /// Asks for room up to `end`; the file has that length afterwards if it `grows`.
    Reserve { path: &'a Path, end: u64, grows: bool },
    /// Writes bytes at a place.
    Write { path: &'a Path, at: u64, bytes: &'a [u8] },
    /// Gives a file another length.
    Cut { path: &'a Path, len: u64 },
    /// Flushes a file.
    Sync(&'a Path),
    /// Flushes the names in a folder.
    SyncDir(&'a Path),
    /// Flushes the whole file system of a folder.
    SyncFileSystem(&'a Path),
    /// Gives a file or folder another name.
    Rename { from: &'a Path, to: &'a Path },
    /// Takes away a file or an empty folder.
    Remove(&'a Path),
    /// Takes away a folder with all that is in it.
    RemoveTree(&'a Path),
    /// Takes away what may just as well stay.
    Discard(&'a Path),
}

impl<'a> Call<'a> {
    /// What it does, as an error says it.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Read(_) => "read",
            Self::List(_) => "list",
            Self::MakeDir(_) => "make the folder",
            Self::Create(_) => "make",
            Self::Reserve { .. } => "reserve room for",
            Self::Write { .. } => "write",
            Self::Cut { .. } => "cut",
            Self::Sync(_) => "flush",
            Self::SyncDir(_) => "flush the folder",
            Self::SyncFileSystem(_) => "flush the file system of",
            Self::Rename { .. } => "move into place",
            Self::Remove(_) | Self::RemoveTree(_) | Self::Discard(_) => "remove",
        }
    }

    /// What it is about.
    pub(super) fn path(self) -> &'a Path {
        match self {
            Self::Open(path)
            | Self::Read(path)
            | Self::List(path)
            | Self::MakeDir(path)
            | Self::Create(path)
            | Self::Reserve { path, .. }
            | Self::Write { path, .. }
            | Self::Cut { path, .. }
            | Self::Sync(path)
            | Self::SyncDir(path)
            | Self::SyncFileSystem(path)
            | Self::Rename { to: path, .. }
            | Self::Remove(path)
            | Self::RemoveTree(path)
            | Self::Discard(path) => path,
        }
    }
}

/// Makes a call.
#[cfg(not(test))]
pub(super) fn pass<T>(_call: Call<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    make()
}

/// Makes a call, unless the test that watches over its folder has it fail.
#[cfg(test)]
pub(super) fn pass<T>(call: Call<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    super::watch::pass(call, make)
}
