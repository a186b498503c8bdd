//! Skills for hosts that do not speak the extension: two tools, a prompt for each skill, and a text that lists them.
//!
//! Every answer is on the record before it leaves, as the lane's are. What is refused to a tool is told in its result, so that
//! a model can go on.

use std::collections::HashSet;
use std::sync::Arc;

use http::request::Parts;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use rmcp::RoleServer;
use rmcp::model::ClientCapabilities;
use rmcp::service::RequestContext;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::Handler;
use super::calls::Host;
use super::calls::text;
use super::refusal::Refusal;
use super::relayed::Relayed;
use crate::config::Bridge;
use crate::config::BridgeFor;
use crate::config::BridgedText;
use crate::domain;
use crate::domain::Method;
use crate::domain::Resource;
use crate::domain::SKILL_FILE;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::clip_uri;
use crate::domain::frontmatter;
use crate::gateway::About;
use crate::gateway::Asked;
use crate::gateway::Bridged;
use crate::gateway::Caller;
use crate::gateway::CatalogSkill;
use crate::gateway::CatalogText;
use crate::gateway::Content;
use crate::gateway::Named;
use crate::gateway::Unrecorded;
use crate::gateway::Unserved;
use crate::gateway::file_text;
use crate::gateway::loaded_before;
use crate::gateway::skill_text;
use crate::server::lane::reason_word;

/// The tool that loads a skill.
pub(super) const LOAD: &str = "load_skill";

/// The tool that reads a file of one.
pub(super) const READ: &str = "read_skill_file";

/// The extension, as hosts that speak it say.
const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The member of `_meta` by which a host of 2026-07-28 says which of its conversations a call belongs to.
const CONVERSATION: &str = "dev.portcullis/conversation";

/// Characters of a conversation's name.
const MAX_CONVERSATION: usize = 256;

/// Loaded skills that are remembered, over all conversations; what was not loaded for longest is forgotten first.
const MAX_LOADED: usize = 100_000;

/// Names in the schema of a tool's argument; where there are more, the schema names none.
const MAX_NAMES: usize = 1_000;

/// Bytes of a file, in base64, that stands in a tool's result; a larger one is linked to.
const MAX_BLOB: usize = 4 * 1024 * 1024;

/// Values of one completion (base protocol §18).
const MAX_COMPLETIONS: usize = 100;

/// The bridge as the hosts of one view share it.
pub(super) struct Shared {
    settings: Bridge,
    loaded: Cache<Loaded, ()>,
    /// Names of others that are hidden behind the bridge's, which was said once; held for a look. As many as skills have.
    hidden: Mutex<HashSet<String>>,
}

/// A skill's set in a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Loaded {
    conversation: Conversation,
    skill: Arc<SkillKey>,
    set: SetId,
}

/// Where what was said before is still known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Conversation {
    /// A session of before 2026-07-28.
    Session(u128),
    /// What a host calls one of its own.
    Named(Caller, String),
}

/// What a tool gives: an answer, or why not, in the words of a refusal.
struct Given {
    result: Value,
    about: About,
    outcome: domain::Outcome,
}

impl Shared {
    pub(super) fn new(settings: Bridge) -> Self {
        Self {
            settings,
            loaded: Cache::new(MAX_LOADED),
            hidden: Mutex::default(),
        }
    }

    /// Says whether a host with these capabilities is offered the bridge.
    pub(super) fn is_for(&self, capabilities: Option<&ClientCapabilities>) -> bool {
        match self.settings.offer {
            BridgeFor::All => true,
            BridgeFor::None => false,
            BridgeFor::Others => {
                let extensions = capabilities.and_then(|capabilities| capabilities.extensions.as_ref());
                !extensions.is_some_and(|extensions| extensions.contains_key(EXTENSION))
            }
        }
    }

    /// Says whether what passes under a name is hidden behind the bridge's own of that name, and tells operators once.
    pub(super) fn hides(&self, own: &HashSet<String>, item: &Value) -> bool {
        let name = item["name"].as_str().filter(|name| own.contains(*name));
        if let Some(name) = name
            && self.hidden.lock().insert(name.to_owned())
        {
            tracing::warn!(
                name,
                "what an origin offers is hidden behind the bridge's own of that name"
            );
        }
        name.is_some()
    }

    /// Says whether any host may be offered it.
    pub(super) fn is_on(&self) -> bool {
        self.settings.offer != BridgeFor::None
    }
}

