//! What is not about skills: the SDK's service behind the lane, one for each view, and what passes through it. Over HTTP with
//! and without sessions, and over streams of messages, one handler answers.
//!
//! It lists the `SKILL.md` resources of what is served (S-3, S-12 … S-14), and relays tools, prompts, resources and
//! completions of the origins of which they pass. Nothing of a skill leaves through it. Refusals become JSON-RPC errors in
//! `refusal` alone.

mod bridge;
mod calls;
mod lists;
mod notices;
mod questions;
mod refusal;
mod relayed;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::ClientCapabilities;
use rmcp::model::CustomRequest;
use rmcp::model::CustomResult;
use rmcp::model::DiscoverResult;
use rmcp::model::Implementation;
use rmcp::model::InitializeRequestParams;
use rmcp::model::InitializeResult;
use rmcp::model::ProtocolVersion;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::model::SubscribeRequestParams;
use rmcp::model::SubscriptionFilter;
use rmcp::model::UnsubscribeRequestParams;
use rmcp::service::NotificationContext;
use rmcp::service::RequestContext;
use rmcp::service::SubscriptionContext;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde_json::Value;
use serde_json::json;
use tower::ServiceExt as _;

use super::lane::TTL;
use super::sessions::Door;
use crate::config::Bridge;
use crate::config::Passed;
use crate::domain::LogLevel;
use crate::gateway::Gateway;
use crate::gateway::View;

use calls::Host;
use calls::LOG_LEVEL;
use notices::Watched;
use questions::Parking;
use refusal::Refusal;
use relayed::Relayed;
pub(super) use relayed::Way;
pub(super) use relayed::rename_header;
pub(super) use relayed::way_of;

/// How long a host may wait before it comes back to a stream that broke.
const RETRY: Duration = Duration::from_secs(3);

/// The SDK's service for one view.
pub(super) struct Rest {
    handler: Arc<Handler>,
    request_bytes: usize,
    /// What answers requests that belong to no session.
    alone: StreamableHttpService<Handler, NeverSessionManager>,
}

/// Answers the SDK's questions about one view, for one session where there are any.
pub(super) struct Handler {
    gateway: Gateway,
    view: View,
    /// Calls that wait for their hosts, whichever session they come back in.
    parking: Parking,
    /// From which level on a host of before 2026-07-28 wants to hear, once it said so; held for a look.
    level: Mutex<Option<LogLevel>>,
    /// What a host of before 2026-07-28 watches.
    watched: Watched,
    /// The bridge for hosts without the extension.
    bridge: Arc<bridge::Shared>,
    /// What tells one session from the others.
    session: u128,
}

impl Rest {
    /// Makes the service of a view.
    pub(super) fn new(gateway: &Gateway, view: View, bridge: Bridge) -> Self {
        let handler = Arc::new(Handler::new(gateway.clone(), view, bridge));
        let request_bytes = gateway.limits().request_bytes;
        let config = config(request_bytes)
            .with_legacy_session_mode(false)
            .with_json_response(true);
        let made = Arc::clone(&handler);
        Self {
            alone: StreamableHttpService::new(
                move || Ok(made.for_session()),
                Arc::new(NeverSessionManager::default()),
                config,
            ),
            handler,
            request_bytes,
        }
    }

    /// Hands a request that belongs to no session to the SDK.
    pub(super) async fn pass(&self, request: Request) -> Response {
        send(self.alone.clone(), request).await
    }

    /// Hands the SDK a request that opens a session or belongs to one; it sees those that `door` leads to.
    pub(super) async fn pass_in_session(&self, door: Door, request: Request) -> Response {
        let config = config(self.request_bytes)
            .with_legacy_session_mode(true)
            .with_sse_retry(door.primes().then_some(RETRY));
        let made = Arc::clone(&self.handler);
        let service = StreamableHttpService::new(move || Ok(made.for_session()), Arc::new(door), config);
        send(service, request).await
    }

    /// What answers over a stream of messages.
    pub(super) fn handler(&self) -> Handler {
        self.handler.for_session()
    }
}

/// What is common to requests with and without sessions. Host and Origin were checked by the guard, which knows the
/// configuration.
fn config(request_bytes: usize) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(request_bytes)
}

