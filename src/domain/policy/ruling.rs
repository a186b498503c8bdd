//! What a policy means for one set: a rule approves it, it waits, or people decide.
//!
//! One function for the gateway, for `policy explain` and for `policy test`. What it is told are [`Facts`], so that nothing
//! here asks a clock or a disk; a fact that is not known never speaks for the set.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Policy;
use super::Source;
use super::Trust;
use crate::domain::entry::SkillEntry;
use crate::domain::inspect::Remark;
use crate::domain::inspect::Severity;
use crate::domain::set::Resource;
use crate::domain::uri::decoded;
use crate::domain::verify::VerifiedFile;

/// Ends of file names, after the last dot and in lower case, of what is run or told to a program that runs it.
const EXECUTABLE_ENDS: &[&str] = &[
    "apk",
    "app",
    "appimage",
    "applescript",
    "awk",
    "bash",
    "bat",
    "bin",
    "cgi",
    "cjs",
    "class",
    "cmd",
    "com",
    "command",
    "cpl",
    "csh",
    "cts",
    "deb",
    "dll",
    "dmg",
    "dylib",
    "elf",
    "exe",
    "expect",
    "fish",
    "gadget",
    "go",
    "groovy",
    "hta",
    "ipynb",
    "jar",
    "js",
    "jse",
    "jsx",
    "ksh",
    "lnk",
    "lua",
    "mjs",
    "msi",
    "mts",
    "node",
    "nu",
    "out",
    "php",
    "pif",
    "pkg",
    "pl",
    "plx",
    "pm",
    "ps1",
    "psd1",
    "psm1",
    "py",
    "pyc",
    "pyo",
    "pyw",
    "pyz",
    "r",
    "rb",
    "reg",
    "rpm",
    "run",
    "scpt",
    "scr",
    "sh",
    "so",
    "sql",
    "swift",
    "tcl",
    "ts",
    "tsx",
    "vb",
    "vbe",
    "vbs",
    "war",
    "wasm",
    "whl",
    "workflow",
    "wsf",
    "wsh",
    "zsh",
];

/// Whole file names, in lower case, of what is run or told to a program that runs it.
const EXECUTABLE_NAMES: &[&str] = &[
    "build.xml",
    "cmakelists.txt",
    "configure",
    "dockerfile",
    "gemfile",
    "gradlew",
    "jenkinsfile",
    "justfile",
    "makefile",
    "mvnw",
    "package.json",
    "procfile",
    "pyproject.toml",
    "rakefile",
    "vagrantfile",
];

/// Directories, in lower case, whose files are there to be run.
const EXECUTABLE_DIRECTORIES: &[&str] = &["bin", "script", "scripts"];

/// What has to be true of a set that a rule approves. All of it; nothing, where nothing is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// Name and description are those of the set last approved.
    pub same_name_and_description: bool,
    /// No file that the set last approved lacks is a script or a program, by its name.
    pub no_new_executables: bool,
    /// The most files that the set last approved lacks.
    pub max_new_files: Option<u64>,
    /// The most bytes in files that the set last approved lacks, or has with other bytes.
    pub max_new_bytes: Option<u64>,
    /// Every file is UTF-8 without control characters but tabs and ends of lines.
    pub text_only: bool,
    /// No file begins with `#!`.
    pub no_shebang: bool,
    /// The most that any remark on the entry or a file may weigh; none where it does not matter.
    pub max_severity: Option<MaxSeverity>,
}

/// The most that a remark may weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MaxSeverity {
    /// There may be no remark at all.
    None,
    /// Notes are let through.
    Note,
    /// Warnings too.
    Warning,
}

/// What is known of a set that nobody decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How long it has been seen without a break.
    pub seen_for: Duration,
    /// Why no rule may approve it, whatever rules say.
    pub barred: Option<Barred>,
    /// What differs from the set last approved; none when that set is not stored, so that nothing can be compared.
    pub change: Option<Change>,
    /// What its files are; none until every one of them is stored and checked.
    pub content: Option<Content>,
}

/// Why no rule may approve a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// A person denied it.
    Denied,
    /// A person took an approval of the skill back, and nobody has approved one since.
    Revoked,
    /// An approval of it ended by itself; whether it should go on is a person's to say.
    Expired,
    /// One of its files is recalled.
    Recalled,
    /// The origin sends no sizes, and no pull measured them.
    Unmeasured,
    /// The label's address is not accepted.
    AddressMoved,
    /// The origin does not serve it now, or its entry now breaks a rule.
    Gone,
}

