//! What is not about skills: the SDK's service behind the lane, one for each view, and what passes through it.
//!
//! It lists the `SKILL.md` resources of what is served (S-3, S-12 … S-14), and relays tools, prompts, resources and
//! completions of the origins of which they pass. Nothing of a skill leaves through it. Refusals become JSON-RPC errors in
//! `refusal` alone.

mod calls;
mod lists;
mod notices;
mod questions;
mod refusal;
mod relayed;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::CustomRequest;
use rmcp::model::CustomResult;
use rmcp::model::DiscoverResult;
use rmcp::model::Implementation;
use rmcp::model::ProtocolVersion;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::model::SubscriptionFilter;
use rmcp::service::NotificationContext;
use rmcp::service::RequestContext;
use rmcp::service::SubscriptionContext;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde_json::Value;
use serde_json::json;
use tower::ServiceExt as _;

use super::lane::TTL;
use crate::config::Passed;
use crate::gateway::Gateway;
use crate::gateway::View;

use calls::Host;
use questions::Parking;
use refusal::Refusal;
use relayed::Relayed;
use relayed::Way;

/// The levels of log messages, the least urgent first.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// The SDK's service for one view.
pub(super) type Rest = StreamableHttpService<Handler, NeverSessionManager>;

/// Answers the SDK's questions about one view, for one session where there are any.
pub(super) struct Handler {
    gateway: Gateway,
    view: View,
    /// Calls that wait for their hosts, whichever session they come back in.
    parking: Parking,
    /// The least severity that a host of before 2026-07-28 wants to hear of; held for a look.
    level: Mutex<usize>,
}

