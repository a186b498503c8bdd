//! Directories of a skill, read off its manifest (S-38 … S-41, P-5, H-41).

use std::collections::BTreeMap;

use super::entry::SkillEntry;
use super::set::Resource;
use super::uri::SKILL_FILE;

/// A direct child of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Child<'a> {
    /// A file of the skill.
    File(&'a Resource),
    /// A directory below: its URI as the origin spells it.
    Directory(String),
}

/// The direct children of `directory`, in byte order of their URIs; none when it is no directory of the skill.
///
/// A file never doubles as a directory, and a trailing slash names nothing (S-39, S-46).
pub fn children<'a>(entry: &'a SkillEntry, directory: &str) -> Option<Vec<Child<'a>>> {
    let mut children = BTreeMap::new();
    for resource in entry.resources().iter() {
        let below = resource
            .uri
            .as_str()
            .strip_prefix(directory)
            .and_then(|rest| rest.strip_prefix('/'));
        match below.map(|rest| rest.split_once('/')) {
            None => {}
            Some(None) => drop(children.insert(resource.uri.to_string(), Child::File(resource))),
            Some(Some((name, _))) => {
                let uri = format!("{directory}/{name}");
                children.entry(uri.clone()).or_insert(Child::Directory(uri));
            }
        }
    }
    let inside = directory == entry.uri().root()
        || directory
            .strip_prefix(entry.uri().root())
            .is_some_and(|rest| rest.starts_with('/'));
    (inside && !children.is_empty()).then(|| children.into_values().collect())
}

/// A file's type by its name, where its origin was not asked yet.
pub fn mime_type(file_name: &str) -> Option<&'static str> {
    if file_name == SKILL_FILE {
        return Some("text/markdown");
    }
    let (_, extension) = file_name.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "md" | "markdown" => "text/markdown",
        "txt" | "log" => "text/plain",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "py" => "text/x-python",
        "sh" => "application/x-sh",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Digest;
    use crate::domain::Limits;

    fn entry(files: &[&str]) -> SkillEntry {
        let digest = Digest::of(b"");
        let list: Vec<_> = files
            .iter()
            .map(|file| format!(r#"{{"uri":"skill://x/demo/{file}","digest":"{digest}","size":0}}"#))
            .collect();
        let text = format!(
            r#"{{"uri":"skill://x/demo/SKILL.md","frontmatter":{{"name":"demo","description":"d"}},"resources":[{}]}}"#,
            list.join(",")
        );
        SkillEntry::parse(&text, &Limits::default()).unwrap()
    }

    fn names(entry: &SkillEntry, directory: &str) -> Option<Vec<String>> {
        let name = |child: Child<'_>| match child {
            Child::File(resource) => resource.uri.file_name().to_owned(),
            Child::Directory(uri) => format!("{}/", uri.rsplit('/').next().unwrap()),
        };
        children(entry, directory).map(|children| children.into_iter().map(name).collect())
    }

    #[test]
    fn only_direct_children_are_shown() {
        let entry = entry(&["scripts/deep/a.sh", "SKILL.md", "scripts/b.sh", "scripts-x/c", "b.txt"]);
        assert_eq!(
            names(&entry, "skill://x/demo").unwrap(),
            ["SKILL.md", "b.txt", "scripts/", "scripts-x/"]
        );
        assert_eq!(names(&entry, "skill://x/demo/scripts").unwrap(), ["b.sh", "deep/"]);
    }

    #[test]
    fn what_is_no_directory_of_the_skill_is_none() {
        let entry = entry(&["SKILL.md", "a/b"]);
        for uri in [
            "skill://x",
            "skill://x/demo/",
            "skill://x/demo/SKILL.md",
            "skill://x/demo/a/b",
            "skill://x/dem",
            "skill://x/demo/none",
            "skill://y/demo",
            "",
        ] {
            assert_eq!(names(&entry, uri), None, "{uri}");
        }
    }
}
