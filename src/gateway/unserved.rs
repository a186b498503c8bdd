//! Why a request gets no content, in words that are safe for any host.

use std::fmt;

use crate::domain::Held;
use crate::domain::Mismatch;
use crate::upstream;

/// Why a request gets no content. A refusal, not an error: the words are ours and safe for any host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// Nothing of that name is known here.
    Unknown,
    /// The skill's set has no such file (H-31).
    Unlisted,
    /// The skill is held.
    Held(Held),
    /// The skill's entry is over the limits, so that it is declined (H-18).
    Limits,
    /// The bytes do not match, and a fresh entry did not mend it.
    Mismatch(Box<Mismatch>),
    /// The origin says that it does not have the file that it lists.
    Missing,
    /// It is not stored, and the origin cannot be asked.
    OriginDown,
    /// It is not stored, and the origin's answer was no use.
    OriginFault,
    /// Our own disk failed.
    Disk,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("nothing of that name is served here"),
            Self::Unlisted => f.write_str("it is not part of the skill's current manifest; ask again with skills/get"),
            Self::Held(held) => write!(f, "the skill is held: {held}"),
            Self::Limits => f.write_str("the skill is declined: it is over the limits on files or bytes"),
            Self::Mismatch(mismatch) => write!(f, "verification failed: {mismatch}"),
            Self::Missing => f.write_str("its origin lists it and says that it does not have it"),
            Self::OriginDown => f.write_str("it is not stored here, and its origin cannot be reached"),
            Self::OriginFault => f.write_str("it is not stored here, and its origin gave no usable answer"),
            Self::Disk => f.write_str("the gateway cannot read its own store"),
        }
    }
}

/// What a host is told of an origin's failure: never its words.
pub(super) fn reason_of(error: &upstream::Error) -> Unserved {
    match error {
        upstream::Error::Offline
        | upstream::Error::Down { .. }
        | upstream::Error::Unreachable(_)
        | upstream::Error::TimedOut(_)
        | upstream::Error::Folder(_)
        | upstream::Error::Partial(_) => Unserved::OriginDown,
        upstream::Error::Status(_)
        | upstream::Error::Unauthorized(_)
        | upstream::Error::NoSkills
        | upstream::Error::NoMethod(_)
        | upstream::Error::Rpc { .. }
        | upstream::Error::Malformed(_)
        | upstream::Error::TooLong { .. } => Unserved::OriginFault,
        upstream::Error::NotFound => Unserved::Missing,
    }
}
