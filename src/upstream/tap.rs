//! The HTTP client under the SDK's transport: it takes the text of answers to our own requests before the SDK types it.
//!
//! A request that carries a [`Sink`] is posted here; its response's text goes into the sink, capped while it streams, and
//! the SDK is told that an empty result came, so that ids, sessions and cancellation stay its own. What comes before the
//! answer on an event stream goes to the SDK as it is, but for progress and log messages of a request that is relayed, which
//! go to whoever relays it. Every other message goes through the SDK's client untouched.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use ::http::HeaderName;
use ::http::HeaderValue;
use ::http::StatusCode;
use ::http::header::ACCEPT;
use ::http::header::CONTENT_TYPE;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::StreamExt as _;
use futures_util::stream;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::StreamableHttpClient;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::streamable_http_client::StreamableHttpPostResponse;
use rmcp::transport::streamable_http_client::StreamableHttpResponseLimits;
use sse_stream::Error as SseError;
use sse_stream::Sse;
use sse_stream::SseStream;
use tokio::sync::Notify;

use super::Error;
use super::http::innermost;
use super::pace::Pace;
use super::sink::Sink;
use super::sink::opened;
use super::sink::over;
use super::sink::text_of;

/// The header that names a legacy session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The header that says up to where a stream was heard.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How often one stream is taken up again.
const MAX_RESUMED: u32 = 8;

/// How long a server is left alone before that, unless it says otherwise.
const RESUME_WAIT: Duration = Duration::from_millis(200);

/// The longest that it may ask for.
const RESUME_LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Bytes of an event that an origin sends unasked.
const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// Bytes of a refusal that are looked at.
const REFUSAL_BYTES: u64 = 4096;

/// The SDK's HTTP client with a tap in it.
#[derive(Clone)]
pub(super) struct TappedClient {
    pub(super) client: reqwest::Client,
    pace: Arc<Pace>,
    /// Told when the stream of what the origin says unasked was opened: what it said before is lost.
    opened: Arc<Notify>,
}

/// The name that the SDK has for the client's failures.
pub(super) type SdkError = StreamableHttpError<reqwest::Error>;

/// One request of ours on its way.
struct Post<'a> {
    uri: &'a str,
    message: &'a ClientJsonRpcMessage,
    id: RequestId,
    sink: Sink,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl TappedClient {
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self {
            client,
            pace: Arc::default(),
            opened: Arc::default(),
        }
    }

    /// Waits until the stream of what the origin says unasked is opened.
    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Posts a request of ours, and puts its result's text into its sink, now or while the SDK reads the stream.
    ///
    /// The error is for the SDK, which opens a new session and posts again.
    async fn tap(&self, post: Post<'_>) -> Result<StreamableHttpPostResponse, SdkError> {
        let Post { id, sink, .. } = post;
        let mut request = self
            .client
            .post(post.uri)
            .header(ACCEPT, "application/json, text/event-stream")
            .headers(
                post.headers
                    .clone()
                    .into_iter()
                    .chain(sink.fields().iter().cloned())
                    .collect(),
            );
        let in_session = post.session.is_some();
        let resume = post.session.as_ref().map(|session| Resume {
            client: self.client.clone(),
            uri: post.uri.to_owned(),
            headers: [(SESSION, session.as_ref().parse().ok())]
                .into_iter()
                .chain(
                    post.headers
                        .clone()
                        .into_iter()
                        .map(|(name, value)| (name, Some(value))),
                )
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
            last: None,
            wait: RESUME_WAIT,
            left: MAX_RESUMED,
        });
        if let Some(session) = post.session {
            request = request.header(SESSION, session.as_ref());
        }
        let answer = match request.json(post.message).send().await {
            Err(error) => Err(unreachable_origin(&error)),
            Ok(response) => match response.status() {
                StatusCode::NOT_FOUND if in_session => return Err(StreamableHttpError::SessionExpired),
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    // Some servers answer so when they have forgotten a session.
                    if in_session && is_about_a_session(response).await && sink.may_try_again() {
                        return Err(StreamableHttpError::SessionExpired);
                    }
                    Err(Error::Unauthorized(status.as_u16()))
                }
                _ if is_event_stream(&response) => {
                    let events = Answering::new(response, id, sink, resume).into_stream();
                    return Ok(StreamableHttpPostResponse::Sse(events.boxed(), None));
                }
                _ => read(response, &text_of(&id), sink.cap()).await,
            },
        };
        sink.put(answer);
        Ok(StreamableHttpPostResponse::Json(over(id), None))
    }
}

/// Says whether a refusal's words are about a session rather than a credential.
async fn is_about_a_session(response: reqwest::Response) -> bool {
    let mut seen = Vec::new();
    let mut body = capped(response, REFUSAL_BYTES);
    while let Some(Ok(chunk)) = body.next().await {
        seen.extend_from_slice(&chunk);
    }
    String::from_utf8_lossy(&seen).to_ascii_lowercase().contains("session")
}

