//! The two servers that the gateway is compared with.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::get;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::handler::server::skill_catalog::SkillCatalog;
use rmcp::model::GetSkillRequestParams;
use rmcp::model::GetSkillResult;
use rmcp::model::Implementation;
use rmcp::model::ListSkillsResult;
use rmcp::model::PaginatedRequestParams;
use rmcp::model::ReadResourceRequestParams;
use rmcp::model::ReadResourceResponse;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;

/// The limit: reads the request as JSON and returns bytes that are there already.
pub(crate) async fn bare(answer: &Path) {
    async fn answer_with(State(body): State<Bytes>, request: Bytes) -> ([(&'static str, &'static str); 1], Bytes) {
        let request: Value = serde_json::from_slice(&request).unwrap();
        assert!(request["method"].is_string());
        ([("content-type", "application/json")], body)
    }
    let router = Router::new()
        .route("/mcp", post(answer_with))
        .with_state(Bytes::from(fs::read(answer).unwrap()));
    serve(router, Arc::default()).await;
}

/// A folder of skills behind the official SDK's server, which counts what it is asked.
pub(crate) async fn origin(skills: &Path) {
    let counts = Arc::new(Counts::default());
    let skills = Skills {
        catalog: Arc::new(SkillCatalog::from_dir(skills).unwrap()),
        counts: Arc::clone(&counts),
    };
    let mut config = StreamableHttpServerConfig::default();
    config.json_response = true;
    config.legacy_session_mode = false;
    let service: StreamableHttpService<Skills, NeverSessionManager> =
        StreamableHttpService::new(move || Ok(skills.clone()), Arc::default(), config);
    let router = Router::new()
        .route("/counts", get(tell))
        .with_state(Arc::clone(&counts))
        .nest_service("/mcp", service);
    serve(router, counts).await;
}

/// What an origin was asked.
#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    connections: AtomicU64,
}

async fn tell(State(counts): State<Arc<Counts>>) -> String {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    json!({ "reads": count(&counts.reads), "connections": count(&counts.connections) }).to_string()
}

async fn serve(router: Router, counts: Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("ready mcp=http://{}/mcp", listener.local_addr().unwrap());
    let listener = listener.tap_io(move |socket| {
        socket.set_nodelay(true).unwrap();
        counts.connections.fetch_add(1, Ordering::Relaxed);
    });
    axum::serve(listener, router).await.unwrap();
}

#[derive(Clone)]
struct Skills {
    catalog: Arc<SkillCatalog>,
    counts: Arc<Counts>,
}

impl ServerHandler for Skills {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_resources()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("bench", "1"))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        match self.catalog.read_resource(&request.uri) {
            Some(result) => Ok(result.into()),
            None => Err(ErrorData::resource_not_found("no such file", None)),
        }
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(self.catalog.list_skills())
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.catalog.get_skill(&request.uri)
    }
}
