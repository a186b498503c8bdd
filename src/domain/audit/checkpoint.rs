//! Checkpoints and the keys they are signed with: C2SP signed-note, tlog-checkpoint and tlog-cosignature.
//!
//! What is read is bound to the bytes it came from: another spelling of the same checkpoint is none. Signatures are Ed25519,
//! of a log (type `0x01`) or of a witness that adds the time (type `0x04`).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::Signer as _;
use ed25519_dalek::SigningKey;
use ed25519_dalek::VerifyingKey;
use signed_note::Signature;
use signed_note::is_key_name_valid;
use signed_note::key_id;
use thiserror::Error;
use tlog_tiles::tlog::Hash;

/// Bytes of a checkpoint with its signatures; a longer one is refused.
pub const MAX_CHECKPOINT_BYTES: usize = 64 * 1024;

/// Signatures on a checkpoint; C2SP signed-note wants at least 16.
const MAX_SIGNATURES: usize = 64;

/// Leaves that a log can have: what a checkpoint says beyond it is a lie, and would overflow the arithmetic of proofs.
pub const MAX_LEAVES: u64 = 1 << 62;

/// Whose signatures a key makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A log's: over the checkpoint itself.
    Log,
    /// A witness's: over the checkpoint and the time.
    Witness,
}

/// The public half of a key, as C2SP signed-note writes it: `name+id+base64`.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: u32,
    kind: KeyKind,
    public: VerifyingKey,
}

/// A key that signs. Its secret half is in no text that anything prints.
pub struct NoteKey {
    secret: SigningKey,
    verifier: VerifierKey,
}

/// What a checkpoint says.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The log, by its origin line.
    pub origin: String,
    /// How many leaves it covers; at most [`MAX_LEAVES`].
    pub size: u64,
    /// The root over them.
    pub root: Hash,
}

/// A checkpoint with signatures that nobody checked yet.
#[derive(Clone, Debug)]
pub struct SignedCheckpoint {
    checkpoint: Checkpoint,
    /// The text that is signed, with its last newline.
    text: Vec<u8>,
    signatures: Vec<Signature>,
}

/// A signature that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    /// When a witness gave it, in seconds since 1970.
    pub time: Option<u64>,
}

/// Why something is no checkpoint of the log asked about.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidCheckpoint {
    /// It is no signed note.
    #[error("it is no signed note")]
    Note,
    /// Its text is no checkpoint.
    #[error("it is no checkpoint")]
    Text,
    /// None of its signatures is by the key.
    #[error("it is not signed by {0}")]
    Unsigned(String),
    /// It names the key, but its signature is wrong.
    #[error("its signature by {0} is wrong")]
    Forged(String),
    /// It is signed by more than the key.
    #[error("it is not signed by {0} alone")]
    NotAlone(String),
    /// It belongs to another log.
    #[error("it is the checkpoint of another log, {0}")]
    OtherLog(String),
}

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a verifier key such as name+0123abcd+AQ…")]
pub struct InvalidKey;

impl KeyKind {
    /// The byte that C2SP signed-note has for it.
    const fn byte(self) -> u8 {
        match self {
            Self::Log => 1,
            Self::Witness => 4,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        [Self::Log, Self::Witness].into_iter().find(|kind| kind.byte() == byte)
    }
}

impl VerifierKey {
    fn new(name: &str, kind: KeyKind, public: VerifyingKey) -> Self {
        Self {
            name: name.to_owned(),
            id: key_id(name, &typed(kind, public.as_bytes())),
            kind,
            public,
        }
    }

    /// The name that stands in its signatures: for a log, its origin line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose key it is.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Checks one signature over the text of a checkpoint.
    fn check(&self, text: &[u8], signature: &[u8]) -> Option<Signed> {
        let (time, signature) = match self.kind {
            KeyKind::Log => (None, signature),
            KeyKind::Witness => {
                let (time, signature) = signature.split_first_chunk::<8>()?;
                let time = u64::from_be_bytes(*time);
                // The specification's bound; and in an answer to add-checkpoint it must not be zero.
                (
                    Some((1..=i64::MAX.unsigned_abs()).contains(&time).then_some(time)?),
                    signature,
                )
            }
        };
        let signature = ed25519_dalek::Signature::from_slice(signature).ok()?;
        let message = time.map_or_else(|| text.to_vec(), |time| cosigned(text, time));
        self.public.verify_strict(&message, &signature).ok()?;
        Some(Signed { time })
    }

