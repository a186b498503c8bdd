//! A folder of skills as an origin, read by the SDK's catalog: symbolic links are not followed.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use parking_lot::Mutex;
use rmcp::handler::server::skill_catalog::SkillCatalog;
use rmcp::model::ResourceContents;
use serde::Serialize;

use super::Error;
use super::Unverified;
use super::listing::Listing;
use crate::domain::Form;
use crate::domain::Media;
use crate::domain::ResourceUri;
use crate::domain::SkillUri;

/// The folder, and its last good snapshot.
pub(super) struct Folder {
    root: PathBuf,
    /// Replaced by each listing, so that list, get and read agree between two of them.
    catalog: Mutex<Option<Arc<SkillCatalog>>>,
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            catalog: Mutex::new(None),
        }
    }

    /// Scans the folder again and lists what it has.
    pub(super) async fn list(&self) -> Result<Listing, Error> {
        let catalog = self.scan().await?;
        let entries = catalog.skills().iter().map(as_text).collect::<Result<_, _>>()?;
        Ok(Listing {
            entries,
            ..Listing::default()
        })
    }

    /// One skill of the folder as it is now.
    pub(super) async fn get(&self, skill: &SkillUri) -> Result<String, Error> {
        let catalog = self.scan().await?;
        let got = catalog.get_skill(skill.as_str()).map_err(|_| Error::NotFound)?;
        as_text(&got.skill)
    }

    /// A file of the snapshot that was last listed.
    pub(super) async fn read(&self, uri: &ResourceUri) -> Result<Unverified, Error> {
        let held = self.catalog.lock().clone();
        let catalog = match held {
            Some(catalog) => catalog,
            None => self.scan().await?,
        };
        let read = catalog.read_resource(uri.as_str()).ok_or(Error::NotFound)?;
        match read.contents.into_iter().next() {
            Some(ResourceContents::TextResourceContents { text, mime_type, .. }) => {
                Ok(unverified(text.into_bytes(), Form::Text, mime_type))
            }
            Some(ResourceContents::BlobResourceContents { blob, mime_type, .. }) => {
                let bytes = BASE64_STANDARD
                    .decode(blob)
                    .map_err(|error| Error::Malformed(error.to_string()))?;
                Ok(unverified(bytes, Form::Blob, mime_type))
            }
            Some(_) | None => Err(Error::Malformed("a file has neither text nor blob".to_owned())),
        }
    }

    async fn scan(&self) -> Result<Arc<SkillCatalog>, Error> {
        let root = self.root.clone();
        let scanned = tokio::task::spawn_blocking(move || SkillCatalog::from_dir(root)).await;
        let catalog = scanned
            .map_err(|error| Error::Folder(error.to_string()))?
            .map_err(|error| Error::Folder(error.to_string()))?;
        let catalog = Arc::new(catalog);
        *self.catalog.lock() = Some(Arc::clone(&catalog));
        Ok(catalog)
    }
}

fn as_text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Malformed(error.to_string()))
}

fn unverified(bytes: Vec<u8>, form: Form, mime_type: Option<String>) -> Unverified {
    Unverified {
        bytes: Bytes::from(bytes),
        media: Media { form, mime_type },
    }
}
