//! A request on its way through: to whom it goes, what may come back before its answer, and the answer in the host's era.
//!
//! Origins of both eras are asked on behalf of hosts of both. Where their ways to ask back differ, `questions` turns one
//! into the other.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::ServerNotification;
use rmcp::service::RequestContext;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::Handler;
use super::questions::Parked;
use super::refusal::Refusal;
use super::relayed::Relayed;
use crate::config::Passed;
use crate::domain::Label;
use crate::domain::Tool;
use crate::domain::mapping;
use crate::domain::mapping::Merged;
use crate::domain::parameters;
use crate::gateway::Call;
use crate::gateway::Interim;
use crate::gateway::Said;
use crate::gateway::Unanswered;
use crate::gateway::View;

/// Messages of an origin that wait to be given to the host; more of them hold up the origin.
const INTERIM: usize = 64;

/// How often a host is asked back for one call (base protocol §14).
const MAX_ROUNDS: usize = 8;

/// Members of a host's `_meta` that origins get: the trace goes on, and nothing else of the host's (base protocol §19, §27).
const PASSED_META: [&str; 2] = ["traceparent", "tracestate"];

/// The member of `_meta` that asks for log messages.
pub(super) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The header field that names what a method is about.
const MCP_NAME: &str = "mcp-name";

/// Capabilities of hosts that can be made use of through the gateway.
const RELAYED_CAPABILITIES: [&str; 3] = ["elicitation", "sampling", "roots"];

/// What a request of a host is about.
pub(super) struct Target {
    pub(super) method: Relayed,
    pub(super) label: Label,
    /// As the origin names things.
    pub(super) params: Map<String, Value>,
    /// Arguments that are repeated in header fields.
    fields: Vec<(String, String)>,
}

/// A request under way at an origin.
pub(super) struct UnderWay {
    pub(super) target: Target,
    answer: BoxFuture<'static, Result<Value, Unanswered>>,
    interim: mpsc::Receiver<Interim>,
}

/// What an origin came to.
pub(super) enum Came {
    Answer(Result<Value, Unanswered>),
    /// It wants to know something first, and waits (before 2026-07-28).
    Question {
        method: String,
        params: Value,
        reply: oneshot::Sender<Result<Value, Said>>,
    },
}

/// A host that is asked on behalf of.
pub(super) struct Host<'a> {
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) is_modern: bool,
    /// What it can be asked, as it said.
    pub(super) capabilities: Map<String, Value>,
    /// The header fields of its request, where it came over HTTP in the era that has them.
    headers: Option<&'a HeaderMap>,
}

impl Handler {
    /// Relays a request and gives its result.
    pub(super) async fn call(&self, method: Relayed, params: Value, host: &Host<'_>) -> Result<Value, Refusal> {
        let Value::Object(mut params) = params else {
            return Err(Refusal::Params("params is no object".to_owned()));
        };
        params.remove("_meta");
        host.named_in_header(method, &params)?;
        let target = self.target(method, params, host).await?;
        let under_way = match self.parked(&target)? {
            Some((parked, answers)) => parked.answer(&answers),
            None => self.begin(target, host),
        };
        self.finish(under_way, host).await
    }

    /// Sends a request on its way.
    pub(super) fn begin(&self, target: Target, host: &Host<'_>) -> UnderWay {
        let call = Call {
            method: target.method.name(),
            params: target.params.clone(),
            meta: host.passed_meta(),
            level: self.wanted_level(host),
            capabilities: Value::Object(host.capabilities.clone()),
            is_modern: host.is_modern,
            fields: target.fields.clone(),
        };
        let (sender, interim) = mpsc::channel(INTERIM);
        let (gateway, label) = (self.gateway.clone(), target.label.clone());
        let answer = async move { gateway.relay(&label, call, sender).await };
        UnderWay {
            target,
            answer: answer.boxed(),
            interim,
        }
    }

