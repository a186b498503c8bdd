//! The central check: bytes against what an entry promised (H-25, H-26, H-32).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::Serialize;
use thiserror::Error;

use super::digest::Digest;
use super::entry::SkillEntry;
use super::frontmatter;
use super::frontmatter::FrontmatterMatch;
use super::frontmatter::FrontmatterMismatch;
use super::frontmatter::FrontmatterPolicy;
use super::set::Resource;
use super::uri::ResourceUri;

/// How an origin sent a file: its form on the wire and the type it claimed. Kept and relayed, never trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Media {
    /// `text` or `blob`.
    pub form: Form,
    /// What the origin calls its type.
    #[serde(default, rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// The member of a `contents` item that held the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `text`: UTF-8.
    Text,
    /// `blob`: base64.
    Blob,
}

/// Bytes that have the size and the digest their entry promises, and, for a skill's own `SKILL.md`, its frontmatter.
///
/// Only [`SkillEntry::verify`] makes one.
#[derive(Clone, Debug)]
pub struct VerifiedFile {
    uri: ResourceUri,
    digest: Digest,
    bytes: Bytes,
    media: Media,
    frontmatter: Option<FrontmatterMatch>,
}

/// A skill whose every file was verified. Only [`VerifiedSkill::of`] makes one.
#[derive(Clone, Debug)]
pub struct VerifiedSkill {
    entry: Arc<SkillEntry>,
    frontmatter: FrontmatterMatch,
}

/// Why bytes are not what the entry promises. Nothing of them may be used (H-27).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// The entry lists no such file (H-31).
    #[error("{uri} is not in the manifest")]
    Unlisted {
        /// The file asked for.
        uri: String,
    },
    /// The length differs (H-26).
    #[error("{uri} has {got} bytes where its manifest says {expected}")]
    Size {
        /// The file.
        uri: String,
        /// The size promised.
        expected: u64,
        /// The size received.
        got: u64,
    },
    /// The digest differs (H-25).
    #[error("{uri} has digest {got} where its manifest says {expected}")]
    Digest {
        /// The file.
        uri: String,
        /// The digest promised.
        expected: Digest,
        /// The digest of what was received.
        got: Digest,
    },
    /// The frontmatter in the file is not the entry's (H-33).
    #[error("the frontmatter of {uri} is not its entry's: {why}")]
    Frontmatter {
        /// The file.
        uri: String,
        /// The difference.
        #[source]
        why: FrontmatterMismatch,
    },
}

impl SkillEntry {
    /// Checks a file's bytes: size, then digest, then, for the skill's own `SKILL.md` alone (H-5), the frontmatter.
    ///
    /// # Errors
    ///
    /// [`Mismatch`], with the first check that failed.
    pub fn verify(
        &self,
        uri: &str,
        bytes: Bytes,
        media: Media,
        policy: FrontmatterPolicy,
    ) -> Result<VerifiedFile, Mismatch> {
        let resource = self
            .resources()
            .get(uri)
            .ok_or_else(|| Mismatch::Unlisted { uri: uri.to_owned() })?;
        check_bytes(resource, &bytes)?;
        let frontmatter = if uri == self.uri().as_str() {
            let compared = frontmatter::compare(&bytes, self.frontmatter(), policy);
            Some(compared.map_err(|why| Mismatch::Frontmatter {
                uri: uri.to_owned(),
                why,
            })?)
        } else {
            None
        };
        Ok(VerifiedFile {
            uri: resource.uri.clone(),
            digest: resource.digest,
            bytes,
            media,
            frontmatter,
        })
    }
}

fn check_bytes(resource: &Resource, bytes: &[u8]) -> Result<(), Mismatch> {
    let uri = || resource.uri.to_string();
    let got = bytes.len() as u64;
    if got != resource.size {
        return Err(Mismatch::Size {
            uri: uri(),
            expected: resource.size,
            got,
        });
    }
    let got = Digest::of(bytes);
    if got != resource.digest {
        return Err(Mismatch::Digest {
            uri: uri(),
            expected: resource.digest,
            got,
        });
    }
    Ok(())
}

impl VerifiedFile {
    /// Where it is, as the origin spells it.
    pub fn uri(&self) -> &ResourceUri {
        &self.uri
    }

    /// The digest that its bytes have.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How the origin sent them.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// How the frontmatter matched, if this is a skill's own `SKILL.md`.
    pub fn frontmatter(&self) -> Option<&FrontmatterMatch> {
        self.frontmatter.as_ref()
    }
}

impl VerifiedSkill {
    /// The whole skill, if `files` has a verified file for every resource of `entry`; else the first that is missing.
    ///
    /// # Errors
    ///
    /// The URI of the first file that was not verified.
    pub fn of(entry: Arc<SkillEntry>, files: &BTreeMap<ResourceUri, FileProof>) -> Result<Self, ResourceUri> {
        for resource in entry.resources().iter() {
            let proven = files
                .get(&resource.uri)
                .is_some_and(|proof| proof.digest == resource.digest);
            if !proven {
                return Err(resource.uri.clone());
            }
        }
        let own = entry.uri().as_resource();
        let frontmatter = files
            .get(own)
            .and_then(|proof| proof.frontmatter.clone())
            .ok_or_else(|| own.clone())?;
        Ok(Self { entry, frontmatter })
    }

    /// The entry that the files match.
    pub fn entry(&self) -> &Arc<SkillEntry> {
        &self.entry
    }

    /// How its frontmatter matched.
    pub fn frontmatter(&self) -> &FrontmatterMatch {
        &self.frontmatter
    }
}

/// What remains of a [`VerifiedFile`] when its bytes need not be held: that it was verified.
#[derive(Clone, Debug)]
pub struct FileProof {
    digest: Digest,
    frontmatter: Option<FrontmatterMatch>,
}

impl From<&VerifiedFile> for FileProof {
    fn from(file: &VerifiedFile) -> Self {
        Self {
            digest: file.digest,
            frontmatter: file.frontmatter.clone(),
        }
    }
}