/// Makes the service of a view. Host and Origin were checked by the guard, which knows the configuration.
pub(super) fn service(gateway: &Gateway, view: View) -> Rest {
    let handler = Handler::new(gateway.clone(), view);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(gateway.limits().request_bytes);
    StreamableHttpService::new(
        move || Ok(handler.for_session()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}

/// Hands a request to the SDK, one that is relayed under its name inside.
pub(super) async fn pass(rest: &Rest, mut parts: Parts, body: Bytes) -> Response {
    let body = match relayed::way_of(&body) {
        Way::AsItIs => body,
        Way::Renamed(method, renamed) => {
            relayed::rename_header(&mut parts.headers, method);
            renamed
        }
        Way::Forged => return StatusCode::NOT_FOUND.into_response(),
    };
    let request = Request::from_parts(parts, Body::from(body));
    let answered: Result<_, Infallible> = rest.clone().oneshot(request).await;
    match answered {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

impl Handler {
    pub(super) fn new(gateway: Gateway, view: View) -> Self {
        Self {
            gateway,
            view,
            parking: Parking::default(),
            level: Mutex::default(),
        }
    }

    /// The same for one more session.
    pub(super) fn for_session(&self) -> Self {
        Self {
            gateway: self.gateway.clone(),
            view: self.view.clone(),
            parking: self.parking.clone(),
            level: Mutex::default(),
        }
    }

    /// Says whether anything of a kind passes in this view, as far as is known.
    fn has(&self, kind: Passed) -> bool {
        let offers = self.gateway.offers(&self.view, kind);
        offers.iter().any(|(label, offer)| match kind {
            Passed::Skills | Passed::Resources => true,
            Passed::Tools => offer.can.tools || self.gateway.has_definitions(label),
            Passed::Prompts => offer.can.prompts,
            Passed::Completions => offer.can.completions,
        })
    }

    /// What this view can do, of what was heard so far. Lists change in all of them, since approvals do.
    fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::builder()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_skills_with_directory_read()
            .build();
        if self.has(Passed::Tools) {
            capabilities.tools = Some(rmcp::model::ToolsCapability::default());
            capabilities
                .tools
                .iter_mut()
                .for_each(|tools| tools.list_changed = Some(true));
        }
        if self.has(Passed::Prompts) {
            capabilities.prompts = Some(rmcp::model::PromptsCapability::default());
            capabilities
                .prompts
                .iter_mut()
                .for_each(|prompts| prompts.list_changed = Some(true));
        }
        if self.has(Passed::Completions) {
            capabilities.completions = Some(rmcp::model::JsonObject::default());
        }
        if self.has_log() {
            capabilities.logging = Some(rmcp::model::JsonObject::default());
        }
        capabilities
    }

    /// Says whether log messages of origins may come beside the answers to calls.
    fn has_log(&self) -> bool {
        let offers = self.gateway.offers(&self.view, Passed::Tools);
        offers.iter().any(|(_, offer)| offer.can.logging)
    }

    /// Says whether a host wants to hear of a log message (base protocol §15; before 2026-07-28, everything unless it said
    /// otherwise).
    fn wants_log(&self, message: &Value, host: &Host<'_>) -> bool {
        let least = if host.is_modern {
            let meta = serde_json::to_value(&host.context.meta).unwrap_or_default();
            severity(meta.get("io.modelcontextprotocol/logLevel"))
        } else {
            Some(*self.level.lock())
        };
        least.is_some_and(|least| severity(message.get("level")) >= Some(least))
    }

    async fn answer(&self, method: Relayed, params: Value, host: &Host<'_>) -> Result<Value, Refusal> {
        match method {
            Relayed::ToolsList | Relayed::PromptsList | Relayed::ResourcesList | Relayed::TemplatesList => {
                let mut listed = self.list(method, &params, host.is_modern).await?;
                if host.is_modern {
                    listed["ttlMs"] = json!(TTL);
                    listed["cacheScope"] = json!("private");
                }
                Ok(listed)
            }
            Relayed::ToolsCall | Relayed::PromptsGet | Relayed::ResourcesRead | Relayed::Complete => {
                self.call(method, params, host).await
            }
        }
    }
}

/// How urgent a level is, by its name (RFC 5424 §6.2.1); none of any other name.
fn severity(level: Option<&Value>) -> Option<usize> {
    let name = level?.as_str()?;
    LEVELS.iter().position(|known| *known == name)
}

/// Says whether the request is of an era that has hints for caches (base protocol §10.1, §25).
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.meta.protocol_version().is_some()
}

/// A result with the members that its era has, and with who answers in place of who answered (base protocol §3, §4, §26).
fn in_era(mut result: Value, method: Relayed, is_modern: bool) -> Value {
    let Some(members) = result.as_object_mut() else {
        return result;
    };
    let us = json!({ "name": "portcullis", "version": env!("CARGO_PKG_VERSION") });
    let is_read = method == Relayed::ResourcesRead;
    if is_modern {
        let kind = members.entry("resultType").or_insert_with(|| json!("complete"));
        let may_be_kept = is_read && kind == "complete";
        if may_be_kept {
            // What one caller got is nobody else's, and the origin's word on freshness is no longer than ours.
            let ttl = members.get("ttlMs").and_then(Value::as_u64).unwrap_or(0).min(TTL);
            members.insert("ttlMs".to_owned(), json!(ttl));
            members.insert("cacheScope".to_owned(), json!("private"));
        }
        let meta = members.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), us);
        }
        return result;
    }
    for member in ["resultType", "ttlMs", "cacheScope"] {
        members.remove(member);
    }
    if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove("io.modelcontextprotocol/serverInfo");
    }
    result
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let us = Implementation::new("portcullis", env!("CARGO_PKG_VERSION"));
        let mut info = ServerConfig::new(self.capabilities()).with_server_info(us);
        info.instructions = self.gateway.instructions(&self.view);
        info
    }

    /// Names the revisions that go without a handshake and no others: whoever picked another would have to begin anew
    /// (base protocol §5). `initialize` still agrees on the older ones.
    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(
            vec![ProtocolVersion::V_2026_07_28],
            self.get_info(),
        ))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let Some(method) = Relayed::from_inside(&request.method) else {
            return Err(ErrorData::new(
                rmcp::model::ErrorCode::METHOD_NOT_FOUND,
                request.method,
                None,
            ));
        };
        let host = Host::of(&context);
        let params = request.params.unwrap_or_else(|| json!({}));
        let answered = self.answer(method, params, &host).await;
        let result = answered.map_err(|refusal| refusal.error(method == Relayed::ResourcesRead, host.is_modern))?;
        Ok(CustomResult::new(in_era(result, method, host.is_modern)))
    }

    #[expect(deprecated, reason = "hosts of before 2026-07-28 have no other way to say it")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.has_log() {
            return Err(Refusal::NoMethod("logging/setLevel").error(false, false));
        }
        let level = serde_json::to_value(request.level).unwrap_or_default();
        *self.level.lock() = severity(Some(&level)).unwrap_or_default();
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut lists = requested.clone();
        lists.resource_subscriptions = None;
        Some(lists)
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.tell_subscriber(&subscription).await;
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.tell_session(context.peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_members_of_their_era() {
        let theirs = json!({
            "contents": [], "resultType": "complete", "ttlMs": 86_400_000, "cacheScope": "public", "foreign": 1,
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "them" }, "com.example/x": 1 },
        });
        let modern = in_era(theirs.clone(), Relayed::ResourcesRead, true);
        assert_eq!(
            (&modern["ttlMs"], &modern["cacheScope"]),
            (&json!(TTL), &json!("private"))
        );
        assert_eq!(
            modern["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "portcullis"
        );
        // case A10
        assert_eq!(
            (&modern["foreign"], &modern["_meta"]["com.example/x"]),
            (&json!(1), &json!(1))
        );
        let legacy = in_era(theirs, Relayed::ResourcesRead, false);
        assert_eq!(
            legacy,
            json!({ "contents": [], "foreign": 1, "_meta": { "com.example/x": 1 } })
        );
        let asks = in_era(json!({ "resultType": "input_required" }), Relayed::ResourcesRead, true);
        assert_eq!(
            (&asks["resultType"], asks.get("ttlMs")),
            (&json!("input_required"), None)
        );
    }
}