    /// Goes along with a request until there is something to answer.
    async fn finish(&self, mut under_way: UnderWay, host: &Host<'_>) -> Result<Value, Refusal> {
        for _round in 0..=MAX_ROUNDS {
            let came = tokio::select! {
                came = self.next(&mut under_way, host) => came,
                () = host.context.ct.cancelled() => return Err(Refusal::Cancelled),
            };
            let label = under_way.target.label.clone();
            match came {
                Came::Question { method, params, reply } if host.is_modern => {
                    let question = Parked::new(under_way, reply);
                    return self.park(question, &method, params);
                }
                Came::Question { method, params, reply } => {
                    let answered = self.ask(&label, &method, params, host).await;
                    // An origin that does not wait any more has its answer or its failure on the way.
                    let _gone = reply.send(answered);
                }
                Came::Answer(Err(Unanswered::Said(said))) => return Err(Refusal::Said(label, said)),
                Came::Answer(Err(Unanswered::Failed(why))) => return Err(Refusal::Origin(label, why)),
                Came::Answer(Ok(result)) => match kind_of(&result) {
                    Kind::Complete => return self.outward(&under_way.target, result, host.is_modern),
                    Kind::Asks if host.is_modern => return self.outward(&under_way.target, result, true),
                    Kind::Asks => under_way = self.ask_all(under_way.target, &result, host).await?,
                    Kind::Foreign => {
                        return Err(Refusal::Unasked(label, "its answer is of a kind that is not relayed"));
                    }
                },
            }
        }
        Err(Refusal::Unasked(under_way.target.label, "it has asked too often"))
    }

    /// What comes next that is not merely passed on.
    async fn next(&self, under_way: &mut UnderWay, host: &Host<'_>) -> Came {
        loop {
            let interim = tokio::select! {
                biased;
                interim = under_way.interim.recv() => interim,
                answer = &mut under_way.answer => {
                    // What came before it may still lie there.
                    while let Ok(Interim::Notice { method, params }) = under_way.interim.try_recv() {
                        self.pass_notice(&method, params, host).await;
                    }
                    return Came::Answer(answer);
                }
            };
            match interim {
                Some(Interim::Notice { method, params }) => self.pass_notice(&method, params, host).await,
                Some(Interim::Question { method, params, reply }) => return Came::Question { method, params, reply },
                None => return Came::Answer((&mut under_way.answer).await),
            }
        }
    }

    /// Passes progress and log messages on, where the host asked for them (base protocol §15).
    async fn pass_notice(&self, method: &str, mut params: Value, host: &Host<'_>) {
        let is_wanted = match method {
            "notifications/progress" => host.context.meta.get_progress_token().is_some_and(|token| {
                params["progressToken"] = serde_json::to_value(token).unwrap_or_default();
                true
            }),
            "notifications/message" => self.wants_log(&params, host),
            _ => false,
        };
        let notice = json!({ "method": method, "params": params });
        if let Some(notice) = serde_json::from_value::<ServerNotification>(notice)
            .ok()
            .filter(|_| is_wanted)
        {
            // A host that is gone is noticed by its request's end.
            let _gone = host.context.peer.send_notification(notice).await;
        }
    }

    /// To whom a request goes, and what the origin calls what it is about.
    async fn target(&self, method: Relayed, params: Map<String, Value>, host: &Host<'_>) -> Result<Target, Refusal> {
        match method {
            Relayed::ToolsCall => self.tool_target(params, host).await,
            Relayed::PromptsGet => self.prompt_target(params),
            Relayed::ResourcesRead => self.resource_target(params),
            Relayed::Complete => self.completion_target(params),
            Relayed::ToolsList | Relayed::PromptsList | Relayed::ResourcesList | Relayed::TemplatesList => {
                Err(Refusal::NoMethod(method.name()))
            }
        }
    }

    async fn tool_target(&self, mut params: Map<String, Value>, host: &Host<'_>) -> Result<Target, Refusal> {
        if !self.has(Passed::Tools) {
            return Err(Refusal::NoMethod("tools/call"));
        }
        let name = text(&params, "name")?;
        let catalog = self.gateway.catalog();
        let mut held = None;
        for (label, _) in self.gateway.offers(&self.view, Passed::Tools) {
            let out = self.gateway.outward(&catalog, &self.view, &label);
            let is_meant = |own: &str| out.name(own) == name;
            let tools = self.gateway.tools(&label).await;
            let found = tools
                .iter()
                .flat_map(|tools| tools.iter())
                .find(|tool| is_meant(&tool.name));
            if let Some(tool) = found {
                let fields = host.parameters(tool, params.get("arguments").unwrap_or(&Value::Null))?;
                params.insert("name".to_owned(), json!(tool.name));
                return Ok(Target {
                    method: Relayed::ToolsCall,
                    label,
                    params,
                    fields,
                });
            }
            let reason = self.gateway.held_tool(&label, is_meant);
            held = held.or_else(|| Some(Refusal::Unserved(name.clone(), label.clone(), reason?)));
        }
        Err(held.unwrap_or(Refusal::Unknown(name)))
    }

