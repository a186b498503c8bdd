//! Making entries of the skills in one root, each of a state that its folder had at one moment.
//!
//! A root is looked at, its files are hashed, and it is looked at again. A skill whose files' stamps are the same both times
//! stood still in between, so that what was hashed is one state of it. One that did not is looked at again a few times; then
//! the last state that was published stands.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::io;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Root;
use super::gap::Gap;
use super::names::folded;
use super::names::uri_of;
use super::tree::Item;
use super::tree::Kind;
use super::tree::Opened;
use super::tree::Stamp;
use super::tree::Tree;
use super::tree::folder_of;
use super::tree::name_of;
use crate::clock::Clock;
use crate::domain::Digest;
use crate::domain::EntryFault;
use crate::domain::Limits;
use crate::domain::RejectedEntry;
use crate::domain::SKILL_FILE;
use crate::domain::SkillEntry;
use crate::domain::Timestamp;
use crate::domain::publish;
use crate::domain::publish::PublishRule;
use crate::domain::publish::Unpublishable;

/// How often a root is looked at anew when something in it moves.
const ROUNDS: usize = 4;

/// How long nothing in a skill may have changed before it is hashed: two writes within one tick of the file system's clock
/// look like one.
const QUIET: Duration = Duration::from_millis(50);

/// How much older than its hashing a file's last change has to be for the hash to be kept: the coarsest clock of a file
/// system that is in use.
const COARSEST_TICK: Duration = Duration::from_secs(2);

/// Things outside of any skill that are told of one by one.
const MAX_STRAYS: usize = 200;

/// One root, and what is known of it.
pub(super) struct Scanner {
    root: Root,
    /// What stands before its paths in URIs: nothing, or its name and a slash.
    prefix: String,
    limits: Limits,
    clock: Clock,
    tree: Tree,
    hashed: HashMap<String, Hashed>,
    good: BTreeMap<String, Arc<Skill>>,
    /// Whether another look at an unchanged tree would find the same.
    is_settled: bool,
    is_readable: bool,
}

/// What a scan found.
#[derive(Clone, Default)]
pub(super) struct Scan {
    /// Skills that are published, by their folders.
    pub(super) skills: BTreeMap<String, Arc<Skill>>,
    pub(super) rejected: Vec<RejectedEntry>,
    pub(super) gaps: Vec<Gap>,
}

/// A skill that is published.
pub(super) struct Skill {
    /// Its URI.
    pub(super) uri: String,
    /// Its entry.
    pub(super) entry: String,
    pub(super) files: Vec<SkillFile>,
    items: Vec<Item>,
    is_settled: bool,
}

/// A file of a published skill.
#[derive(Clone)]
pub(super) struct SkillFile {
    pub(super) uri: String,
    /// Where it lies, relative to its root.
    pub(super) path: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

/// What was read of a file.
struct Hashed {
    stamp: Stamp,
    digest: Digest,
    /// When it was read.
    at: Timestamp,
    /// Of a `SKILL.md`: its frontmatter as JSON.
    frontmatter: Option<Result<String, Unpublishable>>,
}

/// Why no entry was made of a skill.
enum Unmade {
    Rejected(EntryFault),
    Unreadable(String),
    Moving,
}

impl From<Unpublishable> for Unmade {
    fn from(why: Unpublishable) -> Self {
        Self::Rejected(EntryFault::Unpublishable(why))
    }
}

type Made = Result<Arc<Skill>, Unmade>;

impl Scanner {
    pub(super) fn new(root: Root, limits: Limits, clock: Clock) -> Self {
        Self {
            prefix: root.name.as_ref().map(|name| format!("{name}/")).unwrap_or_default(),
            root,
            limits,
            clock,
            tree: Tree::default(),
            hashed: HashMap::new(),
            good: BTreeMap::new(),
            is_settled: false,
            is_readable: false,
        }
    }

