//! Re-checks everything in `content/` (design §6).
//!
//! Imports `content`, `sets`, `folder` and `domain`. Damaged files are put aside; what is no file of ours is reported and
//! never touched.

use std::path::Path;
use std::path::PathBuf;

use serde::Serialize;

use super::content;
use super::content::Content;
use super::content::State;
use super::durable;
use super::error::Error;
use super::folder;
use super::sets;
use super::sets::StoredSet;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::SkillUri;
use crate::domain::Timestamp;

/// Bytes of a sidecar that are read; URIs are shorter.
const MAX_SIDECAR_BYTES: u64 = 64 * 1024;

/// How far a long check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Bytes or leaves checked.
    pub done: u64,
    /// Of how many.
    pub total: u64,
}

/// What a check of all content found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Files that have their digests.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sets that are what their names say.
    pub sets: u64,
    /// What is not as it was stored.
    pub damaged: Vec<Damage>,
    /// Notes of ours that are not what was written (a person, a token, the URI of a skill): as good as lost.
    pub unreadable: Vec<PathBuf>,
    /// Paths below `content/` that are none of ours; they stay.
    pub strangers: Vec<PathBuf>,
}

/// One stored thing that is not as it was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Whose.
    pub key: SkillKey,
    /// What it is.
    pub what: Damaged,
    /// The digest or set id in its name.
    pub expected: String,
    /// What was found.
    pub got: String,
}

/// Kinds of stored things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damaged {
    /// A file's bytes; put aside.
    File,
    /// The note how a file came; the next put writes it anew.
    Media,
    /// A set; put aside.
    Set,
}

/// Takes the path of a skill's folder and whose it is, or of a stranger and nothing.
type EachFolder<'a> = dyn FnMut(&Path, Option<SkillKey>) -> Result<(), Error> + 'a;

/// What a name in a skill's folder stands for.
enum Name {
    File(Digest),
    Media,
    Set(SetId),
    Sidecar,
    Stranger,
}

impl VerifyReport {
    /// Says whether everything of ours is as it was stored.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.unreadable.is_empty()
    }
}

impl Content {
    /// Checks everything, putting aside what is damaged.
    pub(super) fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, Error> {
        let mut report = VerifyReport::default();
        self.each_skill(&mut |dir, key| match key {
            Some(key) => self.verify_skill(dir, &key, &mut report, progress),
            None if is_hashed(dir) => {
                report.unreadable.push(dir.join(folder::SIDECAR));
                Ok(())
            }
            None => {
                report.strangers.push(dir.to_owned());
                Ok(())
            }
        })?;
        Ok(report)
    }

    /// Visits every folder of a skill, and every stranger without a key.
    pub(super) fn each_skill(&self, each: &mut EachFolder<'_>) -> Result<(), Error> {
        for label_name in durable::names(&self.dir)? {
            let label_dir = self.dir.join(&label_name);
            match label_name.parse::<Label>() {
                Ok(label) if is_folder(&label_dir) => self.each_skill_of(&label, each)?,
                Ok(_) | Err(_) => each(&label_dir, None)?,
            }
        }
        Ok(())
    }

    fn each_skill_of(&self, label: &Label, each: &mut EachFolder<'_>) -> Result<(), Error> {
        let label_dir = self.dir.join(label.as_str());
        for skill_name in durable::names(&label_dir)? {
            let dir = label_dir.join(&skill_name);
            let uri = if is_folder(&dir) {
                uri_of(&dir, &skill_name)?
            } else {
                None
            };
            let key = uri.map(|uri| SkillKey {
                label: label.clone(),
                uri,
            });
            each(&dir, key)?;
        }
        Ok(())
    }

    /// Visits every stored set that is whole, with the time it was first seen.
    pub(super) fn each_set(&self, each: &mut dyn FnMut(&SkillKey, Timestamp)) -> Result<(), Error> {
        self.each_skill(&mut |dir, key| key.map_or(Ok(()), |key| each_set_in(dir, &key, each)))
    }

    /// When the latest of an origin's stored sets was first seen.
    pub(super) fn latest_set_of(&self, label: &Label) -> Result<Option<Timestamp>, Error> {
        let mut latest = None;
        self.each_skill_of(label, &mut |dir, key| {
            key.map_or(Ok(()), |key| {
                each_set_in(dir, &key, &mut |_, seen| latest = latest.max(Some(seen)))
            })
        })?;
        Ok(latest)
    }

