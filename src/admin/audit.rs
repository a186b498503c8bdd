//! What operators may ask of the record.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::command::Checked;
use super::command::value;
use super::failure::Failure;
use super::lines::Lines;
use crate::domain::audit::Proof;
use crate::gateway::By;
use crate::gateway::DeliveryQuery;
use crate::gateway::Gateway;
use crate::gateway::Kept;
use crate::gateway::LeafFilter;
use crate::gateway::Point;
use crate::gateway::Recorded;

/// How often who follows the log is told of new leaves.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// One thing that an operator asks of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum Audit {
    /// Check the whole log.
    Verify {
        /// A checkpoint kept elsewhere that it must go on from.
        from: Option<String>,
        /// A key kept elsewhere that must have signed it.
        key: Option<String>,
    },
    /// The keys of the log.
    Key,
    /// Let another key sign from now on.
    RotateKey {
        /// What to write beside it.
        note: Option<String>,
    },
    /// Prove that a leaf is in the log.
    Prove {
        /// Its index.
        index: u64,
    },
    /// Whether one part of the log goes on from another.
    Consistency {
        /// The earlier part.
        old: Point,
        /// The later part.
        new: Point,
    },
    /// The wanted leaves, one an item.
    Log {
        /// Which.
        filter: LeafFilter,
        /// Whether to go on with what comes, until the caller leaves.
        follow: bool,
    },
    /// Give the deliveries that fit, one by one.
    Deliveries(DeliveryQuery),
    /// Destroy the name behind a person's commitment.
    Forget {
        /// Whom.
        person: String,
    },
}

/// A proof that a leaf is in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// Its index.
    pub index: u64,
    /// What it says.
    pub leaf: Value,
    /// Leaves under the checkpoint.
    pub size: u64,
    /// The whole as C2SP tlog-proof has it.
    pub proof: String,
}

impl Audit {
    /// How the record calls it, where it decides something.
    pub(super) fn decision(&self) -> Option<&'static str> {
        match self {
            Self::Forget { .. } => Some("audit forget"),
            Self::RotateKey { .. } => Some("audit rotate-key"),
            Self::Verify { .. }
            | Self::Key
            | Self::Prove { .. }
            | Self::Consistency { .. }
            | Self::Log { .. }
            | Self::Deliveries(_) => None,
        }
    }

    /// Carries it out, telling `lines` how far it is.
    pub(super) async fn run(self, gateway: &Gateway, by: By, lines: &Lines) -> Result<Value, Failure> {
        match self {
            Self::Verify { from, key } => verify(gateway, from, key, lines).await,
            Self::Key => value(&gateway.log_keys()),
            Self::RotateKey { note } => value(&gateway.rotate_key(&By { note, ..by }).await?),
            Self::Prove { index } => value(&Proven::new(&gateway.prove(index).await?)?),
            Self::Consistency { old, new } => value(&gateway.consistency(&old, &new)),
            Self::Log { filter, follow } => give_leaves(gateway, &filter, follow, lines).await,
            Self::Deliveries(query) => deliveries(gateway, &query, lines).await,
            Self::Forget { person } => value(&gateway.forget(&by, &person).await?),
        }
    }
}

async fn verify(gateway: &Gateway, from: Option<String>, key: Option<String>, lines: &Lines) -> Result<Value, Failure> {
    let key = key.map(|key| key.parse()).transpose();
    let kept = Kept {
        checkpoint: from.map(String::into_bytes),
        key: key.map_err(|why| Failure::usage(format!("--key is {why}")))?,
    };
    let report = gateway.verify_record(kept, lines.counted()).await?;
    value(&Checked {
        intact: report.is_sound(),
        report: value(&report)?,
    })
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

impl Proven {
    fn new(proof: &Proof) -> Result<Self, Failure> {
        let ours = |error: &dyn std::fmt::Display| Failure::ours(error.to_string());
        Ok(Self {
            index: proof.index,
            leaf: serde_json::from_slice(&proof.leaf).map_err(|error| ours(&error))?,
            size: proof.checkpoint.checkpoint().size,
            proof: String::from_utf8(proof.to_text()).map_err(|error| ours(&error))?,
        })
    }
}

/// Gives each delivery as a line, as fast as they are read.
async fn deliveries(gateway: &Gateway, query: &DeliveryQuery, lines: &Lines) -> Result<Value, Failure> {
    let lines = lines.clone();
    let hear = move |recorded: Recorded| {
        let item = serde_json::to_value(&recorded);
        if item.is_ok_and(|item| lines.blocking_item(item)) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    value(&gateway.deliveries(query, hear).await?)
}
