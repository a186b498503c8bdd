//! What a server says has changed: heard where it comes by itself (before 2026-07-28), asked for where it has to be (base
//! protocol §13), and asked for again when a stream did not last.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Weak;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::ServerNotification;
use rmcp::model::SubscriptionFilter;
use rmcp::service::Peer;
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::broadcast;

use super::Error;
use super::pace::Pace;
use super::session::Question;
use super::session::Server;
use super::session::Session;

/// Updates of resources that a listener may be behind.
const KEPT: usize = 256;

/// Where notices of one server go. Cheap to clone.
#[derive(Clone)]
pub(super) struct Notices(Arc<Inner>);

struct Inner {
    /// Something of it has changed, so that its lists are to be asked for again.
    changed: Notify,
    /// Resources that were updated, by URI.
    updated: broadcast::Sender<String>,
    /// Resources that are watched; held for a look.
    watched: Mutex<BTreeSet<String>>,
    /// Other resources are watched than before.
    rewatched: Notify,
    pace: Pace,
}

impl Default for Notices {
    fn default() -> Self {
        Self(Arc::new(Inner {
            changed: Notify::new(),
            updated: broadcast::Sender::new(KEPT),
            watched: Mutex::default(),
            rewatched: Notify::new(),
            pace: Pace::default(),
        }))
    }
}

impl Notices {
    /// Takes a notice in, if it is one of change.
    pub(super) fn take(&self, notice: &ServerNotification) {
        if let ServerNotification::ResourceUpdatedNotification(updated) = notice {
            // Nobody may be listening.
            let _listeners = self.0.updated.send(updated.params.uri.clone()).is_ok();
        }
        let is_of_lists = matches!(
            notice,
            ServerNotification::ToolListChangedNotification(_)
                | ServerNotification::PromptListChangedNotification(_)
                | ServerNotification::ResourceListChangedNotification(_)
        );
        if is_of_lists {
            self.0.changed.notify_one();
        }
    }

    /// Waits until something has changed.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// The resources that are updated from now on.
    pub(super) fn updated(&self) -> broadcast::Receiver<String> {
        self.0.updated.subscribe()
    }

    /// Listens in a session of 2026-07-28 for as long as it is kept.
    pub(super) async fn listen(self, session: Weak<Session>) {
        loop {
            let Some((peer, filter)) = session.upgrade().map(|session| (session.peer(), self.filter(&session))) else {
                return;
            };
            let Some(filter) = filter else {
                self.0.rewatched.notified().await;
                continue;
            };
            self.0.pace.wait().await;
            if !self.listen_once(&peer, filter).await {
                return;
            }
        }
    }

    /// Listens until the stream ends or is to be another one; says whether there is to be one.
    async fn listen_once(&self, peer: &Peer<RoleClient>, filter: SubscriptionFilter) -> bool {
        let mut subscription = match peer.listen(filter).await {
            Ok(subscription) => subscription,
            Err(error) => {
                tracing::debug!(%error, "an origin does not tell of changes, though it says that it does");
                return false;
            }
        };
        // What changed before was not told.
        self.0.changed.notify_one();
        loop {
            tokio::select! {
                notice = subscription.next() => match notice {
                    Ok(Some(notice)) => self.take(&notice),
                    Ok(None) | Err(_) => return true,
                },
                () = self.0.rewatched.notified() => {
                    // Whether it hears that the old one is over is its own affair.
                    let _told = subscription.cancel().await.is_ok();
                    self.0.pace.forget();
                    return true;
                }
            }
        }
    }

    /// What to listen to in a session; none when the server tells of nothing that matters.
    fn filter(&self, session: &Session) -> Option<SubscriptionFilter> {
        let info = session.peer_info()?;
        let can = &info.capabilities;
        let tells = |says: Option<bool>| says.filter(|says| *says);
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = tells(can.tools.as_ref().and_then(|tools| tools.list_changed));
        filter.prompts_list_changed = tells(can.prompts.as_ref().and_then(|prompts| prompts.list_changed));
        filter.resources_list_changed = tells(can.resources.as_ref().and_then(|resources| resources.list_changed));
        let watched: Vec<String> = self.0.watched.lock().iter().cloned().collect();
        filter.resource_subscriptions = (!watched.is_empty()).then_some(watched);
        (filter != SubscriptionFilter::new()).then_some(filter)
    }
}

impl Server {
    /// Has the server tell of updates of a resource.
    ///
    /// # Errors
    ///
    /// Those of the connection, and the server's own.
    pub(super) async fn watch(&self, uri: &str) -> Result<(), Error> {
        self.notices().0.watched.lock().insert(uri.to_owned());
        let watching = self.say_watched("resources/subscribe", uri).await;
        if watching.is_err() {
            self.notices().0.watched.lock().remove(uri);
        }
        watching
    }

    /// Has it tell no more.
    ///
    /// # Errors
    ///
    /// As [`Self::watch`].
    pub(super) async fn unwatch(&self, uri: &str) -> Result<(), Error> {
        self.notices().0.watched.lock().remove(uri);
        self.say_watched("resources/unsubscribe", uri).await
    }

    /// Has a server of before 2026-07-28 tell again of what is watched: a session that was lost took that with it.
    ///
    /// # Errors
    ///
    /// As [`Self::watch`].
    pub(super) async fn watch_again(&self) -> Result<(), Error> {
        let watched: Vec<String> = self.notices().0.watched.lock().iter().cloned().collect();
        if self.session().await?.is_modern() {
            return Ok(());
        }
        for uri in watched {
            self.say_watched("resources/subscribe", &uri).await?;
        }
        Ok(())
    }

    async fn say_watched(&self, method: &str, uri: &str) -> Result<(), Error> {
        let session = self.session().await?;
        if session.is_modern() {
            self.notices().0.rewatched.notify_one();
            return Ok(());
        }
        let question = Question {
            method,
            params: json!({ "uri": uri }),
            cap: self.answer_bytes(),
            timeout: self.timeout(),
        };
        self.ask(question).await.map(drop)
    }
}
