//! What a folder needs to be published as a skill: it is read leniently, and published strictly (S-4 … S-9, S-16).
//!
//! Nothing is published that hosts, or our own verifier, would refuse (H-32, H-33). What is left out is told of by file, line
//! and rule, with what puts it right.

use thiserror::Error;

use super::entry::MAX_DESCRIPTION_CHARS;
use super::entry::MAX_NAME_CHARS;
use super::entry::is_skill_name;
use super::frontmatter;
use super::frontmatter::FrontmatterMismatch;
use super::frontmatter::FrontmatterPolicy;
use super::json::Json;
use super::limits::MAX_FRONTMATTER_BYTES;
use super::uri::SKILL_FILE;

/// Values that are quoted, one after the other, to find out whether that makes a file readable.
const MAX_QUOTED: usize = 16;

/// Why something in a folder is not published, and what puts it right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}{}: {problem}; {fix}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct Unpublishable {
    /// The file or folder, relative to the root.
    pub file: String,
    /// The line in it, from 1, where one is at fault.
    pub line: Option<usize>,
    /// The rule that is broken.
    pub rule: PublishRule,
    /// How.
    pub problem: String,
    /// What to do.
    pub fix: String,
}

/// A rule for what is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PublishRule {
    /// `SKILL.md` is spelled that way (S-5).
    FileName,
    /// A skill has a folder below the root (S-8).
    SkillAtRoot,
    /// The frontmatter stands between two lines `---`, is UTF-8 and has no control characters (S-6).
    Frontmatter,
    /// The frontmatter is YAML.
    Yaml,
    /// The frontmatter would be YAML if a value were quoted.
    UnquotedValue,
    /// Every host reads the frontmatter alike: no key twice, no odd tags or keys, no merge keys, no bombs (H-32).
    OneReading,
    /// There is a name, of up to 64 lower-case letters, digits and single inner hyphens (S-9).
    Name,
    /// The name is that of the folder (S-8, S-17).
    NameDiffers,
    /// There is a description of 1 to 1024 characters (S-6).
    Description,
    /// Nothing in a skill is a symbolic link.
    Link,
    /// Everything in a skill is a file or a folder.
    SpecialFile,
    /// Names are UTF-8.
    NotUtf8,
    /// No two names in a folder are one to a file system that ignores case, or how accents are written.
    SameFile,
    /// A project's skills are published once the operator trusts it.
    Untrusted,
    /// A skill's folders can all be looked at within the bounds.
    Bounds,
}

impl PublishRule {
    /// Its id, which does not change.
    pub fn id(self) -> &'static str {
        match self {
            Self::FileName => "file-name",
            Self::SkillAtRoot => "skill-at-root",
            Self::Frontmatter => "frontmatter",
            Self::Yaml => "yaml",
            Self::UnquotedValue => "unquoted-value",
            Self::OneReading => "one-reading",
            Self::Name => "name",
            Self::NameDiffers => "name-differs",
            Self::Description => "description",
            Self::Link => "link",
            Self::SpecialFile => "special-file",
            Self::NotUtf8 => "not-utf8",
            Self::SameFile => "same-file",
            Self::Untrusted => "untrusted",
            Self::Bounds => "bounds",
        }
    }
}

/// The frontmatter to publish for the skill in `folder`, a path relative to the root, whose `SKILL.md` is `file`. Every
/// host that reads YAML finds the same in the file.
///
/// # Errors
///
/// [`Unpublishable`] with the first rule that is broken.
pub fn frontmatter_of(folder: &str, file: &[u8]) -> Result<Json, Unpublishable> {
    let skill = Skill { folder, file };
    let read = frontmatter::read(file).map_err(|why| skill.unreadable(&why))?;
    skill.check_name(&read)?;
    skill.check_description(&read)?;
    match frontmatter::compare(file, &read, FrontmatterPolicy::Strict) {
        Ok(_) => Ok(read),
        Err(why) => Err(skill.unreadable(&why)),
    }
}