impl Handler {
    /// The words that list the skills, for a host's instructions; none where there is none to list.
    pub(super) async fn bridge_instructions(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<String>, Refusal> {
        let skills = self.bridged_for_models();
        let listed = self.listed(&skills);
        if listed.text.is_some() {
            let asked = self.asked(caller(context)?, Method::Catalog, None, page(&skills, listed.shown));
            self.gateway.record(asked).await?;
        }
        Ok(listed.text)
    }

    /// The tools of the bridge: none where no skill is served.
    pub(super) async fn bridge_tools(&self, host: &Host<'_>) -> Result<Vec<Value>, Refusal> {
        if !self.has_skills() {
            return Ok(Vec::new());
        }
        let mut tools = Vec::new();
        let skills = self.bridged_for_models();
        let listed = self.listed(&skills);
        if let Some(words) = &listed.text {
            let names = (skills.len() <= MAX_NAMES).then_some(&*skills);
            tools.push(load_tool(words, names));
            let told = names.map_or(listed.shown, <[_]>::len);
            let asked = self.asked(host.caller()?, Method::Catalog, None, page(&skills, told));
            self.gateway.record(asked).await?;
        }
        tools.push(read_tool());
        Ok(tools)
    }

    /// The prompts of the bridge, one for each skill.
    pub(super) async fn bridge_prompts(&self, host: &Host<'_>) -> Result<Vec<Value>, Refusal> {
        let skills = self.gateway.bridged(&self.view);
        if !skills.is_empty() {
            let asked = self.asked(host.caller()?, Method::Catalog, None, page(&skills, skills.len()));
            self.gateway.record(asked).await?;
        }
        Ok(skills.iter().map(prompt).collect())
    }

    /// Answers what is about the bridge's own tools and prompts; none of anything else.
    pub(super) async fn bridge_answer(
        &self,
        method: Relayed,
        params: &Value,
        host: &Host<'_>,
    ) -> Result<Option<Value>, Refusal> {
        let Value::Object(params) = params else {
            return Ok(None);
        };
        let name = || params.get("name").and_then(Value::as_str);
        let nothing = Map::new();
        let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&nothing);
        match method {
            Relayed::ToolsCall if name() == Some(LOAD) && self.has_skills() => {
                host.named_in_header(method, params)?;
                self.load(arguments, host).await.map(Some)
            }
            Relayed::ToolsCall if name() == Some(READ) && self.has_skills() => {
                host.named_in_header(method, params)?;
                self.read_file(arguments, host).await.map(Some)
            }
            Relayed::PromptsGet => {
                let Some(name) = name() else { return Ok(None) };
                match self.prompted(name) {
                    Named::Served(skill) => {
                        host.named_in_header(method, params)?;
                        self.give_prompt(&skill, arguments, host).await.map(Some)
                    }
                    // What passes under the name of a skill that is held is listed, and may be had.
                    Named::Held(skill) if self.prompt(name).is_err() => {
                        host.named_in_header(method, params)?;
                        Err(self.refuse_prompt(&skill, host).await?)
                    }
                    Named::Held(_) | Named::Unknown => Ok(None),
                }
            }
            Relayed::Complete => self.complete(params, host).await,
            Relayed::ToolsCall
            | Relayed::ToolsList
            | Relayed::PromptsList
            | Relayed::ResourcesList
            | Relayed::TemplatesList
            | Relayed::ResourcesRead => Ok(None),
        }
    }

    /// `load_skill`.
    async fn load(&self, arguments: &Map<String, Value>, host: &Host<'_>) -> Result<Value, Refusal> {
        let name = text(arguments, "skill")?;
        let again = arguments.get("again") == Some(&json!(true));
        let named = self.gateway.named(&self.view, &name);
        let uri = self.uri_of(&name, &named);
        let given = match named {
            Named::Served(skill) if !skill.is_for_models() => Given::unavailable(
                &name,
                "its author left it to people to begin; ask the user to run its prompt",
                About::of(&skill.served),
            ),
            Named::Served(skill) => {
                let loaded = self.loaded(&skill, host)?;
                match loaded.filter(|loaded| !again && self.bridge.loaded.get(loaded).is_some()) {
                    Some(_) => Given::words(&loaded_before(&skill), &skill, About::of(&skill.served)),
                    None => self.given_skill(&skill, host).await?,
                }
            }
            Named::Held(known) => self.unserved(&name, Some(&known)),
            Named::Unknown => self.unserved(&name, None),
        };
        self.recorded(host, Method::LoadSkill, &uri, given).await
    }

