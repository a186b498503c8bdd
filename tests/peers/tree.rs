//! The skills that every server publishes, as they lie on the disk, and what a host has to see of them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use portcullis::domain::Digest;
use serde_json::Value;
use serde_json::json;

use crate::installed::HERE;
use crate::support::disk;

/// The skills that are approved.
pub(crate) const APPROVED: [&str; 3] = ["acme/billing/refunds", "git-workflow", "pdf-processing"];

/// A skill that every server publishes and nobody approves. (Some also publish `wordy`, over which some hosts refuse a whole
/// listing; nobody approves that either.)
pub(crate) const HELD: &str = "held";

/// What a host can do with a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Lists the skills.
    List,
    /// Gets each entry.
    Get,
    /// Reads each file that is text.
    Text,
    /// Reads each other file.
    Blob,
    /// Reads each directory.
    Directory,
    /// Asks for what is not there, and is refused.
    Unknown,
    /// Asks for what nobody approved, and is refused.
    Held,
}

/// What a host has to see in a step.
pub(crate) enum Wanted {
    /// This, and nothing else.
    This(Value),
    /// Below this root these, and no others.
    Exactly(String, BTreeSet<String>),
    /// These, perhaps beside others.
    AtLeast(BTreeSet<String>),
    /// An error.
    Refusal,
}

/// One thing that a host does, by the name that it goes by in the host's report.
pub(crate) struct Deed {
    /// The kind of thing.
    pub(crate) step: Step,
    /// As in `read skill://a/b.md`.
    pub(crate) name: String,
    /// What has to come of it.
    pub(crate) wanted: Wanted,
}

impl Step {
    /// Its name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Get => "get",
            Self::Text => "text",
            Self::Blob => "blob",
            Self::Directory => "directory",
            Self::Unknown => "unknown",
            Self::Held => "held",
        }
    }
}

/// Where the skills are.
pub(crate) fn folder() -> PathBuf {
    Path::new(HERE).join("skills")
}

/// The skills that have to be refused at an endpoint where `skill://` reads as `root`: one that is held, one that is not there.
pub(crate) fn refused(root: &str) -> [String; 2] {
    [HELD, "no-such-skill"].map(|skill| format!("{root}{skill}/SKILL.md"))
}

/// All that a host has to do and see at an endpoint where `skill://` reads as `root`. Without the gateway nothing is held.
pub(crate) fn deeds(root: &str, is_gateway: bool) -> Vec<Deed> {
    let uris = APPROVED.iter().map(|skill| format!("{root}{skill}/SKILL.md")).collect();
    let wanted = if is_gateway {
        Wanted::Exactly(root.to_owned(), uris)
    } else {
        Wanted::AtLeast(uris)
    };
    let mut deeds = vec![Deed::new(Step::List, "list".to_owned(), wanted)];
    for skill in APPROVED {
        deeds.extend(deeds_with(root, skill));
    }
    for (step, uri) in [Step::Held, Step::Unknown].into_iter().zip(refused(root)) {
        if is_gateway || step == Step::Unknown {
            deeds.extend(["get", "read"].map(|verb| Deed::new(step, format!("{verb} {uri}"), Wanted::Refusal)));
        }
    }
    deeds
}

