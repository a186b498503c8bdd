//! The doors for hosts: HTTP, WebSocket, a local socket, standard input and output. Behind each stand the skills lane and
//! the SDK for the rest.
//!
//! Imports `domain`, `gateway` and the leaves. A request goes `accept` → `guard` (Host, Origin, token; who asks) → `endpoint`
//! or `websocket`; what comes over a stream of messages, from `websocket` or `local`, goes through `stream`. All ask `lane`
//! first; what it does not own goes on to `rest`, the SDK's service, untouched. Outcomes become JSON-RPC in `lane::refusal`
//! and nowhere else; no path, address or secret of ours is in the words sent.

mod accept;
mod batch;
mod endpoint;
mod frames;
#[cfg(fuzzing)]
pub mod fuzzed;
mod guard;
mod held;
mod lane;
mod local;
mod rest;
mod sessions;
mod stream;
mod websocket;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::extract::Path;
use axum::extract::Request;
use axum::extract::State;
use axum::middleware;
use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::routing::any;
use http::StatusCode;
use tokio::net::UnixListener;

use crate::config::Config;
use crate::config::Server;
use crate::domain::Label;
use crate::gateway::Caller;
use crate::gateway::Gateway;
use crate::gateway::View;

pub use accept::Error;
pub use accept::bind;
pub use accept::serve;
use guard::Guard;
use lane::Lane;
pub use local::BridgeError;
pub use local::SocketError;
pub use local::bind_socket;
pub use local::bridge;
use rest::Rest;
use sessions::Owner;
use sessions::Sessions;

/// Every way in for hosts. Cheap to clone.
#[derive(Clone)]
pub struct Doors(Arc<Shared>);

/// Everything that they share.
struct Shared {
    lane: Lane,
    gateway: Gateway,
    guard: Arc<Guard>,
    sessions: Arc<Sessions>,
    /// The SDK's service for each view.
    rest: HashMap<View, Rest>,
}

impl Doors {
    /// Doors to all origins, and to each one alone.
    pub fn new(gateway: &Gateway, config: &Config) -> Self {
        let labels = config.origins.iter().map(|origin| origin.label.clone());
        let views = labels.map(View::Origin).chain([View::Merged]);
        let rest = |view: View| (view.clone(), Rest::new(gateway, view, config.bridge));
        Self(Arc::new(Shared {
            lane: Lane::new(gateway.clone()),
            gateway: gateway.clone(),
            guard: Arc::new(Guard::new(gateway.clone(), &config.server)),
            sessions: Arc::new(Sessions::new(gateway.limits(), gateway.shutdown().clone())),
            rest: views.map(rest).collect(),
        }))
    }

    /// The routes `/mcp` and `/ws` (all origins), `/mcp/<label>` and `/ws/<label>` (one), behind the guard; and those that
    /// are `public`, for whoever means this gateway, without a token.
    pub fn router(&self, config: &Server, public: Router) -> Router {
        let open = Arc::new(Guard::without_token(self.0.gateway.clone(), config));
        let guard = Arc::clone(&self.0.guard);
        Router::new()
            .route("/mcp", any(exchange))
            .route("/mcp/{label}", any(exchange))
            .route("/ws", any(socket))
            .route("/ws/{label}", any(socket))
            .with_state(Arc::clone(&self.0))
            .layer(middleware::from_fn_with_state(guard, guard::check))
            .merge(public.layer(middleware::from_fn_with_state(open, guard::check)))
    }

    /// Serves hosts' bridges on a socket until the end begins.
    pub async fn serve_socket(self, listener: UnixListener) {
        local::serve_socket(self.0, listener).await;
    }

    /// Serves the host that started this very process, until it closes standard input or the end begins.
    ///
    /// # Errors
    ///
    /// When no origin has the label, in words.
    pub async fn serve_stdio(self, origin: Option<&Label>) -> Result<(), String> {
        local::serve_stdio(self.0, origin).await
    }
}

impl Shared {
    /// The view that is meant: of one origin, or of all.
    fn view(&self, origin: Option<&str>) -> Result<View, String> {
        let Some(origin) = origin else {
            return Ok(View::Merged);
        };
        let view = origin.parse().map(View::Origin).ok();
        view.filter(|view| self.rest.contains_key(view))
            .ok_or_else(|| "no origin has this label".to_owned())
    }

    /// Where somebody speaks, or that there is no such place.
    fn owner(&self, caller: Caller, origin: Option<&str>) -> Result<Owner, Box<Response>> {
        match self.view(origin) {
            Ok(view) => Ok(Owner { caller, view }),
            Err(words) => Err(Box::new((StatusCode::NOT_FOUND, words).into_response())),
        }
    }
}

async fn exchange(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    label: Option<Path<String>>,
    request: Request,
) -> Response {
    match shared.owner(caller, label.as_deref().map(String::as_str)) {
        Ok(owner) => endpoint::answer(&shared, &owner, request).await,
        Err(refusal) => *refusal,
    }
}

async fn socket(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    label: Option<Path<String>>,
    request: Request,
) -> Response {
    match shared.owner(caller, label.as_deref().map(String::as_str)) {
        Ok(owner) => websocket::open(&shared, owner, request),
        Err(refusal) => *refusal,
    }
}