    /// `read_skill_file`.
    async fn read_file(&self, arguments: &Map<String, Value>, host: &Host<'_>) -> Result<Value, Refusal> {
        let (name, path) = (text(arguments, "skill")?, text(arguments, "path")?);
        let named = self.gateway.named(&self.view, &name);
        let uri = match &named {
            Named::Served(skill) => format!("{}/{path}", skill.base(&self.view)),
            Named::Held(_) | Named::Unknown => self.uri_of(&name, &named),
        };
        let given = match named {
            Named::Served(skill) => self.given_file(&skill, &path).await,
            Named::Held(known) => self.unserved(&name, Some(&known)),
            Named::Unknown => self.unserved(&name, None),
        };
        self.recorded(host, Method::ReadSkillFile, &uri, given).await
    }

    /// The text of a skill, remembered as loaded.
    async fn given_skill(&self, skill: &Bridged, host: &Host<'_>) -> Result<Given, Refusal> {
        let Some(own) = skill.own() else {
            return Ok(Given::unserved(
                &skill.name,
                &Unserved::Unlisted,
                About::of(&skill.served),
            ));
        };
        let about = About {
            digest: Some(own.digest),
            ..About::of(&skill.served)
        };
        Ok(match self.gateway.content(&skill.served, own).await {
            Ok((content, source)) => {
                if let Some(loaded) = self.loaded(skill, host)? {
                    self.bridge.loaded.insert(loaded, ());
                }
                let about = About {
                    source: Some(source),
                    ..about
                };
                match content.readable() {
                    Some(text) => Given::words(&self.words(skill, &text), skill, about),
                    None => Given::block(&self.block(skill, SKILL_FILE, own, &content), skill, about),
                }
            }
            Err(why) => Given::unserved(&skill.name, &why, about),
        })
    }

    /// The content of a file that the skill's manifest lists.
    async fn given_file(&self, skill: &Bridged, path: &str) -> Given {
        let Some(file) = skill.file(path) else {
            let why = self.gateway.unlisted(&skill.served).await;
            return Given::unserved(&format!("{}: {path}", skill.name), &why, About::of(&skill.served));
        };
        let about = About {
            digest: Some(file.digest),
            ..About::of(&skill.served)
        };
        match self.gateway.content(&skill.served, file).await {
            Ok((content, source)) => {
                let block = self.block(skill, path, file, &content);
                // A link is no delivery: what it leads to is recorded when it is read.
                let about = match block["type"].as_str() {
                    Some("resource_link") => About::of(&skill.served),
                    Some(_) | None => About {
                        source: Some(source),
                        ..about
                    },
                };
                Given::block(&block, skill, about)
            }
            Err(why) => Given::unserved(&format!("{}: {path}", skill.name), &why, about),
        }
    }

