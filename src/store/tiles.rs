//! The log as C2SP tlog-tiles: `log/tile/<L>/<N>[.p/<W>]` and `log/tile/entries/<N>[.p/<W>]`.
//!
//! Imports `durable` and `domain`. Tiles are made from the journal and prove nothing by themselves, so that they are not
//! flushed: whatever is missing or differs at start is written again.

use std::path::Path;
use std::path::PathBuf;

use tlog_tiles::tile::Tile;
use tlog_tiles::tlog;
use tlog_tiles::tlog::Hash;
use tlog_tiles::tlog::HashReader;

use super::durable;
use super::durable::Disk;
use super::error::Error;
use crate::domain::audit::TileKind;
use crate::domain::audit::TileName;

/// The height that C2SP tlog-tiles fixes: 256 hashes or entries in a full tile.
const HEIGHT: u8 = 8;

/// Entries in a full bundle.
const FULL: u32 = 1 << HEIGHT;

/// Bytes of the longest tile: a full bundle of the longest entries.
const MAX_TILE_BYTES: u64 = FULL as u64 * (65_535 + 2);

/// The tiles below one `log` folder.
pub(super) struct Tiles<'a> {
    /// The writer.
    pub(super) disk: &'a Disk,
    /// The `log` folder.
    pub(super) dir: &'a Path,
    /// The tree that they show, which may grow meanwhile.
    pub(super) hashes: Hashes<'a>,
    /// The bytes of a leaf.
    pub(super) leaf: &'a dyn Fn(u64) -> Result<Vec<u8>, Error>,
}

/// Looks hashes up by their stored indexes.
#[derive(Clone, Copy)]
pub(super) struct Hashes<'a>(pub(super) &'a Look<'a>);

/// Gives the hash under each index.
pub(super) type Look<'a> = dyn Fn(&[u64]) -> Result<Vec<Hash>, tlog::Error> + 'a;

impl HashReader for Hashes<'_> {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog::Error> {
        (self.0)(indexes)
    }
}

/// Takes the path of a file that is wrong, what belongs there, and the index of the first leaf that it shows.
pub(super) type EachWrong<'a> = dyn FnMut(&Path, Option<Vec<u8>>, u64) -> Result<(), Error> + 'a;

/// What one tile file is for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Hashes,
    Entries,
}

impl Tiles<'_> {
    /// Writes what a log that grew from `old` to `new` leaves shows anew, and removes the partial tiles that this outgrew.
    pub(super) fn publish(&self, old: u64, new: u64) -> Result<(), Error> {
        for (tile, kind) in tiles(old, new) {
            let path = self.dir.join(path(&tile, kind));
            self.write(&path, &self.bytes(&tile, kind)?)?;
        }
        for (tile, kind) in partial_tiles(old).filter(|(tile, _)| width_at(tile, new) > u64::from(tile.width())) {
            let outgrown = self.dir.join(path(&tile, kind));
            self.disk.discard(&outgrown);
            if width_at(&tile, new) == u64::from(FULL)
                && let Some(partials) = outgrown.parent()
            {
                self.disk.discard(partials);
            }
        }
        Ok(())
    }

    /// Makes the files be exactly those of a log of `size` leaves; says how many were not.
    pub(super) fn repair(&self, size: u64) -> Result<u64, Error> {
        let mut repaired = 0;
        self.each_wrong(size, &mut |path, expected, _| {
            repaired += 1;
            match expected {
                Some(bytes) => self.write(path, &bytes),
                None => self.disk.remove(path),
            }
        })?;
        Ok(repaired)
    }

    /// Visits every file that is missing, differs or should not be there.
    pub(super) fn each_wrong(&self, size: u64, each: &mut EachWrong<'_>) -> Result<(), Error> {
        let mut expected = std::collections::BTreeSet::new();
        for (tile, kind) in tiles(0, size) {
            let path = self.dir.join(path(&tile, kind));
            let bytes = self.bytes(&tile, kind)?;
            if durable::read(&path, MAX_TILE_BYTES)?.as_ref() != Some(&bytes) {
                each(&path, Some(bytes), first_leaf(&tile))?;
            }
            expected.insert(path);
        }
        let mut found = Vec::new();
        files_below(&self.dir.join("tile"), &mut found)?;
        for path in found.iter().filter(|path| !expected.contains(*path)) {
            each(path, None, size)?;
        }
        Ok(())
    }

    /// The bytes of a tile that a log of that size has.
    pub(super) fn named(&self, name: &TileName) -> Result<Vec<u8>, Error> {
        let (level, kind) = match name.kind {
            TileKind::Hashes(level) => (level, Kind::Hashes),
            TileKind::Entries => (0, Kind::Entries),
        };
        let width = u32::try_from(name.width).unwrap_or(FULL);
        self.bytes(&Tile::new(HEIGHT, level, name.index, width, false), kind)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        if let Some(dir) = path.parent() {
            self.disk.make_dir(dir)?;
        }
        self.disk.write_derived(path, bytes)
    }

    fn bytes(&self, tile: &Tile, kind: Kind) -> Result<Vec<u8>, Error> {
        match kind {
            Kind::Hashes => tile
                .read_data(&self.hashes)
                .map_err(|error| Error::Leaf { why: error.to_string() }),
            Kind::Entries => {
                let first = first_leaf(tile);
                let mut bundle = Vec::new();
                for index in first..first + u64::from(tile.width()) {
                    let leaf = (self.leaf)(index)?;
                    // A leaf was refused when it was appended if its length needs more than two bytes.
                    let len = u16::try_from(leaf.len()).map_err(|_| Error::LogDamaged {
                        index,
                        why: "it is too long".to_owned(),
                    })?;
                    bundle.extend_from_slice(&len.to_be_bytes());
                    bundle.extend_from_slice(&leaf);
                }
                Ok(bundle)
            }
        }
    }
}

