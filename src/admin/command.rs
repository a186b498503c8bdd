//! What operators may ask, and how it is carried out.
//!
//! `POST /v1/command` takes one [`Command`] as JSON and answers with lines of JSON: any number of `{"progress":…}` and
//! `{"item":…}`, then one `{"done":…}` or `{"failed":…}`. The command line uses nothing else.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::audit::Audit;
use super::failure::Failure;
use super::lines::Lines;
use super::token::TokenAct;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::Reviewed;
use crate::domain::SKILL_FILE;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::Tally;
use crate::gateway::AddressDecided;
use crate::gateway::Approving;
use crate::gateway::By;
use crate::gateway::CatalogFormat;
use crate::gateway::Gateway;
use crate::gateway::Recall;
use crate::gateway::View;
use crate::gateway::Who;

/// One thing that an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// How the gateway is.
    Health,
    /// The skills.
    Skills,
    /// The origins.
    Origins,
    /// What hosts without the extension are told of the skills.
    Catalog {
        /// At one origin's address; without it, where all are one.
        origin: Option<Label>,
        /// How it is written.
        format: CatalogFormat,
    },
    /// Accept the address that a label now points to.
    OriginAccept {
        /// The label.
        label: Label,
    },
    /// Remove what is stored of an origin; its approvals end.
    OriginRemove {
        /// The label.
        label: Label,
    },
    /// Everything about one skill.
    Show {
        /// Which.
        skill: SkillKey,
    },
    /// What differs from the set last approved.
    Diff {
        /// Which.
        skill: SkillKey,
    },
    /// One file, verified.
    Cat {
        /// Which skill.
        skill: SkillKey,
        /// The file's path below the skill, or its URI.
        file: Option<String>,
    },
    /// Approve exactly one set.
    Approve {
        /// Which skill.
        skill: SkillKey,
        /// The set, as it was shown.
        set: SetId,
        /// What to write beside it.
        note: Option<String>,
        /// Seconds after which the approval ends by itself.
        expires_in: Option<u64>,
        /// Where it was reviewed, if that was not here.
        #[serde(default)]
        reviewed: Option<Reviewed>,
    },
    /// Say no to a set.
    Deny {
        /// Which skill.
        skill: SkillKey,
        /// The set; the one now seen unless named.
        set: Option<SetId>,
        /// What to write beside it.
        note: Option<String>,
    },
    /// Take every approval of a skill back.
    Revoke {
        /// Which skill.
        skill: SkillKey,
        /// What to write beside it.
        note: Option<String>,
    },
    /// A signed statement about the set of a skill that is served.
    Attest {
        /// Which.
        skill: SkillKey,
    },
    /// The sets of all skills as a lock file.
    Lock {
        /// Those that are seen now, rather than those that are served.
        seen: bool,
    },
    /// Stop something everywhere.
    Recall {
        /// What.
        what: Recall,
        /// What to write beside it.
        note: Option<String>,
    },
    /// Let a recalled file be served again where approvals allow it.
    LiftRecall {
        /// Its digest.
        digest: Digest,
        /// What to write beside it.
        note: Option<String>,
    },
    /// What holds for a skill, and why.
    Explain {
        /// Which skill.
        skill: SkillKey,
    },
    /// Fetch and store every file of a skill.
    Pull {
        /// Which skill.
        skill: SkillKey,
    },
    /// Hash every stored byte again.
    Verify,
    /// Make the index anew.
    RebuildIndex,
    /// Look at the record.
    Audit(Audit),
    /// Make, list or take back tokens.
    Token(TokenAct),
}

/// A file, for an operator's eyes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Its URI as the origin spells it.
    pub uri: String,
    /// Its digest.
    pub digest: String,
    /// Its bytes, base64.
    pub base64: String,
}

/// What a check of the whole found; the report is the store's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Whether nothing was wrong.
    pub intact: bool,
    /// What there is and what is wrong with it.
    pub report: Value,
}

/// An address that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Whose.
    pub label: Label,
    /// Whether there was anything to accept.
    pub changed: bool,
    /// How far the vote is, where more people are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<Tally>,
}

/// A recall that was lifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifted {
    /// The file's digest.
    pub digest: Digest,
    /// Whether it had been recalled.
    pub lifted: bool,
}

/// An origin that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Which.
    pub label: Label,
    /// Bytes of content that left the disk.
    pub freed: u64,
}

