//! What fuzz targets reach of an origin's answers; no other build has it.
//!
//! Imports `tap`, `answer`, `framed`, `stdio`, `sink`.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::ClientRequest;
use rmcp::model::CustomRequest;
use rmcp::model::GetExtensions as _;
use rmcp::model::RequestId;
use rmcp::transport::Transport as _;
use tokio::sync::Mutex;
use tokio_util::io::StreamReader;

use super::Error;
use super::answer;
use super::framed::Framed;
use super::framed::Line;
use super::framed::Outlet;
use super::sink::Sink;
use super::stdio::Lines;
use super::tap;

/// Reads an answer that arrives in `chunks`, and all that it may be an answer to.
///
/// # Errors
///
/// Whatever the origin would be told of.
pub async fn answer(status: u16, kind: &str, chunks: Vec<Bytes>, cap: u64) -> Result<(), Error> {
    let body = futures_util::stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    let mut response = http::Response::new(reqwest::Body::wrap_stream(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    let text = tap::read_any(response.into(), RequestId::Number(1), cap).await?;
    assert!(text.len() as u64 <= cap, "an answer is longer than it may be");
    let _parsed = [answer::page(&text).is_ok(), answer::entry(&text).is_ok()];
    let file = answer::file(&text, "skill://a/SKILL.md", Some(64))?;
    assert!(file.bytes.len() <= text.len(), "a file is longer than its answer");
    Ok(())
}

/// Reads what a program says in `chunks`, up to its end, while request 1 waits for an answer of at most `cap` bytes.
///
/// # Errors
///
/// Why there is no answer.
pub async fn lines(chunks: Vec<Bytes>, cap: u64) -> Result<String, Error> {
    let chunks = chunks.into_iter().map(Ok::<_, std::io::Error>);
    let said = Lines::new(StreamReader::new(futures_util::stream::iter(chunks)));
    let mut framed = Framed::new(said, Arc::new(Mutex::new(Nowhere)), Line::default(), cap);
    let sink = Sink::new(cap);
    let mut request = CustomRequest::new("skills/list", None);
    request.extensions_mut().insert(sink.clone());
    let request = ClientJsonRpcMessage::request(ClientRequest::CustomRequest(request), RequestId::Number(1));
    framed.send(request).await?;
    while framed.receive().await.is_some() {}
    sink.take().unwrap_or(Err(Error::NotFound))
}

/// Where nobody listens.
struct Nowhere;

impl Outlet for Nowhere {
    async fn put(&mut self, _message: String) -> Result<(), Error> {
        Ok(())
    }

    async fn end(&mut self) {}
}