    /// What names the key in envelopes: its name and the hash that C2SP signed-note has of it.
    pub(super) fn key_id(&self) -> String {
        format!("{}+{:08x}", self.name, self.id)
    }

    /// Checks a bare signature over a message that no checkpoint can be.
    pub(super) fn is_message_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let signature = ed25519_dalek::Signature::from_slice(signature);
        signature.is_ok_and(|signature| self.public.verify_strict(message, &signature).is_ok())
    }

    fn is_of(&self, signature: &Signature) -> bool {
        signature.name() == self.name && signature.id() == self.id
    }
}

impl FromStr for VerifierKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let mut parts = text.splitn(3, '+');
        let (name, id, key) = (parts.next(), parts.next(), parts.next());
        let name = name.filter(|name| is_key_name_valid(name)).ok_or(InvalidKey)?;
        let key = BASE64_STANDARD.decode(key.ok_or(InvalidKey)?).map_err(|_| InvalidKey)?;
        let (kind, public) = key.split_first().ok_or(InvalidKey)?;
        let kind = KeyKind::of_byte(*kind).ok_or(InvalidKey)?;
        let public = <&[u8; 32]>::try_from(public).map_err(|_| InvalidKey)?;
        let public = VerifyingKey::from_bytes(public).map_err(|_| InvalidKey)?;
        let parsed = Self::new(name, kind, public);
        if id == Some(&format!("{:08x}", parsed.id)) && parsed.to_string() == text {
            Ok(parsed)
        } else {
            Err(InvalidKey)
        }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = BASE64_STANDARD.encode(typed(self.kind, self.public.as_bytes()));
        write!(f, "{}+{:08x}+{key}", self.name, self.id)
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl NoteKey {
    /// The key with this seed; nothing for a name that no signature may bear.
    pub fn new(name: &str, kind: KeyKind, seed: &[u8; 32]) -> Option<Self> {
        let secret = SigningKey::from_bytes(seed);
        is_key_name_valid(name).then(|| Self {
            verifier: VerifierKey::new(name, kind, secret.verifying_key()),
            secret,
        })
    }

    /// Reads what [`NoteKey::to_secret_text`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("PRIVATE+KEY+")?;
        let mut parts = rest.trim_end().splitn(3, '+');
        let (name, id, key) = (parts.next()?, parts.next()?, parts.next()?);
        let key = BASE64_STANDARD.decode(key).ok()?;
        let (kind, seed) = key.split_first()?;
        let parsed = Self::new(name, KeyKind::of_byte(*kind)?, seed.try_into().ok()?)?;
        (id == format!("{:08x}", parsed.verifier.id)).then_some(parsed)
    }

    /// The key with its secret, for the file that it lies in, in the form of Go's `note` package.
    pub fn to_secret_text(&self) -> String {
        let VerifierKey { name, id, kind, .. } = &self.verifier;
        let secret = BASE64_STANDARD.encode(typed(*kind, self.secret.as_bytes()));
        format!("PRIVATE+KEY+{name}+{id:08x}+{secret}\n")
    }

    /// The public half.
    pub fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// The bare signature over a message that no checkpoint can be.
    pub(super) fn sign_message(&self, message: &[u8]) -> [u8; 64] {
        self.secret.sign(message).to_bytes()
    }

    /// The signature line over the text of a checkpoint; `time` in seconds since 1970 is a witness's alone.
    pub fn sign(&self, text: &[u8], time: u64) -> Vec<u8> {
        let (message, before) = match self.verifier.kind {
            KeyKind::Log => (text.to_vec(), Vec::new()),
            KeyKind::Witness => (cosigned(text, time), time.to_be_bytes().to_vec()),
        };
        let signature = [before, self.secret.sign(&message).to_bytes().to_vec()].concat();
        let signature = [&self.verifier.id.to_be_bytes(), signature.as_slice()].concat();
        let line = format!("— {} {}\n", self.verifier.name, BASE64_STANDARD.encode(signature));
        line.into_bytes()
    }
}

