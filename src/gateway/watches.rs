//! Resources that hosts watch for updates: each is watched once at its origin, for as long as any host does.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Gateway;
use super::Inner;
use super::changes::Change;
use super::unserved::Unserved;
use super::unserved::reason_of;
use crate::domain::Label;

/// Resources of all origins that are watched at once.
const MAX_WATCHED: usize = 10_000;

/// How many watch each resource. Held for a look.
#[derive(Default)]
pub(super) struct Watches(Mutex<HashMap<(Label, String), usize>>);

/// One host's watch over one resource; it ends with this value.
pub struct Watch {
    inner: Arc<Inner>,
    what: (Label, String),
}

impl Gateway {
    /// Begins to watch a resource, as its origin names it; updates of it are told of among the changes.
    ///
    /// # Errors
    ///
    /// [`Unserved`] when the origin does not let it be watched, or too many are.
    pub async fn watch(&self, label: &Label, uri: &str) -> Result<Watch, Unserved> {
        let inner = &self.0;
        let origin = inner.origins.get(label).ok_or(Unserved::Unknown)?;
        let what = (label.clone(), uri.to_owned());
        let is_first = {
            let mut watches = inner.watches.0.lock();
            if watches.len() >= MAX_WATCHED && !watches.contains_key(&what) {
                return Err(Unserved::Limits);
            }
            let count = watches.entry(what.clone()).or_default();
            *count += 1;
            *count == 1
        };
        // Gives the place back when that fails.
        let watch = Watch {
            inner: Arc::clone(inner),
            what,
        };
        if is_first {
            origin.upstream.watch(uri).await.map_err(|error| reason_of(&error))?;
        }
        Ok(watch)
    }
}

impl Inner {
    /// Tells of updates of an origin's resources until the end begins.
    pub(super) async fn tell_updates(&self, label: &Label) {
        let Some(origin) = self.origins.get(label) else { return };
        let mut updated = origin.upstream.updated();
        loop {
            let uri = tokio::select! {
                uri = updated.recv() => uri,
                () = self.shutdown.begun() => return,
            };
            match uri {
                Ok(uri) => self.tell(Change::updated(label.clone(), uri)),
                // Of those that were missed, the next read tells.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let is_last = {
            let mut watches = self.inner.watches.0.lock();
            let left = watches.get_mut(&self.what).map_or(0, |count| {
                *count = count.saturating_sub(1);
                *count
            });
            if left == 0 {
                watches.remove(&self.what);
            }
            left == 0
        };
        if !is_last {
            return;
        }
        let (inner, (label, uri)) = (Arc::clone(&self.inner), self.what.clone());
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(self.inner.shutdown.spawn(async move {
                let Some(origin) = inner.origins.get(&label) else {
                    return;
                };
                if let Err(error) = origin.upstream.unwatch(&uri).await {
                    tracing::debug!(%label, %error, "an origin was not told that a resource is watched no more");
                }
            }));
        }
    }
}
