//! Which skills a rule is for, and what it is called.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::domain::text::serde_as_text;
use crate::domain::uri::SKILL_FILE;
use crate::domain::uri::SkillUri;

/// Characters in a rule's name.
const MAX_NAME_CHARS: usize = 64;

/// Characters in a pattern.
const MAX_PATTERN_CHARS: usize = 1024;

/// The segment that stands for any number of segments.
const ANY_DEPTH: &str = "**";

/// The scheme that a pattern does without.
const SKILL: &str = "skill";

/// What a rule is called: lower-case words joined by single hyphens, at most 64 characters, and not `policy`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleName(Box<str>);

/// A text that names no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidRuleName {
    /// It is not lower-case letters, digits and single inner hyphens, or too long.
    #[error("{0:?} is not lower-case letters, digits and single inner hyphens, at most {MAX_NAME_CHARS}")]
    Form(String),
    /// It is what the record calls the defaults.
    #[error("\"policy\" is what the record calls [policy]")]
    Reserved,
}

/// Skills by their paths: `hr/*`, `**/draft-*`, or `repo://team/**` under another scheme than `skill`.
///
/// It is compared with a skill's directory, segment by segment and byte for byte. In a segment, `*` stands for any
/// characters, none included; a segment `**` stands for any number of segments, none included. Nothing else is special.
///
/// ```
/// use portcullis::domain::policy::SkillPattern;
/// let pattern: SkillPattern = "hr/*".parse()?;
/// assert!(pattern.matches(&"skill://hr/leave/SKILL.md".parse().unwrap()));
/// assert!(!pattern.matches(&"skill://hr/leave/old/SKILL.md".parse().unwrap()));
/// # Ok::<(), portcullis::domain::policy::InvalidPattern>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillPattern {
    scheme: Box<str>,
    segments: Vec<Box<str>>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidPattern {
    /// It has too many characters.
    #[error("has over {MAX_PATTERN_CHARS} characters")]
    TooLong,
    /// A scheme that could not match.
    #[error("begins with a scheme that no skill has; under skill:// only the path is written, as hr/*")]
    Scheme,
    /// A segment that no skill has.
    #[error("has a segment {0:?}, which no skill has")]
    Segment(String),
    /// `**` beside other characters.
    #[error("has ** beside other characters; it stands alone between slashes")]
    AnyDepth,
    /// It names a file.
    #[error("names a file; a pattern names skills, so leave out /{SKILL_FILE}")]
    File,
}

impl RuleName {
    /// What the record calls `[policy]`.
    pub(super) const POLICY: &'static str = "policy";
}

impl FromStr for RuleName {
    type Err = InvalidRuleName;

    fn from_str(text: &str) -> Result<Self, InvalidRuleName> {
        let is_word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if text.len() > MAX_NAME_CHARS || !text.split('-').all(is_word) {
            return Err(InvalidRuleName::Form(text.to_owned()));
        }
        if text == Self::POLICY {
            return Err(InvalidRuleName::Reserved);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

serde_as_text!(RuleName);

impl SkillPattern {
    /// Says whether a skill is one of those meant.
    pub fn matches(&self, skill: &SkillUri) -> bool {
        let uri = skill.as_resource();
        let segments: Vec<&str> = uri.segments().collect();
        let directory = segments.split_last().map_or(&[][..], |(_, directory)| directory);
        *self.scheme == *uri.scheme()
            && matches(
                &self.segments,
                directory,
                &|segment| **segment == *ANY_DEPTH,
                &|pattern, segment| matches_segment(pattern, segment),
            )
    }
}

fn matches_segment(pattern: &str, segment: &str) -> bool {
    matches(
        pattern.as_bytes(),
        segment.as_bytes(),
        &|byte| *byte == b'*',
        &|a, b| a == b,
    )
}

/// Matches with one kind of wild card, which stands for any number of things. Takes time in the product of the two lengths
/// at most: of all wild cards, only the last one met has to be tried again.
fn matches<P, T>(pattern: &[P], text: &[T], is_wild: &dyn Fn(&P) -> bool, is_one: &dyn Fn(&P, &T) -> bool) -> bool {
    let (mut at, mut seen) = (0, 0);
    // The wild card met last, and how far into the text it reaches.
    let mut wild: Option<(usize, usize)> = None;
    while let Some(thing) = text.get(seen) {
        match pattern.get(at) {
            Some(next) if is_wild(next) => {
                wild = Some((at, seen));
                at += 1;
            }
            Some(next) if is_one(next, thing) => {
                at += 1;
                seen += 1;
            }
            Some(_) | None => {
                let Some((star, reach)) = wild else { return false };
                wild = Some((star, reach + 1));
                at = star + 1;
                seen = reach + 1;
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(is_wild)
}

impl FromStr for SkillPattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        if text.chars().count() > MAX_PATTERN_CHARS {
            return Err(InvalidPattern::TooLong);
        }
        let (scheme, path) = text.split_once("://").unwrap_or((SKILL, text));
        // One pattern, one spelling; and a scheme is one that a skill can have.
        let has_scheme = text.contains("://");
        if has_scheme && (scheme == SKILL || format!("{scheme}://a/{SKILL_FILE}").parse::<SkillUri>().is_err()) {
            return Err(InvalidPattern::Scheme);
        }
        let segments: Vec<Box<str>> = path.split('/').map(Into::into).collect();
        for segment in &segments {
            if segment.contains(ANY_DEPTH) && **segment != *ANY_DEPTH {
                return Err(InvalidPattern::AnyDepth);
            }
            // Whatever the stars stand for, the rest has to be what a URI's segment may have.
            let plain = segment.replace('*', "x");
            if format!("{SKILL}://{plain}/{SKILL_FILE}").parse::<SkillUri>().is_err() {
                return Err(InvalidPattern::Segment(segment.to_string()));
            }
        }
        if segments.last().is_some_and(|last| **last == *SKILL_FILE) {
            return Err(InvalidPattern::File);
        }
        Ok(Self {
            scheme: scheme.into(),
            segments,
        })
    }
}

impl fmt::Display for SkillPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.scheme != *SKILL {
            write!(f, "{}://", self.scheme)?;
        }
        f.write_str(&self.segments.join("/"))
    }
}

serde_as_text!(SkillPattern);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, uri: &str) -> bool {
        pattern.parse::<SkillPattern>().unwrap().matches(&uri.parse().unwrap())
    }

