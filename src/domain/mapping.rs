//! The merged view's names: every URI carries its origin's label, reversibly (design §3; H-7, H-8, H-13).
//!
//! Encoding is a pure function of (kind, label, URI). Decoding parses, encodes again and accepts only a byte-equal
//! result, so that nothing has two names.

use thiserror::Error;

use super::digest::Digest;
use super::label::Label;
use super::uri::InvalidUri;
use super::uri::ResourceUri;

/// The scheme of every skill URI in the merged view (S-7).
const SKILL_SCHEME: &str = "skill";

/// A URI of the merged view, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A file or directory of a skill.
    Skill(Label, ResourceUri),
    /// A resource or template that passes through.
    Passed(Label, String),
}

/// Why a text is no URI of the merged view.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotMerged {
    /// It begins neither with `skill://` nor with a label and `+`.
    #[error("it begins neither with skill://<label>/ nor with <label>+")]
    NoLabel,
    /// What stands where a label belongs is none.
    #[error("{0:?} is not an origin's label")]
    Label(String),
    /// Nothing follows the label.
    #[error("nothing follows the origin's label")]
    Nothing,
    /// What follows the label is no URI of a skill.
    #[error("what follows the label {0}")]
    Uri(#[from] InvalidUri),
    /// What follows the label has no literal scheme.
    #[error("what follows the label has no scheme of its own")]
    NoScheme,
    /// It decodes, but that resource has another name.
    #[error("its name here is {0}")]
    OtherName(String),
}

/// The merged name of a skill's file or directory.
///
/// | upstream | merged |
/// | --- | --- |
/// | `skill://A/p` | `skill://<label>/A/p` |
/// | `skill://~A/p` | `skill://<label>/~skill/~A/p` |
/// | `S://A/p` | `skill://<label>/~S/A/p` |
pub fn merge(label: &Label, uri: &ResourceUri) -> String {
    merge_parts(label, uri.scheme(), uri.path())
}

fn merge_parts(label: &Label, scheme: &str, path: &str) -> String {
    if scheme == SKILL_SCHEME && !path.starts_with('~') {
        format!("{SKILL_SCHEME}://{label}/{path}")
    } else {
        format!("{SKILL_SCHEME}://{label}/~{scheme}/{path}")
    }
}

/// The merged name `<label>+S:rest` of a resource or template that passes through.
///
/// # Errors
///
/// [`NotMerged::NoScheme`] when `uri` does not begin with a literal scheme (RFC 3986 §3.1), as a template may not.
pub fn merge_passed(label: &Label, uri: &str) -> Result<String, NotMerged> {
    if has_scheme(uri) {
        Ok(format!("{label}+{uri}"))
    } else {
        Err(NotMerged::NoScheme)
    }
}

/// The longest name that models' providers take.
const MAX_NAME_CHARS: usize = 64;

/// Hexadecimal digits of the hash in a shortened name.
const HASH_DIGITS: usize = 8;

/// The merged name `<label>__n` of a tool or prompt that passes through: at most 64 letters, digits, `_` and `-`. A name
/// that is too long for that, or has other characters, is cut and carries a hash of itself.
pub fn merge_name(label: &Label, name: &str) -> String {
    let plain = format!("{label}__{name}");
    if plain.len() <= MAX_NAME_CHARS && name.bytes().all(is_plain) && !looks_shortened(name) {
        return plain;
    }
    let hash: String = Digest::of(name.as_bytes()).hex().chars().take(HASH_DIGITS).collect();
    let plain_character = |c: char| if c.is_ascii() && is_plain(c as u8) { c } else { '_' };
    let room = MAX_NAME_CHARS - label.as_str().len() - "__".len() - "_".len() - HASH_DIGITS;
    let cut: String = name.chars().map(plain_character).take(room).collect();
    format!("{label}__{cut}_{hash}")
}

