//! What operators are shown: the JSON of design §10.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde::Serialize;

use super::Gateway;
use super::Recording;
use super::catalog::Catalog;
use super::catalog::CatalogSkill;
use super::inspected::Sighted;
use super::ledger::Ledger;
use super::observed::Observed;
use super::witnessing::WitnessStatus;
use crate::domain::Digest;
use crate::domain::Finding;
use crate::domain::Json;
use crate::domain::Label;
use crate::domain::RejectedTool;
use crate::domain::ResourceUri;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::SkillState;
use crate::domain::SkillUri;
use crate::domain::Timestamp;
use crate::domain::inspect;
use crate::domain::inspect::Remark;
use crate::domain::mapping;

/// A skill in `portcullis skills`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillStatus {
    /// Its origin's label.
    pub label: Label,
    /// Its URI as the origin spells it.
    pub uri: String,
    /// Its URI in the merged view, where it has one.
    pub merged_uri: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its description as listed.
    pub description: Option<String>,
    /// Its state.
    pub state: SkillState,
    /// The set now seen.
    pub set: Option<SetId>,
    /// The set being served.
    pub served_set: Option<SetId>,
    /// Why it is not served, or on a trial would not be without it.
    pub reason: Option<String>,
    /// When the trial ends without which it would not be served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_until: Option<Timestamp>,
    /// What a reviewer should see.
    pub findings: Vec<String>,
}

/// Everything about one skill, in `portcullis show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillDetails {
    /// What the list says of it.
    #[serde(flatten)]
    pub status: SkillStatus,
    /// Its frontmatter, canonical JSON as text.
    pub frontmatter: Option<String>,
    /// Its files.
    pub files: Vec<FileStatus>,
    /// Where a reviewer should look, in the entry and in the files that are stored.
    #[serde(default)]
    pub remarks: Vec<Remark>,
    /// Files that are not stored, and were therefore not inspected.
    #[serde(default)]
    pub uninspected: usize,
    /// The approval it is served under: the index of its leaf.
    pub approval: Option<u64>,
    /// When that approval ends by itself.
    pub expires: Option<Timestamp>,
}

/// One file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// Where it is.
    pub uri: ResourceUri,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is stored.
    pub stored: bool,
}

/// An origin in `portcullis origins`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginStatus {
    /// Its label.
    pub label: Label,
    /// Its address.
    pub address: String,
    /// `http`, `websocket`, `stdio` or `folder`.
    pub kind: String,
    /// `up`, `down`, `connecting`, `moved` (its address waits to be accepted) or `removed` (until the next start).
    pub state: String,
    /// The protocol revision spoken with it.
    pub era: Option<String>,
    /// How many skills are known.
    pub skills: usize,
    /// Entries that are not published.
    pub rejected: Vec<Rejected>,
    /// When it was last asked.
    pub last_refresh: Option<Timestamp>,
    /// What went wrong then.
    pub last_error: Option<String>,
}

/// An entry that is not published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its URI as far as it could be read.
    pub uri: Option<String>,
    /// The rule that it breaks.
    pub rule: String,
    /// How.
    pub reason: String,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenStatus {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it was taken back.
    pub revoked: Option<Timestamp>,
    /// The person who made it, if that is known.
    pub by: Option<String>,
}

/// The whole in a few numbers, for a person who starts the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Skills that are served.
    pub served: usize,
    /// Skills that wait for a decision.
    pub waiting: usize,
    /// Whether decisions and content can be written.
    pub writing: bool,
    /// Closing decisions that are in force and not yet on the record, since the disk has no room.
    pub unrecorded: usize,
    /// How the record of deliveries is.
    pub deliveries: Recording,
    /// The witnesses of the log.
    pub witnesses: Vec<WitnessStatus>,
    /// The trials that last.
    #[serde(default)]
    pub trials: Vec<TrialStatus>,
}

/// A trial that lasts (`observe`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialStatus {
    /// Whose skills are served without approval.
    pub label: Label,
    /// When that ends.
    pub until: Timestamp,
    /// Skills that are served for no other reason.
    pub skills: usize,
}

impl Gateway {
    /// Every skill that is known, by label and URI, those without a usable entry included.
    pub async fn skills(&self) -> Vec<SkillStatus> {
        let ledger = self.0.ledger.lock().await;
        let (catalog, now) = (self.catalog(), self.0.clock.now());
        let names = Names::of(&catalog);
        let mut skills = Vec::new();
        for part in catalog.origins() {
            let label = part.label();
            skills.extend(part.decided().map(|skill| {
                let mut status = status(&ledger, &names, skill, now);
                let known = skill.entry.iter().flat_map(|entry| self.0.inspected.known(entry));
                status.findings.extend(known.map(|remark| remark.to_string()));
                status
            }));
            let observed = ledger.origins.get(label);
            let unknown = observed.into_iter().flat_map(|observed| observed.unreadable.keys());
            let unknown = unknown.filter(|uri| part.decided_about(uri).is_none());
            skills.extend(unknown.filter_map(|uri| without_set(&ledger, label, uri)));
        }
        skills.sort_by(|a, b| (&a.label, &a.uri).cmp(&(&b.label, &b.uri)));
        skills
    }

