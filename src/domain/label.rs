//! The label that an operator gives an origin.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::limits::MAX_LABEL_CHARS;
use super::text::serde_as_text;

/// Words that stand before a `+` in schemes already in use (`git+ssh:`, `coap+tcp:`, `view-source:`).
/// As a label they would make `<label>+S:rest` read as a scheme of the world's.
const RESERVED: &[&str] = &[
    "bzr",
    "coap",
    "coaps",
    "ext",
    "git",
    "hg",
    "mongodb",
    "postgresql",
    "redis",
    "rsync",
    "svn",
    "view",
    "web",
];

/// The name that *we* give an origin, `[a-z][a-z0-9]*(-[a-z0-9]+)*` (design §3; H-13, H-50).
///
/// It is never taken from what a server says of itself. At most [`MAX_LABEL_CHARS`] characters, so that it can stand
/// in a URI, in a path and before a tool's name.
///
/// ```
/// use portcullis::domain::Label;
/// let label: Label = "acme-eu".parse()?;
/// assert_eq!(label.as_str(), "acme-eu");
/// assert!("Acme".parse::<Label>().is_err());
/// assert!("git".parse::<Label>().is_err());
/// # Ok::<(), portcullis::domain::InvalidLabel>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Box<str>);

/// Why a word is no label.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidLabel {
    /// It has no character at all.
    #[error("a label is not empty")]
    Empty,
    /// It has more than [`MAX_LABEL_CHARS`] characters.
    #[error("{0:?} has over {MAX_LABEL_CHARS} characters")]
    TooLong(String),
    /// It does not match `[a-z][a-z0-9]*(-[a-z0-9]+)*`.
    #[error("{0:?} is not lower-case letters, digits and single inner hyphens, beginning with a letter")]
    Form(String),
    /// It is the first half of a scheme in use.
    #[error("{0:?} stands before a + in schemes already in use")]
    Reserved(String),
}

impl Label {
    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, InvalidLabel> {
        if text.is_empty() {
            return Err(InvalidLabel::Empty);
        }
        if text.chars().count() > MAX_LABEL_CHARS {
            return Err(InvalidLabel::TooLong(text.to_owned()));
        }
        let groups_are_words = text
            .split('-')
            .all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        if !groups_are_words || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(InvalidLabel::Form(text.to_owned()));
        }
        if RESERVED.contains(&text) {
            return Err(InvalidLabel::Reserved(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

serde_as_text!(Label);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_words_joined_by_single_hyphens() {
        for good in ["a", "acme", "acme-eu", "a1-2b", "my-team", &"a".repeat(32)] {
            assert!(good.parse::<Label>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "9lives",
            "under_score",
            "a.b",
            "a b",
            "é",
            "~skill",
            &"a".repeat(33),
        ] {
            assert!(bad.parse::<Label>().is_err(), "{bad}");
        }
    }

    #[test]
    fn scheme_prefixes_in_use_are_no_labels() {
        for word in ["git", "svn", "hg", "coap", "view"] {
            assert_eq!(word.parse::<Label>(), Err(InvalidLabel::Reserved(word.to_owned())));
        }
    }
}
