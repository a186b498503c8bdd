//! Encoded texts: long runs of base64 or hexadecimal digits, rows of escapes, and content inside of `data:` addresses.

use std::ops::Range;
use std::sync::LazyLock;

use super::check::Check;
use super::pattern::Pattern;
use super::pattern::Patterns;
use super::remark::Sheet;
use super::remark::shown;

/// Characters from which an encoded text is long: more than any digest, signature or token.
const LONG: usize = 256;

/// Characters of a line from which it may be one of a text that was encoded and broken into lines.
const LONG_LINE: usize = 60;

/// Characters of content from which a `data:` address is told.
const LONG_DATA: usize = 100;

/// Looks for encoded texts in `text`.
pub(super) fn inspect(text: &str, sheet: &mut Sheet) {
    let mut block: Option<Block> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let inner = line.trim_matches(|char: char| char.is_whitespace() || "\"'`,;+\\#*(){}[]<>|.:".contains(char));
        if inner.len() >= LONG_LINE && inner.len() < LONG && inner.bytes().all(is_code) {
            let start = at + (line.len() - line.trim_start().len());
            block.get_or_insert_with(|| Block::starting(start)).counts.add(inner);
        } else {
            end(block.take(), text, sheet);
            long_runs(line, at, text, sheet);
        }
        at += line.len();
    }
    end(block, text, sheet);
    patterns(text, sheet);
}

/// Lines, one behind the other, that are nothing but code.
struct Block {
    start: usize,
    counts: Counts,
}

impl Block {
    fn starting(start: usize) -> Self {
        Self {
            start,
            counts: Counts::default(),
        }
    }
}

/// Tells of `block` if it is long and looks encoded.
fn end(block: Option<Block>, text: &str, sheet: &mut Sheet) {
    if let Some(Block { start, counts }) = block.filter(|block| block.counts.are_encoded()) {
        let head = text
            .get(start..)
            .and_then(|rest| rest.lines().next())
            .unwrap_or_default();
        tell(start, &counts, head, sheet);
    }
}

/// Runs of code inside of the line at byte `at`.
fn long_runs(line: &str, at: usize, text: &str, sheet: &mut Sheet) {
    let mut start = 0;
    for run in line.split(|char: char| !char.is_ascii() || !is_code(char as u8)) {
        if run.len() >= LONG {
            let mut counts = Counts::default();
            counts.add(run);
            if counts.are_encoded() && !is_media(text, at + start..at + start + run.len()) {
                tell(at + start, &counts, run, sheet);
            }
        }
        start += run.len();
        start += line
            .get(start..)
            .and_then(|rest| rest.chars().next())
            .map_or(0, char::len_utf8);
    }
}

fn tell(at: usize, counts: &Counts, head: &str, sheet: &mut Sheet) {
    sheet.add(Check::EncodedBlob, at, || {
        let head: String = head.chars().take(24).collect();
        format!("{} characters: {}…", counts.all, shown(&head))
    });
}

/// What a run is made of.
#[derive(Default)]
struct Counts {
    all: usize,
    upper: usize,
    lower: usize,
    digits: usize,
    hexadecimal: usize,
}

impl Counts {
    fn add(&mut self, run: &str) {
        let count = |kind: fn(&u8) -> bool| run.as_bytes().iter().filter(|byte| kind(byte)).count();
        self.all += run.len();
        self.upper += count(u8::is_ascii_uppercase);
        self.lower += count(u8::is_ascii_lowercase);
        self.digits += count(u8::is_ascii_digit);
        self.hexadecimal += count(u8::is_ascii_hexdigit);
    }

    /// Whether it is long, and as mixed as only an encoding makes it: words, rules and sequences of bases are not.
    fn are_encoded(&self) -> bool {
        let share = |part: usize, of_hundred: usize| part * 100 >= self.all * of_hundred;
        let base64 = share(self.upper, 10) && share(self.lower, 10) && share(self.digits, 4);
        let hexadecimal = self.hexadecimal == self.all && share(self.digits, 20) && !share(self.digits, 95);
        self.all >= LONG && (base64 || hexadecimal)
    }
}

/// Base64's digits, which include the hexadecimal ones.
fn is_code(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// How images begin in base64 (PNG, JPEG, GIF, WebP): notebooks and pages carry them so.
const IMAGE_HEADS: &[&str] = &["iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"];

/// Whether the code at `range` is an image's or a font's.
fn is_media(text: &str, range: Range<usize>) -> bool {
    let code = text.get(range.clone()).unwrap_or_default();
    let before: String = text
        .get(..range.start)
        .unwrap_or_default()
        .chars()
        .rev()
        .take(80)
        .collect();
    let is_type = |kind: &str| before.starts_with(",46esab;") && before.contains(kind);
    IMAGE_HEADS.iter().any(|head| code.starts_with(head))
        || ["/egami:atad", "/tnof:atad", "/oidua:atad"].into_iter().any(is_type)
}

/// Every pattern here.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Pattern> {
    PATTERNS.iter().map(|(_, pattern)| pattern)
}

/// Rows of escapes, and the head of a `data:` address.
static PATTERNS: Patterns = LazyLock::new(|| Pattern::table(SOURCES));

/// Their patterns.
const SOURCES: &[(Check, &str)] = &[
    (
        Check::EncodedBlob,
        r"(?i) (?:\\x[0-9a-f]{2}){48,} | (?:%[0-9a-f]{2}){48,} | (?:&\#x?[0-9a-f]{2,4};){32,}",
    ),
    (
        Check::DataUri,
        r#"(?i) \bdata:[a-z0-9.+-]+/[a-z0-9.+-]+(?:;[a-z0-9=_.-]+)*,[^\s"'<>)]+"#,
    ),
];

fn patterns(text: &str, sheet: &mut Sheet) {
    for (check, pattern) in PATTERNS.iter() {
        for found in pattern.find(text).filter(|found| found.text.len() >= LONG_DATA) {
            sheet.add(*check, found.at, || {
                let head: String = found.text.chars().take(40).collect();
                format!("{} characters: {}…", found.text.len(), shown(&head))
            });
        }
    }
}
