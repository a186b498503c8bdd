//! Makes one call to the disk fail; compiled for tests only.
//!
//! Imports nothing of ours.

use std::io;

use rustix::io::Errno;

/// The call that is to fail, if one is.
#[derive(Debug, Default)]
pub(crate) struct Failpoint(parking_lot::Mutex<Option<(u64, Errno)>>);

impl Failpoint {
    /// Lets `calls` calls pass and fails the next one.
    pub(crate) fn arm(&self, calls: u64, errno: Errno) {
        *self.0.lock() = Some((calls, errno));
    }

    /// Says whether the failure is still to come, and takes it away.
    pub(crate) fn disarm(&self) -> bool {
        self.0.lock().take().is_some()
    }

    /// Lets one call pass, or says how it fails.
    pub(super) fn pass(&self) -> io::Result<()> {
        let mut armed = self.0.lock();
        match *armed {
            None => Ok(()),
            Some((0, errno)) => {
                *armed = None;
                Err(errno.into())
            }
            Some((calls, errno)) => {
                *armed = Some((calls - 1, errno));
                Ok(())
            }
        }
    }
}
