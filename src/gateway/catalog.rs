//! Catalogs: immutable snapshots of what is served, held and known, one part an origin.
//!
//! A request reads one snapshot from beginning to end; a change makes another and swaps it in. What is in `served` carries
//! its permit, so nothing can be found here to serve that was not decided.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::unserved::Unserved;
use crate::domain::Definitions;
use crate::domain::Held;
use crate::domain::Label;
use crate::domain::Resource;
use crate::domain::ResourceUri;
use crate::domain::ServePermit;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::SkillKey;
use crate::domain::SkillRoots;
use crate::domain::SkillState;
use crate::domain::SkillUri;
use crate::domain::Timestamp;
use crate::domain::mapping;

/// Which of the two sets of names a request speaks (design §3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// All origins, each URI under its label.
    Merged,
    /// One origin, its own URIs.
    Origin(Label),
}

/// Everything that is known at one moment.
#[derive(Clone, Default)]
pub struct Catalog {
    origins: BTreeMap<Label, Arc<OriginCatalog>>,
}

/// One origin's part.
pub struct OriginCatalog {
    label: Label,
    standing: Standing,
    skills: BTreeMap<SkillUri, Arc<CatalogSkill>>,
    by_root: HashMap<Box<str>, Arc<CatalogSkill>>,
    /// What it says of its tools: decided about like a skill, and none that a host could list or read.
    definitions: Option<Arc<CatalogSkill>>,
    /// Skills of which no set was ever seen, by root, and what a host is told of them.
    without_set: HashMap<Box<str>, Unserved>,
    roots: SkillRoots,
}

/// How an origin stands, whatever its skills are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Whether it could not be asked the last time.
    pub(super) is_stale: bool,
    /// Whether its label points elsewhere than what an operator accepted.
    pub(super) is_moved: bool,
}

/// One skill, served or not.
pub struct CatalogSkill {
    /// Which.
    pub key: Arc<SkillKey>,
    /// Its state when the snapshot was made.
    pub(super) state: SkillState,
    /// The set now seen.
    pub seen: Option<SetId>,
    /// The entry now seen.
    pub entry: Option<Arc<SkillEntry>>,
    /// What was decided when the snapshot was made.
    pub(super) decision: Result<Arc<Served>, Held>,
}

/// A skill that is served, with its entry ready to be sent in both views.
pub struct Served {
    key: Arc<SkillKey>,
    permit: ServePermit,
    own: Bytes,
    merged: Bytes,
    provenance: String,
}

