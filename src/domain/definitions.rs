//! Tool definitions as a set that can be approved, by the same machine as skills (design §7).
//!
//! What an origin says of its tools is text that a model obeys, so it is bound like a skill's: each tool is one file of
//! a set under a URI that no skill of an origin may have. The file is the definition as canonical JSON, spread over lines
//! so that a difference can be read; it is also what hosts are given. Imports `domain` alone.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::digest::Digest;
use super::entry::RejectedEntry;
use super::entry::SkillEntry;
use super::frontmatter::FrontmatterPolicy;
use super::json::InvalidJson;
use super::json::Json;
use super::json::quoted;
use super::limits::Limits;
use super::parameters;
use super::parameters::InvalidAnnotation;
use super::uri::ResourceUri;
use super::uri::SkillUri;
use super::verify::Form;
use super::verify::Media;
use super::verify::VerifiedFile;

/// The scheme under which no origin can publish a skill.
pub const DEFINITIONS_SCHEME: &str = "tools";

/// The directory of an origin's tool definitions.
const ROOT: &str = "tools://definitions";

/// What stands in the set's own `SKILL.md`, which every set has.
const OWN_FILE: &str = "---\nname: definitions\ndescription: What this origin says of its tools.\n---\n\n\
                        Each other file is the definition of one tool, as canonical JSON. Hosts are given exactly these.\n";

/// The frontmatter of [`OWN_FILE`].
const FRONTMATTER: &str = r#"{"name":"definitions","description":"What this origin says of its tools."}"#;

/// Bytes of a tool's name.
const MAX_NAME_BYTES: usize = 256;

/// What an origin says of all its tools.
#[derive(Clone, Debug)]
pub struct Definitions {
    entry: Arc<SkillEntry>,
    files: Vec<VerifiedFile>,
    tools: Vec<Tool>,
    /// Tools that are left out, and why.
    pub rejected: Vec<RejectedTool>,
}

/// One tool's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name, as its origin spells it.
    pub name: String,
    /// The whole definition.
    pub definition: Json,
}

/// A tool that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedTool {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Why.
    pub fault: ToolFault,
}

