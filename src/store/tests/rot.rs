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
