//! Bits that turn over on the disk, files that are cut short or gone.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::power_cuts::number;
use super::power_cuts::seeded;
use super::story::Model;
use super::story::Step;
use super::*;

/// Harms in an ordinary run.
const HARMS: u64 = 1_000;

/// Bytes at the beginning of a file, where most of what a reader goes by stands.
const BEGINNING: usize = 96;

/// A folder with something of everything, and what it holds.
fn folder_of_everything(data: &Path) -> Model {
    let mut model = Model::default();
    let mut store = open(data).unwrap();
    for (at, step) in (1..).zip(Step::each().into_iter().chain(Step::each())) {
        model = model.after(step, &store, at).unwrap();
        if at % 10 == 0 {
            drop(store);
            store = open(data).unwrap();
        }
    }
    model
}

/// Turns one bit over, mostly near the beginning.
fn flip_any_bit(path: &Path, chance: &mut StdRng) {
    let mut bytes = fs::read(path).unwrap();
    let near = if chance.random_bool(0.6) { BEGINNING } else { usize::MAX };
    let reach = bytes.len().min(near);
    if reach > 0 {
        bytes[chance.random_range(0..reach)] ^= 1 << chance.random_range(0..8);
        overwrite(path, &bytes);
    }
}

#[test]
fn whatever_happens_to_the_index_answers_are_the_same() {
    let (harms, mut chance) = (number("PORTCULLIS_BIT_FLIPS", HARMS), seeded());
    let dir = scratch();
    let (whole, data) = (dir.path().join("whole"), dir.path().join("data"));
    let model = folder_of_everything(&whole);
    let mut harmed = 0;
    while harmed < harms {
        copy_tree(&whole, &data);
        for _ in 0..chance.random_range(1..=4) {
            let files = files_below(&data.join("index"));
            let Some(path) = files.choose(&mut chance) else { break };
            match chance.random_range(0..10) {
                0 => cut(
                    path,
                    chance.random_range(0..=fs::metadata(path).unwrap().len() as usize),
                ),
                1 => fs::remove_file(path).unwrap(),
                _ => flip_any_bit(path, &mut chance),
            }
            harmed += 1;
        }
        let store = open(&data).unwrap();
        assert!(store.usage().index_open);
        model.compare_answers(&model, &store).unwrap();
        let (label, heard) = ("late".parse().unwrap(), ListingNote::of_sets(NOW));
        store.put_listing(&label, &heard);
        assert_eq!(store.listing(&label), Some(heard));
        drop(store);
        fs::remove_dir_all(&data).unwrap();
    }
}

/// A file of ours, none of the index, whose bits are of no account, or of what failed already.
fn files_that_matter(data: &Path) -> Vec<PathBuf> {
    let mut files = files_below(data);
    let of_no_account = ["index", "quarantine", "lock"].map(|name| data.join(name));
    files.retain(|path| !of_no_account.iter().any(|name| path.starts_with(name)));
    files
}

#[test]
fn a_bit_that_turns_over_anywhere_is_named_or_changes_nothing() {
    let (flips, mut chance) = (number("PORTCULLIS_BIT_FLIPS", HARMS), seeded());
    let dir = scratch();
    let (whole, data) = (dir.path().join("whole"), dir.path().join("data"));
    let model = folder_of_everything(&whole);
    let (mut refused, mut named, mut harmless) = (0, 0, 0);
    for _ in 0..flips {
        copy_tree(&whole, &data);
        let is_running = chance.random_bool(0.5).then(|| {
            let store = open(&data).unwrap();
            // What was found open was sealed, which the tiles follow.
            store.0.log.settle();
            store
        });
        let files = files_that_matter(&data);
        let path = files.choose(&mut chance).unwrap();
        flip_any_bit(path, &mut chance);
        let outcome = match &is_running {
            Some(store) => notice(store, &model, path, false),
            None => Outcome::Harmless,
        };
        drop(is_running);
        match notice_at_start(&data, &model, path, outcome == Outcome::Named) {
            Outcome::Refused => refused += 1,
            Outcome::Named => named += 1,
            Outcome::Harmless => harmless += 1,
        }
        fs::remove_dir_all(&data).unwrap();
    }
    println!("of {flips} flips, {refused} refused the start, {named} were named, {harmless} changed nothing");
    assert!(refused > 0 && named > 0 && harmless > 0);
}

/// What became of a flip.
#[derive(PartialEq)]
enum Outcome {
    /// The start is refused, and the message says where it lies.
    Refused,
    /// A check says where it lies.
    Named,
    /// Every answer is as it was.
    Harmless,
}

/// Opens the folder; a refusal has to name what is damaged.
fn notice_at_start(data: &Path, model: &Model, flipped: &Path, was_named: bool) -> Outcome {
    let store = match open(data) {
        Ok(store) => store,
        Err(error) => {
            let said = error.to_string();
            let named = ["FORMAT", "head/checkpoint", "keys/log", "audit log"];
            assert!(
                named.iter().any(|name| said.contains(name)),
                "{}: {said}",
                flipped.display()
            );
            return Outcome::Refused;
        }
    };
    notice(&store, model, flipped, was_named)
}

/// Checks everything, then asks for everything: what is missing must have been named, and nothing may be wrong.
fn notice(store: &Store, model: &Model, flipped: &Path, was_named: bool) -> Outcome {
    let (content, log) = (store.verify(&mut |_| {}).unwrap(), faults(store));
    let deliveries = store.verify_deliveries(&mut |_| {}).unwrap();
    let is_named = was_named || !content.is_sound() || !log.is_empty() || !deliveries.is_sound();
    match model.compare_answers(model, store) {
        Err(why) => {
            let where_to = flipped.display();
            let is_loss = why.ends_with("is gone") || why.contains(" came as ") || why.ends_with("has no name");
            assert!(is_loss, "{where_to}: {why}");
            assert!(is_named, "{where_to} is not named, but {why}");
            Outcome::Named
        }
        Ok(()) if is_named => Outcome::Named,
        Ok(()) => Outcome::Harmless,
    }
}
