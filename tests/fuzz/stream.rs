//! Hosts on a stream of messages: whatever they say, each line that they are told is a message, and none of what is held.
//!
//! Input: the lines.
#![no_main]

mod skills;

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use portcullis::server::Doors;
use portcullis::server::fuzzed;
use serde_json::Value;
use skills::HELD;
use skills::Serving;

static SERVING: LazyLock<Serving<Doors>> = LazyLock::new(|| Serving::by(|doors, _config| doors));

fuzz_target!(|bytes: &[u8]| {
    let Serving { runtime, way, .. } = &*SERVING;
    let told = runtime.block_on(async {
        let answers = fuzzed::answers(way, bytes.to_vec());
        let told = tokio::time::timeout(Duration::from_secs(5), answers).await;
        told.expect("in time").expect("to the end")
    });
    let told = String::from_utf8(told).expect("text");
    assert!(!told.contains(HELD), "what is held was served");
    for line in told.lines() {
        check(&serde_json::from_str(line).expect("valid JSON"));
    }
});

/// A message is a request or a notice of ours, or an answer that is one thing.
fn check(message: &Value) {
    assert_eq!(message["jsonrpc"], "2.0");
    let has = |member: &str| usize::from(message.get(member).is_some());
    assert_eq!(has("method") + has("result") + has("error"), 1, "{message}");
}