    /// `prompts/get` of a skill, with a file of it where one is asked for: what a person wants is given each time.
    async fn give_prompt(
        &self,
        skill: &Bridged,
        arguments: &Map<String, Value>,
        host: &Host<'_>,
    ) -> Result<Value, Refusal> {
        let text = self.given_skill(skill, host).await?;
        let own = self
            .view
            .name(&skill.served.key().label, skill.served.key().uri.as_resource());
        let mut messages = vec![self.message(text, &own, host).await?];
        let path = arguments.get("file").and_then(Value::as_str);
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            let file = self.given_file(skill, path).await;
            let uri = format!("{}/{path}", skill.base(&self.view));
            messages.push(self.message(file, &uri, host).await?);
        }
        Ok(json!({
            "description": skill.served.permit().entry().description(),
            "messages": messages,
            "_meta": provenance(skill),
        }))
    }

    /// What is given, as a message of a prompt.
    async fn message(&self, given: Given, uri: &str, host: &Host<'_>) -> Result<Value, Refusal> {
        let is_refused = given.outcome != domain::Outcome::Delivered;
        let mut result = self.recorded(host, Method::Prompt, uri, given).await?;
        let content = result["content"][0].take();
        if is_refused {
            return Err(Refusal::Params(content["text"].as_str().unwrap_or_default().to_owned()));
        }
        Ok(json!({ "role": "user", "content": content }))
    }

    /// Why the prompt of a skill that is held is not given, once that is on the record.
    async fn refuse_prompt(&self, skill: &CatalogSkill, host: &Host<'_>) -> Result<Refusal, Refusal> {
        let why = self.gateway.held(skill);
        let uri = self.view.name(&skill.key.label, skill.key.uri.as_resource());
        let asked = self.asked(host.caller()?, Method::Prompt, Some(&uri), About::held(&skill.key));
        let outcome = domain::Outcome::Refused(reason_word(&why).into());
        self.gateway.record(Asked { outcome, ..asked }).await?;
        Ok(Refusal::Unserved(uri, skill.key.label.clone(), why))
    }

    /// `completion/complete` of the one argument that prompts of skills have; none of other prompts.
    async fn complete(&self, params: &Map<String, Value>, host: &Host<'_>) -> Result<Option<Value>, Refusal> {
        let reference = params.get("ref").filter(|of| of["type"] == "ref/prompt");
        let prompt = reference.and_then(|reference| reference["name"].as_str());
        let (Some(prompt), Some(argument)) = (prompt, params.get("argument")) else {
            return Ok(None);
        };
        let Named::Served(skill) = self.prompted(prompt) else {
            return Ok(None);
        };
        let base = skill.base(&self.view);
        let asked = self.asked(host.caller()?, Method::Directory, Some(&base), About::of(&skill.served));
        self.gateway.record(asked).await?;
        let begun = argument["value"].as_str().unwrap_or_default();
        let fit: Vec<_> = skill
            .paths()
            .filter(|path| argument["name"] == "file" && path.starts_with(begun))
            .collect();
        let shown: Vec<_> = fit.iter().take(MAX_COMPLETIONS).collect();
        Ok(Some(json!({
            "completion": { "values": shown, "total": fit.len(), "hasMore": fit.len() > shown.len() },
        })))
    }

    /// The skill whose prompt is called `name`, which may be no other name of it.
    fn prompted(&self, name: &str) -> Named {
        match self.gateway.named(&self.view, name) {
            named @ (Named::Served(_) | Named::Held(_)) if !name.contains('/') => named,
            Named::Served(_) | Named::Held(_) | Named::Unknown => Named::Unknown,
        }
    }

    fn words(&self, skill: &Bridged, whole: &str) -> String {
        let text = match self.bridge.settings.text {
            BridgedText::File => whole,
            BridgedText::Body => frontmatter::body(whole),
        };
        skill_text(skill, &self.view, text)
    }

    /// A file as a content block: text in its wrapper, other bytes embedded, or linked to where they are many.
    fn block(&self, skill: &Bridged, path: &str, file: &Resource, content: &Content) -> Value {
        let uri = self.view.name(&skill.served.key().label, &file.uri);
        match (content.readable(), &content.blob) {
            (Some(text), _) => json!({ "type": "text", "text": file_text(skill, path, &text) }),
            (None, Some(blob)) if blob.len() <= MAX_BLOB => json!({
                "type": "resource",
                "resource": { "uri": uri, "mimeType": content.mime_type, "blob": blob },
            }),
            (None, _) => json!({ "type": "resource_link", "uri": uri, "name": path }),
        }
    }

    /// Says whether any skill is served in this view.
    fn has_skills(&self) -> bool {
        let now = self.gateway.clock().now();
        self.gateway
            .catalog()
            .served_after(&self.view, None, now)
            .next()
            .is_some()
    }

    /// The served skills that models may begin by themselves.
    fn bridged_for_models(&self) -> Vec<Bridged> {
        let mut skills = self.gateway.bridged(&self.view);
        skills.retain(Bridged::is_for_models);
        skills
    }

    fn listed(&self, skills: &[Bridged]) -> CatalogText {
        CatalogText::for_models(skills, self.bridge.settings.catalog_tokens)
    }

    /// Where the skill's text is remembered as loaded; nowhere when nothing is remembered.
    fn loaded(&self, skill: &Bridged, host: &Host<'_>) -> Result<Option<Loaded>, Refusal> {
        if !self.bridge.settings.dedupe {
            return Ok(None);
        }
        let conversation = if host.is_modern {
            let meta = serde_json::to_value(&host.context.meta).unwrap_or_default();
            let name = meta.get(CONVERSATION).and_then(Value::as_str);
            let Some(name) = name.filter(|name| name.chars().count() <= MAX_CONVERSATION) else {
                return Ok(None);
            };
            Conversation::Named(host.caller()?, name.to_owned())
        } else {
            Conversation::Session(self.session)
        };
        Ok(Some(Loaded {
            conversation,
            skill: Arc::clone(skill.served.key()),
            set: skill.served.permit().entry().set(),
        }))
    }

    /// What is said of a name that stands for a skill that is held, or for none.
    fn unserved(&self, name: &str, held: Option<&CatalogSkill>) -> Given {
        match held {
            Some(skill) => Given::unserved(name, &self.gateway.held(skill), About::held(&skill.key)),
            None => Given::unserved(name, &Unserved::Unknown, About::default()),
        }
    }

    /// The view's URI of what a name stands for; of none, the name.
    fn uri_of(&self, name: &str, named: &Named) -> String {
        let key = match named {
            Named::Served(skill) => skill.served.key(),
            Named::Held(skill) => &skill.key,
            Named::Unknown => return name.to_owned(),
        };
        self.view.name(&key.label, key.uri.as_resource())
    }

    fn asked(&self, caller: Caller, method: Method, uri: Option<&str>, about: About) -> Asked {
        Asked {
            caller,
            view: self.view.clone(),
            method,
            uri: uri.map(|uri| clip_uri(uri).into()),
            about,
            outcome: domain::Outcome::Delivered,
        }
    }

    /// Puts what is given on the record; what cannot be recorded is not given.
    async fn recorded(&self, host: &Host<'_>, method: Method, uri: &str, given: Given) -> Result<Value, Refusal> {
        let asked = self.asked(host.caller()?, method, Some(uri), given.about);
        let outcome = given.outcome;
        self.gateway.record(Asked { outcome, ..asked }).await?;
        Ok(given.result)
    }
}

