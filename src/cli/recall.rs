//! `recall`: stops a file, a skill or an origin everywhere.

use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;

use super::arguments::Skill;
use super::ask::Ask;
use super::output::Output;
use crate::admin::Command;
use crate::admin::Failure;
use crate::gateway;

/// Stops something everywhere.
#[derive(Debug, Args)]
pub(super) struct Recall {
    /// A digest (sha256:…), a skill (label/path) or an origin's label.
    what: What,
    /// What to write beside it on the record.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Let a recalled digest be served again where approvals allow it.
    #[arg(long)]
    lift: bool,
}

/// What the word on the command line names.
#[derive(Clone, Debug)]
struct What(gateway::Recall);

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("sha256:") {
            let digest = text.parse().map_err(|error| format!("{error}"))?;
            return Ok(Self(gateway::Recall::Digest(digest)));
        }
        if text.contains('/') {
            return text.parse().map(|skill: Skill| Self(gateway::Recall::Skill(skill.0)));
        }
        let label = text
            .parse()
            .map_err(|_| "no digest (sha256:…), no skill (label/path) and no label of an origin".to_owned())?;
        Ok(Self(gateway::Recall::Origin(label)))
    }
}

impl Recall {
    /// Does it, and gives the exit code.
    pub(super) async fn run(self, ask: &Ask, output: &Output) -> Result<ExitCode, Failure> {
        let Self { what, note, lift } = self;
        if !lift {
            let command = Command::Recall { what: what.0, note };
            return output.recalled(&ask.value(&command).await?);
        }
        match what.0 {
            gateway::Recall::Digest(digest) => output.lifted(&ask.value(&Command::LiftRecall { digest, note }).await?),
            gateway::Recall::Skill(_) | gateway::Recall::Origin(_) => Err(Failure::usage(
                "only the recall of a digest is lifted; the skills of others are approved anew".to_owned(),
            )),
        }
    }
}
