//! Reading: files are opened without following links, and no more than a bound is read.
//!
//! Imports its parent.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Call;
use super::flags;
use super::is_errno;
use super::pass;
use crate::store::error::Error;

/// What stands under a name.
#[derive(Debug)]
pub(crate) enum Found {
    /// A regular file, opened without following links, and its length in bytes.
    File(File, u64),
    /// Nothing.
    Nothing,
    /// A link, a folder, a device.
    Other,
}

/// Opens what stands under a name, without following a link and without waiting for a writer.
pub(crate) fn open(path: &Path) -> Result<Found, Error> {
    let opened = pass(Call::Open(path), || {
        OpenOptions::new()
            .read(true)
            .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
            .open(path)
    });
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if is_errno(&error, &[Errno::LOOP, Errno::NXIO, Errno::MLINK]) => return Ok(Found::Other),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let meta = file.metadata().map_err(|source| Error::io("look at", path, source))?;
    Ok(if meta.is_file() {
        Found::File(file, meta.len())
    } else {
        Found::Other
    })
}

/// Reads a whole file of at most `limit` bytes; nothing for what is missing, longer, or no regular file.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let Found::File(file, _) = open(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    reading(path, || file.take(limit.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|source| Error::io("read", path, source))?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// Reads from a file that is open.
pub(crate) fn reading<T>(path: &Path, read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    pass(Call::Read(path), read)
}

/// The names in a folder, sorted; none when it is missing.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>, Error> {
    let listed = match pass(Call::List(dir), || fs::read_dir(dir)) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", dir, error)),
    };
    let mut names = Vec::new();
    for entry in listed {
        let entry = entry.map_err(|source| Error::io("list", dir, source))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
