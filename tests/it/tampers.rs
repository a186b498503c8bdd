//! Whatever is done to the record is found, and the message names it.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::audits::keep_checkpoint;
use crate::audits::key;
use crate::audits::with_leaves;
use crate::support::disk;
use crate::support::gateway::Ended;
use crate::support::gateway::Gateway;
use crate::support::witness::Witness;

/// What a backup has of a data folder.
const BACKED_UP: [&str; 7] = ["FORMAT", "log", "head", "keys", "people", "content", "tokens"];

/// A data folder as it was, to be put back.
struct Backup(TempDir);

impl Backup {
    fn of(gateway: &Gateway) -> Self {
        let folder = TempDir::new().unwrap();
        for name in BACKED_UP {
            copy(&gateway.data().join(name), &folder.path().join(name));
        }
        Self(folder)
    }

    /// Puts a part of it in place of what is there now.
    fn restore(&self, gateway: &Gateway, name: &str) {
        let now = gateway.data().join(name);
        if now.is_dir() {
            fs::remove_dir_all(&now).unwrap();
        }
        copy(&self.0.path().join(name), &now);
    }

    fn restore_all(&self, gateway: &Gateway) {
        BACKED_UP.iter().for_each(|name| self.restore(gateway, name));
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        disk::copy_folder(from, to);
    } else if from.exists() {
        disk::write(to, &fs::read(from).unwrap());
    }
}

fn journal(data: &Path) -> PathBuf {
    data.join("log/journal")
}

/// Where each frame of a journal lies: 28 bytes of head, of which the last 4 before its check are the length of the body,
/// the body, and 32 bytes of checksum.
fn frames(journal: &[u8]) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let mut at = 0;
    while at < journal.len() {
        let body = u32::from_be_bytes(journal[at + 16..at + 20].try_into().unwrap());
        let end = at + 28 + body as usize + 32;
        frames.push(at..end);
        at = end;
    }
    frames
}

/// Makes another journal of the frames of one.
fn with_frames(data: &Path, change: impl Fn(&mut Vec<Vec<u8>>)) {
    let whole = fs::read(journal(data)).unwrap();
    let mut parts: Vec<_> = frames(&whole).into_iter().map(|frame| whole[frame].to_vec()).collect();
    assert!(parts.len() >= 4, "{} frames", parts.len());
    change(&mut parts);
    disk::write(&journal(data), &parts.concat());
}

/// Turns one bit over at a place of a file that `find` finds.
fn flip(path: &Path, find: impl Fn(&[u8]) -> usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = find(&bytes);
    bytes[at] ^= 1;
    disk::write(path, &bytes);
}

/// The tile of the last leaves.
fn partial(data: &Path, level: &str) -> PathBuf {
    let folder = data.join("log/tile").join(level).join("000.p");
    let widest = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    disk::files(&folder).into_iter().max_by_key(widest).unwrap()
}

/// Where a word stands first.
fn place(bytes: &[u8], word: &str) -> usize {
    bytes
        .windows(word.len())
        .position(|window| window == word.as_bytes())
        .unwrap()
}

/// One way to harm a record, and words that must be said of it.
type Harm = (&'static str, fn(&Path), &'static str);

/// What makes a start impossible.
const AT_REST: [Harm; 13] = [
    (
        "an edit of a leaf",
        |data| flip(&journal(data), |bytes| place(bytes, "set-seen")),
        ": its batch does not have its checksum",
    ),
    (
        "a batch deleted",
        |data| with_frames(data, |frames| drop(frames.remove(1))),
        ": its batch has another index",
    ),
    (
        "two batches in another order",
        |data| with_frames(data, |frames| frames.swap(1, 2)),
        ": its batch has another index",
    ),
    (
        "the last batch cut off",
        |data| with_frames(data, |frames| drop(frames.pop())),
        " are missing",
    ),
    (
        "the last batch cut in its middle",
        |data| with_frames(data, |frames| frames.last_mut().unwrap().truncate(100)),
        " are missing",
    ),
    (
        "everything cut off",
        |data| disk::write(&journal(data), b""),
        "leaves 0 to ",
    ),
    (
        "the last batch cut off, and the head taken away",
        |data| {
            with_frames(data, |frames| drop(frames.pop()));
            disk::remove(&data.join("head/checkpoint"));
        },
        "head/checkpoint does not vouch for the log: it is missing",
    ),
    (
        "a bit of the head of a batch",
        |data| flip(&journal(data), |bytes| frames(bytes)[1].start + 9),
        ": the head of its batch is not what was written",
    ),
    (
        "a bit of a checksum in the journal",
        |data| flip(&journal(data), |bytes| frames(bytes)[0].end - 1),
        ": its batch does not have its checksum",
    ),
    (
        "a bit of a checkpoint in the journal",
        |data| flip(&journal(data), |bytes| place(bytes, "portcullis/") + 12),
        ": its batch does not have its checksum",
    ),
    (
        "a bit of the head",
        |data| flip(&data.join("head/checkpoint"), |bytes| bytes.len() / 2),
        "head/checkpoint does not vouch for the log",
    ),
    (
        "the key taken away",
        |data| disk::remove(&data.join("keys/log")),
        "keys/log cannot be used: it is missing",
    ),
    (
        "a bit of the key",
        |data| flip(&data.join("keys/log"), |bytes| bytes.len() - 9),
        "keys/log cannot be used",
    ),
];