    fn prompt_target(&self, mut params: Map<String, Value>) -> Result<Target, Refusal> {
        if !self.has(Passed::Prompts) {
            return Err(Refusal::NoMethod("prompts/get"));
        }
        let name = text(&params, "name")?;
        let (label, own) = self.prompt(&name)?;
        params.insert("name".to_owned(), json!(own));
        Ok(Target {
            method: Relayed::PromptsGet,
            label,
            params,
            fields: Vec::new(),
        })
    }

    /// The prompt that this view calls `name`: whose it is, and what they call it.
    pub(super) fn prompt(&self, name: &str) -> Result<(Label, String), Refusal> {
        let catalog = self.gateway.catalog();
        let offers = self.gateway.offers(&self.view, Passed::Prompts).into_iter();
        let mut found = offers.filter_map(|(label, offer)| {
            let out = self.gateway.outward(&catalog, &self.view, &label);
            let own = offer.prompt(&out, name)?.to_owned();
            Some((label, own))
        });
        found.next().ok_or_else(|| Refusal::Unknown(name.to_owned()))
    }

    fn resource_target(&self, mut params: Map<String, Value>) -> Result<Target, Refusal> {
        let name = text(&params, "uri")?;
        let (label, own) = self.resource_named(&name)?;
        let offers = self.gateway.offers(&View::Origin(label.clone()), Passed::Resources);
        if !offers.iter().any(|(_, offer)| offer.has_resource(&own)) {
            return Err(Refusal::Unknown(name));
        }
        params.insert("uri".to_owned(), json!(own));
        Ok(Target {
            method: Relayed::ResourcesRead,
            label,
            params,
            fields: Vec::new(),
        })
    }

    /// Whose a resource or template of this name is, and what they call it; never one that the skill family answers for.
    pub(super) fn resource_named(&self, name: &str) -> Result<(Label, String), Refusal> {
        let unknown = || Refusal::Unknown(name.to_owned());
        let (label, own) = match &self.view {
            View::Origin(label) => (label.clone(), name.to_owned()),
            View::Merged => match mapping::split(name) {
                Ok(Merged::Passed(label, own)) => (label, own),
                Ok(Merged::Skill(..)) | Err(_) => return Err(unknown()),
            },
        };
        let catalog = self.gateway.catalog();
        let is_owned = self.gateway.outward(&catalog, &self.view, &label).owns(&own);
        if is_owned { Err(unknown()) } else { Ok((label, own)) }
    }

    fn completion_target(&self, mut params: Map<String, Value>) -> Result<Target, Refusal> {
        if !self.has(Passed::Completions) {
            return Err(Refusal::NoMethod("completion/complete"));
        }
        let Some(Value::Object(reference)) = params.get_mut("ref") else {
            return Err(Refusal::Params("ref is no object".to_owned()));
        };
        let (label, member, own) = match reference.get("type").and_then(Value::as_str) {
            Some("ref/prompt") => {
                let (label, own) = self.prompt(&text(reference, "name")?)?;
                (label, "name", own)
            }
            Some("ref/resource") => {
                let (label, own) = self.resource_named(&text(reference, "uri")?)?;
                (label, "uri", own)
            }
            Some(_) | None => {
                return Err(Refusal::Params(
                    "ref.type is neither ref/prompt nor ref/resource".to_owned(),
                ));
            }
        };
        let passes = self.gateway.offers(&View::Origin(label.clone()), Passed::Completions);
        if passes.is_empty() {
            return Err(Refusal::Unknown(own));
        }
        reference.insert(member.to_owned(), json!(own));
        Ok(Target {
            method: Relayed::Complete,
            label,
            params,
            fields: Vec::new(),
        })
    }

