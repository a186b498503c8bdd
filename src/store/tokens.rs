//! Tokens of callers: `tokens/<id>.json`, with the digest of the secret and never the secret (design §6, §9).
//!
//! Imports `durable`, `note` and `domain`. A secret is found by its SHA-256, so that what a comparison's time could tell is a
//! prefix of a hash that nobody can choose.

use std::collections::HashMap;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use thiserror::Error as ThisError;

use super::durable;
use super::durable::Disk;
use super::durable::Place;
use super::error::Error;
use super::note;
use crate::domain::Digest;
use crate::domain::Timestamp;

/// What every secret begins with, so that scanners find one that was published.
const SECRET_PREFIX: &str = "pct_";

const ID_PREFIX: &str = "tok-";

/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;

/// Bytes of a token's file that are read.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;

/// The public name of a token: `tok-` and 16 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(Box<str>);

/// A text that is no token's id.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("{0:?} is not {ID_PREFIX} and {ID_DIGITS} lower-case hexadecimal digits")]
pub struct InvalidTokenId(pub String);

/// What is kept of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenNote {
    /// Its public name.
    pub id: TokenId,
    /// Whose it is, as an operator named it.
    pub name: String,
    /// The digest of its secret.
    pub hash: Digest,
    /// When it was made.
    pub created: Timestamp,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// The person who made it, whom it speaks for; not known of those made by older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The tokens of one data folder.
#[derive(Debug)]
pub(super) struct Tokens {
    disk: Arc<Disk>,
    dir: PathBuf,
    /// By the digest of the secret.
    known: Mutex<HashMap<Digest, Token>>,
}

/// A token, and whether its file and the log say the same of it.
#[derive(Debug)]
struct Token {
    note: TokenNote,
    is_written: bool,
    is_recorded: bool,
}

impl Token {
    /// One that file and log know.
    fn known(note: TokenNote) -> Self {
        Self {
            note,
            is_written: true,
            is_recorded: true,
        }
    }
}

impl Tokens {
    /// Takes in the tokens in `dir`.
    pub(super) fn open(disk: Arc<Disk>, dir: PathBuf) -> Result<Self, Error> {
        disk.make_dir(&dir)?;
        let mut known = HashMap::new();
        for name in durable::names(&dir)? {
            match read(&dir, &name)? {
                Some(note) => drop(known.insert(note.hash, Token::known(note))),
                None => tracing::warn!(name, "a file in tokens/ is no token"),
            }
        }
        Ok(Self {
            disk,
            dir,
            known: Mutex::new(known),
        })
    }

    /// Makes a token, which opens nothing before it is [let in](Tokens::let_in); gives its secret, which is nowhere else.
    pub(super) fn make(&self, name: &str, by: Option<&str>, now: Timestamp) -> Result<(TokenNote, String), Error> {
        let secret = format!(
            "{SECRET_PREFIX}{}",
            BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
        );
        let note = TokenNote {
            id: TokenId(format!("{ID_PREFIX}{:016x}", rand::random::<u64>()).into()),
            name: name.to_owned(),
            hash: Digest::of(secret.as_bytes()),
            created: now,
            revoked: None,
            by: by.map(str::to_owned),
        };
        self.write(&note, Place::New)?;
        Ok((note, secret))
    }

    /// Lets a token open, once it is on the record.
    pub(super) fn let_in(&self, note: TokenNote) {
        self.known.lock().insert(note.hash, Token::known(note));
    }

    /// Forgets a token that is not on the record.
    pub(super) fn discard(&self, note: &TokenNote) {
        self.disk.discard(&self.dir.join(file_name(&note.id)));
    }

    /// All tokens, the oldest first.
    pub(super) fn all(&self) -> Vec<TokenNote> {
        let mut notes: Vec<_> = self.known.lock().values().map(|token| token.note.clone()).collect();
        notes.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        notes
    }

