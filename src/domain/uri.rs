//! URIs of the skill family, compared byte for byte and never normalised (design §3).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::limits::MAX_URI_BYTES;
use super::text::serde_as_text;

/// The last segment of every skill's own URI (S-5).
pub const SKILL_FILE: &str = "SKILL.md";

/// `scheme://segment/…`: a file or a directory of a skill, spelled as its origin spells it.
///
/// Refused: a scheme that is not lower case, opaque forms, an empty authority or segment, `@`, `[`, `]`, `\`, dot
/// segments, `%2F`, `%5C` and `%2E` in any case, `?`, `#`, control characters, and more than [`MAX_URI_BYTES`]. Ports and
/// everything else stay byte for byte, so two spellings are two URIs.
///
/// ```
/// use portcullis::domain::ResourceUri;
/// let uri: ResourceUri = "skill://hr/leave/references/rules.md".parse()?;
/// assert_eq!(uri.segments().last(), Some("rules.md"));
/// assert!("skill://hr/leave/../pay/SKILL.md".parse::<ResourceUri>().is_err());
/// # Ok::<(), portcullis::domain::InvalidUri>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceUri(Box<str>);

/// The URI of a skill: a [`ResourceUri`] of at least two segments whose last is `SKILL.md` (S-5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkillUri(ResourceUri);

/// Why a text is no URI of the skill family.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidUri {
    /// It has more than [`MAX_URI_BYTES`] bytes.
    #[error("over {MAX_URI_BYTES} bytes long")]
    TooLong,
    /// It does not begin with a lower-case scheme and `://`.
    #[error("does not begin with a lower-case scheme and \"://\"")]
    Scheme,
    /// Two slashes meet, or nothing stands before the first or after the last one.
    #[error("has an empty segment")]
    EmptySegment,
    /// A segment is `.` or `..`.
    #[error("has a dot segment")]
    DotSegment,
    /// A character that could be read as structure, or that cannot be seen.
    #[error("has the character {0:?}, which has no place in a skill URI")]
    Character(char),
    /// An escape that another reader could take for structure.
    #[error("has the escape {0}, which another reader could take for structure")]
    Escape(String),
    /// It does not end in `/SKILL.md` below a directory.
    #[error("does not end in a directory's name and /SKILL.md")]
    NotSkillFile,
}

impl ResourceUri {
    /// The URI as its origin spells it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before `://`.
    pub fn scheme(&self) -> &str {
        self.split().0
    }

    /// What stands after `://`.
    pub fn path(&self) -> &str {
        self.split().1
    }

    /// The segments after `://`, the first where an authority would stand.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.path().split('/')
    }

    /// The last segment.
    pub fn file_name(&self) -> &str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// The enclosing directories, innermost first, down to a single segment.
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        let floor = self.scheme().len() + "://".len();
        let mut rest = self.as_str();
        std::iter::from_fn(move || {
            let (parent, _) = rest.rsplit_once('/')?;
            rest = parent;
            (parent.len() > floor).then_some(parent)
        })
    }

    fn split(&self) -> (&str, &str) {
        self.0.split_once("://").unwrap_or_default()
    }
}

impl FromStr for ResourceUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, InvalidUri> {
        if text.len() > MAX_URI_BYTES {
            return Err(InvalidUri::TooLong);
        }
        let (scheme, path) = text.split_once("://").ok_or(InvalidUri::Scheme)?;
        if !is_lower_case_scheme(scheme) {
            return Err(InvalidUri::Scheme);
        }
        if let Some(bad) = path.chars().find(|&c| c.is_control() || "@[]\\?#".contains(c)) {
            return Err(InvalidUri::Character(bad));
        }
        if let Some(escape) = structural_escape(path) {
            return Err(InvalidUri::Escape(escape));
        }
        for segment in path.split('/') {
            match segment {
                "" => return Err(InvalidUri::EmptySegment),
                "." | ".." => return Err(InvalidUri::DotSegment),
                _ => {}
            }
        }
        Ok(Self(text.into()))
    }
}

/// The first of `%2F`, `%5C` and `%2E`, in any case.
fn structural_escape(path: &str) -> Option<String> {
    path.split('%').skip(1).find_map(|after| {
        let digits: String = after.chars().take(2).collect();
        let structural = ["2f", "5c", "2e"].iter().any(|code| digits.eq_ignore_ascii_case(code));
        structural.then(|| format!("%{digits}"))
    })
}

/// RFC 3986 §3.1, without upper case.
fn is_lower_case_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b))
}

impl SkillUri {
    /// The URI as its origin spells it.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The same as a resource.
    pub fn as_resource(&self) -> &ResourceUri {
        &self.0
    }

    /// The skill's directory: the URI without `/SKILL.md`.
    pub fn root(&self) -> &str {
        self.as_str().rsplit_once('/').map_or("", |(root, _)| root)
    }

    /// The last segment of the skill's path, which its frontmatter's `name` must equal (S-8, S-17).
    pub fn name(&self) -> &str {
        self.root().rsplit('/').next().unwrap_or_default()
    }

