//! Telling hosts that what they see has changed, once for many changes (base protocol §13; cases Q1 … Q3).

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::ServiceError;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::Peer;
use rmcp::service::SubscriptionContext;
use rmcp::service::SubscriptionSendError;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::error::TryRecvError;

use super::Handler;
use super::refusal::Refusal;
use crate::config::Passed;
use crate::domain::Label;
use crate::gateway::Change;
use crate::gateway::Unserved;
use crate::gateway::View;
use crate::gateway::Watch;

/// The least time between two notices to one host: what changes meanwhile is told of together.
const TOGETHER: Duration = Duration::from_secs(1);

/// Resources that one host watches at once.
const MAX_WATCHED: usize = 256;

/// Updates of single resources that one host is told of together; more of them are told of as a change of all.
const MAX_UPDATED: usize = 256;

/// What has changed since a host was told last.
#[derive(Default)]
struct Changed {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// Skills, which hosts that are bridged see as tools and prompts.
    skills: bool,
    /// Resources that pass, as their origins name them.
    updated: HashSet<(Label, String)>,
}

/// What a host watches, by the names that it knows.
#[derive(Clone, Default)]
pub(super) struct Watched(Arc<Mutex<HashMap<String, One>>>);

/// A resource that a host watches.
struct One {
    /// Whose it is, and what they call it.
    what: (Label, String),
    _watch: Watch,
}

impl Changed {
    fn everything() -> Self {
        Self {
            tools: true,
            prompts: true,
            resources: true,
            skills: true,
            updated: HashSet::new(),
        }
    }

    fn add(&mut self, other: Self) {
        self.tools |= other.tools;
        self.prompts |= other.prompts;
        self.resources |= other.resources;
        self.skills |= other.skills;
        self.updated.extend(other.updated);
        if self.updated.len() > MAX_UPDATED {
            self.updated.clear();
            self.resources = true;
        }
    }

    /// What it is for a host that sees skills as tools and prompts, if this one does.
    fn seen(self, is_bridged: bool) -> Self {
        let bridged = is_bridged && self.skills;
        Self {
            tools: self.tools || bridged,
            prompts: self.prompts || bridged,
            ..self
        }
    }

    fn is_any(&self) -> bool {
        self.tools || self.prompts || self.resources || !self.updated.is_empty()
    }
}

impl From<Change> for Changed {
    fn from(change: Change) -> Self {
        let label = change.label;
        Self {
            tools: change.tools,
            prompts: change.prompts,
            resources: change.resources,
            skills: change.skills,
            updated: change.updated.into_iter().map(|uri| (label.clone(), uri)).collect(),
        }
    }
}

impl Watched {
    /// The names of those that were updated.
    fn names(&self, updated: &HashSet<(Label, String)>) -> Vec<String> {
        let watched = self.0.lock();
        let found = watched.iter().filter(|(_, one)| updated.contains(&one.what));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Watches one no more.
    pub(super) fn remove(&self, name: &str) {
        // Dropped after the lock.
        let _watch = self.0.lock().remove(name);
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
            Err(TryRecvError::Lagged(_)) => changed.add(Changed::everything()),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(changed),
        }
    }
}

fn heard(change: Result<Change, RecvError>, view: &View) -> Option<Changed> {
    match change {
        Ok(change) if matches!(view, View::Origin(label) if *label != change.label) => Some(Changed::default()),
        Ok(change) => Some(Changed::from(change)),
        // So many that some were missed: everything may have changed.
        Err(RecvError::Lagged(_)) => Some(Changed::everything()),
        Err(RecvError::Closed) => None,
    }
}

impl Handler {
    /// Lets a host watch a resource that passes and whose origin tells of updates.
    pub(super) async fn watch(&self, watched: &Watched, name: &str) -> Result<(), Refusal> {
        let (label, own) = self.watchable(name)?;
        if watched.0.lock().len() >= MAX_WATCHED {
            return Err(Refusal::Unserved(name.to_owned(), label, Unserved::Limits));
        }
        let watch = self.gateway.watch(&label, &own).await;
        let watch = watch.map_err(|why| Refusal::Unserved(name.to_owned(), label.clone(), why))?;
        let one = One {
            what: (label, own),
            _watch: watch,
        };
        watched.0.lock().insert(name.to_owned(), one);
        Ok(())
    }

    /// Whose a resource is that can be watched, and what they call it.
    pub(super) fn watchable(&self, name: &str) -> Result<(Label, String), Refusal> {
        let (label, own) = self.resource_named(name)?;
        let offers = self.gateway.offers(&View::Origin(label.clone()), Passed::Resources);
        let can_watch = offers
            .iter()
            .any(|(_, offer)| offer.can.subscribe && offer.has_resource(&own));
        if can_watch {
            Ok((label, own))
        } else {
            Err(Refusal::Unknown(name.to_owned()))
        }
    }

    /// Tells a subscriber until it leaves or the gateway ends.
    pub(super) async fn tell_subscriber(&self, subscription: &SubscriptionContext) {
        let mut changes = self.gateway.changes();
        let (accepted, sink, watched) = (subscription.accepted(), subscription.sink(), Watched::default());
        for name in accepted.resource_subscriptions.iter().flatten() {
            if let Err(refusal) = self.watch(&watched, name).await {
                tracing::debug!(name, ?refusal, "a resource cannot be watched");
            }
        }
        let wants = |asked: Option<bool>| asked == Some(true);
        let capabilities = subscription.request_context().client_capabilities();
        let is_bridged = self.bridge.is_for(capabilities.as_ref());
        loop {
            let changed = tokio::select! {
                changed = next(&mut changes, &self.view) => changed,
                () = subscription.cancelled() => return,
                () = self.gateway.shutdown().begun() => return,
            };
            let Some(changed) = changed.map(|changed| changed.seen(is_bridged)) else {
                return;
            };
            let told = async {
                if changed.tools && wants(accepted.tools_list_changed) {
                    sink.notify_tool_list_changed().await?;
                }
                if changed.prompts && wants(accepted.prompts_list_changed) {
                    sink.notify_prompt_list_changed().await?;
                }
                if changed.resources && wants(accepted.resources_list_changed) {
                    sink.notify_resource_list_changed().await?;
                }
                for name in watched.names(&changed.updated) {
                    sink.notify_resource_updated(name).await?;
                }
                Ok::<_, SubscriptionSendError>(())
            };
            if told.await.is_err() {
                return;
            }
        }
    }

    /// Begins to tell a host of before 2026-07-28, for as long as its session lasts.
    pub(super) fn tell_session(&self, peer: Peer<RoleServer>) {
        let (mut changes, view, watched) = (self.gateway.changes(), self.view.clone(), self.watched.clone());
        let shutdown = self.gateway.shutdown().clone();
        let end = shutdown.clone();
        let host = peer.peer_info();
        let is_bridged = self.bridge.is_for(host.as_ref().map(|host| &host.capabilities));
        drop(shutdown.spawn(async move {
            loop {
                let changed = tokio::select! {
                    changed = next(&mut changes, &view) => changed,
                    () = end.begun() => return,
                };
                let Some(changed) = changed.filter(|_| !peer.is_transport_closed()) else {
                    return;
                };
                let changed = changed.seen(is_bridged);
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
                    for name in watched.names(&changed.updated) {
                        let updated = ResourceUpdatedNotificationParam::new(name);
                        peer.notify_resource_updated(updated).await?;
                    }
                    Ok::<_, ServiceError>(())
                };
                if told.await.is_err() {
                    return;
                }
            }
        }));
    }
}
