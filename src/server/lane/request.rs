//! Messages as they come: one JSON-RPC object, its era, and what headers and body must agree on (base protocol §2, §3, §8,
//! §22.2). Where there are no headers (§9), the body alone says everything.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::HeaderName;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::refusal::Refusal;
use crate::domain;

/// Revisions in which each request says what it is.
pub(in crate::server) const SUPPORTED: [&str; 1] = ["2026-07-28"];

/// Revisions with a handshake before them.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The header that names the revision.
pub(in crate::server) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The header that names the method.
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// The header that names what the method is about.
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The methods of the skill family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    SkillsList,
    SkillsGet,
    ResourcesRead,
    DirectoryRead,
}

/// Which rules a request goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// 2026-07-28: version and capabilities on every request.
    Modern,
    /// Before: said once, in a handshake.
    Legacy,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Kind {
    /// It wants an answer.
    Request,
    /// It wants none.
    Notification,
    /// It is one.
    Response,
}

/// The id of a request, as it is compared: by value, not by how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::server) enum Id {
    /// An integer.
    Number(i64),
    /// An integer beyond those, as written.
    Large(Box<str>),
    /// A string, decoded.
    Text(Box<str>),
}

/// A JSON-RPC message, opened as far as every message is.
#[derive(Debug, Deserialize)]
pub(in crate::server) struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// A request of the skill family whose headers and body agree.
pub(super) struct Request<'a> {
    /// The id's own text.
    pub(super) id: &'a str,
    pub(super) era: Era,
    pub(super) uri: Option<Cow<'a, str>>,
    pub(super) cursor: Option<String>,
}

/// What the family's parameters may hold.
#[derive(Debug, Default, Deserialize)]
struct Params<'a> {
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<Meta<'a>>,
    #[serde(default, borrow)]
    uri: Option<&'a RawValue>,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow, default)]
    version: Option<Cow<'a, str>>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow, default)]
    capabilities: Option<&'a RawValue>,
}

/// The standard headers of a request.
pub(super) struct Headers<'a> {
    version: Option<&'a str>,
    method: Option<&'a str>,
    name: Option<&'a str>,
}

impl<'a> Headers<'a> {
    pub(super) fn new(headers: &'a HeaderMap) -> Self {
        let text = |name: &HeaderName| {
            headers
                .get(name)
                .map(|value| value.to_str().unwrap_or("\u{fffd}").trim())
        };
        Self {
            version: text(&PROTOCOL_VERSION),
            method: text(&MCP_METHOD),
            name: text(&MCP_NAME),
        }
    }
}

