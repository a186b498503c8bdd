//! Proofs that somebody with the public key alone can check: C2SP tlog-proof, and consistency (RFC 6962 §2.1).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use thiserror::Error;
use tlog_tiles::tlog;
use tlog_tiles::tlog::Hash;

use super::Leaf;
use super::MAX_LEAF_BYTES;
use super::checkpoint::InvalidCheckpoint;
use super::checkpoint::MAX_CHECKPOINT_BYTES;
use super::checkpoint::MAX_LEAVES;
use super::checkpoint::SignedCheckpoint;
use super::checkpoint::VerifierKey;

/// The first line of a proof.
const FIRST: &str = "c2sp.org/tlog-proof@v1";

/// Hashes in any proof: the height of the highest tree.
pub(super) const MAX_PROOF_HASHES: usize = 63;

/// Bytes of a proof: the longest leaf in base64, its hashes and its checkpoint.
pub const MAX_PROOF_BYTES: usize = MAX_LEAF_BYTES * 2 + MAX_CHECKPOINT_BYTES + 8 * 1024;

/// A proof that a leaf is in a log.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The leaf's index.
    pub index: u64,
    /// The leaf's bytes.
    pub leaf: Vec<u8>,
    /// The hashes from the leaf's sibling up to the root's child.
    pub hashes: Vec<Hash>,
    /// The checkpoint that it is proven under.
    pub checkpoint: SignedCheckpoint,
}

