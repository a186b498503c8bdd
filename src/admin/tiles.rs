//! The log for auditors, read-only: C2SP tlog-tiles over HTTP.
//!
//! | path | answers |
//! | --- | --- |
//! | `/log/checkpoint` | the newest checkpoint, with the cosignatures that there are for it |
//! | `/log/cosigned` | the newest checkpoint that witnesses have cosigned |
//! | `/log/tile/<L>/<N>[.p/<W>]` | hashes |
//! | `/log/tile/entries/<N>[.p/<W>]` | leaves |
//!
//! A path is parsed as the name of a tile before anything is looked up. Whoever asks must mean this machine: a page whose
//! name was pointed at it (DNS rebinding) is refused.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::extract::State;
use axum::middleware;
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use http::Uri;
use http::header::CACHE_CONTROL;
use http::header::CONTENT_TYPE;
use http::header::HOST;
use http::uri::Authority;

use crate::config::HostName;
use crate::domain::audit::TileName;
use crate::gateway::Gateway;

/// A checkpoint is another one soon.
const OF_CHECKPOINTS: [(http::HeaderName, &str); 2] =
    [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-cache")];

/// A tile of a name never changes.
const OF_TILES: [(http::HeaderName, &str); 2] = [
    (CONTENT_TYPE, "application/octet-stream"),
    (CACHE_CONTROL, "public, max-age=31536000, immutable"),
];

/// The routes, for whatever listener they stand on.
pub fn router(gateway: &Gateway) -> Router {
    Router::new()
        .route("/log/checkpoint", get(checkpoint))
        .route("/log/cosigned", get(cosigned))
        .route("/log/tile/{*name}", get(tile))
        .with_state(gateway.clone())
}

/// The routes for a listener that has no other guard: asked for by an address, as `localhost`, or by one of our names.
pub(super) fn guarded(gateway: &Gateway, hosts: &[HostName]) -> Router {
    let hosts: Arc<[HostName]> = hosts.into();
    router(gateway).layer(middleware::from_fn_with_state(hosts, check))
}

async fn check(State(hosts): State<Arc<[HostName]>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let host = host.as_ref().or_else(|| request.uri().authority());
    if host.is_some_and(|host| is_ours(host.host(), &hosts)) {
        next.run(request).await
    } else {
        let words = "this Host is not one that the gateway answers to; its operator can add it to server.hosts";
        (StatusCode::FORBIDDEN, words).into_response()
    }
}

fn is_ours(host: &str, hosts: &[HostName]) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let named = |known: &HostName| known.as_str().eq_ignore_ascii_case(host);
    address.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost") || hosts.iter().any(named)
}

async fn checkpoint(State(gateway): State<Gateway>) -> Response {
    (OF_CHECKPOINTS, gateway.checkpoint()).into_response()
}

async fn cosigned(State(gateway): State<Gateway>) -> Response {
    match gateway.cosigned_checkpoint() {
        Some(checkpoint) => (OF_CHECKPOINTS, checkpoint).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The path is taken as it was sent: a tile has one name, and no escape in it.
async fn tile(State(gateway): State<Gateway>, uri: Uri) -> Response {
    let name = uri.path().strip_prefix("/log/").unwrap_or_default().parse::<TileName>();
    let Ok(name) = name else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match gateway.tile(name).await {
        Ok(Some(bytes)) => (OF_TILES, bytes).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::error!(%error, %name, "a tile cannot be read");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_ours_and_a_strange_name_is_not() {
        for (host, ours) in [
            ("127.0.0.1", true),
            ("[::1]", true),
            ("10.0.0.7", true),
            ("LocalHost", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_ours(host, &[]), ours, "{host}");
        }
    }
}