async fn send<M: SessionManager>(service: StreamableHttpService<Handler, M>, request: Request) -> Response {
    let answered: Result<_, Infallible> = service.oneshot(request).await;
    match answered {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

impl Handler {
    fn new(gateway: Gateway, view: View, bridge: Bridge) -> Self {
        Self {
            gateway,
            view,
            parking: Parking::default(),
            level: Mutex::default(),
            watched: Watched::default(),
            bridge: Arc::new(bridge::Shared::new(bridge)),
            session: rand::random(),
        }
    }

    /// The same for one more session.
    fn for_session(&self) -> Self {
        Self {
            gateway: self.gateway.clone(),
            view: self.view.clone(),
            parking: self.parking.clone(),
            level: Mutex::default(),
            watched: Watched::default(),
            bridge: Arc::clone(&self.bridge),
            session: rand::random(),
        }
    }

    /// Says whether a host is offered the bridge.
    fn bridges(&self, host: &Host<'_>) -> bool {
        self.bridge.is_for(host.context.client_capabilities().as_ref())
    }

    /// Says whether anything of a kind passes in this view, or may come to.
    fn has(&self, kind: Passed) -> bool {
        self.gateway.may_offer(&self.view, kind)
    }

    /// What this view can do, of what was heard so far. Lists change in all of them, since approvals do.
    fn capabilities(&self, is_bridged: bool) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::builder()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_skills_with_directory_read()
            .build();
        if let Some(resources) = capabilities.resources.as_mut().filter(|_| self.can_watch()) {
            resources.subscribe = Some(true);
        }
        if is_bridged || self.has(Passed::Tools) {
            capabilities.tools = Some(rmcp::model::ToolsCapability::default());
            capabilities
                .tools
                .iter_mut()
                .for_each(|tools| tools.list_changed = Some(true));
        }
        if is_bridged || self.has(Passed::Prompts) {
            capabilities.prompts = Some(rmcp::model::PromptsCapability::default());
            capabilities
                .prompts
                .iter_mut()
                .for_each(|prompts| prompts.list_changed = Some(true));
        }
        if is_bridged || self.has(Passed::Completions) {
            capabilities.completions = Some(rmcp::model::JsonObject::default());
        }
        if self.has_log() {
            capabilities.logging = Some(rmcp::model::JsonObject::default());
        }
        capabilities
    }

    /// Says whether single resources can be watched.
    fn can_watch(&self) -> bool {
        let offers = self.gateway.offers(&self.view, Passed::Resources);
        offers.iter().any(|(_, offer)| offer.can.subscribe)
    }

    /// Says whether log messages of origins may come beside the answers to calls.
    fn has_log(&self) -> bool {
        let offers = self.gateway.offers(&self.view, Passed::Tools);
        offers.iter().any(|(_, offer)| offer.can.logging)
    }

    /// Says whether a host wants to hear of a log message (base protocol §15; before 2026-07-28, everything unless it said
    /// otherwise).
    fn wants_log(&self, message: &Value, host: &Host<'_>) -> bool {
        let level = message.get("level").and_then(LogLevel::of);
        match (self.wanted_level(host), level) {
            (Some(least), Some(level)) => level >= least,
            (Some(_), None) => false,
            (None, _) => !host.is_modern,
        }
    }

    /// From which level on a host said that it wants to hear.
    fn wanted_level(&self, host: &Host<'_>) -> Option<LogLevel> {
        if !host.is_modern {
            return *self.level.lock();
        }
        let meta = serde_json::to_value(&host.context.meta).unwrap_or_default();
        LogLevel::of(meta.get(LOG_LEVEL)?)
    }

    async fn answer(&self, method: Relayed, params: Value, host: &Host<'_>) -> Result<Value, Refusal> {
        if self.bridges(host)
            && let Some(answer) = self.bridge_answer(method, &params, host).await?
        {
            return Ok(answer);
        }
        match method {
            Relayed::ToolsList | Relayed::PromptsList | Relayed::ResourcesList | Relayed::TemplatesList => {
                let mut listed = self.list(method, &params, host).await?;
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

impl Handler {
    fn info(&self, is_bridged: bool) -> ServerConfig {
        let us = Implementation::new("portcullis", env!("CARGO_PKG_VERSION"));
        let mut info = ServerConfig::new(self.capabilities(is_bridged)).with_server_info(us);
        info.instructions = self.gateway.instructions(&self.view);
        info
    }

    /// What a host is told of who answers, with the skills that it cannot ask for by the extension's methods.
    async fn info_for(
        &self,
        capabilities: Option<&ClientCapabilities>,
        context: &RequestContext<RoleServer>,
    ) -> Result<ServerConfig, ErrorData> {
        let is_bridged = self.bridge.is_for(capabilities);
        let mut info = self.info(is_bridged);
        if is_bridged {
            let listed = self.bridge_instructions(context).await;
            let listed = listed.map_err(|refusal| refusal.error(false, is_modern(context)))?;
            let both = [listed, info.instructions].into_iter().flatten().collect::<Vec<_>>();
            info.instructions = (!both.is_empty()).then(|| both.join("\n\n"));
        }
        Ok(info)
    }
}

impl ServerHandler for Handler {
    /// The most that any host is told.
    fn get_info(&self) -> ServerConfig {
        self.info(self.bridge.is_on())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut agreed = self.negotiate_initialize(&request)?;
        let told = self.info_for(Some(&request.capabilities), &context).await?;
        agreed.capabilities = told.capabilities;
        agreed.instructions = told.instructions;
        Ok(agreed)
    }

    /// Names the revisions that go without a handshake and no others: whoever picked another would have to begin anew
    /// (base protocol §5). `initialize` still agrees on the older ones.
    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let told = self.info_for(context.client_capabilities().as_ref(), &context).await?;
        Ok(DiscoverResult::from_server_info(
            vec![ProtocolVersion::V_2026_07_28],
            told,
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
        *self.level.lock() = LogLevel::of(&level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.can_watch() {
            return Err(Refusal::NoMethod("resources/subscribe").error(false, false));
        }
        let watching = self.watch(&self.watched, &request.uri).await;
        watching.map_err(|refusal| refusal.error(true, false))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.can_watch() {
            return Err(Refusal::NoMethod("resources/unsubscribe").error(false, false));
        }
        self.watched.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(names) = &mut accepted.resource_subscriptions {
            names.retain(|name| self.watchable(name).is_ok());
        }
        Some(accepted)
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
