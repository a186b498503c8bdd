//! Why a file's frontmatter is not its entry's.

use thiserror::Error;

use crate::domain::limits::MAX_FRONTMATTER_BYTES;
use crate::domain::limits::MAX_FRONTMATTER_DEPTH;
use crate::domain::limits::MAX_FRONTMATTER_EXPANDED_BYTES;
use crate::domain::limits::MAX_FRONTMATTER_NODES;

/// Why the frontmatter of a file cannot be read, or does not equal its entry's (H-32, H-33).
///
/// Lines and columns count from 1 in the file. Texts that come from the file or the entry are bounded in length, with
/// unprintable characters escaped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrontmatterMismatch {
    /// The first line is not `---` (S-6).
    #[error("the file does not begin with a line ---")]
    NoOpeningFence,
    /// No line `---` ends the frontmatter.
    #[error("no line --- closes the frontmatter")]
    NotClosed,
    /// There are more than [`MAX_FRONTMATTER_BYTES`] before the closing line.
    #[error("the frontmatter has over {MAX_FRONTMATTER_BYTES} bytes")]
    TooLarge,
    /// It is not UTF-8.
    #[error("the frontmatter is not UTF-8 in line {line}")]
    NotUtf8 {
        /// Where the first wrong byte stands.
        line: usize,
    },
    /// It has a control character, which YAML allows nowhere.
    #[error("the frontmatter has a control character in line {line}")]
    ControlCharacter {
        /// Where the first one stands.
        line: usize,
    },
    /// It is not YAML.
    #[error(
        "the frontmatter is not valid YAML, line {line} column {column}{}: {problem}",
        field.as_ref().map(|field| format!(", field {field} (quote the value?)")).unwrap_or_default()
    )]
    InvalidYaml {
        /// Where the problem was seen.
        line: usize,
        /// Where in that line, in characters.
        column: usize,
        /// The key above or in that line, a guess.
        field: Option<String>,
        /// What the parser says.
        problem: String,
    },
    /// A mapping has the same key twice, so that parsers disagree about its value.
    #[error("the key {key} stands a second time in line {line}")]
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it stands again.
        line: usize,
    },
    /// A key is no string in YAML 1.2, and so has no one form in JSON.
    #[error("a key in line {line} is not a string")]
    NonStringKey {
        /// Where it stands.
        line: usize,
    },
    /// A tag is none of YAML's core ones, or stands at a value of another kind.
    #[error("the tag {tag} in line {line} has no meaning in frontmatter")]
    UnknownTag {
        /// The tag.
        tag: String,
        /// Where it stands.
        line: usize,
    },
    /// There is more than one YAML document between the fences.
    #[error("a second YAML document begins in line {line}")]
    SeveralDocuments {
        /// Where it begins.
        line: usize,
    },
    /// It is made to grow.
    #[error("the frontmatter has {bound}, seen in line {line}")]
    Bomb {
        /// The bound that it exceeds.
        bound: FrontmatterBound,
        /// Where that was seen.
        line: usize,
    },
    /// It is a list or a single value.
    #[error("the frontmatter is not a mapping")]
    NotAMapping,
    /// It has a merge key, which parsers read in two ways; only a strict policy refuses that.
    #[error("the merge key << in line {line} is read in two ways")]
    MergeKey {
        /// Where the first one stands.
        line: usize,
    },
    /// A value has no form in JSON.
    #[error("the value {value} in line {line} has no form in JSON")]
    Unrepresentable {
        /// The value as written.
        value: String,
        /// Where it stands.
        line: usize,
    },
    /// A field is not what the entry says.
    #[error(
        "the field {field} {}: {entry} in the entry, {file} in line {line} of the file",
        if *type_only { "is rendered differently" } else { "differs" }
    )]
    Differs {
        /// Path of the deepest field that differs, as in `metadata.version` or `authors[0]`.
        field: String,
        /// The entry's value.
        entry: String,
        /// The file's value, unquoted where the file does not quote it.
        file: String,
        /// Line of the value in the file, or of the mapping that lacks it.
        line: usize,
        /// Whether only the type differs: some parser reads the file's text as the entry's value.
        type_only: bool,
    },
}

/// A bound on frontmatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrontmatterBound {
    /// [`MAX_FRONTMATTER_DEPTH`].
    #[error("over {MAX_FRONTMATTER_DEPTH} levels of nesting")]
    Depth,
    /// [`MAX_FRONTMATTER_NODES`].
    #[error("over {MAX_FRONTMATTER_NODES} values, aliases expanded")]
    Nodes,
    /// [`MAX_FRONTMATTER_EXPANDED_BYTES`].
    #[error("over {MAX_FRONTMATTER_EXPANDED_BYTES} bytes, aliases expanded")]
    Bytes,
    /// An alias stands inside what it names, and so never ends.
    #[error("an alias inside of what it names")]
    Recursion,
}

/// Characters of an outsider's value that a message shows.
const SHOWN_CHARS: usize = 100;

/// Shows `text` from character `from` on, bounded, with unprintable characters escaped.
pub(super) fn shown(text: &str, from: usize) -> String {
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    let mut rest = text.chars().skip(from);
    for char in rest.by_ref().take(SHOWN_CHARS) {
        match char {
            '"' | '\'' | '\\' => shown.push(char),
            _ => shown.extend(char.escape_debug()),
        }
    }
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}