/// The `SKILL.md` of the skill in `folder` with what can be put right without a doubt: values in quotes that need them, the
/// folder's name, and an end of its last line. None where there is nothing to put right.
pub fn mended(folder: &str, file: &[u8]) -> Option<Vec<u8>> {
    let mut text = str::from_utf8(file).ok()?.to_owned();
    for _ in 0..MENDS {
        let skill = Skill {
            folder,
            file: text.as_bytes(),
        };
        let Err(why) = frontmatter_of(folder, text.as_bytes()) else {
            break;
        };
        let lines = match why.rule {
            PublishRule::UnquotedValue => skill.quoted_lines(),
            PublishRule::Name | PublishRule::NameDiffers => skill.name_line().into_iter().collect(),
            PublishRule::FileName
            | PublishRule::SkillAtRoot
            | PublishRule::Frontmatter
            | PublishRule::Yaml
            | PublishRule::OneReading
            | PublishRule::Description
            | PublishRule::Link
            | PublishRule::SpecialFile
            | PublishRule::NotUtf8
            | PublishRule::SameFile
            | PublishRule::Untrusted
            | PublishRule::Bounds => break,
        };
        text = with_lines(&text, &lines);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    (text.as_bytes() != file).then(|| text.into_bytes())
}

/// How many rules one file may break that are mended.
const MENDS: usize = 3;

/// The text with other lines at these numbers; what stands before a line's first word, and how it ends, stays.
fn with_lines(text: &str, others: &[(usize, String)]) -> String {
    let lines = (1..).zip(text.split_inclusive('\n'));
    let mended = lines.map(|(number, line)| match others.iter().find(|(at, _)| *at == number) {
        Some((_, other)) => {
            let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
            let end = rest.get(rest.trim_end().len()..).unwrap_or_default();
            format!("{indent}{other}{end}")
        }
        None => line.to_owned(),
    });
    mended.collect()
}

/// A skill that is looked at.
struct Skill<'s> {
    folder: &'s str,
    file: &'s [u8],
}

