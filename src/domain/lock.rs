//! Lock files: which set of which skill, file by file, in a form that is reviewed as text and compared line by line.
//!
//! A lock file is TOML. Its order and its layout are fixed, so that the same sets make the same bytes; a parsed one has
//! sets whose ids follow from what stands beside them.

use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;
use toml::Value;

use super::digest::Digest;
use super::entry::SkillEntry;
use super::json::Json;
use super::label::Label;
use super::origin::Fingerprint;
use super::origin::SkillKey;
use super::set::Resource;
use super::set::ResourceSet;
use super::set::SetId;
use super::uri::ResourceUri;
use super::uri::SkillUri;

/// The version of the form.
const VERSION: u32 = 1;

/// Bytes of a lock file that are read.
pub const MAX_LOCK_BYTES: usize = 256 * 1024 * 1024;

/// Sets of skills, by label and URI, each skill once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    skills: Vec<LockedSkill>,
}

/// One set of one skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedSkill {
    /// Whose.
    pub key: SkillKey,
    /// The address that it was seen at, digested.
    pub address: Fingerprint,
    /// Which set.
    pub set: SetId,
    /// The frontmatter as listed, canonical JSON.
    pub frontmatter: String,
    /// The files in the byte order of their URIs.
    pub files: Vec<Resource>,
}

/// Why a text is no lock file.
#[derive(Debug, Error)]
pub enum InvalidLock {
    /// It has more than [`MAX_LOCK_BYTES`].
    #[error("it has over {MAX_LOCK_BYTES} bytes")]
    TooLong,
    /// It is not TOML of this form.
    #[error("it is no lock file")]
    Form(#[from] toml::de::Error),
    /// It is of a later version.
    #[error("it has version {0}, and only {VERSION} is known")]
    Version(u32),
    /// A skill of it is not what a gateway writes.
    #[error("{skill}: {why}")]
    Skill {
        /// The URI as it stands there.
        skill: String,
        /// What is wrong.
        why: String,
    },
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default)]
    skill: Vec<WrittenSkill>,
}

/// One table of it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSkill {
    origin: Label,
    address: Fingerprint,
    uri: SkillUri,
    set: SetId,
    frontmatter: String,
    files: Vec<String>,
}

impl Lock {
    /// Puts skills in their order.
    pub fn of(mut skills: Vec<LockedSkill>) -> Self {
        skills.sort_by(|a, b| a.key.cmp(&b.key));
        Self { skills }
    }

    /// The skills, by label and URI.
    pub fn skills(&self) -> &[LockedSkill] {
        &self.skills
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "# Made by `portcullis lock`: the files of each skill, by digest. Do not edit; `portcullis lock --check` compares.\nversion = {VERSION}\n"
        );
        for skill in &self.skills {
            text.push_str("\n[[skill]]\n");
            for (name, value) in [
                ("origin", skill.key.label.to_string()),
                ("address", skill.address.to_string()),
                ("uri", skill.key.uri.to_string()),
                ("set", skill.set.to_string()),
                ("frontmatter", skill.frontmatter.clone()),
            ] {
                text.push_str(&format!("{name} = {}\n", Value::String(value)));
            }
            text.push_str("files = [\n");
            for file in &skill.files {
                text.push_str(&format!("    {},\n", Value::String(file_line(file))));
            }
            text.push_str("]\n");
        }
        text
    }

    /// Reads a lock file.
    ///
    /// # Errors
    ///
    /// [`InvalidLock`] for anything but sets whose ids follow from their files and frontmatter.
    pub fn parse(text: &str) -> Result<Self, InvalidLock> {
        if text.len() > MAX_LOCK_BYTES {
            return Err(InvalidLock::TooLong);
        }
        let written: Written = toml::from_str(text)?;
        if written.version != VERSION {
            return Err(InvalidLock::Version(written.version));
        }
        let skills: Vec<_> = written
            .skill
            .into_iter()
            .map(LockedSkill::read)
            .collect::<Result<_, _>>()?;
        let lock = Self::of(skills);
        let mut pairs = lock.skills.windows(2);
        match pairs.find_map(|pair| match pair {
            [one, other] if one.key == other.key => Some(&one.key),
            _ => None,
        }) {
            Some(key) => Err(InvalidLock::Skill {
                skill: key.to_string(),
                why: "it stands there twice".to_owned(),
            }),
            None => Ok(lock),
        }
    }
}

impl LockedSkill {
    /// The set of an entry of `key` that was seen at an address.
    pub fn of(key: SkillKey, address: Fingerprint, entry: &SkillEntry) -> Self {
        Self {
            key,
            address,
            set: entry.set(),
            frontmatter: entry.frontmatter().canonical(),
            files: entry.resources().sorted().cloned().collect(),
        }
    }

