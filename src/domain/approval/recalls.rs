//! Recalled files: stopped everywhere, whatever approvals say.

use std::collections::BTreeMap;

use crate::domain::digest::Digest;
use crate::domain::set::ResourceSet;

/// The digests that were recalled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalls(BTreeMap<Digest, Recall>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recall {
    /// The leaf that said so last.
    leaf: u64,
    is_lifted: bool,
}

impl Recalls {
    pub(super) fn recall(&mut self, leaf: u64, digest: Digest) {
        self.0.insert(digest, Recall { leaf, is_lifted: false });
    }

    pub(super) fn lift(&mut self, digest: Digest) {
        if let Some(recall) = self.0.get_mut(&digest) {
            recall.is_lifted = true;
        }
    }

    /// Says whether a digest is recalled.
    pub fn has(&self, digest: Digest) -> bool {
        self.0.get(&digest).is_some_and(|recall| !recall.is_lifted)
    }

    /// Every digest that is recalled.
    pub fn iter(&self) -> impl Iterator<Item = Digest> {
        self.0
            .iter()
            .filter(|(_, recall)| !recall.is_lifted)
            .map(|(digest, _)| *digest)
    }

    /// A recalled file of a set, if it has one.
    pub fn first_in(&self, set: &ResourceSet) -> Option<Digest> {
        if self.0.is_empty() {
            return None;
        }
        set.iter()
            .map(|resource| resource.digest)
            .find(|digest| self.has(*digest))
    }

    /// The leaf from which on votes for a set count: a recall ends those before it, also when it is lifted.
    pub(super) fn votes_since(&self, set: &ResourceSet) -> u64 {
        let recalled = set.iter().filter_map(|resource| self.0.get(&resource.digest));
        recalled.map(|recall| recall.leaf).max().unwrap_or_default()
    }
}
