//! A disk as a power cut leaves it, made from what was done to it.
//!
//! What was flushed is there. Of the rest, bytes are there, not there, cut short, zero, or mixed by sectors; names are as
//! they were before or after, each for itself or in the order in which they were changed, as journals have it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use rand::Rng as _;
use rand::rngs::StdRng;

use super::super::durable::Done;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// A folder on the disk, below which everything is known.
#[derive(Debug)]
pub(super) struct Platter {
    root: PathBuf,
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
enum Node {
    File {
        flushed: Vec<u8>,
        since: Vec<Change>,
    },
    Folder {
        flushed: Names,
        now: Names,
        since: Vec<(String, Option<usize>)>,
    },
}

/// The names in a folder and what they stand for.
type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug)]
enum Change {
    Grow(usize),
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Platter {
    /// A disk on which a folder lies as it is now.
    pub(super) fn of(root: &Path) -> Self {
        let mut platter = Self {
            root: root.to_owned(),
            nodes: Vec::new(),
        };
        platter.load(root);
        platter
    }

    fn load(&mut self, path: &Path) -> usize {
        let at = self.nodes.len();
        if path.is_dir() {
            self.nodes.push(folder());
            let mut names = Names::new();
            for entry in fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let node = self.load(&entry.path());
                names.insert(name, node);
            }
            self.nodes[at] = Node::Folder {
                flushed: names.clone(),
                now: names,
                since: Vec::new(),
            };
        } else {
            let flushed = fs::read(path).unwrap_or_default();
            self.nodes.push(Node::File {
                flushed,
                since: Vec::new(),
            });
        }
        at
    }

    /// Takes in one change.
    pub(super) fn take(&mut self, done: &Done) {
        match done {
            Done::MakeDir(path) => {
                self.nodes.push(folder());
                self.name(path, Some(self.nodes.len() - 1));
            }
            Done::Create(path) => {
                self.nodes.push(Node::File {
                    flushed: Vec::new(),
                    since: Vec::new(),
                });
                self.name(path, Some(self.nodes.len() - 1));
            }
            Done::Grow(path, end) => self.change(path, Change::Grow(size(*end))),
            Done::Write(path, at, bytes) => self.change(path, Change::Write(size(*at), bytes.clone())),
            Done::Cut(path, len) => self.change(path, Change::Cut(size(*len))),
            Done::Sync(path) | Done::SyncDir(path) => {
                if let Some(node) = self.find(path) {
                    self.nodes[node].flush();
                }
            }
            Done::SyncFileSystem => self.nodes.iter_mut().for_each(Node::flush),
            Done::Rename(from, to) => {
                let node = self.find(from);
                self.name(from, None);
                self.name(to, node);
            }
            Done::Remove(path) => self.name(path, None),
        }
    }

    /// What stands under a path; nothing for what another library made.
    fn find(&self, path: &Path) -> Option<usize> {
        let below = path.strip_prefix(&self.root).unwrap();
        below.iter().try_fold(0, |node, name| match &self.nodes[node] {
            Node::Folder { now, .. } => now.get(name.to_str()?).copied(),
            Node::File { .. } => None,
        })
    }

    fn name(&mut self, path: &Path, node: Option<usize>) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(parent) = self.find(path.parent().unwrap()) else {
            return;
        };
        if let Node::Folder { now, since, .. } = &mut self.nodes[parent] {
            match node {
                Some(node) => now.insert(name.clone(), node),
                None => now.remove(&name),
            };
            since.push((name, node));
        }
    }

    fn change(&mut self, path: &Path, change: Change) {
        if let Some(node) = self.find(path)
            && let Node::File { since, .. } = &mut self.nodes[node]
        {
            since.push(change);
        }
    }

    /// Writes down, in an empty folder, what the disk may hold when the power goes now.
    pub(super) fn cut(&self, to: &Path, chance: &mut StdRng) {
        let in_order = chance.random_bool(0.5);
        self.write(0, to, in_order, chance);
    }

    #[expect(clippy::disallowed_methods, reason = "this writes down what a disk holds")]
    fn write(&self, node: usize, to: &Path, in_order: bool, chance: &mut StdRng) {
        match &self.nodes[node] {
            Node::File { flushed, since } => fs::write(to, torn(flushed, since, chance)).unwrap(),
            Node::Folder { flushed, since, .. } => {
                fs::create_dir_all(to).unwrap();
                for (name, node) in names(flushed, since, in_order, chance) {
                    self.write(node, &to.join(name), in_order, chance);
                }
            }
        }
    }
}

impl Node {
    fn flush(&mut self) {
        match self {
            Self::File { flushed, since } => {
                for change in since.drain(..) {
                    change.make(flushed);
                }
            }
            Self::Folder { flushed, now, since } => {
                flushed.clone_from(now);
                since.clear();
            }
        }
    }
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Grow(end) => bytes.resize(bytes.len().max(*end), 0),
            Self::Write(at, new) => {
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
            Self::Cut(len) => bytes.resize(*len, 0),
        }
    }

    /// What may be left of it.
    fn torn(&self, chance: &mut StdRng) -> Option<Self> {
        let Self::Write(at, bytes) = self else {
            return chance.random_bool(0.5).then(|| self.clone());
        };
        let mut bytes = bytes.clone();
        match chance.random_range(0..5) {
            0 => return None,
            1 => {}
            2 => bytes.truncate(chance.random_range(0..=bytes.len())),
            3 => bytes.fill(0),
            _ => {
                for sector in bytes.chunks_mut(SECTOR) {
                    if chance.random_bool(0.5) {
                        sector.fill(0);
                    }
                }
            }
        }
        Some(Self::Write(*at, bytes))
    }
}

fn folder() -> Node {
    Node::Folder {
        flushed: Names::new(),
        now: Names::new(),
        since: Vec::new(),
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

fn torn(flushed: &[u8], since: &[Change], chance: &mut StdRng) -> Vec<u8> {
    let mut bytes = flushed.to_vec();
    for change in since {
        if let Some(left) = change.torn(chance) {
            left.make(&mut bytes);
        }
    }
    bytes
}

fn names(flushed: &Names, since: &[(String, Option<usize>)], in_order: bool, chance: &mut StdRng) -> Names {
    let mut names = flushed.clone();
    let first_lost = chance.random_range(0..=since.len());
    for (at, (name, node)) in since.iter().enumerate() {
        let is_kept = if in_order {
            at < first_lost
        } else {
            chance.random_bool(0.5)
        };
        match node {
            _ if !is_kept => {}
            Some(node) => drop(names.insert(name.clone(), *node)),
            None => drop(names.remove(name)),
        }
    }
    names
}
