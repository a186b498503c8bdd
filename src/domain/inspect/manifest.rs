//! Manifests: what an entry says without any of its files, in its frontmatter, its paths and its sizes.

use std::collections::BTreeMap;

use crate::domain::Json;
use crate::domain::SkillEntry;
use crate::domain::uri::SKILL_FILE;
use crate::domain::uri::decoded;

use super::characters;
use super::check::Check;
use super::kinds::Named;
use super::names;
use super::phrases;
use super::remark::Remark;
use super::remark::Sheet;
use super::remark::shown;

/// The remarks on `entry`.
pub(super) fn inspect(entry: &SkillEntry) -> Vec<Remark> {
    let mut sheet = Sheet::placeless();
    frontmatter(entry.frontmatter(), &mut sheet);
    let mut remarks = sheet.into_remarks(SKILL_FILE, "");
    let root = entry.uri().root();
    let paths: BTreeMap<&str, u64> = entry
        .resources()
        .iter()
        .filter_map(|resource| {
            let below = resource.uri.as_str().strip_prefix(root)?.strip_prefix('/')?;
            Some((below, resource.size))
        })
        .collect();
    for (path, size) in &paths {
        let mut sheet = Sheet::placeless();
        of_path(path, *size, &mut sheet);
        remarks.extend(sheet.into_remarks(path, ""));
    }
    remarks.extend(look_alike_paths(paths.keys().copied()));
    remarks
}

