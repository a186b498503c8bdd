//! Reading an entry: member by member, each rule in turn (S-5 … S-28).

use std::collections::HashSet;

use super::ReadEntry;
use super::SkillEntry;
use super::UnsizedEntry;
use super::fault::EntryFault;
use super::fault::RejectedEntry;
use crate::domain::digest::Digest;
use crate::domain::finding::Finding;
use crate::domain::json;
use crate::domain::json::Json;
use crate::domain::limits::Limits;
use crate::domain::set::Resource;
use crate::domain::set::ResourceSet;
use crate::domain::set::SetId;
use crate::domain::uri::ResourceUri;
use crate::domain::uri::SkillUri;

/// The members of an entry.
const ENTRY_MEMBERS: [&str; 3] = ["uri", "frontmatter", "resources"];

/// The members of one of its resources.
const RESOURCE_MEMBERS: [&str; 3] = ["uri", "digest", "size"];

/// Characters of a foreign member's name that a finding shows.
const MAX_SHOWN_CHARS: usize = 64;

/// The largest integer that every JSON parser reads exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Characters of a description that the Agent Skills format allows.
pub(in crate::domain) const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Characters of a name that the Agent Skills format allows (S-9).
pub(in crate::domain) const MAX_NAME_CHARS: usize = 64;

impl ReadEntry {
    /// Reads one entry, keeping its text.
    ///
    /// `repair_size` lets sizes be missing, as an operator may decide for an origin that never sends them.
    ///
    /// # Errors
    ///
    /// [`RejectedEntry`] with the first rule that is broken.
    pub fn parse(text: &str, repair_size: bool, limits: &Limits) -> Result<Self, RejectedEntry> {
        Draft::read(text, limits)
            .and_then(|draft| draft.finish(text, repair_size, limits))
            .map_err(|fault| RejectedEntry {
                uri: uri_of(text),
                fault,
            })
    }

    /// The skill's URI.
    pub fn uri(&self) -> &SkillUri {
        match self {
            Self::Whole(entry) => entry.uri(),
            Self::Unsized(entry) => &entry.uri,
        }
    }
}

/// The `uri` of an entry that may have anything else wrong with it.
fn uri_of(text: &str) -> Option<String> {
    let members = json::members(text).ok()?;
    let (_, value) = members.iter().find(|(key, _)| key == "uri")?;
    serde_json::from_str(value.get()).ok()
}

/// An entry whose members were found and are of the right types.
struct Draft {
    uri: SkillUri,
    frontmatter: Json,
    files: Vec<(ResourceUri, Digest, Option<u64>)>,
    findings: Vec<Finding>,
}

impl Draft {
    fn read(text: &str, limits: &Limits) -> Result<Self, EntryFault> {
        if text.len() > limits.entry_bytes {
            return Err(EntryFault::TooLong {
                got: text.len(),
                limit: limits.entry_bytes,
            });
        }
        let whole = Json::parse(text)?;
        let Json::Object(members) = &whole else {
            return Err(member("the entry", Some(&whole), "an object", "S-20"));
        };
        refuse_case_twins(members, &ENTRY_MEMBERS)?;
        let uri = required_text(&whole, "uri", "S-5")?
            .parse()
            .map_err(|why| EntryFault::Uri { why })?;
        let frontmatter = whole.get("frontmatter").cloned().unwrap_or(Json::Null);
        let mut findings = check_frontmatter(&frontmatter, &uri)?;
        findings.extend(foreign_members(&whole));
        let files = read_resources(&whole, &uri, limits)?;
        Ok(Self {
            uri,
            frontmatter,
            files,
            findings,
        })
    }

    fn finish(self, text: &str, repair_size: bool, limits: &Limits) -> Result<ReadEntry, EntryFault> {
        let unsized_file = self.files.iter().find(|(_, _, size)| size.is_none());
        if let Some((uri, _, _)) = unsized_file {
            if !repair_size {
                return Err(EntryFault::NoSize(uri.clone()));
            }
            return Ok(ReadEntry::Unsized(UnsizedEntry {
                text: text.into(),
                uri: self.uri,
                files: self.files,
            }));
        }
        let resource = |(uri, digest, size): (ResourceUri, Digest, Option<u64>)| Resource {
            uri,
            digest,
            size: size.unwrap_or_default(),
        };
        let resources = ResourceSet::new(self.files.into_iter().map(resource).collect());
        if resources.bytes() > limits.skill_bytes {
            return Err(EntryFault::TooManyBytes {
                got: resources.bytes(),
                limit: limits.skill_bytes,
            });
        }
        let set = SetId::of(&self.uri, &resources, &self.frontmatter);
        Ok(ReadEntry::Whole(SkillEntry {
            text: text.into(),
            uri: self.uri,
            frontmatter: self.frontmatter,
            resources,
            set,
            findings: self.findings,
        }))
    }
}

fn member(name: &str, found: Option<&Json>, expected: &'static str, rule: &'static str) -> EntryFault {
    EntryFault::Member {
        member: name.to_owned(),
        found: found.map_or("missing", Json::kind),
        expected,
        rule,
    }
}

fn required_text<'a>(object: &'a Json, name: &str, rule: &'static str) -> Result<&'a str, EntryFault> {
    let value = object.get(name);
    value
        .and_then(Json::as_str)
        .ok_or_else(|| member(name, value, "a string", rule))
}