    /// Ends a token; says whether there was a live one, or one whose end is not [recorded](Tokens::recorded). It ends at
    /// once, also when that cannot be made durable; then asking again tries that again.
    pub(super) fn revoke(&self, id: &TokenId, now: Timestamp) -> Result<bool, Error> {
        let mut known = self.known.lock();
        let Some(token) = known.values_mut().find(|token| &token.note.id == id) else {
            return Ok(false);
        };
        if token.note.revoked.is_none() {
            token.note.revoked = Some(now);
            (token.is_written, token.is_recorded) = (false, false);
        }
        if !token.is_written {
            self.write(&token.note, Place::Over)?;
            token.is_written = true;
        }
        Ok(!token.is_recorded)
    }

    /// Takes in which tokens are on the record as made, and which as ended.
    pub(super) fn match_record(&self, made: &HashSet<String>, ended: &HashSet<String>) {
        for token in self.known.lock().values_mut() {
            let id = token.note.id.to_string();
            // Those of older versions are not on the record at all.
            let is_missing = token.note.revoked.is_some() && made.contains(&id) && !ended.contains(&id);
            token.is_recorded = !is_missing;
        }
    }

    /// The tokens whose end is not on the record.
    pub(super) fn unrecorded(&self) -> Vec<TokenId> {
        let known = self.known.lock();
        let missing = known.values().filter(|token| !token.is_recorded);
        missing.map(|token| token.note.id.clone()).collect()
    }

    /// Notes that the end of a token is on the record.
    pub(super) fn recorded(&self, id: &TokenId) {
        let mut known = self.known.lock();
        if let Some(token) = known.values_mut().find(|token| &token.note.id == id) {
            token.is_recorded = true;
        }
    }

    /// The live token with this secret.
    pub(super) fn by_secret(&self, secret: &str) -> Option<TokenNote> {
        let known = self.known.lock();
        let Token { note, .. } = known.get(&Digest::of(secret.as_bytes()))?;
        note.revoked.is_none().then(|| note.clone())
    }

    /// The files that are no tokens.
    pub(super) fn unreadable(&self) -> Result<Vec<PathBuf>, Error> {
        let mut unreadable = Vec::new();
        for name in durable::names(&self.dir)? {
            if read(&self.dir, &name)?.is_none() {
                unreadable.push(self.dir.join(name));
            }
        }
        Ok(unreadable)
    }

    fn write(&self, note: &TokenNote, place: Place) -> Result<(), Error> {
        let name = file_name(&note.id);
        let sealed = note::seal(&name, note);
        self.disk
            .write(&self.dir.join(name), &sealed, durable::PRIVATE, place)
            .map(|_| ())
    }
}

fn file_name(id: &TokenId) -> String {
    format!("{id}.json")
}

fn read(dir: &Path, name: &str) -> Result<Option<TokenNote>, Error> {
    let bytes = durable::read(&dir.join(name), MAX_TOKEN_BYTES)?;
    let token: Option<TokenNote> = bytes.and_then(|bytes| note::open(name, &bytes));
    Ok(token.filter(|token| name == file_name(&token.id)))
}

impl FromStr for TokenId {
    type Err = InvalidTokenId;

