//! Pages: what a rendered one hides and a model reads; in Markdown, what hosts expand too, and HTML that runs.

use std::sync::LazyLock;

use super::check::Check;
use super::pattern::Pattern;
use super::pattern::Patterns;
use super::remark::Sheet;
use super::remark::shown;

/// Looks at the Markdown `text`, `prose` being the same without its code.
pub(super) fn inspect(text: &str, prose: &str, sheet: &mut Sheet) {
    inspect_comments(text, prose, sheet);
    for (check, pattern) in IN_TEXT.iter() {
        each(*check, pattern, text, sheet);
    }
    for (check, pattern) in IN_PROSE.iter() {
        each(*check, pattern, prose, sheet);
    }
}

fn each(check: Check, pattern: &Pattern, text: &str, sheet: &mut Sheet) {
    for found in pattern.find(text) {
        sheet.add(check, found.at, || shown(found.text));
    }
}

/// Every pattern here.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Pattern> {
    let tables = IN_TEXT.iter().chain(IN_PROSE.iter());
    tables
        .map(|(_, pattern)| pattern)
        .chain([&*LINK_COMMENT, &*INSTRUCTION])
}

/// What hosts look for before anything is rendered, so that code does not hide it: `` !`command` `` behind a blank or
/// at a line's start, and blocks fenced as ```` ```! ````.
static IN_TEXT: Patterns = LazyLock::new(|| {
    let source = r"(?m)(?:^|[\s(>])(!`[^`\n]+`) | ^[\x20\t]*(```!)[\x20\t]*$";
    Pattern::table(&[(Check::CommandExpansion, source)])
});

/// What means nothing inside of code.
static IN_PROSE: Patterns = LazyLock::new(|| Pattern::table(PROSE_SOURCES));

/// `@path`, elements that run or hide, and addresses that run.
const PROSE_SOURCES: &[(Check, &str)] = &[
    (
        Check::FileImport,
        r"(?m)(?:^|[\s(])(@(?:(?:~|\.{1,2})?/[\w./-]*[\w]|[\w-]+(?:/[\w.-]+)*\.(?:md|mdx|txt|json|ya?ml|toml|env|
           pem|key|csv)\b))",
    ),
    (
        Check::ActiveMarkup,
        r#"(?i)(<(?:script|iframe|object|embed|base)(?:[\s/][^>\n]*)?>)
           | (<[a-z][^>\n]*\b(?:on(?:load|error|click|mouseover|focus)\s*=|srcdoc\s*=)[^>\n]*)
           | (<[a-z][^>\n]*\bstyle\s*=\s*["'][^"'\n]*(?:display\s*:\s*none|visibility\s*:\s*hidden|
           font-size\s*:\s*0|opacity\s*:\s*0(?:[;"'\s]|\.0))[^>\n]*)
           | (<[a-z]+\s(?:[^>\n]*\s)?hidden(?:\s[^>\n]*|=[^>\n]*)?>)
           | (\]\(\s*<?(?:javascript|vbscript|data:text/html)[^\n)]*)"#,
    ),
];

/// The shortest comment that is told as such.
const LONG_COMMENT: usize = 40;

/// Looks at comments: at those with words for a model wherever they stand, at others where they are long and a rendered
/// page hides them.
pub(super) fn inspect_comments(text: &str, prose: &str, sheet: &mut Sheet) {
    let mut at = 0;
    while let Some(start) = text
        .get(at..)
        .and_then(|rest| rest.find("<!--"))
        .map(|found| at + found)
    {
        let inner = text.get(start + "<!--".len()..).unwrap_or_default();
        let inner = inner.split_once("-->").map_or(inner, |(inner, _)| inner);
        let hidden = prose.get(start..).is_some_and(|rest| rest.starts_with("<!--"));
        comment(start, inner, hidden, sheet);
        at = start + "<!--".len() + inner.len();
    }
    for found in LINK_COMMENT.find(prose) {
        comment(found.at, found.text, true, sheet);
    }
}

fn comment(at: usize, inner: &str, hidden: bool, sheet: &mut Sheet) {
    if INSTRUCTION.is_in(inner) {
        sheet.add(Check::CommentInstructions, at, || shown(inner));
    } else if hidden && inner.trim().chars().nth(LONG_COMMENT - 1).is_some() {
        sheet.add(Check::HiddenComment, at, || shown(inner));
    }
}

/// `[//]: # (text)`: a link's definition that links nowhere.
static LINK_COMMENT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r#"(?m)^\x20{0,3}\[(?://|\#|_|comment|hidden|note)[^\]\n]*\]:\s*(?:\#|<>|/)?\s*[("']([^\n]*)[)"']"#)
});

