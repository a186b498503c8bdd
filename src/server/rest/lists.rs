//! Listings of what passes, from what the gateway last heard: no origin is waited for.

use std::collections::HashSet;

use rmcp::model::Resource;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::Handler;
use super::calls::Host;
use super::refusal::Refusal;
use super::relayed::Relayed;
use crate::config::Passed;
use crate::domain::Digest;
use crate::domain::Limits;
use crate::gateway::Served;
use crate::gateway::as_value;

/// One page of a listing.
struct Page {
    items: Vec<Value>,
    next: Option<String>,
}

impl Handler {
    /// The answer to a listing method.
    pub(super) async fn list(&self, method: Relayed, params: &Value, host: &Host<'_>) -> Result<Value, Refusal> {
        let (member, items) = match method {
            Relayed::ToolsList => ("tools", self.tools(host).await?),
            Relayed::PromptsList => ("prompts", self.prompts(host).await?),
            Relayed::TemplatesList => ("resourceTemplates", self.templates()),
            Relayed::ResourcesList
            | Relayed::ToolsCall
            | Relayed::PromptsGet
            | Relayed::ResourcesRead
            | Relayed::Complete => ("resources", self.resources()),
        };
        let cursor = match params.get("cursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor.as_str()),
            Some(_) => return Err(Refusal::Params("cursor is no string".to_owned())),
        };
        let page = page(items, cursor, self.gateway.limits())?;
        let mut result = Map::new();
        result.insert(member.to_owned(), Value::Array(page.items));
        if let Some(next) = page.next {
            result.insert("nextCursor".to_owned(), json!(next));
        }
        Ok(Value::Object(result))
    }

    /// The tools that hosts are given: the bridge's, then those of each origin in its order, origins by label.
    async fn tools(&self, host: &Host<'_>) -> Result<Vec<Value>, Refusal> {
        let mut all = if self.bridges(host) {
            self.bridge_tools(host).await?
        } else if self.has(Passed::Tools) {
            Vec::new()
        } else {
            return Err(Refusal::NoMethod("tools/list"));
        };
        let own = names_of(&all);
        let catalog = self.gateway.catalog();
        for (label, _) in self.gateway.offers(&self.view, Passed::Tools) {
            let Ok(tools) = self.gateway.tools(&label).await else {
                continue;
            };
            let out = self.gateway.outward(&catalog, &self.view, &label);
            let tool = |tool| {
                let tool = out.tool(as_value(tool));
                if host.is_modern { tool } else { of_legacy(tool) }
            };
            let passing = tools.iter().map(|of| tool(&of.definition));
            all.extend(passing.filter(|tool| !self.bridge.hides(&own, tool)));
        }
        Ok(all)
    }

    async fn prompts(&self, host: &Host<'_>) -> Result<Vec<Value>, Refusal> {
        let mut all = if self.bridges(host) {
            self.bridge_prompts(host).await?
        } else if self.has(Passed::Prompts) {
            Vec::new()
        } else {
            return Err(Refusal::NoMethod("prompts/list"));
        };
        let own = names_of(&all);
        let catalog = self.gateway.catalog();
        for (label, offer) in self.gateway.offers(&self.view, Passed::Prompts) {
            let out = self.gateway.outward(&catalog, &self.view, &label);
            let passing = offer.prompts.iter().map(|prompt| out.prompt(prompt.clone()));
            all.extend(passing.filter(|prompt| !self.bridge.hides(&own, prompt)));
        }
        Ok(all)
    }

    /// The `SKILL.md` of what is served (S-3, S-12 … S-14), then what passes.
    fn resources(&self) -> Vec<Value> {
        let catalog = self.gateway.catalog();
        let now = self.gateway.clock().now();
        let served = catalog.served_after(&self.view, None, now);
        let own = served.filter_map(|served| serde_json::to_value(self.resource(served)?).ok());
        let mut all: Vec<_> = own.collect();
        for (label, offer) in self.gateway.offers(&self.view, Passed::Resources) {
            let out = self.gateway.outward(&catalog, &self.view, &label);
            all.extend(
                offer
                    .resources
                    .iter()
                    .filter_map(|resource| out.resource(resource.clone())),
            );
        }
        all
    }

