//! What was acknowledged survives a power cut at any moment, and nothing is there that never was.

use rand::Rng as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::platter::Platter;
use super::story::Model;
use super::story::Step;
use super::*;
use crate::store::durable::Done;
use crate::store::durable::Watch;

/// Cuts in an ordinary run.
const CUTS: u64 = 30;

/// Cuts of each story.
const CUTS_PER_STORY: u64 = 10;

/// Steps of each story.
const STEPS: usize = 24;

/// How many cuts at most show that a flush is missing.
const ENOUGH: u64 = 400;

/// A life of a folder: what was done to its disk, and what was acknowledged when.
struct Story {
    done: Vec<Done>,
    /// How many changes had been made, and the model, after each step.
    marks: Vec<(usize, Model)>,
    root: PathBuf,
    /// The index as it lay after so many changes.
    indexes: Vec<(usize, PathBuf)>,
    _folder: tempfile::TempDir,
}

impl Story {
    fn told(steps: &[Step], chance: &mut StdRng) -> Self {
        let folder = scratch();
        let (root, mut indexes) = (folder.path().join("data"), Vec::new());
        fs::create_dir(&root).unwrap();
        let watch = Watch::over(&root);
        watch.record();
        let mut model = Model::default();
        let mut marks = vec![(0, model.clone())];
        let mut store = open(&root).unwrap();
        marks.push((watch.recorded(), model.clone()));
        for (at, step) in steps.iter().enumerate() {
            model = model.after(*step, &store, at as u64).unwrap();
            marks.push((watch.recorded(), model.clone()));
            if chance.random_bool(0.1) {
                drop(store);
                let index = folder.path().join(format!("index-{at}"));
                copy_tree(&root.join("index"), &index);
                indexes.push((watch.recorded(), index));
                store = open(&root).unwrap();
                marks.push((watch.recorded(), model.clone()));
            }
        }
        drop(store);
        let done = watch.take_record();
        // Tiles and head follow what was acknowledged, the last ones while the store is closed.
        marks.push((done.len(), model));
        Self {
            done,
            marks,
            root,
            indexes,
            _folder: folder,
        }
    }

    /// Cuts the power after `at` changes, of which those that `lost` names never reached the disk, and compares.
    fn cut(&self, at: usize, lost: &dyn Fn(&Done) -> bool, chance: &mut StdRng) -> Result<(), String> {
        let folder = scratch();
        let mut platter = Platter::of(folder.path());
        for done in self.done.iter().take(at).filter(|done| !lost(done)) {
            platter.take(&done.moved(&self.root, folder.path()));
        }
        let after = self.marks.iter().position(|(end, _)| *end >= at).unwrap();
        let before = self.marks.iter().rposition(|(end, _)| *end <= at).unwrap();
        let (before, after) = (&self.marks[before.min(after)].1, &self.marks[after].1);
        let first = folder.path().join("first");
        platter.cut(&first, chance);
        self.harm_index(&first.join("index"), at, chance);
        if chance.random_bool(0.5) {
            return start_and_compare(&first, before, after);
        }
        // The power goes again while the store opens.
        let mut platter = Platter::of(&first);
        let watch = Watch::over(&first);
        watch.record();
        drop(open(&first).map_err(|error| format!("it does not start: {error}"))?);
        let done = watch.take_record();
        let second = folder.path().join("second");
        for done in done.iter().take(chance.random_range(0..=done.len())) {
            platter.take(done);
        }
        platter.cut(&second, chance);
        self.harm_index(&second.join("index"), at, chance);
        start_and_compare(&second, before, after)
    }

    /// The index is gone, an older one, or a damaged one: it must make no difference.
    fn harm_index(&self, index: &Path, at: usize, chance: &mut StdRng) {
        if index.exists() {
            fs::remove_dir_all(index).unwrap();
        }
        let older: Vec<_> = self.indexes.iter().filter(|(made, _)| *made <= at).collect();
        let is_begun = index.with_file_name("FORMAT").exists();
        let Some((_, older)) = older.choose(chance).filter(|_| is_begun && chance.random_bool(0.7)) else {
            return;
        };
        copy_tree(older, index);
        for path in files_below(index) {
            if chance.random_bool(0.3) {
                let len = fs::metadata(&path).unwrap().len();
                cut(&path, chance.random_range(0..=len as usize));
            }
        }
    }
}

