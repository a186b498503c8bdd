//! `audit …`: looks at the record.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

use super::arguments::Skill;
use super::arguments::When;
use super::ask::Ask;
use super::deliveries::Deliveries;
use super::evidence;
use super::leaves;
use super::output::Output;
use crate::admin::Audit;
use crate::admin::Command;
use crate::admin::Failure;
use crate::domain::Label;
use crate::domain::Timestamp;
use crate::domain::audit::KeyKind;
use crate::domain::audit::VerifierKey;
use crate::gateway::LeafFilter;
use crate::gateway::WitnessOptions;

/// Looks at the record.
#[derive(Debug, Subcommand)]
pub(super) enum Act {
    /// Check the whole log: leaves, tree, signatures, chains, tiles, head.
    Verify {
        /// A checkpoint kept elsewhere: the log must go on from it.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// A key kept elsewhere: it, or one that it handed over to, must have signed.
        #[arg(long, value_name = "VKEY", value_parser = log_key)]
        key: Option<VerifierKey>,
    },
    /// Print the key that the log's checkpoints are verified with, and those before it.
    Key,
    /// Let another key sign the log from now on.
    RotateKey {
        /// What to write beside it on the record.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Prove that a leaf is in the log, to somebody who has nothing but its key.
    Prove {
        /// The leaf's index.
        index: u64,
        /// Write the proof to a file, as leaf.tlog-proof.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check a proof: needs neither configuration nor gateway.
    Check {
        /// The proof.
        file: PathBuf,
        /// The log's key.
        #[arg(long, value_name = "VKEY", value_parser = log_key)]
        key: VerifierKey,
        /// The key of a witness who must have cosigned; may be given several times.
        #[arg(long, value_name = "VKEY", value_parser = witness_key)]
        witness: Vec<VerifierKey>,
    },
    /// Say whether the log at one point goes on from the log at another.
    Consistency {
        /// The earlier one: a checkpoint in a file, or a number of leaves.
        old: String,
        /// The later one.
        new: String,
    },
    /// Witness other logs until SIGTERM or SIGINT: cosign each checkpoint that goes on from the last. Needs no gateway.
    Witness {
        /// Where to listen; port 0 takes a free one.
        #[arg(long, value_name = "ADDRESS")]
        listen: SocketAddr,
        /// The folder for the witness's key and what it cosigned; made if it is missing.
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// The key of a log to witness; may be given several times.
        #[arg(long, value_name = "VKEY", required = true, value_parser = log_key)]
        log: Vec<VerifierKey>,
        /// The name of the witness's key, when that is made.
        #[arg(long, value_name = "NAME", default_value = "portcullis/witness")]
        name: String,
    },
    /// List who received what; what is named must all fit.
    Deliveries(Deliveries),
    /// List decisions.
    Log(Wanted),
    /// Give decisions to other tools. What they make of it proves nothing: the log does.
    Export {
        /// In which form.
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        /// Which.
        #[command(flatten)]
        wanted: Wanted,
    },
    /// List decisions and go on as they are made.
    Follow(Wanted),
    /// Destroy the name behind a commitment; the record goes on verifying.
    Forget {
        /// A person, a token's name or id, or an address.
        person: String,
    },
}

/// Which decisions.
#[derive(Debug, Args)]
pub(super) struct Wanted {
    /// About this origin.
    #[arg(long, value_name = "LABEL")]
    origin: Option<Label>,
    /// About this skill.
    #[arg(long)]
    skill: Option<Skill>,
    /// By this person, a name or a commitment, or by gateway.
    #[arg(long, value_name = "PERSON")]
    who: Option<String>,
    /// Not earlier: 2026-12-01T00:00:00.000Z, or how long ago, as 2h.
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Of this kind, as approved; may be repeated.
    #[arg(long = "kind", value_name = "KIND", value_parser = leaves::kind)]
    kinds: Vec<String>,
}

/// A form that other tools read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Format {
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values (RFC 4180).
    Csv,
    /// ArcSight Common Event Format.
    Cef,
}

/// The key of a log.
fn log_key(text: &str) -> Result<VerifierKey, String> {
    key_of(KeyKind::Log, text)
}

/// The key of a witness.
fn witness_key(text: &str) -> Result<VerifierKey, String> {
    key_of(KeyKind::Witness, text)
}

fn key_of(kind: KeyKind, text: &str) -> Result<VerifierKey, String> {
    let key: VerifierKey = text.parse().map_err(|why| format!("{why}"))?;
    match (key.kind() == kind, kind) {
        (true, _) => Ok(key),
        (false, KeyKind::Log) => Err("the key of a witness, not of a log".to_owned()),
        (false, KeyKind::Witness) => Err("the key of a log, not of a witness".to_owned()),
    }
}

impl Act {
    /// Does what needs neither configuration nor data folder; nothing for what does.
    pub(super) fn run_alone(&self, output: &Output) -> Option<Result<ExitCode, Failure>> {
        match self {
            Self::Check { file, key, witness } => Some(evidence::check(output, file, key, witness)),
            Self::Verify { .. }
            | Self::Key
            | Self::RotateKey { .. }
            | Self::Prove { .. }
            | Self::Consistency { .. }
            | Self::Deliveries(_)
            | Self::Log(_)
            | Self::Export { .. }
            | Self::Follow(_)
            | Self::Forget { .. }
            | Self::Witness { .. } => None,
        }
    }