/// What differs between a set and the one last approved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether no set of the skill was ever approved: then every file is new.
    pub first: bool,
    /// Whether the name differs.
    pub name_changed: bool,
    /// Whether the description differs.
    pub description_changed: bool,
    /// The files that the other set lacks, below the skill's directory.
    pub added: Vec<String>,
    /// The bytes in files that the other set lacks, or has with other bytes.
    pub new_bytes: u64,
}

/// What the files of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Whether every file is text.
    pub text_only: bool,
    /// Whether no file begins with `#!`.
    pub no_shebang: bool,
    /// What the weightiest remark on the entry or a file weighs, if there is any.
    pub worst: Option<Severity>,
}

/// What a policy says of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// A rule approves it.
    Approve(Source),
    /// A person has to decide.
    Review(Review),
    /// It is too early to say; the question is asked again by itself.
    Wait(Wait),
    /// It is never served.
    Deny,
}

/// Why a person has to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Review {
    /// No rule approves anything here.
    ByPolicy,
    /// No rule may approve this set.
    Barred(Barred),
    /// A condition does not hold.
    Unmet(Unmet),
}

/// Which condition does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The set last approved is not stored.
    NothingToCompare,
    /// No set was ever approved, so that neither name nor description can be the same.
    FirstSet,
    /// The name differs.
    NameChanged,
    /// The description differs.
    DescriptionChanged,
    /// A new file is a script or a program, by its name.
    NewExecutable(String),
    /// Too many files are new.
    NewFiles(u64),
    /// Too many bytes are new.
    NewBytes(u64),
    /// A file is not text.
    NotText,
    /// A file begins with `#!`.
    Shebang,
    /// A remark weighs more than it may.
    Remark(Severity),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The rest of `hold`.
    Hold(Duration),
    /// Every file to be stored: nobody fetches them but readers and a pull.
    NotStored,
}

impl Policy {
    /// What this says of a set.
    pub fn ruling(&self, facts: &Facts) -> Ruling {
        match self.trust {
            Trust::Deny => return Ruling::Deny,
            Trust::Review => return Ruling::Review(Review::ByPolicy),
            Trust::Auto => {}
        }
        if let Some(barred) = facts.barred {
            return Ruling::Review(Review::Barred(barred));
        }
        let unmet = self.auto.unmet_by_manifest(facts.change.as_ref());
        let unmet = unmet.or_else(|| self.auto.unmet_by_content(facts.content?));
        if let Some(unmet) = unmet {
            return Ruling::Review(Review::Unmet(unmet));
        }
        match self.hold.checked_sub(facts.seen_for) {
            Some(rest) if !rest.is_zero() => return Ruling::Wait(Wait::Hold(rest)),
            Some(_) | None => {}
        }
        if self.auto.is_about_content() && facts.content.is_none() {
            return Ruling::Wait(Wait::NotStored);
        }
        Ruling::Approve(self.source.clone())
    }
}

impl Conditions {
    /// Says whether files have to be looked into.
    pub fn is_about_content(&self) -> bool {
        self.text_only || self.no_shebang || self.max_severity.is_some()
    }

    fn is_about_change(&self) -> bool {
        self.same_name_and_description
            || self.no_new_executables
            || self.max_new_files.is_some()
            || self.max_new_bytes.is_some()
    }

    fn unmet_by_manifest(&self, change: Option<&Change>) -> Option<Unmet> {
        if !self.is_about_change() {
            return None;
        }
        let Some(change) = change else {
            return Some(Unmet::NothingToCompare);
        };
        let added = u64::try_from(change.added.len()).unwrap_or(u64::MAX);
        let program = || change.added.iter().find(|path| is_executable(path));
        if self.same_name_and_description {
            if change.first {
                return Some(Unmet::FirstSet);
            }
            if change.name_changed {
                return Some(Unmet::NameChanged);
            }
            if change.description_changed {
                return Some(Unmet::DescriptionChanged);
            }
        }
        if let Some(path) = program().filter(|_| self.no_new_executables) {
            return Some(Unmet::NewExecutable(path.clone()));
        }
        if self.max_new_files.is_some_and(|max| added > max) {
            return Some(Unmet::NewFiles(added));
        }
        let too_many = self.max_new_bytes.is_some_and(|max| change.new_bytes > max);
        too_many.then_some(Unmet::NewBytes(change.new_bytes))
    }

    fn unmet_by_content(&self, content: Content) -> Option<Unmet> {
        if self.text_only && !content.text_only {
            return Some(Unmet::NotText);
        }
        if self.no_shebang && !content.no_shebang {
            return Some(Unmet::Shebang);
        }
        let most = match self.max_severity? {
            MaxSeverity::None => None,
            MaxSeverity::Note => Some(Severity::Note),
            MaxSeverity::Warning => Some(Severity::Warning),
        };
        content.worst.filter(|_| content.worst > most).map(Unmet::Remark)
    }
}