    /// Everything about one skill.
    ///
    /// # Errors
    ///
    /// [`super::Error::NoSkill`] when nothing is known of it.
    pub async fn show(&self, key: &SkillKey) -> Result<SkillDetails, super::Error> {
        self.look_at_frontmatter(key).await;
        let Sighted { remarks, uninspected } = self.sighted(key).await;
        let ledger = self.0.ledger.lock().await;
        let Ok(skill) = self.known(key) else {
            let status = without_set(&ledger, &key.label, &key.uri);
            let status = status.ok_or_else(|| super::Error::NoSkill(key.clone()))?;
            return Ok(SkillDetails {
                status,
                frontmatter: None,
                files: Vec::new(),
                remarks,
                uninspected,
                approval: None,
                expires: None,
            });
        };
        let file = |resource: &crate::domain::Resource| FileStatus {
            uri: resource.uri.clone(),
            digest: resource.digest,
            size: resource.size,
            stored: self.0.store.has_file(key, resource),
        };
        let approval = skill
            .served(self.0.clock.now())
            .ok()
            .and_then(|served| served.permit().approval().copied());
        Ok(SkillDetails {
            status: status(&ledger, &Names::of(&self.catalog()), &skill, self.0.clock.now()),
            frontmatter: skill.entry.as_ref().map(|entry| entry.frontmatter().canonical()),
            files: skill
                .entry
                .iter()
                .flat_map(|entry| entry.resources().iter())
                .map(file)
                .collect(),
            remarks,
            uninspected,
            approval: approval.map(|approval| approval.leaf),
            expires: approval.and_then(|approval| approval.expires),
        })
    }

    /// Every configured origin.
    pub async fn origins(&self) -> Vec<OriginStatus> {
        let ledger = self.0.ledger.lock().await;
        let catalog = self.catalog();
        let nothing = Observed::default();
        let mut origins = Vec::new();
        for (label, origin) in &self.0.origins {
            let observed = ledger.origins.get(label).unwrap_or(&nothing);
            let before = observed
                .last_refresh
                .is_none()
                .then(|| self.0.store.listing(label))
                .flatten();
            let moved = ledger.record.origin(label).map(|record| record.is_moved());
            let state = match (moved, observed.last_refresh, observed.stale) {
                (None, _, _) => "removed",
                (Some(true), _, _) => "moved",
                (Some(false), None, _) => "connecting",
                (Some(false), Some(_), true) => "down",
                (Some(false), Some(_), false) => "up",
            };
            let rejected: Vec<_> = match &before {
                Some(note) => note.rejected.iter().map(Rejected::from_note).collect(),
                None => observed
                    .rejections()
                    .map(|(uri, rule, reason)| Rejected {
                        uri,
                        rule: rule.to_owned(),
                        reason,
                    })
                    .collect(),
            };
            let tools = self.0.offers.rejected(label).into_iter().map(Rejected::tool);
            origins.push(OriginStatus {
                label: label.clone(),
                address: origin.address.clone(),
                kind: origin.kind.to_owned(),
                state: state.to_owned(),
                era: origin
                    .upstream
                    .era()
                    .or_else(|| before.as_ref().and_then(|note| note.era.clone())),
                skills: catalog.origin(label).map_or(0, |part| part.skills().len()),
                rejected: tools.chain(rejected).collect(),
                last_refresh: observed.last_refresh.or_else(|| before.as_ref().map(|note| note.heard)),
                last_error: observed
                    .last_error
                    .clone()
                    .or_else(|| observed.shortfall.clone())
                    .or_else(|| self.0.offers.of(label).shortfall.clone()),
            });
        }
        origins
    }

    /// The whole in a few numbers.
    pub fn summary(&self) -> Summary {
        let catalog = self.catalog();
        let skills = || catalog.origins().flat_map(|part| part.decided());
        let now = self.0.clock.now();
        let waits = |skill: &&Arc<CatalogSkill>| match skill.state(now) {
            SkillState::Pending | SkillState::Changed | SkillState::Expired => skill.served(now).is_err(),
            SkillState::Approved
            | SkillState::Denied
            | SkillState::Revoked
            | SkillState::Withdrawn
            | SkillState::Invalid => false,
        };
        Summary {
            served: skills().filter(|skill| skill.served(now).is_ok()).count(),
            waiting: skills().filter(waits).count(),
            writing: self.0.store.usage().writing_stopped.is_none(),
            unrecorded: self.0.unrecorded.load(Ordering::SeqCst),
            deliveries: self.0.deliveries.recording(),
            witnesses: self.witnesses(),
            trials: self.0.timely.trials(&catalog, now),
        }
    }
}