impl Command {
    /// How the record calls it, where it decides something.
    pub(super) fn decision(&self) -> Option<&'static str> {
        match self {
            Self::OriginAccept { .. } => Some("origin accept"),
            Self::OriginRemove { .. } => Some("origin remove"),
            Self::Approve { .. } => Some("approve"),
            Self::Deny { .. } => Some("deny"),
            Self::Revoke { .. } => Some("revoke"),
            Self::Recall { .. } => Some("recall"),
            Self::LiftRecall { .. } => Some("recall --lift"),
            Self::Token(act) => act.decision(),
            Self::Audit(audit) => audit.decision(),
            Self::Health
            | Self::Skills
            | Self::Origins
            | Self::Catalog { .. }
            | Self::Show { .. }
            | Self::Diff { .. }
            | Self::Cat { .. }
            | Self::Attest { .. }
            | Self::Explain { .. }
            | Self::Lock { .. }
            | Self::Pull { .. }
            | Self::Verify
            | Self::RebuildIndex => None,
        }
    }

    /// Carries the command out for a person, telling `lines` how far it is.
    pub(super) async fn run(self, gateway: &Gateway, person: String, lines: &Lines) -> Result<Value, Failure> {
        let by = |note| By {
            who: Who::Person(person.clone()),
            note,
        };
        match self {
            Self::Health => health(gateway),
            Self::Skills => value(&gateway.skills().await),
            Self::Origins => value(&gateway.origins().await),
            Self::Catalog { origin, format } => catalog(gateway, origin, format),
            Self::OriginAccept { label } => {
                let AddressDecided { changed, votes } = gateway.accept_origin(&by(None), &label).await?;
                value(&Accepted { label, changed, votes })
            }
            Self::OriginRemove { label } => {
                let freed = gateway.remove_origin(&by(None), &label).await?;
                value(&Removed { label, freed })
            }
            Self::Show { skill } => value(&gateway.show(&skill).await?),
            Self::Diff { skill } => value(&gateway.diff(&skill).await?),
            Self::Cat { skill, file } => cat(gateway, &skill, file.as_deref().unwrap_or(SKILL_FILE)).await,
            Self::Approve {
                skill,
                set,
                note,
                expires_in,
                reviewed,
            } => {
                let ends = |secs| gateway.clock().now().checked_add(Duration::from_secs(secs));
                let wanted = Approving {
                    set,
                    expires: expires_in.and_then(ends),
                    reviewed,
                };
                value(&gateway.approve(&by(note), &skill, wanted).await?)
            }
            Self::Deny { skill, set, note } => value(&gateway.deny(&by(note), &skill, set).await?),
            Self::Revoke { skill, note } => value(&gateway.revoke(&by(note), &skill).await?),
            Self::Attest { skill } => value(&gateway.attest(&skill).await?),
            Self::Lock { seen } => value(&gateway.lock(seen).await),
            Self::Recall { what, note } => value(&gateway.recall(&by(note), what).await?),
            Self::LiftRecall { digest, note } => value(&Lifted {
                lifted: gateway.lift_recall(&by(note), digest).await?,
                digest,
            }),
            Self::Explain { skill } => value(&gateway.explain(&skill).await?),
            Self::Pull { skill } => pull(gateway, &by(None), &skill, lines).await,
            Self::Verify => verify(gateway, lines).await,
            Self::RebuildIndex => value(&gateway.rebuild_index().await?),
            Self::Audit(audit) => audit.run(gateway, by(None), lines).await,
            Self::Token(act) => act.run(gateway, &by(None)).await,
        }
    }
}

pub(super) fn value(of: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(of).map_err(|error| Failure::ours(error.to_string()))
}

fn health(gateway: &Gateway) -> Result<Value, Failure> {
    let summary = gateway.summary();
    if summary.unrecorded > 0 {
        return Err(Failure::no(format!(
            "{} closing decisions are in force and not yet on the record; they are recorded when the disk has room",
            summary.unrecorded
        )));
    }
    if let Some(why) = &summary.deliveries.problem {
        return Err(Failure::no(format!(
            "{} deliveries wait, since they cannot be written: {why}",
            summary.deliveries.waiting
        )));
    }
    if !summary.writing {
        return Err(Failure::no(
            "reads go on, but nothing can be written since a disk failure; look at the log and restart".to_owned(),
        ));
    }
    if let Some(late) = gateway.witnesses_too_late() {
        return Err(Failure::no(format!(
            "reads go on, but nothing is opened: too few witnesses cosign the log; not for a while: {late}"
        )));
    }
    value(&summary)
}

fn catalog(gateway: &Gateway, origin: Option<Label>, format: CatalogFormat) -> Result<Value, Failure> {
    let view = match origin {
        Some(label) if gateway.catalog().origin(&label).is_none() => {
            return Err(Failure::usage(format!("no origin has the label {label}")));
        }
        Some(label) => View::Origin(label),
        None => View::Merged,
    };
    value(&gateway.catalog_text(&view, format))
}

async fn verify(gateway: &Gateway, lines: &Lines) -> Result<Value, Failure> {
    let report = gateway.verify(lines.counted()).await?;
    value(&Checked {
        intact: report.is_sound(),
        report: value(&report)?,
    })
}

async fn cat(gateway: &Gateway, skill: &SkillKey, file: &str) -> Result<Value, Failure> {
    let file = gateway.look_at(skill, file).await?;
    value(&Look {
        uri: file.uri().to_string(),
        digest: file.digest().to_string(),
        base64: BASE64_STANDARD.encode(file.bytes()),
    })
}

async fn pull(gateway: &Gateway, by: &By, skill: &SkillKey, lines: &Lines) -> Result<Value, Failure> {
    let tell = lines.told();
    let mut step = |step: crate::gateway::PullStep| {
        tell(step.done as u64, step.files as u64, step.uri.to_string());
    };
    value(&gateway.pull(by, skill, &mut step).await?)
}
