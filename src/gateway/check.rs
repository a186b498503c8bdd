//! Folders of skills checked for their authors: what would not be published, and where a reviewer would look.
//!
//! A folder is read as an origin's is, by the same scanner and the same rules; nothing of it is stored or served.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use super::Error;
use crate::clock::Clock;
use crate::domain::EntryFault;
use crate::domain::Limits;
use crate::domain::RejectedEntry;
use crate::domain::SKILL_FILE;
use crate::domain::SetId;
use crate::domain::SkillEntry;
use crate::domain::decoded;
use crate::domain::inspect;
use crate::domain::inspect::Remark;
use crate::domain::publish;
use crate::shutdown::Shutdown;
use crate::store::write_out;
use crate::upstream;
use crate::upstream::Attempt;
use crate::upstream::Upstream;

/// The longest that a folder may take to be read.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a check of one folder found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderCheck {
    /// The folder, as it was named.
    pub folder: String,
    /// The skills that would be published.
    pub skills: Vec<CheckedSkill>,
    /// What would not be, and why.
    pub problems: Vec<FolderProblem>,
    /// What could not be looked at, if anything.
    pub unseen: Option<String>,
}

/// A skill that would be published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedSkill {
    /// Its folder, relative to the checked one.
    pub path: String,
    /// Its set.
    pub set: SetId,
    /// How many files it has.
    pub files: usize,
    /// Where a reviewer would look.
    pub remarks: Vec<Remark>,
}

/// Something that would not be published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderProblem {
    /// The file or folder, relative to the checked one.
    pub file: String,
    /// The line in it, from 1, where one is at fault.
    pub line: Option<usize>,
    /// The rule that is broken.
    pub rule: String,
    /// How.
    pub problem: String,
    /// What to do, where that is known.
    pub fix: Option<String>,
}

/// A folder to check: one of skills, or one skill.
struct Checked {
    root: PathBuf,
    /// The one skill in `root` that is meant.
    only: Option<String>,
}

/// Checks a folder of skills, or the folder of one skill.
///
/// # Errors
///
/// [`Error::Check`] when it cannot be read.
pub async fn check_folder(folder: &Path) -> Result<FolderCheck, Error> {
    let checked = Checked::of(folder)?;
    let failed = |error| Error::Check {
        folder: folder.to_owned(),
        error,
    };
    let limits = Limits::default();
    let upstream = Upstream::new(&checked.settings(&limits)).map_err(failed)?;
    let listing = upstream.list(Attempt::Probe).await.map_err(failed)?;
    let mut found = FolderCheck {
        folder: folder.display().to_string(),
        unseen: listing.shortfall.map(|shortfall| shortfall.to_string()),
        ..FolderCheck::default()
    };
    for text in &listing.entries {
        match SkillEntry::parse(text, &limits) {
            Ok(entry) => found.skills.extend(checked.skill(&upstream, entry).await),
            Err(rejected) => found.problems.extend(checked.problem(&rejected)),
        }
    }
    let rejected = listing.rejected.iter();
    found
        .problems
        .extend(rejected.filter_map(|rejected| checked.problem(rejected)));
    Ok(found)
}

/// Mends in the `SKILL.md` of a folder's skills what can be mended without a doubt: values that need quotes, names that are
/// not their folder's, and a last line without an end. Gives the files that were written.
///
/// # Errors
///
/// [`Error::Check`] when the folder cannot be read, [`Error::Mend`] when a file cannot be written.
pub async fn mend_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let checked = Checked::of(folder)?;
    let before = check_folder(folder).await?;
    let mut files: Vec<_> = before
        .skills
        .iter()
        .map(|skill| checked.own_file(&skill.path))
        .collect();
    let problems = before
        .problems
        .iter()
        .filter_map(|problem| problem.file.strip_suffix(SKILL_FILE));
    files.extend(problems.map(|path| checked.own_file(path.trim_end_matches('/'))));
    files.sort();
    files.dedup();
    tokio::task::spawn_blocking(move || {
        let mut mended = Vec::new();
        for file in files {
            if mend(&file)? {
                mended.push(file);
            }
        }
        Ok(mended)
    })
    .await
    .map_err(|error| Error::Task(error.to_string()))?
}

