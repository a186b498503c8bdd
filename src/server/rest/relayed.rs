//! The methods that are relayed to origins, and their names on the way through the SDK.
//!
//! The SDK's types drop what they do not know. A request of such a method therefore goes through it as one that it has no
//! type for, and comes back as it was: sessions, streams, cancellation and progress stay the SDK's.

use bytes::Bytes;
use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What their names begin with inside.
const INSIDE: &str = "dev.portcullis/";

/// The header that names the method.
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// A method that is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Relayed {
    ToolsList,
    ToolsCall,
    PromptsList,
    PromptsGet,
    ResourcesList,
    TemplatesList,
    ResourcesRead,
    Complete,
}

impl Relayed {
    /// All of them.
    const ALL: [Self; 8] = [
        Self::ToolsList,
        Self::ToolsCall,
        Self::PromptsList,
        Self::PromptsGet,
        Self::ResourcesList,
        Self::TemplatesList,
        Self::ResourcesRead,
        Self::Complete,
    ];

    /// The method as hosts and origins call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ToolsList => "tools/list",
            Self::ToolsCall => "tools/call",
            Self::PromptsList => "prompts/list",
            Self::PromptsGet => "prompts/get",
            Self::ResourcesList => "resources/list",
            Self::TemplatesList => "resources/templates/list",
            Self::ResourcesRead => "resources/read",
            Self::Complete => "completion/complete",
        }
    }

    fn of(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == method)
    }

    /// The method that comes out of the SDK under its name inside.
    pub(super) fn from_inside(method: &str) -> Option<Self> {
        Self::of(method.strip_prefix(INSIDE)?)
    }
}

/// A message as far as its method.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// What becomes of a message before the SDK has it.
pub(in crate::server) enum Way {
    /// It goes as it is.
    AsItIs,
    /// It is relayed, under its name inside.
    Renamed(Relayed, Bytes),
    /// It bears a name that is not a host's to use.
    Forged(String),
}

/// Renames a request of a method that is relayed.
pub(in crate::server) fn way_of(body: &[u8]) -> Way {
    let Ok(named) = serde_json::from_slice::<Named<'_>>(body) else {
        return Way::AsItIs;
    };
    let method = named.method.unwrap_or_default();
    if method.starts_with(INSIDE) {
        return Way::Forged(method);
    }
    let (Some(relayed), Some(id)) = (Relayed::of(&method), named.id) else {
        return Way::AsItIs;
    };
    let params = named.params.map_or("{}", RawValue::get);
    let renamed = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{INSIDE}{method}\",\"params\":{params}}}",
        id = id.get()
    );
    Way::Renamed(relayed, Bytes::from(renamed))
}

/// Renames the method in the header too, where it says what the body said: otherwise the SDK is to see that it does not.
pub(in crate::server) fn rename_header(headers: &mut HeaderMap, method: Relayed) {
    let says_so = headers
        .get(MCP_METHOD)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim() == method.name());
    if says_so && let Ok(value) = HeaderValue::try_from(format!("{INSIDE}{}", method.name())) {
        headers.insert(MCP_METHOD, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relayed_request_keeps_all_but_its_methods_name() {
        let body = br#"{"params":{"name":"x","arguments":{"b":1.10,"a":[]},"foreign":1},"id":"7","method":"tools/call","jsonrpc":"2.0"}"#;
        let Way::Renamed(Relayed::ToolsCall, renamed) = way_of(body) else {
            panic!("it is relayed")
        };
        assert_eq!(
            &renamed[..],
            br#"{"jsonrpc":"2.0","id":"7","method":"dev.portcullis/tools/call","params":{"name":"x","arguments":{"b":1.10,"a":[]},"foreign":1}}"#
        );
        for other in [
            &br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#[..],
            br#"{"jsonrpc":"2.0","method":"tools/call"}"#,
            b"[]",
            b"{",
        ] {
            assert!(matches!(way_of(other), Way::AsItIs));
        }
        let forged = br#"{"jsonrpc":"2.0","id":1,"method":"dev.portcullis/tools/call"}"#;
        assert!(matches!(way_of(forged), Way::Forged(_)));
    }

    #[test]
    fn every_method_comes_back_from_inside() {
        for method in Relayed::ALL {
            assert_eq!(
                Relayed::from_inside(&format!("{INSIDE}{}", method.name())),
                Some(method)
            );
            assert_eq!(Relayed::from_inside(method.name()), None);
        }
    }

    #[test]
    fn a_header_is_renamed_only_where_it_says_what_the_body_says() {
        for (said, after) in [
            ("tools/call", "dev.portcullis/tools/call"),
            ("tools/list", "tools/list"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(MCP_METHOD, HeaderValue::from_static(said));
            rename_header(&mut headers, Relayed::ToolsCall);
            assert_eq!(headers[MCP_METHOD], after);
        }
    }
}
