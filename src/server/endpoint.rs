//! The MCP endpoint over HTTP (base protocol §8, §23.2): a POST for each message, and for sessions of older revisions GET and
//! DELETE too.
//!
//! A request of the newest revision is answered from itself alone, whatever session it names. An older one may name a
//! session, or go without: then what the lane answers is answered as ever, and the SDK answers the rest without a session.

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use http::HeaderName;
use http::Method;
use http::StatusCode;
use http::header::ALLOW;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::BodyExt as _;
use http_body_util::LengthLimitError;
use http_body_util::Limited;

use super::Shared;
use super::batch;
use super::frames::Frames;
use super::held::Held;
use super::lane::Id;
use super::lane::Kind;
use super::lane::Message;
use super::lane::Outcome;
use super::lane::PROTOCOL_VERSION;
use super::lane::Refusal;
use super::lane::Reply;
use super::lane::SUPPORTED;
use super::lane::is_batch;
use super::rest;
use super::sessions::InUse;
use super::sessions::Owner;

/// The header that names a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The method whose answer has no end of its own.
const LISTEN: &str = "subscriptions/listen";

/// What is to become of a message that the lane does not answer.
enum Way {
    /// It opens a session, of this revision if it can.
    Opens(Option<String>),
    /// It goes into a session.
    Goes(InUse, String),
    /// It has none.
    Alone,
}

/// Answers a request to an endpoint.
pub(super) async fn answer(shared: &Shared, owner: &Owner, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match parts.method {
        Method::POST => match read(shared, body).await {
            Ok(body) if is_batch(&body) => batch::answer(shared, owner, parts, &body).await,
            Ok(body) => message(shared, owner, parts, body).await,
            Err(refusal) => refusal,
        },
        Method::GET | Method::DELETE => match session(&parts.headers) {
            Some(id) => stream_or_end(shared, owner, &id, Request::from_parts(parts, body)).await,
            // Without a session there is nothing to GET or DELETE (base protocol §8.1, §23.2).
            None => not_allowed("POST", "GET and DELETE belong to a session; send messages by POST"),
        },
        _ => not_allowed("GET, POST, DELETE", "an MCP endpoint takes POST"),
    }
}

fn not_allowed(allowed: &'static str, words: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, allowed)], words).into_response()
}

/// Reads a body within its bounds.
async fn read(shared: &Shared, body: Body) -> Result<Bytes, Response> {
    let limits = shared.gateway.limits();
    let read = tokio::time::timeout(limits.request_time, Limited::new(body, limits.request_bytes).collect()).await;
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let words = "the request is over server's limit on bytes";
            Err((StatusCode::PAYLOAD_TOO_LARGE, words).into_response())
        }
        Ok(Err(_broken)) => Err(StatusCode::BAD_REQUEST.into_response()),
        Err(_elapsed) => Err((StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive").into_response()),
    }
}

/// Lets the lane answer a message, and hands what it does not own to the SDK.
pub(super) async fn message(shared: &Shared, owner: &Owner, parts: Parts, body: Bytes) -> Response {
    let message = match Message::read(&body) {
        Ok(message) => message,
        Err(refusal) => return refusal.reply(None).into_response(),
    };
    let way = match Way::of(shared, owner, &parts.headers, &message) {
        Ok(way) => way,
        Err(refusal) => return refusal.reply(message.id()).into_response(),
    };
    let answered = shared
        .lane
        .answer(&owner.view, &owner.caller, Some(&parts.headers), &message)
        .await;
    if let Outcome::Reply(reply) = answered {
        return reply.into_response();
    }
    let listens = message.method_name() == Some(LISTEN);
    let id = message.id().map(str::to_owned);
    let request = match renamed(parts, &body) {
        Ok(request) => request,
        Err(refusal) => return refusal.reply(id.as_deref()).into_response(),
    };
    pass(shared, owner, way, request).await.map_or_else(
        |refusal| refusal.reply(id.as_deref()).into_response(),
        |(response, in_use)| hold(shared, response, in_use, listens),
    )
}