    fn templates(&self) -> Vec<Value> {
        let catalog = self.gateway.catalog();
        let mut all = Vec::new();
        for (label, offer) in self.gateway.offers(&self.view, Passed::Resources) {
            let out = self.gateway.outward(&catalog, &self.view, &label);
            all.extend(
                offer
                    .templates
                    .iter()
                    .filter_map(|template| out.template(template.clone())),
            );
        }
        all
    }

    /// A served skill's `SKILL.md` as a resource.
    fn resource(&self, served: &Served) -> Option<Resource> {
        let entry = served.permit().entry();
        let own = entry.resources().get(entry.uri().as_str())?;
        let uri = self.view.name(&served.key().label, &own.uri);
        Some(
            Resource::new(uri, entry.name())
                .with_description(entry.description())
                .with_mime_type("text/markdown")
                .with_size(own.size),
        )
    }
}

fn names_of(items: &[Value]) -> HashSet<String> {
    let names = items.iter().filter_map(|item| item["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Before 2026-07-28, what a tool gives is an object or has no schema (base protocol §25).
fn of_legacy(mut tool: Value) -> Value {
    let is_object = tool
        .get("outputSchema")
        .is_none_or(|schema| schema.get("type") == Some(&json!("object")));
    if !is_object && let Some(tool) = tool.as_object_mut() {
        tool.remove("outputSchema");
    }
    tool
}

/// The items from `cursor` on, as many as a page has. A cursor is good for as long as the listing is the same.
fn page(items: Vec<Value>, cursor: Option<&str>, limits: &Limits) -> Result<Page, Refusal> {
    let texts: Vec<String> = items.iter().map(Value::to_string).collect();
    let listing = || {
        Digest::of(texts.join("\n").as_bytes())
            .hex()
            .chars()
            .take(16)
            .collect::<String>()
    };
    let start = match cursor {
        None => 0,
        Some(cursor) => {
            let (start, of) = cursor.split_once('.').ok_or(Refusal::Cursor)?;
            let start: usize = start.parse().map_err(|_| Refusal::Cursor)?;
            if of != listing() || start == 0 || start >= items.len() {
                return Err(Refusal::Cursor);
            }
            start
        }
    };
    let (mut bytes, mut end) = (0, start);
    for text in texts.iter().skip(start).take(limits.page_entries) {
        bytes += text.len();
        if end > start && bytes > limits.page_bytes {
            break;
        }
        end += 1;
    }
    let next = (end < items.len()).then(|| format!("{end}.{}", listing()));
    Ok(Page {
        items: items.into_iter().take(end).skip(start).collect(),
        next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(count: usize) -> Vec<Value> {
        (0..count).map(|n| json!({ "n": n })).collect()
    }

    #[test]
    fn pages_follow_one_another_and_a_foreign_cursor_is_refused() {
        let limits = Limits {
            page_entries: 2,
            ..Limits::default()
        };
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = page(items(5), cursor.as_deref(), &limits).unwrap();
            seen.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, items(5));
        let next = page(items(5), None, &limits).unwrap().next.unwrap();
        for bad in ["", "x", "0.0", "2.0123456789abcdef", "99999999999999999999.x"] {
            assert!(page(items(5), Some(bad), &limits).is_err(), "{bad}");
        }
        assert!(page(items(6), Some(&next), &limits).is_err(), "another listing");
        let tiny = Limits {
            page_bytes: 1,
            ..Limits::default()
        };
        assert_eq!(page(items(3), None, &tiny).unwrap().items.len(), 1);
    }

    #[test]
    fn legacy_hosts_get_no_schema_of_what_is_no_object() {
        let tool = |schema: Value| json!({ "name": "x", "outputSchema": schema });
        assert_eq!(of_legacy(tool(json!({ "type": "string" }))), json!({ "name": "x" }));
        assert_eq!(
            of_legacy(tool(json!({ "type": "object" }))),
            tool(json!({ "type": "object" }))
        );
    }
}
