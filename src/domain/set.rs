//! Resource sets: the complete list of a skill's files, and the id that an approval binds.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;
use sha2::Sha256;
use thiserror::Error;

use super::digest::Digest;
use super::digest::hex;
use super::digest::unhex;
use super::json::Json;
use super::text::serde_as_text;
use super::uri::ResourceUri;
use super::uri::SkillUri;

/// One file of a skill as its entry promises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Where it is, as the origin spells it.
    pub uri: ResourceUri,
    /// The digest of its raw bytes (S-24).
    pub digest: Digest,
    /// The length of the same bytes (S-23).
    pub size: u64,
}

/// Every file of a skill, once, in the entry's order (S-21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSet {
    resources: Vec<Resource>,
    /// Places in `resources` in the byte order of the URIs.
    by_uri: Vec<usize>,
}

impl ResourceSet {
    /// Only an entry's checks make one.
    pub(super) fn new(resources: Vec<Resource>) -> Self {
        let mut by_uri: Vec<_> = (0..resources.len()).collect();
        by_uri.sort_by_key(|at| resources.get(*at).map(|resource| resource.uri.as_str()));
        Self { resources, by_uri }
    }

    /// The file at `uri`, compared byte for byte.
    pub fn get(&self, uri: &str) -> Option<&Resource> {
        let uri_at = |at: &usize| self.resources.get(*at).map_or("", |resource| resource.uri.as_str());
        let found = self.by_uri.binary_search_by(|at| uri_at(at).cmp(uri)).ok()?;
        self.resources.get(*self.by_uri.get(found)?)
    }

    /// The files in the entry's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Resource> {
        self.resources.iter()
    }

    /// The files in the byte order of their URIs.
    pub fn sorted(&self) -> impl Iterator<Item = &Resource> {
        self.by_uri.iter().filter_map(|at| self.resources.get(*at))
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Never true: a set has its `SKILL.md`.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The sum of the files' sizes in bytes.
    pub fn bytes(&self) -> u64 {
        self.resources
            .iter()
            .map(|resource| resource.size)
            .fold(0, u64::saturating_add)
    }
}

/// What an approval binds: a digest over a skill's URI, files and frontmatter (design §7; H-58).
///
/// SHA-256 over these, in this order, where a *text* is its length in bytes as eight big-endian bytes and then its UTF-8:
///
/// 1. the 27 bytes `portcullis resource set v1\n`;
/// 2. the skill's URI, a text;
/// 3. the number of files, eight big-endian bytes;
/// 4. for each file, in the byte order of the URIs (a listing's order is no property of the set): its URI, a text; the
///    32 bytes of its digest; its size, eight big-endian bytes;
/// 5. the frontmatter as canonical JSON ([`Json::canonical`]: keys sorted, numbers as written), a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId([u8; 32]);

/// A text that is not `set1:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not set1: and 64 lower-case hexadecimal digits")]
pub struct InvalidSetId(pub String);

impl SetId {
    /// Computes the id of a skill's set.
    pub fn of(skill: &SkillUri, set: &ResourceSet, frontmatter: &Json) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"portcullis resource set v1\n");
        let text = |hash: &mut Sha256, text: &str| {
            hash.update(length(text.len()));
            hash.update(text);
        };
        text(&mut hash, skill.as_str());
        hash.update(length(set.len()));
        for resource in set.sorted() {
            text(&mut hash, resource.uri.as_str());
            hash.update(resource.digest.as_bytes());
            hash.update(resource.size.to_be_bytes());
        }
        text(&mut hash, &frontmatter.canonical());
        Self(hash.finalize().into())
    }

    /// The 32 raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits without the prefix, as in file names.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

fn length(bytes: usize) -> [u8; 8] {
    (bytes as u64).to_be_bytes()
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set1:{}", self.hex())
    }
}

impl fmt::Debug for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SetId {
    type Err = InvalidSetId;

    fn from_str(text: &str) -> Result<Self, InvalidSetId> {
        text.strip_prefix("set1:")
            .and_then(unhex)
            .map(Self)
            .ok_or_else(|| InvalidSetId(text.to_owned()))
    }
}

serde_as_text!(SetId);

#[cfg(test)]
mod tests {
    use super::*;

    fn set(files: &[(&str, &[u8])]) -> ResourceSet {
        let resource = |(uri, bytes): &(&str, &[u8])| Resource {
            uri: uri.parse().unwrap(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
        };
        ResourceSet::new(files.iter().map(resource).collect())
    }

    fn id(files: &[(&str, &[u8])], frontmatter: &str) -> SetId {
        SetId::of(
            &"skill://a/SKILL.md".parse().unwrap(),
            &set(files),
            &Json::parse(frontmatter).unwrap(),
        )
    }

    #[test]
    fn the_id_of_a_known_set_never_changes() {
        let files: &[(&str, &[u8])] = &[("skill://a/SKILL.md", b"# A"), ("skill://a/b.txt", b"")];
        let id = id(files, r#"{"name":"a","description":"d","version":1.10}"#);
        assert_eq!(
            id.to_string(),
            "set1:91cec1e48f2bd03be8e7dc58cf9be8f9d61f168417db95d8ca1e97b092e91a39"
        );
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn order_is_no_property_of_a_set_but_everything_else_is() {
        let a: (&str, &[u8]) = ("skill://a/SKILL.md", b"1");
        let b: (&str, &[u8]) = ("skill://a/b", b"2");
        let base = id(&[a, b], r#"{"name":"a","description":"d"}"#);
        assert_eq!(base, id(&[b, a], r#"{"description":"d","name":"a"}"#));
        for other in [
            id(&[a], r#"{"name":"a","description":"d"}"#),
            id(&[a, ("skill://a/b", b"3")], r#"{"name":"a","description":"d"}"#),
            id(&[a, ("skill://a/c", b"2")], r#"{"name":"a","description":"d"}"#),
            id(&[a, b], r#"{"name":"a","description":"D"}"#),
            id(&[a, b], r#"{"name":"a","description":"d","v":1.0}"#),
        ] {
            assert_ne!(base, other);
        }
        assert_ne!(id(&[a], r#"{"v":1.0}"#), id(&[a], r#"{"v":1.00}"#));
    }
}
