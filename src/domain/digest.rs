//! SHA-256 digests as the extension writes them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::text::serde_as_text;

/// `sha256:` and 64 lower-case hexadecimal digits, over raw bytes (S-24).
///
/// ```
/// use portcullis::domain::Digest;
/// let digest = Digest::of(b"");
/// assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is no digest: not `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not sha256: and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest(pub String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest that has these raw bytes.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of what went into `hash`.
    pub(super) fn from_hash(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// The 32 raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits without the algorithm, as in file names of the content folder.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// Reads the 64 lower-case hexadecimal digits of [`Digest::hex`].
    ///
    /// # Errors
    ///
    /// [`InvalidDigest`] for any other text.
    pub fn from_hex(text: &str) -> Result<Self, InvalidDigest> {
        unhex(text).map(Self).ok_or_else(|| InvalidDigest(text.to_owned()))
    }
}

/// What a nibble is written as.
const DIGITS: [u8; 16] = *b"0123456789abcdef";

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 0xf)]);
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.extend([digit(byte >> 4), digit(*byte)]);
    }
    text
}

/// The bytes of exactly 64 lower-case hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (nibble(high)? << 4) | nibble(low)?;
    }
    Some(bytes)
}

/// The value of one lower-case hexadecimal digit.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        text.strip_prefix("sha256:")
            .and_then(unhex)
            .map(Self)
            .ok_or_else(|| InvalidDigest(text.to_owned()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

serde_as_text!(Digest);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_lower_case_form_is_a_digest() {
        let good = Digest::of(b"x").to_string();
        for bad in [
            good.to_uppercase(),
            good.replace("sha256:", "SHA256:"),
            good.replace("sha256:", "sha512:"),
            good.replace("sha256:", ""),
            format!("{good}0"),
            format!(" {good}"),
            String::new(),
        ] {
            assert_eq!(bad.parse::<Digest>(), Err(InvalidDigest(bad)));
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(bytes in any::<[u8; 32]>()) {
            let digest = Digest(bytes);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
            prop_assert_eq!(Digest::from_hex(&digest.hex()), Ok(digest));
        }

        #[test]
        fn whatever_parses_prints_as_it_was(text in "(sha256:)?[0-9a-fA-F]{60,66}") {
            if let Ok(digest) = text.parse::<Digest>() {
                prop_assert_eq!(digest.to_string(), text);
            }
        }
    }
}