/// Mends one regular file, and says whether there was anything to mend. Who may read and write it stays as it was.
fn mend(file: &Path) -> Result<bool, Error> {
    let failed = |source| Error::Mend {
        file: file.to_owned(),
        source,
    };
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    let metadata = file.symlink_metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Ok(false);
    }
    let bytes = std::fs::read(file).map_err(failed)?;
    let Some(mended) = publish::mended(&folder.to_string_lossy(), &bytes) else {
        return Ok(false);
    };
    write_out(file, &mended)?;
    std::fs::set_permissions(file, metadata.permissions()).map_err(failed)?;
    Ok(true)
}

impl Checked {
    /// Finds out what is meant: a folder that is a skill itself is the one skill in the folder above.
    fn of(folder: &Path) -> Result<Self, Error> {
        let failed = |source: std::io::Error| Error::Check {
            folder: folder.to_owned(),
            error: upstream::Error::Folder(source.to_string()),
        };
        let whole = folder.canonicalize().map_err(failed)?;
        let is_skill = whole.join(SKILL_FILE).symlink_metadata().is_ok();
        let parts = whole.parent().zip(whole.file_name()).filter(|_| is_skill);
        Ok(match parts {
            Some((root, name)) => Self {
                root: root.to_owned(),
                only: Some(name.to_string_lossy().into_owned()),
            },
            None => Self {
                root: whole,
                only: None,
            },
        })
    }

    fn settings(&self, limits: &Limits) -> upstream::Settings {
        upstream::Settings {
            address: upstream::Address::Folders(vec![upstream::Root::alone(&self.root)]),
            connect_timeout: PATIENCE,
            timeout: PATIENCE,
            total: PATIENCE,
            limits: limits.clone(),
            clock: Clock::system(),
            shutdown: Shutdown::new(),
        }
    }

    /// What there is to say of a skill that would be published, if it is meant.
    async fn skill(&self, upstream: &Upstream, entry: SkillEntry) -> Option<CheckedSkill> {
        let root = decoded(entry.uri().root().strip_prefix("skill://")?);
        let path = self.meant(&root)?.to_owned();
        let mut remarks = inspect::entry(&entry);
        for resource in entry.resources().iter() {
            let below = resource
                .uri
                .as_str()
                .strip_prefix(entry.uri().root())?
                .strip_prefix('/')?;
            if let Ok(file) = upstream.read(resource, Attempt::Probe).await {
                if below == SKILL_FILE {
                    let told = inspect::file(below, &file.bytes);
                    remarks.retain(|remark| {
                        remark.path != SKILL_FILE || !told.iter().any(|other| other.check == remark.check)
                    });
                    remarks.extend(told);
                } else {
                    remarks.extend(inspect::file(below, &file.bytes));
                }
            }
        }
        Some(CheckedSkill {
            path,
            set: entry.set(),
            files: entry.resources().iter().count(),
            remarks,
        })
    }

    fn problem(&self, rejected: &RejectedEntry) -> Option<FolderProblem> {
        let named = rejected.uri.as_deref().and_then(|uri| uri.strip_prefix("skill://"));
        let fault = &rejected.fault;
        let problem = if let EntryFault::Unpublishable(why) = fault {
            FolderProblem {
                file: why.file.clone(),
                line: why.line,
                rule: why.rule.id().to_owned(),
                problem: why.problem.clone(),
                fix: Some(why.fix.clone()),
            }
        } else {
            FolderProblem {
                file: decoded(named.unwrap_or(SKILL_FILE)),
                line: None,
                rule: fault.rule().to_owned(),
                problem: fault.to_string(),
                fix: None,
            }
        };
        let file = self.meant(&problem.file)?.to_owned();
        Some(FolderProblem { file, ..problem })
    }

    /// A path relative to what is checked; none of what is not meant.
    fn meant<'p>(&self, path: &'p str) -> Option<&'p str> {
        match &self.only {
            None => Some(path),
            Some(only) => {
                let rest = path.strip_prefix(only.as_str())?;
                if rest.is_empty() {
                    Some("")
                } else {
                    rest.strip_prefix('/')
                }
            }
        }
    }

    /// The `SKILL.md` of a skill, by the path of its folder relative to what is checked.
    fn own_file(&self, path: &str) -> PathBuf {
        let root = match &self.only {
            Some(only) => self.root.join(only),
            None => self.root.clone(),
        };
        root.join(path).join(SKILL_FILE)
    }
}
