//! The admin listener: health and the log for auditors, and until a sign-in is configured nothing else.
//!
//! | path | answers |
//! | --- | --- |
//! | `/healthz` | 200 while content and decisions can be written; 503 when a disk failure ended writing, or closing decisions wait for room to be recorded (reads go on) |
//! | `/readyz` | 200 once everything listens; 503 when the end has begun |
//! | `/log/…` | the log, as `tiles` serves it |

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;

use super::tiles;
use crate::config::HostName;
use crate::gateway::Gateway;

/// The routes; `hosts` are the names by which the log may be asked for.
pub fn router(gateway: &Gateway, hosts: &[HostName]) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(gateway.clone())
        .merge(tiles::guarded(gateway, hosts))
}

async fn healthz(State(gateway): State<Gateway>) -> (StatusCode, &'static str) {
    let summary = gateway.summary();
    if !summary.writing {
        (StatusCode::SERVICE_UNAVAILABLE, "writing stopped\n")
    } else if summary.unrecorded > 0 {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "decisions wait for room to be recorded\n",
        )
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn readyz(State(gateway): State<Gateway>) -> (StatusCode, &'static str) {
    if gateway.shutdown().is_begun() {
        (StatusCode::SERVICE_UNAVAILABLE, "ending\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}
