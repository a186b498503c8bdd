//! What lies in a folder: names, kinds and stamps, not one byte of any file but `.gitignore`.
//!
//! Everything is opened relative to its opened parent and never through a symbolic link, so that nothing outside the root is
//! reached whatever is put where meanwhile.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::Gitignore;
use ignore::gitignore::GitignoreBuilder;
use rustix::fs::AtFlags;
use rustix::fs::CWD;
use rustix::fs::Dir;
use rustix::fs::FileType;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::gap::Gap;
use super::names::is_ignored;
use crate::domain::SKILL_FILE;

/// Levels of folders below the root that are searched for skills, and below a skill that may belong to it.
const MAX_DEPTH: usize = 6;

/// Folders of a root that are looked into.
const MAX_FOLDERS: usize = 2_000;

/// Files and folders of a root that are looked at.
const MAX_ITEMS: usize = 100_000;

/// Bytes of a `.gitignore` that are read.
const MAX_IGNORE_BYTES: u64 = 64 * 1024;

/// What lies in a root, each folder before what is in it, names in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) items: Vec<Item>,
    pub(super) gaps: Vec<Gap>,
}

/// One thing in a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Where it lies, relative to the root.
    pub(super) path: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File(Stamp),
    Folder,
    /// A symbolic link, wherever it leads.
    Link,
    /// A pipe, a socket or a device.
    Special,
    /// Its name is not UTF-8, and shown with replacements.
    NotUtf8,
    /// It cannot be looked into.
    Unreadable(String),
    /// A folder beyond the bounds.
    Beyond,
}

/// What changes when a file does. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: i128,
    inode: i128,
    pub(super) size: u64,
    modified: i128,
    changed: i128,
}

impl Stamp {
    /// When the file, or anything about it, last changed, in milliseconds since 1970. Nobody can set that, as the time of
    /// its last modification can be.
    pub(super) fn newest(&self) -> u64 {
        u64::try_from(self.changed / 1_000_000).unwrap_or_default()
    }

    /// The stamp of an opened file.
    ///
    /// # Errors
    ///
    /// That of the system.
    pub(super) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&rustix::fs::fstat(file)?))
    }
}

