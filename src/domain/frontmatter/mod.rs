//! Frontmatter: whether a `SKILL.md` says what its entry says (H-32, H-33; design §8).
//!
//! Imports JSON and limits. Pure, and total: no input makes it panic, loop or grow beyond the bounds in
//! [`limits`](super::limits).
//!
//! Honest servers read YAML differently. So the entry must equal **one reading** of the file **as a whole**, up to a closed
//! list of tolerances; all that was needed beside YAML 1.2's core schema is in the [`FrontmatterMatch`], for a finding.
//! Within a reading, numbers compare by value, objects without order, strings by code point.
//!
//! Refused in every reading are duplicate keys, keys that are no strings in YAML 1.2, tags outside YAML's core, several
//! documents, and bombs.

mod block;
mod compare;
mod json;
mod mismatch;
mod number;
mod scalar;
mod timestamp;
mod tree;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use super::Json;

use compare::Outcome;
use compare::View;
use tree::Document;

pub use mismatch::FrontmatterBound;
pub use mismatch::FrontmatterMismatch;

/// How strictly frontmatter is compared (`frontmatter` in `proxy.toml`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FrontmatterPolicy {
    /// Every [`Reading`] and every [`Tolerance`].
    #[default]
    Readings,
    /// YAML 1.2's core schema alone.
    Strict,
}

/// A way to give a file's scalars their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reading {
    /// YAML 1.2's core schema: what we read by default.
    Core12,
    /// YAML 1.1's types.
    Yaml11(Dialect),
    /// Every scalar a string, as the format's reference library reads it.
    Strings,
}

/// A parser's YAML 1.1, and how its language prints timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// PyYAML: `yes` and `on` are booleans (`y` is not), `012` is 10, `10:00` is 600, timestamps as Python's `isoformat`
    /// prints them (`2026-03-05`). A key `on` becomes `true`.
    PyYaml,
    /// The same types with timestamps as JavaScript's `toISOString` prints them (`2026-03-05T00:00:00.000Z`).
    JavaScript,
    /// js-yaml 3, which gray-matter uses: as [`Dialect::JavaScript`], but `yes` and `on` are strings and `1e3` a number.
    JsYaml3,
    /// js-yaml 4: of YAML 1.1 only timestamps, `_` in numbers and `0b` are left.
    JsYaml4,
}

/// A difference that is let through with a finding; the list is closed (design §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tolerance {
    /// The last value is a block scalar, and the entry lacks its final newline (fastmcp, nimblebrain: they cut the newline
    /// off with the closing fence).
    FinalNewlineOfLastBlockScalar,
    /// `.inf` or `.nan` is `null` (olaservo, rmcp: JSON has no such number).
    NonFiniteAsNull,
    /// An integer beyond 2^53 went through a double (the TypeScript SDK, olaservo).
    IntegerThroughDouble,
    /// `<<` is merged (nimblebrain, agentskills).
    MergeKeyMerged,
    /// `<<` is a key like any other (olaservo, rmcp).
    MergeKeyLiteral,
    /// A field is `null` on one side and absent on the other (the extension's conformance suite takes both for equal).
    NullAgainstAbsent,
}

/// How a file's frontmatter equals its entry's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontmatterMatch {
    /// The reading of the file as a whole.
    pub reading: Reading,
    /// What else was needed.
    pub tolerances: BTreeSet<Tolerance>,
}

/// Compares the frontmatter of `file`, the bytes of a `SKILL.md`, with `entry`, the listed frontmatter (H-32).
///
/// # Errors
///
/// [`FrontmatterMismatch`] when the file's frontmatter cannot be read or differs in every reading that `policy` allows
/// (H-33). The difference told is the one under YAML 1.2's core schema.
pub fn compare(file: &[u8], entry: &Json, policy: FrontmatterPolicy) -> Result<FrontmatterMatch, FrontmatterMismatch> {
    let document = yaml::parse(block::find(file)?)?;
    match policy {
        FrontmatterPolicy::Strict => strictly(&document, entry),
        FrontmatterPolicy::Readings => leniently(&document, entry),
    }
}

/// Reads the frontmatter of `file` under YAML 1.2's core schema, as the entry of an honest server would have it. Numbers
/// keep their text where JSON has the same; `.inf` and `.nan` become `null`, and `<<` is a key like any other.
///
/// # Errors
///
/// [`FrontmatterMismatch`] when it cannot be read.
pub fn read(file: &[u8]) -> Result<Json, FrontmatterMismatch> {
    json::json(&yaml::parse(block::find(file)?)?.root)
}

