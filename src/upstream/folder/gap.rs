//! What a scan of a folder could not look at: what lies there is not known to be gone (H-20).

use thiserror::Error;

use super::names::uri_of;

/// Something that a scan could not look at. Paths are relative to the root, below its name where it has one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Gap {
    /// A folder lies deeper than is searched.
    #[error("{0} lies deeper than is searched")]
    TooDeep(String),
    /// There are more folders than are looked into.
    #[error("there are over {0} folders")]
    TooManyFolders(usize),
    /// There are more files and folders than are looked at.
    #[error("there are over {0} files and folders")]
    TooManyItems(usize),
    /// A skill, or a folder, could not be read; the last state of it that could be is kept.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why not.
        why: String,
    },
    /// A skill is being written; the last state of it that stood still is kept.
    #[error("{0} is being written")]
    Moving(String),
}

impl Gap {
    /// The same of a root whose paths stand below `prefix`.
    pub(super) fn below(self, prefix: &str) -> Self {
        match self {
            Self::TooDeep(path) => Self::TooDeep(format!("{prefix}{path}")),
            Self::Moving(path) => Self::Moving(format!("{prefix}{path}")),
            Self::Unreadable { path, why } => Self::Unreadable {
                path: format!("{prefix}{path}"),
                why,
            },
            Self::TooManyFolders(_) | Self::TooManyItems(_) => self,
        }
    }

    /// Says whether the last state of what it hides is to be kept: what lies beyond a bound may as well be gone.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreadable { .. } | Self::Moving(_) => true,
            Self::TooDeep(_) | Self::TooManyFolders(_) | Self::TooManyItems(_) => false,
        }
    }

    /// Says whether the skill whose root is `skill`, a URI, may be there although it was not seen.
    pub(super) fn hides(&self, skill: &str) -> bool {
        match self {
            Self::TooManyFolders(_) | Self::TooManyItems(_) => true,
            Self::TooDeep(path) | Self::Unreadable { path, .. } | Self::Moving(path) => skill
                .strip_prefix(&uri_of(path))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}
