//! Requests of hosts: any headers and body get an answer that fits them, and never a word of what is held.
//!
//! Input: the path, header lines, an empty line, the body.
#![no_main]

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::HeaderName;
use http::HeaderValue;
use http::Request;
use http::header::CONTENT_TYPE;
use http::header::HOST;
use http_body_util::BodyExt as _;
use libfuzzer_sys::fuzz_target;
use portcullis::clock::Clock;
use portcullis::config::Config;
use portcullis::gateway::Approving;
use portcullis::gateway::By;
use portcullis::gateway::Caller;
use portcullis::gateway::Gateway;
use portcullis::gateway::Mode;
use portcullis::gateway::Who;
use portcullis::server;
use portcullis::shutdown::Shutdown;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// Words of the skill that nobody approved.
const HELD: &str = "words-that-nobody-approved";

/// Configured, with one skill approved and one held.
const CONFIG: &str = "[log]\nlevel = \"error\"\n[store]\ndata_dir = \"data\"\nallow_unsafe_location = true\n[audit]\ndeliveries = false\n\
                      [[origin]]\nlabel = \"acme\"\ndir = \"skills\"\n";

static HERE: LazyLock<Here> = LazyLock::new(Here::new);

struct Here {
    runtime: Runtime,
    router: Router,
    _folder: TempDir,
}

fuzz_target!(|bytes: &[u8]| {
    let here = &*HERE;
    let (request, body) = request(bytes);
    here.runtime.block_on(async {
        let answer = here
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("a router does not fail");
        assert_ne!(answer.status(), 500, "our own fault");
        let is_json = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == "application/json");
        let collected = tokio::time::timeout(Duration::from_secs(5), answer.into_body().collect()).await;
        let answered = collected.expect("in time").expect("a whole body").to_bytes();
        let text = String::from_utf8_lossy(&answered);
        assert!(!text.contains(HELD), "what is held was served");
        if is_json && !answered.is_empty() {
            check(body, &serde_json::from_slice(&answered).expect("valid JSON"));
        }
    });
});

/// The request in `bytes`, and its body.
fn request(bytes: &[u8]) -> (Request<Body>, &[u8]) {
    let cut = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = bytes.split_at(cut);
    let body = body.get(2..).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split('\n');
    let path = if lines.next() == Some("/mcp") {
        "/mcp"
    } else {
        "/mcp/acme"
    };
    let mut request = Request::post(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .header("accept", "application/json, text/event-stream")
        .extension(Caller::at(Ipv4Addr::LOCALHOST.into()))
        .body(Body::from(body.to_vec()))
        .expect("a request");
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            request.headers_mut().insert(name, value);
        }
    }
    (request, body)
}

/// An answer has the id of its request, where that has one.
fn check(body: &[u8], answer: &Value) {
    assert_eq!(answer["jsonrpc"], "2.0");
    assert!(
        answer.get("result").is_some() != answer.get("error").is_some(),
        "a result or an error"
    );
    if let Ok(Value::Object(request)) = serde_json::from_slice(body)
        && answer.get("result").is_some()
    {
        assert_eq!(request.get("id"), answer.get("id"));
    }
}

impl Here {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        for (name, words) in [("read-me", "words-that-are-served"), ("held-back", HELD)] {
            let skill = folder.path().join("skills").join(name);
            fs::create_dir_all(skill.join("references")).expect("a folder");
            let text = format!("---\nname: {name}\ndescription: To be asked for.\n---\n\n{words}\n");
            fs::write(skill.join("SKILL.md"), text).expect("a file");
            fs::write(skill.join("references/more.md"), words).expect("a file");
        }
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let router = runtime.block_on(open(folder.path()));
        Self {
            runtime,
            router,
            _folder: folder,
        }
    }
}

/// The MCP listener's routes over a gateway that serves one of the two skills.
async fn open(folder: &Path) -> Router {
    let config = Config::parse(CONFIG.as_bytes(), &folder.join("proxy.toml"), &|_| None).expect("a configuration");
    let gateway = Gateway::open(&config, Mode::default(), Clock::system(), Shutdown::new())
        .await
        .expect("it opens");
    gateway.start_refreshers();
    let by = By {
        who: Who::Gateway,
        note: None,
    };
    while gateway.summary().waiting < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let skills = gateway.skills().await;
    let skill = skills
        .iter()
        .find(|skill| skill.uri.contains("read-me"))
        .expect("it is seen");
    let key = portcullis::gateway::parse_skill("acme/read-me").expect("a skill");
    let wanted = Approving {
        set: skill.set.expect("it has a set"),
        expires: None,
        reviewed: None,
    };
    gateway.approve(&by, &key, wanted).await.expect("it is approved");
    server::Doors::new(&gateway, &config).router(&config.server, Router::new())
}
