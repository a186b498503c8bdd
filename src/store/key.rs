//! The key that signs the log's checkpoints, and reading them back (design §7).
//!
//! Imports `error` alone; C2SP tlog-checkpoint and signed-note come from `tlog_tiles` and `signed_note`.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::SigningKey;
use signed_note::Note;
use signed_note::StandardSigner;
use signed_note::StandardVerifier;
use signed_note::VerifierList;
use tlog_tiles::tlog::Hash;

use super::error::Error;

/// The algorithm byte that C2SP signed-note has for Ed25519.
const ED25519: u8 = 1;

/// The log's own key, under the name of its origin line.
pub(super) struct LogKey {
    origin: String,
    signer: StandardSigner,
    verifier: StandardVerifier,
    verifier_key: String,
}

/// What a checkpoint of ours says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Checkpoint {
    /// How many leaves it covers.
    pub(super) size: u64,
    /// The root over them.
    pub(super) root: Hash,
}

impl LogKey {
    /// Makes a new key; its text is secret.
    pub(super) fn generate(origin: &str) -> String {
        let seed: [u8; 32] = rand::random();
        let public = SigningKey::from_bytes(&seed).verifying_key().to_bytes();
        let id = signed_note::key_id(origin, &[&[ED25519][..], &public].concat());
        let secret = BASE64_STANDARD.encode([&[ED25519][..], &seed].concat());
        format!("PRIVATE+KEY+{origin}+{id:08x}+{secret}\n")
    }

    /// Reads a key of this origin.
    pub(super) fn parse(text: &str, origin: &str, path: &Path) -> Result<Self, Error> {
        let bad = |why: &str| Error::Key {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let text = text.trim_end();
        let signer = StandardSigner::new(text).map_err(|error| bad(&error.to_string()))?;
        if signed_note::Signer::name(&signer) != origin {
            let other = signed_note::Signer::name(&signer);
            return Err(bad(&format!(
                "it is the key of {other}, but by FORMAT this log is {origin}"
            )));
        }
        let seed = text
            .splitn(5, '+')
            .last()
            .and_then(|secret| BASE64_STANDARD.decode(secret).ok())
            .and_then(|secret| <[u8; 32]>::try_from(secret.get(1..)?).ok())
            .ok_or_else(|| bad("it is malformed"))?;
        let public = SigningKey::from_bytes(&seed).verifying_key();
        let verifier_key = signed_note::new_ed25519_verifier_key(origin, &public);
        let verifier = StandardVerifier::new(&verifier_key).map_err(|error| bad(&error.to_string()))?;
        Ok(Self {
            origin: origin.to_owned(),
            signer,
            verifier,
            verifier_key,
        })
    }

    /// The public half, as C2SP signed-note writes it.
    pub(super) fn verifier_key(&self) -> &str {
        &self.verifier_key
    }

    /// Signs the root over `size` leaves.
    pub(super) fn sign(&self, size: u64, root: Hash) -> Result<Vec<u8>, Error> {
        let ours = |why: String| Error::Leaf { why };
        let text = tlog_tiles::checkpoint::Checkpoint::new(&self.origin, size, root, "")
            .map_err(|error| ours(error.to_string()))?
            .to_bytes();
        let mut note = Note::new(&text, &[]).map_err(|error| ours(error.to_string()))?;
        note.add_sigs(&[&self.signer])
            .map_err(|error| ours(error.to_string()))?;
        Ok(note.to_bytes())
    }

    /// Reads a checkpoint, which must be exactly one that [`LogKey::sign`] makes.
    pub(super) fn open(&self, bytes: &[u8]) -> Result<Checkpoint, String> {
        let note = Note::from_bytes(bytes).map_err(|error| error.to_string())?;
        let (verified, others) = note
            .verify(&VerifierList::new(vec![Box::new(self.verifier.clone())]))
            .map_err(|error| error.to_string())?;
        if verified.len() != 1 || !others.is_empty() || note.to_bytes() != bytes {
            return Err("it is not signed by the log's key alone".to_owned());
        }
        let checkpoint =
            tlog_tiles::checkpoint::Checkpoint::from_bytes(note.text()).map_err(|error| error.to_string())?;
        if checkpoint.origin() != self.origin || checkpoint.to_bytes() != note.text() {
            return Err("it is the checkpoint of another log".to_owned());
        }
        Ok(Checkpoint {
            size: checkpoint.size(),
            root: *checkpoint.hash(),
        })
    }
}

impl std::fmt::Debug for LogKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.verifier_key)
    }
}

#[cfg(test)]
mod tests {
    use tlog_tiles::tlog;

    use super::*;

    #[test]
    fn every_flipped_byte_of_a_checkpoint_is_noticed() {
        let path = Path::new("key");
        let key = LogKey::parse(&LogKey::generate("portcullis/x"), "portcullis/x", path).unwrap();
        let note = key.sign(3, tlog::record_hash(b"x")).unwrap();
        assert_eq!(key.open(&note).unwrap().size, 3);
        for at in 0..note.len() {
            for bit in 0..8 {
                let mut bad = note.clone();
                bad[at] ^= 1 << bit;
                assert!(key.open(&bad).is_err(), "{at} {bit}");
            }
        }
        let text = LogKey::generate("portcullis/y");
        assert!(matches!(
            LogKey::parse(&text, "portcullis/x", path),
            Err(Error::Key { .. })
        ));
    }
}
