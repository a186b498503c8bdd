//! What origins want to know before they answer, in the way of the host's era (base protocol §14, §26).
//!
//! | host | origin | what happens |
//! | --- | --- | --- |
//! | 2026-07-28 | 2026-07-28 | the result that asks goes through, and so does the call that answers |
//! | 2026-07-28 | before | the call is parked, and the host gets a result that asks; its next call goes on with the parked one |
//! | before | 2026-07-28 | the host is asked, and the origin is called again with what it said |
//! | before | before | the host is asked, and the origin told |
//!
//! Nothing is ever answered on a person's behalf.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ServerRequest;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Handler;
use super::calls::Host;
use super::calls::Target;
use super::calls::UnderWay;
use super::refusal::Refusal;
use crate::domain::Label;
use crate::gateway::Said;

/// Calls that wait for answers of their hosts at once.
const MAX_PARKED: usize = 1_000;

/// How long a call waits for its host's answer.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Questions of one result.
const MAX_QUESTIONS: usize = 16;

/// The key of the one question that a parked call has.
const QUESTION: &str = "question";

/// What the state of a parked call begins with; origins' own states go through as they are.
const STATE: &str = "dev.portcullis/parked/";

/// JSON-RPC's code for what the other side does not offer.
const METHOD_NOT_FOUND: i64 = -32601;

/// A call whose origin waits for an answer.
pub(super) struct Parked {
    under_way: UnderWay,
    reply: oneshot::Sender<Result<Value, Said>>,
    until: Instant,
}

/// The calls that wait, by the state that names them. Held for a look-up.
#[derive(Clone, Default)]
pub(super) struct Parking(Arc<Mutex<HashMap<String, Parked>>>);

impl Parked {
    pub(super) fn new(under_way: UnderWay, reply: oneshot::Sender<Result<Value, Said>>) -> Self {
        Self {
            under_way,
            reply,
            until: Instant::now() + PATIENCE,
        }
    }

    /// Tells the origin what the host said, and goes on.
    pub(super) fn answer(self, answers: &Value) -> UnderWay {
        let answer = answers.get(QUESTION).cloned().ok_or_else(|| Said {
            code: METHOD_NOT_FOUND,
            message: "the host did not answer".to_owned(),
            data: None,
        });
        // An origin that does not wait any more has its answer or its failure on the way.
        let _gone = self.reply.send(answer);
        self.under_way
    }
}

impl Parking {
    /// Keeps a call until its host comes back; gives the state that names it. None when too many wait.
    fn take(&self, parked: Parked) -> Option<String> {
        let state = format!("{STATE}{:032x}", rand::random::<u128>());
        let mut waiting = self.0.lock();
        let now = Instant::now();
        waiting.retain(|_, parked| parked.until > now);
        if waiting.len() >= MAX_PARKED {
            return None;
        }
        waiting.insert(state.clone(), parked);
        Some(state)
    }

    /// The call that `state` names, once, if it is the same that comes back.
    fn give(&self, state: &str, target: &Target) -> Option<Parked> {
        let mut waiting = self.0.lock();
        let is_same = waiting.get(state).is_some_and(|parked| {
            let before = &parked.under_way.target;
            parked.until > Instant::now()
                && before.method == target.method
                && before.label == target.label
                && without_answers(&before.params) == without_answers(&target.params)
        });
        if is_same { waiting.remove(state) } else { None }
    }
}

fn without_answers(params: &Map<String, Value>) -> Map<String, Value> {
    let mut params = params.clone();
    params.remove("inputResponses");
    params.remove("requestState");
    params
}

impl Handler {
    /// The parked call that a request comes back to, with its answers; none where it carries no state of ours.
    pub(super) fn parked(&self, target: &Target) -> Result<Option<(Parked, Value)>, Refusal> {
        let state = target.params.get("requestState").and_then(Value::as_str);
        let Some(state) = state.filter(|state| state.starts_with(STATE)) else {
            return Ok(None);
        };
        let parked = self.parking.give(state, target).ok_or(Refusal::NotWaiting)?;
        Ok(Some((
            parked,
            target.params.get("inputResponses").cloned().unwrap_or_default(),
        )))
    }

    /// Lets a call wait for its host, and asks the host.
    pub(super) fn park(&self, parked: Parked, method: &str, mut params: Value) -> Result<Value, Refusal> {
        let label = parked.under_way.target.label.clone();
        self.sign(&label, &mut params);
        let state = self.parking.take(parked).ok_or(Refusal::TooManyWait)?;
        Ok(json!({
            "resultType": "input_required",
            "inputRequests": { QUESTION: { "method": method, "params": params } },
            "requestState": state,
        }))
    }

    /// Asks a host of before 2026-07-28, on the stream of its request.
    pub(super) async fn ask(
        &self,
        label: &Label,
        method: &str,
        mut params: Value,
        host: &Host<'_>,
    ) -> Result<Value, Said> {
        let said = |code, message: String| Said {
            code,
            message,
            data: None,
        };
        let is_offered = host
            .capabilities
            .contains_key(capability_of(method).unwrap_or_default());
        if !is_offered {
            return Err(said(METHOD_NOT_FOUND, format!("the host does not offer {method}")));
        }
        self.sign(label, &mut params);
        let request = json!({ "method": method, "params": params });
        let request: ServerRequest =
            serde_json::from_value(request).map_err(|error| said(-32602, format!("{method}: {error}")))?;
        let asked = tokio::time::timeout(PATIENCE, host.context.peer.send_request(request)).await;
        match asked {
            Ok(Ok(answer)) => serde_json::to_value(answer).map_err(|error| said(-32603, error.to_string())),
            Ok(Err(error)) => Err(said(-32603, format!("the host did not answer: {error}"))),
            Err(_elapsed) => Err(said(-32603, "the host did not answer in time".to_owned())),
        }
    }

    /// Asks a host of before 2026-07-28 everything that a result asks, and calls the origin again with what it said.
    pub(super) async fn ask_all(&self, target: Target, result: &Value, host: &Host<'_>) -> Result<UnderWay, Refusal> {
        let label = target.label.clone();
        let empty = Map::new();
        let requests = result.get("inputRequests").and_then(Value::as_object).unwrap_or(&empty);
        if requests.len() > MAX_QUESTIONS {
            return Err(Refusal::Unasked(label, "it asks too much at once"));
        }
        let mut answers = Map::new();
        for (key, request) in requests {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
            let answer = self.ask(&label, method, params, host).await;
            let answer = answer.map_err(|_said| Refusal::Unasked(label.clone(), "this host cannot be asked that"))?;
            answers.insert(key.clone(), answer);
        }
        let mut target = target;
        target.params = without_answers(&target.params);
        if !answers.is_empty() {
            target
                .params
                .insert("inputResponses".to_owned(), Value::Object(answers));
        }
        if let Some(state) = result.get("requestState") {
            target.params.insert("requestState".to_owned(), state.clone());
        }
        Ok(self.begin(target, host))
    }

    fn sign(&self, label: &Label, params: &mut Value) {
        let catalog = self.gateway.catalog();
        self.gateway.outward(&catalog, &self.view, label).sign(params);
    }
}

/// The capability that a host must have to be asked so.
fn capability_of(method: &str) -> Option<&'static str> {
    match method {
        "elicitation/create" => Some("elicitation"),
        "sampling/createMessage" => Some("sampling"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}
