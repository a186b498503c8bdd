//! Telling hosts that what they see has changed, once for many changes (base protocol §13; cases Q1 … Q3).

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::SubscriptionFilter;
use rmcp::service::Peer;
use rmcp::service::SubscriptionContext;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Handler;
use crate::gateway::Change;
use crate::gateway::View;

/// The least time between two notices to one host: what changes meanwhile is told of together.
const TOGETHER: Duration = Duration::from_secs(1);

/// The lists that changed since a host was told last.
#[derive(Clone, Copy, Default)]
struct Changed {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Changed {
    fn add(&mut self, other: Self) {
        self.tools |= other.tools;
        self.prompts |= other.prompts;
        self.resources |= other.resources;
    }

    fn is_any(self) -> bool {
        self.tools || self.prompts || self.resources
    }

    /// What of it a subscriber asked for.
    fn wanted(self, filter: &SubscriptionFilter) -> Self {
        Self {
            tools: self.tools && filter.tools_list_changed == Some(true),
            prompts: self.prompts && filter.prompts_list_changed == Some(true),
            resources: self.resources && filter.resources_list_changed == Some(true),
        }
    }
}

impl From<&Change> for Changed {
    fn from(change: &Change) -> Self {
        Self {
            tools: change.tools,
            prompts: change.prompts,
            resources: change.resources,
        }
    }
}

/// Waits for changes that concern `view`, and for a while longer for more of them. None when there will be no more.
async fn next(changes: &mut broadcast::Receiver<Change>, view: &View) -> Option<Changed> {
    let mut changed = Changed::default();
    while !changed.is_any() {
        changed = heard(changes.recv().await, view)?;
    }
    tokio::time::sleep(TOGETHER).await;
    loop {
        match changes.try_recv() {
            Ok(change) => changed.add(heard(Ok(change), view)?),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => {
                changed.add(heard(Err(RecvError::Lagged(missed)), view)?);
            }
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => {
                return Some(changed);
            }
        }
    }
}

fn heard(change: Result<Change, RecvError>, view: &View) -> Option<Changed> {
    match change {
        Ok(change) if matches!(view, View::Origin(label) if *label != change.label) => Some(Changed::default()),
        Ok(change) => Some(Changed::from(&change)),
        // So many that some were missed: everything may have changed.
        Err(RecvError::Lagged(_)) => Some(Changed {
            tools: true,
            prompts: true,
            resources: true,
        }),
        Err(RecvError::Closed) => None,
    }
}

impl Handler {
    /// Tells a subscriber until it leaves or the gateway ends.
    pub(super) async fn tell_subscriber(&self, subscription: &SubscriptionContext) {
        let mut changes = self.gateway.changes();
        loop {
            let changed = tokio::select! {
                changed = next(&mut changes, &self.view) => changed,
                () = subscription.cancelled() => return,
                () = self.gateway.shutdown().begun() => return,
            };
            let Some(changed) = changed else { return };
            let (wanted, sink) = (changed.wanted(subscription.accepted()), subscription.sink());
            let told = async {
                if wanted.tools {
                    sink.notify_tool_list_changed().await?;
                }
                if wanted.prompts {
                    sink.notify_prompt_list_changed().await?;
                }
                if wanted.resources {
                    sink.notify_resource_list_changed().await?;
                }
                Ok::<_, rmcp::service::SubscriptionSendError>(())
            };
            if told.await.is_err() {
                return;
            }
        }
    }

    /// Begins to tell a host of before 2026-07-28, for as long as its session lasts.
    pub(super) fn tell_session(&self, peer: Peer<RoleServer>) {
        let (mut changes, view, shutdown) = (
            self.gateway.changes(),
            self.view.clone(),
            self.gateway.shutdown().clone(),
        );
        let end = shutdown.clone();
        drop(shutdown.spawn(async move {
            loop {
                let changed = tokio::select! {
                    changed = next(&mut changes, &view) => changed,
                    () = end.begun() => return,
                };
                let Some(changed) = changed.filter(|_| !peer.is_transport_closed()) else {
                    return;
                };
                let told = async {
                    if changed.tools {
                        peer.notify_tool_list_changed().await?;
                    }
                    if changed.prompts {
                        peer.notify_prompt_list_changed().await?;
                    }
                    if changed.resources {
                        peer.notify_resource_list_changed().await?;
                    }
                    Ok::<_, rmcp::ServiceError>(())
                };
                if told.await.is_err() {
                    return;
                }
            }
        }));
    }
}
