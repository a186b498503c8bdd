//! The scripted origin on the wire: header rules, handshakes, results.

use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::Stream;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::HeaderMap;
use serde_json::Value;
use serde_json::json;

use super::Answers;
use super::Asked;
use super::Era;
use super::Fault;
use super::Paging;
use super::Script;
use super::Shared;

/// The member of `_meta` that makes a request a modern one.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A result as JSON text, or an error with its HTTP status, code and words.
type Outcome = Result<String, (u16, i64, String)>;

/// Answers one POST.
pub(super) async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap().to_owned();
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let param = |name: &str| message["params"][name].as_str().map(str::to_owned);
    let asked = Asked {
        method: method.clone(),
        uri: param("uri"),
        cursor: param("cursor"),
        authorization: header("authorization"),
    };
    shared.log.send_modify(|log| log.push(asked));
    let mut fault = None;
    shared.script.send_if_modified(|script| {
        fault = script.once.remove(&method);
        fault.is_some()
    });
    let fault = match fault {
        None => unbroken(&shared, &method, &message["params"]["uri"]).await,
        once => once,
    };
    match fault {
        None => {}
        Some(Fault::Redirect(place)) => {
            let mut response = response(307, "text/plain", String::new());
            response.headers_mut().insert("location", place.parse().unwrap());
            return response;
        }
        Some(Fault::Body(text)) => return response(200, "application/json", text.to_owned()),
        Some(Fault::Status(status)) => return response(status, "text/plain", String::new()),
        Some(Fault::Whole(status, kind, text)) => {
            return response(status, kind, text.replace("{id}", &message["id"].to_string()));
        }
        Some(Fault::Flood(kind)) => return flood(kind, &message["id"]),
        Some(Fault::Hang) => unreachable!("it was waited for"),
    }
    if message.get("id").is_none() {
        return response(202, "text/plain", String::new());
    }
    let opened = match shared.era {
        Era::Modern => check_modern(&message, &header),
        Era::Legacy => check_legacy(&method),
        Era::LegacyWithSessions => check_legacy(&method).and_then(|()| check_session(&shared, &method, &header)),
    };
    let outcome = opened.and_then(|()| result(&shared, &method, &message["params"]));
    let mut response = spelled(shared.answers, &message["id"], outcome);
    if shared.era == Era::LegacyWithSessions && method == "initialize" {
        let mut sessions = shared.sessions.lock();
        let session = format!("session-{}", sessions.len() + 1);
        response
            .headers_mut()
            .insert("mcp-session-id", session.parse().unwrap());
        sessions.push(session);
    }
    response
}

/// Answers a GET: a stream that is over at once, where there is one.
pub(super) async fn stream(State(shared): State<Arc<Shared>>) -> Response {
    let asked = Asked {
        method: "GET".to_owned(),
        uri: None,
        cursor: None,
        authorization: None,
    };
    shared.log.send_modify(|log| log.push(asked));
    match shared.script.borrow().stream {
        Some(events) => response(200, "text/event-stream", events.to_owned()),
        None => response(405, "text/plain", String::new()),
    }
}

/// Waits while the method or its URI hangs; then tells what else is wrong with it.
async fn unbroken(shared: &Shared, method: &str, uri: &Value) -> Option<Fault> {
    let fault = |script: &Script| {
        let about = || uri.as_str().and_then(|uri| script.faults.get(uri));
        let one = script.faults.get(method).or_else(about);
        script.fault.clone().or_else(|| one.cloned())
    };
    let mut script = shared.script.subscribe();
    let settled = script
        .wait_for(|script| !matches!(fault(script), Some(Fault::Hang)))
        .await;
    fault(&settled.unwrap())
}

