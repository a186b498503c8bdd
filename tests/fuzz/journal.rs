//! The journal of the audit log: frames come back as they were written, and damaged ones not at all (design §6).
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use portcullis::domain::audit::Leaf;
use portcullis::store::fuzzed;

/// A journal as it was written, and what then happened to it.
#[derive(Arbitrary, Debug)]
struct Journal {
    batches: Vec<(Vec<Vec<u8>>, Vec<u8>)>,
    edits: Vec<(u32, u8)>,
    cut: Option<u32>,
    after: Vec<u8>,
}

fuzz_target!(|journal: Journal| {
    let mut bytes = Vec::new();
    let mut written = Vec::new();
    for (leaves, note) in journal.batches {
        if leaves.is_empty() {
            continue;
        }
        bytes.extend(fuzzed::encode(written.len() as u64, &leaves, &note).expect("a small batch"));
        written.extend(leaves);
    }
    let sound = bytes.clone();
    let len = bytes.len().max(1);
    for (at, with) in journal.edits {
        if let Some(byte) = bytes.get_mut(at as usize % len) {
            *byte ^= with;
        }
    }
    bytes.truncate(journal.cut.map_or(len, |cut| cut as usize % (len + 1)));
    bytes.extend(journal.after);

    let read = fuzzed::read(&bytes).expect("a file in memory");
    assert!(
        written.starts_with(&read) || read.starts_with(&written),
        "a leaf that was never written"
    );
    if bytes.starts_with(&sound) {
        assert!(read.starts_with(&written), "a leaf is lost");
    }
    for leaf in &read {
        if let Ok(parsed) = Leaf::from_bytes(leaf) {
            assert_eq!(parsed.to_bytes(), *leaf, "a leaf has one spelling");
        }
    }
});