impl<'a> Message<'a> {
    /// Opens a message: one object, no batch (base protocol §2).
    pub(in crate::server) fn read(body: &'a [u8]) -> Result<Self, Refusal> {
        if is_batch(body) {
            return Err(Refusal::Invalid("batches are not taken; send one message a request"));
        }
        let parsed: Self = serde_json::from_slice(body).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Refusal::Invalid("the body is no JSON-RPC message"),
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => Refusal::Parse,
        })?;
        if parsed.jsonrpc.as_deref() != Some("2.0") {
            return Err(Refusal::Invalid("jsonrpc is not \"2.0\""));
        }
        Ok(parsed)
    }

    /// The method, if it is one of the skill family.
    pub(super) fn method(&self) -> Option<Method> {
        match self.method.as_deref()? {
            "skills/list" => Some(Method::SkillsList),
            "skills/get" => Some(Method::SkillsGet),
            "resources/read" => Some(Method::ResourcesRead),
            "resources/directory/read" => Some(Method::DirectoryRead),
            _ => None,
        }
    }

    /// Why a modern request's revision is none to go on with: its header names another, or it is not spoken here.
    pub(super) fn unspoken_version(&self, headers: Option<&Headers<'_>>) -> Option<Refusal> {
        let params: Params<'_> = serde_json::from_str(self.params?.get()).ok()?;
        let version = params.meta?.version?;
        if SUPPORTED.contains(&version.as_ref()) {
            return None;
        }
        let header = headers.and_then(|headers| headers.version);
        Some(if header.is_some_and(|header| header != version) {
            Refusal::Header("MCP-Protocol-Version does not say what the body says".to_owned())
        } else {
            Refusal::Version(version.into_owned())
        })
    }

    /// What it is.
    pub(in crate::server) fn kind(&self) -> Kind {
        match (self.id, &self.method) {
            (_, None) => Kind::Response,
            (Some(_), Some(_)) => Kind::Request,
            (None, Some(_)) => Kind::Notification,
        }
    }

    /// Says whether its method is of the skill family.
    pub(in crate::server) fn is_of_the_lane(&self) -> bool {
        self.method().is_some()
    }

    /// The method's name, of the skill family or not.
    pub(in crate::server) fn method_name(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// Says whether it names its revision itself, as every request of the newest era does and none before.
    pub(in crate::server) fn is_modern(&self) -> bool {
        let params = self
            .params
            .map(|params| serde_json::from_str::<Params<'_>>(params.get()));
        params.is_some_and(|params| params.is_ok_and(|params| params.meta.is_some_and(|meta| meta.version.is_some())))
    }

    /// The revision that a handshake asks for.
    pub(in crate::server) fn handshake(&self) -> Option<Cow<'a, str>> {
        let params: Handshake<'a> = serde_json::from_str(self.params?.get()).ok()?;
        Some(params.version)
    }

    /// The request that a cancellation is of.
    pub(in crate::server) fn cancelled(&self) -> Option<Id> {
        let params: Cancelled<'a> = serde_json::from_str(self.params?.get()).ok()?;
        Id::read(params.request.get())
    }

    /// The id's own text, where it is one.
    pub(in crate::server) fn id(&self) -> Option<&'a str> {
        let text = self.id?.get();
        (text.starts_with('"') || is_integer(text)).then_some(text)
    }

    /// The request, once everything that must agree does, in the order that the conformance suite expects
    /// (base protocol §8.9).
    pub(super) fn request(&self, method: Method, headers: Option<&Headers<'_>>) -> Result<Request<'a>, Refusal> {
        let id = self
            .id()
            .ok_or(Refusal::Invalid("id is neither a string nor an integer"))?;
        let params: Params<'a> = match self.params {
            Some(params) => serde_json::from_str(params.get())
                .map_err(|error| Refusal::Params(format!("the params have the wrong form: {error}")))?,
            None => Params::default(),
        };
        let era = era(&params, headers)?;
        let uri = params.uri.map(|uri| serde_json::from_str::<Text<'a>>(uri.get()));
        let uri = uri
            .transpose()
            .map_err(|_| Refusal::Params("uri is not a string".to_owned()))?
            .map(|Text(uri)| uri);
        match era {
            Era::Modern => agree(&params, method, uri.as_deref(), headers)?,
            Era::Legacy => {}
        }
        Ok(Request {
            id,
            era,
            uri,
            cursor: params.cursor,
        })
    }
}

/// Says whether a body is an array of messages.
pub(in crate::server) fn is_batch(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

impl Id {
    /// Reads an id's own text; nothing when it is neither a string nor an integer.
    pub(in crate::server) fn read(text: &str) -> Option<Self> {
        if text.starts_with('"') {
            let Text(text) = serde_json::from_str(text).ok()?;
            return Some(Self::Text(text.into()));
        }
        match text.parse() {
            Ok(number) => Some(Self::Number(number)),
            Err(_) => is_integer(text).then(|| Self::Large(text.into())),
        }
    }

    /// As JSON.
    pub(in crate::server) fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Large(text) => text.to_string(),
            Self::Text(text) => domain::quoted(text),
        }
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// What a handshake asks for.
#[derive(Deserialize)]
struct Handshake<'a> {
    #[serde(rename = "protocolVersion", borrow)]
    version: Cow<'a, str>,
}

