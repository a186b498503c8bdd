//! What an origin says unasked, and to whom it goes: questions to the call that they are about, notices of change to whoever
//! keeps the origin fresh, and the rest to nobody.
//!
//! Invariant: what is said about one host's call never reaches another host. Where it cannot be told whose it is, it is
//! refused.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::RoleClient;
use rmcp::Service;
use rmcp::model::ClientCapabilities;
use rmcp::model::ClientConfig;
use rmcp::model::ClientResult;
use rmcp::model::CustomResult;
use rmcp::model::ErrorCode;
use rmcp::model::Implementation;
use rmcp::model::RequestId;
use rmcp::model::ServerNotification;
use rmcp::model::ServerRequest;
use rmcp::service::InboundStreamOrigin;
use rmcp::service::NotificationContext;
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::notices::Notices;
use super::relay::Interim;
use super::relay::Said;

/// Who we are towards an origin, and who takes what it says unasked.
#[derive(Clone)]
pub(super) struct Ear {
    us: ClientConfig,
    calls: Calls,
    notices: Notices,
}

/// The calls under way in one session, and where what is said about them goes. Held for a look-up.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<HashMap<RequestId, mpsc::Sender<Interim>>>>);

/// A call that is under way until this is dropped.
pub(super) struct Listed {
    calls: Calls,
    id: RequestId,
}

impl Calls {
    /// Takes a call in.
    pub(super) fn list(&self, id: RequestId, interim: mpsc::Sender<Interim>) -> Listed {
        self.0.lock().insert(id.clone(), interim);
        Listed {
            calls: self.clone(),
            id,
        }
    }

    /// The call that a question is about: the one on whose stream it came, or the only one there is.
    fn asked(&self, origin: Option<&InboundStreamOrigin>) -> Option<mpsc::Sender<Interim>> {
        let calls = self.0.lock();
        match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => calls.get(id).cloned(),
            Some(InboundStreamOrigin::Unassociated) => None,
            None => {
                let mut all = calls.values();
                all.next().filter(|_| all.next().is_none()).cloned()
            }
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.calls.0.lock().remove(&self.id);
    }
}

impl Ear {
    /// For one session, in which hosts can be asked so much.
    pub(super) fn new(capabilities: &Value, calls: Calls, notices: Notices) -> Self {
        let capabilities: ClientCapabilities = serde_json::from_value(capabilities.clone()).unwrap_or_default();
        let us = Implementation::new("portcullis", env!("CARGO_PKG_VERSION"));
        Self {
            us: ClientConfig::new(capabilities, us),
            calls,
            notices,
        }
    }

    /// Puts a question to the call that it is about, and waits for the answer.
    async fn ask(
        &self,
        request: &ServerRequest,
        origin: Option<&InboundStreamOrigin>,
    ) -> Result<ClientResult, ErrorData> {
        let refused = |words: &'static str| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, words, None);
        let call = self.calls.asked(origin);
        let call = call.ok_or_else(|| refused("nobody can be asked that who is known to wait for it"))?;
        let message = serde_json::to_value(request).unwrap_or_default();
        let (reply, answer) = oneshot::channel();
        let question = Interim::Question {
            method: message["method"].as_str().unwrap_or_default().to_owned(),
            params: message.get("params").cloned().unwrap_or_default(),
            reply,
        };
        let gone = "whoever waited for it has left";
        call.send(question).await.map_err(|_| refused(gone))?;
        match answer.await {
            Ok(Ok(value)) => Ok(ClientResult::CustomResult(CustomResult::new(value))),
            Ok(Err(Said { code, message, data })) => {
                let code = i32::try_from(code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
                Err(ErrorData::new(code, message, data))
            }
            Err(_gone) => Err(refused(gone)),
        }
    }
}

impl Service<RoleClient> for Ear {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            return Ok(ClientResult::empty(()));
        }
        if matches!(request, ServerRequest::CustomRequest(_)) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no such method", None));
        }
        // What is left are the questions that the protocol knows.
        self.ask(&request, context.extensions.get()).await
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        self.notices.take(&notification);
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        self.us.clone()
    }
}