    #[test]
    fn a_star_stays_in_its_segment_and_two_cross_them() {
        for (pattern, path, is_match) in [
            ("hr/leave", "hr/leave", true),
            ("hr/leave", "hr/leaves", false),
            ("hr/*", "hr/leave", true),
            ("hr/*", "hr", false),
            ("hr/*", "hr/a/b", false),
            ("hr/**", "hr", true),
            ("hr/**", "hr/a/b", true),
            ("**", "a/b/c", true),
            ("**/draft-*", "a/b/draft-1", true),
            ("**/draft-*", "draft-", true),
            ("**/draft-*", "draft-1/final", false),
            ("**/a/**/b", "a/x/a/y/b", true),
            ("**/a/**/b", "x/b", false),
            ("*a*a*", "banana", true),
            ("*a*a*a*a*", "banana", false),
            ("HR/*", "hr/leave", false),
        ] {
            assert_eq!(
                matches(pattern, &format!("skill://{path}/SKILL.md")),
                is_match,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn another_scheme_is_meant_only_when_it_is_written() {
        assert!(matches("repo://team/**", "repo://team/x/SKILL.md"));
        assert!(!matches("repo://team/**", "skill://team/x/SKILL.md"));
        assert!(!matches("**", "repo://team/x/SKILL.md"));
    }

    #[test]
    fn what_could_match_no_skill_is_no_pattern() {
        for (bad, why) in [
            ("", InvalidPattern::Segment(String::new())),
            ("hr/", InvalidPattern::Segment(String::new())),
            ("/hr", InvalidPattern::Segment(String::new())),
            ("hr/../x", InvalidPattern::Segment("..".to_owned())),
            ("hr/a?", InvalidPattern::Segment("a?".to_owned())),
            ("hr/[ab]", InvalidPattern::Segment("[ab]".to_owned())),
            ("hr/a**", InvalidPattern::AnyDepth),
            ("***", InvalidPattern::AnyDepth),
            ("hr/SKILL.md", InvalidPattern::File),
            ("skill://hr/*", InvalidPattern::Scheme),
            ("Repo://hr/*", InvalidPattern::Scheme),
            ("*://hr", InvalidPattern::Scheme),
        ] {
            assert_eq!(bad.parse::<SkillPattern>(), Err(why), "{bad}");
        }
        assert_eq!("a".repeat(1025).parse::<SkillPattern>(), Err(InvalidPattern::TooLong));
    }

    #[test]
    fn a_rule_is_called_by_lower_case_words() {
        for good in ["docs", "docs-only", "a1-2"] {
            assert_eq!(good.parse::<RuleName>().unwrap().to_string(), good);
        }
        for bad in ["", "Docs", "a--b", "-a", "a_b", "a b", "origin.acme", &"a".repeat(65)] {
            assert_eq!(bad.parse::<RuleName>(), Err(InvalidRuleName::Form(bad.to_owned())));
        }
        assert_eq!("policy".parse::<RuleName>(), Err(InvalidRuleName::Reserved));
    }

    /// The plain reading, in as much time as it takes.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), Some((_, after))) => naive(rest, text) || naive(pattern, after),
            (Some(('*', rest)), None) => naive(rest, text),
            (Some((a, rest)), Some((b, after))) => a == b && naive(rest, after),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn matching_is_the_plain_reading(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches_segment(&pattern, &text), naive(&chars(&pattern), &chars(&text)));
        }

        #[test]
        fn whatever_parses_prints_as_it_was(text in "([a-z]{1,3}://)?[a-z*/.]{0,12}") {
            if let Ok(pattern) = text.parse::<SkillPattern>() {
                prop_assert_eq!(pattern.to_string(), text);
            }
        }
    }
}
