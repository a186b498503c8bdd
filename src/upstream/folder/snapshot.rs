//! What one scan of all roots found, as it is listed, given and read until the next one.

use std::collections::HashMap;
use std::sync::Arc;

use super::gap::Gap;
use super::scan::Scan;
use super::scan::Scanner;
use super::scan::Skill;
use super::scan::SkillFile;
use super::tree::name_of;
use crate::domain::RejectedEntry;
use crate::domain::ResourceUri;
use crate::domain::SkillUri;
use crate::upstream::Error;
use crate::upstream::Got;
use crate::upstream::Listing;
use crate::upstream::Shortfall;

/// The roots of one origin.
pub(super) struct Roots {
    scanners: Vec<Scanner>,
}

impl Roots {
    pub(super) fn new(scanners: Vec<Scanner>) -> Self {
        Self { scanners }
    }

    /// Says whether nothing changed in any of them since the last scan.
    pub(super) fn are_as_they_were(&self) -> bool {
        self.scanners.iter().all(Scanner::is_as_it_was)
    }

    /// Scans all of them. What is known of one that cannot be looked into stands.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`] when none can be looked into.
    pub(super) fn scan(&mut self) -> Result<Arc<Snapshot>, Error> {
        let (mut scans, mut failed) = (Vec::new(), Vec::new());
        for scanner in &mut self.scanners {
            scans.push(scanner.scan().unwrap_or_else(|error| {
                let last = scanner.last_scan(&error);
                failed.push(error);
                last
            }));
        }
        match failed.first() {
            Some(error) if failed.len() == scans.len() => Err(Error::Folder(error.to_string())),
            Some(_) | None => Ok(Arc::new(Snapshot::of(scans))),
        }
    }
}

/// What one scan found.
pub(super) struct Snapshot {
    /// One for each root.
    scans: Vec<Scan>,
    /// Every file of every published skill by its URI, with the number of its root.
    files: HashMap<String, (usize, SkillFile)>,
}

impl Snapshot {
    fn of(scans: Vec<Scan>) -> Self {
        let mut files = HashMap::new();
        for (root, scan) in scans.iter().enumerate() {
            for file in scan.skills.values().flat_map(|skill| &skill.files) {
                files.insert(file.uri.clone(), (root, file.clone()));
            }
        }
        Self { scans, files }
    }

    /// All of it, in the order of URIs.
    pub(super) fn listing(&self) -> Listing {
        let mut skills: Vec<_> = self.skills().collect();
        skills.sort_by(|a, b| a.uri.cmp(&b.uri));
        let gaps: Vec<_> = self.gaps().cloned().collect();
        Listing {
            entries: skills.into_iter().map(|skill| skill.entry.clone()).collect(),
            rejected: self.rejected().cloned().collect(),
            shadowed: self.shadowed(),
            shortfall: (!gaps.is_empty()).then_some(Shortfall::Gaps(gaps)),
            ttl: None,
        }
    }

    /// Skills whose name an earlier root has too, each with the one that goes before it.
    fn shadowed(&self) -> Vec<(String, String)> {
        let mut first: HashMap<&str, (usize, &str)> = HashMap::new();
        let mut shadowed = Vec::new();
        for (root, scan) in self.scans.iter().enumerate() {
            for (folder, skill) in &scan.skills {
                let (before, by) = *first.entry(name_of(folder)).or_insert((root, &skill.uri));
                if before != root {
                    shadowed.push((skill.uri.clone(), by.to_owned()));
                }
            }
        }
        shadowed
    }

    /// One skill. That one which could not be looked at is gone is not known.
    pub(super) fn get(&self, uri: &SkillUri) -> Result<Got, Error> {
        if let Some(skill) = self.skills().find(|skill| skill.uri == uri.as_str()) {
            return Ok(Got::Entry(skill.entry.clone()));
        }
        let is_it = |rejected: &&RejectedEntry| rejected.uri.as_deref() == Some(uri.as_str());
        if let Some(rejected) = self.rejected().find(is_it) {
            return Ok(Got::Rejected(rejected.clone()));
        }
        match self.gaps().find(|gap| gap.hides(uri.root())) {
            Some(gap) => Err(Error::Partial(gap.to_string())),
            None => Ok(Got::Unknown),
        }
    }

    /// A file of a published skill, with the number of its root.
    pub(super) fn file(&self, uri: &ResourceUri) -> Option<(usize, SkillFile)> {
        self.files.get(uri.as_str()).cloned()
    }

    /// Says whether both show the same.
    pub(super) fn shows_as(&self, other: &Self) -> bool {
        let pairs = self.scans.iter().zip(&other.scans);
        self.scans.len() == other.scans.len() && pairs.into_iter().all(|(one, other)| one.shows_as(other))
    }

    /// Logs what is not published and was not logged with the snapshot `before`.
    pub(super) fn log_rejected(&self, before: Option<&Self>) {
        for rejected in self.rejected() {
            let is_known = before.is_some_and(|before| before.rejected().any(|known| known == rejected));
            if !is_known {
                tracing::warn!(rule = rejected.fault.rule(), "not published: {}", rejected.fault);
            }
        }
    }

    fn skills(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.scans.iter().flat_map(|scan| scan.skills.values())
    }

    fn rejected(&self) -> impl Iterator<Item = &RejectedEntry> {
        self.scans.iter().flat_map(|scan| &scan.rejected)
    }

    fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.scans.iter().flat_map(|scan| &scan.gaps)
    }
}
