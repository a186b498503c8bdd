//! Hosts: one that speaks bytes, in both eras, and the SDK's own client.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::Stream;
use futures_util::StreamExt as _;
use rmcp::ClientLifecycleMode;
use rmcp::ClientServiceExt as _;
use rmcp::RoleClient;
use rmcp::model::ClientCapabilities;
use rmcp::model::ClientConfig;
use rmcp::model::GetSkillRequestParams;
use rmcp::model::Implementation;
use rmcp::model::ProtocolVersion;
use rmcp::model::ReadResourceRequestParams;
use rmcp::model::ResourceContents;
use rmcp::model::SkillResource;
use rmcp::model::SkillResources;
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use serde_json::json;
use sse_stream::Sse;
use sse_stream::SseStream;

/// The longest that a host waits for an answer; only a gateway that hangs makes it wait so long.
const DEADLINE: Duration = Duration::from_secs(60);

/// The newest revision.
pub(crate) const MODERN: &str = "2026-07-28";

/// The last revision with a handshake.
pub(crate) const LEGACY: &str = "2025-11-25";

/// What a request came back with.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The header fields.
    pub(crate) headers: http::HeaderMap,
    /// The body as it came.
    pub(crate) text: String,
    /// The JSON-RPC message in it, or null.
    pub(crate) json: Value,
}

/// A host that makes its requests by hand.
pub(crate) struct Host {
    client: reqwest::Client,
    url: String,
    version: &'static str,
    capabilities: Value,
    session: Option<String>,
    token: Option<String>,
    ids: AtomicU64,
}

/// What a host is told that listens.
pub(crate) struct Told(Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>);

impl Told {
    fn by(response: reqwest::Response) -> Self {
        Self(Box::pin(SseStream::from_bytes_stream(response.bytes_stream())))
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let event = tokio::time::timeout(DEADLINE, self.0.next()).await;
            let event = event
                .expect("a message in time")
                .expect("a stream that goes on")
                .unwrap();
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                return serde_json::from_str(&data).unwrap();
            }
        }
    }
}

/// A client that uses no proxy and no connection of another test.
pub(crate) fn http() -> reqwest::Client {
    // Whoever comes first installs it.
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(DEADLINE).build().unwrap()
}

/// Sends a request and reads its answer, an event stream to its last message.
pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answer {
    try_to_send(request).await.unwrap()
}

/// The same where nobody may be there to answer, or not to the end.
async fn try_to_send(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await?;
    let is_stream = headers
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let message = if is_stream {
        text.lines()
            .rev()
            .find_map(|line| line.strip_prefix("data:"))
            .unwrap_or_default()
    } else {
        &text
    };
    let json = serde_json::from_str(message).unwrap_or_default();
    Ok(Answer {
        status,
        headers,
        text,
        json,
    })
}

/// What a handshake asks for.
pub(crate) fn hello(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": speaking(), "clientInfo": { "name": "host", "version": "1" } })
}

/// What a host can do that speaks the extension.
fn speaking() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/skills": {} } })
}

/// The metadata of a modern request.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": speaking(),
        "io.modelcontextprotocol/clientInfo": { "name": "host", "version": "1" },
    })
}

impl Host {
    /// A modern host.
    pub(crate) fn modern(url: &str) -> Self {
        Self {
            client: http(),
            url: url.to_owned(),
            version: MODERN,
            capabilities: speaking(),
            session: None,
            token: None,
            ids: AtomicU64::new(1),
        }
    }

    /// The same host as one that knows nothing of the extension; said before its handshake.
    pub(crate) fn without_extension(mut self) -> Self {
        self.capabilities = json!({});
        self
    }

    /// A legacy host, after its handshake.
    pub(crate) async fn legacy(url: &str) -> Self {
        Self::modern(url).shaking_hands(LEGACY).await
    }

    /// The same host as one of an older revision, after its handshake.
    pub(crate) async fn shaking_hands(mut self, version: &'static str) -> Self {
        self.version = version;
        let mut host = self;
        let mut hello = hello(version);
        hello["capabilities"] = host.capabilities.clone();
        let answer = host.ask("initialize", hello).await;
        let skills = &answer.result()["capabilities"]["extensions"]["io.modelcontextprotocol/skills"];
        assert!(
            skills.is_object(),
            "the handshake declares the extension: {}",
            answer.text
        );
        host.session = answer
            .headers
            .get("mcp-session-id")
            .map(|id| id.to_str().unwrap().to_owned());
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(send(host.request("notifications/initialized", &done)).await.status, 202);
        host
    }