    /// A result as the view names things and the host's era has it.
    fn outward(&self, target: &Target, mut result: Value, is_modern: bool) -> Result<Value, Refusal> {
        let catalog = self.gateway.catalog();
        let out = self.gateway.outward(&catalog, &self.view, &target.label);
        match target.method {
            Relayed::ToolsCall => out.tool_result(&mut result),
            Relayed::PromptsGet => out.prompt_result(&mut result),
            Relayed::ResourcesRead => {
                let holds = |holds: crate::gateway::HoldsSkill| Refusal::HoldsSkill(target.label.clone(), holds.0);
                out.read_result(&mut result).map_err(holds)?;
            }
            Relayed::Complete
            | Relayed::ToolsList
            | Relayed::PromptsList
            | Relayed::ResourcesList
            | Relayed::TemplatesList => {}
        }
        out.input_required(&mut result);
        out.mark(&mut result);
        if let Some(members) = result.as_object_mut().filter(|_| !is_modern) {
            members.retain(|key, value| key != "structuredContent" || value.is_object());
        }
        Ok(result)
    }
}

impl Host<'_> {
    /// Refuses a request whose header names another thing than its body (base protocol §8.3).
    pub(super) fn named_in_header(&self, method: Relayed, params: &Map<String, Value>) -> Result<(), Refusal> {
        let member = match method {
            Relayed::ToolsCall | Relayed::PromptsGet => "name",
            Relayed::ResourcesRead => "uri",
            Relayed::Complete
            | Relayed::ToolsList
            | Relayed::PromptsList
            | Relayed::ResourcesList
            | Relayed::TemplatesList => return Ok(()),
        };
        let Some(headers) = self.headers else { return Ok(()) };
        let said = text_in(headers, MCP_NAME).map(parameters::decode);
        let named = params.get(member).and_then(Value::as_str);
        match (said, named) {
            (Some(Some(said)), Some(named)) if said == named => Ok(()),
            (Some(_) | None, _) => Err(Refusal::Header(format!(
                "{MCP_NAME} is missing, or not what the body's {member} is"
            ))),
        }
    }

    /// The arguments of a call that are repeated in header fields, once they are in this request's (base protocol §8.5).
    fn parameters(&self, tool: &Tool, arguments: &Value) -> Result<Vec<(String, String)>, Refusal> {
        let annotated = tool.input_schema().map(parameters::of).unwrap_or_default();
        if let Some(headers) = self.headers {
            let field = |name: &str| text_in(headers, &format!("{}{name}", parameters::PARAMETER_PREFIX));
            let compared = parameters::compare(&annotated, arguments, field);
            compared.map_err(|disagrees| Refusal::Header(disagrees.to_string()))?;
        }
        Ok(parameters::fields(&annotated, arguments))
    }

    /// What of its `_meta` goes to origins.
    fn passed_meta(&self) -> Map<String, Value> {
        let meta = serde_json::to_value(&self.context.meta).unwrap_or_default();
        let passed = PASSED_META.iter();
        passed
            .filter_map(|key| Some(((*key).to_owned(), meta.get(key)?.clone())))
            .collect()
    }

    /// The host that a request comes from.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Host<'_> {
        let declared = serde_json::to_value(context.client_capabilities()).unwrap_or_default();
        let relayed = |key: &str| Some((key.to_owned(), declared.get(key)?.clone()));
        let is_modern = super::is_modern(context);
        let request = context.extensions.get::<Parts>().filter(|_| is_modern);
        Host {
            context,
            is_modern,
            headers: request.map(|request| &request.headers),
            capabilities: RELAYED_CAPABILITIES.iter().filter_map(|key| relayed(key)).collect(),
        }
    }
}

/// The text of a header field, without blanks around it.
fn text_in<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or("\u{fffd}").trim())
}

/// What kind of result an origin gave (base protocol §4).
enum Kind {
    Complete,
    Asks,
    /// One that belongs to an extension that is not relayed.
    Foreign,
}

fn kind_of(result: &Value) -> Kind {
    match result.get("resultType") {
        None => Kind::Complete,
        Some(Value::String(kind)) if kind == "complete" => Kind::Complete,
        Some(Value::String(kind)) if kind == "input_required" => Kind::Asks,
        Some(_) => Kind::Foreign,
    }
}

/// A member that has to be a string.
pub(super) fn text(params: &Map<String, Value>, member: &str) -> Result<String, Refusal> {
    let value = params.get(member).and_then(Value::as_str);
    value
        .map(str::to_owned)
        .ok_or_else(|| Refusal::Params(format!("{member} is missing or no string")))
}