    /// Says whether nothing changed since the last scan; of no file is more looked at than its stamp.
    pub(super) fn is_as_it_was(&self) -> bool {
        match Opened::open(&self.root.path).and_then(|root| Tree::walk(&root)) {
            Ok(tree) => self.is_readable && self.is_settled && tree == self.tree,
            Err(_) => !self.is_readable,
        }
    }

    /// Looks at the root, and hashes what is new in it.
    ///
    /// # Errors
    ///
    /// That of the system when the root itself cannot be looked into.
    pub(super) fn scan(&mut self) -> io::Result<Scan> {
        let scanned = self.scan_until_still();
        self.is_readable = scanned.is_ok();
        scanned
    }

    /// What is known of a root that cannot be looked into, as `error` says.
    pub(super) fn last_scan(&self, error: &io::Error) -> Scan {
        Scan {
            skills: self.good.clone(),
            rejected: Vec::new(),
            gaps: vec![Gap::Unreadable {
                path: self.prefix.trim_end_matches('/').to_owned(),
                why: error.to_string(),
            }],
        }
    }

    fn scan_until_still(&mut self) -> io::Result<Scan> {
        let root = Opened::open(&self.root.path)?;
        let mut before = Tree::walk(&root)?;
        let mut round = 0;
        loop {
            round += 1;
            let began = self.clock.now();
            let made: BTreeMap<String, Made> = before
                .skills()
                .into_iter()
                .map(|(folder, items)| (folder.to_owned(), self.make(&root, folder, &items)))
                .collect();
            let after = Tree::walk(&root)?;
            let moving = moving(&before, &after, &made, began);
            if moving.is_empty() || round == ROUNDS {
                return Ok(self.finish(after, made, &moving));
            }
            std::thread::sleep(QUIET);
            before = after;
        }
    }

    /// Makes the entry of the skill in `folder`, in which `items` lie.
    fn make(&mut self, root: &Opened, folder: &str, items: &[&Item]) -> Made {
        self.check(folder, items)?;
        if let Some(good) = self.good.get(folder)
            && good.is_settled
            && good.items.iter().eq(items.iter().copied())
        {
            return Ok(Arc::clone(good));
        }
        let mut files = Vec::new();
        let mut is_settled = true;
        for item in items {
            let Kind::File(stamp) = item.kind else { continue };
            let hashed = self.hash(root, &item.path, stamp)?;
            is_settled &= hashed.is_settled();
            files.push(SkillFile {
                uri: String::new(),
                path: item.path.clone(),
                digest: hashed.digest,
                size: stamp.size,
            });
        }
        for file in &mut files {
            file.uri = self.uri_of(&file.path);
        }
        files.sort_by(|a, b| a.uri.cmp(&b.uri));
        let own = format!("{folder}/{SKILL_FILE}");
        let frontmatter = self.hashed.get(&own).and_then(|hashed| hashed.frontmatter.clone());
        let frontmatter = frontmatter.ok_or(Unmade::Moving)??;
        let uri = self.uri_of(&own);
        let entry = entry_text(&uri, &frontmatter, &files).map_err(|error| Unmade::Unreadable(error.to_string()))?;
        // What we publish keeps the rules that we hold others to.
        SkillEntry::parse(&entry, &self.limits).map_err(|rejected| Unmade::Rejected(rejected.fault))?;
        Ok(Arc::new(Skill {
            uri,
            entry,
            files,
            items: items.iter().copied().cloned().collect(),
            is_settled,
        }))
    }