impl Change {
    /// What differs between `before`, the set last approved if one ever was, and `after`.
    pub fn between(before: Option<&SkillEntry>, after: &SkillEntry) -> Self {
        let root = format!("{}/", after.uri().root());
        let path = |resource: &Resource| {
            let uri = resource.uri.as_str();
            uri.strip_prefix(&root).unwrap_or(uri).to_owned()
        };
        let known = |resource: &&Resource| before.and_then(|before| before.resources().get(resource.uri.as_str()));
        let is_added = |resource: &&Resource| known(resource).is_none();
        let is_new = |resource: &&Resource| known(resource).is_none_or(|known| known.digest != resource.digest);
        let files = || after.resources().iter();
        Self {
            first: before.is_none(),
            name_changed: before.is_some_and(|before| before.name() != after.name()),
            description_changed: before.is_some_and(|before| before.description() != after.description()),
            added: files().filter(is_added).map(path).collect(),
            new_bytes: files()
                .filter(is_new)
                .map(|resource| resource.size)
                .fold(0, u64::saturating_add),
        }
    }
}

impl Content {
    /// What is true of a set without files.
    pub const NOTHING: Self = Self {
        text_only: true,
        no_shebang: true,
        worst: None,
    };

    /// The same with one more file, which was verified.
    #[must_use]
    pub fn and(self, file: &VerifiedFile) -> Self {
        self.and_bytes(file.bytes())
    }

    /// The same with what there is to look at in the entry or in a file.
    #[must_use]
    pub fn and_remarks(self, remarks: &[Remark]) -> Self {
        let worst = remarks.iter().map(|remark| remark.check.severity()).max();
        Self {
            worst: self.worst.max(worst),
            ..self
        }
    }

    fn and_bytes(self, bytes: &[u8]) -> Self {
        let bytes_of_text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        Self {
            text_only: self.text_only && is_text(bytes),
            no_shebang: self.no_shebang && !bytes_of_text.starts_with(b"#!"),
            ..self
        }
    }
}

fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| {
        let lines = text.replace("\r\n", "\n");
        lines.chars().all(|c| matches!(c, '\t' | '\n') || !c.is_control())
    })
}

/// Says whether a file is run, or told to a program that runs it, as far as its path says so. The path is read as programs
/// read it: without escapes, and in any case.
fn is_executable(path: &str) -> bool {
    let path = decoded(path).to_lowercase();
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    EXECUTABLE_ENDS.contains(&end)
        || EXECUTABLE_NAMES.contains(&name)
        || directories
            .split('/')
            .any(|part| EXECUTABLE_DIRECTORIES.contains(&part))
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approve(source) => write!(f, "approved by {source}"),
            Self::Review(Review::ByPolicy) => f.write_str("waits for people"),
            Self::Review(Review::Barred(why)) => write!(f, "waits for people, since {why}"),
            Self::Review(Review::Unmet(unmet)) => write!(f, "waits for people, since {unmet}"),
            Self::Wait(Wait::Hold(rest)) => write!(f, "waits {} more", humantime::format_duration(*rest)),
            Self::Wait(Wait::NotStored) => f.write_str("waits until every file is stored and checked (pull)"),
            Self::Deny => f.write_str("never served"),
        }
    }
}

