//! A skill as a scripted origin publishes it: files, the honest entry made from them, and what is made wrong on request.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::SkillResource;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;

/// What makes an entry differ from the files.
type Edit = Box<dyn Fn(&mut Value) + Send + Sync>;

/// What is sent instead of a file's bytes.
pub(crate) type Spoil = fn(&[u8]) -> Vec<u8>;

/// A skill.
pub(crate) struct Skill {
    /// The URI of its `SKILL.md`.
    pub(crate) uri: String,
    /// Whether a listing shows it; it can be asked for either way.
    pub(crate) listed: bool,
    frontmatter: String,
    files: Vec<File>,
    edits: Vec<Edit>,
}

/// A file of a skill.
pub(crate) struct File {
    path: String,
    bytes: Vec<u8>,
    is_text: bool,
    spoil: Option<Spoil>,
}

impl Skill {
    /// A skill with nothing but a `SKILL.md`.
    pub(crate) fn at(uri: &str) -> Self {
        let name = uri.trim_end_matches("/SKILL.md").rsplit('/').next().unwrap();
        let skill = Self {
            uri: uri.to_owned(),
            listed: true,
            frontmatter: String::new(),
            files: Vec::new(),
            edits: Vec::new(),
        };
        let frontmatter = json!({ "name": name, "description": format!("What {name} is for.") });
        skill.with_frontmatter(&frontmatter.to_string())
    }

    /// Gives it frontmatter, a JSON object whose text stands in the entry as it is.
    pub(crate) fn with_frontmatter(mut self, json: &str) -> Self {
        self.set_frontmatter(json);
        self
    }

    /// Gives it a `SKILL.md` that is these bytes, whatever frontmatter its entry has.
    pub(crate) fn with_skill_file(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.set_file("SKILL.md", bytes.as_ref());
        self
    }

    /// Adds a file that is sent as text.
    pub(crate) fn text(self, path: &str, text: impl Into<String>) -> Self {
        self.with_file(path, text.into().into_bytes(), true)
    }

    /// Adds a file that is sent as a blob.
    pub(crate) fn blob(self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.with_file(path, bytes.into(), false)
    }

    /// Sends its `SKILL.md` as a blob.
    pub(crate) fn sent_as_blob(mut self) -> Self {
        self.files
            .iter_mut()
            .find(|file| file.path == "SKILL.md")
            .unwrap()
            .is_text = false;
        self
    }

    /// Leaves it out of listings.
    pub(crate) fn unlisted(mut self) -> Self {
        self.listed = false;
        self
    }

    /// Makes its entry wrong.
    pub(crate) fn edited(mut self, edit: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.edit(edit);
        self
    }

    /// Makes its entry wrong, on top of what is wrong already.
    pub(crate) fn edit(&mut self, edit: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.edits.push(Box::new(edit));
    }

    /// Changes the frontmatter, in the file and in the entry.
    pub(crate) fn set_frontmatter(&mut self, json: &str) {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap();
        // JSON values are YAML, so each member makes a line.
        let yaml: String = members
            .iter()
            .map(|(key, value)| format!("{key}: {}\n", value.get()))
            .collect();
        self.frontmatter = json.to_owned();
        self.set_file("SKILL.md", format!("---\n{yaml}---\n\n# Steps\n").as_bytes());
    }

    /// Changes what a file is, and the entry with it; a new one is sent as text.
    pub(crate) fn set_file(&mut self, path: &str, bytes: &[u8]) {
        match self.files.iter_mut().find(|file| file.path == path) {
            Some(file) => bytes.clone_into(&mut file.bytes),
            None => self.files.push(File {
                path: path.to_owned(),
                bytes: bytes.to_vec(),
                is_text: true,
                spoil: None,
            }),
        }
    }

    /// Takes a file away.
    pub(crate) fn remove_file(&mut self, path: &str) {
        self.files.retain(|file| file.path != path);
    }

    /// Sends something else for a file, while the entry stays honest.
    pub(crate) fn spoil(&mut self, path: &str, spoil: Spoil) {
        self.files.iter_mut().find(|file| file.path == path).unwrap().spoil = Some(spoil);
    }

    /// Sends every file as it is again.
    pub(crate) fn unspoil(&mut self) {
        self.files.iter_mut().for_each(|file| file.spoil = None);
    }

    /// What a file is.
    pub(crate) fn bytes(&self, path: &str) -> &[u8] {
        &self.files.iter().find(|file| file.path == path).unwrap().bytes
    }

    /// The URI of a file.
    pub(crate) fn uri_of(&self, path: &str) -> String {
        format!("{}/{path}", self.uri.trim_end_matches("/SKILL.md"))
    }

    /// The entry, as JSON text.
    pub(crate) fn entry(&self) -> String {
        let resource = |file: &File| SkillResource::from_bytes(self.uri_of(&file.path), &file.bytes);
        let resources: Vec<SkillResource> = self.files.iter().map(resource).collect();
        let resources = serde_json::to_string(&resources).unwrap();
        let honest = format!(
            r#"{{"uri":{},"frontmatter":{},"resources":{resources}}}"#,
            json!(self.uri),
            self.frontmatter
        );
        if self.edits.is_empty() {
            return honest;
        }
        let mut entry = serde_json::from_str(&honest).unwrap();
        self.edits.iter().for_each(|edit| edit(&mut entry));
        entry.to_string()
    }

    /// The `contents` item of the file at `uri`, if it is one of this skill's.
    pub(crate) fn content(&self, uri: &str) -> Option<Value> {
        let file = self.files.iter().find(|file| self.uri_of(&file.path) == uri)?;
        let sent = file
            .spoil
            .map_or_else(|| file.bytes.clone(), |spoil| spoil(&file.bytes));
        Some(if file.is_text {
            json!({ "uri": uri, "mimeType": "text/markdown", "text": String::from_utf8_lossy(&sent) })
        } else {
            json!({ "uri": uri, "blob": BASE64_STANDARD.encode(sent) })
        })
    }

    fn with_file(mut self, path: &str, bytes: Vec<u8>, is_text: bool) -> Self {
        self.files.push(File {
            path: path.to_owned(),
            bytes,
            is_text,
            spoil: None,
        });
        self
    }
}

/// The same length with another last character.
pub(crate) fn tampered(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

/// Line ends as another system writes them.
pub(crate) fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).replace('\n', "\r\n").into_bytes()
}

/// Half of it.
pub(crate) fn truncated(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len() / 2].to_vec()
}

/// Takes the sizes out of an entry, as some real servers do.
pub(crate) fn without_sizes(entry: &mut Value) {
    for resource in entry["resources"].as_array_mut().unwrap() {
        resource.as_object_mut().unwrap().remove("size");
    }
}