/// A message as the SDK is given it: one that is relayed, under its name inside.
fn renamed(mut parts: Parts, body: &Bytes) -> Result<Request, Refusal> {
    let body = match rest::way_of(body) {
        rest::Way::AsItIs => body.clone(),
        rest::Way::Renamed(method, renamed) => {
            rest::rename_header(&mut parts.headers, method);
            renamed
        }
        rest::Way::Forged(method) => return Err(Refusal::Unoffered(method)),
    };
    Ok(Request::from_parts(parts, Body::from(body)))
}

impl Way {
    fn of(shared: &Shared, owner: &Owner, headers: &HeaderMap, message: &Message<'_>) -> Result<Self, Refusal> {
        if message.method_name() == Some("initialize") && !message.is_modern() {
            return Ok(Self::Opens(message.handshake().map(|version| version.into_owned())));
        }
        let Some(session) = session(headers).filter(|_| !message.is_modern()) else {
            return Ok(Self::Alone);
        };
        let request = match message.kind() {
            Kind::Request => message.id().and_then(Id::read),
            Kind::Notification | Kind::Response => None,
        };
        let in_use = shared.sessions.enter(&session, owner, request)?;
        Ok(Self::Goes(in_use, session))
    }
}

/// Has the SDK answer a message.
async fn pass(
    shared: &Shared,
    owner: &Owner,
    way: Way,
    mut request: Request,
) -> Result<(Response, Option<InUse>), Refusal> {
    let Some(rest) = shared.rest.get(&owner.view) else {
        return Ok((StatusCode::NOT_FOUND.into_response(), None));
    };
    Ok(match way {
        Way::Alone => (rest.pass(request).await, None),
        Way::Opens(version) => {
            if !shared.sessions.has_room() {
                return Err(Refusal::Full);
            }
            // Whoever begins anew may still name the session that was lost.
            request.headers_mut().remove(SESSION);
            let door = shared.sessions.door(owner, version.as_deref());
            (rest.pass_in_session(door, request).await, None)
        }
        Way::Goes(in_use, session) => {
            let version = shared.sessions.version(&session, owner);
            let door = shared
                .sessions
                .door(owner, version.as_ref().map(|version| version.as_str()));
            (rest.pass_in_session(door, request).await, Some(in_use))
        }
    })
}

/// Opens the stream of a session, or ends the session.
async fn stream_or_end(shared: &Shared, owner: &Owner, session: &str, request: Request) -> Response {
    let in_use = match shared.sessions.enter(session, owner, None) {
        Ok(in_use) => in_use,
        Err(refusal) => return refusal.reply(None).into_response(),
    };
    let passed = pass(shared, owner, Way::Goes(in_use, session.to_owned()), request).await;
    passed.map_or_else(
        |refusal| refusal.reply(None).into_response(),
        |(response, in_use)| hold(shared, response, in_use, true),
    )
}

/// Keeps a session in use while an answer goes out; what has no end of its own ends with the process.
fn hold(shared: &Shared, response: Response, in_use: Option<InUse>, is_endless: bool) -> Response {
    response.map(|body| {
        let held = Held::new(body, in_use);
        Body::new(if is_endless {
            held.ending_with(shared.gateway.shutdown())
        } else {
            held
        })
    })
}

/// The session that a request of an older revision names; headers of the newest name none.
pub(super) fn session(headers: &HeaderMap) -> Option<String> {
    let is_modern = headers
        .get(PROTOCOL_VERSION)
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| SUPPORTED.contains(&version.trim()));
    let session = headers.get(SESSION).filter(|_| !is_modern)?;
    Some(session.to_str().unwrap_or_default().to_owned())
}

impl Reply {
    /// The answer over HTTP.
    pub(super) fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match <[Bytes; 1]>::try_from(self.frames) {
            Ok([whole]) => Body::from(whole),
            Err(frames) if frames.is_empty() => return status.into_response(),
            Err(frames) => Body::new(Frames::from(frames)),
        };
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}