    fn verify_skill(
        &self,
        dir: &Path,
        key: &SkillKey,
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        for name in durable::names(dir)? {
            let path = dir.join(&name);
            match Name::of(&name) {
                Name::File(digest) => self.verify_file(&path, key, digest, report)?,
                Name::Set(set) => self.verify_set(&path, key, set, report)?,
                // Looked at with its file.
                Name::Media | Name::Sidecar => {}
                Name::Stranger => report.strangers.push(path),
            }
            progress(Progress {
                done: report.bytes,
                total: self.used().max(report.bytes),
            });
        }
        Ok(())
    }

    fn verify_file(&self, path: &Path, key: &SkillKey, digest: Digest, report: &mut VerifyReport) -> Result<(), Error> {
        let damage = |what, got: String| Damage {
            key: key.clone(),
            what,
            expected: digest.to_string(),
            got,
        };
        match content::state(path, digest)? {
            State::Absent => return Ok(()),
            State::Intact => {
                report.files += 1;
                report.bytes += path.symlink_metadata().map_or(0, |meta| meta.len());
            }
            State::Damaged(_) => {
                let _held = self.hold([key]);
                // Looked at again, since somebody may have healed it meanwhile.
                if let State::Damaged(got) = content::state(path, digest)? {
                    let named = got.map_or_else(|| "nothing that can be read".to_owned(), |got| got.to_string());
                    report.damaged.push(damage(Damaged::File, named));
                    if let Err(error) = self.put_aside(key, key.uri.as_resource(), digest, got) {
                        tracing::error!(path = %path.display(), %error, "a damaged file cannot be put aside");
                    }
                }
                return Ok(());
            }
        }
        let dir = path.parent().unwrap_or(&self.dir);
        if content::media_note(dir, digest)?.is_none_or(|note| note.is_empty()) {
            report
                .damaged
                .push(damage(Damaged::Media, "no note how it came".to_owned()));
        }
        Ok(())
    }

    fn verify_set(&self, path: &Path, key: &SkillKey, set: SetId, report: &mut VerifyReport) -> Result<(), Error> {
        let why = match sets::load(path, key, set)? {
            StoredSet::Absent => return Ok(()),
            StoredSet::Whole(..) => {
                report.sets += 1;
                return Ok(());
            }
            StoredSet::Refused(why) => why,
            StoredSet::Damaged(why) => {
                if let Err(error) = self.set_set_aside(key, set, path) {
                    tracing::error!(path = %path.display(), %error, "a damaged set cannot be put aside");
                }
                why
            }
        };
        report.damaged.push(Damage {
            key: key.clone(),
            what: Damaged::Set,
            expected: set.to_string(),
            got: why,
        });
        Ok(())
    }
}

impl Name {
    fn of(name: &str) -> Self {
        if name == folder::SIDECAR {
            return Self::Sidecar;
        }
        if let Some(set) = sets::set_named(name) {
            return Self::Set(set);
        }
        match name.strip_suffix(".json") {
            Some(hex) => Digest::from_hex(hex).map_or(Self::Stranger, |_| Self::Media),
            None => Digest::from_hex(name).map_or(Self::Stranger, Self::File),
        }
    }
}

fn each_set_in(dir: &Path, key: &SkillKey, each: &mut dyn FnMut(&SkillKey, Timestamp)) -> Result<(), Error> {
    for name in durable::names(dir)? {
        if let Some(set) = sets::set_named(&name)
            && let StoredSet::Whole(_, seen) = sets::load(&dir.join(&name), key, set)?
        {
            each(key, seen);
        }
    }
    Ok(())
}

/// Says whether a folder is one of ours whose URI lies in its sidecar.
fn is_hashed(dir: &Path) -> bool {
    let name = dir.file_name().and_then(std::ffi::OsStr::to_str);
    is_folder(dir) && name.is_some_and(folder::is_hashed)
}

/// Says whether a path is a folder itself and no link to one.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// The URI of a skill's folder; nothing for a folder of somebody else.
fn uri_of(dir: &Path, name: &str) -> Result<Option<SkillUri>, Error> {
    let sidecar = if folder::is_hashed(name) {
        durable::read(&dir.join(folder::SIDECAR), MAX_SIDECAR_BYTES)?
    } else {
        None
    };
    let sidecar = sidecar.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(folder::uri(name, sidecar.as_deref()))
}