#[tokio::test]
async fn what_is_done_to_a_record_at_rest_is_refused_at_the_next_start() {
    let mut gateway = with_leaves().await;
    assert_eq!(gateway.stop().await, 0);
    let whole = Backup::of(&gateway);
    for (what, harm, says) in AT_REST {
        whole.restore_all(&gateway);
        harm(&gateway.data());
        assert!(!gateway.try_start().await, "{what}: it starts");
        let verified = gateway.cli(&["audit", "verify"]).await.expect(1);
        for said in [gateway.stderr(), verified.err] {
            let last = said.lines().last().unwrap_or_default().to_owned();
            assert!(last.contains(says), "{what}: {last}");
        }
    }
    whole.restore_all(&gateway);
    gateway.start().await;
    gateway.finish().await;
}

/// What is found while the gateway runs.
const RUNNING: [Harm; 8] = [
    (
        "a bit of a leaf",
        |data| flip(&journal(data), |bytes| place(bytes, "approved")),
        "its batch does not have its checksum",
    ),
    (
        "a bit of a checksum in the journal",
        |data| flip(&journal(data), |bytes| frames(bytes)[0].end - 1),
        "its batch does not have its checksum",
    ),
    (
        "a bit of a tile of hashes",
        |data| flip(&partial(data, "0"), |_| 40),
        " is missing or different",
    ),
    (
        "a bit of a tile of leaves",
        |data| flip(&partial(data, "entries"), |_| 90),
        " is missing or different",
    ),
    (
        "a tile taken away",
        |data| disk::remove(&partial(data, "0")),
        " is missing or different",
    ),
    (
        "a tile that does not belong there",
        |data| disk::write(&data.join("log/tile/0/001"), b"x"),
        "tile/0/001 is none of the log's",
    ),
    (
        "a bit of the checkpoint",
        |data| flip(&data.join("log/checkpoint"), |bytes| bytes.len() - 5),
        "log/checkpoint: ",
    ),
    (
        "a bit of the head",
        |data| flip(&data.join("head/checkpoint"), |bytes| bytes.len() - 5),
        "head/checkpoint: ",
    ),
];

#[tokio::test]
async fn what_is_done_to_a_record_in_use_is_found_by_a_check_of_it() {
    let gateway = with_leaves().await;
    gateway.audit_everything().await;
    let whole = Backup::of(&gateway);
    for (what, harm, says) in RUNNING {
        harm(&gateway.data());
        let found = gateway.cli(&["audit", "verify", "--json"]).await.expect(1).json();
        let faults = found["report"]["faults"].as_array().unwrap();
        let named = |fault: &Value| fault["why"].as_str().unwrap().contains(says) && fault["index"].is_u64();
        assert!(faults.iter().any(named), "{what}: {found:#}");
        // In place, since the gateway holds the journal open.
        for file in disk::files(whole.0.path()) {
            let now = gateway.data().join(file.strip_prefix(whole.0.path()).unwrap());
            if now.starts_with(gateway.data().join("log")) || now.starts_with(gateway.data().join("head")) {
                disk::write(&now, &fs::read(&file).unwrap());
            }
        }
        let stray = gateway.data().join("log/tile/0/001");
        if stray.exists() {
            disk::remove(&stray);
        }
        gateway.cli(&["audit", "verify"]).await.expect(0);
    }
    gateway.finish().await;
}

/// What a check against a kept checkpoint says.
async fn verify_from(gateway: &Gateway, kept: &str) -> Ended {
    gateway.cli(&["audit", "verify", "--from", kept]).await
}