/// Why a proof proves nothing.
#[derive(Debug, Error)]
pub enum InvalidProof {
    /// It is no proof in the form of C2SP tlog-proof, or has no leaf in its `extra` line.
    #[error("it is no tlog-proof of a leaf")]
    Form,
    /// Its checkpoint is not one of the log with this key.
    #[error("its checkpoint does not count: {0}")]
    Checkpoint(#[from] InvalidCheckpoint),
    /// The leaf is not in the tree that the checkpoint covers.
    #[error("the leaf is not under the checkpoint")]
    NotIncluded,
    /// What is in the tree is no leaf of this program.
    #[error("the leaf is {0}")]
    Leaf(#[from] super::InvalidLeaf),
}

impl Proof {
    /// The proof as text, for a `.tlog-proof` file.
    pub fn to_text(&self) -> Vec<u8> {
        let extra = BASE64_STANDARD.encode(&self.leaf);
        let mut text = format!("{FIRST}\nextra {extra}\nindex {}\n", self.index);
        text.push_str(&hash_lines(&self.hashes));
        text.push('\n');
        let mut bytes = text.into_bytes();
        bytes.extend(self.checkpoint.to_bytes());
        bytes
    }

    /// Reads a proof, and checks nothing of it.
    ///
    /// # Errors
    ///
    /// [`InvalidProof::Form`], [`InvalidProof::Checkpoint`].
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidProof> {
        let text = std::str::from_utf8(bytes).map_err(|_| InvalidProof::Form)?;
        let short = Some(text).filter(|text| text.len() <= MAX_PROOF_BYTES);
        let (head, checkpoint) = short
            .and_then(|text| text.split_once("\n\n"))
            .ok_or(InvalidProof::Form)?;
        let checkpoint = SignedCheckpoint::parse(checkpoint.as_bytes())?;
        let mut lines = head.split('\n');
        let first = lines.next().filter(|line| *line == FIRST);
        let extra = lines.next().and_then(|line| line.strip_prefix("extra "));
        let index = lines.next().and_then(|line| line.strip_prefix("index "));
        let (_, extra, index) = (|| Some((first?, extra?, index?)))().ok_or(InvalidProof::Form)?;
        Ok(Self {
            index: number(index).ok_or(InvalidProof::Form)?,
            leaf: base64(extra).ok_or(InvalidProof::Form)?,
            hashes: hashes(lines).ok_or(InvalidProof::Form)?,
            checkpoint,
        })
    }

    /// Checks that the leaf is under a checkpoint of the log with this key, and gives it.
    ///
    /// # Errors
    ///
    /// [`InvalidProof`].
    pub fn check(&self, key: &VerifierKey) -> Result<Leaf, InvalidProof> {
        self.checkpoint.verify_log(key)?;
        let covered = self.checkpoint.checkpoint();
        let leaf = tlog::record_hash(&self.leaf);
        tlog::check_record(&self.hashes, covered.size, covered.root, self.index, leaf)
            .map_err(|_| InvalidProof::NotIncluded)?;
        Ok(Leaf::from_bytes(&self.leaf)?)
    }
}

/// Says whether a proof shows that a tree of `new` leaves and root begins with the one of `old`.
pub fn is_consistent(proof: &[Hash], old: (u64, Hash), new: (u64, Hash)) -> bool {
    if old.0 == 0 {
        return proof.is_empty() && old.1 == tlog::EMPTY_HASH && (new.0 > 0 || new.1 == tlog::EMPTY_HASH);
    }
    let in_bounds = new.0 <= MAX_LEAVES && proof.len() <= MAX_PROOF_HASHES;
    in_bounds && tlog::check_tree(&proof.to_vec(), new.0, new.1, old.0, old.1).is_ok()
}

/// Hashes, one a line in base64, each line with its end.
pub(super) fn hash_lines(hashes: &[Hash]) -> String {
    let line = |hash: &Hash| format!("{}\n", BASE64_STANDARD.encode(hash.0));
    hashes.iter().map(line).collect()
}

/// Reads such lines, without their ends.
pub(super) fn hashes<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Vec<Hash>> {
    let hash = |line| Some(Hash(base64(line)?.try_into().ok()?));
    let hashes: Vec<_> = lines.take(MAX_PROOF_HASHES + 1).map(hash).collect::<Option<_>>()?;
    (hashes.len() <= MAX_PROOF_HASHES).then_some(hashes)
}

/// A number in ASCII digits without zeroes before it.
pub(super) fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn base64(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::checkpoint::Checkpoint;
    use super::super::checkpoint::KeyKind;
    use super::super::checkpoint::NoteKey;
    use super::super::tests::hex;
    use super::*;
    use crate::domain::Timestamp;
    use crate::domain::audit::Actor;
    use crate::domain::audit::Event;
    use crate::domain::audit::Tree;

    fn leaf(number: u64) -> Vec<u8> {
        let leaf = Leaf {
            v: Leaf::VERSION,
            time: Timestamp::from_millis(number),
            actor: Actor::Gateway,
            event: Event::SignedIn { via: "test".to_owned() },
            note: None,
            prev: None,
        };
        leaf.to_bytes()
    }

    fn key() -> NoteKey {
        NoteKey::new("portcullis/x", KeyKind::Log, &[1; 32]).unwrap()
    }

    fn tree(size: u64) -> Tree {
        let mut tree = Tree::default();
        (0..size).for_each(|number| tree.push(&leaf(number)));
        tree
    }

    fn proof(tree: &Tree, index: u64, key: &NoteKey) -> Proof {
        let size = tree.size();
        let checkpoint = Checkpoint {
            origin: key.verifier().name().to_owned(),
            size,
            root: tree.root_at(size).unwrap(),
        };
        Proof {
            index,
            leaf: leaf(index),
            hashes: tree.inclusion(index, size).unwrap(),
            checkpoint: SignedCheckpoint::parse(&checkpoint.signed_by(key)).unwrap(),
        }
    }

    #[test]
    fn every_leaf_of_every_tree_is_proven_and_no_other_is() {
        let key = key();
        for size in 1..20 {
            let tree = tree(size);
            for index in 0..size {
                let text = proof(&tree, index, &key).to_text();
                let read = Proof::parse(&text).unwrap();
                assert_eq!(read.to_text(), text);
                assert_eq!(read.check(key.verifier()).unwrap().to_bytes(), leaf(index));
                let other = Proof {
                    index: (index + 1) % size,
                    ..read.clone()
                };
                assert!(size == 1 || matches!(other.check(key.verifier()), Err(InvalidProof::NotIncluded)));
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_proof_is_noticed() {
        let (key, tree) = (key(), tree(5));
        let good = proof(&tree, 3, &key).to_text();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let checked = Proof::parse(&bad).and_then(|proof| proof.check(key.verifier()));
                assert!(checked.is_err(), "{at} {bit}");
            }
        }
        let other = NoteKey::new("portcullis/x", KeyKind::Log, &[2; 32]).unwrap();
        assert!(Proof::parse(&good).unwrap().check(other.verifier()).is_err());
    }

    #[test]
    fn the_roots_of_certificate_transparency_come_out() {
        // The eight inputs and roots that implementations of RFC 6962 share.
        let inputs = [
            "",
            "00",
            "10",
            "2021",
            "3031",
            "40414243",
            "5051525354555657",
            "606162636465666768696a6b6c6d6e6f",
        ];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut tree = Tree::default();
        for (input, root) in inputs.iter().zip(roots) {
            tree.push(&hex(input));
            assert_eq!(tree.root_at(tree.size()).unwrap().0.as_slice(), hex(root));
        }
    }

    #[test]
    fn consistency_holds_for_what_grew_and_for_nothing_else() {
        let grown = tree(40);
        let at = |size| (size, grown.root_at(size).unwrap());
        for (old, new) in (0..=40).flat_map(|new| (0..=new).map(move |old| (old, new))) {
            let proof = grown.consistency(old, new).unwrap();
            assert!(is_consistent(&proof, at(old), at(new)), "{old} {new}");
            let forked = (old, tlog::record_hash(b"another"));
            assert!(!is_consistent(&proof, forked, at(new)), "{old} {new}");
            let longer = [proof.clone(), vec![forked.1]].concat();
            assert!(!is_consistent(&longer, at(old), at(new)), "{old} {new}");
        }
        assert_eq!(grown.consistency(3, 41), None);
        assert_eq!(grown.consistency(4, 3), None);
        assert!(!is_consistent(&[], (1, at(1).1), (u64::MAX, at(1).1)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_a_proof_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            at in 0usize..600,
        ) {
            drop(Proof::parse(&bytes));
            let mut text = proof(&tree(9), 4, &key()).to_text();
            let at = at.min(text.len());
            drop(text.splice(at..at, bytes));
            if let Ok(read) = Proof::parse(&text) {
                drop(read.check(key().verifier()));
            }
        }
    }
}