/// Why a definition cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ToolFault {
    /// It is no JSON that two parsers would read alike.
    #[error("its definition is {0}")]
    Json(#[from] InvalidJson),
    /// It has no name, or one that is too long.
    #[error("its name is missing, empty or over {MAX_NAME_BYTES} bytes long")]
    Name,
    /// Its arguments have no schema whose root is an object.
    #[error("its inputSchema is no object")]
    Schema,
    /// Its name stands twice in the listing.
    #[error("its name stands there twice")]
    Twice,
    /// An argument is to be repeated in a header field, in a way that the protocol does not allow (base protocol §8.5).
    #[error("its inputSchema {0}")]
    Annotation(#[from] InvalidAnnotation),
}

impl Definitions {
    /// The URI under which an origin's definitions are approved.
    pub fn uri() -> Option<SkillUri> {
        format!("{ROOT}/SKILL.md").parse().ok()
    }

    /// Says whether a set is one of definitions.
    pub fn is_about(uri: &SkillUri) -> bool {
        uri.as_resource().scheme() == DEFINITIONS_SCHEME
    }

    /// Takes in a listing's definitions, each as its own JSON text, in the origin's order.
    ///
    /// # Errors
    ///
    /// [`RejectedEntry`] when there are more of them, or longer ones, than a skill may have files and bytes.
    pub fn of(listed: &[String], limits: &Limits) -> Result<Self, RejectedEntry> {
        let (tools, rejected) = sort(listed);
        let own = (format!("{ROOT}/SKILL.md"), Bytes::from_static(OWN_FILE.as_bytes()));
        let file = |tool: &Tool| {
            (
                format!("{ROOT}/{}", file_name(&tool.name)),
                Bytes::from(tool.definition.spread()),
            )
        };
        let files: Vec<_> = std::iter::once(own).chain(tools.iter().map(file)).collect();
        let entry = Arc::new(SkillEntry::parse(&entry_text(&files), limits)?);
        let verified = |(uri, bytes): (String, Bytes)| {
            let mime_type = if uri.ends_with(".json") {
                "application/json"
            } else {
                "text/markdown"
            };
            let media = Media {
                form: Form::Text,
                mime_type: Some(mime_type.to_owned()),
            };
            // What the entry was just made of is what it says.
            entry.verify(&uri, bytes, media, FrontmatterPolicy::Strict).ok()
        };
        Ok(Self {
            files: files.into_iter().filter_map(verified).collect(),
            entry,
            tools,
            rejected,
        })
    }

    /// The set, as an entry that is seen, approved and compared like any other.
    pub fn entry(&self) -> &Arc<SkillEntry> {
        &self.entry
    }

    /// Its files, which are known with the listing itself.
    pub fn files(&self) -> &[VerifiedFile] {
        &self.files
    }

    /// The tools, in the origin's order.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }
}

impl Tool {
    /// Reads a definition back from a file of an approved set; none from the set's own `SKILL.md`.
    pub fn of_file(file: &VerifiedFile) -> Option<Self> {
        let text = std::str::from_utf8(file.bytes()).ok()?;
        let definition = Json::parse(text).ok()?;
        let name = definition.get("name")?.as_str()?.to_owned();
        (file.uri().file_name() == file_name(&name)).then_some(Self { name, definition })
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> Option<&Json> {
        self.definition.get("inputSchema")
    }
}

/// What can be used, in the order listed, and what cannot. A name that stands there twice is no tool's.
fn sort(listed: &[String]) -> (Vec<Tool>, Vec<RejectedTool>) {
    let (mut tools, mut rejected) = (Vec::new(), Vec::new());
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for text in listed {
        match read(text) {
            Ok(tool) => {
                *times.entry(tool.name.clone()).or_default() += 1;
                tools.push(tool);
            }
            Err(fault) => rejected.push(fault),
        }
    }
    let twice: HashSet<_> = times
        .iter()
        .filter(|(_, times)| **times > 1)
        .map(|(name, _)| name)
        .collect();
    tools.retain(|tool| !twice.contains(&tool.name));
    rejected.extend(twice.into_iter().map(|name| RejectedTool {
        name: Some(name.clone()),
        fault: ToolFault::Twice,
    }));
    (tools, rejected)
}

fn read(text: &str) -> Result<Tool, RejectedTool> {
    let definition = Json::parse(text).map_err(|error| RejectedTool {
        name: None,
        fault: error.into(),
    })?;
    let name = definition.get("name").and_then(Json::as_str).map(str::to_owned);
    let rejected = |fault| RejectedTool {
        name: name.clone().map(|name| name.chars().take(MAX_NAME_BYTES).collect()),
        fault,
    };
    let Some(name) = name.as_ref().filter(|name| (1..=MAX_NAME_BYTES).contains(&name.len())) else {
        return Err(rejected(ToolFault::Name));
    };
    match definition.get("inputSchema") {
        Some(schema @ Json::Object(_)) => parameters::check(schema).map_err(|fault| rejected(fault.into()))?,
        Some(_) | None => return Err(rejected(ToolFault::Schema)),
    }
    Ok(Tool {
        name: name.clone(),
        definition,
    })
}

/// The entry that lists `files`.
fn entry_text(files: &[(String, Bytes)]) -> String {
    let resource = |(uri, bytes): &(String, Bytes)| {
        format!(
            "{{\"uri\":{},\"digest\":\"{}\",\"size\":{}}}",
            quoted(uri),
            Digest::of(bytes),
            bytes.len()
        )
    };
    let resources: Vec<_> = files.iter().map(resource).collect();
    format!(
        "{{\"uri\":\"{ROOT}/SKILL.md\",\"frontmatter\":{FRONTMATTER},\"resources\":[{}]}}",
        resources.join(",")
    )
}

/// The name of a tool's file, as reversible as the tool's name is odd: bytes that a file's name should not have, and `=`, are
/// `=` and two hexadecimal digits.
fn file_name(tool: &str) -> String {
    let mut name = String::with_capacity(tool.len() + ".json".len());
    for byte in tool.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
            name.push(char::from(byte));
        } else {
            let _infallible = write!(name, "={byte:02x}");
        }
    }
    name.push_str(".json");
    name
}