/// Opens what the power cut left, compares it, and goes on writing.
fn start_and_compare(dir: &Path, before: &Model, after: &Model) -> Result<(), String> {
    let store = open(dir).map_err(|error| format!("it does not start: {error}"))?;
    before.compare(after, &store)?;
    store
        .append(vec![held("next")], NOW)
        .map_err(|error| error.to_string())?;
    let known = leaves(&store);
    drop(store);
    let store = open(dir).map_err(|error| format!("it does not start again: {error}"))?;
    if leaves(&store) != known || !faults(&store).is_empty() {
        return Err("the next leaf is not there".to_owned());
    }
    Ok(())
}

impl Done {
    /// The same in another folder.
    fn moved(&self, from: &Path, to: &Path) -> Self {
        let moved = |path: &Path| to.join(path.strip_prefix(from).unwrap());
        match self {
            Self::MakeDir(path) => Self::MakeDir(moved(path)),
            Self::Create(path) => Self::Create(moved(path)),
            Self::Grow(path, end) => Self::Grow(moved(path), *end),
            Self::Write(path, at, bytes) => Self::Write(moved(path), *at, bytes.clone()),
            Self::Cut(path, len) => Self::Cut(moved(path), *len),
            Self::Sync(path) => Self::Sync(moved(path)),
            Self::SyncDir(path) => Self::SyncDir(moved(path)),
            Self::SyncFileSystem => Self::SyncFileSystem,
            Self::Rename(from, to) => Self::Rename(moved(from), moved(to)),
            Self::Remove(path) => Self::Remove(moved(path)),
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_any_moment() {
    let (cuts, mut chance) = (number("PORTCULLIS_POWER_CUTS", CUTS), seeded());
    for _ in 0..cuts.div_ceil(CUTS_PER_STORY) {
        let steps: Vec<_> = (0..STEPS).map(|_| Step::any(&mut chance)).collect();
        let story = Story::told(&steps, &mut chance);
        for _ in 0..CUTS_PER_STORY {
            let at = chance.random_range(0..=story.done.len());
            let cut = story.cut(at, &|_| false, &mut chance);
            cut.unwrap_or_else(|why| panic!("cut after {at} of {} changes: {why}\n{steps:?}", story.done.len()));
        }
    }
}

#[test]
fn a_power_cut_during_the_first_start_is_no_obstacle_to_the_next() {
    let mut chance = seeded();
    let story = Story::told(&[Step::Append(1)], &mut chance);
    for at in 0..=story.done.len() {
        let cut = story.cut(at, &|_| false, &mut chance);
        cut.unwrap_or_else(|why| panic!("cut after {at} of {:#?}: {why}", story.done));
    }
}

/// A flush, by a name that says what it is for.
type Flush = (&'static str, fn(&Done) -> bool);

#[test]
fn every_flush_that_is_left_out_is_noticed() {
    let flushes: [Flush; 7] = [
        ("the journal", |done| is_sync(done, "log/journal")),
        ("the journal's name", |done| is_dir_sync(done, "log")),
        ("the head", |done| is_sync(done, "head/checkpoint.new")),
        ("files before they are in place", |done| is_sync(done, "tmp/")),
        ("names of sets and files", |done| is_dir_sync(done, "SKILL.md")),
        ("names of tokens", |done| is_dir_sync(done, "tokens")),
        ("many files at once", |done| matches!(done, Done::SyncFileSystem)),
    ];
    let mut chance = seeded();
    let story = Story::told(&Step::each(), &mut chance);
    for (name, lost) in flushes {
        assert!(story.done.iter().any(lost), "{name}: nothing is flushed");
        let noticed = (0..ENOUGH).any(|_| {
            // Right after a step was acknowledged.
            let at = story.marks[chance.random_range(2..story.marks.len())].0;
            story.cut(at, &lost, &mut chance).is_err()
        });
        assert!(noticed, "without flushing {name} nothing is lost");
    }
}

fn is_sync(done: &Done, part: &str) -> bool {
    matches!(done, Done::Sync(path) if path.to_str().unwrap().contains(part))
}

fn is_dir_sync(done: &Done, end: &str) -> bool {
    matches!(done, Done::SyncDir(path) if path.to_str().unwrap().ends_with(end))
}

/// Chances that the seed in the environment repeats.
pub(super) fn seeded() -> StdRng {
    let seed = number("PORTCULLIS_CRASH_SEED", rand::random());
    println!("PORTCULLIS_CRASH_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// A number from the environment.
pub(super) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}
