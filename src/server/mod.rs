//! The MCP listener: accept, TLS, guard, the skills lane, the SDK for the rest.
//!
//! Imports `domain`, `gateway` and the leaves. A request goes `accept` → `guard` (Host, Origin, token; who asks) → `lane`; what the
//! lane does not own goes on to `rest`, the SDK's service, untouched. Outcomes become JSON-RPC in `lane::refusal` and
//! nowhere else; no path, address or secret of ours is in the words sent.

mod accept;
mod frames;
mod guard;
mod lane;
mod rest;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::middleware;
use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use http::StatusCode;
use http::header::ALLOW;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use http_body_util::LengthLimitError;
use http_body_util::Limited;

use crate::config::Server;
use crate::domain::Label;
use crate::gateway::Caller;
use crate::gateway::Gateway;
use crate::gateway::View;

pub use accept::Error;
pub use accept::bind;
pub use accept::serve;
use frames::Frames;
use guard::Guard;
use lane::Lane;
use lane::Outcome;
use lane::Reply;
use rest::Rest;

/// Everything that the routes share.
struct Shared {
    lane: Lane,
    gateway: Gateway,
    /// The SDK's service for each view.
    rest: HashMap<View, Rest>,
}

/// The routes `/mcp` (all origins) and `/mcp/<label>` (one), behind the guard; and those that are `public`, for whoever
/// means this gateway, without a token.
pub fn router(gateway: &Gateway, config: &Server, labels: &[Label], public: Router) -> Router {
    let views = labels.iter().cloned().map(View::Origin).chain([View::Merged]);
    let shared = Arc::new(Shared {
        lane: Lane::new(gateway.clone()),
        gateway: gateway.clone(),
        rest: views.map(|view| (view.clone(), rest::service(gateway, view))).collect(),
    });
    let guard = Arc::new(Guard::new(gateway.clone(), config));
    let open = Arc::new(Guard::without_token(gateway.clone(), config));
    Router::new()
        .route("/mcp", post(merged).fallback(only_post))
        .route("/mcp/{label}", post(of_origin).fallback(only_post))
        .with_state(shared)
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .merge(public.layer(middleware::from_fn_with_state(open, guard::check)))
}

async fn merged(State(shared): State<Arc<Shared>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    answer(&shared, &View::Merged, &caller, request).await
}

async fn of_origin(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(label): Path<String>,
    request: Request,
) -> Response {
    match label.parse().map(View::Origin) {
        Ok(view) if shared.rest.contains_key(&view) => answer(&shared, &view, &caller, request).await,
        Ok(_) | Err(_) => (StatusCode::NOT_FOUND, "no origin has this label").into_response(),
    }
}

/// Without sessions there is nothing to GET or DELETE (base protocol §8.1, §23.2).
async fn only_post() -> Response {
    (
        StatusCode::METHOD_NOT_ALLOWED,
        [(ALLOW, "POST")],
        "an MCP endpoint takes POST",
    )
        .into_response()
}

/// Reads the body within its bounds, lets the lane answer, and hands what it does not own to the SDK.
async fn answer(shared: &Shared, view: &View, caller: &Caller, request: Request) -> Response {
    let limits = shared.gateway.limits();
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(limits.request_time, Limited::new(body, limits.request_bytes).collect()).await;
    let body = match read {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return (
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is over server's limit on bytes",
            )
                .into_response();
        }
        Ok(Err(_broken)) => return StatusCode::BAD_REQUEST.into_response(),
        Err(_elapsed) => return (StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive").into_response(),
    };
    match shared.lane.answer(view, caller, &parts.headers, &body).await {
        Outcome::Reply(reply) => reply.into_response(),
        Outcome::Pass => match shared.rest.get(view) {
            Some(rest) => rest::pass(rest, parts, body).await,
            None => StatusCode::NOT_FOUND.into_response(),
        },
    }
}

impl Reply {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match <[Bytes; 1]>::try_from(self.frames) {
            Ok([whole]) => Body::from(whole),
            Err(frames) if frames.is_empty() => return status.into_response(),
            Err(frames) => Body::new(Frames::from(frames)),
        };
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}