impl From<&Stat> for Stamp {
    fn from(stat: &Stat) -> Self {
        let nanos = |seconds: i128, nanos: i128| seconds * 1_000_000_000 + nanos;
        Self {
            device: i128::from(stat.st_dev),
            inode: i128::from(stat.st_ino),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: nanos(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed: nanos(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }
}

/// A root that is opened.
pub(super) struct Opened(OwnedFd);

impl Opened {
    /// Opens a root, which may be a link itself: the operator names it.
    ///
    /// # Errors
    ///
    /// That of the system.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens the regular file at `path` without following any link below the root; a pipe put there does not hang.
    ///
    /// # Errors
    ///
    /// That of the system, or that it is no regular file.
    pub(super) fn open_file(&self, path: &str) -> io::Result<File> {
        let mut segments: Vec<_> = path.split('/').collect();
        let name = segments.pop().unwrap_or_default();
        if name.is_empty() || name == ".." || segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut folder = self.0.try_clone()?;
        for segment in segments {
            folder = open_folder(&folder, segment)?;
        }
        open_regular(&folder, name)
    }
}

fn open_folder<P: rustix::path::Arg>(folder: &OwnedFd, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

fn open_regular<P: rustix::path::Arg>(folder: &OwnedFd, name: P) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(File::from(file))
}

impl Tree {
    /// Looks at everything in `root`, within the bounds.
    ///
    /// # Errors
    ///
    /// That of the system when the root itself cannot be looked into.
    pub(super) fn walk(root: &Opened) -> io::Result<Self> {
        let mut walk = Walk::default();
        walk.visit(&root.0, Place::default())?;
        Ok(walk.tree)
    }

    /// The skills: their folders, and what lies in each of them. What is in a nested one is in both (S-25). A `SKILL.md`
    /// in the root itself has the folder with the empty path.
    pub(super) fn skills(&self) -> BTreeMap<&str, Vec<&Item>> {
        let own = |item: &&Item| item.kind != Kind::Folder && name_of(&item.path) == SKILL_FILE;
        let mut skills: BTreeMap<&str, Vec<&Item>> = self
            .items
            .iter()
            .filter(own)
            .map(|item| (folder_of(&item.path), Vec::new()))
            .collect();
        for item in &self.items {
            let mut folder = folder_of(&item.path);
            while !folder.is_empty() {
                if let Some(items) = skills.get_mut(folder) {
                    items.push(item);
                }
                folder = folder_of(folder);
            }
        }
        skills
    }

    /// What lies in no skill.
    pub(super) fn strays(&self) -> impl Iterator<Item = &Item> {
        let skills = self.skills();
        self.items.iter().filter(move |item| {
            let mut folder = folder_of(&item.path);
            while !folder.is_empty() && !skills.contains_key(folder) {
                folder = folder_of(folder);
            }
            folder.is_empty()
        })
    }
}

/// The folder that `path` lies in; empty for the root.
pub(super) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The last segment of `path`.
pub(super) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A walk under way.
#[derive(Default)]
struct Walk {
    tree: Tree,
    folders: usize,
    /// What the `.gitignore` files of the folders above say, the outermost first, with the lengths of their paths.
    ignores: Vec<(usize, Gitignore)>,
}

/// A folder that is visited.
#[derive(Clone, Copy, Default)]
struct Place<'p> {
    path: &'p str,
    /// Levels below the root, or below the outermost skill.
    depth: usize,
    in_skill: bool,
}

impl Walk {
    fn visit(&mut self, folder: &OwnedFd, place: Place<'_>) -> io::Result<()> {
        let mut names = names_in(folder)?;
        names.sort_unstable();
        let ignores = self.ignores.len();
        if names.iter().any(|name| name.as_slice() == b".gitignore") {
            self.ignores.extend(read_ignores(folder, place.path));
        }
        let children = self.look_at(folder, &names, place.path);
        let is_skill = !place.path.is_empty()
            && children
                .iter()
                .any(|item| item.kind != Kind::Folder && name_of(&item.path) == SKILL_FILE);
        let below = Place {
            path: "",
            depth: if is_skill && !place.in_skill {
                1
            } else {
                place.depth + 1
            },
            in_skill: is_skill || place.in_skill,
        };
        for item in children {
            match item.kind {
                Kind::Folder => self.enter(folder, item.path, below),
                Kind::File(_) | Kind::Link | Kind::Special | Kind::NotUtf8 | Kind::Unreadable(_) | Kind::Beyond => {
                    self.tree.items.push(item);
                }
            }
        }
        self.ignores.truncate(ignores);
        Ok(())
    }

    /// What is to be seen of a folder's direct children.
    fn look_at(&mut self, folder: &OwnedFd, names: &[Vec<u8>], path: &str) -> Vec<Item> {
        let mut children = Vec::new();
        for name in names {
            let shown = String::from_utf8_lossy(name);
            if is_ignored(&shown) {
                continue;
            }
            if self.tree.items.len() + children.len() >= MAX_ITEMS {
                self.cut(Gap::TooManyItems(MAX_ITEMS));
                break;
            }
            let is_text = str::from_utf8(name).is_ok();
            let kind = match rustix::fs::statat(folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) if !is_text => Kind::NotUtf8,
                Ok(stat) => kind_of(&stat),
                // It went away meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => Kind::Unreadable(io::Error::from(error).to_string()),
            };
            let path = if path.is_empty() {
                shown.into_owned()
            } else {
                format!("{path}/{shown}")
            };
            if !self.leaves_out(&path, kind == Kind::Folder) {
                children.push(Item { path, kind });
            }
        }
        children
    }

    /// Visits a folder, if it is within the bounds; what cannot be looked into is said where it stands.
    fn enter(&mut self, parent: &OwnedFd, path: String, place: Place<'_>) {
        let kind = if place.depth > MAX_DEPTH {
            if !place.in_skill {
                self.cut(Gap::TooDeep(path.clone()));
            }
            Kind::Beyond
        } else if self.folders >= MAX_FOLDERS {
            self.cut(Gap::TooManyFolders(MAX_FOLDERS));
            Kind::Beyond
        } else {
            Kind::Folder
        };
        let at = self.tree.items.len();
        self.tree.items.push(Item {
            path: path.clone(),
            kind,
        });
        if self.tree.items.get(at).is_some_and(|item| item.kind != Kind::Folder) {
            return;
        }
        self.folders += 1;
        let visited = open_folder(parent, name_of(&path)).map_err(io::Error::from);
        let visited = visited.and_then(|folder| self.visit(&folder, Place { path: &path, ..place }));
        if let Err(error) = visited {
            let is_link = [Errno::LOOP, Errno::NOTDIR]
                .iter()
                .any(|is| error.raw_os_error() == Some(is.raw_os_error()));
            let kind = if is_link {
                Kind::Link
            } else {
                Kind::Unreadable(error.to_string())
            };
            self.tree.items.truncate(at);
            self.tree.items.push(Item { path, kind });
        }
    }

    fn cut(&mut self, gap: Gap) {
        if !self.tree.gaps.contains(&gap) {
            self.tree.gaps.push(gap);
        }
    }

    /// Says whether a `.gitignore` leaves something out: the innermost one that speaks of it decides.
    fn leaves_out(&self, path: &str, is_folder: bool) -> bool {
        for (base, ignores) in self.ignores.iter().rev() {
            let below = path.get(*base..).unwrap_or_default().trim_start_matches('/');
            match ignores.matched(below, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

fn kind_of(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File(Stamp::from(stat)),
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            Kind::Special
        }
    }
}

fn names_in(folder: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if ![c".", c".."].contains(&name) {
            names.push(name.to_bytes().to_vec());
        }
    }
    Ok(names)
}

/// What the `.gitignore` of a folder says; one that cannot be read says nothing.
fn read_ignores(folder: &OwnedFd, path: &str) -> Option<(usize, Gitignore)> {
    let mut text = Vec::new();
    let file = open_regular(folder, ".gitignore").ok()?;
    file.take(MAX_IGNORE_BYTES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&text).lines() {
        // A line that git does not understand leaves nothing out.
        let _understood = builder.add_line(None, line).is_ok();
    }
    Some((path.len(), builder.build().ok()?))
}
