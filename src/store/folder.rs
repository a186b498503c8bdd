//! Names of folders in `content/`: a skill's URI, percent-encoded so that it can be read off the path (H-9).
//!
//! Imports `domain`. Every name is one path component of at most [`MAX_NAME_BYTES`], never `.`, `..` or `SKILL.md`, and no
//! two URIs have the same one.

use std::fmt::Write as _;

use crate::domain::Digest;
use crate::domain::SkillUri;

/// Bytes of the longest name; file systems take 255.
const MAX_NAME_BYTES: usize = 200;

/// What the name of a folder begins with whose URI is too long for a name and lies in its [`SIDECAR`].
const HASHED: &str = "sha256-";

/// The file with the URI in a folder whose name is a hash.
pub(super) const SIDECAR: &str = "URI";

/// The name of a skill's folder.
pub(super) fn name(uri: &SkillUri) -> String {
    let encoded = encode(uri.as_str());
    if encoded.len() <= MAX_NAME_BYTES {
        encoded
    } else {
        format!("{HASHED}{}", Digest::of(uri.as_str().as_bytes()).hex())
    }
}

/// Says whether a name is a hash, so that the URI lies in the sidecar.
pub(super) fn is_hashed(name: &str) -> bool {
    name.strip_prefix(HASHED)
        .is_some_and(|hex| Digest::from_hex(hex).is_ok())
}

/// The URI whose folder has this name; `sidecar` is what its sidecar says.
pub(super) fn uri(name_of: &str, sidecar: Option<&str>) -> Option<SkillUri> {
    let text = if is_hashed(name_of) {
        sidecar?.to_owned()
    } else {
        decode(name_of)?
    };
    let uri: SkillUri = text.parse().ok()?;
    (name(&uri) == name_of).then_some(uri)
}

/// Percent-encodes all but the unreserved characters of RFC 3986. A URI has a `:`, so that no result is a plain word.
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _infallible = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_uri_can_be_read_off_its_folder() {
        let skill: SkillUri = "skill://acme/café 1/SKILL.md".parse().unwrap();
        assert_eq!(name(&skill), "skill%3A%2F%2Facme%2Fcaf%C3%A9%201%2FSKILL.md");
        assert_eq!(uri(&name(&skill), None), Some(skill));
    }

    #[test]
    fn another_spelling_of_a_name_is_a_stranger() {
        for stranger in [
            "skill%3a%2F%2Facme%2Fx%2FSKILL.md",
            "skill%3A%2F%2Facme%2F%78%2FSKILL.md",
            "%+1",
            "%",
            "SKILL.md",
            "sha256-00",
        ] {
            assert_eq!(uri(stranger, None), None, "{stranger}");
        }
        assert_eq!(uri("sha256-00", Some("skill://a/SKILL.md")), None);
    }

    proptest! {
        #[test]
        fn every_uri_has_one_legal_name_and_comes_back(path in "[a-zA-Z0-9 .~%é_\u{10FFFF}-]{1,120}(/[a-z%._~-]{1,90}){0,3}") {
            let Ok(skill) = format!("skill://{path}/x/SKILL.md").parse::<SkillUri>() else {
                return Ok(());
            };
            let name = name(&skill);
            prop_assert!(name.len() <= MAX_NAME_BYTES);
            prop_assert!(!name.contains(['/', '\0', '\\']) && !name.starts_with('.') && name != "SKILL.md");
            prop_assert_eq!(uri(&name, Some(skill.as_str())), Some(skill.clone()));
            prop_assert_eq!(uri(&name, None).is_some(), !is_hashed(&name));
        }
    }
}
