//! An origin behind Streamable HTTP: the SDK keeps eras, sessions and ids, and our tap takes the answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderName;
use ::http::HeaderValue;
use rmcp::RoleClient;
use rmcp::model::ClientCapabilities;
use rmcp::model::ClientConfig;
use rmcp::model::ClientRequest;
use rmcp::model::CustomRequest;
use rmcp::model::GetExtensions as _;
use rmcp::model::Implementation;
use rmcp::model::ProtocolVersion;
use rmcp::service::ClientInitializeError;
use rmcp::service::ClientLifecycleMode;
use rmcp::service::ClientServiceExt as _;
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;
use tokio::sync::Mutex;

use super::Address;
use super::Error;
use super::Settings;
use super::Unverified;
use super::answer;
use super::listing::Page;
use super::tap::SdkError;
use super::tap::Sink;
use super::tap::TappedClient;
use crate::config::Secret;
use crate::domain::Limits;
use crate::domain::SkillUri;

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
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// How long an idle connection is kept for the next miss.
const IDLE: Duration = Duration::from_secs(90);

/// JSON-RPC's code for a method that a server does not know.
const METHOD_NOT_FOUND: i64 = -32601;

/// A session with the origin.
type Session = RunningService<RoleClient, ClientConfig>;

/// An origin behind Streamable HTTP.
pub(super) struct HttpOrigin {
    url: Arc<str>,
    client: TappedClient,
    headers: Headers,
    limits: Limits,
    timeout: Duration,
    /// Made by the first request that needs it; the others wait for that one.
    session: Mutex<Option<Arc<Session>>>,
    era: parking_lot::Mutex<Option<String>>,
}

impl HttpOrigin {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let (url, headers, ca) = match &settings.address {
            Address::Http { url, headers, ca } => (url.as_str(), headers.clone(), ca.as_deref()),
            Address::Folder(_) => return Err(Error::Unreachable("a folder has no URL".to_owned())),
        };
        Ok(Self {
            url: Arc::from(url),
            client: TappedClient(client(settings, ca)?),
            headers,
            limits: settings.limits.clone(),
            timeout: settings.timeout,
            session: Mutex::new(None),
            era: parking_lot::Mutex::new(None),
        })
    }

    /// The protocol revision last agreed on.
    pub(super) fn era(&self) -> Option<String> {
        self.era.lock().clone()
    }

    /// One page of its skills.
    pub(super) async fn list_page(&self, cursor: Option<String>, timeout: Duration) -> Result<Page, Error> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let result = self
            .ask("skills/list", params, self.limits.answer_bytes as u64, timeout)
            .await?;
        answer::page(&result)
    }

    /// One skill's entry.
    pub(super) async fn get(&self, skill: &SkillUri, timeout: Duration) -> Result<String, Error> {
        let cap = self.limits.answer_bytes as u64;
        let result = self
            .ask("skills/get", json!({ "uri": skill.as_str() }), cap, timeout)
            .await?;
        answer::entry(&result)
    }

    /// One file, no longer than `size` where that is known.
    pub(super) async fn read(&self, uri: &str, size: Option<u64>, timeout: Duration) -> Result<Unverified, Error> {
        let cap = Limits::read_answer_bytes(size.unwrap_or(self.limits.skill_bytes));
        let result = self.ask("resources/read", json!({ "uri": uri }), cap, timeout).await?;
        let uri = uri.to_owned();
        // A large file's answer takes a while to read.
        let read = tokio::task::spawn_blocking(move || answer::file(&result, &uri, size));
        read.await.map_err(|error| Error::Malformed(error.to_string()))?
    }

    /// Sends one request of the skill family and gives its result's text.
    async fn ask(
        &self,
        method: &'static str,
        params: serde_json::Value,
        cap: u64,
        timeout: Duration,
    ) -> Result<String, Error> {
        let session = self.session().await?;
        let sink = Sink::new(cap);
        let mut request = CustomRequest::new(method, Some(params));
        request.extensions_mut().insert(sink.clone());
        let sent = tokio::time::timeout(timeout, session.send_request(ClientRequest::CustomRequest(request))).await;
        match (sink.take(), sent) {
            (Some(answer), _) => {
                if matches!(answer, Err(Error::Unreachable(_))) {
                    self.forget(&session).await;
                }
                match answer {
                    Err(Error::Rpc {
                        code: METHOD_NOT_FOUND, ..
                    }) => Err(Error::NoMethod(method)),
                    Ok(_) | Err(_) => answer,
                }
            }
            (None, Err(_elapsed)) => Err(Error::TimedOut(timeout)),
            (None, Ok(failed)) => {
                self.forget(&session).await;
                Err(Error::Unreachable(failed.err().map_or_else(
                    || "the connection closed".to_owned(),
                    |error| without_address(&innermost(&error), &self.url),
                )))
            }
        }
    }

    /// The session, made if there is none that lives. Only servers that declare the extension are asked (H-2).
    async fn session(&self) -> Result<Arc<Session>, Error> {
        let mut held = self.session.lock().await;
        if let Some(session) = held
            .as_ref()
            .filter(|session| !session.is_closed() && !session.is_transport_closed())
        {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(self.connect().await?);
        let info = session
            .peer_info()
            .ok_or_else(|| Error::Malformed("it did not say what it is".to_owned()))?;
        *self.era.lock() = Some(info.protocol_version.as_str().to_owned());
        if info.capabilities.skills().is_none() {
            return Err(Error::NoSkills);
        }
        *held = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn forget(&self, session: &Arc<Session>) {
        let mut held = self.session.lock().await;
        if held.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, session)) {
            *held = None;
        }
    }

    /// Opens a session: modern first, the `initialize` handshake where that fails (base protocol §22.1).
    async fn connect(&self) -> Result<Session, Error> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(Arc::clone(&self.url));
        config.custom_headers = self.headers.0.clone();
        config.max_json_response_size = self.limits.answer_bytes;
        let transport = StreamableHttpClientTransport::with_client(self.client.clone(), config);
        let us = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("portcullis", env!("CARGO_PKG_VERSION")),
        );
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        // The SDK's handshake is a large future; on the heap it does not weigh on every request's.
        let handshake = Box::pin(us.serve_with_lifecycle(transport, lifecycle));
        match tokio::time::timeout(self.timeout, handshake).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(error)) => Err(self.connect_failure(&error)),
            Err(_elapsed) => Err(Error::TimedOut(self.timeout)),
        }
    }

    fn connect_failure(&self, error: &ClientInitializeError) -> Error {
        refused_credential(error).map_or_else(
            || Error::Unreachable(without_address(&cause_of(error), &self.url)),
            Error::Unauthorized,
        )
    }
}

