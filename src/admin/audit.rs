//! What operators may ask of the record.

use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::command::Checked;
use super::command::value;
use super::failure::Failure;
use super::lines::Lines;
use crate::gateway::By;
use crate::gateway::Gateway;
use crate::gateway::LeafFilter;

/// How often who follows the log is told of new leaves.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// One thing that an operator asks of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum Audit {
    /// Check the whole log.
    Verify,
    /// The wanted leaves, one an item.
    Log {
        /// Which.
        filter: LeafFilter,
        /// Whether to go on with what comes, until the caller leaves.
        follow: bool,
    },
    /// Destroy the name behind a person's commitment.
    Forget {
        /// Whom.
        person: String,
    },
}

impl Audit {
    /// How the record calls it, where it decides something.
    pub(super) fn decision(&self) -> Option<&'static str> {
        match self {
            Self::Forget { .. } => Some("audit forget"),
            Self::Verify | Self::Log { .. } => None,
        }
    }

    /// Carries it out, telling `lines` how far it is.
    pub(super) async fn run(self, gateway: &Gateway, by: &By, lines: &Lines) -> Result<Value, Failure> {
        match self {
            Self::Verify => {
                let report = gateway.verify_log(lines.counted()).await?;
                value(&Checked {
                    intact: report.is_sound(),
                    report: value(&report)?,
                })
            }
            Self::Log { filter, follow } => give_leaves(gateway, &filter, follow, lines).await,
            Self::Forget { person } => value(&gateway.forget(by, &person).await?),
        }
    }
}

/// Gives leaf by leaf, as fast as the caller takes them; the last word is how many there were.
async fn give_leaves(gateway: &Gateway, filter: &LeafFilter, follow: bool, lines: &Lines) -> Result<Value, Failure> {
    let (mut next, mut given) = (0, 0_u64);
    loop {
        let some = gateway.leaves(next, filter.clone()).await?;
        next = some.next;
        for leaf in &some.leaves {
            given += 1;
            if !lines.item(value(leaf)?).await {
                return Ok(given.into());
            }
        }
        if some.is_end && !follow {
            return Ok(given.into());
        }
        if some.is_end {
            tokio::select! {
                () = tokio::time::sleep(BETWEEN_LOOKS) => {}
                () = lines.left() => return Ok(given.into()),
                () = gateway.shutdown().begun() => return Ok(given.into()),
            }
        }
    }
}