/// What a URI names in a catalog.
pub enum Found<'a> {
    /// A file of a served skill.
    File(&'a Arc<Served>, &'a Resource),
    /// Something below a skill that is held.
    Held(&'a CatalogSkill),
    /// Something below a skill of which no set was ever seen.
    WithoutSet(&'a Unserved),
    /// Something below a served skill that its set does not have (H-31).
    Unlisted(&'a Arc<Served>),
    /// Nothing that is known.
    Nothing,
}

impl Served {
    /// Encodes what `permit` allows to be served.
    pub(super) fn new(key: Arc<SkillKey>, permit: ServePermit) -> Self {
        let entry = permit.entry();
        let own = Bytes::copy_from_slice(entry.text().as_bytes());
        let merged = Bytes::from(entry.text_with_uris(|uri| mapping::merge(&key.label, uri)));
        let basis = permit.approval().map_or_else(
            || "\"dev.portcullis/observed\":true".to_owned(),
            |approval| format!("\"dev.portcullis/approval\":{}", approval.leaf),
        );
        let provenance = format!(
            "\"dev.portcullis/origin\":\"{}\",\"dev.portcullis/set\":\"{}\",{basis}",
            key.label,
            entry.set(),
        );
        Self {
            key,
            permit,
            own,
            merged,
            provenance,
        }
    }

    /// Which skill.
    pub fn key(&self) -> &Arc<SkillKey> {
        &self.key
    }

    /// The right to serve it.
    pub fn permit(&self) -> &ServePermit {
        &self.permit
    }

    /// Where it comes from and what it rests on, as members of a result's `_meta` (design §3; P-6).
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    /// Its entry's JSON as `view` names things; in its origin's own view the text that the origin sent (S-16).
    pub fn entry_text(&self, view: &View) -> &Bytes {
        match view {
            View::Merged => &self.merged,
            View::Origin(_) => &self.own,
        }
    }
}

impl CatalogSkill {
    /// What is served of it at `now`, or why nothing is: a permit may have lapsed since the snapshot was made.
    ///
    /// # Errors
    ///
    /// Why it is held.
    pub fn served(&self, now: Timestamp) -> Result<&Arc<Served>, Held> {
        let served = self.decision.as_ref().map_err(|held| *held)?;
        served.permit.check(now).map(|()| served)
    }

    /// Its state at `now`.
    pub fn state(&self, now: Timestamp) -> SkillState {
        match (&self.decision, self.served(now)) {
            (Ok(_), Err(Held::State(lapsed))) => lapsed,
            (Ok(_) | Err(_), Ok(_) | Err(_)) => self.state,
        }
    }
}

impl View {
    /// The name of a file or directory in this view.
    pub fn name(&self, label: &Label, uri: &ResourceUri) -> String {
        match self {
            Self::Merged => mapping::merge(label, uri),
            Self::Origin(_) => uri.to_string(),
        }
    }
}

impl Catalog {
    /// The same with one origin's part replaced.
    pub(super) fn with(&self, part: OriginCatalog) -> Self {
        let mut origins = self.origins.clone();
        origins.insert(part.label.clone(), Arc::new(part));
        Self { origins }
    }

    /// The same without an origin.
    pub(super) fn without(&self, label: &Label) -> Self {
        let mut origins = self.origins.clone();
        origins.remove(label);
        Self { origins }
    }

    /// One origin's part.
    pub fn origin(&self, label: &Label) -> Option<&Arc<OriginCatalog>> {
        self.origins.get(label)
    }

    /// Every origin's part, by label.
    pub fn origins(&self) -> impl Iterator<Item = &Arc<OriginCatalog>> {
        self.origins.values()
    }

    /// What is served in `view` at `now`, by label and URI, from the first skill after `after` on.
    pub fn served_after<'a>(
        &'a self,
        view: &'a View,
        after: Option<&'a SkillKey>,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a Arc<Served>> {
        let in_view = move |part: &&Arc<OriginCatalog>| match view {
            View::Merged => true,
            View::Origin(label) => part.label == *label,
        };
        let not_before = move |part: &&Arc<OriginCatalog>| after.is_none_or(|key| part.label >= key.label);
        self.origins
            .values()
            .filter(in_view)
            .filter(not_before)
            .flat_map(move |part| {
                let from = after
                    .filter(|key| key.label == part.label)
                    .map_or(std::ops::Bound::Unbounded, |key| std::ops::Bound::Excluded(&key.uri));
                part.skills
                    .range::<SkillUri, _>((from, std::ops::Bound::Unbounded))
                    .filter_map(move |(_, skill)| skill.served(now).ok())
            })
    }

    /// Which origin and upstream URI a URI of the skill family names in `view`; none for what names nothing there.
    pub fn locate(&self, view: &View, uri: &str) -> Option<(&Arc<OriginCatalog>, ResourceUri)> {
        let (label, uri) = match view {
            View::Origin(label) => (label.clone(), uri.parse().ok()?),
            View::Merged => match mapping::split(uri).ok()? {
                mapping::Merged::Skill(label, uri) => (label, uri),
                mapping::Merged::Passed(..) => return None,
            },
        };
        self.origins.get(&label).map(|part| (part, uri))
    }

    /// The name in `view` of the file that its origin itself calls `uri`, if it is served and no other origin knows that URI
    /// in whatever state: none is ever told of in place of another (H-14).
    pub fn name_of_own(&self, view: &View, uri: &str, now: Timestamp) -> Option<String> {
        match view {
            View::Origin(_) => return None,
            View::Merged => {}
        }
        let uri: ResourceUri = uri.parse().ok()?;
        let found = self.origins.values().map(|part| (part, part.find(&uri, now)));
        let mut known = found.filter(|(_, found)| !matches!(found, Found::Nothing));
        match (known.next(), known.next()) {
            (Some((part, Found::File(..))), None) => Some(view.name(&part.label, &uri)),
            (Some(_) | None, _) => None,
        }
    }

    /// Says whether the skill family, and no other method, answers for `uri` in `view` (design §3).
    pub fn owns(&self, view: &View, uri: &str) -> bool {
        match view {
            View::Origin(label) => self
                .origins
                .get(label)
                .map_or_else(|| SkillRoots::default().own(uri), |part| part.roots.own(uri)),
            View::Merged => match mapping::split(uri) {
                Ok(mapping::Merged::Skill(..)) => true,
                Ok(mapping::Merged::Passed(label, upstream)) => self.owns(&View::Origin(label), &upstream),
                Err(_) => SkillRoots::default().own(uri),
            },
        }
    }
}

impl OriginCatalog {
    pub(super) fn new(
        label: Label,
        standing: Standing,
        skills: Vec<CatalogSkill>,
        without_set: Vec<(&SkillUri, Unserved)>,
    ) -> Self {
        let mut roots = SkillRoots::default();
        let mut by_root = HashMap::with_capacity(skills.len());
        let mut by_uri = BTreeMap::new();
        let mut definitions = None;
        for skill in skills {
            let skill = Arc::new(skill);
            if Definitions::is_about(&skill.key.uri) {
                definitions = Some(skill);
                continue;
            }
            roots.add(&skill.key.uri);
            by_root.insert(skill.key.uri.root().into(), Arc::clone(&skill));
            by_uri.insert(skill.key.uri.clone(), skill);
        }
        without_set.iter().for_each(|(uri, _)| roots.add(uri));
        let told = |(uri, reason): (&SkillUri, Unserved)| (uri.root().into(), reason);
        Self {
            label,
            standing,
            skills: by_uri,
            by_root,
            definitions,
            without_set: without_set.into_iter().map(told).collect(),
            roots,
        }
    }

    /// The origin's label.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Whether the origin could not be asked the last time.
    pub fn is_stale(&self) -> bool {
        self.standing.is_stale
    }

    /// Whether its label points elsewhere than what an operator accepted.
    pub(super) fn is_moved(&self) -> bool {
        self.standing.is_moved
    }

    /// What the origin says of its tools, decided about like a skill.
    pub fn definitions(&self) -> Option<&Arc<CatalogSkill>> {
        self.definitions.as_ref()
    }

    /// Everything that is decided about: the skills by URI, then the definitions of tools.
    pub fn decided(&self) -> impl Iterator<Item = &Arc<CatalogSkill>> {
        self.skills.values().chain(&self.definitions)
    }

    /// One thing that is decided about.
    pub fn decided_about(&self, uri: &SkillUri) -> Option<&Arc<CatalogSkill>> {
        let definitions = self.definitions.as_ref().filter(|skill| skill.key.uri == *uri);
        self.skills.get(uri).or(definitions)
    }

    /// Every skill that is known, by URI.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Arc<CatalogSkill>> {
        self.skills.values()
    }

    /// One skill.
    pub fn skill(&self, uri: &SkillUri) -> Option<&Arc<CatalogSkill>> {
        self.skills.get(uri)
    }

    /// What a host is told of a skill of which no set was ever seen, if it is one.
    pub fn without_set(&self, uri: &SkillUri) -> Option<&Unserved> {
        self.without_set.get(uri.root())
    }

    /// What a file's URI names at `now`: the innermost served skill that lists it, else why not.
    pub fn find(&self, uri: &ResourceUri, now: Timestamp) -> Found<'_> {
        let mut nearest = Found::Nothing;
        for root in uri.ancestors() {
            match self.by_root.get(root).map(|skill| (skill, skill.served(now))) {
                Some((_, Ok(served))) => match served.permit.entry().resources().get(uri.as_str()) {
                    Some(resource) => return Found::File(served, resource),
                    None => nearest.or(Found::Unlisted(served)),
                },
                Some((skill, Err(_))) => nearest.or(Found::Held(skill)),
                None => {
                    if let Some(reason) = self.without_set.get(root) {
                        nearest.or(Found::WithoutSet(reason));
                    }
                }
            }
        }
        nearest
    }

    /// The served skill in whose directory, or in a directory below it, `uri` lies; innermost first.
    pub fn served_around<'a>(&'a self, uri: &'a ResourceUri, now: Timestamp) -> impl Iterator<Item = &'a Arc<Served>> {
        std::iter::once(uri.as_str())
            .chain(uri.ancestors())
            .filter_map(|root| self.by_root.get(root))
            .filter_map(move |skill| skill.served(now).ok())
    }
}

impl Found<'_> {
    /// Keeps the first answer, which is the innermost.
    fn or(&mut self, other: Self) {
        if matches!(self, Self::Nothing) {
            *self = other;
        }
    }
}
