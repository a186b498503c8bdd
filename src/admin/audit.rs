//! What operators may ask of the record.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::command::Checked;
use super::command::Lines;
use super::command::counted;
use super::command::value;
use super::failure::Failure;
use crate::gateway::Gateway;

/// One thing that an operator asks of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum Audit {
    /// Check the whole log.
    Verify,
}

impl Audit {
    /// Carries it out, telling `lines` how far it is.
    pub(super) async fn run(self, gateway: &Gateway, lines: &Lines) -> Result<Value, Failure> {
        match self {
            Self::Verify => {
                let report = gateway.verify_log(counted(lines)).await?;
                value(&Checked {
                    intact: report.is_sound(),
                    report: value(&report)?,
                })
            }
        }
    }
}
