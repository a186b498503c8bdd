//! `lock`: which sets there are, as a file for review in version control, and whether that is still so.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use similar::TextDiff;

use super::ask::Ask;
use super::output::Output;
use super::output::plain;
use super::output::write;
use crate::admin::Command;
use crate::admin::Failure;
use crate::domain::Lock;
use crate::domain::MAX_LOCK_BYTES;
use crate::gateway::Locked;

/// Writes a lock file, or compares with one.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Compare with this file: 0 the same, 1 with what differs, 2 when that cannot be told.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Take the sets that are seen now, rather than those that are served.
    #[arg(long)]
    seen: bool,
}

impl Arguments {
    /// Does it, and gives the exit code.
    pub(super) async fn run(self, ask: &Ask, output: &Output) -> Result<ExitCode, Failure> {
        let before = self.check.as_deref().map(read).transpose()?;
        let answer = ask.value(&Command::Lock { seen: self.seen }).await?;
        let now: Locked = serde_json::from_value(answer.clone()).map_err(|error| Failure::ours(error.to_string()))?;
        match before {
            Some(before) => compare(&before, &now, self.seen, output),
            None if output.is_json() => write(format!("{answer}\n").as_bytes()).map(|()| ExitCode::SUCCESS),
            None => write(now.text.as_bytes()).map(|()| ExitCode::SUCCESS),
        }
    }
}

/// Reads a lock file; nothing can be told with one that is none.
pub(super) fn read(path: &Path) -> Result<Lock, Failure> {
    let bad = |why: String| Failure::unknown(format!("{}: {why}", path.display()));
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_LOCK_BYTES as u64 + 1).read_to_string(&mut text))
        .map_err(|error| bad(error.to_string()))?;
    Lock::parse(&text).map_err(|error| bad(crate::telemetry::chain(&error)))
}

fn compare(before: &Lock, now: &Locked, seen: bool, output: &Output) -> Result<ExitCode, Failure> {
    if seen && !now.stale.is_empty() {
        let stale: Vec<_> = now.stale.iter().map(ToString::to_string).collect();
        return Err(Failure::unknown(format!(
            "what these origins now show is not known, since they could not be asked: {}",
            stale.join(", ")
        )));
    }
    let before = before.to_text();
    let same = before == now.text;
    let diff = TextDiff::from_lines(&before, &now.text);
    let diff = diff
        .unified_diff()
        .context_radius(8)
        .header("locked", "now")
        .to_string();
    let shown = if output.is_json() {
        format!("{}\n", json!({ "same": same, "diff": diff }))
    } else if same {
        "the same\n".to_owned()
    } else {
        diff.lines().map(|line| format!("{}\n", plain(line))).collect()
    };
    write(shown.as_bytes())?;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
