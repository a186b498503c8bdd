//! Remarks: what was seen, where, and how it is told safely and within bounds.

use std::collections::BTreeMap;
use std::fmt;

use super::characters::is_unseen;
use super::check::Check;

/// Remarks of one check that are listed of one file; [`Remark::more`] counts the rest.
pub const MAX_REMARKS: usize = 10;

/// Characters of a [`Remark::detail`].
pub const MAX_DETAIL_CHARS: usize = 200;

/// Characters of an outsider's text that one detail shows, escapes included.
const SHOWN_CHARS: usize = 120;

/// Something in a skill that a reviewer should look at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Remark {
    /// What was looked for.
    pub check: Check,
    /// The file's path below the skill's root as the entry spells it; of the frontmatter, that of the `SKILL.md`. It is
    /// an outsider's text, which only [`Display`](fmt::Display) makes fit to print.
    pub path: String,
    /// Where in the file, if it is a text and this is about a place in it.
    pub position: Option<Position>,
    /// What stands there: at most [`MAX_DETAIL_CHARS`], all of them visible.
    pub detail: String,
    /// Further ones of the same check in the same file that are not listed; 0 but at the last one that is.
    pub more: usize,
}

/// A place in a text, counted from 1 in lines that LF ends and in characters; a byte-order mark counts as none, and
/// bytes that are not UTF-8 as the replacement characters that stand for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in that line.
    pub column: usize,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.check.severity(), self.check, shown(&self.path))?;
        if let Some(Position { line, column }) = self.position {
            write!(f, " line {line} column {column}")?;
        }
        write!(f, ": {}", self.detail)?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " (and {more} more)"),
        }
    }
}

/// Where a check's remarks on one file are collected, within [`MAX_REMARKS`].
#[derive(Default)]
pub(super) struct Sheet {
    placeless: bool,
    found: Vec<Found>,
    counts: BTreeMap<Check, usize>,
}

/// A remark that has no line and column yet.
struct Found {
    check: Check,
    at: Option<usize>,
    detail: String,
}

impl Sheet {
    /// A sheet for what has no lines: an entry.
    pub(super) fn placeless() -> Self {
        Self {
            placeless: true,
            ..Self::default()
        }
    }

    /// Notes that `check` found something at byte `at`; what is listed already is not noted again.
    pub(super) fn add(&mut self, check: Check, at: impl Into<Option<usize>>, detail: impl FnOnce() -> String) {
        let at = at.into().filter(|_| !self.placeless);
        let count = self.counts.entry(check).or_insert(0);
        if *count < MAX_REMARKS {
            if at.is_some() && self.found.iter().any(|found| found.check == check && found.at == at) {
                return;
            }
            let detail = detail();
            self.found.push(Found { check, at, detail });
        }
        *count += 1;
    }

    /// The remarks on the file at `path` in its order; places are counted in `text`.
    pub(super) fn into_remarks(mut self, path: &str, text: &str) -> Vec<Remark> {
        self.found.sort_by_key(|found| (found.at, found.check));
        let mut places = Places::of(text);
        let mut remarks: Vec<Remark> = Vec::with_capacity(self.found.len());
        for Found { check, at, detail } in self.found {
            let position = at.map(|at| places.position(at));
            remarks.push(Remark {
                check,
                path: path.to_owned(),
                position,
                detail,
                more: 0,
            });
        }
        for remark in remarks.iter_mut().rev() {
            let more = self.counts.remove(&remark.check).unwrap_or_default();
            remark.more = more.saturating_sub(MAX_REMARKS);
        }
        remarks
    }
}

/// Turns bytes' offsets, asked for in rising order, into places, in one pass over the text.
struct Places<'a> {
    rest: &'a str,
    done: usize,
    position: Position,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            rest: text,
            done: 0,
            position: Position { line: 1, column: 1 },
        }
    }

    fn position(&mut self, at: usize) -> Position {
        if let Some((passed, rest)) = self.rest.split_at_checked(at.saturating_sub(self.done)) {
            for char in passed.chars() {
                self.position = match char {
                    '\n' => Position {
                        line: self.position.line + 1,
                        column: 1,
                    },
                    _ => Position {
                        column: self.position.column + 1,
                        ..self.position
                    },
                };
            }
            self.rest = rest;
            self.done = at;
        }
        self.position
    }
}

/// Shows the beginning of an outsider's text on one line, with everything escaped that cannot be seen.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    let mut chars = 0;
    for char in text.trim().chars() {
        let escaped: String = match char {
            '"' | '\'' | '\\' => char.to_string(),
            _ if is_unseen(char) => char.escape_unicode().collect(),
            _ => char.escape_debug().collect(),
        };
        chars += escaped.chars().count();
        if chars > SHOWN_CHARS {
            shown.push('…');
            break;
        }
        shown.push_str(&escaped);
    }
    shown
}