/// What a cancellation is of.
#[derive(Deserialize)]
struct Cancelled<'a> {
    #[serde(rename = "requestId", borrow)]
    request: &'a RawValue,
}

/// A string that borrows where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Request<'_> {
    /// The `uri` parameter, which the method needs.
    pub(super) fn uri(&self) -> Result<&str, Refusal> {
        self.uri
            .as_deref()
            .ok_or_else(|| Refusal::Params("uri is missing".to_owned()))
    }
}

/// The body decides; a header that names a modern revision over a body that does not is a modern request gone wrong.
fn era(params: &Params<'_>, headers: Option<&Headers<'_>>) -> Result<Era, Refusal> {
    let body = params.meta.as_ref().and_then(|meta| meta.version.as_deref());
    match (body, headers.and_then(|headers| headers.version)) {
        (Some(_), _) => Ok(Era::Modern),
        (None, None) => Ok(Era::Legacy),
        (None, Some(version)) if LEGACY.contains(&version) => Ok(Era::Legacy),
        (None, Some(version)) if SUPPORTED.contains(&version) => {
            Err(Refusal::Meta("io.modelcontextprotocol/protocolVersion"))
        }
        (None, Some(version)) => Err(Refusal::Version(version.to_owned())),
    }
}

fn agree(params: &Params<'_>, method: Method, uri: Option<&str>, headers: Option<&Headers<'_>>) -> Result<(), Refusal> {
    let meta = params.meta.as_ref();
    let version = meta.and_then(|meta| meta.version.as_deref()).unwrap_or_default();
    let capabilities = meta.and_then(|meta| meta.capabilities);
    if !capabilities.is_some_and(|capabilities| capabilities.get().starts_with('{')) {
        return Err(Refusal::Meta("io.modelcontextprotocol/clientCapabilities"));
    }
    let named = headers.and_then(|headers| headers.version);
    if named.is_some_and(|header| header != version) {
        return Err(Refusal::Header(
            "MCP-Protocol-Version does not say what the body says".to_owned(),
        ));
    }
    if !SUPPORTED.contains(&version) {
        return Err(Refusal::Version(version.to_owned()));
    }
    let Some(headers) = headers else {
        return Ok(());
    };
    must_equal("MCP-Protocol-Version", headers.version, version)?;
    must_equal("Mcp-Method", headers.method, method.name())?;
    match (method, uri) {
        (Method::ResourcesRead, Some(uri)) => {
            let name = headers.name.map(decoded).transpose()?;
            must_equal("Mcp-Name", name.as_deref(), uri)
        }
        // No other method of the family has a source for Mcp-Name, so that nothing is demanded there.
        (Method::ResourcesRead | Method::SkillsList | Method::SkillsGet | Method::DirectoryRead, _) => Ok(()),
    }
}

fn must_equal(name: &str, header: Option<&str>, body: &str) -> Result<(), Refusal> {
    match header {
        Some(value) if value == body => Ok(()),
        Some(_) => Err(Refusal::Header(format!("{name} does not say what the body says"))),
        None => Err(Refusal::Header(format!("{name} is missing"))),
    }
}

/// Undoes `=?base64?…?=` (base protocol §8.4).
fn decoded(value: &str) -> Result<Cow<'_, str>, Refusal> {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(Cow::Borrowed(value));
    };
    let bytes = BASE64_STANDARD
        .decode(inner)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    bytes
        .map(Cow::Owned)
        .ok_or_else(|| Refusal::Header("Mcp-Name is not base64 of UTF-8".to_owned()))
}

impl Method {
    /// What the record calls it.
    pub(super) fn recorded(self) -> domain::Method {
        match self {
            Self::SkillsList => domain::Method::List,
            Self::SkillsGet => domain::Method::Get,
            Self::ResourcesRead => domain::Method::Read,
            Self::DirectoryRead => domain::Method::Directory,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::SkillsList => "skills/list",
            Self::SkillsGet => "skills/get",
            Self::ResourcesRead => "resources/read",
            Self::DirectoryRead => "resources/directory/read",
        }
    }
}