    /// Checks what can be told without reading a file.
    fn check(&self, folder: &str, items: &[&Item]) -> Result<(), Unmade> {
        if folder.is_empty() {
            return Err(self.at_root().into());
        }
        if self.root.is_held {
            return Err(self.untrusted(folder).into());
        }
        let (mut files, mut bytes) = (0, 0_u64);
        let mut names = BTreeMap::new();
        for item in items {
            if let Kind::Unreadable(why) = &item.kind {
                return Err(Unmade::Unreadable(format!("{}: {why}", name_of(&item.path))));
            }
            if let Some(why) = self.unpublishable(item) {
                return Err(why.into());
            }
            if let Kind::File(stamp) = item.kind {
                files += 1;
                bytes = bytes.saturating_add(stamp.size);
            }
            let name = (folder_of(&item.path), folded(name_of(&item.path)));
            if let Some(first) = names.insert(name, &item.path) {
                return Err(self.same_file(first, &item.path).into());
            }
        }
        let (most_files, most_bytes) = (self.limits.skill_files, self.limits.skill_bytes);
        if files > most_files {
            let (got, limit) = (files, most_files);
            return Err(Unmade::Rejected(EntryFault::TooManyFiles { got, limit }));
        }
        if bytes > most_bytes {
            let (got, limit) = (bytes, most_bytes);
            return Err(Unmade::Rejected(EntryFault::TooManyBytes { got, limit }));
        }
        Ok(())
    }

    /// Reads a file, unless it is as it was when it was read before.
    fn hash(&mut self, root: &Opened, path: &str, stamp: Stamp) -> Result<&Hashed, Unmade> {
        let is_known = self
            .hashed
            .get(path)
            .is_some_and(|hashed| hashed.stamp == stamp && hashed.is_settled());
        if !is_known {
            let at = self.clock.now();
            let bytes = read_still(root, path, stamp)?;
            let is_own = name_of(path) == SKILL_FILE;
            let frontmatter = is_own.then(|| {
                let read = publish::frontmatter_of(folder_of(path), &bytes);
                read.map(|json| json.canonical()).map_err(|why| self.below_prefix(why))
            });
            let hashed = Hashed {
                stamp,
                digest: Digest::of(&bytes),
                at,
                frontmatter,
            };
            self.hashed.insert(path.to_owned(), hashed);
        }
        self.hashed.get(path).ok_or(Unmade::Moving)
    }

    /// What the scan found, once nothing moves any more or it was looked at often enough.
    fn finish(&mut self, tree: Tree, mut made: BTreeMap<String, Made>, moving: &BTreeSet<String>) -> Scan {
        let mut scan = Scan {
            gaps: tree.gaps.iter().map(|gap| gap.clone().below(&self.prefix)).collect(),
            ..Scan::default()
        };
        for folder in tree.skills().into_keys() {
            let path = format!("{}{folder}", self.prefix);
            match made.remove(folder) {
                Some(Ok(skill)) if !moving.contains(folder) => drop(scan.skills.insert(folder.to_owned(), skill)),
                Some(Err(Unmade::Rejected(fault))) if !moving.contains(folder) => scan.rejected.push(RejectedEntry {
                    uri: (!folder.is_empty()).then(|| self.uri_of(&format!("{folder}/{SKILL_FILE}"))),
                    fault,
                }),
                Some(Err(Unmade::Unreadable(why))) => scan.gaps.push(Gap::Unreadable { path, why }),
                Some(Ok(_) | Err(Unmade::Rejected(_) | Unmade::Moving)) | None => scan.gaps.push(Gap::Moving(path)),
            }
        }
        self.tell_strays(&tree, &mut scan);
        for (folder, good) in &self.good {
            let root = good.uri.rsplit_once('/').map_or("", |(root, _)| root);
            let is_told = scan
                .rejected
                .iter()
                .any(|rejected| rejected.uri.as_ref() == Some(&good.uri));
            if !is_told && scan.gaps.iter().any(|gap| gap.is_passing() && gap.hides(root)) {
                scan.skills.entry(folder.clone()).or_insert_with(|| Arc::clone(good));
            }
        }
        let files: BTreeSet<&str> = tree.items.iter().map(|item| item.path.as_str()).collect();
        self.hashed.retain(|path, _| files.contains(path.as_str()));
        self.is_settled = moving.is_empty() && self.hashed.values().all(Hashed::is_settled);
        self.good = scan.skills.clone();
        self.tree = tree;
        scan
    }

