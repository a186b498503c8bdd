//! An origin behind Streamable HTTP: one pooled client, our tap on it, and the words for what goes wrong there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderName;
use ::http::HeaderValue;
use ::http::header::ACCEPT;
use futures_util::StreamExt as _;
use rmcp::service::ClientInitializeError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use sse_stream::SseStream;

use super::Error;
use super::Settings;
use super::Web;
use super::tap::SdkError;
use super::tap::TappedClient;
use crate::config::Secret;
use crate::tls;

/// Headers that an operator configured for one origin. Their values are secrets, so `Debug` shows names alone.
#[derive(Clone, Default)]
pub struct Headers(HashMap<HeaderName, HeaderValue>);

impl Headers {
    /// The fields as they are sent; the configuration has made sure that each value can be.
    pub fn new(fields: &[(HeaderName, Secret)]) -> Self {
        let field = |(name, secret): &(HeaderName, Secret)| {
            let mut value = HeaderValue::from_str(secret.expose()).ok()?;
            value.set_sensitive(true);
            Some((name.clone(), value))
        };
        Self(fields.iter().filter_map(field).collect())
    }

    /// The fields, to be sent.
    pub(super) fn fields(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.0.clone().into_iter()
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// How long an idle connection is kept for the next miss.
const IDLE: Duration = Duration::from_secs(90);

/// Where an origin is, and what reaches it.
pub(super) struct Http {
    url: Arc<str>,
    client: TappedClient,
    headers: Headers,
    answer_bytes: usize,
}

impl Http {
    /// Makes ready to ask; nothing is sent yet.
    pub(super) fn new(settings: &Settings, web: &Web) -> Result<Self, Error> {
        Ok(Self {
            url: Arc::from(web.url.as_str()),
            client: TappedClient::new(client(settings, web.ca.as_deref())?),
            headers: web.headers.clone(),
            answer_bytes: settings.limits.answer_bytes,
        })
    }

    /// A transport for one session.
    pub(super) fn transport(&self) -> StreamableHttpClientTransport<TappedClient> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(Arc::clone(&self.url));
        config.custom_headers = self.headers.0.clone();
        config.max_json_response_size = self.answer_bytes;
        StreamableHttpClientTransport::with_client(self.client.clone(), config)
    }

    /// Waits until the stream of what the origin says unasked is opened.
    pub(super) async fn stream_opened(&self) {
        self.client.opened().await;
    }

    /// Why a handshake failed.
    pub(super) fn failure(&self, error: &ClientInitializeError) -> Error {
        let words = cause_of(error);
        refused_credential(error, &words)
            .map_or_else(|| Error::Unreachable(self.without_address(&words)), Error::Unauthorized)
    }

    /// An operator sees the address anyway; a host must not, whatever a library puts into its words.
    pub(super) fn without_address(&self, words: &str) -> String {
        words.replace(&*self.url, "<url>").chars().take(400).collect()
    }

    /// Says whether a GET gives a stream that begins as the transport of 2024-11-05 does (base protocol §23.3). Reads one
    /// event, no longer than an answer may be.
    pub(super) async fn is_of_2024(&self) -> bool {
        let headers = self.headers.fields().collect();
        let get = self.client.client.get(&*self.url).headers(headers);
        let Ok(response) = get.header(ACCEPT, "text/event-stream").send().await else {
            return false;
        };
        if !response.status().is_success() {
            return false;
        }
        let (mut seen, most) = (0, self.answer_bytes);
        let bytes = response.bytes_stream().take_while(move |chunk| {
            seen += chunk.as_ref().map_or(0, bytes::Bytes::len);
            std::future::ready(seen <= most)
        });
        match SseStream::from_bytes_stream(Box::pin(bytes)).next().await {
            Some(Ok(event)) => event.event.as_deref() == Some("endpoint"),
            Some(Err(_)) | None => false,
        }
    }
}

/// The status by which a handshake's credential was refused, with a challenge or without one.
fn refused_credential(error: &ClientInitializeError, words: &str) -> Option<u16> {
    if error.is_authorization_required() {
        return Some(401);
    }
    if error.auth_challenge().is_some() {
        return Some(403);
    }
    // Without a challenge the SDK keeps the status in its words alone.
    [401, 403]
        .into_iter()
        .find(|status| words.contains(&format!("HTTP {status} ")))
}

/// Says whether an origin refused a POST of `initialize` as one does that has no Streamable HTTP at this address.
pub(super) fn refused_post(error: &Error) -> bool {
    let words = error.to_string();
    [400, 404, 405]
        .into_iter()
        .any(|status| words.contains(&format!("HTTP {status} ")))
}

/// Why a handshake failed, in the words of its innermost cause.
fn cause_of(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::TransportError { error, .. } = error {
        // The SDK puts the names of its own types before this one's words, and does not call it a source.
        return innermost(error.error.as_ref());
    }
    innermost(error)
}

/// The words of the cause behind all others.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    loop {
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return tls::in_words(error);
        }
        // The SDK does not call its client's failure a source either, and an I/O error stands in for its cause.
        let client = match cause.downcast_ref() {
            Some(SdkError::Client(client)) => Some(client as &(dyn std::error::Error + 'static)),
            Some(_) | None => None,
        };
        let inside = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inside = inside.map(|inside| inside as &(dyn std::error::Error + 'static));
        cause = match client.or(inside).or_else(|| cause.source()) {
            Some(next) => next,
            None => return cause.to_string().trim_end_matches([':', ' ']).to_owned(),
        }
    }
}

/// A pooled client of this origin's own: the SDK's default keeps no idle connection. Redirects are not followed, so
/// that a credential never travels to another host. A proxy that the environment names is used.
fn client(settings: &Settings, ca: Option<&[u8]>) -> Result<reqwest::Client, Error> {
    let unusable = |why: &dyn std::fmt::Display| Error::Unreachable(format!("its TLS settings cannot be used: {why}"));
    let tls = tls::client_config(ca, &tls::ALPN).map_err(|error| unusable(&error))?;
    reqwest::Client::builder()
        .connect_timeout(settings.connect_timeout)
        .pool_idle_timeout(IDLE)
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| unusable(&error))
}
