//! How leaves of the log are written for people and for other tools.

use serde_json::Value;

use super::output::plain;
use crate::admin::Failure;
use crate::domain::audit::Event;
use crate::gateway::RecordedLeaf;

/// The first line of comma-separated leaves.
pub(super) const CSV_HEAD: &str = "index,time,action,who,origin,skill,set,note,leaf\r\n";

/// A leaf, read and as it came.
pub(super) struct Shown {
    leaf: RecordedLeaf,
    text: Value,
}

impl Shown {
    /// Reads an item of an answer.
    pub(super) fn of(item: Value) -> Result<Self, Failure> {
        let leaf = serde_json::from_value(item.clone())
            .map_err(|error| Failure::ours(format!("a leaf of ours has another form: {error}")))?;
        Ok(Self { leaf, text: item })
    }

    /// The name, or what the log calls a person whose name it does not know.
    fn who(&self) -> String {
        self.leaf
            .who
            .clone()
            .unwrap_or_else(|| self.leaf.leaf.actor.to_string())
    }

    fn label(&self) -> &str {
        self.leaf.leaf.event.label().map_or("", |label| label.as_str())
    }

    fn uri(&self) -> &str {
        self.leaf.leaf.event.skill().map_or("", |skill| skill.uri.as_str())
    }

    /// A member of the leaf that is a text.
    fn member(&self, name: &str) -> &str {
        self.text.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// What `--kind` takes.
pub(super) fn kind(text: &str) -> Result<String, String> {
    if Event::ACTIONS.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("not one of {}", Event::ACTIONS.join(", ")))
    }
}

/// The leaf as JSON, one line.
pub(super) fn json(shown: &Shown) -> String {
    format!("{}\n", shown.text)
}

/// The leaf as a line for people.
pub(super) fn human(shown: &Shown) -> String {
    let leaf = &shown.leaf.leaf;
    let mut line = format!(
        "{:>7}  {}  {:<19} {}",
        shown.leaf.index,
        leaf.time,
        leaf.event.action(),
        plain(&shown.who())
    );
    for part in [shown.label(), shown.uri()]
        .into_iter()
        .chain(DETAILS.map(|name| shown.member(name)))
    {
        if !part.is_empty() {
            line.push_str("  ");
            line.push_str(&plain(part));
        }
    }
    line.push('\n');
    line
}

/// Members that people want to see beside the subject.
const DETAILS: [&str; 13] = [
    "set", "digest", "file", "address", "rule", "until", "expires", "command", "reason", "token", "person", "to",
    "note",
];

/// The leaf as comma-separated values (RFC 4180).
pub(super) fn csv(shown: &Shown) -> String {
    let leaf = &shown.leaf.leaf;
    let fields = [
        shown.leaf.index.to_string(),
        leaf.time.to_string(),
        leaf.event.action().to_owned(),
        shown.who(),
        shown.label().to_owned(),
        shown.uri().to_owned(),
        shown.member("set").to_owned(),
        leaf.note.clone().unwrap_or_default(),
        shown.text.to_string(),
    ];
    let fields: Vec<_> = fields.iter().map(|field| csv_field(field)).collect();
    format!("{}\r\n", fields.join(","))
}

/// Quoted where needed. What a spreadsheet would take for a formula is made a text, since people and origins wrote it.
fn csv_field(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    if guard.is_empty() && !text.contains(['"', ',', '\r', '\n']) {
        return text.to_owned();
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

/// The leaf in ArcSight Common Event Format, version 0.
pub(super) fn cef(shown: &Shown) -> String {
    let leaf = &shown.leaf.leaf;
    let action = leaf.event.action();
    let mut line = format!(
        "CEF:0|Portcullis|portcullis|{}|{action}|{action}|{}|externalId={} rt={} act={action}",
        env!("CARGO_PKG_VERSION"),
        severity(&leaf.event),
        shown.leaf.index,
        leaf.time.as_millis(),
    );
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            line.push_str(&format!(" {key}={}", cef_value(value)));
        }
    };
    add("suser", &shown.who());
    for (number, name, value) in [
        (1, "origin", shown.label()),
        (2, "skill", shown.uri()),
        (3, "set", shown.member("set")),
        (4, "digest", shown.member("digest")),
        (5, "rule", shown.member("rule")),
    ] {
        if !value.is_empty() {
            add(&format!("cs{number}Label"), name);
            add(&format!("cs{number}"), value);
        }
    }
    add("reason", shown.member("reason"));
    add("msg", leaf.note.as_deref().unwrap_or_default());
    line.push('\n');
    line
}

fn cef_value(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('=', "\\=")
        .replace('\r', "\\r")
        .replace('\n', "\\n")
}

/// From 0 to 10, as CEF has it.
fn severity(event: &Event) -> u8 {
    match event {
        Event::VerificationFailed { .. } | Event::Quarantined { .. } | Event::Recalled { .. } => 8,
        Event::Denied { .. } | Event::Revoked { .. } | Event::Refused { .. } | Event::OriginMoved { .. } => 6,
        Event::Changed { .. }
        | Event::Expired { .. }
        | Event::Withdrawn { .. }
        | Event::TrialBegan { .. }
        | Event::OriginRemoved { .. }
        | Event::Configured { .. }
        | Event::KeyRotated { .. }
        | Event::Forgotten { .. }
        | Event::SegmentsRemoved { .. } => 5,
        Event::OriginAdded { .. }
        | Event::OriginAccepted { .. }
        | Event::AcceptVoted { .. }
        | Event::TrialEnded { .. }
        | Event::SetSeen { .. }
        | Event::Held { .. }
        | Event::Voted { .. }
        | Event::Approved { .. }
        | Event::Returned { .. }
        | Event::Pulled { .. }
        | Event::RecallLifted { .. }
        | Event::SignedIn { .. }
        | Event::TokenMade { .. }
        | Event::TokenRevoked { .. }
        | Event::Sealed { .. } => 3,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(note: &str) -> Shown {
        Shown::of(json!({
            "index": 7, "who": "ada", "v": 1, "time": "2026-12-01T00:00:00.000Z", "actor": { "person": "person1:00" },
            "action": "denied", "label": "acme", "uri": "skill://a/SKILL.md",
            "set": format!("set1:{}", "0".repeat(64)), "note": note,
        }))
        .unwrap()
    }

    #[test]
    fn a_note_stays_one_field_and_no_formula() {
        assert!(csv(&shown("a \"b\", c")).contains(",\"a \"\"b\"\", c\","));
        assert!(csv(&shown("=cmd()")).contains(",\"'=cmd()\","));
        let line = cef(&shown("a=b|c\\d\ne"));
        assert!(line.ends_with("msg=a\\=b|c\\\\d\\ne\n"), "{line}");
        assert!(line.starts_with("CEF:0|Portcullis|portcullis|"), "{line}");
        assert_eq!(human(&shown("x\ny")).lines().count(), 1);
    }

    #[test]
    fn kinds_are_those_of_the_log() {
        assert_eq!(kind("set-seen").as_deref(), Ok("set-seen"));
        assert!(kind("seen").unwrap_err().contains("set-seen"));
        assert!(Event::ACTIONS.contains(&shown("").leaf.leaf.event.action()));
    }
}