/// The label in a merged name, and what follows it: the name, or what was left of it.
pub fn split_name(merged: &str) -> Option<(Label, &str)> {
    let (label, name) = merged.split_once("__")?;
    Some((label.parse().ok()?, name))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Says whether a name ends as shortened ones do: such a name is shortened too, so that no two share one.
fn looks_shortened(name: &str) -> bool {
    name.rsplit_once('_').is_some_and(|(_, end)| {
        end.len() == HASH_DIGITS && end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Takes a URI of the merged view apart.
///
/// # Errors
///
/// [`NotMerged`] for every text that no encoding gives.
pub fn split(text: &str) -> Result<Merged, NotMerged> {
    if let Some(rest) = text.strip_prefix("skill://") {
        let (label, path) = rest.split_once('/').ok_or(NotMerged::Nothing)?;
        let label = parse_label(label)?;
        let uri = unmerge(path)?;
        let name = merge(&label, &uri);
        return if name == text {
            Ok(Merged::Skill(label, uri))
        } else {
            Err(NotMerged::OtherName(name))
        };
    }
    let (label, uri) = text.split_once('+').ok_or(NotMerged::NoLabel)?;
    let label = label.parse().map_err(|_| NotMerged::NoLabel)?;
    if has_scheme(uri) {
        Ok(Merged::Passed(label, uri.to_owned()))
    } else {
        Err(NotMerged::NoScheme)
    }
}

fn parse_label(text: &str) -> Result<Label, NotMerged> {
    text.parse().map_err(|_| NotMerged::Label(text.to_owned()))
}

/// The upstream URI of what follows the label.
fn unmerge(path: &str) -> Result<ResourceUri, NotMerged> {
    let upstream = match path.strip_prefix('~') {
        Some(marked) => {
            let (scheme, path) = marked.split_once('/').ok_or(NotMerged::Nothing)?;
            format!("{scheme}://{path}")
        }
        None => format!("{SKILL_SCHEME}://{path}"),
    };
    Ok(upstream.parse()?)
}

/// Says whether `uri` begins with a scheme and a colon (RFC 3986 §3.1, any case).
fn has_scheme(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    #[test]
    fn the_table_of_names() {
        // case A8: hosts keep these names, so that another table would end their approvals.
        for (upstream, merged) in [
            ("skill://onboarding/SKILL.md", "skill://it/onboarding/SKILL.md"),
            ("skill://acme/leave/SKILL.md", "skill://it/acme/leave/SKILL.md"),
            ("skill://~A/p/SKILL.md", "skill://it/~skill/~A/p/SKILL.md"),
            (
                "repo://team/x/deploy/SKILL.md",
                "skill://it/~repo/team/x/deploy/SKILL.md",
            ),
            ("git+ssh://host:22/x/SKILL.md", "skill://it/~git+ssh/host:22/x/SKILL.md"),
            ("skill://café/100%/SKILL.md", "skill://it/café/100%/SKILL.md"),
        ] {
            let uri: ResourceUri = upstream.parse().unwrap();
            assert_eq!(merge(&label("it"), &uri), merged);
            assert_eq!(split(merged), Ok(Merged::Skill(label("it"), uri)));
        }
        assert_eq!(
            merge_passed(&label("it"), "https://x/y"),
            Ok("it+https://x/y".to_owned())
        );
        assert_eq!(
            split("it+db:{table}/{id}"),
            Ok(Merged::Passed(label("it"), "db:{table}/{id}".to_owned()))
        );
        assert_eq!(
            split("it+git+ssh://x"),
            Ok(Merged::Passed(label("it"), "git+ssh://x".to_owned()))
        );
    }

    #[test]
    fn a_second_spelling_is_refused_with_the_first() {
        let other = |name: &str| Err(NotMerged::OtherName(name.to_owned()));
        assert_eq!(split("skill://it/~skill/A/SKILL.md"), other("skill://it/A/SKILL.md"));
        for bad in [
            "skill://it",
            "skill://it/",
            "skill://It/a/SKILL.md",
            "SKILL://it/a/SKILL.md",
            "skill://it//a",
            "skill://it/~repo",
            "skill://it/~/a",
            "skill://it/~Repo/a/SKILL.md",
            "skill://it/a/..",
            "skill://it/a%2fb",
            "skill://git/a/SKILL.md",
            "skill://it:80/a",
            "{scheme}://it/a",
            "it+{scheme}:x",
            "it+x",
            "+skill://a",
            "",
        ] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn passed_templates_need_a_literal_scheme() {
        assert_eq!(merge_passed(&label("it"), "{scheme}://x"), Err(NotMerged::NoScheme));
        assert_eq!(merge_passed(&label("it"), "x"), Err(NotMerged::NoScheme));
    }

    #[test]
    fn names_of_tools_fit_and_differ() {
        // case O2
        let long = "delete_everything_that_was_ever_stored_in_the_archive_of_the_company";
        for (name, merged) in [("search", "it__search"), ("a__b", "it__a__b")] {
            assert_eq!(merge_name(&label("it"), name), merged);
            assert_eq!(split_name(merged), Some((label("it"), name)));
        }
        let odd = merge_name(&label("it"), "a.b");
        assert!(
            odd.starts_with("it__a_b_") && odd.len() == "it__a_b_".len() + HASH_DIGITS,
            "{odd}"
        );
        let made = merge_name(&label("it"), long);
        assert_eq!(made.len(), 64);
        assert_ne!(made, merge_name(&label("it"), &format!("{long}s")));
        // What looks like a shortened name is none.
        let twin = made.strip_prefix("it__").unwrap();
        assert_ne!(merge_name(&label("it"), twin), made);
    }

    fn any_label() -> impl Strategy<Value = Label> {
        "[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,4}){0,2}".prop_filter_map("reserved", |text| text.parse().ok())
    }

    fn any_uri() -> impl Strategy<Value = ResourceUri> {
        "(skill|repo|git[+]ssh|s1)://(~?[A-Za-z0-9:._~é%{} -]{1,6}/){0,3}[A-Za-z0-9~.é-]{1,6}"
            .prop_filter_map("no resource URI", |text| text.parse().ok())
    }

    proptest! {
        #[test]
        fn names_fit_and_say_whose_they_are(label in any_label(), names in ("\\PC{0,80}", "\\PC{0,80}")) {
            let merged = merge_name(&label, &names.0);
            prop_assert!(merged.len() <= MAX_NAME_CHARS.max(label.as_str().len() + 2) && merged.bytes().all(is_plain));
            prop_assert_eq!(split_name(&merged).map(|(label, _)| label), Some(label.clone()));
            prop_assert_eq!(merged == merge_name(&label, &names.1), names.0 == names.1);
        }

        #[test]
        fn decoding_undoes_encoding(label in any_label(), uri in any_uri()) {
            prop_assert_eq!(split(&merge(&label, &uri)), Ok(Merged::Skill(label, uri)));
        }

        #[test]
        fn two_things_never_share_a_name(a in (any_label(), any_uri()), b in (any_label(), any_uri())) {
            prop_assert_eq!(merge(&a.0, &a.1) == merge(&b.0, &b.1), a == b);
        }

        #[test]
        fn whatever_decodes_encodes_to_itself(text in "(skill://|[a-z]{1,4}[+])[a-z~/:%.A-Z+]{0,24}") {
            match split(&text) {
                Ok(Merged::Skill(label, uri)) => prop_assert_eq!(merge(&label, &uri), text),
                Ok(Merged::Passed(label, uri)) => prop_assert_eq!(merge_passed(&label, &uri), Ok(text)),
                Err(_) => {}
            }
        }
    }
}