    fn read(written: WrittenSkill) -> Result<Self, InvalidLock> {
        let uri = written.uri.to_string();
        let bad = |why: String| InvalidLock::Skill {
            skill: uri.clone(),
            why,
        };
        let files: Vec<_> = written
            .files
            .iter()
            .map(|line| read_file(line))
            .collect::<Option<_>>()
            .ok_or_else(|| bad("a file of it is not a digest, a size and a URI".to_owned()))?;
        let frontmatter = Json::parse(&written.frontmatter).map_err(|why| bad(format!("its frontmatter: {why}")))?;
        let resources = ResourceSet::new(files);
        let set = SetId::of(&written.uri, &resources, &frontmatter);
        if set != written.set {
            return Err(bad(format!(
                "its files and frontmatter make {set}, not {}",
                written.set
            )));
        }
        Ok(Self {
            key: SkillKey {
                label: written.origin,
                uri: written.uri,
            },
            address: written.address,
            set,
            frontmatter: frontmatter.canonical(),
            files: resources.sorted().cloned().collect(),
        })
    }
}

fn file_line(file: &Resource) -> String {
    format!("{} {} {}", file.digest, file.size, file.uri)
}

fn read_file(line: &str) -> Option<Resource> {
    let mut parts = line.splitn(3, ' ');
    let digest: Digest = parts.next()?.parse().ok()?;
    let size = parts.next()?.parse().ok()?;
    let uri: ResourceUri = parts.next()?.parse().ok()?;
    Some(Resource { uri, digest, size })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Limits;

    fn locked(label: &str, name: &str, description: &str) -> LockedSkill {
        let text = serde_json::json!({
            "uri": format!("skill://{name}/SKILL.md"),
            "frontmatter": { "name": name, "description": description },
            "resources": [
                { "uri": format!("skill://{name}/b.md"), "digest": Digest::of(b"b").to_string(), "size": 1 },
                { "uri": format!("skill://{name}/SKILL.md"), "digest": Digest::of(b"a").to_string(), "size": 1 },
            ],
        });
        let entry = SkillEntry::parse(&text.to_string(), &Limits::default()).unwrap();
        let key = SkillKey {
            label: label.parse().unwrap(),
            uri: entry.uri().clone(),
        };
        LockedSkill::of(key, Fingerprint::of("x"), &entry)
    }

    #[test]
    fn the_order_of_skills_and_files_is_fixed() {
        let (a, b) = (locked("acme", "one", "x"), locked("globex", "one", "x"));
        let text = Lock::of(vec![b.clone(), a.clone()]).to_text();
        assert_eq!(text, Lock::of(vec![a, b]).to_text());
        let of = |what: &str| text.find(what).unwrap();
        assert!(of("acme") < of("globex") && of("one/SKILL.md") < of("one/b.md"));
    }

    #[test]
    fn an_edited_lock_file_is_none() {
        let text = Lock::of(vec![locked("acme", "one", "What it is for.")]).to_text();
        Lock::parse(&text).unwrap();
        for (from, to) in [
            ("What it is for.", "What it is not for."),
            (" 1 skill://one/b.md", " 2 skill://one/b.md"),
            ("/b.md", "/c.md"),
        ] {
            let edited = text.replace(from, to);
            assert!(
                matches!(Lock::parse(&edited), Err(InvalidLock::Skill { .. })),
                "{edited}"
            );
        }
        assert!(matches!(
            Lock::parse(&text.replace("version = 1", "version = 2")),
            Err(InvalidLock::Version(2))
        ));
        assert!(matches!(Lock::parse("x"), Err(InvalidLock::Form(_))));
        let table = text.split_once("[[skill]]").unwrap().1;
        let twice = format!("{text}\n[[skill]]{table}");
        assert!(Lock::parse(&twice).unwrap_err().to_string().contains("twice"));
    }

    proptest! {
        #[test]
        fn whatever_is_written_reads_back(description in "\\PC{1,60}|[\u{0}-\u{7f}]{1,60}") {
            prop_assume!(!description.trim().is_empty());
            let lock = Lock::of(vec![locked("acme", "one", &description)]);
            prop_assert_eq!(Lock::parse(&lock.to_text()).unwrap(), lock);
        }

        #[test]
        fn no_text_is_taken_for_more_than_it_says(text in "\\PC{0,300}") {
            if let Ok(lock) = Lock::parse(&text) {
                prop_assert_eq!(Lock::parse(&lock.to_text()).unwrap(), lock);
            }
        }
    }
}