    /// Tells of what is no skill and may have been meant to be one, or to be a part of one.
    fn tell_strays(&self, tree: &Tree, scan: &mut Scan) {
        for item in tree.strays().take(MAX_STRAYS) {
            if let Kind::Unreadable(why) = &item.kind {
                scan.gaps.push(Gap::Unreadable {
                    path: format!("{}{}", self.prefix, item.path),
                    why: why.clone(),
                });
            }
            let (folder, name) = (folder_of(&item.path), name_of(&item.path));
            let is_near_miss = name.eq_ignore_ascii_case(SKILL_FILE) && name != SKILL_FILE && !folder.is_empty();
            let why = match &item.kind {
                Kind::File(_) if is_near_miss => Some(self.near_miss(&item.path)),
                Kind::Beyond => None,
                Kind::File(_) | Kind::Folder | Kind::Link | Kind::Special | Kind::NotUtf8 | Kind::Unreadable(_) => {
                    self.unpublishable(item)
                }
            };
            scan.rejected.extend(why.map(|why| RejectedEntry {
                uri: is_near_miss.then(|| self.uri_of(&format!("{folder}/{SKILL_FILE}"))),
                fault: EntryFault::Unpublishable(why),
            }));
        }
    }

    fn uri_of(&self, path: &str) -> String {
        uri_of(&format!("{}{path}", self.prefix))
    }
}

/// What is told of what is not published.
impl Scanner {
    /// Why an item can be no part of a skill, if it cannot.
    fn unpublishable(&self, item: &Item) -> Option<Unpublishable> {
        let (rule, problem, fix) = match item.kind {
            Kind::File(_) | Kind::Folder | Kind::Unreadable(_) => return None,
            Kind::Link => (
                PublishRule::Link,
                "it is a symbolic link, and none is followed",
                "put what it leads to in its place",
            ),
            Kind::Special => (
                PublishRule::SpecialFile,
                "it is neither a file nor a folder",
                "take it out",
            ),
            Kind::NotUtf8 => (PublishRule::NotUtf8, "its name is not UTF-8", "rename it"),
            Kind::Beyond => (
                PublishRule::Bounds,
                "it lies deeper, or behind more folders, than is looked at",
                "move it up, or take folders out",
            ),
        };
        Some(self.broken(&item.path, rule, problem.to_owned(), fix.to_owned()))
    }

    fn at_root(&self) -> Unpublishable {
        let problem = "a skill has a folder of its own, and this is the root of all".to_owned();
        let fix = "let the origin's dir be the folder above, or move the skill into one".to_owned();
        self.broken(SKILL_FILE, PublishRule::SkillAtRoot, problem, fix)
    }

    fn untrusted(&self, folder: &str) -> Unpublishable {
        let problem = format!(
            "it belongs to the project whose folder is {}, and nobody said that it is trusted",
            self.root.path.display()
        );
        let name = self.prefix.trim_end_matches('/');
        let fix = format!("look at the project, and set trusted = true for the folder {name} of the origin");
        self.broken(folder, PublishRule::Untrusted, problem, fix)
    }

    fn near_miss(&self, path: &str) -> Unpublishable {
        let problem = format!("no host finds a skill in a file called {}", name_of(path));
        self.broken(
            path,
            PublishRule::FileName,
            problem,
            format!("rename it to {SKILL_FILE}"),
        )
    }

    fn same_file(&self, first: &str, second: &str) -> Unpublishable {
        let problem = format!(
            "some file systems take it and {} for one, and keep one of the two",
            name_of(first)
        );
        self.broken(second, PublishRule::SameFile, problem, "rename one of them".to_owned())
    }

