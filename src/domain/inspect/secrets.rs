//! Secrets: texts in the form of live keys and tokens. What stands in their place in examples is none.

use std::sync::LazyLock;

use super::check::Check;
use super::pattern::Pattern;
use super::remark::Sheet;

/// Looks for secrets in `text`. Their kind, beginning and length are told, never the whole.
pub(super) fn inspect(text: &str, sheet: &mut Sheet) {
    for (kind, pattern) in TOKENS.iter() {
        for found in pattern.find(text).filter(|found| !is_placeholder(found.text)) {
            sheet.add(Check::Secret, found.at, || {
                let head: String = found.text.chars().take(HEAD_CHARS).collect();
                format!("{kind}: {head}…, {} characters", found.text.chars().count())
            });
        }
    }
    private_keys(text, sheet);
}

/// Every pattern here.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Pattern> {
    TOKENS.iter().map(|(_, pattern)| pattern).chain([&*KEY_HEAD])
}

/// Characters of a token that are shown.
const HEAD_CHARS: usize = 6;

/// Forms of tokens.
static TOKENS: LazyLock<Vec<(&str, Pattern)>> = LazyLock::new(|| {
    SOURCES
        .iter()
        .map(|(kind, source)| (*kind, Pattern::new(source)))
        .collect()
});

/// What issues tokens of which form.
const SOURCES: &[(&str, &str)] = &[
    ("AWS access key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    (
        "GitHub token",
        r"\bgh[pousr]_[A-Za-z0-9]{36,251}\b | \bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b",
    ),
    ("GitLab token", r"\bgl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{20,}"),
    (
        "Slack token",
        r"\bxox[abeprs]-[0-9]{10,13}-[0-9A-Za-z-]{20,}
           | hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{24}",
    ),
    (
        "Anthropic key",
        r"\bsk-ant-(?:api|admin|oat|ort|sid)\d\d-[A-Za-z0-9_-]{80,}",
    ),
    (
        "OpenAI key",
        r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{48,} | \bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b
           | \bsk-[A-Za-z0-9]{48}\b",
    ),
    ("Hugging Face token", r"\bhf_[A-Za-z]{34}\b"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    ("Stripe key", r"\b[rs]k_live_[A-Za-z0-9]{24,}\b"),
    ("SendGrid key", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b"),
    ("DigitalOcean token", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    ("Telegram bot token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    (
        "Discord webhook",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}",
    ),
];

/// What begins a private key, as a line of its own or inside of a string.
static KEY_HEAD: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"-----BEGIN\x20(?:[A-Z0-9]+\x20)*PRIVATE\x20KEY(?:\x20BLOCK)?-----"));

/// Characters behind a private key's header in which its body is looked for.
const KEY_WINDOW: usize = 600;

/// The shortest line of a key's body; an elliptic curve's key has little more.
const KEY_LINE: usize = 40;

/// Private keys that have a body: a header alone is how a file's form is described.
fn private_keys(text: &str, sheet: &mut Sheet) {
    for found in KEY_HEAD.find(text) {
        let behind = text.get(found.at + found.text.len()..).unwrap_or_default().chars();
        let window: String = behind.take(KEY_WINDOW).collect();
        let body = window.split("-----").next().unwrap_or_default().replace("\\n", "\n");
        let is_line = |line: &str| line.len() >= KEY_LINE && line.bytes().all(is_base64) && !is_placeholder(line);
        if body.split(['\n', '"', '\'', ' ', '\r', '\t']).any(is_line) {
            sheet.add(Check::Secret, found.at, || "private key".to_owned());
        }
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Words that stand in a token of an example.
const EXAMPLE_WORDS: &[&str] = &[
    "example",
    "xxxx",
    "your",
    "fake",
    "dummy",
    "sample",
    "placeholder",
    "redacted",
    "secret",
    "token",
    "changeme",
    "insert",
    "replace",
    "notreal",
    "foobar",
    "deadbeef",
    "testtest",
];

/// The longest row of one character, or of characters that follow each other, that chance puts into a token.
const ROW: usize = 5;

/// The fewest different characters in a token that chance made.
const DISTINCT: usize = 11;

/// Whether `token` was written by somebody, and not drawn.
fn is_placeholder(token: &str) -> bool {
    let lower = token.to_ascii_lowercase();
    let mut distinct: Vec<u8> = token.bytes().collect();
    distinct.sort_unstable();
    distinct.dedup();
    EXAMPLE_WORDS.iter().any(|word| lower.contains(word))
        || distinct.len() < DISTINCT
        || longest_row(lower.as_bytes(), 0) >= ROW
        || longest_row(lower.as_bytes(), 1) >= ROW
}

/// The longest row of bytes each of which is the one before it plus `step`.
fn longest_row(bytes: &[u8], step: u8) -> usize {
    let mut longest = 1;
    let mut row = 1;
    for pair in bytes.windows(2) {
        row = match pair {
            [a, b] if a.checked_add(step) == Some(*b) && b.is_ascii_alphanumeric() => row + 1,
            _ => 1,
        };
        longest = longest.max(row);
    }
    longest
}
