//! The HTTP client under the SDK's transport: it takes the text of answers to our own requests before the SDK types it.
//!
//! A request that carries a [`Sink`] in its extensions is posted here; its response's text goes into the sink, capped
//! while it streams, and the SDK is told that an empty result came, so that ids, sessions and cancellation stay its own.
//! Every other message goes through the SDK's client untouched; streams of what origins say unasked are not opened.

use std::collections::HashMap;
use std::sync::Arc;

use ::http::HeaderName;
use ::http::HeaderValue;
use ::http::StatusCode;
use ::http::header::ACCEPT;
use ::http::header::CONTENT_TYPE;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::EmptyObject;
use rmcp::model::GetExtensions as _;
use rmcp::model::RequestId;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::model::ServerResult;
use rmcp::transport::streamable_http_client::StreamableHttpClient;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::streamable_http_client::StreamableHttpPostResponse;
use rmcp::transport::streamable_http_client::StreamableHttpResponseLimits;
use sse_stream::Error as SseError;
use sse_stream::Sse;
use sse_stream::SseStream;

use super::Error;
use super::answer::Envelope;

/// The header that names a legacy session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Where the text of one answer goes.
#[derive(Clone)]
pub(super) struct Sink {
    cap: u64,
    /// Filled once, by whoever posts the request; held for a move.
    answer: Arc<Mutex<Option<Result<String, Error>>>>,
}

impl Sink {
    /// A sink for an answer of at most `cap` bytes.
    pub(super) fn new(cap: u64) -> Self {
        Self {
            cap,
            answer: Arc::default(),
        }
    }

    /// The result's text, once the request is over.
    pub(super) fn take(&self) -> Option<Result<String, Error>> {
        self.answer.lock().take()
    }
}

/// The SDK's HTTP client with a tap in it.
#[derive(Clone)]
pub(super) struct TappedClient(pub(super) reqwest::Client);

/// The name that the SDK has for the client's failures.
pub(super) type SdkError = StreamableHttpError<reqwest::Error>;

/// One request of ours on its way.
struct Post<'a> {
    uri: &'a str,
    message: &'a ClientJsonRpcMessage,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl TappedClient {
    /// Posts a request of ours and gives its result's text.
    ///
    /// The outer error is for the SDK, which opens a new session and posts again.
    async fn tap(&self, post: Post<'_>, cap: u64) -> Result<Result<String, Error>, SdkError> {
        let mut request = self
            .0
            .post(post.uri)
            .header(ACCEPT, "application/json, text/event-stream")
            .headers(post.headers.into_iter().collect());
        let in_session = post.session.is_some();
        if let Some(session) = post.session {
            request = request.header(SESSION, session.as_ref());
        }
        let response = match request.json(post.message).send().await {
            Ok(response) => response,
            Err(error) => return Ok(Err(unreachable_origin(&error))),
        };
        match response.status() {
            StatusCode::NOT_FOUND if in_session => return Err(StreamableHttpError::SessionExpired),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                return Ok(Err(Error::Unauthorized(status.as_u16())));
            }
            _ => {}
        }
        Ok(read(response, &request_id(post.message), cap).await)
    }
}

/// The JSON text of a request's id.
fn request_id(message: &ClientJsonRpcMessage) -> String {
    match message {
        ClientJsonRpcMessage::Request(request) => serde_json::to_string(&request.id).unwrap_or_default(),
        ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Notification(_) | ClientJsonRpcMessage::Error(_) => {
            String::new()
        }
    }
}

/// Our own words for why no connection came about: the library's may hold the address.
fn unreachable_origin(error: &reqwest::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Error::Unreachable(cause.to_string())
}