/// The rules for modern requests: required metadata, and headers that agree with the body.
fn check_modern(message: &Value, header: &dyn Fn(&str) -> Option<String>) -> Result<(), (u16, i64, String)> {
    let meta = &message["params"]["_meta"];
    let version = meta[VERSION].as_str();
    let is_modern = version.is_some() && meta["io.modelcontextprotocol/clientCapabilities"].is_object();
    if !is_modern {
        return Err((400, -32602, "the request has no protocol metadata".to_owned()));
    }
    if header("mcp-protocol-version").as_deref() != version {
        return Err((400, -32020, "MCP-Protocol-Version differs from the body".to_owned()));
    }
    if version != Some("2026-07-28") {
        return Err((400, -32022, "unsupported protocol version".to_owned()));
    }
    if header("mcp-method").as_deref() != message["method"].as_str() {
        return Err((400, -32020, "Mcp-Method differs from the body".to_owned()));
    }
    let named = header("mcp-name").map(|name| plain(&name));
    if message["method"] == "resources/read" && named.as_deref() != message["params"]["uri"].as_str() {
        return Err((400, -32020, "Mcp-Name differs from the body".to_owned()));
    }
    Ok(())
}

/// A header value, decoded where it is encoded.
fn plain(value: &str) -> String {
    let encoded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    encoded.map_or_else(
        || value.to_owned(),
        |text| String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap(),
    )
}

/// What an older server says to `server/discover`.
fn check_legacy(method: &str) -> Result<(), (u16, i64, String)> {
    if method == "server/discover" {
        return Err((400, -32000, "Bad Request: Server not initialized".to_owned()));
    }
    Ok(())
}

fn check_session(
    shared: &Shared,
    method: &str,
    header: &dyn Fn(&str) -> Option<String>,
) -> Result<(), (u16, i64, String)> {
    match header("mcp-session-id") {
        _ if method == "initialize" => Ok(()),
        None => Err((400, -32000, "Bad Request: Mcp-Session-Id is missing".to_owned())),
        Some(_) if header("mcp-protocol-version").is_none() => {
            Err((400, -32000, "Bad Request: MCP-Protocol-Version is missing".to_owned()))
        }
        Some(session) if shared.sessions.lock().contains(&session) => Ok(()),
        Some(_) => Err((404, -32001, "Session not found".to_owned())),
    }
}

