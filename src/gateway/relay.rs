//! Requests of hosts that go through to an origin, and what may come back meanwhile.
//!
//! An origin is asked with no more capabilities than the host has. Nothing that could change something is sent twice.

use serde_json::Value;

use super::Gateway;
use super::unserved::Unserved;
use super::unserved::reason_of;
use crate::domain::Label;
use crate::upstream;
pub use crate::upstream::Call;
pub use crate::upstream::Interim;
pub use crate::upstream::Said;

/// Why a relayed request has no result.
#[derive(Clone, Debug)]
pub enum Unanswered {
    /// The origin answered with an error.
    Said(Said),
    /// It gave no usable answer.
    Failed(Unserved),
}

impl Gateway {
    /// Sends a request on to an origin and gives its result. What comes before the answer goes to `interim`;
    /// dropping the future cancels it at the origin.
    ///
    /// # Errors
    ///
    /// [`Unanswered`].
    pub async fn relay(
        &self,
        label: &Label,
        call: Call,
        interim: tokio::sync::mpsc::Sender<Interim>,
    ) -> Result<Value, Unanswered> {
        let origin = self.0.origins.get(label).ok_or(Unanswered::Failed(Unserved::Unknown))?;
        let answer = origin.upstream.relay(call, interim).await;
        let result = answer.map_err(|error| {
            tracing::warn!(%label, %error, "a relayed request has no answer");
            Unanswered::Failed(reason_of(&error))
        })?;
        let text = result.map_err(Unanswered::Said)?;
        serde_json::from_str(&text).map_err(|error| {
            let error = upstream::Error::Malformed(error.to_string());
            tracing::warn!(%label, %error, "a relayed request has no answer");
            Unanswered::Failed(reason_of(&error))
        })
    }
}