impl Skill<'_> {
    fn check_name(&self, frontmatter: &Json) -> Result<(), Unpublishable> {
        let line = self.line_of("name");
        let segment = self.folder.rsplit('/').next().unwrap_or_default();
        let name = match frontmatter.get("name") {
            Some(Json::String(name)) => name,
            None => {
                let fix = format!("write name: {segment}");
                return Err(self.broken(PublishRule::Name, line, "it has no name".to_owned(), fix));
            }
            Some(other) => {
                let (problem, fix) = (not_text("name", other), "put its value in double quotes".to_owned());
                return Err(self.broken(PublishRule::Name, line, problem, fix));
            }
        };
        if !is_skill_name(name) {
            let problem = format!(
                "the name {name:?} is not up to {MAX_NAME_CHARS} lower-case letters, digits and single inner hyphens"
            );
            let fix = "give it such a name, and the folder the same one".to_owned();
            return Err(self.broken(PublishRule::Name, line, problem, fix));
        }
        if name != segment {
            let problem = format!("the name is {name:?} and the folder is called {segment:?}");
            let fix = if is_skill_name(segment) {
                format!("rename the folder to {name}, or write name: {segment}")
            } else {
                format!("rename the folder to {name}")
            };
            return Err(self.broken(PublishRule::NameDiffers, line, problem, fix));
        }
        Ok(())
    }

    fn check_description(&self, frontmatter: &Json) -> Result<(), Unpublishable> {
        let line = self.line_of("description");
        let broken =
            |problem: String, fix: &str| Err(self.broken(PublishRule::Description, line, problem, fix.to_owned()));
        let say_it = "say in it what the skill does and when to use it";
        match frontmatter.get("description") {
            None => broken("it has no description".to_owned(), say_it),
            Some(Json::String(text)) if text.trim().is_empty() => broken("the description is empty".to_owned(), say_it),
            Some(Json::String(text)) => match text.chars().count() {
                ..=MAX_DESCRIPTION_CHARS => Ok(()),
                chars => broken(
                    format!("the description has {chars} characters, over the {MAX_DESCRIPTION_CHARS} of the format"),
                    "shorten it, and say the rest below the frontmatter",
                ),
            },
            Some(other) => broken(not_text("description", other), "put its value in double quotes"),
        }
    }

    fn unreadable(&self, why: &FrontmatterMismatch) -> Unpublishable {
        let (rule, line, fix) = match why {
            FrontmatterMismatch::NoOpeningFence => (
                PublishRule::Frontmatter,
                Some(1),
                "begin it with a line ---, a name, a description and a second line ---",
            ),
            FrontmatterMismatch::NotClosed => (
                PublishRule::Frontmatter,
                None,
                "write a line --- below the last field of the frontmatter",
            ),
            FrontmatterMismatch::TooLarge => (
                PublishRule::Frontmatter,
                None,
                "move what is long below the frontmatter",
            ),
            FrontmatterMismatch::NotUtf8 { line } => (PublishRule::Frontmatter, Some(*line), "save the file as UTF-8"),
            FrontmatterMismatch::ControlCharacter { line } => {
                (PublishRule::Frontmatter, Some(*line), "take the character out")
            }
            FrontmatterMismatch::InvalidYaml { line, .. } => return self.not_yaml(*line, why),
            FrontmatterMismatch::NotAMapping => (PublishRule::Yaml, None, "write fields as name: value"),
            FrontmatterMismatch::DuplicateKey { line, .. } => {
                (PublishRule::OneReading, Some(*line), "keep one of the two")
            }
            FrontmatterMismatch::NonStringKey { line } => {
                (PublishRule::OneReading, Some(*line), "put the key in double quotes")
            }
            FrontmatterMismatch::UnknownTag { line, .. } => (PublishRule::OneReading, Some(*line), "take the tag out"),
            FrontmatterMismatch::SeveralDocuments { line } => {
                (PublishRule::OneReading, Some(*line), "keep one document")
            }
            FrontmatterMismatch::Bomb { line, .. } => {
                (PublishRule::OneReading, Some(*line), "write it out, and less of it")
            }
            FrontmatterMismatch::MergeKey { line } => {
                (PublishRule::OneReading, Some(*line), "write the merged fields out")
            }
            FrontmatterMismatch::Unrepresentable { line, .. } | FrontmatterMismatch::Differs { line, .. } => {
                (PublishRule::OneReading, Some(*line), "put the value in double quotes")
            }
        };
        self.broken(rule, line, why.to_string(), fix.to_owned())
    }

    /// What is wrong with YAML that no parser reads. Where quotes alone would help, the line is shown with them: the file
    /// is not read as if it had them, since hosts would not read it so.
    fn not_yaml(&self, line: usize, why: &FrontmatterMismatch) -> Unpublishable {
        let quoted = self.quoted_lines();
        let Some(((line, shown), others)) = quoted.split_first() else {
            let fix = "put it right, or put the value in double quotes".to_owned();
            return self.broken(PublishRule::Yaml, Some(line), why.to_string(), fix);
        };
        let mut fix = format!("write {shown}");
        for (line, shown) in others {
            fix.push_str(&format!(" and, in line {line}, {shown}"));
        }
        let problem = "the frontmatter is not valid YAML, since a value that needs quotes has none".to_owned();
        self.broken(PublishRule::UnquotedValue, Some(*line), problem, fix)
    }

    /// The lines that have to be written with quotes for the frontmatter to be YAML, by their numbers; none where that does
    /// not help.
    fn quoted_lines(&self) -> Vec<(usize, String)> {
        let start = self.file.get(..MAX_FRONTMATTER_BYTES).unwrap_or(self.file);
        let start = String::from_utf8_lossy(start);
        let mut lines: Vec<String> = start.split_inclusive('\n').map(str::to_owned).collect();
        let closing = lines.iter().skip(1).position(|line| line.trim_end() == "---");
        lines.truncate(closing.map_or(lines.len(), |above| above + 2));
        let mut quoted = Vec::new();
        while quoted.len() < MAX_QUOTED {
            let line = match frontmatter::read(lines.concat().as_bytes()) {
                Ok(_) => {
                    quoted.sort_unstable();
                    return quoted;
                }
                Err(FrontmatterMismatch::InvalidYaml { line, .. }) => line,
                Err(_) => break,
            };
            let near = [line, line.saturating_sub(1)].into_iter().chain(1..=lines.len());
            let found = near
                .filter_map(|number| Some((number, lines.get(number.checked_sub(1)?)?)))
                .find_map(|(number, line)| with_quotes(line).map(|made| (number, made)));
            let Some((number, made)) = found else { break };
            if let Some(line) = lines.get_mut(number - 1) {
                *line = format!("{made}\n");
            }
            quoted.push((number, made.trim_start().to_owned()));
        }
        Vec::new()
    }

    /// The line that has to be there for the name to be the folder's, by its number; none where the folder has no name that
    /// a skill could have.
    fn name_line(&self) -> Option<(usize, String)> {
        let segment = self
            .folder
            .rsplit('/')
            .next()
            .filter(|segment| is_skill_name(segment))?;
        Some((self.line_of("name")?, format!("name: {segment}")))
    }

    /// The line in which a field of the frontmatter begins.
    fn line_of(&self, key: &str) -> Option<usize> {
        let lines = (1..).zip(self.file.split(|byte| *byte == b'\n'));
        let mut inside = lines.skip(1).take_while(|(_, line)| !line.starts_with(b"---"));
        let begins = |line: &[u8]| {
            line.strip_prefix(key.as_bytes())
                .is_some_and(|rest| rest.starts_with(b":"))
        };
        inside.find(|(_, line)| begins(line)).map(|(number, _)| number)
    }

    fn broken(&self, rule: PublishRule, line: Option<usize>, problem: String, fix: String) -> Unpublishable {
        Unpublishable {
            file: format!("{}/{SKILL_FILE}", self.folder),
            line,
            rule,
            problem,
            fix,
        }
    }
}