impl Given {
    fn words(words: &str, skill: &Bridged, about: About) -> Self {
        Self::block(&json!({ "type": "text", "text": words }), skill, about)
    }

    fn block(block: &Value, skill: &Bridged, about: About) -> Self {
        Self {
            result: json!({ "content": [block], "_meta": provenance(skill) }),
            about,
            outcome: domain::Outcome::Delivered,
        }
    }

    fn unserved(name: &str, why: &Unserved, about: About) -> Self {
        Self {
            outcome: domain::Outcome::Refused(reason_word(why).into()),
            ..Self::unavailable(name, &why.to_string(), about)
        }
    }

    /// A refusal that a model reads.
    fn unavailable(name: &str, why: &str, about: About) -> Self {
        Self {
            result: json!({ "content": [{ "type": "text", "text": format!("{name}: {why}") }], "isError": true }),
            about,
            outcome: domain::Outcome::Refused("not-for-models".into()),
        }
    }
}

impl Host<'_> {
    /// Who asks.
    pub(super) fn caller(&self) -> Result<Caller, Refusal> {
        caller(self.context)
    }
}

/// Who asks, as the listener found out; where none did, nothing can be recorded, and nothing is given.
fn caller(context: &RequestContext<RoleServer>) -> Result<Caller, Refusal> {
    let extensions = &context.extensions;
    let over_http = || {
        extensions
            .get::<Parts>()
            .and_then(|parts| parts.extensions.get::<Caller>())
    };
    extensions
        .get::<Caller>()
        .or_else(over_http)
        .cloned()
        .ok_or(Refusal::Unrecorded)
}

impl From<Unrecorded> for Refusal {
    fn from(Unrecorded: Unrecorded) -> Self {
        Self::Unrecorded
    }
}

/// The first skills of a list, of which a host was told.
fn page(skills: &[Bridged], told: usize) -> About {
    let page = skills.iter().take(told).map(|skill| Arc::clone(&skill.served));
    About {
        page: Some(page.collect()),
        ..About::default()
    }
}

fn provenance(skill: &Bridged) -> Value {
    let members = skill.served.provenance();
    let stale = skill.is_stale;
    serde_json::from_str(&format!("{{\"dev.portcullis/stale\":{stale},{members}}}")).unwrap_or_default()
}

/// The tool that loads one of the skills that are `named`.
fn load_tool(words: &str, named: Option<&[Bridged]>) -> Value {
    let mut skill = json!({ "type": "string", "description": "The name of the skill, as listed." });
    if let Some(named) = named {
        skill["enum"] = named.iter().map(|skill| json!(skill.name)).collect();
    }
    json!({
        "name": LOAD,
        "title": "Load a skill",
        "description": words,
        "inputSchema": {
            "type": "object",
            "properties": {
                "skill": skill,
                "again": { "type": "boolean", "description": "Gives the text even if it was given before." },
            },
            "required": ["skill"],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn read_tool() -> Value {
    json!({
        "name": READ,
        "title": "Read a file of a skill",
        "description": "Reads a file that belongs to a loaded skill.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "skill": { "type": "string", "description": "The name of the skill, as it stands in skill_content." },
                "path": { "type": "string", "description": "The path of the file, relative to the skill." },
            },
            "required": ["skill", "path"],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

fn prompt(skill: &Bridged) -> Value {
    let entry = skill.served.permit().entry();
    json!({
        "name": skill.prompt,
        "title": entry.name(),
        "description": format!("[{}] {}", skill.served.key().label, entry.description()),
        "arguments": [{ "name": "file", "description": "A file of the skill to bring along.", "required": false }],
    })
}
