//! Lines of programs and of hosts: however they are cut on their way, the same ones come out, none over its bound.
//!
//! Input: a line with the bound and the bytes a chunk; then what is said.
#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use portcullis::server;
use portcullis::upstream;
use tokio::runtime::Builder;
use tokio::runtime::Runtime;

/// The largest bound of a line.
const MOST: usize = 64 * 1024;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (line, said) = bytes.split_at(cut);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ').map(|word| word.parse::<usize>().unwrap_or(1));
    let most = words.next().unwrap_or(1).min(MOST);
    let chunk = words.next().unwrap_or(1);
    let said = said.get(1..).unwrap_or_default();
    RUNTIME.block_on(async {
        programs(said, most, chunk).await;
        hosts(said, most, chunk).await;
    });
});

fn in_chunks(said: &[u8], chunk: usize) -> Vec<Bytes> {
    said.chunks(chunk.max(1)).map(Bytes::copy_from_slice).collect()
}

/// An answer within its bound, or a reason: the same one for what comes at once.
async fn programs(said: &[u8], most: usize, chunk: usize) {
    let cap = most as u64;
    let answer = upstream::fuzzed::lines(in_chunks(said, chunk), cap).await;
    assert!(answer.as_ref().is_ok_and(|text| text.len() <= most) || answer.is_err());
    let whole = upstream::fuzzed::lines(in_chunks(said, said.len()), cap).await;
    assert_eq!(answer, whole, "it depends on the chunks");
}

/// Each line with its end, but for those that are too long.
async fn hosts(said: &[u8], most: usize, chunk: usize) {
    let lines = said.split_inclusive(|&byte| byte == b'\n');
    let fitting: Vec<_> = lines
        .map(|line| Some(line).filter(|line| line.len() <= most + 1))
        .collect();
    let read = server::fuzzed::lines(in_chunks(said, chunk), most).await;
    let read: Vec<_> = read.iter().map(Option::as_deref).collect();
    assert_eq!(read, fitting);
}