impl Ruling {
    /// One word for it: `approve`, `review`, `wait` or `deny`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Approve(_) => "approve",
            Self::Review(_) => "review",
            Self::Wait(_) => "wait",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "a person denied this set",
            Self::Revoked => "a person took its approval back and none has approved it since",
            Self::Expired => "its approval ended by itself",
            Self::Recalled => "one of its files is recalled",
            Self::Unmeasured => "its origin sends no sizes and no pull measured them",
            Self::AddressMoved => "its origin's address is not accepted",
            Self::Gone => "its origin does not serve it as it was seen",
        })
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToCompare => f.write_str("the set last approved is not stored"),
            Self::FirstSet => f.write_str("no set of it was ever approved"),
            Self::NameChanged => f.write_str("its name changed"),
            Self::DescriptionChanged => f.write_str("its description changed"),
            Self::NewExecutable(path) => write!(f, "the new file {path:?} has a script's or program's name"),
            Self::NewFiles(count) => write!(f, "{count} files are new"),
            Self::NewBytes(bytes) => write!(f, "{bytes} bytes are new"),
            Self::NotText => f.write_str("a file is not text"),
            Self::Shebang => f.write_str("a file begins with #!"),
            Self::Remark(severity) => write!(f, "a reviewer should look at something that weighs {severity}"),
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |name: &str, is_set: bool| is_set.then(|| format!("{name} = true"));
        let number = |name: &str, max: Option<u64>| max.map(|max| format!("{name} = {max}"));
        let written: Vec<String> = [
            flag("same_name_and_description", self.same_name_and_description),
            flag("no_new_executables", self.no_new_executables),
            number("max_new_files", self.max_new_files),
            number("max_new_bytes", self.max_new_bytes),
            flag("text_only", self.text_only),
            flag("no_shebang", self.no_shebang),
        ]
        .into_iter()
        .flatten()
        .collect();
        if written.is_empty() {
            f.write_str("{}")
        } else {
            write!(f, "{{ {} }}", written.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::Digest;
    use crate::domain::Limits;

    fn auto(conditions: Conditions) -> Policy {
        Policy {
            trust: Trust::Auto,
            source: Source::Policy,
            auto: conditions,
            ..Policy::default()
        }
    }

    fn known() -> Facts {
        Facts {
            seen_for: Duration::ZERO,
            barred: None,
            change: Some(Change::default()),
            content: Some(Content::NOTHING),
        }
    }

    fn entry(description: &str, files: &[(&str, &[u8])]) -> SkillEntry {
        let resources: Vec<_> = files
            .iter()
            .map(|(path, bytes)| {
                json!({ "uri": format!("skill://a/{path}"), "digest": Digest::of(bytes).to_string(), "size": bytes.len() })
            })
            .collect();
        let entry = json!({
            "uri": "skill://a/SKILL.md",
            "frontmatter": { "name": "a", "description": description },
            "resources": resources,
        });
        SkillEntry::parse(&entry.to_string(), &Limits::default()).unwrap()
    }

    fn unmet(conditions: Conditions, change: Change) -> Option<Unmet> {
        let facts = Facts {
            change: Some(change),
            ..known()
        };
        match auto(conditions).ruling(&facts) {
            Ruling::Review(Review::Unmet(unmet)) => Some(unmet),
            Ruling::Approve(_) => None,
            other @ (Ruling::Review(_) | Ruling::Wait(_) | Ruling::Deny) => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_is_not_told_to_trust_a_rule_asks_people() {
        let policy = |trust| Policy {
            trust,
            ..auto(Conditions::default())
        };
        assert_eq!(policy(Trust::Review).ruling(&known()), Ruling::Review(Review::ByPolicy));
        assert_eq!(policy(Trust::Deny).ruling(&known()), Ruling::Deny);
        assert_eq!(policy(Trust::Auto).ruling(&known()), Ruling::Approve(Source::Policy));
    }

    #[test]
    fn no_rule_approves_what_is_barred() {
        for barred in [
            Barred::Denied,
            Barred::Revoked,
            Barred::Expired,
            Barred::Recalled,
            Barred::Unmeasured,
            Barred::AddressMoved,
            Barred::Gone,
        ] {
            let facts = Facts {
                barred: Some(barred),
                ..known()
            };
            let ruling = auto(Conditions::default()).ruling(&facts);
            assert_eq!(ruling, Ruling::Review(Review::Barred(barred)));
        }
    }

    #[test]
    fn each_condition_on_the_manifest_is_asked_for_by_itself() {
        let same = Conditions {
            same_name_and_description: true,
            ..Conditions::default()
        };
        let programs = Conditions {
            no_new_executables: true,
            ..Conditions::default()
        };
        let files = Conditions {
            max_new_files: Some(1),
            ..Conditions::default()
        };
        let bytes = Conditions {
            max_new_bytes: Some(10),
            ..Conditions::default()
        };
        let change = |description_changed, added: &[&str], new_bytes| Change {
            description_changed,
            added: added.iter().map(|path| (*path).to_owned()).collect(),
            new_bytes,
            ..Change::default()
        };
        let worst = change(true, &["a.sh", "b.md"], 11);
        assert_eq!(unmet(Conditions::default(), worst.clone()), None);
        assert_eq!(unmet(same.clone(), worst.clone()), Some(Unmet::DescriptionChanged));
        assert_eq!(
            unmet(programs.clone(), worst.clone()),
            Some(Unmet::NewExecutable("a.sh".to_owned()))
        );
        assert_eq!(unmet(files.clone(), worst.clone()), Some(Unmet::NewFiles(2)));
        assert_eq!(unmet(bytes.clone(), worst), Some(Unmet::NewBytes(11)));
        let best = change(false, &["b.md"], 10);
        for conditions in [same.clone(), programs, files, bytes] {
            assert_eq!(unmet(conditions, best.clone()), None);
        }
        let renamed = Change {
            name_changed: true,
            ..best
        };
        assert_eq!(unmet(same, renamed), Some(Unmet::NameChanged));
    }

    #[test]
    fn a_first_set_is_compared_with_nothing() {
        let first = Change::between(None, &entry("d", &[("SKILL.md", b"# A"), ("notes.md", b"12345")]));
        assert_eq!((first.first, first.added.len(), first.new_bytes), (true, 2, 8));
        let asks = |conditions| unmet(conditions, first.clone());
        let same_name_and_description = Conditions {
            same_name_and_description: true,
            ..Conditions::default()
        };
        assert_eq!(asks(same_name_and_description), Some(Unmet::FirstSet));
        let max_new_files = |max| Conditions {
            max_new_files: Some(max),
            ..Conditions::default()
        };
        assert_eq!(asks(max_new_files(1)), Some(Unmet::NewFiles(2)));
        assert_eq!(asks(max_new_files(2)), None);
    }

    #[test]
    fn what_is_new_is_told_by_names_and_digests() {
        let before = entry("d", &[("SKILL.md", b"# A"), ("gone.md", b"1"), ("same.md", b"2")]);
        let after = entry("e", &[("SKILL.md", b"# AB"), ("same.md", b"2"), ("x/new.md", b"123")]);
        let change = Change::between(Some(&before), &after);
        assert_eq!(
            change,
            Change {
                first: false,
                name_changed: false,
                description_changed: true,
                added: vec!["x/new.md".to_owned()],
                new_bytes: 7,
            }
        );
    }

    #[test]
    fn nothing_to_compare_with_speaks_for_no_set() {
        let facts = Facts {
            change: None,
            ..known()
        };
        let few = Conditions {
            max_new_files: Some(9),
            ..Conditions::default()
        };
        assert_eq!(
            auto(few).ruling(&facts),
            Ruling::Review(Review::Unmet(Unmet::NothingToCompare))
        );
        let asks_nothing = auto(Conditions::default()).ruling(&facts);
        assert_eq!(asks_nothing.word(), "approve");
    }

    #[test]
    fn a_set_is_held_for_a_while_and_until_its_files_can_be_looked_into() {
        let hour = Duration::from_secs(3600);
        let policy = Policy {
            hold: hour,
            ..auto(Conditions {
                text_only: true,
                ..Conditions::default()
            })
        };
        let facts = |seen_for, content| Facts {
            seen_for,
            content,
            ..known()
        };
        let early = policy.ruling(&facts(Duration::from_secs(600), None));
        assert_eq!(early, Ruling::Wait(Wait::Hold(Duration::from_secs(3000))));
        assert_eq!(policy.ruling(&facts(hour, None)), Ruling::Wait(Wait::NotStored));
        assert_eq!(policy.ruling(&facts(hour, Some(Content::NOTHING))).word(), "approve");
        let binary = Content::NOTHING.and_bytes(&[0]);
        let early = policy.ruling(&facts(Duration::ZERO, Some(binary)));
        assert_eq!(
            early,
            Ruling::Review(Review::Unmet(Unmet::NotText)),
            "waiting would not help"
        );
    }

    #[test]
    fn text_is_utf8_without_control_characters() {
        for (bytes, text_only, no_shebang) in [
            (&b"# A\n\tb\r\nc"[..], true, true),
            (b"", true, true),
            ("é 数".as_bytes(), true, true),
            (b"a\rb", false, true),
            (b"a\x1b[2J", false, true),
            (b"\xff\xfe", false, true),
            (b"a\0", false, true),
            ("\u{85}".as_bytes(), false, true),
            (b"#!/bin/sh\n", true, false),
            ("\u{feff}#!/bin/sh\n".as_bytes(), true, false),
        ] {
            let content = Content::NOTHING.and_bytes(bytes);
            assert_eq!(
                (content.text_only, content.no_shebang),
                (text_only, no_shebang),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn scripts_and_programs_are_known_by_their_names_however_those_are_written() {
        for path in [
            "run.sh",
            "a/b/RUN.PY",
            "x.tar.exe",
            "run.s%68",
            "Makefile",
            "scripts/notes.md",
            "a/Bin/tool",
            "%73cripts/x",
        ] {
            assert!(is_executable(path), "{path}");
        }
        for path in [
            "SKILL.md",
            "references/limits.md",
            "assets/form.pdf",
            "sh",
            "run.sh.md",
            "scripts.md",
            "a%zz",
        ] {
            assert!(!is_executable(path), "{path}");
        }
    }
}
