//! The SDK's server on a stream of messages, and the transport under it.
//!
//! There is one for each era that a host speaks on a connection: in the SDK, the first request decides for all that follow.

use std::sync::Arc;

use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::RequestId;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::model::ServerResult;
use rmcp::service::serve_server_with_ct;
use rmcp::transport::Transport;
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Ending;
use super::asked::Asked;
use crate::gateway::Caller;
use crate::server::Shared;
use crate::server::batch;
use crate::server::lane::Id;
use crate::server::lane::Refusal;
use crate::server::rest;
use crate::server::rest::Way;
use crate::server::sessions::Owner;

/// Messages that wait for the SDK.
const WAITING: usize = 16;

/// What is to be written.
pub(super) enum Outgoing {
    /// One message, in pieces.
    Message {
        /// The pieces.
        pieces: Vec<Bytes>,
        /// Given back once it is written.
        place: Option<OwnedSemaphorePermit>,
    },
    /// Nothing more.
    Close(Ending),
}

/// What leads from the SDK to the host.
#[derive(Clone)]
pub(super) struct Wire {
    /// What is to be answered.
    pub(super) asked: Arc<Asked>,
    /// What is to be written.
    pub(super) queue: mpsc::Sender<Outgoing>,
    /// The era.
    pub(super) is_modern: bool,
}

/// A running server of the SDK; it ends when this is dropped.
pub(super) struct Sdk {
    messages: mpsc::Sender<ClientJsonRpcMessage>,
    caller: Caller,
}

/// The host has left.
#[derive(Debug, Error)]
#[error("the host has left")]
struct Left;

/// The SDK's side of a stream.
struct Channel {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    wire: Wire,
}

impl Sdk {
    /// Begins a server; it is cancelled with `end`.
    pub(super) fn begin(shared: &Shared, owner: &Owner, wire: Wire, end: CancellationToken) -> Self {
        let (messages, received) = mpsc::channel(WAITING);
        let channel = Channel {
            messages: received,
            wire: wire.clone(),
        };
        if let Some(rest) = shared.rest.get(&owner.view) {
            let handler = rest.handler();
            drop(shared.gateway.shutdown().spawn(async move {
                match Box::pin(serve_server_with_ct(handler, channel, end)).await {
                    Ok(running) => drop(running.waiting().await),
                    Err(error) => tracing::debug!(%error, "the SDK did not begin to serve a connection"),
                }
                wire.give_up().await;
            }));
        }
        Self {
            messages,
            caller: owner.caller.clone(),
        }
    }

    /// Whether it still takes messages.
    pub(super) fn runs(&self) -> bool {
        !self.messages.is_closed()
    }

    /// Hands a message over; a refusal is for who sent it, if they want an answer.
    pub(super) async fn tell(&self, bytes: &[u8]) -> Option<Refusal> {
        let renamed = match rest::way_of(bytes) {
            Way::AsItIs => None,
            Way::Renamed(_, renamed) => Some(renamed),
            Way::Forged(method) => return Some(Refusal::Unoffered(method)),
        };
        let bytes = renamed.as_deref().unwrap_or(bytes);
        let Ok(mut message) = serde_json::from_slice::<ClientJsonRpcMessage>(bytes) else {
            return Some(Refusal::Params("the params have the wrong form".to_owned()));
        };
        message.insert_extension(self.caller.clone());
        let told = self.messages.send(message).await;
        told.is_err().then_some(ENDED)
    }
}

/// What is said when the SDK's server is gone.
const ENDED: Refusal = Refusal::Invalid("the connection's server has ended; begin anew");

impl Wire {
    /// Sends what the SDK has to say.
    async fn send(&self, message: ServerJsonRpcMessage) -> Result<(), Left> {
        if let ServerJsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(agreed) = &response.result
        {
            self.asked
                .agree_on_batches(agreed.protocol_version.as_str() == batch::REVISION);
        }
        let id = match &message {
            ServerJsonRpcMessage::Response(response) => Some(id(&response.id)),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref().map(id),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        let text = serde_json::to_vec(&message).map_err(|_| Left)?;
        let pieces = vec![Bytes::from(text)];
        match id {
            Some(id) => {
                self.asked.answer(&id, pieces, &self.queue).await;
                Ok(())
            }
            None => {
                let message = Outgoing::Message { pieces, place: None };
                self.queue.send(message).await.map_err(|_| Left)
            }
        }
    }

    /// Answers what the SDK left unanswered when it ended.
    async fn give_up(&self) {
        for id in self.asked.left_by_sdk(self.is_modern) {
            let text = id.text();
            self.asked
                .answer(&id, ENDED.reply(Some(&text)).frames, &self.queue)
                .await;
        }
    }
}

impl Transport<RoleServer> for Channel {
    type Error = Left;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = Result<(), Left>> + Send + 'static {
        let wire = self.wire.clone();
        async move { wire.send(message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Left> {
        self.messages.close();
        Ok(())
    }
}

fn id(id: &RequestId) -> Id {
    match id {
        RequestId::Number(number) => Id::Number(*number),
        RequestId::String(text) => Id::Text((**text).into()),
    }
}
