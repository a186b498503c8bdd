//! Verified files in memory, already encoded: what a hit costs is a look-up.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Deserialize;

use crate::domain::Digest;
use crate::domain::Form;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::VerifiedFile;
use crate::domain::quoted;

/// Files that the cache expects to hold.
const EXPECTED_FILES: usize = 4096;

/// A verified file as it stands in an answer. Made from nothing but a [`VerifiedFile`].
pub struct EncodedFile {
    members: Bytes,
    is_own: bool,
}

impl EncodedFile {
    /// Encodes the file in the form it came in (base protocol §16: text stays text, a blob a blob).
    pub(super) fn of(file: &VerifiedFile) -> Self {
        let mut members = String::with_capacity(file.bytes().len() + file.bytes().len() / 2 + 64);
        if let Some(mime_type) = &file.media().mime_type {
            members.push_str("\"mimeType\":");
            members.push_str(&quoted(mime_type));
            members.push(',');
        }
        match (file.media().form, std::str::from_utf8(file.bytes())) {
            (Form::Text, Ok(text)) => {
                members.push_str("\"text\":");
                members.push_str(&quoted(text));
            }
            // Text that is no UTF-8 never had a digest that matched; a blob says the same bytes.
            (Form::Text, Err(_)) | (Form::Blob, _) => {
                members.push_str("\"blob\":\"");
                BASE64_STANDARD.encode_string(file.bytes(), &mut members);
                members.push('"');
            }
        }
        Self {
            members: Bytes::from(members),
            is_own: file.frontmatter().is_some(),
        }
    }

    /// Whether this was verified as a skill's own `SKILL.md`, frontmatter and all.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// What is in it, taken out of its encoding again; none if it cannot be.
    pub(super) fn content(&self) -> Option<Content> {
        let json = [&b"{"[..], &self.members, b"}"].concat();
        serde_json::from_slice(&json).ok()
    }

    /// The members `mimeType` and `text` or `blob` of a `contents` item, as JSON without its braces.
    pub fn members(&self) -> &Bytes {
        &self.members
    }
}

/// What is in a verified file, for answers that are not the extension's own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// What its origin calls its type.
    pub mime_type: Option<String>,
    /// Its text, if it came as text.
    pub text: Option<String>,
    /// Its bytes in base64, if it did not.
    pub blob: Option<String>,
}

impl Content {
    /// Its text, in whichever form it came; none of bytes that are no text.
    pub fn readable(&self) -> Option<Cow<'_, str>> {
        if let Some(text) = &self.text {
            return Some(Cow::Borrowed(text));
        }
        let bytes = BASE64_STANDARD.decode(self.blob.as_ref()?).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        (!text.contains('\0')).then_some(Cow::Owned(text))
    }
}

/// A file of one set of one skill. Equal bytes of two skills, or of two sets, are two entries: each was verified against its
/// own manifest and, if it is a skill's own file, its own frontmatter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    pub(super) skill: Arc<SkillKey>,
    pub(super) set: SetId,
    pub(super) digest: Digest,
}

/// Verified files, bounded in bytes; what was used least leaves first.
pub(super) struct Memory(Cache<FileKey, Arc<EncodedFile>, Bytewise>);

/// Weighs a file by its encoded bytes.
#[derive(Clone)]
struct Bytewise;

impl Weighter<FileKey, Arc<EncodedFile>> for Bytewise {
    fn weight(&self, _key: &FileKey, file: &Arc<EncodedFile>) -> u64 {
        (file.members.len() as u64).saturating_add(512)
    }
}

impl Memory {
    /// A cache of at most `bytes`.
    pub(super) fn new(bytes: u64) -> Self {
        Self(Cache::with_weighter(EXPECTED_FILES, bytes, Bytewise))
    }

    pub(super) fn get(&self, key: &FileKey) -> Option<Arc<EncodedFile>> {
        self.0.get(key)
    }

    pub(super) fn put(&self, key: FileKey, file: Arc<EncodedFile>) {
        self.0.insert(key, file);
    }

    /// Forgets everything: content of an origin was removed, or found damaged.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}