fn deeds_with(root: &str, skill: &str) -> Vec<Deed> {
    let mut resources = BTreeMap::new();
    let mut children: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut deeds = Vec::new();
    for path in disk::files(&folder().join(skill)) {
        let bytes = fs::read(&path).unwrap();
        let name = path.strip_prefix(folder()).unwrap().to_str().unwrap();
        let uri = format!("{root}{name}");
        let file = json!({ "size": bytes.len(), "digest": Digest::of(&bytes).to_string() });
        let step = if str::from_utf8(&bytes).is_ok() {
            Step::Text
        } else {
            Step::Blob
        };
        deeds.push(Deed::new(step, format!("read {uri}"), Wanted::This(file.clone())));
        resources.insert(uri.clone(), file);
        let mut child = uri.as_str();
        while let Some((parent, _)) = child
            .rsplit_once('/')
            .filter(|(parent, _)| parent.len() >= root.len() + skill.len())
        {
            children.entry(parent.to_owned()).or_default().insert(child.to_owned());
            child = parent;
        }
    }
    let uri = format!("{root}{skill}/SKILL.md");
    let entry = json!({ "uri": uri, "name": skill.rsplit('/').next(), "resources": resources });
    deeds.push(Deed::new(Step::Get, format!("get {uri}"), Wanted::This(entry)));
    deeds.extend(children.into_iter().map(|(parent, children)| {
        Deed::new(
            Step::Directory,
            format!("directory {parent}"),
            Wanted::This(children.into_iter().collect()),
        )
    }));
    deeds
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::This(value) => write!(f, "{value}"),
            Self::Exactly(root, uris) => write!(f, "below {root} only {uris:?}"),
            Self::AtLeast(uris) => write!(f, "at least {uris:?}"),
            Self::Refusal => f.write_str("a refusal"),
        }
    }
}

impl Deed {
    fn new(step: Step, name: String, wanted: Wanted) -> Self {
        Self { step, name, wanted }
    }

    /// What was seen instead, if the outcome that a host reports is wrong.
    pub(crate) fn fault(&self, outcome: Option<&Value>) -> Option<String> {
        let Some(outcome) = outcome else {
            return Some("it was not done".to_owned());
        };
        let seen = outcome.get("ok").map(|seen| self.essence(seen));
        let uris = |seen: &Value| {
            seen.as_array()
                .unwrap()
                .iter()
                .map(|uri| uri.as_str().unwrap().to_owned())
                .collect()
        };
        let is_right = match (&self.wanted, &seen) {
            (Wanted::This(wanted), Some(seen)) => seen == wanted,
            (Wanted::Exactly(root, wanted), Some(seen)) => {
                let seen: BTreeSet<String> = uris(seen);
                seen.iter().filter(|uri| uri.starts_with(root)).eq(wanted)
            }
            (Wanted::AtLeast(wanted), Some(seen)) => wanted.is_subset(&uris(seen)),
            (Wanted::Refusal, None) => self.is_said(outcome),
            (Wanted::Refusal, Some(_)) | (Wanted::This(_) | Wanted::Exactly(..) | Wanted::AtLeast(_), None) => false,
        };
        (!is_right).then(|| seen.map_or_else(|| words(&outcome["error"]), |seen| seen.to_string()))
    }

    /// Whether an error has the right reason, where the host tells the reason at all.
    fn is_said(&self, outcome: &Value) -> bool {
        let reason = &outcome["error"]["reason"];
        match (self.step, reason.as_str()) {
            (Step::Held, Some(reason)) => reason == "held",
            (_, Some(reason)) => reason == "unknown",
            (_, None) => outcome["error"].is_object(),
        }
    }

    /// What counts of something that a host saw.
    fn essence(&self, seen: &Value) -> Value {
        let uris = || {
            seen.as_array()
                .unwrap()
                .iter()
                .map(|item| item["uri"].clone())
                .collect()
        };
        match self.step {
            Step::List | Step::Directory => uris(),
            Step::Get if seen["resources"].is_array() => {
                let file = |file: &Value| json!({ "size": file["size"], "digest": file["digest"] });
                let resources: BTreeMap<&str, Value> = seen["resources"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| (item["uri"].as_str().unwrap(), file(item)))
                    .collect();
                json!({ "uri": seen["uri"], "name": seen["frontmatter"]["name"], "resources": resources })
            }
            Step::Get | Step::Text | Step::Blob | Step::Unknown | Step::Held => seen.clone(),
        }
    }
}

/// An error with its code, where the host tells it.
fn words(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("an error without words");
    match error["code"]
        .as_str()
        .map(str::to_owned)
        .or_else(|| error["code"].as_i64().map(|code| code.to_string()))
    {
        Some(code) => format!("{code}: {message}"),
        None => message.to_owned(),
    }
}
