//! Arrays of messages, which revision 2025-03-26 alone has (base protocol §23.4): each message is answered in turn.

use axum::response::IntoResponse as _;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::BodyExt as _;
use http_body_util::Limited;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Shared;
use super::endpoint;
use super::lane::Message;
use super::lane::PROTOCOL_VERSION;
use super::lane::Refusal;
use super::sessions::Owner;

/// The revision that has them.
pub(super) const REVISION: &str = "2025-03-26";

/// Messages in one batch.
const MAX_MESSAGES: usize = 64;

/// Bytes of all answers to one batch.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// What is said where there is no such thing.
const NOT_HERE: Refusal = Refusal::Invalid("batches are not taken in this revision; send one message a request");

/// Takes a batch apart.
///
/// # Errors
///
/// When it is no array of messages, holds none, or too many.
pub(super) fn messages(batch: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let messages: Vec<&RawValue> = serde_json::from_slice(batch).map_err(|_| Refusal::Parse)?;
    if messages.is_empty() {
        return Err(Refusal::Invalid("the batch is empty"));
    }
    if messages.len() > MAX_MESSAGES {
        return Err(Refusal::Invalid(
            "the batch holds too many messages; send at most 64 at once",
        ));
    }
    Ok(messages
        .into_iter()
        .map(|message| batch.slice_ref(message.get().as_bytes()))
        .collect())
}

/// Answers a batch, if the host's revision has them.
pub(super) async fn answer(shared: &Shared, owner: &Owner, parts: Parts, body: &Bytes) -> Response {
    let whole = |refusal: &Refusal| refusal.reply(None).into_response();
    let session = endpoint::session(&parts.headers);
    // Without a session nothing was agreed on; the header did not exist in this revision.
    let agreed = match &session {
        Some(session) => match shared.sessions.enter(session, owner, None) {
            Ok(_in_use) => shared.sessions.version(session, owner),
            Err(refusal) => return whole(&refusal),
        },
        None => None,
    };
    let named = parts.headers.get(PROTOCOL_VERSION);
    let has_batches = match &agreed {
        Some(version) => version.as_str() == REVISION,
        None => named.is_none_or(|version| version == REVISION),
    };
    if !has_batches {
        return whole(&NOT_HERE);
    }
    let messages = match messages(body) {
        Ok(messages) => messages,
        Err(refusal) => return whole(&refusal),
    };
    let mut answers: Vec<Bytes> = Vec::new();
    for message in messages {
        let room = MAX_BYTES.saturating_sub(answers.iter().map(Bytes::len).sum());
        match one(shared, owner, parts.clone(), message, room).await {
            Ok(answer) => answers.extend(answer),
            Err(response) => return *response,
        }
    }
    if answers.is_empty() {
        return StatusCode::ACCEPTED.into_response();
    }
    let joined = [b"[".as_slice(), &answers.join(b",".as_slice()), b"]"].concat();
    ([(CONTENT_TYPE, "application/json")], joined).into_response()
}

/// One message's answer, if it has one; an answer that is no message is the answer to the whole batch.
async fn one(
    shared: &Shared,
    owner: &Owner,
    parts: Parts,
    body: Bytes,
    room: usize,
) -> Result<Option<Bytes>, Box<Response>> {
    let opened = Message::read(&body);
    let is_handshake = opened
        .as_ref()
        .is_ok_and(|message| message.method_name() == Some("initialize"));
    let id = opened.ok().and_then(|message| message.id().map(str::to_owned));
    let refused = |why| Ok(refusal_text(&Refusal::Invalid(why), id.as_deref()));
    if is_handshake {
        return refused("initialize is not part of a batch");
    }
    let response = endpoint::message(shared, owner, parts, body).await;
    if response.status() == StatusCode::ACCEPTED {
        return Ok(None);
    }
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .map(|kind| kind.as_bytes().to_vec());
    let is_stream = kind.as_ref().is_some_and(|kind| kind.starts_with(b"text/event-stream"));
    if !is_stream && !kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
        return Err(Box::new(response));
    }
    let Ok(collected) = Limited::new(response.into_body(), room).collect().await else {
        return refused("the answers to this batch are too large together; send fewer messages at once");
    };
    let text = collected.to_bytes();
    Ok(if is_stream { last_answer(&text) } else { Some(text) })
}

/// A refusal as one item.
fn refusal_text(refusal: &Refusal, id: Option<&str>) -> Option<Bytes> {
    refusal.reply(id).frames.into_iter().next()
}

/// The answer at the end of a stream; what came before it is not part of a batch's answer.
fn last_answer(stream: &[u8]) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let text = std::str::from_utf8(stream).ok()?;
    let data = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(str::trim);
    let answer = data.rev().find(|data| {
        serde_json::from_str::<Answer<'_>>(data).is_ok_and(|answer| answer.result.or(answer.error).is_some())
    });
    answer.map(|answer| Bytes::copy_from_slice(answer.as_bytes()))
}
