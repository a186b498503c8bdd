//! What strangers send of the record: checkpoints, proofs, attestations, requests to a witness, names of tiles and keys, lock
//! files. What reads writes the same bytes again, and nothing that is not signed counts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis::domain::Lock;
use portcullis::domain::audit::AddCheckpoint;
use portcullis::domain::audit::Envelope;
use portcullis::domain::audit::Proof;
use portcullis::domain::audit::Refused;
use portcullis::domain::audit::Seen;
use portcullis::domain::audit::SignedCheckpoint;
use portcullis::domain::audit::TileName;
use portcullis::domain::audit::VerifierKey;

/// A key whose secret half nobody here has (C2SP signed-note).
const KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

fuzz_target!(|bytes: &[u8]| {
    let key: VerifierKey = KEY.parse().expect("it is a key");
    if let Ok(mut checkpoint) = SignedCheckpoint::parse(bytes) {
        assert_eq!(checkpoint.to_bytes(), bytes);
        assert!(checkpoint.verify_log(&key).is_err());
        assert!(checkpoint.take_cosignature(&key, bytes).is_err());
    }
    if let Ok(proof) = Proof::parse(bytes) {
        assert_eq!(proof.to_text(), bytes);
        assert!(proof.check(&key).is_err());
    }
    if let Ok(request) = AddCheckpoint::parse(bytes) {
        assert_eq!(request.to_text(), bytes);
        let judged = request.judge(std::slice::from_ref(&key), Seen::default());
        assert!(
            matches!(judged, Err(Refused::Unsigned | Refused::UnknownLog)),
            "{judged:?}"
        );
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(name) = text.parse::<TileName>() {
        assert_eq!(name.to_string(), text);
        let _held = name.is_in(u64::MAX >> 2);
    }
    if let Ok(key) = text.parse::<VerifierKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(envelope) = serde_json::from_str::<Envelope>(text) {
        assert!(envelope.check(&key).is_err());
    }
    if let Ok(lock) = Lock::parse(text) {
        let again = Lock::parse(&lock.to_text()).expect("what is written reads");
        assert_eq!(again, lock);
    }
});