    /// The same host with a token.
    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// The same host with one more header field.
    pub(crate) fn with_header(self, name: &str, value: &str) -> Self {
        let headers = [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
        let client = reqwest::Client::builder()
            .no_proxy()
            .default_headers(headers)
            .build()
            .unwrap();
        self.with_client(client)
    }

    /// The same host with another HTTP client under it.
    pub(crate) fn with_client(mut self, client: reqwest::Client) -> Self {
        self.client = client;
        self
    }

    /// The session that it has, if it has one.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The same host in another's session.
    pub(crate) fn in_session(mut self, version: &'static str, session: &str) -> Self {
        self.version = version;
        self.session = Some(session.to_owned());
        self
    }

    /// Sends a request without a body, as one that opens the session's stream or ends the session.
    pub(crate) async fn without_body(&self, method: http::Method) -> reqwest::Response {
        let mut request = self
            .client
            .request(method, &self.url)
            .header("accept", "text/event-stream")
            .header("mcp-protocol-version", self.version);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send().await.unwrap()
    }

    /// Sends a message as it stands.
    pub(crate) async fn post(&self, message: &Value) -> Answer {
        send(self.request("", message)).await
    }

    /// Whether it speaks the newest revision.
    pub(crate) fn is_modern(&self) -> bool {
        self.version == MODERN
    }

    /// Sends any request.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Answer {
        self.try_to_ask(method, params).await.unwrap()
    }

    async fn try_to_ask(&self, method: &str, mut params: Value) -> reqwest::Result<Answer> {
        if self.is_modern() {
            let mut meta = self.meta();
            let added = params["_meta"].take();
            for (key, value) in added.as_object().into_iter().flatten() {
                meta[key] = value.clone();
            }
            params["_meta"] = meta;
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = try_to_send(self.request(method, &message)).await?;
        assert!(
            answer.json.is_null() || answer.json["id"] == id,
            "it answers {id}: {}",
            answer.text
        );
        Ok(answer)
    }

    fn meta(&self) -> Value {
        let mut meta = meta();
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        meta
    }

    /// Listens for notices; the first message, which acknowledges that, has come.
    pub(crate) async fn listen(&self, wanted: Value) -> Told {
        let params = json!({ "notifications": wanted, "_meta": self.meta() });
        let message =
            json!({ "jsonrpc": "2.0", "id": "listening", "method": "subscriptions/listen", "params": params });
        let response = self.request("subscriptions/listen", &message).send().await.unwrap();
        let mut told = Told::by(response);
        let first = told.next().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        told
    }

    /// Opens the stream of its session.
    pub(crate) async fn stream(&self) -> Told {
        let response = self.without_body(http::Method::GET).await;
        assert_eq!(response.status(), 200);
        Told::by(response)
    }

    /// The first page of the skills.
    pub(crate) async fn list(&self) -> Answer {
        self.ask("skills/list", json!({})).await
    }

    /// A later page.
    pub(crate) async fn list_from(&self, cursor: &str) -> Answer {
        self.ask("skills/list", json!({ "cursor": cursor })).await
    }

    /// One entry.
    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.ask("skills/get", json!({ "uri": uri })).await
    }

    /// One file.
    pub(crate) async fn read(&self, uri: &str) -> Answer {
        self.ask("resources/read", json!({ "uri": uri })).await
    }

    /// One file; nothing when the gateway ends before it has answered.
    pub(crate) async fn read_if_it_answers(&self, uri: &str) -> Option<Answer> {
        self.try_to_ask("resources/read", json!({ "uri": uri })).await.ok()
    }

    /// One directory.
    pub(crate) async fn directory(&self, uri: &str) -> Answer {
        self.ask("resources/directory/read", json!({ "uri": uri })).await
    }

    /// The URIs of all skills, over all pages.
    pub(crate) async fn uris(&self) -> Vec<String> {
        let mut uris = Vec::new();
        let mut answer = self.list().await;
        loop {
            let result = answer.result();
            uris.extend(strings(&result["skills"], "uri"));
            let Some(next) = result["nextCursor"].as_str().map(str::to_owned) else {
                return uris;
            };
            answer = self.list_from(&next).await;
        }
    }

    fn request(&self, method: &str, message: &Value) -> reqwest::RequestBuilder {
        let mut request = self
            .client
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string());
        if self.is_modern() || method != "initialize" {
            request = request.header("mcp-protocol-version", self.version);
        }
        if self.is_modern() {
            request = request.header("mcp-method", method);
            let name = match method {
                "resources/read" | "resources/subscribe" => &message["params"]["uri"],
                "tools/call" | "prompts/get" => &message["params"]["name"],
                _ => &Value::Null,
            };
            if let Some(name) = name.as_str() {
                request = request.header("mcp-name", encoded(name));
            }
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request
    }
}

