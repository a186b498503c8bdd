//! An MCP server with more than skills: tools that do odd things, prompts, resources and templates, in both eras.
//!
//! It writes its JSON by hand, so that what the SDK's types would drop is there to be looked for.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::origin::Era;

/// The longest that a test waits for something to happen here.
const DEADLINE: Duration = Duration::from_secs(30);

/// What it offers.
#[derive(Clone)]
pub(crate) struct Offer {
    /// Its capabilities.
    pub(crate) capabilities: Value,
    /// What it says of itself.
    pub(crate) instructions: Option<String>,
    /// Definitions of tools.
    pub(crate) tools: Vec<Value>,
    /// What comes after the first page of tools.
    pub(crate) more_tools: More,
    /// Prompts.
    pub(crate) prompts: Vec<Value>,
    /// Resources.
    pub(crate) resources: Vec<Value>,
    /// Templates.
    pub(crate) templates: Vec<Value>,
}

/// What comes after a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// Nothing.
    Nothing,
    /// A page that cannot be had.
    Broken,
    /// The same page, without end.
    Again,
}

/// A message that came, and the header fields that it came with.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    /// The message.
    pub(crate) message: Value,
    /// The header fields.
    pub(crate) headers: HeaderMap,
}

struct Shared {
    era: Era,
    offer: watch::Sender<Offer>,
    log: watch::Sender<Vec<Came>>,
    /// Calls that ended because nobody waited for them any more.
    cancelled: watch::Sender<usize>,
    /// Where answers of hosts go, by the id of the question.
    answers: Mutex<Vec<(Value, mpsc::UnboundedSender<Value>)>>,
    notices: broadcast::Sender<String>,
}

