//! What a reviewer should see about a skill before deciding.

use std::fmt;

use super::frontmatter::FrontmatterMatch;
use super::origin::SkillKey;
use super::uri::SkillUri;

/// Something true of a skill that breaks no rule but should be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The description is longer than the format allows; some hosts then refuse a whole listing.
    LongDescription {
        /// Characters it has.
        chars: usize,
    },
    /// The entry has members that the extension does not define: hosts are given them as they were first seen, though no
    /// set id covers them.
    ForeignMembers {
        /// The first one's name, cut short.
        first: String,
        /// How many there are beside it.
        more: usize,
    },
    /// The origin left sizes out; they were measured (`repair = ["size"]`).
    SizesMeasured,
    /// The frontmatter matched only under another reading than YAML 1.2, or with a tolerance (design §8).
    LooseFrontmatter(FrontmatterMatch),
    /// A folder that goes before the skill's own has one of the same name.
    Shadowed {
        /// That one.
        by: SkillUri,
    },
    /// Other skills have the same name, so that people may take one for another (H-15). Nothing here goes by a name alone.
    SameName {
        /// One of them.
        other: SkillKey,
        /// How many there are beside that one.
        more: usize,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LongDescription { chars } => {
                write!(f, "the description has {chars} characters where the format allows 1024")
            }
            Self::ForeignMembers { first, more } => {
                write!(f, "the entry has the member {first:?}")?;
                if *more > 0 {
                    write!(f, " and {more} more")?;
                }
                f.write_str(" that the extension does not define; hosts are given what no approval is about")
            }
            Self::SizesMeasured => f.write_str("the origin sends no sizes; they were measured by a pull"),
            Self::LooseFrontmatter(matched) => matched.fmt(f),
            Self::Shadowed { by } => write!(f, "{by} has the same name, and its folder goes before this one's"),
            Self::SameName { other, more: 0 } => write!(f, "{other} has the same name"),
            Self::SameName { other, more } => write!(f, "{other} and {more} more have the same name"),
        }
    }
}
