//! Where the text of an answer goes that the SDK must not type, and how it is told from everything else.
//!
//! A request that carries a [`Sink`] in its extensions is ours. Every transport looks for the message that answers it,
//! gives the text inside to the sink, and tells the SDK that an empty result came.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use ::http::HeaderName;
use ::http::HeaderValue;
use parking_lot::Mutex;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::EmptyObject;
use rmcp::model::GetExtensions as _;
use rmcp::model::RequestId;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::model::ServerResult;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Error;
use super::answer::Envelope;
use super::relay::Interim;
use crate::domain::parameters::PARAMETER_PREFIX;

/// Notices that are about one request.
const NOTICES: [&str; 2] = ["notifications/progress", "notifications/message"];

/// A notification as far as it matters here.
#[derive(Deserialize)]
struct Notice {
    #[serde(default)]
    id: Option<IgnoredAny>,
    method: String,
    #[serde(default)]
    params: Value,
}

/// Where the text of one answer goes.
#[derive(Clone)]
pub(super) struct Sink {
    cap: u64,
    /// What else belongs to a request that is relayed.
    relayed: Option<Arc<Relayed>>,
    inner: Arc<Inner>,
}

/// What else belongs to a request that is relayed.
struct Relayed {
    /// Where progress and log messages go.
    interim: mpsc::Sender<Interim>,
    /// Header fields of its own, where it goes over HTTP.
    fields: Vec<(HeaderName, HeaderValue)>,
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
            relayed: None,
            inner: Arc::default(),
        }
    }

    /// A sink for the answer to a request that is relayed: what comes before it goes to `interim`; `fields` are arguments
    /// that are repeated in header fields, by their names without prefix.
    pub(super) fn relaying(cap: u64, interim: mpsc::Sender<Interim>, fields: Vec<(String, String)>) -> Self {
        let field = |(name, value): (String, String)| {
            let name = format!("{PARAMETER_PREFIX}{name}").parse().ok()?;
            Some((name, HeaderValue::try_from(value).ok()?))
        };
        let fields = fields.into_iter().filter_map(field).collect();
        Self {
            relayed: Some(Arc::new(Relayed { interim, fields })),
            ..Self::new(cap)
        }
    }

    /// Header fields of the request's own.
    pub(super) fn fields(&self) -> &[(HeaderName, HeaderValue)] {
        self.relayed.as_ref().map_or(&[], |relayed| &relayed.fields)
    }

    /// Where a message that came before the answer goes: the notice in it, and who waits for it. None when it is for the SDK.
    pub(super) fn notice(&self, message: &[u8]) -> Option<(mpsc::Sender<Interim>, Interim)> {
        let relayed = self.relayed.as_ref()?;
        let notice: Notice = serde_json::from_slice(message).ok()?;
        let is_notice = notice.id.is_none() && NOTICES.contains(&notice.method.as_str());
        is_notice.then(|| {
            let Notice { method, params, .. } = notice;
            (relayed.interim.clone(), Interim::Notice { method, params })
        })
    }

    /// Says whether progress and log messages are waited for.
    pub(super) fn is_relaying(&self) -> bool {
        self.relayed.is_some()
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
