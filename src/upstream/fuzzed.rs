//! What fuzz targets reach of an origin's answers; no other build has it.
//!
//! Imports `tap`, `answer`.

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rmcp::model::RequestId;

use super::Error;
use super::answer;
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
