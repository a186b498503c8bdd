//! What may stand on the command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;
use clap::Subcommand;

use super::approve;
use super::audit;
use super::check;
use super::connect;
use super::lock;
use super::policy;
use super::recall;
use crate::domain::Label;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::Timestamp;
use crate::gateway::CatalogFormat;
use crate::gateway::parse_skill;

/// A verifying, caching gateway between AI hosts and MCP servers that publish Agent Skills.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, disable_help_subcommand = true)]
pub(super) struct Arguments {
    /// The configuration.
    #[arg(long, global = true, default_value = "proxy.toml", value_name = "FILE")]
    pub(super) config: PathBuf,
    /// Print one JSON value instead of text.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// What to do.
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Run the gateway until SIGTERM or SIGINT.
    Serve {
        /// Open no socket to an origin; serve what is approved and stored.
        #[arg(long)]
        offline: bool,
    },
    /// Serve the host that starts this command, over standard input and output; leads to the running gateway.
    Stdio {
        /// Only this origin, under its own names.
        #[arg(long, value_name = "LABEL")]
        origin: Option<Label>,
        /// Be the gateway: run it in this process, without listeners, until standard input ends.
        #[arg(long)]
        standalone: bool,
    },
    /// Check folders of skills before they are published: what would not be, and where a reviewer would look.
    Check(check::Check),
    /// Print what to paste into a host's configuration; without a name, list the hosts that are known.
    Connect(connect::Connect),
    /// List the skills.
    Skills {
        /// Only those in this state.
        #[arg(long, value_parser = ["pending", "approved", "denied", "revoked", "expired", "changed", "withdrawn", "invalid"])]
        state: Option<String>,
    },
    /// List the origins.
    Origins,
    /// Print what hosts that do not speak the extension are told of the skills.
    Catalog {
        /// At this origin's own address.
        #[arg(long, value_name = "LABEL")]
        origin: Option<Label>,
        /// As models are given it, for programs, or for people.
        #[arg(long, default_value = "xml", value_parser = catalog_format, value_name = "xml|json|md")]
        format: CatalogFormat,
    },
    /// Decide about an origin.
    Origin {
        /// What.
        #[command(subcommand)]
        act: OriginAct,
    },
    /// Show an entry, its files and its set.
    Show {
        /// label/path, or the URI of the merged view.
        skill: Skill,
    },
    /// Print a file, verified; SKILL.md unless another is named.
    Cat {
        /// label/path, or the URI of the merged view.
        skill: Skill,
        /// The file's path below the skill.
        file: Option<String>,
    },
    /// Show what differs between the set last approved and the one now seen.
    Diff {
        /// label/path, or the URI of the merged view.
        skill: Skill,
    },
    /// Approve exactly one set, or every set of a lock file.
    Approve(approve::Arguments),
    /// Say no to a set.
    Deny {
        /// label/path, or the URI of the merged view.
        skill: Skill,
        /// The set; the one now seen unless named.
        #[arg(long, value_name = "ID")]
        set: Option<SetId>,
        /// What to write beside it on the record.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Take an approval back, at once.
    Revoke {
        /// label/path, or the URI of the merged view.
        skill: Skill,
        /// What to write beside it on the record.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Give a signed statement about the set of a skill that is served (in-toto in a DSSE envelope, for `audit check`).
    Attest {
        /// label/path, or the URI of the merged view.
        skill: Skill,
        /// Write it to a file.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Write which sets are served, as a lock file; or compare with one.
    Lock(lock::Arguments),
    /// Stop a file, a skill or a whole origin everywhere, at once.
    Recall(recall::Recall),
    /// Fetch, verify and store every file of a skill.
    Pull {
        /// label/path, or the URI of the merged view.
        skill: Skill,
    },
    /// Check every stored byte again; what is damaged goes to quarantine.
    Verify,
    /// Make the index anew from content, sets and log.
    RebuildIndex,
    /// Look at the audit log.
    Audit {
        /// What.
        #[command(subcommand)]
        act: audit::Act,
    },
    /// Look at what the configuration says of skills.
    Policy {
        /// What.
        #[command(subcommand)]
        act: policy::Act,
    },
    /// Tokens that hosts show.
    Token {
        /// What.
        #[command(subcommand)]
        act: TokenAct,
    },
    /// Ask the running gateway how it is.
    Health,
}

/// Decisions about an origin.
#[derive(Debug, Subcommand)]
pub(super) enum OriginAct {
    /// Accept the address that the label now points to.
    Accept {
        /// The label.
        label: Label,
    },
    /// Remove what is stored of it and end its approvals.
    Remove {
        /// The label.
        label: Label,
    },
}

/// Acts on tokens.
#[derive(Debug, Subcommand)]
pub(super) enum TokenAct {
    /// Make one; it is printed once.
    New {
        /// Whose it is.
        name: String,
    },
    /// List them.
    List,
    /// Take back, at once, the token with this id, or every token of this name.
    Revoke {
        /// Its id, or whose it is.
        token: String,
    },
}

/// A skill as it is named on the command line.
#[derive(Clone, Debug)]
pub(super) struct Skill(pub(super) SkillKey);

impl FromStr for Skill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = parse_skill(text);
        key.map(Self).ok_or_else(|| {
            "not label/path, nor a URI of the merged view such as skill://label/path/SKILL.md".to_owned()
        })
    }
}

/// A moment, or how long before now it was.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    /// The moment.
    At(Timestamp),
    /// How long ago.
    Ago(Duration),
}

impl When {
    /// The moment, given the present one.
    pub(super) fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Ago(span) => {
                let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                Timestamp::from_millis(now.as_millis().saturating_sub(span))
            }
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let moment = humantime::parse_rfc3339_weak(text).ok().map(Timestamp::from);
        moment
            .map(Self::At)
            .or_else(|| humantime::parse_duration(text).ok().map(Self::Ago))
            .ok_or_else(|| "neither a moment such as 2026-12-01T09:00:00Z nor how long ago, such as 2h".to_owned())
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

fn catalog_format(word: &str) -> Result<CatalogFormat, String> {
    match word {
        "xml" => Ok(CatalogFormat::Xml),
        "json" => Ok(CatalogFormat::Json),
        "md" => Ok(CatalogFormat::Md),
        _ => Err("it is xml, json or md".to_owned()),
    }
}
