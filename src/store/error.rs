//! What can go wrong with the data folder, by whose fault it is.

use std::io;
use std::path::PathBuf;

use thiserror::Error as ThisError;

/// Why the store could not do it. What was stored before is as it was.
#[derive(Debug, ThisError)]
pub enum Error {
    // The operator's: where the data folder lies.
    /// Another process holds the folder (design §6).
    #[error("{} is in use by {holder}", dir.display())]
    Locked {
        /// The data folder.
        dir: PathBuf,
        /// What the lock file says of its holder.
        holder: String,
    },
    /// The folder holds something, but no `FORMAT`; nothing in it was touched.
    #[error("{} is not empty and has no FORMAT, so it is no data folder of this program", dir.display())]
    NotOurs {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder's layout is not one that this version knows; nothing in it was touched.
    #[error("{}/FORMAT says {found:?}, which this version does not know", dir.display())]
    UnknownFormat {
        /// The folder.
        dir: PathBuf,
        /// What `FORMAT` says.
        found: String,
    },
    /// The folder lies where hosts look for skills on disk (H-63); nothing was touched.
    #[error("{} lies in {part}, where hosts look for skills", dir.display())]
    DiscoveryPath {
        /// The folder.
        dir: PathBuf,
        /// The part of its path that says so.
        part: String,
    },
    /// The folder lies on a file system whose locks and flushes cannot be relied on; nothing was touched.
    #[error("{} lies on {kind}, a file system over a network", dir.display())]
    NetworkFileSystem {
        /// The folder.
        dir: PathBuf,
        /// The kind of file system.
        kind: String,
    },

    // The disk's.
    /// The disk has no room for it; nothing was written, and writing goes on.
    #[error("no space left for {needed} bytes (the disk has {free} free)")]
    NoSpace {
        /// Bytes asked for.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// `content_bytes` has no room for it; nothing was written, and writing goes on.
    #[error("the quota of {limit} bytes has no room for {needed} more ({used} in use)")]
    Quota {
        /// Bytes asked for.
        needed: u64,
        /// Bytes in use.
        used: u64,
        /// The quota.
        limit: u64,
    },
    /// The operating system refused.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// An earlier write failed, so nothing more is written in the life of this process (design §6); reads go on.
    #[error("writing has stopped because an earlier write failed")]
    WritingStopped,

    // Damage.
    /// The audit log is not what was written; the leaf named is the first that cannot be relied on.
    #[error("the audit log is damaged from leaf {index} on: {why}")]
    LogDamaged {
        /// The first leaf.
        index: u64,
        /// What is wrong.
        why: String,
    },
    /// A signed checkpoint of ours covers more leaves than the log has: the log was cut, or an old one was put back.
    #[error("the last checkpoint covers {head} leaves, but the log has {log}: leaves {log} to {} are missing; an older log \
             was put back or it was cut", head - 1)]
    HeadAhead {
        /// Leaves under the checkpoint.
        head: u64,
        /// Leaves in the log.
        log: u64,
    },
    /// `head/checkpoint` is missing, unreadable, or of another history than the log's. An operator who accepts the log as
    /// it is copies `log/checkpoint` there.
    #[error("{} does not vouch for the log: {why}", path.display())]
    Head {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The log's signing key is missing or unreadable while there is a log.
    #[error("the log's key {} cannot be used: {why}", path.display())]
    Key {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },

    // Ours.
    /// A leaf is not one that could be read back; nothing of its batch was written.
    #[error("a new leaf of the audit log cannot be written: {why}")]
    Leaf {
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// Says whether an operator has to put it right: where the folder lies, or who else uses it.
    pub fn is_operators(&self) -> bool {
        match self {
            Self::Locked { .. }
            | Self::NotOurs { .. }
            | Self::UnknownFormat { .. }
            | Self::DiscoveryPath { .. }
            | Self::NetworkFileSystem { .. } => true,
            Self::NoSpace { .. }
            | Self::Quota { .. }
            | Self::Io { .. }
            | Self::WritingStopped
            | Self::LogDamaged { .. }
            | Self::HeadAhead { .. }
            | Self::Head { .. }
            | Self::Key { .. }
            | Self::Leaf { .. } => false,
        }
    }

    /// Says whether what lies in the folder is not what was written there.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::LogDamaged { .. } | Self::HeadAhead { .. } | Self::Head { .. } | Self::Key { .. } => true,
            Self::Locked { .. }
            | Self::NotOurs { .. }
            | Self::UnknownFormat { .. }
            | Self::DiscoveryPath { .. }
            | Self::NetworkFileSystem { .. }
            | Self::NoSpace { .. }
            | Self::Quota { .. }
            | Self::Io { .. }
            | Self::WritingStopped
            | Self::Leaf { .. } => false,
        }
    }

    /// The same once more, for each of those whom one failure concerns.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Locked { dir, holder } => Self::Locked {
                dir: dir.clone(),
                holder: holder.clone(),
            },
            Self::NotOurs { dir } => Self::NotOurs { dir: dir.clone() },
            Self::UnknownFormat { dir, found } => Self::UnknownFormat {
                dir: dir.clone(),
                found: found.clone(),
            },
            Self::DiscoveryPath { dir, part } => Self::DiscoveryPath {
                dir: dir.clone(),
                part: part.clone(),
            },
            Self::NetworkFileSystem { dir, kind } => Self::NetworkFileSystem {
                dir: dir.clone(),
                kind: kind.clone(),
            },
            Self::NoSpace { needed, free } => Self::NoSpace {
                needed: *needed,
                free: *free,
            },
            Self::Quota { needed, used, limit } => Self::Quota {
                needed: *needed,
                used: *used,
                limit: *limit,
            },
            Self::Io {
                operation,
                path,
                source,
            } => {
                let code = source.raw_os_error();
                let source = code.map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
                Self::io(operation, path, source)
            }
            Self::WritingStopped => Self::WritingStopped,
            Self::LogDamaged { index, why } => Self::LogDamaged {
                index: *index,
                why: why.clone(),
            },
            Self::HeadAhead { head, log } => Self::HeadAhead { head: *head, log: *log },
            Self::Head { path, why } => Self::Head {
                path: path.clone(),
                why: why.clone(),
            },
            Self::Key { path, why } => Self::Key {
                path: path.clone(),
                why: why.clone(),
            },
            Self::Leaf { why } => Self::Leaf { why: why.clone() },
        }
    }

    /// An error of the operating system.
    pub(super) fn io(operation: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.into(),
            source,
        }
    }
}