#[tokio::test]
async fn a_backup_that_was_put_back_is_found_with_its_head_and_without() {
    let mut gateway = with_leaves().await;
    assert_eq!(gateway.stop().await, 0);
    let old = Backup::of(&gateway);
    gateway.start().await;
    gateway.approve("samples/release-notes").await;
    let kept = keep_checkpoint(&gateway, "kept").await;
    assert_eq!(gateway.stop().await, 0);
    let new = Backup::of(&gateway);
    // The head knows better.
    old.restore(&gateway, "log");
    assert!(!gateway.try_start().await);
    assert!(gateway.stderr().contains(" are missing"), "{}", gateway.stderr());
    // With the head, the folder is whole; what was kept elsewhere knows better.
    old.restore_all(&gateway);
    gateway.cli(&["audit", "verify"]).await.expect(0);
    let found = verify_from(&gateway, &kept).await.expect(1);
    assert!(found.out.contains(" are missing"), "{}", found.out);
    new.restore_all(&gateway);
    verify_from(&gateway, &kept).await.expect(0);
    gateway.finish().await;
}

/// A gateway whose log one witness has cosigned, and which ended.
async fn witnessed() -> (Gateway, Witness) {
    let mut gateway = with_leaves().await;
    let witness = Witness::of(&key(&gateway).await).await;
    let setting = format!("audit.witnesses = [{}]", witness.as_setting());
    gateway.reconfigure(|setup| setup.set(&setting));
    gateway.restart().await;
    wait_for_witness(&gateway, |witness| witness["lacking_since"].is_null()).await;
    assert_eq!(gateway.stop().await, 0);
    (gateway, witness)
}

/// How the one witness stands, as soon as `holds` of it.
async fn wait_for_witness(gateway: &Gateway, holds: impl Fn(&Value) -> bool) -> Value {
    let mut interval = tokio::time::interval(std::time::Duration::from_millis(100));
    for _ in 0..600 {
        interval.tick().await;
        let health = gateway.cli(&["health", "--json"]).await.expect(0).json();
        if holds(&health["witnesses"][0]) {
            return health["witnesses"][0].clone();
        }
    }
    panic!("the witness never stood so; it says:\n{}", gateway.stderr());
}

#[tokio::test]
async fn history_rewritten_with_the_key_is_found_by_what_was_kept_and_by_the_witness() {
    let (mut gateway, _witness) = witnessed().await;
    let old = Backup::of(&gateway);
    gateway.start().await;
    gateway.approve("samples/release-notes").await;
    wait_for_witness(&gateway, |witness| witness["lacking_since"].is_null()).await;
    let kept = keep_checkpoint(&gateway, "kept").await;
    assert_eq!(gateway.stop().await, 0);
    // Whoever has the key writes another end, as long and longer, and signs it.
    old.restore_all(&gateway);
    gateway.start().await;
    let set = gateway.skill_is("samples/release-notes", "revoked").await["set"].clone();
    let set = set.as_str().unwrap();
    gateway
        .cli(&["deny", "samples/release-notes", "--set", set])
        .await
        .expect(0);
    gateway.approve("samples/incident-review").await;
    gateway.cli(&["audit", "verify"]).await.expect(0);
    let found = verify_from(&gateway, &kept).await.expect(1);
    assert!(
        found.out.contains("history was rewritten before leaf "),
        "{}",
        found.out
    );
    let refused = |witness: &Value| {
        witness["error"]
            .as_str()
            .is_some_and(|error| error.contains("history was rewritten"))
    };
    wait_for_witness(&gateway, refused).await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_second_writer_on_a_copy_is_noticed_by_the_witness() {
    let (mut gateway, _witness) = witnessed().await;
    let mut copy = gateway.copied();
    gateway.start().await;
    gateway.approve("samples/release-notes").await;
    wait_for_witness(&gateway, |witness| witness["lacking_since"].is_null()).await;
    // A second one on the very same folder does not even start; on a copy it does.
    copy.start().await;
    copy.approve("samples/incident-review").await;
    copy.cli(&["revoke", "samples/incident-review"]).await.expect(0);
    let why = wait_for_witness(&copy, |witness| witness["error"].is_string()).await;
    let why = why["error"].as_str().unwrap();
    assert!(
        why.contains("history was rewritten") || why.contains("an older log was put back"),
        "{why}"
    );
    copy.finish().await;
    gateway.finish().await;
}

#[tokio::test]
async fn an_older_log_is_told_by_the_witness() {
    let (mut gateway, _witness) = witnessed().await;
    let old = Backup::of(&gateway);
    gateway.start().await;
    for _ in 0..2 {
        gateway.approve("samples/release-notes").await;
        gateway.cli(&["revoke", "samples/release-notes"]).await.expect(0);
    }
    wait_for_witness(&gateway, |witness| witness["lacking_since"].is_null()).await;
    assert_eq!(gateway.stop().await, 0);
    old.restore_all(&gateway);
    disk::remove(&gateway.data().join("log/cosigned"));
    gateway.start().await;
    let refused = |witness: &Value| {
        let error = witness["error"].as_str();
        error.is_some_and(|error| error.contains("has cosigned ") && error.contains(": an older log was put back"))
    };
    wait_for_witness(&gateway, refused).await;
    gateway.finish().await;
}
