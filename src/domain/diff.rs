//! What changed between two entries of one skill, for the reviewer.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::digest::Digest;
use super::entry::SkillEntry;
use super::set::Resource;
use super::uri::ResourceUri;

/// The difference between an approved entry and another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetDiff {
    /// Whether the frontmatter as listed differs.
    pub frontmatter: bool,
    /// The files that differ, in the byte order of their URIs.
    pub files: Vec<FileChange>,
}

/// One file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Where.
    pub uri: ResourceUri,
    /// Its digest and size before; none when it was added.
    pub before: Option<(Digest, u64)>,
    /// Its digest and size after; none when it was removed.
    pub after: Option<(Digest, u64)>,
}

impl SetDiff {
    /// Compares what was approved with what is seen.
    pub fn between(before: &SkillEntry, after: &SkillEntry) -> Self {
        let files = |entry: &SkillEntry| {
            let file = |r: &Resource| (r.uri.clone(), (r.digest, r.size));
            entry.resources().iter().map(file).collect::<BTreeMap<_, _>>()
        };
        let (old, new) = (files(before), files(after));
        let uris: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let change = |uri: &ResourceUri| FileChange {
            uri: uri.clone(),
            before: old.get(uri).copied(),
            after: new.get(uri).copied(),
        };
        Self {
            frontmatter: before.frontmatter().canonical() != after.frontmatter().canonical(),
            files: uris
                .into_iter()
                .map(change)
                .filter(|file| file.before != file.after)
                .collect(),
        }
    }

    /// Everything in `after`, when nothing was approved before.
    pub fn from_nothing(after: &SkillEntry) -> Self {
        let added = |resource: &Resource| FileChange {
            uri: resource.uri.clone(),
            before: None,
            after: Some((resource.digest, resource.size)),
        };
        Self {
            frontmatter: true,
            files: after.resources().sorted().map(added).collect(),
        }
    }
}
