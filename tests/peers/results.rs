//! `RESULTS.md`: what came out, to be read by people, and compared with what is committed.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::installed::HERE;
use crate::support::disk;

/// Two tests write one file.
static WRITING: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);

/// Writes sections of the file, each of which ends where the next begins; gives what that changed, for the test to fail on.
pub(crate) fn record(sections: &[(&str, String)]) -> Option<String> {
    let _writing = WRITING.lock();
    let path = Path::new(HERE).join("RESULTS.md");
    let committed = fs::read_to_string(&path).unwrap();
    let now = sections
        .iter()
        .fold(committed.clone(), |text, (heading, body)| with(&text, heading, body));
    if now == committed {
        return None;
    }
    disk::write(&path, now.as_bytes());
    Some("tests/peers/RESULTS.md is not what was committed; it was written anew, see git diff".to_owned())
}

fn with(text: &str, heading: &str, body: &str) -> String {
    let title = format!("\n## {heading}\n");
    let (before, rest) = text
        .split_once(&title)
        .unwrap_or_else(|| panic!("RESULTS.md has no section {heading:?}"));
    let after = rest.find("\n## ").map_or("", |at| rest.split_at(at).1);
    format!("{before}{title}\n{}\n{after}", body.trim_end())
}

/// A mark of a table.
pub(crate) fn mark(is_right: bool) -> &'static str {
    if is_right { "✓" } else { "✗" }
}

/// A table.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rule: Vec<String> = head.iter().map(|_| "---".to_owned()).collect();
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    line(&head) + &line(&rule) + &rows
}
