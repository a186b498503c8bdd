//! Who may speak at all: the Host that was meant, the page that asks, the token (base protocol §8.1, §21). And who it is that
//! speaks: whoever shows a token, else whoever has the address that `accept` saw.

use std::sync::Arc;

use axum::extract::Request;
use axum::extract::State;
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use axum::response::Response;
use http::HeaderMap;
use http::StatusCode;
use http::header::AUTHORIZATION;
use http::header::HOST;
use http::header::ORIGIN;
use http::header::WWW_AUTHENTICATE;

use crate::config::Auth;
use crate::config::Server;
use crate::gateway::Caller;
use crate::gateway::Gateway;

/// What requests must have before they are looked at.
pub(super) struct Guard {
    gateway: Gateway,
    hosts: Vec<String>,
    origins: Vec<String>,
    auth: Auth,
}

impl Guard {
    pub(super) fn new(gateway: Gateway, config: &Server) -> Self {
        Self {
            gateway,
            hosts: config.hosts.iter().map(|host| host.as_str().to_owned()).collect(),
            origins: config.origins.iter().map(|origin| origin.as_str().to_owned()).collect(),
            auth: config.auth,
        }
    }

    /// The same for what needs no token.
    pub(super) fn without_token(gateway: Gateway, config: &Server) -> Self {
        Self {
            auth: Auth::None,
            ..Self::new(gateway, config)
        }
    }

    /// Who asks, or the refusal of a request.
    fn admit(&self, request: &Request) -> Result<Caller, Box<Response>> {
        let headers = request.headers();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
        if !host.is_some_and(|host| self.is_our_host(host)) {
            let words = "this Host is not one that the gateway answers to; its operator can add it to server.hosts";
            return Err(Box::new((StatusCode::FORBIDDEN, words).into_response()));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let known = origin
                .to_str()
                .is_ok_and(|origin| self.may_ask(origin, host.unwrap_or_default()));
            if !known {
                let words = "this Origin may not ask; the gateway's operator can add it to server.origins";
                return Err(Box::new((StatusCode::FORBIDDEN, words).into_response()));
            }
        }
        match self.auth {
            Auth::None => {
                let known = request.extensions().get::<Caller>().cloned();
                known.ok_or_else(|| Box::new(StatusCode::INTERNAL_SERVER_ERROR.into_response()))
            }
            Auth::Token => self.token(headers).ok_or_else(|| {
                let challenge = [(WWW_AUTHENTICATE, "Bearer")];
                Box::new((StatusCode::UNAUTHORIZED, challenge, "a valid token is needed").into_response())
            }),
        }
    }

    /// A page of an origin that is configured, or one that was served from the very host asked, which was checked.
    fn may_ask(&self, origin: &str, host: &str) -> bool {
        let place = origin.split_once("://").map(|(_, place)| place);
        self.origins.iter().any(|known| known == origin) || place == Some(host)
    }

    /// Compares the name without its port.
    fn is_our_host(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name,
            Some(_) | None => host,
        };
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether who was let in still would be, for a connection that lasts.
    pub(super) fn still_admits(&self, headers: &HeaderMap) -> bool {
        match self.auth {
            Auth::None => true,
            Auth::Token => self.token(headers).is_some(),
        }
    }

    fn token(&self, headers: &HeaderMap) -> Option<Caller> {
        let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok())?;
        let (scheme, secret) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.gateway.caller_with_token(secret.trim())
    }
}

/// Lets a request through with who asks, or refuses it before anything of it is processed.
pub(super) async fn check(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    match guard.admit(&request) {
        Ok(caller) => {
            if guard.auth == Auth::Token {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(refusal) => *refusal,
    }
}
