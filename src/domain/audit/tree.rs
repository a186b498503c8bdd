//! The Merkle tree over the log's leaves: RFC 6962 hashing as C2SP tlog-tiles stores it.

use tlog_tiles::tlog;
use tlog_tiles::tlog::Hash;
use tlog_tiles::tlog::HashReader;

/// All hashes of the tree, in the order of C2SP's stored hash index: about 64 bytes a leaf.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    hashes: Vec<Hash>,
    size: u64,
}

impl Tree {
    /// How many leaves it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds the leaf with these bytes.
    pub fn push(&mut self, leaf: &[u8]) {
        let mut hash = tlog::record_hash(leaf);
        self.hashes.push(hash);
        let mut at = self.size;
        let mut level = 0;
        while at & 1 == 1 {
            let left = tlog::stored_hash_index(level, at - 1);
            if let Some(left) = usize::try_from(left).ok().and_then(|left| self.hashes.get(left)) {
                hash = tlog::node_hash(*left, hash);
            }
            self.hashes.push(hash);
            at >>= 1;
            level += 1;
        }
        self.size += 1;
    }

    /// Takes back all leaves from `size` on.
    pub fn cut(&mut self, size: u64) {
        self.hashes
            .truncate(usize::try_from(tlog::stored_hash_count(size)).unwrap_or(usize::MAX));
        self.size = size;
    }

    /// The root over the first `size` leaves; nothing when it has fewer.
    pub fn root_at(&self, size: u64) -> Option<Hash> {
        (size <= self.size).then(|| tlog::tree_hash(size, self).ok()).flatten()
    }

    /// The hashes that prove the leaf at `index` to be among the first `size`, from its sibling up (RFC 6962 §2.1.1).
    pub fn inclusion(&self, index: u64, size: u64) -> Option<Vec<Hash>> {
        let known = index < size && size <= self.size;
        known.then(|| tlog::prove_record(size, index, self).ok()).flatten()
    }

    /// The hashes that prove the first `new` leaves to begin with the first `old` (RFC 6962 §2.1.2).
    pub fn consistency(&self, old: u64, new: u64) -> Option<Vec<Hash>> {
        match old {
            _ if old > new || new > self.size => None,
            0 => Some(Vec::new()),
            _ => tlog::prove_tree(new, old, self).ok(),
        }
    }

    /// Says whether the leaf at `index` has these bytes.
    pub fn has(&self, index: u64, leaf: &[u8]) -> bool {
        let at = usize::try_from(tlog::stored_hash_index(0, index)).ok();
        at.and_then(|at| self.hashes.get(at)) == Some(&tlog::record_hash(leaf))
    }
}

impl HashReader for Tree {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog::Error> {
        let hash = |index: &u64| usize::try_from(*index).ok().and_then(|index| self.hashes.get(index));
        indexes
            .iter()
            .map(|index| hash(index).copied())
            .collect::<Option<_>>()
            .ok_or_else(|| tlog::Error::InvalidInput("a hash beyond the tree".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_tree_is_the_one_of_rfc_6962() {
        let mut tree = Tree::default();
        assert_eq!(tree.root_at(0), Some(tlog::EMPTY_HASH));
        for n in 0..300_u64 {
            let expected = tlog::stored_hashes(n, &n.to_be_bytes(), &tree).unwrap();
            tree.push(&n.to_be_bytes());
            assert!(tree.hashes.ends_with(&expected), "{n}");
            assert_eq!(tree.hashes.len() as u64, tlog::stored_hash_count(n + 1));
        }
        let (old, root) = (tree.root_at(100).unwrap(), tree.root_at(300).unwrap());
        let proof = tlog::prove_tree(300, 100, &tree).unwrap();
        tlog::check_tree(&proof, 300, root, 100, old).unwrap();
        assert!(tree.has(299, &299_u64.to_be_bytes()) && !tree.has(299, b"") && !tree.has(300, b""));
        tree.cut(100);
        assert_eq!((tree.root_at(100), tree.root_at(101)), (Some(old), None));
    }

    fn tree(leaves: &[Vec<u8>]) -> Tree {
        let mut tree = Tree::default();
        leaves.iter().for_each(|leaf| tree.push(leaf));
        tree
    }

    /// RFC 6962 §2.1, word for word.
    fn root(leaves: &[Vec<u8>]) -> Hash {
        match leaves {
            [] => tlog::tree_hash(0, &Tree::default()).unwrap(),
            [leaf] => tlog::record_hash(leaf),
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                tlog::node_hash(root(left), root(right))
            }
        }
    }

    proptest! {
        #[test]
        fn every_prefix_has_the_root_that_the_rfc_says(leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 0..40)) {
            let tree = tree(&leaves);
            prop_assert_eq!(tree.size(), leaves.len() as u64);
            for size in 0..=leaves.len() {
                prop_assert_eq!(tree.root_at(size as u64), Some(root(&leaves[..size])));
            }
            prop_assert_eq!(tree.root_at(leaves.len() as u64 + 1), None);
        }

        #[test]
        fn taking_leaves_back_leaves_the_earlier_tree(leaves in prop::collection::vec(any::<[u8; 4]>(), 1..40), keep in 0usize..40) {
            let leaves: Vec<_> = leaves.iter().map(|leaf| leaf.to_vec()).collect();
            let keep = keep.min(leaves.len());
            let mut cut = tree(&leaves);
            cut.cut(keep as u64);
            prop_assert_eq!(cut.root_at(keep as u64), tree(&leaves[..keep]).root_at(keep as u64));
            leaves[keep..].iter().for_each(|leaf| cut.push(leaf));
            prop_assert_eq!(cut.root_at(leaves.len() as u64), Some(root(&leaves)));
            prop_assert!(leaves.iter().enumerate().all(|(at, leaf)| cut.has(at as u64, leaf)));
        }
    }
}
