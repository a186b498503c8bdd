//! Where the text of an answer goes that the SDK must not type, and how it is told from everything else.
//!
//! A request that carries a [`Sink`] in its extensions is ours. Every transport looks for the message that answers it,
//! gives the text inside to the sink, and tells the SDK that an empty result came.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::EmptyObject;
use rmcp::model::GetExtensions as _;
use rmcp::model::RequestId;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::model::ServerResult;

use super::Error;
use super::answer::Envelope;

/// Where the text of one answer goes.
#[derive(Clone)]
pub(super) struct Sink {
    cap: u64,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Filled once, by whoever carries the request; held for a move.
    answer: Mutex<Option<Result<String, Error>>>,
    /// Whether the request was already sent again because its session was lost.
    is_second_try: AtomicBool,
}

impl Sink {
    /// A sink for an answer of at most `cap` bytes.
    pub(super) fn new(cap: u64) -> Self {
        Self {
            cap,
            inner: Arc::default(),
        }
    }

    /// The sink that a message carries, with the message's id.
    pub(super) fn of(message: &ClientJsonRpcMessage) -> Option<(Self, RequestId)> {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let sink = request.request.extensions().get::<Self>()?;
                Some((sink.clone(), request.id.clone()))
            }
            ClientJsonRpcMessage::Response(_)
            | ClientJsonRpcMessage::Notification(_)
            | ClientJsonRpcMessage::Error(_) => None,
        }
    }

    /// The most bytes that the answer may have, envelope included.
    pub(super) fn cap(&self) -> u64 {
        self.cap
    }

    /// Puts the answer in. Nothing that comes later counts.
    pub(super) fn put(&self, answer: Result<String, Error>) {
        self.inner.answer.lock().get_or_insert(answer);
    }

    /// The result's text, once the request is over.
    pub(super) fn take(&self) -> Option<Result<String, Error>> {
        self.inner.answer.lock().take()
    }

    /// Says whether nobody waits for the answer any more: whoever asks holds one of the two, the transport the other.
    pub(super) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Says whether the session may be made anew for this request; once.
    pub(super) fn may_try_again(&self) -> bool {
        !self.inner.is_second_try.swap(true, Ordering::Relaxed)
    }
}

/// What the SDK is told instead of the answer: the request with `id` is over.
pub(super) fn over(id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::response(ServerResult::EmptyResult(EmptyObject {}), id)
}

/// The JSON text of an id, as a peer that echoes it writes it.
pub(super) fn text_of(id: &RequestId) -> String {
    serde_json::to_string(id).unwrap_or_default()
}

/// The result in a JSON-RPC message, if the message answers `id`; an error without an id is ours too where one answer
/// belongs to one request.
pub(super) fn opened(message: &[u8], id: &str) -> Result<Option<String>, Error> {
    let envelope: Envelope<'_> =
        serde_json::from_slice(message).map_err(|error| Error::Malformed(error.to_string()))?;
    let answers_us = envelope.id.is_some_and(|given| given.get() == id);
    let is_anonymous = envelope.id.is_none_or(|given| given.get() == "null");
    match (envelope.result, envelope.error) {
        (None, Some(error)) if answers_us || (is_anonymous && envelope.method.is_none()) => Err(error.into()),
        (Some(result), None) if answers_us => Ok(Some(result.get().to_owned())),
        _ => Ok(None),
    }
}
