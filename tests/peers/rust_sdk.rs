//! The Rust SDK as a server and as a host, within this process.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use axum::Router;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis::domain::Digest;
use rmcp::ClientLifecycleMode;
use rmcp::ClientServiceExt as _;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::ServiceError;
use rmcp::handler::server::skill_catalog::SkillCatalog;
use rmcp::model::ClientCapabilities;
use rmcp::model::ClientConfig;
use rmcp::model::GetSkillRequestParams;
use rmcp::model::GetSkillResult;
use rmcp::model::Implementation;
use rmcp::model::ListResourcesResult;
use rmcp::model::ListSkillsResult;
use rmcp::model::PaginatedRequestParams;
use rmcp::model::ReadResourceDirectoryRequestParams;
use rmcp::model::ReadResourceDirectoryResult;
use rmcp::model::ReadResourceRequestParams;
use rmcp::model::ReadResourceResponse;
use rmcp::model::ReadResourceResult;
use rmcp::model::Resource;
use rmcp::model::ResourceContents;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::model::Skill;
use rmcp::model::SkillResources;
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Child;

use crate::support::client;

/// A server of a folder of skills.
#[derive(Clone)]
struct Skills(Arc<SkillCatalog>);

/// A host that notes what it sees.
struct Walk {
    client: client::Session,
    seen: Map<String, Value>,
}

/// Serves a folder for as long as the test runs, and gives the endpoint.
pub(crate) async fn serve(folder: &Path) -> String {
    let skills = Skills(Arc::new(SkillCatalog::from_dir(folder).unwrap()));
    let service: StreamableHttpService<Skills, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(skills.clone()), Arc::default(), Default::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = axum::serve(listener, Router::new().nest_service("/mcp", service));
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
    let _serving = tokio::spawn(serving.into_future());
    format!("http://{address}/mcp")
}

impl ServerHandler for Skills {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_resources()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp", "1"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.0.resources()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || ErrorData::resource_not_found(format!("no resource at {}", request.uri), None);
        self.0.read_resource(&request.uri).map(Into::into).ok_or_else(unknown)
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(self.0.list_skills())
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.0.get_skill(&request.uri)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        self.0.read_resource_directory(&request.uri)
    }
}

/// Takes every step that a host can take, and reports what came of it.
pub(crate) async fn walk(url: &str, refused: &[String], era: &str) -> Value {
    let [discover, initialize] = client::lifecycles();
    let lifecycle = if era == "legacy" { initialize } else { discover };
    let (client, _command) = match url.strip_prefix("command:") {
        Some(command) => {
            let (client, child) = start(command, lifecycle).await;
            (client, Some(child))
        }
        None => (client::connect(url, lifecycle).await, None),
    };
    let mut walk = Walk {
        client,
        seen: Map::new(),
    };
    let skills = walk.client.list_all_skills().await;
    walk.note("list", skills.as_ref().map(|skills| json!(sorted(skills))));
    for skill in skills.iter().flatten() {
        walk.visit(skill).await;
    }
    for uri in refused {
        walk.get(uri).await;
        walk.read(uri).await;
    }
    walk.client.cancel().await.unwrap();
    Value::Object(walk.seen)
}

/// Starts a command, and opens a session of the SDK's client with it.
async fn start(command: &str, lifecycle: ClientLifecycleMode) -> (client::Session, Child) {
    let mut child = tokio::process::Command::new(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let us = ClientConfig::new(ClientCapabilities::default(), Implementation::new("stock", "1"));
    (us.serve_with_lifecycle(pipes, lifecycle).await.unwrap(), child)
}

impl Walk {
    async fn visit(&mut self, skill: &Skill) {
        self.get(&skill.uri).await;
        let SkillResources::Files(files) = &skill.resources else {
            return;
        };
        for file in files {
            self.read(&file.uri).await;
        }
        let mut directories = vec![skill.uri.trim_end_matches("/SKILL.md").to_owned()];
        while let Some(uri) = directories.pop() {
            directories.extend(self.directory(&uri).await);
        }
    }

    async fn get(&mut self, uri: &str) {
        let got = self.client.get_skill(GetSkillRequestParams::new(uri)).await;
        self.note(&format!("get {uri}"), got.as_ref().map(|got| json!(got.skill)));
    }

    async fn read(&mut self, uri: &str) {
        let read = self.client.read_resource(ReadResourceRequestParams::new(uri)).await;
        self.note(&format!("read {uri}"), read.as_ref().map(content));
    }

    /// Reads a directory, and gives those in it.
    async fn directory(&mut self, uri: &str) -> Vec<String> {
        let read = self.children(uri).await;
        self.note(
            &format!("directory {uri}"),
            read.as_ref().map(|children| json!(children)),
        );
        let is_directory = |child: &Resource| child.mime_type.as_deref() == Some("inode/directory");
        let directories = read.into_iter().flatten().filter(is_directory);
        directories.map(|child| child.uri).collect()
    }

    /// What is in a directory, over all pages.
    async fn children(&self, uri: &str) -> Result<Vec<Resource>, ServiceError> {
        let mut children = Vec::new();
        let mut request = ReadResourceDirectoryRequestParams::new(uri);
        loop {
            let page = self.client.read_resource_directory(request).await?;
            children.extend(page.resources);
            let Some(cursor) = page.next_cursor else { break };
            request = ReadResourceDirectoryRequestParams::new(uri).with_cursor(cursor);
        }
        children.sort_by(|a, b| a.uri.cmp(&b.uri));
        Ok(children)
    }

    fn note(&mut self, step: &str, outcome: Result<Value, &ServiceError>) {
        let noted = match outcome {
            Ok(seen) => json!({ "ok": seen }),
            Err(ServiceError::McpError(error)) => {
                let reason = error.data.as_ref().map(|data| &data["dev.portcullis/reason"]);
                json!({ "error": { "code": error.code, "reason": reason, "message": error.message } })
            }
            Err(error) => json!({ "error": { "message": error.to_string() } }),
        };
        self.seen.insert(step.to_owned(), noted);
    }
}

fn sorted(skills: &[Skill]) -> Vec<&Skill> {
    let mut skills: Vec<&Skill> = skills.iter().collect();
    skills.sort_by(|a, b| a.uri.cmp(&b.uri));
    skills
}

fn content(read: &ReadResourceResult) -> Value {
    let bytes = match read.contents.as_slice() {
        [ResourceContents::TextResourceContents { text, .. }] => text.as_bytes().to_vec(),
        [ResourceContents::BlobResourceContents { blob, .. }] => BASE64_STANDARD.decode(blob).unwrap(),
        other => return json!({ "contents": other }),
    };
    json!({ "size": bytes.len(), "digest": Digest::of(&bytes).to_string() })
}
