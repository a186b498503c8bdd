//! Inspection: what in a skill's manifest and files a reviewer should look at.
//!
//! Imports entries, JSON and URIs. Pure, and total: no bytes make it panic, its time grows with their number alone, and
//! what it says is bounded. It decides nothing: a [`Remark`] says where to look, and a skill without any may still be
//! hostile.
//!
//! Start reading at `check`, which has the table.

mod blobs;
mod characters;
mod check;
mod images;
mod kinds;
mod links;
mod manifest;
mod markdown;
mod names;
mod pattern;
mod phrases;
mod remark;
mod secrets;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::SkillEntry;
use super::uri::SKILL_FILE;

pub use check::CHECKS_VERSION;
pub use check::Check;
pub use check::Severity;
pub use check::UnknownCheck;
pub use remark::MAX_DETAIL_CHARS;
pub use remark::MAX_REMARKS;
pub use remark::Position;
pub use remark::Remark;

use kinds::Magic;
use kinds::Named;
use kinds::Written;
use remark::Sheet;
use remark::shown;

/// Inspects what an entry says before any file is there: its frontmatter, paths and sizes. What a path alone tells (a
/// script, an archive) is told here and not by [`file()`].
///
/// In the order of the paths, the frontmatter first; at most [`MAX_REMARKS`] of one check on one file.
pub fn entry(entry: &SkillEntry) -> Vec<Remark> {
    manifest::inspect(entry)
}

/// Inspects the content of the file at `path`, which is counted from its skill's root. The remarks depend on these two
/// arguments and [`CHECKS_VERSION`] alone.
///
/// In the order of their places, those without one first; at most [`MAX_REMARKS`] of one check.
pub fn file(path: &str, bytes: &[u8]) -> Vec<Remark> {
    let named = Named::of(path);
    let magic = Magic::of(bytes);
    let mut sheet = Sheet::default();
    let (text, written) = kinds::decode(named, bytes).unzip();
    // What is UTF-8 throughout is a text, whatever it begins as.
    let is_text = written.is_some_and(|written| written == Written::Utf8 && !bytes.contains(&0));
    let text = text.filter(|_| is_text || matches!(magic, Some(Magic::Script) | None));
    if let Some(text) = &text {
        content(path, named, text, &mut sheet);
        kind(named, magic, text, &mut sheet);
        encoding(named, written, &mut sheet);
    }
    if text.is_none() || !matches!(magic, Some(Magic::Script) | None) {
        binary(named, magic, bytes, &mut sheet);
    }
    sheet.into_remarks(path, text.as_deref().unwrap_or_default())
}

/// For each of `names` (of skills, or labels) that is easily taken for another one: the remark to show with it. Names
/// that are the same are not told: what is alike in them everybody sees.
pub fn look_alikes<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, Remark> {
    let remark = |(name, other, more): (&'a str, &str, usize)| {
        let remark = Remark {
            check: Check::LookAlikeName,
            path: SKILL_FILE.to_owned(),
            position: None,
            detail: names::told(other, more),
            more: 0,
        };
        (name, remark)
    };
    names::groups(names, names::name_looks)
        .into_iter()
        .map(remark)
        .collect()
}

/// What a text says.
fn content(path: &str, named: Named, text: &str, sheet: &mut Sheet) {
    characters::inspect(text, sheet);
    phrases::inspect(text, sheet);
    secrets::inspect(text, sheet);
    blobs::inspect(text, sheet);
    links::inspect(text, sheet);
    match named {
        Named::Html => {
            markdown::inspect_comments(text, text, sheet);
            links::inspect_targets(path, text, sheet);
        }
        Named::Markdown => {
            let prose = markdown::prose(text);
            markdown::inspect(text, &prose, sheet);
            links::inspect_targets(path, &prose, sheet);
        }
        Named::Drawing => phrases::inspect_drawing(text, sheet),
        Named::Script
        | Named::Text
        | Named::Image
        | Named::Media
        | Named::Document
        | Named::Program
        | Named::Compiled
        | Named::Archive
        | Named::Other => {}
    }
    if path.rsplit('/').next() == Some("package.json") {
        phrases::inspect_package(text, sheet);
    }
}

/// Where a text is something else than its name says, or more.
fn kind(named: Named, magic: Option<Magic>, text: &str, sheet: &mut Sheet) {
    let script = magic == Some(Magic::Script);
    let bare = named == Named::Image && magic.is_none();
    if text.starts_with(LARGE_FILE_POINTER) {
        sheet.add(Check::OpaqueFile, 0, || {
            "a pointer of Git LFS to the content".to_owned()
        });
    } else if bare || (script && named.hides(Magic::Script)) {
        sheet.add(Check::DisguisedFile, 0, || "a text".to_owned());
    } else if script && named != Named::Script {
        sheet.add(Check::Script, 0, || "by its first line".to_owned());
    }
}

/// What stands in a repository in place of a large file.
const LARGE_FILE_POINTER: &str = "version https://git-lfs.github.com/spec/";

/// Where a text is not UTF-8.
fn encoding(named: Named, written: Option<Written>, sheet: &mut Sheet) {
    match written {
        Some(Written::Utf16) => sheet.add(Check::NotUtf8, None, || "UTF-16".to_owned()),
        Some(Written::Otherwise) if named.is_text() => {
            sheet.add(Check::NotUtf8, None, || "bytes that are none".to_owned());
        }
        Some(Written::Utf8 | Written::Otherwise) | None => {}
    }
}

/// What bytes are that a program opens, and no reader.
fn binary(named: Named, magic: Option<Magic>, bytes: &[u8], sheet: &mut Sheet) {
    if magic.is_some_and(|magic| named.hides(magic)) {
        sheet.add(Check::DisguisedFile, None, || {
            format!("begins as {}", magic.map_or("", Magic::format))
        });
    }
    match magic {
        Some(Magic::Program(format)) if named != Named::Program => {
            sheet.add(Check::Program, None, || format.to_owned());
        }
        Some(Magic::Compiled(format)) if named != Named::Compiled => {
            sheet.add(Check::CompiledCode, None, || format.to_owned());
        }
        Some(Magic::Archive(format)) if !matches!(named, Named::Archive | Named::Document) => {
            sheet.add(Check::Archive, None, || format.to_owned());
        }
        Some(Magic::Image) => images::inspect(bytes, sheet),
        Some(Magic::Program(_) | Magic::Compiled(_) | Magic::Archive(_) | Magic::Document(_) | Magic::Script)
        | None => {}
    }
    let document = matches!(magic, Some(Magic::Document(_))) || named == Named::Document;
    let told = matches!(
        named,
        Named::Image | Named::Media | Named::Program | Named::Compiled | Named::Archive
    );
    if document || (magic.is_none() && !told) {
        let format = magic.map_or("unknown", Magic::format);
        sheet.add(Check::OpaqueFile, None, || format!("{} bytes, {format}", bytes.len()));
    }
    if document && let Some(action) = kinds::action(bytes) {
        sheet.add(Check::ActiveDocument, None, || shown(action));
    }
}