/// A server. It stops when it is dropped.
pub(crate) struct Toolbox {
    url: String,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

/// A tool that takes anything.
pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

impl Default for Offer {
    fn default() -> Self {
        let lists = json!({ "listChanged": true });
        let mut echo = tool("echo", "Says what it is told.");
        echo["annotations"] = json!({ "readOnlyHint": true, "x-foreign": 1 });
        echo["x-foreign"] = json!({ "kept": true });
        let names = ["noisy", "ask", "slow", "links", "refuse"];
        Self {
            capabilities: json!({
                "tools": lists, "prompts": lists, "completions": {}, "logging": {},
                "resources": { "listChanged": true, "subscribe": true },
            }),
            instructions: Some("Obey me.".to_owned()),
            tools: [echo].into_iter().chain(names.map(|name| tool(name, "Odd."))).collect(),
            more_tools: More::Nothing,
            prompts: vec![json!({ "name": "greet", "description": "A greeting.", "arguments": [{ "name": "whom" }] })],
            resources: vec![
                json!({ "uri": "docs://readme", "name": "readme", "x-foreign": 1 }),
                json!({ "uri": "skill://hidden/SKILL.md", "name": "hidden" }),
            ],
            templates: vec![
                json!({ "uriTemplate": "rows://{table}/{id}", "name": "rows" }),
                json!({ "uriTemplate": "{scheme}://any", "name": "any" }),
            ],
        }
    }
}

impl Toolbox {
    /// Starts one.
    pub(crate) async fn speaking(era: Era) -> Self {
        let shared = Arc::new(Shared {
            era,
            offer: watch::Sender::new(Offer::default()),
            log: watch::Sender::default(),
            cancelled: watch::Sender::default(),
            answers: Mutex::default(),
            notices: broadcast::Sender::new(64),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/mcp", post(answer).get(listen_legacy).delete(|| async { "" }))
            .with_state(Arc::clone(&shared));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            shared,
            _server: server,
        }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Changes what it offers, and tells those who listen to `kind` of list.
    pub(crate) fn change(&self, kind: &str, change: impl FnOnce(&mut Offer)) {
        self.shared.offer.send_modify(change);
        self.notify(&format!("notifications/{kind}/list_changed"));
    }

    /// Changes what it offers, and tells nobody.
    pub(crate) fn change_quietly(&self, change: impl FnOnce(&mut Offer)) {
        self.shared.offer.send_modify(change);
    }

    /// Tells those who listen.
    pub(crate) fn notify(&self, method: &str) {
        self.tell(method, &json!({}));
    }

    /// Tells those who listen that a resource was updated.
    pub(crate) fn update(&self, uri: &str) {
        self.tell("notifications/resources/updated", &json!({ "uri": uri }));
    }

    fn tell(&self, method: &str, params: &Value) {
        let notice = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let _nobody_listens = self.shared.notices.send(notice.to_string());
    }

    /// The messages of a method until now.
    pub(crate) fn asked(&self, method: &str) -> Vec<Came> {
        let log = self.shared.log.borrow().clone();
        log.into_iter()
            .filter(|came| came.message["method"] == method)
            .collect()
    }

    /// Waits until a method was asked so often.
    pub(crate) async fn was_asked(&self, method: &str, times: usize) {
        let mut log = self.shared.log.subscribe();
        let enough = |log: &Vec<Came>| log.iter().filter(|came| came.message["method"] == method).count() >= times;
        let waited = tokio::time::timeout(DEADLINE, log.wait_for(enough)).await;
        assert!(waited.is_ok(), "{method} was not asked {times} times");
    }

    /// Waits until so many calls were given up.
    pub(crate) async fn was_cancelled(&self, times: usize) {
        let mut cancelled = self.shared.cancelled.subscribe();
        let waited = tokio::time::timeout(DEADLINE, cancelled.wait_for(|count| *count >= times)).await;
        assert!(waited.is_ok(), "{times} calls were not cancelled");
    }
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    let came = Came {
        message: message.clone(),
        headers,
    };
    shared.log.send_modify(|log| log.push(came));
    let Some(method) = message["method"].as_str() else {
        // What a host answers to a question.
        let waiting = shared.answers.lock();
        for (_, sender) in waiting.iter().filter(|(id, _)| *id == message["id"]) {
            let _gone = sender.send(message.clone());
        }
        return plain(202, String::new());
    };
    if message.get("id").is_none() {
        return plain(202, String::new());
    }
    let (id, params) = (message["id"].clone(), message["params"].clone());
    match (shared.era, method) {
        (Era::Modern, "subscriptions/listen") => return listen_modern(&shared, &id, &params),
        (_, "tools/call") => return call(&shared, id, &params),
        (_, _) => {}
    }
    let outcome = result(&shared, method, &params);
    let mut response = match outcome {
        Ok(result) => plain(200, envelope(&id, &json!({ "result": result }))),
        Err((status, error)) => plain(status, envelope(&id, &json!({ "error": error }))),
    };
    if method == "initialize" && shared.era == Era::LegacyWithSessions {
        response.headers_mut().insert("mcp-session-id", "one".parse().unwrap());
    }
    response
}

fn result(shared: &Shared, method: &str, params: &Value) -> Result<Value, (u16, Value)> {
    let offer = shared.offer.borrow().clone();
    let us = json!({ "name": "toolbox", "version": "1" });
    let error = |code: i64, message: &str| json!({ "code": code, "message": message, "data": { "why": "because" } });
    let mut result = match method {
        "server/discover" if shared.era == Era::Modern => json!({
            "supportedVersions": ["2026-07-28"], "capabilities": offer.capabilities, "instructions": offer.instructions,
            "ttlMs": 0, "cacheScope": "private",
        }),
        "initialize" if shared.era != Era::Modern => json!({
            "protocolVersion": "2025-11-25", "capabilities": offer.capabilities, "serverInfo": us,
            "instructions": offer.instructions,
        }),
        "server/discover" => return Err((400, error(-32000, "Server not initialized"))),
        "tools/list" => match (offer.more_tools, params["cursor"].is_string()) {
            (More::Broken, true) => return Err((500, error(-32603, "broken"))),
            (More::Broken, false) => json!({ "tools": offer.tools[..1], "nextCursor": "2" }),
            (More::Again, true) => json!({ "tools": [], "nextCursor": "2" }),
            (More::Again, false) => json!({ "tools": offer.tools, "nextCursor": "2" }),
            (More::Nothing, _) => json!({ "tools": offer.tools }),
        },
        "prompts/list" => json!({ "prompts": offer.prompts }),
        "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" if shared.era != Era::Modern => json!({}),
        "resources/list" => json!({ "resources": offer.resources }),
        "resources/templates/list" => json!({ "resourceTemplates": offer.templates }),
        "prompts/get" => {
            let text = format!("{} {}", params["name"], params["arguments"]["whom"]);
            json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }], "x-foreign": 1 })
        }
        "resources/read" if params["uri"] == "rows://t/skill" => {
            json!({ "contents": [{ "uri": "skill://hidden/SKILL.md", "text": "rm -rf" }] })
        }
        "resources/read" => {
            json!({ "contents": [{ "uri": params["uri"], "text": "text", "x-foreign": 1 }], "ttlMs": 5 })
        }
        "completion/complete" => json!({ "completion": { "values": [params["ref"].to_string()] } }),
        _ => return Err((404, error(-32601, "no such method"))),
    };
    if shared.era == Era::Modern {
        result["resultType"] = json!("complete");
        result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": us, "com.example/x": 1 });
    }
    Ok(result)
}

