//! Finds the frontmatter block of a file: the text between its fences.
//!
//! Imports limits and the module's refusals. Decisions, so that this view and YAML's own never differ:
//!
//! * A fence is a line that is `---`, blanks and nothing else, ended by LF or CRLF (the closing one also by the end of the
//!   file). One byte-order mark before the opening fence is read through.
//! * The first such line below the opening one closes the block. It cannot cut a value in two: YAML itself forbids `---` and
//!   `...` at the start of a line inside any scalar of a mapping (YAML 1.2 production 206, `c-forbidden`), so a quoted value
//!   that is still open there is invalid, and an indented `---`, or one with text after it, closes nothing.
//! * A line `...` ends the document too; only blank lines and comments may stand between it and the closing fence.
//! * What follows the closing fence is Markdown, and is not looked at: it need not even be UTF-8.

use crate::domain::limits::MAX_FRONTMATTER_BYTES;

use super::mismatch::FrontmatterMismatch;

/// UTF-8's byte-order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Finds the block of `file`: from the opening `---` to the three characters of the marker that ends it, both included,
/// so that line numbers in it are those of the file.
pub(super) fn find(file: &[u8]) -> Result<&str, FrontmatterMismatch> {
    let file = file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file);
    let mut lines = file.split_inclusive(|&byte| byte == b'\n');
    let opening = lines
        .next()
        .filter(|line| is_fence(line))
        .ok_or(FrontmatterMismatch::NoOpeningFence)?;
    let mut end = opening.len();
    let mut ended_before = None;
    let mut second_document = None;
    for (above, line) in (1..).zip(lines) {
        if end - opening.len() > MAX_FRONTMATTER_BYTES {
            return Err(FrontmatterMismatch::TooLarge);
        }
        if is_fence(line) {
            if let Some(line) = second_document {
                return Err(FrontmatterMismatch::SeveralDocuments { line });
            }
            return text(file, ended_before.unwrap_or(end) + MARKER_BYTES);
        }
        match ended_before {
            None if is_document_end(line) => ended_before = Some(end),
            Some(_) if !is_blank_or_comment(line) => second_document = second_document.or(Some(above + 1)),
            None | Some(_) => {}
        }
        end += line.len();
    }
    Err(FrontmatterMismatch::NotClosed)
}

/// What follows the block of `text`, without the blank lines before and after it; all of it where there is no block.
pub(super) fn body(text: &str) -> &str {
    let whole = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = whole.split_inclusive('\n');
    let Some(opening) = lines.next().filter(|line| is_fence(line.as_bytes())) else {
        return whole.trim();
    };
    let mut end = opening.len();
    for line in lines {
        end += line.len();
        if is_fence(line.as_bytes()) {
            return whole.get(end..).unwrap_or_default().trim();
        }
    }
    whole.trim()
}

/// Bytes of `---` and of `...`.
const MARKER_BYTES: usize = 3;

/// The first `end` bytes of `file` as text that YAML allows.
fn text(file: &[u8], end: usize) -> Result<&str, FrontmatterMismatch> {
    let block = file.get(..end).unwrap_or(file);
    let text = str::from_utf8(block).map_err(|error| FrontmatterMismatch::NotUtf8 {
        line: line_at(block, error.valid_up_to()),
    })?;
    match text
        .bytes()
        .position(|byte| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r'))
    {
        Some(at) => Err(FrontmatterMismatch::ControlCharacter {
            line: line_at(block, at),
        }),
        None => Ok(text),
    }
}

/// The number of the line in which byte `at` of `block` stands.
fn line_at(block: &[u8], at: usize) -> usize {
    block.iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
}

/// Whether `line` is `---` and blanks.
fn is_fence(line: &[u8]) -> bool {
    without_break(line)
        .strip_prefix(b"---")
        .is_some_and(|rest| rest.iter().all(is_blank))
}

/// Whether `line` is YAML's marker for the end of a document.
fn is_document_end(line: &[u8]) -> bool {
    without_break(line)
        .strip_prefix(b"...")
        .is_some_and(|rest| rest.first().is_none_or(is_blank))
}

/// Whether YAML sees nothing in `line`.
fn is_blank_or_comment(line: &[u8]) -> bool {
    without_break(line)
        .iter()
        .find(|byte| !is_blank(byte))
        .is_none_or(|&byte| byte == b'#')
}

/// Whether `byte` is white space inside a line.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// `line` without the LF or CRLF that ends it.
fn without_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
