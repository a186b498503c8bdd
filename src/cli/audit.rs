//! `audit …`: looks at the record.

use std::process::ExitCode;

use clap::Subcommand;

use super::ask::Ask;
use super::output::Output;
use crate::admin::Audit;
use crate::admin::Command;
use crate::admin::Failure;

/// Looks at the record.
#[derive(Debug, Subcommand)]
pub(super) enum Act {
    /// Check the whole log: leaves, tree, signatures, chains, tiles, head.
    Verify,
}

impl Act {
    /// Does it, and gives the exit code.
    pub(super) async fn run(self, ask: &Ask, output: &Output) -> Result<ExitCode, Failure> {
        match self {
            Self::Verify => output.checked(&ask.long(&Command::Audit(Audit::Verify), "leaves").await?),
        }
    }
}