/// Our own words for why no connection came about: the library's may hold the address.
fn unreachable_origin(error: &reqwest::Error) -> Error {
    Error::Unreachable(innermost(error))
}

/// The media type of a response, without parameters.
fn kind_of(response: &reqwest::Response) -> String {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_event_stream(response: &reqwest::Response) -> bool {
    response.status().is_success() && kind_of(response) == "text/event-stream"
}

/// Reads a response that is no event stream to the answer with `id`.
async fn read(response: reqwest::Response, id: &str, cap: u64) -> Result<String, Error> {
    let (status, kind) = (response.status(), kind_of(&response));
    match kind.as_str() {
        "application/json" => match opened(&collect(capped(response, cap)).await?, id) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) if status.is_success() => Err(Error::Malformed("it answers another request".to_owned())),
            Err(Error::Malformed(why)) if status.is_success() => Err(Error::Malformed(why)),
            Ok(None) | Err(Error::Malformed(_)) => Err(Error::Status(status.as_u16())),
            Err(error) => Err(error),
        },
        _ if status.is_success() => Err(Error::Malformed(format!("its content type is {kind:?}"))),
        _ => Err(Error::Status(status.as_u16())),
    }
}

/// An event stream on which the answer to one request of ours is awaited.
struct Answering {
    events: BoxStream<'static, Result<Sse, SseError>>,
    /// Why the body broke: the parser has its own error type, so ours waits beside it.
    broke: Arc<Mutex<Option<Error>>>,
    id: RequestId,
    sink: Sink,
    resume: Option<Resume>,
    is_over: bool,
}

/// How a stream of before 2026-07-28 is taken up again that ended before its answer (base protocol §23.2, §26).
struct Resume {
    client: reqwest::Client,
    uri: String,
    /// The session, and what the operator has set.
    headers: HeaderMap,
    /// The last event that had an id.
    last: Option<String>,
    /// How long the server wants to be left alone.
    wait: Duration,
    /// How often it may still be tried.
    left: u32,
}

impl Resume {
    /// Takes note of how to go on after an event.
    fn note(&mut self, event: &Sse) {
        if let Some(id) = &event.id {
            self.last = Some(id.clone());
        }
        if let Some(wait) = event.retry {
            self.wait = Duration::from_millis(wait).min(RESUME_LONGEST_WAIT);
        }
    }

    /// The rest of the stream; none when there is no way to it.
    async fn response(&mut self) -> Option<reqwest::Response> {
        let last = self.last.clone().filter(|_| self.left > 0)?;
        self.left -= 1;
        tokio::time::sleep(self.wait).await;
        let get = self.client.get(&self.uri).headers(self.headers.clone());
        let get = get.header(ACCEPT, "text/event-stream").header(LAST_EVENT, last);
        get.send().await.ok().filter(is_event_stream)
    }
}

/// The events of a response, whose bytes are counted against the cap.
fn events_of(
    response: reqwest::Response,
    cap: u64,
    broke: &Arc<Mutex<Option<Error>>>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let noted = Arc::clone(broke);
    let bytes = capped(response, cap).map(move |chunk| {
        chunk.map_err(|error| {
            let words = error.to_string();
            *noted.lock() = Some(error);
            std::io::Error::other(words)
        })
    });
    SseStream::from_bytes_stream(bytes).boxed()
}

impl Answering {
    fn new(response: reqwest::Response, id: RequestId, sink: Sink, resume: Option<Resume>) -> Self {
        let broke = Arc::new(Mutex::new(None));
        Self {
            events: events_of(response, sink.cap(), &broke),
            broke,
            id,
            sink,
            resume,
            is_over: false,
        }
    }

    /// Takes the stream up again; says whether that came about.
    async fn take_up_again(&mut self) -> bool {
        let Some(resume) = &mut self.resume else {
            return false;
        };
        let Some(response) = resume.response().await else {
            return false;
        };
        self.events = events_of(response, self.sink.cap(), &self.broke);
        true
    }

    /// What the SDK is given: every event before the answer, then an empty result in the answer's place.
    fn into_stream(self) -> impl Stream<Item = Result<Sse, SseError>> + Send + 'static {
        stream::unfold(self, |mut answering| async move {
            let event = answering.next().await?;
            Some((Ok(event), answering))
        })
    }

    async fn next(&mut self) -> Option<Sse> {
        if self.is_over {
            // Read to its end, within the SDK's own patience, the connection can be used again.
            while let Some(Ok(_)) = self.events.next().await {}
            return None;
        }
        let id = text_of(&self.id);
        let answer = loop {
            let event = match self.events.next().await {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    let broke = self.broke.lock().take();
                    if matches!(broke, Some(Error::Unreachable(_))) && self.take_up_again().await {
                        continue;
                    }
                    break Err(broke.unwrap_or_else(|| Error::Malformed(format!("its event stream: {error}"))));
                }
                None if self.take_up_again().await => continue,
                None => {
                    break Err(Error::Unreachable(
                        "the event stream ended without an answer".to_owned(),
                    ));
                }
            };
            if let Some(resume) = &mut self.resume {
                resume.note(&event);
            }
            let Some(data) = event.data.as_ref().filter(|data| !data.is_empty()) else {
                continue;
            };
            if let Some((interim, notice)) = self.sink.notice(data.as_bytes()) {
                // Nobody may be there to hear it any more.
                let _heard = interim.send(notice).await.is_ok();
                continue;
            }
            match opened(data.as_bytes(), &id) {
                // Without an id: whether and where the stream is taken up again is ours to say.
                Ok(None) => {
                    return Some(Sse {
                        id: None,
                        retry: None,
                        ..event
                    });
                }
                Ok(Some(answer)) => break Ok(answer),
                Err(error) => break Err(error),
            }
        };
        self.sink.put(answer);
        self.is_over = true;
        let data = serde_json::to_string(&over(self.id.clone())).unwrap_or_default();
        Some(Sse {
            event: None,
            data: Some(data),
            id: None,
            retry: None,
        })
    }
}