fn not_text(field: &str, found: &Json) -> String {
    format!("the {field} is {} to YAML, where text is required", found.kind())
}

/// The line `key: value` with its value in double quotes, if the value is a plain one that YAML does not take as it is.
fn with_quotes(line: &str) -> Option<String> {
    let (key, value) = line.trim_end().split_once(": ")?;
    let value = value.trim_start();
    let needs_quotes =
        value.starts_with(|c| "@`%[]{}*&!,#".contains(c)) || value.contains(": ") || value.ends_with(':');
    let is_quoted = value.starts_with(['"', '\'', '|', '>']);
    if !needs_quotes || is_quoted || key.trim_start().is_empty() || key.contains(['"', '\'', '#']) {
        return None;
    }
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    Some(format!("{key}: \"{value}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(folder: &str, frontmatter: &str) -> Result<Json, Unpublishable> {
        frontmatter_of(folder, format!("---\n{frontmatter}---\n\nDo it.\n").as_bytes())
    }

    fn broken(frontmatter: &str) -> (&'static str, Option<usize>, String) {
        let why = published("team/demo", frontmatter).unwrap_err();
        assert_eq!(why.file, "team/demo/SKILL.md");
        (why.rule.id(), why.line, why.fix)
    }

    #[test]
    fn what_every_host_reads_alike_is_published_as_it_is() {
        let read = published(
            "team/demo",
            "name: demo\ndescription: d\nversion: 1.10\nupdated: 2026-03-05\n",
        )
        .unwrap();
        assert_eq!(read.get("updated").and_then(Json::as_str), Some("2026-03-05"));
        assert_eq!(read.get("version"), Some(&Json::Number("1.10".to_owned())));
    }

    #[test]
    fn a_value_that_needs_quotes_is_shown_with_them() {
        // case I3.
        for (written, quoted) in [
            ("Make it ready: errors", r#""Make it ready: errors""#),
            ("[action] - e.g. list", r#""[action] - e.g. list""#),
            ("@team use", r#""@team use""#),
            ("`run` it", r#""`run` it""#),
            ("%d items", r#""%d items""#),
            (r#"say "a": b"#, r#""say \"a\": b""#),
        ] {
            let (rule, line, fix) = broken(&format!("name: demo\ndescription: {written}\n"));
            assert_eq!((rule, line), ("unquoted-value", Some(3)), "{written}");
            assert_eq!(fix, format!("write description: {quoted}"));
            let put_right = fix.strip_prefix("write ").unwrap();
            published("demo", &format!("name: demo\n{put_right}\n")).unwrap();
        }
    }

    #[test]
    fn what_can_be_put_right_without_a_doubt_is_and_all_else_stays_as_it_is() {
        let broken = "---\r\nname: other # once\r\ndescription: Use it: now\r\nmetadata:\r\n  hint: [a] - b\r\n---\r\n\r\nDo it.";
        let mended = mended("team/demo", broken.as_bytes()).unwrap();
        let expected = "---\r\nname: demo\r\ndescription: \"Use it: now\"\r\nmetadata:\r\n  hint: \"[a] - b\"\r\n---\r\n\r\nDo it.\n";
        assert_eq!(String::from_utf8(mended).unwrap(), expected);
        frontmatter_of("team/demo", expected.as_bytes()).unwrap();
        assert_eq!(super::mended("team/demo", expected.as_bytes()), None);
        let loud = b"---\nname: The Demo\ndescription: d\n---\n";
        assert!(super::mended("demo", loud).unwrap().starts_with(b"---\nname: demo\n"));
        for hopeless in [
            "---\nname: demo\n---\n",
            "# Demo\n",
            "---\nname: demo\ndescription: \"d\n---\n",
        ] {
            assert_eq!(super::mended("demo", hopeless.as_bytes()), None, "{hopeless}");
        }
        assert_eq!(super::mended("demo", b"\xff"), None);
    }

    #[test]
    fn every_value_that_needs_quotes_is_shown_at_once() {
        let (rule, line, fix) = broken("name: demo\ndescription: a: b\nhint: [x] - y\n");
        assert_eq!((rule, line), ("unquoted-value", Some(3)));
        assert_eq!(fix, r#"write description: "a: b" and, in line 4, hint: "[x] - y""#);
    }

    #[test]
    fn what_breaks_a_rule_is_named_by_rule_and_line() {
        // case J2, case I7, case I9; names, descriptions and YAML that nothing helps.
        let long = format!("name: demo\ndescription: {}\n", "é".repeat(MAX_DESCRIPTION_CHARS + 1));
        for (frontmatter, rule, line) in [
            ("name: other\ndescription: d\n", "name-differs", Some(2)),
            ("description: d\n", "name", None),
            ("name: 12\ndescription: d\n", "name", Some(2)),
            ("name: Demo\ndescription: d\n", "name", Some(2)),
            ("name: demo\n", "description", None),
            ("name: demo\ndescription: ' '\n", "description", Some(3)),
            ("name: demo\ndescription: [d]\n", "description", Some(3)),
            (long.as_str(), "description", Some(3)),
            ("name: demo\ndescription: \"d\n", "yaml", Some(3)),
            ("- demo\n", "yaml", None),
            ("name: demo\nname: demo\ndescription: d\n", "one-reading", Some(3)),
            ("name: demo\ndescription: d\nlimit: .inf\n", "one-reading", Some(4)),
            (
                "a: &a {b: c}\nname: demo\ndescription: d\n<<: *a\n",
                "one-reading",
                Some(5),
            ),
        ] {
            let (found, at, _) = broken(frontmatter);
            assert_eq!((found, at), (rule, line), "{frontmatter}");
        }
        let at_the_limit = format!("name: demo\ndescription: {}\n", "é".repeat(MAX_DESCRIPTION_CHARS));
        published("demo", &at_the_limit).unwrap();
    }

    #[test]
    fn a_file_without_fences_is_told_where_they_belong() {
        for (file, line) in [
            (&b"# Demo\n"[..], Some(1)),
            (b"---\nname: demo\n", None),
            (b"", Some(1)),
        ] {
            let why = frontmatter_of("demo", file).unwrap_err();
            assert_eq!((why.rule, why.line), (PublishRule::Frontmatter, line));
        }
    }
}
