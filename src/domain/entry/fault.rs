//! What can be wrong with an entry, by the rule that it breaks.

use thiserror::Error;

use super::read::MAX_NAME_CHARS;
use crate::domain::definitions::DEFINITIONS_SCHEME;
use crate::domain::digest::InvalidDigest;
use crate::domain::json::InvalidJson;
use crate::domain::publish::Unpublishable;
use crate::domain::uri::InvalidUri;
use crate::domain::uri::ResourceUri;

/// An entry that is not published, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {fault} ({})", uri.as_deref().unwrap_or("an entry without a URI"), fault.rule())]
pub struct RejectedEntry {
    /// The entry's URI as far as it could be read.
    pub uri: Option<String>,
    /// What is wrong with it.
    pub fault: EntryFault,
}

/// What can be wrong with an entry, by the rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EntryFault {
    /// Its text cannot be relied upon.
    #[error("its JSON is refused: {0}")]
    Json(#[from] InvalidJson),
    /// It has more bytes than an entry may have.
    #[error("its JSON has {got} bytes, over the limit of {limit}")]
    TooLong {
        /// Bytes of the entry.
        got: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A member is missing or has the wrong type.
    #[error("{member} is {found} where {expected} is required")]
    Member {
        /// Where it stands.
        member: String,
        /// What is there.
        found: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// The rule.
        rule: &'static str,
    },
    /// A member's name equals a known one but for case, so that some parsers would take it for that one.
    #[error("the member {found:?} would be taken for {known:?} by parsers that ignore case")]
    CaseTwin {
        /// The member.
        found: String,
        /// What it would be taken for.
        known: &'static str,
    },
    /// `uri` is no skill URI (S-5).
    #[error("its uri {why}")]
    Uri {
        /// Why not.
        why: InvalidUri,
    },
    /// The name does not match `^[a-z0-9]+(-[a-z0-9]+)*$` or is over 64 characters (S-9).
    #[error("the name {0:?} is not up to {MAX_NAME_CHARS} lower-case letters, digits and single inner hyphens")]
    Name(String),
    /// The last segment of the path is not the frontmatter's name (S-8, S-17).
    #[error("its path ends in {segment:?} but its frontmatter says {name:?}")]
    NameDiffers {
        /// The last segment.
        segment: String,
        /// The name.
        name: String,
    },
    /// `description` is empty (S-6).
    #[error("its description is empty")]
    NoDescription,
    /// The string `"dynamic"`: nothing to bind an approval to (S-26, S-27).
    #[error("its resources are \"dynamic\", so that no approval can bind them; such skills are not served")]
    Dynamic,
    /// `resources` is neither an array nor `"dynamic"` (S-20, H-16).
    #[error("its resources are {0} where an array or \"dynamic\" is required")]
    Resources(String),
    /// A resource's `uri` is refused (S-22).
    #[error("the resource {uri:?} is refused: its uri {why}")]
    ResourceUri {
        /// As it was written.
        uri: String,
        /// Why.
        why: InvalidUri,
    },
    /// A resource lies outside the skill's directory (S-22).
    #[error("the resource {0} lies outside the skill's directory")]
    Outside(ResourceUri),
    /// A resource stands in the list twice (S-21).
    #[error("the resource {0} is listed twice")]
    Twice(ResourceUri),
    /// The skill's own `SKILL.md` is not listed (S-21).
    #[error("its own SKILL.md is not among its resources")]
    OwnFileMissing,
    /// A digest has the wrong form (S-24).
    #[error("the digest of {uri}: {why}")]
    Digest {
        /// The file.
        uri: ResourceUri,
        /// What it says.
        why: InvalidDigest,
    },
    /// A resource has no size (S-23).
    #[error("{0} has no size (an origin that leaves sizes out can be served with repair = [\"size\"])")]
    NoSize(ResourceUri),
    /// The listing has the skill twice, and not the same (S-37).
    #[error("the listing has it twice, and the two differ")]
    ListedTwice,
    /// Its scheme is that of what an origin says of its tools.
    #[error(
        "the scheme {DEFINITIONS_SCHEME}:// is no skill's here: what the origin says of its tools is decided about under it"
    )]
    Reserved,
    /// What was given is another skill than the one asked for (S-37).
    #[error("the origin answered with {found} instead")]
    OtherSkill {
        /// The skill given.
        found: String,
    },
    /// A size is no integer from 0 to 2^53 − 1 (S-23).
    #[error("the size of {uri} is {found} where an integer from 0 to 2^53-1 is required")]
    Size {
        /// The file.
        uri: ResourceUri,
        /// What it says.
        found: String,
    },
    /// A folder has it, and it is not published.
    #[error(transparent)]
    Unpublishable(#[from] Unpublishable),
    /// More files than a skill may have (S-28).
    #[error("it has {got} files, over the limit of {limit}")]
    TooManyFiles {
        /// Files listed.
        got: usize,
        /// Files allowed.
        limit: usize,
    },
    /// More bytes than a skill may have (S-28).
    #[error("its files have {got} bytes, over the limit of {limit}")]
    TooManyBytes {
        /// Bytes listed.
        got: u64,
        /// Bytes allowed.
        limit: u64,
    },
}

impl EntryFault {
    /// The rule of the extension that is broken, or the kind of check where it names none.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Json(InvalidJson::DuplicateKey(_)) => "duplicate-key",
            Self::Json(InvalidJson::Syntax(_) | InvalidJson::TooDeep) => "json",
            Self::TooLong { .. } => "entry-limit",
            Self::Member { rule, .. } => rule,
            Self::CaseTwin { .. } => "case-twin",
            Self::Uri { .. } => "S-5",
            Self::Reserved => "reserved",
            Self::Name(_) => "S-9",
            Self::NameDiffers { .. } => "S-17",
            Self::NoDescription => "S-6",
            Self::Dynamic => "S-26",
            Self::Resources(_) => "S-20",
            Self::ResourceUri { .. } | Self::Outside(_) => "S-22",
            Self::ListedTwice | Self::OtherSkill { .. } => "S-37",
            Self::Twice(_) | Self::OwnFileMissing => "S-21",
            Self::Digest { .. } => "S-24",
            Self::NoSize(_) | Self::Size { .. } => "S-23",
            Self::Unpublishable(why) => why.rule.id(),
            Self::TooManyFiles { .. } | Self::TooManyBytes { .. } => "S-28",
        }
    }

    /// Says whether nothing is wrong but that there is too much of it: such a skill is declined, and hosts are told why
    /// (H-18).
    pub fn is_over_limits(&self) -> bool {
        matches!(
            self,
            Self::TooLong { .. } | Self::TooManyFiles { .. } | Self::TooManyBytes { .. }
        )
    }
}

/// Why an entry without sizes is not whole yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IncompleteEntry {
    /// A file was not fetched yet.
    #[error("the size of {0} is not known until the skill is pulled")]
    NotMeasured(ResourceUri),
    /// With its sizes known, it breaks a rule.
    #[error("with its sizes known, {0}")]
    Rejected(EntryFault),
}