/// A header value as the protocol spells it.
fn encoded(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && value.trim() == value;
    if is_plain {
        value.to_owned()
    } else {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(value))
    }
}

/// A member of each item of an array, as text.
pub(crate) fn strings(items: &Value, member: &str) -> Vec<String> {
    let items = items.as_array().unwrap_or_else(|| panic!("an array, not {items}"));
    items
        .iter()
        .map(|item| item[member].as_str().unwrap().to_owned())
        .collect()
}

impl Answer {
    /// The result, where there must be one.
    pub(crate) fn result(&self) -> &Value {
        assert!(
            self.json["result"].is_object(),
            "a result, not {} {}",
            self.status,
            self.text
        );
        &self.json["result"]
    }

    /// The error's `data`, where there must be an error with this code.
    pub(crate) fn refusal(&self, code: i64) -> &Value {
        assert_eq!(self.json["error"]["code"], code, "{} {}", self.status, self.text);
        assert!(self.json.get("result").is_none(), "{}", self.text);
        &self.json["error"]["data"]
    }

    /// Asserts that nothing came: unknown, not offered, or what older revisions call not found.
    pub(crate) fn assert_shut(&self) {
        let code = self.json["error"]["code"].as_i64();
        let is_shut = code.is_some_and(|code| [-32601, -32602, -32002].contains(&code));
        assert!(
            is_shut && self.json.get("result").is_none(),
            "{} {}",
            self.status,
            self.text
        );
    }

    /// The reason of a refusal, whatever its code.
    pub(crate) fn reason(&self) -> &str {
        let data = &self.json["error"]["data"];
        data["dev.portcullis/reason"]
            .as_str()
            .unwrap_or_else(|| panic!("a refusal, not {}", self.text))
    }

    /// The bytes of the one file in it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let [content] = self.result()["contents"].as_array().unwrap().as_slice() else {
            panic!("one file, not {}", self.text)
        };
        match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(blob)) => BASE64_STANDARD.decode(blob).unwrap(),
            _ => panic!("text or blob, not {content}"),
        }
    }
}

/// How the SDK's client opens.
pub(crate) fn lifecycles() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [
        ClientLifecycleMode::Discover { preferred_versions },
        ClientLifecycleMode::Initialize,
    ]
}

/// Lists, gets and reads everything with the SDK's client, checks each file against its entry, and gives the URIs of all
/// files.
pub(crate) async fn read_everything_with_the_sdk(url: &str, lifecycle: ClientLifecycleMode) -> Vec<String> {
    let client = connect(url, lifecycle).await;
    let mut read = Vec::new();
    for skill in client.list_all_skills().await.unwrap() {
        let got = client
            .get_skill(GetSkillRequestParams::new(skill.uri.clone()))
            .await
            .unwrap();
        assert_eq!(got.skill, skill);
        let SkillResources::Files(files) = skill.resources else {
            panic!("{} is dynamic", skill.uri)
        };
        for file in files {
            check(&client, &file).await;
            read.push(file.uri);
        }
    }
    client.cancel().await.unwrap();
    read.sort();
    read
}

/// A session of the SDK's client.
pub(crate) type Session = RunningService<RoleClient, ClientConfig>;

/// Opens a session of the SDK's client.
pub(crate) async fn connect(url: &str, lifecycle: ClientLifecycleMode) -> Session {
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
    let transport = StreamableHttpClientTransport::with_client(http(), config);
    let us = ClientConfig::new(ClientCapabilities::default(), Implementation::new("stock", "1"));
    us.serve_with_lifecycle(transport, lifecycle).await.unwrap()
}

async fn check(client: &Session, file: &SkillResource) {
    let read = client
        .read_resource(ReadResourceRequestParams::new(file.uri.clone()))
        .await
        .unwrap();
    let [content] = read.contents.as_slice() else {
        panic!("one item for {}", file.uri)
    };
    let (uri, bytes) = match content {
        ResourceContents::TextResourceContents { uri, text, .. } => (uri, text.as_bytes().to_vec()),
        ResourceContents::BlobResourceContents { uri, blob, .. } => (uri, BASE64_STANDARD.decode(blob).unwrap()),
        other => panic!("text or blob, not {other:?}"),
    };
    assert_eq!(uri, &file.uri);
    file.verify(&bytes).unwrap();
}