    fn broken(&self, path: &str, rule: PublishRule, problem: String, fix: String) -> Unpublishable {
        self.below_prefix(Unpublishable {
            file: path.to_owned(),
            line: None,
            rule,
            problem,
            fix,
        })
    }

    fn below_prefix(&self, why: Unpublishable) -> Unpublishable {
        Unpublishable {
            file: format!("{}{}", self.prefix, why.file),
            ..why
        }
    }
}

impl Scan {
    /// Says whether both show the same.
    pub(super) fn shows_as(&self, other: &Self) -> bool {
        let (one, another) = (self.skills.values(), other.skills.values());
        (&self.rejected, &self.gaps) == (&other.rejected, &other.gaps)
            && one.map(|skill| &skill.entry).eq(another.map(|skill| &skill.entry))
    }
}

impl Hashed {
    /// Says whether a later change would show in the file's stamp.
    fn is_settled(&self) -> bool {
        self.stamp.newest() + millis(COARSEST_TICK) <= self.at.as_millis()
    }
}

/// The folders of skills that did not stand still between two looks, or that no entry was made of for that reason.
fn moving(before: &Tree, after: &Tree, made: &BTreeMap<String, Made>, began: Timestamp) -> BTreeSet<String> {
    let earlier = before.skills();
    let is_moving = |folder: &str, items: &Vec<&Item>| {
        earlier.get(folder) != Some(items)
            || !has_been_still(items, began)
            || matches!(made.get(folder), Some(Err(Unmade::Moving)))
    };
    after
        .skills()
        .iter()
        .filter(|(folder, items)| is_moving(folder, items))
        .map(|(folder, _)| (*folder).to_owned())
        .collect()
}

/// Says whether nothing among `items` had changed for a while at `began`. A file system's clock may run ahead of ours.
fn has_been_still(items: &[&Item], began: Timestamp) -> bool {
    let began = began.as_millis();
    let just_before = began.saturating_sub(millis(QUIET));
    let just_after = began.saturating_add(millis(COARSEST_TICK));
    items.iter().all(|item| match item.kind {
        Kind::File(stamp) => !(just_before..=just_after).contains(&stamp.newest()),
        Kind::Folder | Kind::Link | Kind::Special | Kind::NotUtf8 | Kind::Unreadable(_) | Kind::Beyond => true,
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The bytes of a file that is as `stamp` says before and after they are read.
fn read_still(root: &Opened, path: &str, stamp: Stamp) -> Result<Vec<u8>, Unmade> {
    let unreadable = |error: io::Error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            Unmade::Unreadable(format!("{}: {error}", name_of(path)))
        } else {
            // What is another thing by now shows in the next look.
            Unmade::Moving
        }
    };
    let file = root.open_file(path).map_err(unreadable)?;
    let is_still = |file: &std::fs::File| Stamp::of(file).is_ok_and(|now| now == stamp);
    if !is_still(&file) {
        return Err(Unmade::Moving);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or_default());
    let read = (&file).take(stamp.size.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Unmade::Unreadable(format!("{}: {error}", name_of(path))))?;
    if bytes.len() as u64 != stamp.size || !is_still(&file) {
        return Err(Unmade::Moving);
    }
    Ok(bytes)
}

/// The entry, its files in the order of their URIs' bytes.
fn entry_text(uri: &str, frontmatter: &str, files: &[SkillFile]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Entry<'e> {
        uri: &'e str,
        frontmatter: &'e RawValue,
        resources: Vec<Resource<'e>>,
    }
    #[derive(Serialize)]
    struct Resource<'e> {
        uri: &'e str,
        digest: Digest,
        size: u64,
    }
    let resources = files.iter().map(|file| Resource {
        uri: &file.uri,
        digest: file.digest,
        size: file.size,
    });
    serde_json::to_string(&Entry {
        uri,
        frontmatter: serde_json::from_str(frontmatter)?,
        resources: resources.collect(),
    })
}
