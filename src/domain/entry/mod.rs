//! Entries: what an origin says a skill is, checked one by one (S-5 … S-28), their text kept as it came.

mod fault;
mod read;
mod rewrite;

use std::fmt;

pub use fault::EntryFault;
pub use fault::IncompleteEntry;
pub use fault::RejectedEntry;
pub(super) use read::MAX_DESCRIPTION_CHARS;
pub(super) use read::MAX_NAME_CHARS;
pub(super) use read::is_skill_name;
use rewrite::add_sizes;
use rewrite::rewrite;

use super::digest::Digest;
use super::finding::Finding;
use super::json::Json;
use super::json::quoted;
use super::limits::Limits;
use super::set::ResourceSet;
use super::set::SetId;
use super::uri::ResourceUri;
use super::uri::SkillUri;

/// A complete, well-formed entry: `{uri, frontmatter, resources}` with every structural rule kept.
///
/// Whether its files are what it says is not known yet: that is [`SkillEntry::verify`].
#[derive(Clone, Debug)]
pub struct SkillEntry {
    text: Box<str>,
    uri: SkillUri,
    frontmatter: Json,
    resources: ResourceSet,
    set: SetId,
    findings: Vec<Finding>,
}

/// What one entry of a listing turned out to be.
#[derive(Clone, Debug)]
pub enum ReadEntry {
    /// Every rule is kept.
    Whole(SkillEntry),
    /// Only sizes are missing, and the operator lets them be measured (`repair = ["size"]`).
    Unsized(UnsizedEntry),
}

/// An entry whose resources lack `size`; everything else is well-formed.
#[derive(Clone, Debug)]
pub struct UnsizedEntry {
    text: Box<str>,
    uri: SkillUri,
    files: Vec<(ResourceUri, Digest, Option<u64>)>,
}

impl SkillEntry {
    /// Reads an entry of ours back: one that was whole when it was stored.
    ///
    /// # Errors
    ///
    /// [`RejectedEntry`] when it is not whole.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, RejectedEntry> {
        match ReadEntry::parse(text, false, limits)? {
            ReadEntry::Whole(entry) => Ok(entry),
            ReadEntry::Unsized(entry) => {
                let (uri, _, _) = entry
                    .files
                    .into_iter()
                    .find(|(_, _, size)| size.is_none())
                    .ok_or_else(|| RejectedEntry {
                        uri: Some(entry.uri.to_string()),
                        fault: EntryFault::OwnFileMissing,
                    })?;
                Err(RejectedEntry {
                    uri: Some(entry.uri.to_string()),
                    fault: EntryFault::NoSize(uri),
                })
            }
        }
    }

    /// The entry as its origin wrote it: this text is what the origin's own view serves (S-16).
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The skill's URI.
    pub fn uri(&self) -> &SkillUri {
        &self.uri
    }

    /// The frontmatter as listed.
    pub fn frontmatter(&self) -> &Json {
        &self.frontmatter
    }

    /// The frontmatter's `name`.
    pub fn name(&self) -> &str {
        self.uri.name()
    }

    /// The frontmatter's `description`.
    pub fn description(&self) -> &str {
        self.frontmatter
            .get("description")
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    /// The files.
    pub fn resources(&self) -> &ResourceSet {
        &self.resources
    }

    /// The id of its resource set.
    pub fn set(&self) -> SetId {
        self.set
    }

    /// What a reviewer should see about the entry itself.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The entry's text with every URI in its envelope replaced by `name(uri)`; all else as it was written.
    pub fn text_with_uris(&self, name: impl Fn(&ResourceUri) -> String) -> String {
        rewrite(&self.text, &mut |uri, text| {
            // A whole entry's URIs were parsed when it was read.
            *text = uri.parse().map_or_else(|_| quoted(uri), |uri| quoted(&name(&uri)));
        })
    }
}

impl UnsizedEntry {
    /// The entry's text as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The skill's URI.
    pub fn uri(&self) -> &SkillUri {
        &self.uri
    }

    /// The files: where each is, its digest, and its size where the entry has it.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&ResourceUri, Digest, Option<u64>)> {
        self.files.iter().map(|(uri, digest, size)| (uri, *digest, *size))
    }

    /// The whole entry, once `measured` knows the size of every file whose digest was seen to be right.
    ///
    /// Nothing but the missing `size` members is added to its text.
    ///
    /// # Errors
    ///
    /// The first file that was not measured yet, or the rule that the whole entry breaks.
    pub fn complete(
        &self,
        measured: impl Fn(Digest) -> Option<u64>,
        limits: &Limits,
    ) -> Result<SkillEntry, IncompleteEntry> {
        for (uri, digest, size) in self.files() {
            if size.is_none() && measured(digest).is_none() {
                return Err(IncompleteEntry::NotMeasured(uri.clone()));
            }
        }
        let sizes = |uri: &str| {
            let (_, digest, size) = self.files.iter().find(|(known, _, _)| known.as_str() == uri)?;
            size.is_none().then(|| measured(*digest)).flatten()
        };
        let text = add_sizes(&self.text, &sizes);
        SkillEntry::parse(&text, limits).map_err(|rejected| IncompleteEntry::Rejected(rejected.fault))
    }
}

impl fmt::Display for SkillEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.uri, self.set)
    }
}

#[cfg(test)]
mod tests;
