//! Names in a folder: which are no part of any skill, which are one to some file systems, and how they stand in a URI.

use unicode_normalization::UnicodeNormalization as _;

/// Names that are no part of a skill wherever they stand: they are not looked into, listed, hashed or read. `*` is any text.
///
/// Hidden files and folders (`.git` and `.DS_Store` among them), what editors put beside the file that is being edited,
/// and what tools make from sources or fetch.
pub(super) const IGNORED: [&str; 9] = [
    ".*",
    "*~",
    "~$*",
    "#*#",
    "*.swp",
    "*.swo",
    "__pycache__",
    "node_modules",
    "Thumbs.db",
];

/// Says whether a name is one of [`IGNORED`].
pub(super) fn is_ignored(name: &str) -> bool {
    IGNORED.iter().any(|pattern| match pattern.split_once('*') {
        None => name == *pattern,
        Some((before, after)) => {
            name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
        }
    })
}

/// What a name is to a file system that ignores case and how accents are written.
pub(super) fn folded(name: &str) -> String {
    name.nfd()
        .collect::<String>()
        .to_uppercase()
        .to_lowercase()
        .nfc()
        .collect()
}

/// The URI of what lies at `path`, a path relative to the root: everything but unreserved characters is escaped (RFC 3986
/// §2.1, §2.3).
pub(super) fn uri_of(path: &str) -> String {
    let mut uri = "skill://".to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_author_means_is_ignored() {
        // case K5.
        for name in [
            ".git",
            ".DS_Store",
            ".",
            "notes.md~",
            "~$notes.docx",
            "#notes.md#",
            "notes.md.swp",
            "__pycache__",
            "node_modules",
        ] {
            assert!(is_ignored(name), "{name}");
        }
        for name in ["notes.md", "swp", "#", "#1.md", "~notes", "pycache", "a.b", "SKILL.md"] {
            assert!(!is_ignored(name), "{name}");
        }
    }

    #[test]
    fn names_that_some_file_systems_take_for_one_fold_to_one() {
        for (one, other) in [
            ("SKILL.md", "skill.md"),
            ("caf\u{e9}", "CAFE\u{301}"),
            ("STRASSE", "straße"),
        ] {
            assert_eq!(folded(one), folded(other));
        }
        assert_ne!(folded("cafe"), folded("café"));
    }

    #[test]
    fn a_uri_escapes_all_but_unreserved_characters() {
        assert_eq!(uri_of("demo/a b%é.md"), "skill://demo/a%20b%25%C3%A9.md");
        assert_eq!(uri_of("demo/a-b_c~1.md"), "skill://demo/a-b_c~1.md");
    }
}