/// Words of a comment that are meant for a model.
static INSTRUCTION: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        r"(?i) \b(?:ignore|disregard|override)\s+(?:all|any|the|your|previous|prior|above|these)\b
    | \bsystem\s+prompt\b | \b(?:dear\s+|as\s+an?\s+|hey\s+|note\s+to\s+(?:the\s+)?)(?:AI|assistant|model|agent|
    LLM|claude|gpt)\b
    | \b(?:AI|assistant|agent|LLM|claude|gpt|you)\s*(?:,|:)?\s+(?:must|should\s+always|have\s+to|are\s+now|
    will\s+now|are\s+required)\b
    | \b(?:secretly|silently|covertly|quietly)\b | \bwithout\s+(?:asking|telling|informing|mentioning|notifying)\b
    | \b(?:do\s+not|don(?:'|’)t|never)\s+(?:tell|mention|inform|reveal|ask|notify|disclose)\b
    | \b(?:send|upload|post|exfiltrate|forward|copy|transmit)\b[^\n]{0,80}\b(?:https?:|to\s+the\s+server|webhook|
    credentials?|passwords?|secrets?|tokens?|keys?)
    | \b(?:curl|wget|invoke-webrequest)\s+\S | \b(?:id_rsa|\.ssh/|\.aws/|api[_\s-]?keys?\b[^\n]{0,40}\b(?:send|
    read|print|include))",
    )
});

/// The longest code span that is looked for, in bytes.
const SPAN_BYTES: usize = 2048;

/// `text` with its fenced blocks and code spans blanked out, byte for byte in place.
pub(super) fn prose(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let marker = marker(line);
        match (fence, marker) {
            (None, None) => without_spans(line, &mut prose),
            (None, Some(opening)) => {
                blank(line, &mut prose);
                fence = Some(opening);
            }
            (Some(opening), closing) => {
                blank(line, &mut prose);
                let closes = |closing: &str| closing.starts_with(opening) && is_bare(line, closing);
                fence = fence.filter(|_| !closing.is_some_and(closes));
            }
        }
    }
    prose
}

/// The backticks or tildes with which `line` opens or closes a block; deep in a list, they may stand far in.
fn marker(line: &str) -> Option<&str> {
    let line = line.trim_start_matches([' ', '\t', '>']);
    let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let rest = line.trim_start_matches(sign);
    let marker = line.get(..line.len() - rest.len())?;
    (marker.len() >= 3 && !(sign == '`' && rest.contains('`'))).then_some(marker)
}

/// Whether `line` has nothing but `marker`.
fn is_bare(line: &str, marker: &str) -> bool {
    line.trim_matches([' ', '\t', '>', '\r', '\n']) == marker
}

/// Appends blanks for all of `line` but its end.
fn blank(line: &str, prose: &mut String) {
    for byte in line.bytes() {
        prose.push(if byte == b'\n' { '\n' } else { ' ' });
    }
}

/// Appends `line` with its code spans blanked out: what stands between two rows of as many backticks.
fn without_spans(line: &str, prose: &mut String) {
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, from) = rest.split_at_checked(start).unwrap_or((rest, ""));
        let inner = from.trim_start_matches('`');
        let ticks = from.len() - inner.len();
        prose.push_str(before);
        let span = closing(inner, ticks).map_or(ticks, |end| ticks + end + ticks);
        let (span, behind) = from.split_at_checked(span).unwrap_or((from, ""));
        blank(span, prose);
        rest = behind;
    }
    prose.push_str(rest);
}

/// Where in `inner` a row of exactly `ticks` backticks begins, if it is near.
fn closing(inner: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while at < SPAN_BYTES {
        let rest = inner.get(at..)?;
        let start = rest.find('`')?;
        let from = rest.get(start..)?;
        let row = from.len() - from.trim_start_matches('`').len();
        if row == ticks {
            return Some(at + start);
        }
        at += start + row;
    }
    None
}
