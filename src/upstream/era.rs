//! Which way of opening a session an origin is known to understand, and for how long that is believed (base protocol §22.1).

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ErrorCode;
use rmcp::service::ClientInitializeError;
use tokio::time::Instant;

use super::Error;

/// How long an origin is taken for a legacy one. One that learned better still answers `initialize`, so that nothing but
/// another probe would tell.
const LEGACY_HOLDS: Duration = Duration::from_secs(60 * 60);

/// Codes by which only a modern server refuses.
const MODERN_REFUSALS: [ErrorCode; 3] = [
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ErrorCode::HEADER_MISMATCH,
    ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
];

/// Two ways of opening a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// `server/discover`, and metadata on each request.
    Modern,
    /// The `initialize` handshake.
    Legacy,
}

/// What is known of one origin. Only an answer teaches anything: no refused credential, no silence, no failure does.
#[derive(Default)]
pub(super) struct Verdict(Mutex<Option<(Era, Instant)>>);

impl Verdict {
    /// The era to begin with, when it was found out lately.
    pub(super) fn era(&self) -> Option<Era> {
        let held = *self.0.lock();
        held.filter(|(era, since)| *era == Era::Modern || since.elapsed() < LEGACY_HOLDS)
            .map(|(era, _)| era)
    }

    /// A session was opened this way. Gives the time until which that is believed, where it is not for ever; opening
    /// another one as before makes it no longer.
    pub(super) fn found(&self, era: Era) -> Option<Instant> {
        let mut held = self.0.lock();
        let known = held.filter(|(known, since)| *known == era && since.elapsed() < LEGACY_HOLDS);
        let (_, since) = known.unwrap_or_else(|| (era, Instant::now()));
        *held = Some((era, since));
        match era {
            Era::Modern => None,
            Era::Legacy => Some(since + LEGACY_HOLDS),
        }
    }
}

/// A handshake that failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// In our words.
    pub(super) error: Error,
    /// What it says of the era.
    pub(super) evidence: Evidence,
}

/// What a failed handshake says of an origin's era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It refused this handshake as one that it does not know.
    Unknown,
    /// It closed the connection, or its process ended.
    Ended,
    /// It did not answer.
    Silent,
    /// It refused as only a modern server does.
    Modern,
    /// Nothing: it was not reached, or refused the credential, or is broken.
    None,
}

impl Failed {
    /// Nobody was reached.
    pub(super) fn unreached(error: Error) -> Self {
        Self {
            error,
            evidence: Evidence::None,
        }
    }

    /// Nothing was said for so long.
    pub(super) fn silent(patience: Duration) -> Self {
        Self {
            error: Error::TimedOut(patience),
            evidence: Evidence::Silent,
        }
    }

    /// Says whether `server/discover`, failing so, makes `initialize` worth trying. Over a pipe or a WebSocket an older
    /// server may say nothing, or end; over HTTP these say nothing.
    pub(super) fn says_legacy(&self, over_http: bool) -> bool {
        match self.evidence {
            Evidence::Unknown => true,
            Evidence::Ended | Evidence::Silent => !over_http,
            Evidence::Modern | Evidence::None => false,
        }
    }

    /// Says whether `initialize`, failing so, makes `server/discover` worth trying at an origin taken for a legacy one.
    pub(super) fn says_upgraded(&self) -> bool {
        match self.evidence {
            Evidence::Unknown | Evidence::Ended | Evidence::Modern => true,
            Evidence::Silent | Evidence::None => false,
        }
    }
}

/// What the SDK's failure says of the era.
pub(super) fn evidence(error: &ClientInitializeError) -> Evidence {
    if let ClientInitializeError::JsonRpcError(data) = error {
        return if MODERN_REFUSALS.contains(&data.code) {
            Evidence::Modern
        } else {
            Evidence::Unknown
        };
    }
    if matches!(error, ClientInitializeError::NoCompatibleProtocolVersion { .. }) {
        return Evidence::Modern;
    }
    if matches!(error, ClientInitializeError::UncorrelatedErrorResponse { .. }) {
        return Evidence::Unknown;
    }
    if matches!(error, ClientInitializeError::ConnectionClosed(_)) {
        return Evidence::Ended;
    }
    Evidence::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_legacy_verdict_expires_and_a_modern_one_is_its_own_probe() {
        let verdict = Verdict::default();
        assert_eq!(verdict.era(), None);
        let expires = Instant::now() + LEGACY_HOLDS;
        assert_eq!(verdict.found(Era::Legacy), Some(expires));
        tokio::time::advance(LEGACY_HOLDS - Duration::from_secs(1)).await;
        assert_eq!(verdict.era(), Some(Era::Legacy));
        assert_eq!(verdict.found(Era::Legacy), Some(expires), "nothing new was learned");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(verdict.era(), None);
        assert_eq!(verdict.found(Era::Modern), None);
        tokio::time::advance(LEGACY_HOLDS).await;
        assert_eq!(verdict.era(), Some(Era::Modern));
    }
}