/// The status by which a handshake's credential was refused, with a challenge or without one.
fn refused_credential(error: &ClientInitializeError) -> Option<u16> {
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return refused_credential(fallback);
    }
    if error.is_authorization_required() {
        return Some(401);
    }
    if error.auth_challenge().is_some() {
        return Some(403);
    }
    // Without a challenge the SDK keeps the status in its words alone.
    let words = cause_of(error);
    [401, 403]
        .into_iter()
        .find(|status| words.contains(&format!("HTTP {status} ")))
}

/// Why a handshake failed, in the words of its innermost cause; both causes where both handshakes did.
fn cause_of(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::LegacyFallbackFailed { discover, fallback } = error {
        let (discover, fallback) = (cause_of(discover), cause_of(fallback));
        return format!("server/discover: {discover}; initialize: {fallback}");
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        // The SDK puts the names of its own types before this one's words, and does not call it a source.
        return innermost(error.error.as_ref());
    }
    innermost(error)
}

/// The words of the cause behind all others.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    loop {
        // The SDK does not call its client's failure a source either.
        cause = match (cause.downcast_ref(), cause.source()) {
            (Some(SdkError::Client(client)), _) => client,
            (_, Some(source)) => source,
            (_, None) => return cause.to_string().trim_end_matches([':', ' ']).to_owned(),
        }
    }
}

/// An operator sees the address anyway; a host must not, whatever a library puts into its words.
fn without_address(words: &str, url: &str) -> String {
    words.replace(url, "<url>").chars().take(400).collect()
}

/// A pooled client of this origin's own: the SDK's default keeps no idle connection. Redirects are not followed, so
/// that a credential never travels to another host.
fn client(settings: &Settings, ca: Option<&[u8]>) -> Result<reqwest::Client, Error> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(settings.connect_timeout)
        .pool_idle_timeout(IDLE)
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none());
    if let Some(pem) = ca {
        let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| unusable(&error))?;
        builder = builder.tls_certs_only(certificates);
    }
    builder.build().map_err(|error| unusable(&error))
}

fn unusable(error: &reqwest::Error) -> Error {
    Error::Unreachable(format!("its TLS settings cannot be used: {error}"))
}