fn result(shared: &Shared, method: &str, params: &Value) -> Outcome {
    let script = shared.script.borrow();
    let uri = params["uri"].as_str().unwrap_or_default();
    let members = match method {
        "initialize" | "server/discover" => hello(method),
        "skills/list" => list(&script, params["cursor"].as_str())?,
        "skills/get" => {
            let skill = script.skills.iter().find(|skill| skill.uri == uri);
            format!(r#""skill":{}"#, skill.ok_or_else(|| unknown(uri))?.entry())
        }
        "resources/read" => {
            let extra = script.resources.iter().find(|(known, _)| known == uri);
            let extra = extra.map(|(uri, text)| json!({ "uri": uri, "text": text }));
            let content = script.skills.iter().find_map(|skill| skill.content(uri)).or(extra);
            format!(r#""contents":[{}]"#, content.ok_or_else(|| unknown(uri))?)
        }
        "resources/list" => {
            let list = script
                .resources
                .iter()
                .map(|(uri, _)| json!({ "uri": uri, "name": "extra" }));
            format!(r#""resources":{}"#, Value::from_iter(list))
        }
        "resources/templates/list" => r#""resourceTemplates":[]"#.to_owned(),
        _ => return Err((404, -32601, format!("Method not found: {method}"))),
    };
    let result = match shared.era {
        // A server that leaves them out leaves them out of answers about skills; none was seen to spoil its discovery.
        Era::Modern if script.has_hints || method == "server/discover" => {
            format!(r#"{{{members},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#)
        }
        Era::Modern => format!(r#"{{{members},"resultType":"complete"}}"#),
        Era::Legacy | Era::LegacyWithSessions => format!("{{{members}}}"),
    };
    Ok(match &script.rewrite {
        None => result,
        Some(rewrite) => {
            let mut changed = serde_json::from_str(&result).unwrap();
            rewrite(method, &mut changed);
            changed.to_string()
        }
    })
}

/// The members of the result to a handshake.
fn hello(method: &str) -> String {
    let capabilities = json!({ "resources": {}, "extensions": { "io.modelcontextprotocol/skills": {} } });
    let us = json!({ "name": "scripted", "version": "1.0.0" });
    if method == "initialize" {
        return format!(r#""protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{us}"#);
    }
    let meta = json!({ "io.modelcontextprotocol/serverInfo": us });
    format!(r#""supportedVersions":["2026-07-28"],"capabilities":{capabilities},"_meta":{meta}"#)
}

/// The members of one page.
fn list(script: &Script, cursor: Option<&str>) -> Result<String, (u16, i64, String)> {
    let listed = script
        .skills
        .iter()
        .filter(|skill| skill.listed)
        .map(super::Skill::entry);
    let entries: Vec<String> = script.extra_entries.iter().cloned().chain(listed).collect();
    let (range, next) =
        page(script.paging, entries.len(), cursor).ok_or_else(|| (200, -32602, "unknown cursor".to_owned()))?;
    let next = next.map_or_else(String::new, |cursor| format!(r#","nextCursor":{}"#, json!(cursor)));
    Ok(format!(r#""skills":[{}]{next}"#, entries[range].join(",")))
}

/// The entries on a page and the next page's cursor; none when the cursor is not ours.
fn page(paging: Paging, entries: usize, cursor: Option<&str>) -> Option<(Range<usize>, Option<String>)> {
    let (size, second) = match paging {
        Paging::Of(size) => (size, size.to_string()),
        Paging::EmptyCursor(size) => (size, String::new()),
        Paging::Repeated => return Some((0..entries, Some("again".to_owned()))),
        Paging::Endless => {
            let turn: usize = cursor.map_or(Ok(0), str::parse).ok()?;
            return Some((0..entries, Some((turn + 1).to_string())));
        }
    };
    let begin = match cursor {
        None => 0,
        Some(cursor) if cursor == second => size,
        Some(cursor) => cursor.parse().ok()?,
    };
    let end = (begin + size).min(entries);
    let next = (end < entries).then(|| if begin == 0 { second } else { end.to_string() });
    (begin <= end).then_some((begin..end, next))
}

fn unknown(uri: &str) -> (u16, i64, String) {
    (200, -32602, format!("Resource not found: {uri}"))
}

/// An outcome as a response.
fn spelled(answers: Answers, id: &Value, outcome: Outcome) -> Response {
    let (status, message) = match outcome {
        Ok(result) => (200, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)),
        Err((status, code, words)) => {
            let error = json!({ "code": code, "message": words });
            (status, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
        }
    };
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let events = match answers {
        Answers::Events | Answers::DrippedEvents => format!(": ping\n\ndata: {notice}\n\ndata: {message}\n\n"),
        Answers::CrlfEvents => format!("event: message\r\ndata: {message}\r\n\r\n"),
        Answers::PrimedEvents => format!("data: \nid: 0\nretry: 3000\n\ndata: {message}\nid: 1/0\n\n"),
        Answers::Json => return response(status, "application/json", message),
    };
    if status != 200 {
        return response(status, "application/json", message);
    }
    let mut response = response(200, "text/event-stream", events);
    if answers == Answers::DrippedEvents {
        let whole = std::mem::take(response.body_mut());
        *response.body_mut() = Body::from_stream(dripped(whole));
    }
    response
}

/// A body in pieces of one byte.
fn dripped(whole: Body) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    whole.into_data_stream().flat_map(|piece| {
        let piece = piece.unwrap();
        stream::iter((0..piece.len()).map(move |at| Ok(piece.slice(at..=at))))
    })
}

/// An answer that begins well and goes on for a gibibyte.
fn flood(kind: &str, id: &Value) -> Response {
    let field = if kind == "text/event-stream" { "data: " } else { "" };
    let begin = Bytes::from(format!(r#"{field}{{"jsonrpc":"2.0","id":{id},"result":{{"x":""#));
    let piece = Bytes::from(vec![b'a'; 64 * 1024]);
    let rest = stream::repeat(piece).take(16 * 1024);
    let body = Body::from_stream(stream::iter([begin]).chain(rest).map(Ok::<_, axum::Error>));
    Response::builder().header("content-type", kind).body(body).unwrap()
}

fn response(status: u16, kind: &str, body: String) -> Response {
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Body::from(body))
        .unwrap()
}
