//! `[audit]`: who may read the log, who witnesses it, and what is recorded beside decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Url;
use serde::Serialize;
use toml::de::DeValue;

use super::file::Section;
use super::read::MOMENT;
use super::shape::as_text;
use super::value;
use crate::domain::audit::KeyKind;
use crate::domain::audit::VerifierKey;

/// Witnesses of one log; a checkpoint has no room for the signatures of many more.
const MAX_WITNESSES: usize = 32;

/// `[audit]`: the log towards others, and the record of who received what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Whether the log is served on the MCP listener too, to whoever reaches it.
    pub publish: bool,
    /// Who is asked to cosign each checkpoint; no two have the same key.
    pub witnesses: Vec<Witness>,
    /// How many of them make a checkpoint witnessed; all of them unless the file says so, and never more.
    pub witness_quorum: usize,
    /// What happens while fewer have cosigned.
    pub witness_mode: WitnessMode,
    /// Whether deliveries are recorded at all.
    pub deliveries: bool,
    /// Bytes of deliveries that may wait to be written; over that, answers wait.
    pub queue_bytes: usize,
    /// Whether an answer leaves only when its delivery would survive a power cut.
    pub strict: bool,
    /// How long deliveries are kept; without it, for ever.
    pub keep: Option<Duration>,
    /// Bytes of sealed deliveries that are kept; without it, all.
    pub keep_bytes: Option<u64>,
}

/// The least that may wait: room for some hundred deliveries.
const LEAST_QUEUE: usize = 64 * 1024;

impl Default for Audit {
    fn default() -> Self {
        Self {
            publish: false,
            witnesses: Vec::new(),
            witness_quorum: 0,
            witness_mode: WitnessMode::Warn,
            deliveries: true,
            queue_bytes: 64 * 1024 * 1024,
            strict: false,
            keep: None,
            keep_bytes: None,
        }
    }
}

/// A witness of the log (C2SP tlog-witness).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Witness {
    /// The key that it cosigns with.
    #[serde(serialize_with = "as_text")]
    pub key: VerifierKey,
    /// Its submission prefix: `http` or `https`, without user, password, query and fragment.
    #[serde(serialize_with = "as_text")]
    pub url: Url,
}

/// What happens while a checkpoint is not witnessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WitnessMode {
    /// Health says so.
    #[default]
    Warn,
    /// And nothing is opened.
    Require,
}

/// The table.
pub(super) fn audit(section: &Section<'_>) -> Audit {
    let publish = section.read("publish", value::flag).unwrap_or(false);
    let mut taken = BTreeSet::new();
    let witnesses = section.tables("witnesses", |table| {
        let witness = witness(table)?;
        if !taken.insert(witness.key.to_string()) {
            table.problem("key", "is the key of a witness above".to_owned());
        }
        Some(witness)
    });
    let all = witnesses.len();
    if all > MAX_WITNESSES {
        section.problem("witnesses", format!("are {all}; at most {MAX_WITNESSES} can be asked"));
    }
    let witnesses: Vec<_> = witnesses.into_iter().flatten().collect();
    let witness_quorum = section.read("witness_quorum", value::count(1)).unwrap_or(all);
    if witness_quorum > all {
        section.problem(
            "witness_quorum",
            format!("{witness_quorum} is more than the {all} witnesses"),
        );
    }
    let modes = [("warn", WitnessMode::Warn), ("require", WitnessMode::Require)];
    let witness_mode = section.read("witness_mode", value::word(&modes)).unwrap_or_default();
    if witness_mode == WitnessMode::Require && all == 0 {
        section.problem("witness_mode", "requires witnesses, and there are none".to_owned());
    }
    let standard = Audit::default();
    Audit {
        publish,
        witnesses,
        witness_quorum,
        witness_mode,
        deliveries: section.read("deliveries", value::flag).unwrap_or(standard.deliveries),
        queue_bytes: section
            .read("queue_bytes", value::size(LEAST_QUEUE))
            .unwrap_or(standard.queue_bytes),
        strict: section.read("strict", value::flag).unwrap_or(standard.strict),
        keep: section.read("keep", value::duration(MOMENT)),
        keep_bytes: section.read("keep_bytes", value::size::<u64>(0)),
    }
}

fn witness(table: &Section<'_>) -> Option<Witness> {
    let (key, url) = (table.require("key", witness_key), table.require("url", witness_url));
    Some(Witness { key: key?, url: url? })
}

/// A key that cosigns.
fn witness_key(written: &DeValue<'_>) -> Result<VerifierKey, String> {
    let key: VerifierKey = value::text(written)?.parse().map_err(|why| format!("is {why}"))?;
    match key.kind() {
        KeyKind::Witness => Ok(key),
        KeyKind::Log => Err("is the key of a log, not of a witness".to_owned()),
    }
}

/// A prefix that `/add-checkpoint` is put after.
fn witness_url(written: &DeValue<'_>) -> Result<Url, String> {
    let url = value::http_url(written)?;
    if url.query().is_some() {
        return Err("has a query (?), which a prefix cannot have".to_owned());
    }
    Ok(url)
}
