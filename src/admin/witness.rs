//! A witness over HTTP (C2SP tlog-witness).
//!
//! | request | answers |
//! | --- | --- |
//! | `POST /add-checkpoint` | 200 and a cosignature; 400, 403, 404, 409 and 422 as the specification says |
//! | `GET /<origin hash>/checkpoint` | the checkpoint cosigned last of a log, or 404 |

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::routing::get;
use axum::routing::post;
use http::StatusCode;
use http::header::CACHE_CONTROL;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use http_body_util::Limited;

use crate::domain::audit::MAX_REQUEST_BYTES;
use crate::domain::audit::Refused;
use crate::gateway::Witness;

/// How long a request's body may take.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The routes.
pub fn router(witness: &Witness) -> Router {
    Router::new()
        .route("/add-checkpoint", post(add_checkpoint))
        .route("/{origin}/checkpoint", get(checkpoint))
        .with_state(witness.clone())
}

async fn add_checkpoint(State(witness): State<Witness>, body: Body) -> Response {
    let body = tokio::time::timeout(BODY_TIME, Limited::new(body, MAX_REQUEST_BYTES).collect()).await;
    let Ok(Ok(body)) = body else {
        return refusal(Refused::Malformed);
    };
    match witness.add_checkpoint(&body.to_bytes()).await {
        Ok(Ok(line)) => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], line).into_response(),
        Ok(Err(refused)) => refusal(refused),
        Err(error) => {
            tracing::error!(%error, source = ?std::error::Error::source(&error), "not cosigned, since it cannot be kept");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn refusal(refused: Refused) -> Response {
    let status = match refused {
        Refused::Malformed => StatusCode::BAD_REQUEST,
        Refused::UnknownLog => StatusCode::NOT_FOUND,
        Refused::Unsigned => StatusCode::FORBIDDEN,
        Refused::Inconsistent => StatusCode::UNPROCESSABLE_ENTITY,
        Refused::Conflict { size } => {
            let kind = [(CONTENT_TYPE, "text/x.tlog.size")];
            return (StatusCode::CONFLICT, kind, format!("{size}\n")).into_response();
        }
    };
    (status, format!("{refused}\n")).into_response()
}

async fn checkpoint(State(witness): State<Witness>, Path(origin): Path<String>) -> Response {
    let fields = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    match witness.checkpoint(&origin) {
        Some(checkpoint) => (fields, checkpoint).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