/// What a fuzz target reads: the answer with `id`, however it comes.
#[cfg(fuzzing)]
pub(super) async fn read_any(response: reqwest::Response, id: RequestId, cap: u64) -> Result<String, Error> {
    if !is_event_stream(&response) {
        return read(response, &text_of(&id), cap).await;
    }
    let sink = Sink::new(cap);
    let mut events = Box::pin(Answering::new(response, id, sink.clone(), None).into_stream());
    while events.next().await.is_some() {}
    sink.take().unwrap_or(Err(Error::NotFound))
}

/// The body, ended with an error once it is longer than `cap`.
fn capped(response: reqwest::Response, cap: u64) -> BoxStream<'static, Result<Bytes, Error>> {
    let mut seen = 0;
    let chunk = move |chunk: Result<Bytes, reqwest::Error>| {
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

async fn collect(mut bytes: BoxStream<'static, Result<Bytes, Error>>) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = bytes.next().await {
        body.extend_from_slice(&chunk?);
    }
    Ok(body)
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
        let Some((sink, id)) = Sink::of(&message) else {
            let client = &self.client;
            return client
                .post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
                .await;
        };
        self.tap(Post {
            uri: &uri,
            message: &message,
            id,
            sink,
            session: session_id,
            headers: custom_headers,
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), SdkError> {
        self.client
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, SdkError> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MAX_EVENT_BYTES,
        )
        .await
    }

    /// Opens the stream of what an origin of before 2026-07-28 says unasked, with a wait that grows while it does not last.
    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _longest: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, SdkError> {
        self.pace.wait().await;
        let stream = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MAX_EVENT_BYTES,
        );
        let stream = stream.await?;
        self.opened.notify_one();
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the SDK is given of a stream, and what the sink is, where the answer with id 1 may have `cap` bytes.
    async fn given(stream: &'static str, cap: u64) -> (Vec<String>, Result<String, Error>) {
        let body = reqwest::Body::from(stream);
        let response = http::Response::builder().header(CONTENT_TYPE, "text/event-stream; charset=utf-8");
        let response = reqwest::Response::from(response.body(body).unwrap());
        assert!(is_event_stream(&response));
        let sink = Sink::new(cap);
        let events = Answering::new(response, RequestId::Number(1), sink.clone(), None).into_stream();
        let events: Vec<_> = events.collect().await;
        let events = events.into_iter().map(|event| event.unwrap());
        let data = events.inspect(|event| assert_eq!((&event.id, event.retry), (&None, None)));
        (data.filter_map(|event| event.data).collect(), sink.take().unwrap())
    }

    const OVER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    #[tokio::test]
    async fn what_comes_before_the_answer_goes_on_and_the_answer_does_not() {
        let progress =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let stream = concat!(
            ": hello\n\ndata: \nid: 0\nretry: 3000\n\n",
            r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
            "\nid: 7\n\n",
            r#"data: {"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "\n\n",
            r#"data: {"jsonrpc":"2.0","id":1,"result":{"b":1.10, "a":[]}}"#,
            "\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n",
        );
        let (events, answer) = given(stream, 1000).await;
        assert_eq!(events, [progress, request, OVER], "nothing comes after it");
        assert_eq!(answer, Ok(r#"{"b":1.10, "a":[]}"#.to_owned()));
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_or_is_too_long_is_over_for_the_sdk_too() {
        let error = r#"data: {"jsonrpc":"2.0","error":{"code":-32603,"message":"no"}}"#;
        let cases = [
            ("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"resu", 1000),
            ("data: {\"jsonrpc\":\n\n", 1000),
            ("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", 10),
            (error, 1000),
        ];
        for (stream, cap) in cases {
            let (events, answer) = given(stream, cap).await;
            assert_eq!(events, [OVER], "{stream}");
            let error = answer.unwrap_err();
            match cap {
                10 => assert_eq!(error, Error::TooLong { limit: 10 }),
                _ => assert!(matches!(
                    error,
                    Error::Unreachable(_) | Error::Malformed(_) | Error::Rpc { .. }
                )),
            }
        }
    }
}
