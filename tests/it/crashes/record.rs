//! The log as any stranger reads it: the entries beside its tiles, and what they add up to by rules written down once more.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Entries in a full bundle (C2SP tlog-tiles).
const FULL: usize = 256;

/// All leaves of a log.
pub(super) struct Record {
    pub(super) leaves: Vec<Value>,
}

/// What the log says of one skill.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The set last seen.
    pub(super) seen: Option<String>,
    /// The set in force.
    pub(super) approved: Option<String>,
    /// The last word on each set.
    verdicts: BTreeMap<String, &'static str>,
}

impl Record {
    /// Reads the log up to its checkpoint; none when it grew meanwhile.
    pub(super) fn read(data: &Path) -> Option<Self> {
        let log = data.join("log");
        let checkpoint = fs::read_to_string(log.join("checkpoint")).ok()?;
        let size: usize = checkpoint.lines().nth(1)?.parse().ok()?;
        let mut leaves = Vec::with_capacity(size);
        while leaves.len() < size {
            let (bundle, width) = (leaves.len() / FULL, FULL.min(size - leaves.len()));
            let name = if width == FULL {
                format!("{bundle:03}")
            } else {
                format!("{bundle:03}.p/{width}")
            };
            let bytes = fs::read(log.join("tile/entries").join(name)).ok()?;
            let mut rest = bytes.as_slice();
            while let Some((length, after)) = rest.split_first_chunk::<2>() {
                let (leaf, after) = after.split_at(usize::from(u16::from_be_bytes(*length)));
                leaves.push(serde_json::from_slice(leaf).unwrap());
                rest = after;
            }
        }
        Some(Self { leaves })
    }

    /// The leaves about one skill.
    pub(super) fn of<'a>(&'a self, label: &'a str, uri: &'a str) -> impl Iterator<Item = &'a Value> {
        self.leaves
            .iter()
            .filter(move |leaf| leaf["label"] == label && leaf["uri"] == uri)
    }

    /// What they add up to.
    pub(super) fn standing(&self, label: &str, uri: &str) -> Standing {
        let mut standing = Standing::default();
        for leaf in self.of(label, uri) {
            standing.take(leaf);
        }
        standing
    }
}

impl Standing {
    fn take(&mut self, leaf: &Value) {
        let set = || leaf["set"].as_str().unwrap().to_owned();
        match leaf["action"].as_str().unwrap() {
            "set-seen" => self.see(set()),
            "changed" => {
                if leaf["kept"] == false {
                    self.close(leaf["from"].as_str().unwrap(), "changed");
                }
                self.see(set());
            }
            "approved" => {
                if let Some(other) = self.approved.take().filter(|other| *other != set()) {
                    self.verdicts.insert(other, "changed");
                }
                self.verdicts.insert(set(), "approved");
                self.approved = Some(set());
            }
            "denied" => self.close(&set(), "denied"),
            "revoked" => self.close(&set(), "revoked"),
            "held" | "pulled" => {}
            other => panic!("{other} happens in no round: {leaf}"),
        }
    }

    fn see(&mut self, set: String) {
        self.verdicts.entry(set.clone()).or_insert("undecided");
        self.seen = Some(set);
    }

    fn close(&mut self, set: &str, verdict: &'static str) {
        self.verdicts.insert(set.to_owned(), verdict);
        self.approved.take_if(|approved| approved == set);
    }

    /// The state of the skill.
    pub(super) fn state(&self) -> &'static str {
        let was_approved = self
            .verdicts
            .values()
            .any(|verdict| ["approved", "changed"].contains(verdict));
        match self.seen.as_ref().map(|seen| self.verdicts[seen]) {
            Some("undecided") | None if was_approved => "changed",
            Some("undecided") | None => "pending",
            Some(verdict) => verdict,
        }
    }
}
