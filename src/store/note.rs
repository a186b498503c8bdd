//! Small notes of ours: JSON beside the digest of its own text, so that a bit that turned over is noticed.
//!
//! Imports `domain`. A note is bound to the name that it lies under; under another one it is none.

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::domain::Digest;

/// What lies on the disk.
#[derive(Serialize, Deserialize)]
struct Sealed {
    digest: Digest,
    note: Box<RawValue>,
}

/// The bytes of a note that is to lie under `name`.
pub(super) fn seal<T: Serialize>(name: &str, note: &T) -> Vec<u8> {
    let text = serde_json::to_string_pretty(note).unwrap_or_default();
    let sealed = RawValue::from_string(text).map(|note| Sealed {
        digest: digest(name, &note),
        note,
    });
    sealed
        .and_then(|sealed| serde_json::to_vec_pretty(&sealed))
        .unwrap_or_default()
}

/// The note in what lies under `name`, if it is what was written there.
pub(super) fn open<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Option<T> {
    let sealed: Sealed = serde_json::from_slice(bytes).ok()?;
    let is_whole = sealed.digest == digest(name, &sealed.note);
    is_whole.then(|| serde_json::from_str(sealed.note.get()).ok()).flatten()
}

fn digest(name: &str, note: &RawValue) -> Digest {
    Digest::of(format!("portcullis note v1\n{name}\n{}", note.get()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed_or_changes_nothing() {
        let note = vec![Some("revoked".to_owned()), None];
        let sealed = seal("a", &note);
        assert_eq!(open::<Vec<Option<String>>>("a", &sealed), Some(note.clone()));
        assert_eq!(open::<Vec<Option<String>>>("b", &sealed), None);
        let mut noticed = 0;
        for (at, bit) in (0..sealed.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bad = sealed.clone();
            bad[at] ^= 1 << bit;
            match open::<Vec<Option<String>>>("a", &bad) {
                Some(read) => assert_eq!(read, note, "{at} {bit}"),
                None => noticed += 1,
            }
        }
        assert!(noticed > sealed.len() * 7, "{noticed}");
    }
}
