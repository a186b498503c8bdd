//! `approve`: one set that was looked at here, or the sets that were reviewed in a lock file.

use std::io::IsTerminal as _;
use std::io::stdin;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde::Serialize;

use super::arguments::Skill;
use super::arguments::duration;
use super::ask::Ask;
use super::lock;
use super::output::Output;
use crate::admin::Command;
use crate::admin::Failure;
use crate::admin::Fault;
use crate::domain::Digest;
use crate::domain::LockedSkill;
use crate::domain::Reviewed;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::gateway::Decided;
use crate::gateway::SkillDetails;

/// Approves exactly one set, or every set of a lock file.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// label/path, or the URI of the merged view.
    #[arg(required_unless_present = "from_lock", conflicts_with = "from_lock")]
    skill: Option<Skill>,
    /// The set that was reviewed; without it, it is shown and asked about.
    #[arg(long, value_name = "ID", conflicts_with = "from_lock")]
    set: Option<SetId>,
    /// Approve every set of a lock file, made by `portcullis lock --seen` and reviewed elsewhere.
    #[arg(long, value_name = "FILE")]
    from_lock: Option<PathBuf>,
    /// What to write beside it on the record.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// After how long the approval ends by itself, as 180days.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<Duration>,
}

/// What came of one set of a lock file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FromLock {
    /// Whose.
    #[serde(flatten)]
    pub(super) skill: SkillKey,
    /// Which.
    pub(super) set: SetId,
    /// The decision, where one was taken.
    pub(super) decided: Option<Decided>,
    /// Why none was.
    pub(super) refused: Option<String>,
}

impl Arguments {
    /// Does it, and gives the exit code.
    pub(super) async fn run(self, ask: &Ask, output: &Output) -> Result<ExitCode, Failure> {
        match (&self.from_lock, &self.skill) {
            (Some(file), _) => self.approve_lock(ask, output, file).await,
            (None, Some(skill)) => {
                let set = match self.set {
                    Some(set) => set,
                    None => confirmed(ask, output, &skill.0).await?,
                };
                let command = self.command(skill.0.clone(), set, None);
                output.decided("approved", &ask.value(&command).await?)
            }
            (None, None) => Err(Failure::usage("neither a skill nor a lock file is named".to_owned())),
        }
    }

    fn command(&self, skill: SkillKey, set: SetId, reviewed: Option<Reviewed>) -> Command {
        Command::Approve {
            skill,
            set,
            note: self.note.clone(),
            expires_in: self.expires.map(|expires| expires.as_secs()),
            reviewed,
        }
    }

    /// Approves set by set. One that is refused keeps none of the others from being approved; the worst of all outcomes is
    /// the exit code.
    async fn approve_lock(&self, ask: &Ask, output: &Output, file: &Path) -> Result<ExitCode, Failure> {
        let lock = lock::read(file)?;
        let digest = Digest::of(lock.to_text().as_bytes());
        let mut outcomes = Vec::with_capacity(lock.skills().len());
        let mut worst: Option<Fault> = None;
        for LockedSkill { key, address, set, .. } in lock.skills() {
            let reviewed = Reviewed {
                lock: digest,
                address: *address,
            };
            let answer = ask.value(&self.command(key.clone(), *set, Some(reviewed))).await;
            let decided = answer
                .and_then(|answer| serde_json::from_value(answer).map_err(|error| Failure::ours(error.to_string())));
            if let Err(failure) = &decided {
                worst = worst.max(Some(failure.fault));
            }
            outcomes.push(FromLock {
                skill: key.clone(),
                set: *set,
                refused: decided.as_ref().err().map(ToString::to_string),
                decided: decided.ok(),
            });
        }
        output.lock_approved(&outcomes)?;
        Ok(worst.map_or(ExitCode::SUCCESS, |fault| ExitCode::from(fault.exit_code())))
    }
}

/// Shows what would be approved and asks; without a terminal the set has to be named.
async fn confirmed(ask: &Ask, output: &Output, skill: &SkillKey) -> Result<SetId, Failure> {
    let shown = ask.value(&Command::Show { skill: skill.clone() }).await?;
    let details: SkillDetails =
        serde_json::from_value(shown.clone()).map_err(|error| Failure::ours(error.to_string()))?;
    let Some(set) = details.status.set else {
        let reason = details.status.reason.unwrap_or_else(|| "it has no set".to_owned());
        return Err(Failure::no(format!("{skill} cannot be approved: {reason}")));
    };
    if !stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "approve asks on a terminal; here, name what was reviewed: --set {set}"
        )));
    }
    output.preview(&shown)?;
    let yes = output.ask(&format!("Approve exactly {set}? [y/N] "))?;
    if yes {
        Ok(set)
    } else {
        Err(Failure::no("nothing was approved".to_owned()))
    }
}