/// The hash tiles, and beside each of the lowest level its entries, that change from `old` to `new` leaves.
fn tiles(old: u64, new: u64) -> impl Iterator<Item = (Tile, Kind)> {
    Tile::new_tiles(HEIGHT, old, new).into_iter().flat_map(with_entries)
}

/// The tiles at the right edge of a log of `size` leaves that are not full.
fn partial_tiles(size: u64) -> impl Iterator<Item = (Tile, Kind)> {
    (0..u8::MAX / HEIGHT)
        .map_while(move |level| {
            size.checked_shr(u32::from(HEIGHT * level))
                .map(|at_level| (level, at_level))
        })
        .filter_map(|(level, at_level)| {
            let width = u32::try_from(at_level % u64::from(FULL))
                .ok()
                .filter(|width| *width > 0)?;
            Some(Tile::new(HEIGHT, level, at_level >> HEIGHT, width, false))
        })
        .flat_map(with_entries)
}

fn with_entries(tile: Tile) -> impl Iterator<Item = (Tile, Kind)> {
    let entries = (tile.level() == 0).then_some((tile, Kind::Entries));
    [(tile, Kind::Hashes)].into_iter().chain(entries)
}

/// The tile's path below `log`: C2SP leaves out the height, and calls the bundles `entries`.
fn path(tile: &Tile, kind: Kind) -> PathBuf {
    let full = tile.path();
    let rest = full
        .strip_prefix(&format!("tile/{HEIGHT}/{}/", tile.level()))
        .unwrap_or(&full);
    let level = match kind {
        Kind::Hashes => tile.level().to_string(),
        Kind::Entries => "entries".to_owned(),
    };
    Path::new("tile").join(level).join(rest)
}

/// How wide a tile's place is in a log of `size` leaves.
fn width_at(tile: &Tile, size: u64) -> u64 {
    let at_level = size >> (u32::from(HEIGHT) * u32::from(tile.level()));
    at_level
        .saturating_sub(tile.level_index() << HEIGHT)
        .min(u64::from(FULL))
}

/// The index of the first leaf below a tile.
fn first_leaf(tile: &Tile) -> u64 {
    tile.level_index() << (u32::from(HEIGHT) * (u32::from(tile.level()) + 1))
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    for name in durable::names(dir)? {
        let path = dir.join(name);
        if path.is_dir() && !path.is_symlink() {
            files_below(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::audit::Tree;

    #[test]
    fn paths_are_those_of_the_specification() {
        let tile = |l, n, w| Tile::new(HEIGHT, l, n, w, false);
        for (tile, kind, expected) in [
            (tile(0, 0, 1), Kind::Hashes, "tile/0/000.p/1"),
            (tile(0, 273, 256), Kind::Hashes, "tile/0/273"),
            (tile(1, 1_234_067, 8), Kind::Hashes, "tile/1/x001/x234/067.p/8"),
            (tile(0, 1_000, 256), Kind::Entries, "tile/entries/x001/000"),
        ] {
            assert_eq!(path(&tile, kind), Path::new(expected));
            let name: TileName = expected.parse().unwrap();
            assert_eq!((name.index, name.width), (tile.level_index(), u64::from(tile.width())));
        }
    }

    #[test]
    fn growing_step_by_step_leaves_what_growing_at_once_does() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(dir.path(), "t");
        disk.make_dir(&dir.path().join(durable::TMP)).unwrap();
        let mut tree = Tree::default();
        let leaf = |index: u64| Ok(index.to_string().into_bytes());
        let log = dir.path().join("log");
        let mut size = 0;
        for step in [1, 1, 254, 1, 255, 3, 700, 0] {
            for index in size..size + step {
                tree.push(&leaf(index).unwrap());
            }
            let tiles = Tiles {
                disk: &disk,
                dir: &log,
                hashes: Hashes(&|indexes| tree.read_hashes(indexes)),
                leaf: &leaf,
            };
            tiles.publish(size, size + step).unwrap();
            size += step;
            tiles
                .each_wrong(size, &mut |path, _, _| panic!("{} at {size}", path.display()))
                .unwrap();
        }
        assert_eq!(
            durable::names(&log.join("tile/0")).unwrap(),
            ["000", "001", "002", "003", "004.p"]
        );
    }
}
