//! What fuzz targets reach of the journal; no other build has it.
//!
//! Imports `journal`.

use std::fs::File;
use std::io::Write as _;

use rustix::fs::MemfdFlags;
use rustix::fs::memfd_create;

use super::error::Error;
use super::journal;

/// Encodes one batch as the log writes it.
///
/// # Errors
///
/// [`Error::Leaf`] when it is too big.
pub fn encode(first: u64, leaves: &[Vec<u8>], note: &[u8]) -> Result<Vec<u8>, Error> {
    journal::encode(first, leaves, note)
}

/// The leaves of every sound frame up to the first that is not.
pub fn read(bytes: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
    let mut file = File::from(memfd_create("journal", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    let (len, mut at, mut leaves) = (bytes.len() as u64, 0, Vec::new());
    while let Ok((frame, next)) = journal::read(&file, at, len, leaves.len() as u64) {
        leaves.extend(frame.leaves);
        at = next;
    }
    let _is_torn = journal::another_follows(&file, at, len).is_ok_and(|follows| !follows);
    Ok(leaves)
}