impl fmt::Debug for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.verifier, f)
    }
}

impl Checkpoint {
    /// The text that is signed.
    pub fn to_text(&self) -> Vec<u8> {
        let root = BASE64_STANDARD.encode(self.root.0);
        format!("{}\n{}\n{root}\n", self.origin, self.size).into_bytes()
    }

    /// The checkpoint with one signature of a log.
    pub fn signed_by(&self, key: &NoteKey) -> Vec<u8> {
        let text = self.to_text();
        let line = key.sign(&text, 0);
        [text, b"\n".to_vec(), line].concat()
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let parsed = tlog_tiles::Checkpoint::from_bytes(text).ok()?;
        let canonical = parsed.to_bytes() == text && parsed.size() <= MAX_LEAVES;
        canonical.then(|| Self {
            origin: parsed.origin().to_owned(),
            size: parsed.size(),
            root: *parsed.hash(),
        })
    }
}

impl SignedCheckpoint {
    /// Reads a checkpoint with its signatures, and checks none of them.
    ///
    /// # Errors
    ///
    /// [`InvalidCheckpoint::Note`], [`InvalidCheckpoint::Text`].
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidCheckpoint> {
        let note = InvalidCheckpoint::Note;
        let text = std::str::from_utf8(bytes).map_err(|_| note.clone())?;
        let is_plain = |c: char| c == '\n' || c >= ' ';
        if bytes.len() > MAX_CHECKPOINT_BYTES || !text.chars().all(is_plain) {
            return Err(note);
        }
        let (text, lines) = text.rsplit_once("\n\n").ok_or_else(|| note.clone())?;
        let text = format!("{text}\n").into_bytes();
        let checkpoint = Checkpoint::parse(&text).ok_or(InvalidCheckpoint::Text)?;
        let signatures = signatures(lines).ok_or_else(|| note.clone())?;
        let parsed = Self {
            checkpoint,
            text,
            signatures,
        };
        if parsed.to_bytes() == bytes {
            Ok(parsed)
        } else {
            Err(note)
        }
    }

    /// What it says; true only as far as a signature was checked.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The text that is signed.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The whole as it is written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [self.text.as_slice(), b"\n"].concat();
        for signature in &self.signatures {
            bytes.extend(signature.to_bytes());
        }
        bytes
    }

    /// Checks the signature of a key.
    ///
    /// # Errors
    ///
    /// [`InvalidCheckpoint::Unsigned`]; [`InvalidCheckpoint::Forged`] where any signature that names the key is wrong.
    pub fn verify(&self, key: &VerifierKey) -> Result<Signed, InvalidCheckpoint> {
        let mut signed = None;
        for signature in self.signatures.iter().filter(|signature| key.is_of(signature)) {
            let checked = key.check(&self.text, signature.signature());
            let checked = checked.ok_or_else(|| InvalidCheckpoint::Forged(key.name.clone()))?;
            signed = signed.or(Some(checked));
        }
        signed.ok_or_else(|| InvalidCheckpoint::Unsigned(key.name.clone()))
    }

    /// Checks that it is a log's checkpoint of its own: of its origin, and with no other signature beside its own.
    ///
    /// # Errors
    ///
    /// [`InvalidCheckpoint`].
    pub fn verify_own(&self, key: &VerifierKey) -> Result<(), InvalidCheckpoint> {
        self.verify_log(key)?;
        if self.signatures.len() == 1 {
            Ok(())
        } else {
            Err(InvalidCheckpoint::NotAlone(key.name.clone()))
        }
    }

    /// Checks that it is a checkpoint of the log with this key, whoever else signed it.
    ///
    /// # Errors
    ///
    /// [`InvalidCheckpoint`].
    pub fn verify_log(&self, key: &VerifierKey) -> Result<(), InvalidCheckpoint> {
        self.verify(key)?;
        if key.kind == KeyKind::Log && self.checkpoint.origin == key.name {
            Ok(())
        } else {
            Err(InvalidCheckpoint::OtherLog(self.checkpoint.origin.clone()))
        }
    }

    /// Leaves out the signatures of all keys but these.
    pub fn retain(&mut self, keys: &[VerifierKey]) {
        self.signatures
            .retain(|signature| keys.iter().any(|key| key.is_of(signature)));
    }

    /// Takes from a witness's answer the signature lines of a key that are right; says when they were given. Lines of other
    /// keys are passed over.
    ///
    /// # Errors
    ///
    /// [`InvalidCheckpoint`] where the answer has no such line.
    pub fn take_cosignature(&mut self, key: &VerifierKey, answer: &[u8]) -> Result<Signed, InvalidCheckpoint> {
        let lines = std::str::from_utf8(answer).ok();
        let lines = lines.filter(|_| answer.len() <= MAX_CHECKPOINT_BYTES);
        let lines = lines.and_then(signatures).ok_or(InvalidCheckpoint::Note)?;
        let own = lines.into_iter().find(|line| key.is_of(line));
        let own = own.ok_or_else(|| InvalidCheckpoint::Unsigned(key.name.clone()))?;
        let signed = key.check(&self.text, own.signature());
        let signed = signed.ok_or_else(|| InvalidCheckpoint::Forged(key.name.clone()))?;
        self.signatures.retain(|signature| !key.is_of(signature));
        self.signatures.push(own);
        Ok(signed)
    }
}