/// The file of a tool's definition in a set of them.
pub fn file_of_tool(name: &str) -> Option<ResourceUri> {
    format!("{ROOT}/{}", file_name(name)).parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tool(name: &str) -> String {
        format!(
            r#"{{"name":{},"inputSchema":{{"type":"object"}},"x-foreign":1.10}}"#,
            quoted(name)
        )
    }

    fn definitions(listed: &[String]) -> Definitions {
        Definitions::of(listed, &Limits::default()).unwrap()
    }

    #[test]
    fn a_set_is_the_same_however_its_listing_is_spelled() {
        let one = definitions(&[
            r#"{"name":"a","description":"d","inputSchema":{"type":"object","properties":{}}}"#.to_owned(),
            tool("b"),
        ]);
        let other = definitions(&[
            tool("b"),
            r#" {"inputSchema":{"properties":{}, "type":"object"},"description":"\u0064","name":"a"}"#.to_owned(),
        ]);
        assert_eq!(one.entry().set(), other.entry().set());
        assert_eq!(one.tools().len(), 2);
        assert!(Definitions::is_about(one.entry().uri()));
        assert_eq!(Some(one.entry().uri().clone()), Definitions::uri());
    }

    #[test]
    fn every_word_of_a_definition_is_part_of_the_set() {
        let plain =
            r#"{"name":"a","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
        let set = definitions(&[plain.to_owned()]).entry().set();
        for changed in [
            plain.replace("\"d\"", "\"e\""),
            plain.replace("\"a\"", "\"b\""),
            plain.replace("true", "false"),
            plain.replace("\"object\"}", "\"object\",\"description\":\"x\"}"),
            plain.replace("\"description\"", "\"title\":\"t\",\"description\""),
            plain.replace("\"description\"", "\"_meta\":{},\"description\""),
        ] {
            assert_ne!(
                definitions(std::slice::from_ref(&changed)).entry().set(),
                set,
                "{changed}"
            );
        }
    }

    #[test]
    fn what_cannot_be_used_is_left_out_with_its_reason() {
        let listed = [
            tool("good"),
            tool("twice"),
            tool("twice"),
            r#"{"name":"no schema"}"#.to_owned(),
            r#"{"inputSchema":{}}"#.to_owned(),
            r#"{"name":"a","name":"b","inputSchema":{}}"#.to_owned(),
            r#"{"name":"h","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}"#
                .to_owned(),
        ];
        let definitions = definitions(&listed);
        assert_eq!(
            definitions.tools().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(),
            ["good"]
        );
        let faults: Vec<_> = definitions
            .rejected
            .iter()
            .map(|r| (r.name.as_deref(), &r.fault))
            .collect();
        assert!(faults.contains(&(Some("twice"), &ToolFault::Twice)), "{faults:?}");
        assert!(faults.contains(&(Some("no schema"), &ToolFault::Schema)), "{faults:?}");
        assert!(faults.contains(&(None, &ToolFault::Name)), "{faults:?}");
        assert!(faults.iter().any(|(name, _)| *name == Some("h")), "{faults:?}");
        assert_eq!(faults.len(), 5);
    }

    #[test]
    fn more_than_a_skill_may_have_is_refused_as_a_whole() {
        let many: Vec<_> = (0..600).map(|n| tool(&format!("t{n}"))).collect();
        assert!(Definitions::of(&many, &Limits::default()).is_err());
    }

    proptest! {
        #[test]
        fn a_definition_comes_back_from_its_file_under_any_name(name in "\\PC{1,40}") {
            let listed = definitions(&[tool(&name)]);
            let back: Vec<_> = listed.files().iter().filter_map(Tool::of_file).collect();
            prop_assert_eq!(back.len(), 1);
            prop_assert_eq!(&back[0].name, &name);
            let file = file_of_tool(&name).unwrap();
            prop_assert!(listed.entry().resources().get(file.as_str()).is_some());
        }
    }
}