/// Reads a response, JSON or event stream, to the answer with `id`.
pub(super) async fn read(response: reqwest::Response, id: &str, cap: u64) -> Result<String, Error> {
    let status = response.status();
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let bytes = capped(response, cap);
    match essence.as_str() {
        "text/event-stream" if status.is_success() => read_events(bytes, id).await,
        "application/json" => match opened(&collect(bytes).await?, id) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) if status.is_success() => Err(Error::Malformed("it answers another request".to_owned())),
            Err(Error::Malformed(why)) if status.is_success() => Err(Error::Malformed(why)),
            Ok(None) | Err(Error::Malformed(_)) => Err(Error::Status(status.as_u16())),
            Err(error) => Err(error),
        },
        _ if status.is_success() => Err(Error::Malformed(format!("its content type is {essence:?}"))),
        _ => Err(Error::Status(status.as_u16())),
    }
}

/// The result in a JSON-RPC message, if the message answers `id`; an error without an id is ours too, since one answer
/// belongs to one POST.
fn opened(message: &[u8], id: &str) -> Result<Option<String>, Error> {
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

async fn read_events(bytes: BoxStream<'static, Result<bytes::Bytes, Error>>, id: &str) -> Result<String, Error> {
    let broke = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&broke);
    // The parser has its own error type, so ours waits beside it.
    let bytes = bytes.map(move |chunk| {
        chunk.map_err(|error| {
            let words = error.to_string();
            *noted.lock() = Some(error);
            std::io::Error::other(words)
        })
    });
    let mut events = SseStream::from_bytes_stream(bytes);
    while let Some(event) = events.next().await {
        let event = event.map_err(|error: SseError| {
            broke
                .lock()
                .take()
                .unwrap_or_else(|| Error::Malformed(format!("its event stream: {error}")))
        })?;
        let Some(data) = event.data.filter(|data| !data.is_empty()) else {
            continue;
        };
        if let Some(answer) = opened(data.as_bytes(), id)? {
            return Ok(answer);
        }
    }
    Err(Error::Unreachable(
        "the event stream ended without an answer".to_owned(),
    ))
}

/// The body, ended with an error once it is longer than `cap`.
fn capped(response: reqwest::Response, cap: u64) -> BoxStream<'static, Result<bytes::Bytes, Error>> {
    let mut seen = 0;
    let chunk = move |chunk: Result<bytes::Bytes, reqwest::Error>| {
        let chunk = chunk.map_err(|error| unreachable_origin(&error))?;
        seen += chunk.len() as u64;
        if seen > cap {
            Err(Error::TooLong { limit: cap })
        } else {
            Ok(chunk)
        }
    };
    response.bytes_stream().map(chunk).boxed()
}

async fn collect(mut bytes: BoxStream<'static, Result<bytes::Bytes, Error>>) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = bytes.next().await {
        body.extend_from_slice(&chunk?);
    }
    Ok(body)
}

/// What the SDK is told instead of the answer: the request with `id` is over.
fn over(id: RequestId) -> StreamableHttpPostResponse {
    let nothing = ServerResult::EmptyResult(EmptyObject {});
    StreamableHttpPostResponse::Json(ServerJsonRpcMessage::response(nothing, id), None)
}

impl StreamableHttpClient for TappedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, SdkError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, SdkError> {
        let tapped = match &message {
            ClientJsonRpcMessage::Request(request) => request
                .request
                .extensions()
                .get::<Sink>()
                .cloned()
                .map(|sink| (sink, request.id.clone())),
            ClientJsonRpcMessage::Response(_)
            | ClientJsonRpcMessage::Notification(_)
            | ClientJsonRpcMessage::Error(_) => None,
        };
        let Some((sink, id)) = tapped else {
            let client = &self.0;
            return client
                .post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
                .await;
        };
        let post = Post {
            uri: &uri,
            message: &message,
            session: session_id,
            headers: custom_headers,
        };
        let answer = self.tap(post, sink.cap).await?;
        *sink.answer.lock() = Some(answer);
        Ok(over(id))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), SdkError> {
        self.0
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    /// Opens none: nobody here listens to what an origin says unasked, and a stream that closes at once would be opened over
    /// and over, one that never ends an event would be kept in memory.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, SdkError> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
