//! The one place where outcomes become answers to operators (design §10).

use serde::Deserialize;
use serde::Serialize;

use crate::gateway::Error;
use crate::gateway::Unserved;
use crate::telemetry::chain;

/// A command that was not carried out, or not wholly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Whose fault it is, which decides the exit code.
    pub fault: Fault,
    /// What happened and what to do.
    pub message: String,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The answer is no: held, different, damaged.
    No,
    /// It could not be told: something cannot be reached, or is in force and not yet recorded.
    Unknown,
    /// The command or the configuration is wrong.
    Usage,
    /// Ours.
    Ours,
}

impl Fault {
    /// The exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::No => 1,
            Self::Unknown => 2,
            Self::Usage => 64,
            Self::Ours => 70,
        }
    }
}

impl Failure {
    /// The answer is no.
    pub fn no(message: String) -> Self {
        Self {
            fault: Fault::No,
            message,
        }
    }

    /// It could not be told.
    pub fn unknown(message: String) -> Self {
        Self {
            fault: Fault::Unknown,
            message,
        }
    }

    /// The command is wrong.
    pub fn usage(message: String) -> Self {
        Self {
            fault: Fault::Usage,
            message,
        }
    }

    /// It is our fault.
    pub fn ours(message: String) -> Self {
        Self {
            fault: Fault::Ours,
            message,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            fault: fault_of(&error),
            message: chain(&error),
        }
    }
}

fn fault_of(error: &Error) -> Fault {
    match error {
        Error::NoOrigin(_)
        | Error::NoPerson(_)
        | Error::NoSkill(_)
        | Error::NoLeaf { .. }
        | Error::NotWitnessed { .. }
        | Error::Refused { .. }
        | Error::Address { .. }
        | Error::NoSet { .. } => Fault::No,
        Error::NotRecorded(_) | Error::Upstream { .. } => Fault::Unknown,
        Error::Certificates { .. } | Error::Check { .. } | Error::Mend { .. } => Fault::Usage,
        Error::Store(error) if error.is_operators() => Fault::Usage,
        Error::Store(error) if error.is_damage() => Fault::No,
        Error::Store(_) => Fault::Unknown,
        Error::Task(_) => Fault::Ours,
        Error::File { reason, .. } => match reason {
            Unserved::Unknown
            | Unserved::Unlisted
            | Unserved::Held(_)
            | Unserved::Limits
            | Unserved::Mismatch(_)
            | Unserved::Missing => Fault::No,
            Unserved::OriginDown | Unserved::OriginFault | Unserved::Disk => Fault::Unknown,
        },
    }
}