    /// How a witness is to be run, if that is what this asks for.
    pub(super) fn witness(&self) -> Option<WitnessOptions> {
        if let Self::Witness {
            listen,
            state,
            log,
            name,
        } = self
        {
            Some(WitnessOptions {
                listen: *listen,
                state: state.clone(),
                logs: log.clone(),
                name: name.clone(),
            })
        } else {
            None
        }
    }

    /// Does it, and gives the exit code.
    pub(super) async fn run(self, ask: &Ask, output: &Output, now: Timestamp) -> Result<ExitCode, Failure> {
        match self {
            Self::Verify { from, key } => {
                let audit = Audit::Verify {
                    from: from.as_deref().map(evidence::read_checkpoint).transpose()?,
                    key: key.map(|key| key.to_string()),
                };
                output.checked(&ask.long(&Command::Audit(audit), "leaves").await?)
            }
            Self::Key => output.keys(&ask.value(&Command::Audit(Audit::Key)).await?),
            Self::RotateKey { note } => output.rotated(&ask.value(&Command::Audit(Audit::RotateKey { note })).await?),
            Self::Prove { index, out } => {
                let proven = ask.value(&Command::Audit(Audit::Prove { index })).await?;
                output.proven(&proven, out.as_deref())
            }
            Self::Check { file, key, witness } => evidence::check(output, &file, &key, &witness),
            Self::Witness { .. } => Err(Failure::ours("a witness is no command to ask for".to_owned())),
            Self::Consistency { old, new } => {
                let (old, new) = (evidence::point(&old)?, evidence::point(&new)?);
                output.consistency(&ask.value(&Command::Audit(Audit::Consistency { old, new })).await?)
            }
            Self::Deliveries(wanted) => wanted.list(ask, output, now).await,
            Self::Log(wanted) => {
                let mut list = output.list("no such leaves");
                let filter = wanted.filter(now);
                let command = Command::Audit(Audit::Log { filter, follow: false });
                let mut take = |item| list.give(item, |item| leaves::Shown::of(item).map(|leaf| leaves::human(&leaf)));
                ask.each(&command, &mut take).await?;
                list.end().map(|()| ExitCode::SUCCESS)
            }
            Self::Follow(wanted) => {
                let format = if output.is_json() { leaves::json } else { leaves::human };
                give(ask, wanted.filter(now), true, format).await
            }
            Self::Export { format, wanted } => {
                let format = match format {
                    Format::Jsonl => leaves::json,
                    Format::Csv => {
                        super::output::write(leaves::CSV_HEAD.as_bytes())?;
                        leaves::csv
                    }
                    Format::Cef => leaves::cef,
                };
                give(ask, wanted.filter(now), false, format).await
            }
            Self::Forget { person } => output.forgotten(&ask.value(&Command::Audit(Audit::Forget { person })).await?),
        }
    }
}

/// Prints the wanted leaves, each as `format` writes it.
async fn give(
    ask: &Ask,
    filter: LeafFilter,
    follow: bool,
    format: fn(&leaves::Shown) -> String,
) -> Result<ExitCode, Failure> {
    let command = Command::Audit(Audit::Log { filter, follow });
    let mut take = |item| super::output::write(format(&leaves::Shown::of(item)?).as_bytes());
    ask.each(&command, &mut take).await?;
    Ok(ExitCode::SUCCESS)
}

impl Wanted {
    fn filter(self, now: Timestamp) -> LeafFilter {
        LeafFilter {
            origin: self.origin,
            skill: self.skill.map(|skill| skill.0),
            who: self.who,
            since: self.since.map(|when| when.before(now)),
            kinds: self.kinds,
        }
    }
}