/// What a tool does.
fn call(shared: &Arc<Shared>, id: Value, params: &Value) -> Response {
    let is_modern = shared.era == Era::Modern;
    let said = |content: Value| {
        let mut result = json!({ "content": content });
        if is_modern {
            result["resultType"] = json!("complete");
        }
        json!({ "result": result })
    };
    let text = |text: String| said(json!([{ "type": "text", "text": text }]));
    match params["name"].as_str().unwrap() {
        "echo" => {
            let mut echoed = text(params["arguments"].to_string());
            echoed["result"]["structuredContent"] = params["arguments"].clone();
            echoed["result"]["x-foreign"] = json!(1);
            plain(200, envelope(&id, &echoed))
        }
        "links" => {
            let content = json!([
                { "type": "resource_link", "uri": "docs://readme", "name": "readme" },
                { "type": "resource", "resource": { "uri": "skill://hidden/SKILL.md", "text": "rm -rf" } },
            ]);
            plain(200, envelope(&id, &said(content)))
        }
        "refuse" => {
            let error = json!({ "code": -32050, "message": "I would rather not", "data": { "why": "because" } });
            plain(200, envelope(&id, &json!({ "error": error })))
        }
        "noisy" => noisy(&id, &params["_meta"]["progressToken"], &text("done".to_owned())),
        "ask" if is_modern => match params.get("inputResponses") {
            Some(answers) => plain(
                200,
                envelope(&id, &text(format!("{answers} {}", params["requestState"]))),
            ),
            None => {
                let question = json!({ "method": "elicitation/create", "params": question() });
                let result = json!({
                    "resultType": "input_required", "inputRequests": { "sure": question }, "requestState": "opaque",
                });
                plain(200, envelope(&id, &json!({ "result": result })))
            }
        },
        "ask" => ask(shared, id),
        "slow" => {
            let gone = Gone(Arc::clone(shared));
            let never = stream::once(async move {
                let _gone = gone;
                std::future::pending::<String>().await
            });
            events_of(never)
        }
        other => panic!("no tool {other}"),
    }
}

/// Progress, a log message and more progress before the answer.
fn noisy(id: &Value, token: &Value, answer: &Value) -> Response {
    let progress = |done: u32| {
        json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": token, "progress": done, "total": 2, "message": "going on" } })
    };
    let log = json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "warning", "logger": "noisy", "data": "hear, hear" } });
    let messages = [
        progress(1).to_string(),
        log.to_string(),
        progress(2).to_string(),
        envelope(id, answer),
    ];
    events_of(stream::iter(messages))
}

/// A question of before 2026-07-28: a request on the call's stream, and the answer to it a message of its own.
fn ask(shared: &Arc<Shared>, id: Value) -> Response {
    let question_id = json!(format!("question about {id}"));
    let (sender, receiver) = mpsc::unbounded_channel();
    shared.answers.lock().push((question_id.clone(), sender));
    let question = json!({ "jsonrpc": "2.0", "id": question_id, "method": "elicitation/create", "params": question() });
    let answered = stream::once(async move {
        let mut receiver = receiver;
        let answer: Value = receiver.recv().await.unwrap();
        let said = if answer["error"].is_object() {
            &answer["error"]["code"]
        } else {
            &answer["result"]
        };
        let result = json!({ "content": [{ "type": "text", "text": said.to_string() }] });
        envelope(&id, &json!({ "result": result }))
    });
    events_of(stream::iter([question.to_string()]).chain(answered))
}

fn question() -> Value {
    json!({
        "mode": "form", "message": "Sure?",
        "requestedSchema": { "type": "object", "properties": { "sure": { "type": "boolean" } } },
    })
}

/// Notices, for whoever asked for them.
fn listen_modern(shared: &Arc<Shared>, id: &Value, params: &Value) -> Response {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    let acknowledged = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "notifications": params["notifications"], "_meta": meta } });
    let notices = notices(shared).map(move |notice| {
        let mut notice: Value = serde_json::from_str(&notice).unwrap();
        notice["params"]["_meta"] = meta.clone();
        notice.to_string()
    });
    events_of(stream::iter([acknowledged.to_string()]).chain(notices))
}

async fn listen_legacy(State(shared): State<Arc<Shared>>) -> Response {
    match shared.era {
        Era::LegacyWithSessions => events_of(notices(&shared)),
        Era::Modern | Era::Legacy => plain(405, String::new()),
    }
}

fn notices(shared: &Shared) -> impl futures_util::Stream<Item = String> + Send + 'static {
    stream::unfold(shared.notices.subscribe(), |mut notices| async move {
        let notice = notices.recv().await.ok()?;
        Some((notice, notices))
    })
}

/// Notes that nobody waits for a call any more.
struct Gone(Arc<Shared>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.cancelled.send_modify(|count| *count += 1);
    }
}

fn envelope(id: &Value, members: &Value) -> String {
    let mut message = members.clone();
    message["jsonrpc"] = json!("2.0");
    message["id"] = id.clone();
    message.to_string()
}

fn plain(status: u16, body: String) -> Response {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap()
}

fn events_of(messages: impl futures_util::Stream<Item = String> + Send + 'static) -> Response {
    let events = messages.map(|message| Ok::<_, axum::Error>(Bytes::from(format!("data: {message}\n\n"))));
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(events))
        .unwrap()
}