    /// Says whether `uri` lies below this skill's directory, on a segment boundary (S-22).
    pub fn contains(&self, uri: &ResourceUri) -> bool {
        uri.as_str()
            .strip_prefix(self.root())
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

impl FromStr for SkillUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, InvalidUri> {
        let uri: ResourceUri = text.parse()?;
        let mut segments = uri.segments().rev();
        if segments.next() != Some(SKILL_FILE) || segments.next().is_none() {
            return Err(InvalidUri::NotSkillFile);
        }
        drop(segments);
        Ok(Self(uri))
    }
}

impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SkillUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

serde_as_text!(ResourceUri);
serde_as_text!(SkillUri);

/// A path with its percent escapes read, as programs and people know it; what is no UTF-8 then is replaced.
pub(crate) fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| escape(after)).flatten();
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escape(after: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (high, low) = (digit(after.first()?)?, digit(after.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_read_two_ways_is_refused() {
        for (text, why) in [
            ("SKILL://a/SKILL.md", InvalidUri::Scheme),
            ("skill:a/SKILL.md", InvalidUri::Scheme),
            ("docs:team/refunds/SKILL.md", InvalidUri::Scheme),
            ("file:/etc/hostname", InvalidUri::Scheme),
            ("://a/SKILL.md", InvalidUri::Scheme),
            ("1s://a/b", InvalidUri::Scheme),
            ("skill:///a", InvalidUri::EmptySegment),
            ("file:///etc/hostname", InvalidUri::EmptySegment),
            ("skill://a//b", InvalidUri::EmptySegment),
            ("skill://a/", InvalidUri::EmptySegment),
            ("skill://", InvalidUri::EmptySegment),
            ("skill://a/../b", InvalidUri::DotSegment),
            ("skill://./b", InvalidUri::DotSegment),
            ("skill://u@a/b", InvalidUri::Character('@')),
            ("skill://[::1]/b", InvalidUri::Character('[')),
            ("skill://a/b]", InvalidUri::Character(']')),
            ("skill://a\\b", InvalidUri::Character('\\')),
            ("skill://a/b?x", InvalidUri::Character('?')),
            ("skill://a/b#x", InvalidUri::Character('#')),
            ("skill://a/\n", InvalidUri::Character('\n')),
            ("skill://a/\u{85}", InvalidUri::Character('\u{85}')),
            ("skill://a%2fb", InvalidUri::Escape("%2f".to_owned())),
            ("skill://a%2Fb", InvalidUri::Escape("%2F".to_owned())),
            ("skill://a/%2E%2e/b", InvalidUri::Escape("%2E".to_owned())),
            ("skill://a/%5cb", InvalidUri::Escape("%5c".to_owned())),
        ] {
            assert_eq!(text.parse::<ResourceUri>(), Err(why), "{text}");
        }
        assert_eq!(
            format!("skill://{}", "a".repeat(MAX_URI_BYTES)).parse::<ResourceUri>(),
            Err(InvalidUri::TooLong)
        );
    }

    #[test]
    fn everything_else_stays_byte_for_byte() {
        for text in [
            "skill://Acme/Tools/SKILL.md",
            "skill://caf%C3%A9/SKILL.md",
            "skill://café/SKILL.md",
            "skill://host:8080/a/SKILL.md",
            "skill://a/100%/SKILL.md",
            "skill://a/{name}/SKILL.md",
            "skill://a/a b.md",
            "git+ssh://a/b",
            "skill://~a/b",
        ] {
            assert_eq!(text.parse::<ResourceUri>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_skill_uri_ends_below_a_directory() {
        let uri: SkillUri = "skill://acme/refunds/SKILL.md".parse().unwrap();
        assert_eq!((uri.root(), uri.name()), ("skill://acme/refunds", "refunds"));
        for bad in [
            "skill://SKILL.md",
            "skill://a/skill.md",
            "skill://a/SKILL.md/x",
            "skill://a/XSKILL.md",
        ] {
            assert_eq!(bad.parse::<SkillUri>(), Err(InvalidUri::NotSkillFile), "{bad}");
        }
    }

    #[test]
    fn containment_is_by_segment_not_by_prefix() {
        let uri: SkillUri = "skill://refunds/SKILL.md".parse().unwrap();
        assert!(uri.contains(&"skill://refunds/a/b.md".parse().unwrap()));
        assert!(uri.contains(uri.as_resource()));
        for outside in [
            "skill://refunds-evil/x",
            "skill://refunds",
            "skill://other/secret.md",
            "repo://refunds/x",
        ] {
            assert!(!uri.contains(&outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn ancestors_go_from_the_inside_out() {
        let uri: ResourceUri = "skill://a/b/c/d.md".parse().unwrap();
        assert_eq!(
            uri.ancestors().collect::<Vec<_>>(),
            ["skill://a/b/c", "skill://a/b", "skill://a"]
        );
        assert_eq!("skill://a".parse::<ResourceUri>().unwrap().ancestors().count(), 0);
    }
}