fn refuse_case_twins(members: &[(String, Json)], known: &[&'static str]) -> Result<(), EntryFault> {
    for (name, _) in members {
        let twin = known
            .iter()
            .find(|known| *known != name && known.eq_ignore_ascii_case(&name.to_lowercase()));
        if let Some(known) = twin {
            return Err(EntryFault::CaseTwin {
                found: name.clone(),
                known,
            });
        }
    }
    Ok(())
}

/// What a reviewer should know of members beside those of an entry and its resources.
fn foreign_members(entry: &Json) -> Option<Finding> {
    let resources = match entry.get("resources") {
        Some(Json::Array(items)) => items.as_slice(),
        Some(_) | None => &[],
    };
    let inside = resources.iter().flat_map(|item| names_beside(item, &RESOURCE_MEMBERS));
    let mut foreign = names_beside(entry, &ENTRY_MEMBERS).chain(inside);
    Some(Finding::ForeignMembers {
        first: foreign.next()?.chars().take(MAX_SHOWN_CHARS).collect(),
        more: foreign.count(),
    })
}

/// The names of an object's members that are none of these.
fn names_beside<'a>(object: &'a Json, known: &'static [&'static str]) -> impl Iterator<Item = &'a str> {
    let members = match object {
        Json::Object(members) => members.as_slice(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => &[],
    };
    let names = members.iter().map(|(name, _)| name.as_str());
    names.filter(|name| !known.contains(name))
}

/// Checks what an entry must have whatever else its author wrote (S-6, S-8, S-9, S-17); other fields are the author's.
fn check_frontmatter(frontmatter: &Json, uri: &SkillUri) -> Result<Vec<Finding>, EntryFault> {
    let Json::Object(members) = frontmatter else {
        return Err(member("frontmatter", Some(frontmatter), "an object", "S-6"));
    };
    refuse_case_twins(members, &["name", "description"])?;
    let name = required_text(frontmatter, "name", "S-6")?;
    let description = required_text(frontmatter, "description", "S-6")?;
    if !is_skill_name(name) {
        return Err(EntryFault::Name(name.to_owned()));
    }
    if uri.name() != name {
        return Err(EntryFault::NameDiffers {
            segment: uri.name().to_owned(),
            name: name.to_owned(),
        });
    }
    if description.trim().is_empty() {
        return Err(EntryFault::NoDescription);
    }
    let chars = description.chars().count();
    Ok(if chars > MAX_DESCRIPTION_CHARS {
        vec![Finding::LongDescription { chars }]
    } else {
        Vec::new()
    })
}

/// Says whether the Agent Skills format takes this for a name (S-9).
pub(in crate::domain) fn is_skill_name(name: &str) -> bool {
    name.len() <= MAX_NAME_CHARS
        && name
            .split('-')
            .all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
}

fn read_resources(
    entry: &Json,
    skill: &SkillUri,
    limits: &Limits,
) -> Result<Vec<(ResourceUri, Digest, Option<u64>)>, EntryFault> {
    let items = match entry.get("resources") {
        Some(Json::Array(items)) => items,
        Some(Json::String(word)) if word == "dynamic" => return Err(EntryFault::Dynamic),
        Some(Json::String(word)) => return Err(EntryFault::Resources(format!("the string {word:?}"))),
        Some(other) => return Err(EntryFault::Resources(other.kind().to_owned())),
        None => return Err(EntryFault::Resources("missing".to_owned())),
    };
    if items.len() > limits.skill_files {
        return Err(EntryFault::TooManyFiles {
            got: items.len(),
            limit: limits.skill_files,
        });
    }
    let mut seen = HashSet::with_capacity(items.len());
    let mut files = Vec::with_capacity(items.len());
    for item in items {
        let file = read_resource(item, skill)?;
        if !seen.insert(file.0.clone()) {
            return Err(EntryFault::Twice(file.0));
        }
        files.push(file);
    }
    if seen.contains(skill.as_resource()) {
        Ok(files)
    } else {
        Err(EntryFault::OwnFileMissing)
    }
}

fn read_resource(item: &Json, skill: &SkillUri) -> Result<(ResourceUri, Digest, Option<u64>), EntryFault> {
    let Json::Object(members) = item else {
        return Err(member("a resource", Some(item), "an object", "S-21"));
    };
    refuse_case_twins(members, &RESOURCE_MEMBERS)?;
    let text = required_text(item, "uri", "S-22")?;
    let uri: ResourceUri = text.parse().map_err(|why| EntryFault::ResourceUri {
        uri: text.to_owned(),
        why,
    })?;
    if !skill.contains(&uri) {
        return Err(EntryFault::Outside(uri));
    }
    let digest = required_text(item, "digest", "S-24")?;
    let digest = digest
        .parse()
        .map_err(|why| EntryFault::Digest { uri: uri.clone(), why })?;
    let size = match item.get("size") {
        None => None,
        Some(Json::Number(text)) => Some(read_size(text).ok_or_else(|| bad_size(&uri, text))?),
        Some(other) => return Err(bad_size(&uri, other.kind())),
    };
    Ok((uri, digest, size))
}

fn bad_size(uri: &ResourceUri, found: &str) -> EntryFault {
    EntryFault::Size {
        uri: uri.clone(),
        found: found.to_owned(),
    }
}

/// An integer written without sign, fraction or exponent, up to 2^53 − 1.
fn read_size(text: &str) -> Option<u64> {
    let size = text
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()?;
    (size <= MAX_SAFE_INTEGER).then_some(size)
}