    fn from_str(text: &str) -> Result<Self, InvalidTokenId> {
        let is_id = text.strip_prefix(ID_PREFIX).is_some_and(|digits| {
            digits.len() == ID_DIGITS && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        if is_id {
            Ok(Self(text.into()))
        } else {
            Err(InvalidTokenId(text.to_owned()))
        }
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for TokenId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    /// Makes a token and lets it in.
    fn made(tokens: &Tokens, name: &str) -> (TokenId, String) {
        let (note, secret) = tokens.make(name, Some("uid:7"), NOW).unwrap();
        assert_eq!(tokens.by_secret(&secret), None, "it opens nothing yet");
        tokens.let_in(note.clone());
        (note.id, secret)
    }

    fn tokens(dir: &Path) -> Tokens {
        let disk = Arc::new(Disk::new(dir, "t"));
        disk.make_dir(&dir.join(durable::TMP)).unwrap();
        Tokens::open(disk, dir.join("tokens")).unwrap()
    }

    #[test]
    fn a_secret_opens_its_token_until_it_is_revoked_and_never_lies_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let first = tokens(dir.path());
        let (id, secret) = made(&first, "ci");
        let (other, _) = made(&first, "bob");
        assert!(secret.starts_with(SECRET_PREFIX) && secret.len() == 47);
        for name in durable::names(&first.dir).unwrap() {
            let text = durable::read(&first.dir.join(name), 9_999).unwrap().unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(!text.contains(secret.trim_start_matches(SECRET_PREFIX)));
        }
        let again = tokens(dir.path());
        assert_eq!(again.by_secret(&secret).unwrap().name, "ci");
        assert_eq!(again.by_secret(&secret.replace(SECRET_PREFIX, "")), None);
        assert_eq!(again.by_secret(&secret).unwrap().by.as_deref(), Some("uid:7"));
        assert!(again.revoke(&id, NOW).unwrap());
        assert!(again.revoke(&id, NOW).unwrap(), "its end is not on the record");
        again.recorded(&id);
        assert!(!again.revoke(&id, NOW).unwrap());
        assert!(!again.revoke(&"tok-0000000000000000".parse().unwrap(), NOW).unwrap());
        assert_eq!(again.by_secret(&secret), None);
        let last = tokens(dir.path());
        assert_eq!(last.by_secret(&secret), None);
        let live: Vec<_> = last.all().into_iter().filter(|note| note.revoked.is_none()).collect();
        assert_eq!(live.into_iter().map(|note| note.id).collect::<Vec<_>>(), [other]);
    }

    #[test]
    fn a_revocation_that_cannot_be_written_is_in_force_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = tokens(dir.path());
        let (id, secret) = made(&tokens, "ci");
        tokens.disk.stop("test");
        assert!(matches!(tokens.revoke(&id, NOW), Err(Error::WritingStopped)));
        assert_eq!(tokens.by_secret(&secret), None);
        assert!(matches!(tokens.make("x", None, NOW), Err(Error::WritingStopped)));
    }

    #[test]
    fn a_revocation_that_had_no_room_is_written_when_it_is_asked_for_again() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = tokens(dir.path());
        let (id, secret) = made(&tokens, "ci");
        tokens.disk.watch.arm(0, rustix::io::Errno::NOSPC);
        assert!(matches!(tokens.revoke(&id, NOW), Err(Error::NoSpace { .. })));
        assert_eq!(tokens.by_secret(&secret), None);
        assert!(tokens.revoke(&id, NOW).unwrap());
        assert_eq!(self::tokens(dir.path()).by_secret(&secret), None);
    }

    #[test]
    fn a_note_of_an_older_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let old = r#"{"id":"tok-0000000000000001","name":"ci","hash":"HASH","created":"2026-01-01T00:00:00.000Z"}"#;
        let old = old.replace("HASH", &Digest::of(b"secret").to_string());
        let note: serde_json::Value = serde_json::from_str(&old).unwrap();
        let name = "tok-0000000000000001.json";
        let first = tokens(dir.path());
        let sealed = note::seal(name, &note);
        first
            .disk
            .write(&first.dir.join(name), &sealed, durable::PRIVATE, Place::New)
            .unwrap();
        assert_eq!(tokens(dir.path()).by_secret("secret").unwrap().by, None);
    }

    #[test]
    fn ids_are_parsed_before_they_name_files() {
        for bad in ["", "tok-", "tok-../../x", "tok-000000000000000G", "0000000000000000"] {
            assert!(bad.parse::<TokenId>().is_err(), "{bad}");
        }
    }
}
