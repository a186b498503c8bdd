//! Which address stands behind a label.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;
use sha2::Sha256;
use thiserror::Error;

use super::digest::hex;
use super::digest::unhex;
use super::label::Label;
use super::text::serde_as_text;
use super::uri::SkillUri;

/// What an approval means by "this origin": a digest of its address (URL or folder) as text, without secrets.
///
/// A label that is pointed elsewhere has another fingerprint, and its approvals do not hold there (design §7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// A text that is not `origin1:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not origin1: and 64 lower-case hexadecimal digits")]
pub struct InvalidFingerprint(pub String);

impl Fingerprint {
    /// The fingerprint of an address.
    pub fn of(address: &str) -> Self {
        Self(
            Sha256::new()
                .chain_update(b"portcullis origin v1\n")
                .chain_update(address)
                .finalize()
                .into(),
        )
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "origin1:{}", hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        text.strip_prefix("origin1:")
            .and_then(unhex)
            .map(Self)
            .ok_or_else(|| InvalidFingerprint(text.to_owned()))
    }
}

serde_as_text!(Fingerprint);

/// A skill's whole identity: the label we gave its origin, and its URI there (H-7, H-8).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SkillKey {
    /// The origin's label.
    pub label: Label,
    /// The skill's URI as the origin spells it.
    pub uri: SkillUri,
}

impl fmt::Display for SkillKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.uri, self.label)
    }
}
