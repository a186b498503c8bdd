//! Answers of origins: any body, whole or as an event stream in any pieces, gives an answer within its bounds or a reason.
//!
//! Input: a line with status, bytes a chunk and content type; then the body.
#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use portcullis::upstream::fuzzed;
use tokio::runtime::Builder;
use tokio::runtime::Runtime;

/// Bytes that an answer may have.
const CAP: u64 = 64 * 1024;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = bytes.split_at(cut);
    let line = String::from_utf8_lossy(line);
    let mut words = line.splitn(3, ' ');
    let status = words.next().and_then(|word| word.parse().ok()).unwrap_or(200);
    let chunk: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let kind = words.next().unwrap_or("text/event-stream");
    let body = body.get(1..).unwrap_or_default();
    let chunks = body.chunks(chunk.max(1)).map(Bytes::copy_from_slice).collect();
    let _reason = RUNTIME.block_on(fuzzed::answer(status, kind, chunks, CAP)).err();
});
