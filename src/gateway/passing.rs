//! What an origin answers, as a view names it: URIs and names mapped where they stand in the envelope, and nothing of a
//! skill through any other door (design §3; base protocol §18, §27).
//!
//! Texts are never rewritten. An embedded file of a skill becomes a link to it, so that the skill family answers for it.

use serde_json::Value;
use serde_json::json;

use super::Gateway;
use super::catalog::Catalog;
use super::catalog::View;
use crate::domain::Label;
use crate::domain::ResourceUri;
use crate::domain::Template;
use crate::domain::mapping;

impl Gateway {
    /// The way out of an origin into a view, as one catalog knows its skills.
    pub fn outward<'a>(&self, catalog: &'a Catalog, view: &'a View, label: &'a Label) -> Outward<'a> {
        Outward { catalog, view, label }
    }
}

/// What members of `_meta` begin with that only the gateway gives (design §3).
const OURS: &str = "dev.portcullis/";

/// The way out of one origin into one view.
pub struct Outward<'a> {
    catalog: &'a Catalog,
    view: &'a View,
    label: &'a Label,
}

/// An answer to a read that has a file of a skill in it, which only the skill family gives out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldsSkill(pub String);

impl Outward<'_> {
    /// The view's name of a tool or prompt.
    pub fn name(&self, name: &str) -> String {
        match self.view {
            View::Merged => mapping::merge_name(self.label, name),
            View::Origin(_) => name.to_owned(),
        }
    }

    /// The view's name of a resource or template; of a skill's file, what the skill family calls it. None for what has no
    /// name there.
    pub fn uri(&self, uri: &str) -> Option<String> {
        let owned = || {
            uri.parse::<ResourceUri>()
                .ok()
                .map(|uri| self.view.name(self.label, &uri))
        };
        match (self.owns(uri), self.view) {
            (true, _) => owned(),
            (false, View::Merged) => mapping::merge_passed(self.label, uri).ok(),
            (false, View::Origin(_)) => Some(uri.to_owned()),
        }
    }

    /// Says whether the skill family alone answers for the origin's `uri`.
    pub fn owns(&self, uri: &str) -> bool {
        self.catalog.owns(&View::Origin(self.label.clone()), uri)
    }

    /// A tool's definition.
    pub fn tool(&self, mut tool: Value) -> Value {
        self.rename(&mut tool);
        tool
    }

    /// A prompt of a listing.
    pub fn prompt(&self, mut prompt: Value) -> Value {
        self.rename(&mut prompt);
        prompt
    }

    /// A resource of a listing; none of what the skill family lists.
    pub fn resource(&self, resource: Value) -> Option<Value> {
        self.listed(resource, "uri")
    }

    /// A template of a listing; none of what the skill family answers for.
    pub fn template(&self, template: Value) -> Option<Value> {
        // One without a scheme of its own could give anything.
        Template::parse(template.get("uriTemplate")?.as_str()?)?;
        self.listed(template, "uriTemplate")
    }

    /// The result of `tools/call`.
    pub fn tool_result(&self, result: &mut Value) {
        let blocks = result.get_mut("content").and_then(Value::as_array_mut);
        blocks.into_iter().flatten().for_each(|block| self.block(block));
    }

    /// The result of `prompts/get`.
    pub fn prompt_result(&self, result: &mut Value) {
        let messages = result.get_mut("messages").and_then(Value::as_array_mut);
        let contents = messages
            .into_iter()
            .flatten()
            .filter_map(|message| message.get_mut("content"));
        contents.for_each(|block| self.block(block));
    }

    /// The result of `resources/read`.
    ///
    /// # Errors
    ///
    /// [`HoldsSkill`] when it has a file of a skill in it.
    pub fn read_result(&self, result: &mut Value) -> Result<(), HoldsSkill> {
        let items = result.get_mut("contents").and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            let Some(Value::String(uri)) = item.get_mut("uri") else {
                continue;
            };
            if self.owns(uri) {
                return Err(HoldsSkill(uri.clone()));
            }
            if let Some(name) = self.uri(uri) {
                *uri = name;
            }
        }
        Ok(())
    }

    /// The questions that an origin has before it answers: where all origins are one, each says whose it is (base protocol
    /// §14).
    pub fn input_required(&self, result: &mut Value) {
        match self.view {
            View::Origin(_) => return,
            View::Merged => {}
        }
        let requests = result.get_mut("inputRequests").and_then(Value::as_object_mut);
        let params = requests
            .into_iter()
            .flatten()
            .filter_map(|(_, request)| request.get_mut("params"));
        params.for_each(|params| self.sign(params));
    }

    /// Says in a result whose it is, where all origins are one (design §3); an origin's own word on that is taken out.
    pub fn mark(&self, result: &mut Value) {
        let Some(members) = result.as_object_mut() else { return };
        if let Some(Value::Object(meta)) = members.get_mut("_meta") {
            meta.retain(|key, _| !key.starts_with(OURS));
        }
        match self.view {
            View::Origin(_) => {}
            View::Merged => {
                let meta = members.entry("_meta").or_insert_with(|| json!({}));
                if let Some(meta) = meta.as_object_mut() {
                    meta.insert(format!("{OURS}origin"), json!(self.label));
                }
            }
        }
    }

    /// Puts the origin's label before the message that a person is shown.
    pub fn sign(&self, params: &mut Value) {
        match self.view {
            View::Origin(_) => return,
            View::Merged => {}
        }
        if let Some(Value::String(message)) = params.get_mut("message") {
            *message = format!("[{}] {message}", self.label);
        }
    }

    fn rename(&self, item: &mut Value) {
        if let Some(Value::String(name)) = item.get_mut("name") {
            *name = self.name(name);
        }
    }

    fn listed(&self, mut item: Value, member: &str) -> Option<Value> {
        let Some(Value::String(uri)) = item.get_mut(member) else {
            return None;
        };
        if self.owns(uri) {
            return None;
        }
        *uri = self.uri(uri)?;
        Some(item)
    }

    /// A content block: a link, an embedded resource, or anything else, which stays as it is.
    fn block(&self, block: &mut Value) {
        match block.get("type").and_then(Value::as_str) {
            Some("resource_link") => {
                if let Some(Value::String(uri)) = block.get_mut("uri")
                    && let Some(name) = self.uri(uri)
                {
                    *uri = name;
                }
            }
            Some("resource") => self.embedded(block),
            Some(_) | None => {}
        }
    }

    fn embedded(&self, block: &mut Value) {
        let Some(Value::String(uri)) = block.get_mut("resource").and_then(|resource| resource.get_mut("uri")) else {
            return;
        };
        if !self.owns(uri) {
            if let Some(name) = self.uri(uri) {
                *uri = name;
            }
            return;
        }
        let file = uri.rsplit('/').next().unwrap_or_default().to_owned();
        *block = match self.uri(uri) {
            Some(name) => json!({ "type": "resource_link", "uri": name, "name": file }),
            None => json!({ "type": "text", "text": format!("[a file of a skill, {file}, is left out here]") }),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(view: &View, work: impl Fn(&Outward<'_>)) {
        let (catalog, label) = (Catalog::default(), "acme".parse().unwrap());
        work(&Outward {
            catalog: &catalog,
            view,
            label: &label,
        });
    }

    #[test]
    fn links_and_embedded_resources_get_the_views_names_and_texts_stay() {
        // cases A2 (a), (b), (c)
        let result = json!({ "content": [
            { "type": "text", "text": "see skill://refunds/SKILL.md and docs://x" },
            { "type": "resource_link", "uri": "skill://refunds/SKILL.md", "name": "refunds" },
            { "type": "resource_link", "uri": "docs://x", "name": "x" },
            { "type": "resource", "resource": { "uri": "docs://x", "text": "docs://x" } },
            { "type": "resource", "resource": { "uri": "skill://refunds/a.sh", "text": "rm" } },
            { "type": "resource", "resource": { "uri": "SKILL:refunds", "text": "rm" } },
        ]});
        through(&View::Merged, |out| {
            let mut merged = result.clone();
            out.tool_result(&mut merged);
            assert_eq!(
                merged,
                json!({ "content": [
                    { "type": "text", "text": "see skill://refunds/SKILL.md and docs://x" },
                    { "type": "resource_link", "uri": "skill://acme/refunds/SKILL.md", "name": "refunds" },
                    { "type": "resource_link", "uri": "acme+docs://x", "name": "x" },
                    { "type": "resource", "resource": { "uri": "acme+docs://x", "text": "docs://x" } },
                    { "type": "resource_link", "uri": "skill://acme/refunds/a.sh", "name": "a.sh" },
                    { "type": "text", "text": "[a file of a skill, SKILL:refunds, is left out here]" },
                ]})
            );
        });
        through(&View::Origin("acme".parse().unwrap()), |out| {
            let mut own = result.clone();
            out.tool_result(&mut own);
            assert_eq!(own["content"][2], result["content"][2]);
            assert_eq!(own["content"][3], result["content"][3]);
            assert_eq!(
                own["content"][4],
                json!({ "type": "resource_link", "uri": "skill://refunds/a.sh", "name": "a.sh" })
            );
        });
    }

    #[test]
    fn a_skills_file_leaves_through_no_other_read() {
        through(&View::Merged, |out| {
            let mut read =
                json!({ "contents": [{ "uri": "docs://x", "text": "" }, { "uri": "x://y/skill%2Emd", "text": "" }] });
            assert_eq!(
                out.read_result(&mut read),
                Err(HoldsSkill("x://y/skill%2Emd".to_owned()))
            );
            assert_eq!(out.resource(json!({ "uri": "skill://a/b", "name": "b" })), None);
            assert_eq!(out.template(json!({ "uriTemplate": "{s}://a", "name": "b" })), None);
            assert_eq!(
                out.template(json!({ "uriTemplate": "db://{t}", "name": "b" })),
                Some(json!({ "uriTemplate": "acme+db://{t}", "name": "b" }))
            );
        });
    }

    #[test]
    fn a_result_says_whose_it_is_where_all_origins_are_one_and_only_the_gateway_says_so() {
        let result = json!({ "content": [], "_meta": { "dev.portcullis/origin": "bank", "com.example/x": 1 } });
        through(&View::Merged, |out| {
            let mut merged = result.clone();
            out.mark(&mut merged);
            assert_eq!(
                merged["_meta"],
                json!({ "dev.portcullis/origin": "acme", "com.example/x": 1 })
            );
        });
        through(&View::Origin("acme".parse().unwrap()), |out| {
            let mut own = result.clone();
            out.mark(&mut own);
            assert_eq!(own["_meta"], json!({ "com.example/x": 1 }));
        });
    }

    #[test]
    fn a_question_says_whose_it_is_where_all_origins_are_one() {
        let asked =
            json!({ "inputRequests": { "k": { "method": "elicitation/create", "params": { "message": "Sure?" } } } });
        through(&View::Merged, |out| {
            let mut asked = asked.clone();
            out.input_required(&mut asked);
            assert_eq!(asked["inputRequests"]["k"]["params"]["message"], "[acme] Sure?");
        });
        through(&View::Origin("acme".parse().unwrap()), |out| {
            let mut own = asked.clone();
            out.input_required(&mut own);
            assert_eq!(own, asked);
        });
    }
}
