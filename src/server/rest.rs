//! What is not about skills: the SDK's service behind the lane, one for each view.
//!
//! It lists the `SKILL.md` resources of what is served (S-3, S-12 … S-14) and no templates. It reads nothing: every
//! resource there is belongs to the lane.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::CacheScope;
use rmcp::model::DiscoverResult;
use rmcp::model::Implementation;
use rmcp::model::ListResourceTemplatesResult;
use rmcp::model::ListResourcesResult;
use rmcp::model::PaginatedRequestParams;
use rmcp::model::ProtocolVersion;
use rmcp::model::Resource;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use tower::ServiceExt as _;

use super::lane::TTL;
use crate::gateway::Gateway;
use crate::gateway::Served;
use crate::gateway::View;

/// The SDK's service for one view.
pub(super) type Rest = StreamableHttpService<Handler, NeverSessionManager>;

/// Answers the SDK's questions about one view.
#[derive(Clone)]
pub(super) struct Handler {
    gateway: Gateway,
    view: View,
}

/// Makes the service of a view. Host and Origin were checked by the guard, which knows the configuration.
pub(super) fn service(gateway: &Gateway, view: View) -> Rest {
    let handler = Handler {
        gateway: gateway.clone(),
        view,
    };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(gateway.limits().request_bytes);
    StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}

/// Hands a request to the SDK.
pub(super) async fn pass(rest: &Rest, request: Request) -> Response {
    let answered: Result<_, Infallible> = rest.clone().oneshot(request).await;
    match answered {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_resources()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("portcullis", env!("CARGO_PKG_VERSION")))
    }

    /// Names the revisions that go without a handshake and no others: whoever picked another would have to begin anew
    /// (base protocol §5). `initialize` still agrees on the older ones.
    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(
            vec![ProtocolVersion::V_2026_07_28],
            self.get_info(),
        ))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if request.and_then(|request| request.cursor).is_some() {
            return Err(ErrorData::invalid_params("this cursor was never given out", None));
        }
        let catalog = self.gateway.catalog();
        let resources = catalog
            .served_after(&self.view, None, self.gateway.clock().now())
            .filter_map(|served| self.resource(served))
            .collect();
        let listed = ListResourcesResult::with_all_items(resources);
        Ok(if is_modern(&context) {
            listed.with_ttl_ms(TTL).with_cache_scope(CacheScope::Private)
        } else {
            listed
        })
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let none = ListResourceTemplatesResult::with_all_items(Vec::new());
        Ok(if is_modern(&context) {
            none.with_ttl_ms(TTL).with_cache_scope(CacheScope::Private)
        } else {
            none
        })
    }
}

/// Says whether the request is of an era that has hints for caches (base protocol §10.1, §25).
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.meta.protocol_version().is_some()
}

impl Handler {
    /// A served skill's `SKILL.md` as a resource.
    fn resource(&self, served: &Served) -> Option<Resource> {
        let entry = served.permit().entry();
        let own = entry.resources().get(entry.uri().as_str())?;
        let uri = self.view.name(&served.key().label, &own.uri);
        Some(
            Resource::new(uri, entry.name())
                .with_description(entry.description())
                .with_mime_type("text/markdown")
                .with_size(own.size),
        )
    }
}