/// The signature lines that a text consists of.
fn signatures(lines: &str) -> Option<Vec<Signature>> {
    let lines: Vec<_> = lines.strip_suffix('\n')?.split('\n').collect();
    let few = lines.len() <= MAX_SIGNATURES;
    few.then(|| {
        lines
            .iter()
            .map(|line| Signature::from_bytes(line.as_bytes()).ok())
            .collect()
    })?
}

/// A key with the byte of its kind before it.
fn typed(kind: KeyKind, key: &[u8; 32]) -> Vec<u8> {
    [&[kind.byte()][..], key].concat()
}

/// What a witness signs (C2SP tlog-cosignature).
fn cosigned(text: &[u8], time: u64) -> Vec<u8> {
    [format!("cosignature/v1\ntime {time}\n").as_bytes(), text].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::hex;
    use super::*;

    /// The example of C2SP tlog-cosignature, whose keys are not published.
    const EXAMPLE: &str = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        — example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n\
        — witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n";

    fn key(kind: KeyKind, seed: u8) -> NoteKey {
        NoteKey::new("portcullis/x", kind, &[seed; 32]).unwrap()
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            origin: "portcullis/x".to_owned(),
            size: 3,
            root: tlog_tiles::tlog::record_hash(b"x"),
        }
    }

    #[test]
    fn the_examples_of_the_specifications_read_back() {
        let parsed = SignedCheckpoint::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(parsed.checkpoint().size, 20_852_163);
        assert_eq!(parsed.signatures.len(), 2);
        // 1679315147 is the time in the specification's text.
        let witness = &parsed.signatures[1];
        assert_eq!(witness.signature().len(), 72);
        assert_eq!(
            u64::from_be_bytes(witness.signature()[..8].try_into().unwrap()),
            1_679_315_147
        );
        for vkey in [
            "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        ] {
            let parsed: VerifierKey = vkey.parse().unwrap();
            assert_eq!((parsed.to_string().as_str(), parsed.kind()), (vkey, KeyKind::Log));
        }
    }

    #[test]
    fn published_notes_verify_and_no_other_text_does() {
        for (vkey, text, line) in [
            // C2SP signed-note.
            (
                "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
                "This is an example message.\n",
                "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=",
            ),
            // Go's golang.org/x/mod/sumdb/note.
            (
                "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
                "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n",
                "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=",
            ),
        ] {
            let key: VerifierKey = vkey.parse().unwrap();
            let signature = Signature::from_bytes(line.as_bytes()).unwrap();
            assert!(key.is_of(&signature));
            assert_eq!(
                key.check(text.as_bytes(), signature.signature()),
                Some(Signed { time: None })
            );
            assert_eq!(key.check(b"another text\n", signature.signature()), None);
        }
    }

    #[test]
    fn the_vectors_of_rfc_8032_come_out() {
        // RFC 8032 §7.1, TEST 1 to 3: seed, public key, message, signature.
        for (seed, public, message, signature) in [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
            (
                "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                "af82",
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
            ),
        ] {
            let seed: [u8; 32] = hex(seed).try_into().unwrap();
            let key = NoteKey::new("x", KeyKind::Log, &seed).unwrap();
            assert_eq!(key.verifier().public.as_bytes().as_slice(), hex(public));
            assert_eq!(key.secret.sign(&hex(message)).to_bytes().as_slice(), hex(signature));
            assert!(key.verifier().check(&hex(message), &hex(signature)).is_some());
        }
    }

    #[test]
    fn every_flipped_bit_of_a_checkpoint_is_noticed() {
        let key = key(KeyKind::Log, 1);
        let note = checkpoint().signed_by(&key);
        let open = |bytes: &[u8]| SignedCheckpoint::parse(bytes).and_then(|parsed| parsed.verify_own(key.verifier()));
        open(&note).unwrap();
        for at in 0..note.len() {
            for bit in 0..8 {
                let mut bad = note.clone();
                bad[at] ^= 1 << bit;
                assert!(open(&bad).is_err(), "{at} {bit}");
            }
        }
    }

    #[test]
    fn a_witness_adds_its_line_and_the_time() {
        let (log, witness) = (key(KeyKind::Log, 1), key(KeyKind::Witness, 2));
        let mut signed = SignedCheckpoint::parse(&checkpoint().signed_by(&log)).unwrap();
        let line = witness.sign(signed.text(), 1_790_000_000);
        let time = Some(1_790_000_000);
        let strange = key(KeyKind::Witness, 3).sign(signed.text(), 1);
        let answer = [strange.clone(), line.clone()].concat();
        assert_eq!(
            signed.take_cosignature(witness.verifier(), &answer),
            Ok(Signed { time })
        );
        assert_eq!(signed.verify(witness.verifier()), Ok(Signed { time }));
        assert_eq!(signed.verify_log(log.verifier()), Ok(()));
        let mut own = signed.clone();
        own.retain(&[log.verifier().clone()]);
        assert_eq!(own.to_bytes(), checkpoint().signed_by(&log));
        assert!(matches!(
            signed.verify_own(log.verifier()),
            Err(InvalidCheckpoint::NotAlone(_))
        ));
        let again = SignedCheckpoint::parse(&signed.to_bytes()).unwrap();
        assert_eq!(again.verify(witness.verifier()), Ok(Signed { time }));
        for nonsense in [&b""[..], b"\n", b"200 OK\n", &strange, &line[..line.len() - 1]] {
            assert!(signed.take_cosignature(witness.verifier(), nonsense).is_err());
        }
        for time in [0, u64::MAX] {
            let line = witness.sign(signed.text(), time);
            assert!(signed.take_cosignature(witness.verifier(), &line).is_err(), "{time}");
        }
    }

    #[test]
    fn a_secret_key_reads_back_and_is_printed_by_nothing() {
        for kind in [KeyKind::Log, KeyKind::Witness] {
            let key = key(kind, 9);
            let read = NoteKey::parse(&key.to_secret_text()).unwrap();
            assert_eq!(read.verifier(), key.verifier());
            assert_eq!(format!("{key:?}"), key.verifier().to_string());
        }
        assert!(NoteKey::parse("PRIVATE+KEY+x").is_none());
    }

    proptest! {
        #[test]
        fn what_reads_reads_back_as_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(parsed) = SignedCheckpoint::parse(&bytes) {
                prop_assert_eq!(parsed.to_bytes(), bytes);
            }
        }

        #[test]
        fn what_is_a_key_prints_as_it_was_read(text in "[a-z./+ ]{0,20}(\\+[0-9a-f]{8}\\+[A-Za-z0-9+/=]{44})?") {
            if let Ok(key) = text.parse::<VerifierKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