/// What follows the frontmatter of `file`, without the blank lines around it; the whole text where there is none.
pub fn body(file: &str) -> &str {
    block::body(file)
}

/// The core reading without tolerances; a merge key has no one reading, and is refused.
fn strictly(document: &Document, entry: &Json) -> Result<FrontmatterMatch, FrontmatterMismatch> {
    if let Some(line) = document.merge_key {
        return Err(FrontmatterMismatch::MergeKey { line });
    }
    match compare::compare(
        document,
        entry,
        View {
            reading: Reading::Core12,
            merging: false,
            tolerant: false,
        },
    ) {
        Outcome::Equal(tolerances) => Ok(FrontmatterMatch {
            reading: Reading::Core12,
            tolerances,
        }),
        Outcome::Differs(_, mismatch) => Err(mismatch),
        // Not met: in the core reading every key is a string, and none stands twice.
        Outcome::NoSuchReading => Err(FrontmatterMismatch::NotAMapping),
    }
}

/// The first reading that equals the entry, core first; else the core reading's difference, where `<<` is taken the way
/// that leaves fewer of them.
fn leniently(document: &Document, entry: &Json) -> Result<FrontmatterMatch, FrontmatterMismatch> {
    let ways: &[Option<Tolerance>] = match document.merge_key {
        None => &[None],
        Some(_) => &[Some(Tolerance::MergeKeyLiteral), Some(Tolerance::MergeKeyMerged)],
    };
    let mut told: Option<(usize, FrontmatterMismatch)> = None;
    for reading in Reading::ALL {
        for &way in ways {
            let view = View {
                reading,
                merging: way == Some(Tolerance::MergeKeyMerged),
                tolerant: true,
            };
            match compare::compare(document, entry, view) {
                Outcome::Equal(mut tolerances) => {
                    tolerances.extend(way);
                    return Ok(FrontmatterMatch { reading, tolerances });
                }
                Outcome::Differs(count, mismatch) if reading == Reading::Core12 => {
                    if told.as_ref().is_none_or(|&(fewest, _)| count < fewest) {
                        told = Some((count, mismatch));
                    }
                }
                Outcome::Differs(..) | Outcome::NoSuchReading => {}
            }
        }
    }
    // The core reading with literal merge keys always exists: its keys were checked to be strings.
    Err(told.map_or(FrontmatterMismatch::NotAMapping, |(_, mismatch)| mismatch))
}

impl Reading {
    /// All of them, in the order in which they are tried.
    pub(crate) const ALL: [Self; 6] = [
        Self::Core12,
        Self::Yaml11(Dialect::PyYaml),
        Self::Yaml11(Dialect::JavaScript),
        Self::Yaml11(Dialect::JsYaml3),
        Self::Yaml11(Dialect::JsYaml4),
        Self::Strings,
    ];
}

impl FrontmatterMatch {
    /// Whether YAML 1.2's core schema was enough, so that there is nothing to show a reviewer.
    pub fn is_plain(&self) -> bool {
        self.reading == Reading::Core12 && self.tolerances.is_empty()
    }
}

impl fmt::Display for FrontmatterMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the frontmatter equals the entry as {}", self.reading)?;
        for (at, tolerance) in self.tolerances.iter().enumerate() {
            write!(f, "{} {tolerance}", if at == 0 { ", but that" } else { " and" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Core12 => "YAML 1.2",
            Self::Yaml11(Dialect::PyYaml) => "YAML 1.1 with Python's timestamps",
            Self::Yaml11(Dialect::JavaScript) => "YAML 1.1 with JavaScript's timestamps",
            Self::Yaml11(Dialect::JsYaml3) => "YAML 1.1 of js-yaml 3",
            Self::Yaml11(Dialect::JsYaml4) => "YAML 1.2 with the timestamps of js-yaml 4",
            Self::Strings => "YAML with every value a string",
        })
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FinalNewlineOfLastBlockScalar => "the last block lacks its final newline",
            Self::NonFiniteAsNull => "a number that is not finite is null",
            Self::IntegerThroughDouble => "a long integer is rounded to a double",
            Self::MergeKeyMerged => "<< is merged",
            Self::MergeKeyLiteral => "<< is taken for a key",
            Self::NullAgainstAbsent => "an empty field is absent",
        })
    }
}
