//! What operators may ask about the tokens that hosts show.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::command::value;
use super::failure::Failure;
use crate::gateway::By;
use crate::gateway::Gateway;

/// One thing that an operator asks about tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum TokenAct {
    /// Make one for a host.
    New {
        /// Whose it is.
        name: String,
    },
    /// Those there are, without their secrets.
    List,
    /// Take some back.
    Revoke {
        /// A token's id, or the name that tokens have.
        token: String,
    },
}

/// Tokens that were taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensRevoked {
    /// How many were alive.
    pub revoked: u64,
}

/// A token, shown once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// Its id.
    pub id: String,
    /// What a host sends.
    pub secret: String,
}

impl TokenAct {
    /// How the record calls it, where it decides something.
    pub(super) fn decision(&self) -> Option<&'static str> {
        match self {
            Self::New { .. } => Some("token new"),
            Self::Revoke { .. } => Some("token revoke"),
            Self::List => None,
        }
    }

    /// Carries it out.
    pub(super) async fn run(self, gateway: &Gateway, by: &By) -> Result<Value, Failure> {
        match self {
            Self::New { name } => {
                let (id, secret) = gateway.new_token(by, &name).await?;
                value(&NewToken {
                    id: id.to_string(),
                    secret,
                })
            }
            Self::List => value(&gateway.tokens()),
            Self::Revoke { token } => value(&TokensRevoked {
                revoked: gateway.revoke_tokens(by, &token).await?,
            }),
        }
    }
}