/// The skills of each name, and which names are easily taken for one another.
struct Names<'a> {
    same: HashMap<&'a str, Vec<&'a SkillKey>>,
    alike: BTreeMap<&'a str, Remark>,
}

impl<'a> Names<'a> {
    fn of(catalog: &'a Catalog) -> Self {
        let mut names: HashMap<_, Vec<_>> = HashMap::new();
        // What origins say of their tools has the same name with all of them.
        for skill in catalog.origins().flat_map(|part| part.skills()) {
            names.entry(skill.key.uri.name()).or_default().push(&*skill.key);
        }
        Self {
            alike: inspect::look_alikes(names.keys().copied()),
            same: names,
        }
    }

    /// What a reviewer should know of other skills with the name of this one (H-15).
    fn findings(&self, key: &SkillKey) -> impl Iterator<Item = String> {
        let alike = self.alike.get(key.uri.name()).map(Remark::to_string);
        let same = || {
            let mut others = self.same.get(key.uri.name())?.iter().filter(|other| **other != key);
            Some(Finding::SameName {
                other: SkillKey::clone(others.next()?),
                more: others.count(),
            })
        };
        same().map(|finding| finding.to_string()).into_iter().chain(alike)
    }
}

fn status(ledger: &Ledger, names: &Names<'_>, skill: &CatalogSkill, now: Timestamp) -> SkillStatus {
    let served = skill.served(now);
    let SkillKey { label, uri } = &*skill.key;
    let observed = ledger.origins.get(label);
    let unreadable = observed.and_then(|observed| observed.unreadable.get(uri));
    let entry = skill.entry.as_deref();
    let own = entry.into_iter().flat_map(|entry| entry.findings());
    let seen = skill
        .seen
        .into_iter()
        .flat_map(|set| observed.map(|observed| observed.findings(uri, set)).unwrap_or_default());
    let findings = own
        .map(Finding::to_string)
        .chain(seen.map(|finding| finding.to_string()))
        .chain(names.findings(&skill.key));
    SkillStatus {
        label: label.clone(),
        uri: uri.to_string(),
        merged_uri: Some(mapping::merge(label, uri.as_resource())),
        name: Some(uri.name().to_owned()),
        description: entry.map(|entry| entry.description().to_owned()),
        state: skill.state(now),
        set: if unreadable.is_some() { None } else { skill.seen },
        served_set: served.as_ref().ok().map(|served| served.permit().entry().set()),
        reason: unreadable.map(|why| why.reason()).or_else(|| {
            let held = served.map_or_else(Some, |served| served.permit().would_hold());
            held.map(|held| held.to_string())
        }),
        observed_until: served.ok().and_then(|served| served.permit().observed_until()),
        findings: findings.collect(),
    }
}

/// A skill of which only an entry without a set is known.
fn without_set(ledger: &Ledger, label: &Label, uri: &SkillUri) -> Option<SkillStatus> {
    use super::observed::Unreadable;
    let unreadable = ledger.origins.get(label)?.unreadable.get(uri)?;
    let text = match unreadable {
        Unreadable::Rejected(_) => None,
        Unreadable::Unsized(entry, _) => Some(entry.text()),
    };
    let frontmatter = text
        .and_then(|text| Json::parse(text).ok())
        .and_then(|json| json.get("frontmatter").cloned());
    let description = frontmatter
        .as_ref()
        .and_then(|frontmatter| frontmatter.get("description")?.as_str());
    Some(SkillStatus {
        label: label.clone(),
        uri: uri.to_string(),
        merged_uri: Some(mapping::merge(label, uri.as_resource())),
        name: Some(uri.name().to_owned()),
        description: description.map(str::to_owned),
        state: unreadable.state_of_unknown(),
        set: None,
        served_set: None,
        reason: Some(unreadable.reason()),
        observed_until: None,
        findings: Vec::new(),
    })
}

impl Observed {
    /// The entries that are not published: URI, rule and reason.
    pub(super) fn rejections(&self) -> impl Iterator<Item = (Option<String>, &'static str, String)> {
        let nameless = self
            .nameless
            .iter()
            .map(|rejected| (rejected.uri.clone(), rejected.fault.rule(), rejected.fault.to_string()));
        let broken = self.unreadable.iter().filter(|(_, why)| !why.waits_for_a_pull());
        let named = broken.map(|(uri, why)| (Some(uri.to_string()), why.rule(), why.reason()));
        named.chain(nameless)
    }
}

impl Rejected {
    fn tool(tool: RejectedTool) -> Self {
        Self {
            uri: tool.name.map(|name| format!("tool {name}")),
            rule: "tool".to_owned(),
            reason: tool.fault.to_string(),
        }
    }

    fn from_note(note: &crate::store::RejectedNote) -> Self {
        Self {
            uri: note.uri.clone(),
            rule: note.rule.clone(),
            reason: note.reason.clone(),
        }
    }
}