/// Fields, and every text in them.
fn frontmatter(frontmatter: &Json, sheet: &mut Sheet) {
    if let Json::Object(members) = frontmatter {
        for (key, value) in members {
            field(key, value, sheet);
        }
    }
    let mut values = vec![frontmatter];
    while let Some(value) = values.pop() {
        match value {
            Json::String(text) => words(text, sheet),
            Json::Array(items) => values.extend(items),
            Json::Object(members) => {
                for (key, value) in members {
                    words(key, sheet);
                    values.push(value);
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

fn words(text: &str, sheet: &mut Sheet) {
    characters::inspect(text, sheet);
    phrases::inspect(text, sheet);
}

/// A field by which a skill asks something of its host. Hosts differ in how they write a name of several words.
fn field(key: &str, value: &Json, sheet: &mut Sheet) {
    let plain: String = key.chars().filter(|char| char.is_alphanumeric()).collect();
    let plain = plain.to_lowercase();
    let check = match plain.as_str() {
        "allowedtools" | "tools" if has_open_shell(value) => Check::AllowedShell,
        "allowedtools" | "tools" => Check::AllowedTools,
        "hooks" => Check::Hooks,
        "mcpservers" | "mcp" => Check::McpServers,
        "permissionmode" | "permissions" | "approvalpolicy" | "sandbox" | "sandboxmode" if asks_nobody(value) => {
            Check::PermissionBypass
        }
        _ if HOST_FIELDS.contains(&plain.as_str()) => Check::HostSettings,
        _ => return,
    };
    sheet.add(check, None, || shown(&format!("{key}: {}", written(value))));
}

/// Fields that say how a host runs a skill, their names in small letters alone.
const HOST_FIELDS: &[&str] = &[
    "agent",
    "agents",
    "approvalpolicy",
    "background",
    "commanddispatch",
    "commandtool",
    "context",
    "disablemodelinvocation",
    "disallowedtools",
    "effort",
    "env",
    "install",
    "isolation",
    "memory",
    "model",
    "permissionmode",
    "permissions",
    "sandbox",
    "sandboxmode",
    "shell",
    "skills",
    "userinvocable",
];

/// A value as one line: a text as it is, all else as JSON.
fn written(value: &Json) -> String {
    value.as_str().map_or_else(|| value.canonical(), str::to_owned)
}

/// Whether a list of tools has a shell without bounds, or everything.
fn has_open_shell(tools: &Json) -> bool {
    let written = match tools {
        Json::Array(items) => items.iter().map(written).collect::<Vec<_>>().join(","),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => written(tools),
    };
    let mut depth = 0_usize;
    let names = written.split(|char: char| {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (char == ',' || char.is_whitespace())
    });
    names.into_iter().any(is_open)
}

/// Whether `tool` is a shell that may run anything, or stands for every tool.
fn is_open(tool: &str) -> bool {
    let lower = tool.trim_matches(['"', '\'', '[', ']', ' ']).to_ascii_lowercase();
    let (name, bounds) = lower.split_once('(').unwrap_or((&lower, "*"));
    let shell = matches!(
        name,
        "bash" | "shell" | "terminal" | "powershell" | "execute" | "run_command" | "run_shell_command"
    );
    let unbounded = matches!(bounds.trim_end_matches(')').trim(), "" | "*" | "*:*" | ":*" | "**");
    matches!(name, "*" | "all" | "all_tools") || (shell && unbounded)
}

/// Whether a mode of permissions lets everything through.
fn asks_nobody(mode: &Json) -> bool {
    let modes = [
        "bypasspermissions",
        "dontask",
        "never",
        "danger-full-access",
        "yolo",
        "bypass",
        "none",
        "off",
    ];
    mode.as_str()
        .is_some_and(|mode| modes.contains(&mode.to_ascii_lowercase().as_str()))
        || matches!(mode, Json::Bool(false))
}

/// What a path and a size say.
fn of_path(path: &str, size: u64, sheet: &mut Sheet) {
    characters::inspect(&decoded(path), sheet);
    match Named::of(path) {
        Named::Script => sheet.add(Check::Script, None, || "by its name".to_owned()),
        Named::Program => sheet.add(Check::Program, None, || "by its name".to_owned()),
        Named::Compiled => sheet.add(Check::CompiledCode, None, || "by its name".to_owned()),
        Named::Archive => sheet.add(Check::Archive, None, || "by its name".to_owned()),
        Named::Markdown | Named::Html if size > LONG_PAGE => large(size, sheet),
        Named::Text if size > LONG_TEXT => large(size, sheet),
        Named::Markdown
        | Named::Html
        | Named::Text
        | Named::Drawing
        | Named::Image
        | Named::Media
        | Named::Document
        | Named::Other => {}
    }
    if let Some(obeyed) = obeyed(path) {
        sheet.add(Check::HostFile, None, || format!("{obeyed} is obeyed"));
    } else if path.split('/').any(|segment| segment.starts_with('.')) {
        sheet.add(Check::HiddenFile, None, || shown(path));
    }
}

/// Bytes of a page from which nobody reads it to its end.
const LONG_PAGE: u64 = 128 * 1024;

/// Bytes of another text from which nobody reads it to its end.
const LONG_TEXT: u64 = 1024 * 1024;

fn large(size: u64, sheet: &mut Sheet) {
    sheet.add(Check::LargeFile, None, || format!("{size} bytes"));
}

/// The file or folder in `path` that some host or tool obeys wherever it finds it.
fn obeyed(path: &str) -> Option<&'static str> {
    let whole = format!("/{}/", decoded(path).to_ascii_lowercase());
    OBEYED
        .iter()
        .find(|known| whole.contains(&format!("/{known}/")))
        .copied()
}

/// Files and folders that are obeyed, in small letters.
const OBEYED: &[&str] = &[
    "claude.md",
    "agents.md",
    "gemini.md",
    ".mcp.json",
    "mcp.json",
    ".claude",
    ".cursor",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".github/copilot-instructions.md",
    ".github/workflows",
    ".vscode",
    ".idea",
    ".git",
    ".githooks",
    ".husky",
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".pypirc",
    ".devcontainer",
    ".gitconfig",
    ".gitattributes",
    "sitecustomize.py",
    "usercustomize.py",
    "conftest.py",
    ".bashrc",
    ".zshrc",
    ".profile",
];

/// Paths of one skill that are easily taken for each other.
fn look_alike_paths<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Remark> {
    let alike = names::groups(paths, names::path_looks);
    let remark = |(path, other, more): (&str, &str, usize)| {
        let mut sheet = Sheet::placeless();
        sheet.add(Check::LookAlikePath, None, || names::told(other, more));
        sheet.into_remarks(path, "")
    };
    alike.into_iter().flat_map(remark).collect()
}
