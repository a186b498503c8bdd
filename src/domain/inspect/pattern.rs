//! Patterns: how texts are searched in time that grows with their length alone.

use std::sync::LazyLock;

use regex::bytes::Regex;
use regex::bytes::RegexBuilder;

use super::check::Check;

/// A pattern, matched byte by byte: in it, letters, digits, blanks and borders of words are ASCII's.
pub(super) struct Pattern(Option<Regex>);

/// Patterns and the checks that they are for.
pub(super) type Patterns = LazyLock<Vec<(Check, Pattern)>>;

/// What a pattern found.
#[derive(Clone, Copy)]
pub(super) struct Found<'t> {
    /// The byte of the text at which it begins.
    pub(super) at: usize,
    /// What stands there: what the pattern's first group took, or all of it.
    pub(super) text: &'t str,
}

impl Pattern {
    /// Reads a pattern that is spread over lines: blanks in it mean nothing, and `@@` is the rest of a command's line:
    /// all but line ends and `|`, and line ends behind a backslash. One that cannot be read finds nothing; a test reads
    /// all that there are.
    pub(super) fn new(source: &str) -> Self {
        let source: String = source.split_whitespace().collect();
        let source = source.replace("@@", r"(?:[^\n|]|\\\r?\n)*");
        Self(RegexBuilder::new(&source).unicode(false).build().ok())
    }

    /// Reads patterns for several checks.
    pub(super) fn table(sources: &[(Check, &str)]) -> Vec<(Check, Self)> {
        sources
            .iter()
            .map(|(check, source)| (*check, Self::new(source)))
            .collect()
    }

    /// Everything that it finds in `text`.
    pub(super) fn find<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Found<'t>> {
        let groups = self.0.iter().filter(|regex| regex.captures_len() > 1);
        let whole = self.0.iter().filter(|regex| regex.captures_len() == 1);
        let first = groups.flat_map(|regex| regex.captures_iter(text.as_bytes()));
        let first = first.filter_map(|captures| captures.iter().skip(1).flatten().next());
        let found = first.chain(whole.flat_map(|regex| regex.find_iter(text.as_bytes())));
        // What begins or ends inside of a character cannot be shown; no pattern here takes part of one.
        found
            .filter_map(|found| Some((found.start(), text.get(found.range())?)))
            .map(|(at, text)| Found { at, text })
    }

    /// Whether it finds anything in `text`.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(text.as_bytes()))
    }

    /// Whether it could be read.
    #[cfg(test)]
    pub(super) fn is_read(&self) -> bool {
        self.0.is_some()
    }
}
