//! The names of tiles, as C2SP tlog-tiles writes them: `tile/<L>/<N>[.p/<W>]` and `tile/entries/<N>[.p/<W>]`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Hashes or entries in a full tile.
pub const TILE_WIDTH: u64 = 256;

/// Levels that a log of at most [`MAX_LEAVES`](super::MAX_LEAVES) can have.
const LEVELS: u8 = 8;

/// What a tile holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileKind {
    /// Hashes of this level.
    Hashes(u8),
    /// The leaves themselves.
    Entries,
}

/// The name of one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileName {
    /// What it holds.
    pub kind: TileKind,
    /// Its number within its level.
    pub index: u64,
    /// How many hashes or entries: 1 to [`TILE_WIDTH`], which is a full one.
    pub width: u64,
}

/// Why a path names no tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not the name of a tile such as tile/0/x001/234.p/5")]
pub struct InvalidTileName;

impl TileName {
    /// Says whether a log of `size` leaves has this tile, at this width or a greater one.
    pub fn is_in(&self, size: u64) -> bool {
        let level = match self.kind {
            TileKind::Hashes(level) => level,
            TileKind::Entries => 0,
        };
        let at_level = size >> (8 * u32::from(level));
        let end = self
            .index
            .checked_mul(TILE_WIDTH)
            .and_then(|first| first.checked_add(self.width));
        end.is_some_and(|end| end <= at_level)
    }
}

impl FromStr for TileName {
    type Err = InvalidTileName;

    fn from_str(text: &str) -> Result<Self, InvalidTileName> {
        let (level, rest) = text
            .strip_prefix("tile/")
            .and_then(|rest| rest.split_once('/'))
            .ok_or(InvalidTileName)?;
        let kind = match level {
            "entries" => TileKind::Entries,
            level => TileKind::Hashes(
                number(level, 1, u64::from(LEVELS) - 1)
                    .and_then(|level| u8::try_from(level).ok())
                    .ok_or(InvalidTileName)?,
            ),
        };
        let (index, width) = match rest.split_once(".p/") {
            None => (rest, TILE_WIDTH),
            Some((index, width)) => {
                let width = number(width, 3, TILE_WIDTH - 1).filter(|width| *width > 0);
                (index, width.ok_or(InvalidTileName)?)
            }
        };
        let mut whole = 0_u64;
        let mut parts = index.split('/').peekable();
        while let Some(part) = parts.next() {
            let digits = if parts.peek().is_some() {
                part.strip_prefix('x')
            } else {
                Some(part)
            };
            let digits = digits.filter(|digits| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()));
            let value: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or(InvalidTileName)?;
            whole = whole
                .checked_mul(1_000)
                .and_then(|whole| whole.checked_add(value))
                .ok_or(InvalidTileName)?;
        }
        let name = Self {
            kind,
            index: whole,
            width,
        };
        // Nothing has two names: x000/001 is not 001.
        (name.to_string() == text).then_some(name).ok_or(InvalidTileName)
    }
}

impl fmt::Display for TileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TileKind::Hashes(level) => write!(f, "tile/{level}/")?,
            TileKind::Entries => f.write_str("tile/entries/")?,
        }
        let (mut rest, mut parts) = (self.index / 1_000, vec![format!("{:03}", self.index % 1_000)]);
        while rest > 0 {
            parts.push(format!("x{:03}", rest % 1_000));
            rest /= 1_000;
        }
        parts.reverse();
        f.write_str(&parts.join("/"))?;
        if self.width < TILE_WIDTH {
            write!(f, ".p/{}", self.width)?;
        }
        Ok(())
    }
}

/// A number of at most `digits` digits without zeroes before it, up to `most`.
fn number(text: &str, digits: usize, most: u64) -> Option<u64> {
    let number: u64 = Some(text).filter(|text| text.len() <= digits)?.parse().ok()?;
    (number <= most && number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_paths_of_the_specification_are_read_and_written() {
        for (text, kind, index, width) in [
            ("tile/0/000", TileKind::Hashes(0), 0, 256),
            ("tile/1/x001/x234/067", TileKind::Hashes(1), 1_234_067, 256),
            ("tile/0/273.p/112", TileKind::Hashes(0), 273, 112),
            ("tile/entries/x001/000.p/1", TileKind::Entries, 1_000, 1),
        ] {
            let name = TileName { kind, index, width };
            assert_eq!((text.parse(), name.to_string().as_str()), (Ok(name), text));
        }
        for text in [
            "",
            "tile",
            "tile/",
            "tile/0",
            "tile/0/",
            "tile/0/0",
            "tile/0/0000",
            "tile/00/000",
            "tile/8/000",
            "tile/-1/000",
            "tile/0/x000/001",
            "tile/0/001/002",
            "tile/0/x001",
            "tile/0/000.p/0",
            "tile/0/000.p/256",
            "tile/0/000.p/07",
            "tile/0/000.p/",
            "tile/0/000.p",
            "tile/0/000.p/1/",
            "tile/0/../000",
            "tile/0/000/",
            "/tile/0/000",
            "tile/0/+01",
            "tile/data/000",
            "tile/entries",
            "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
            "tile/0/٠٠١",
            "tile//000",
        ] {
            assert_eq!(text.parse::<TileName>(), Err(InvalidTileName), "{text}");
        }
    }

    #[test]
    fn a_log_has_the_tiles_that_the_specification_counts() {
        // "A tree of size 70,000 will be represented by …"
        for (text, has) in [
            ("tile/0/272", true),
            ("tile/0/273", false),
            ("tile/0/273.p/112", true),
            ("tile/0/273.p/111", true),
            ("tile/0/273.p/113", false),
            ("tile/1/000", true),
            ("tile/1/001.p/17", true),
            ("tile/1/001.p/18", false),
            ("tile/2/000.p/1", true),
            ("tile/2/000.p/2", false),
            ("tile/3/000.p/1", false),
            ("tile/entries/273.p/112", true),
            ("tile/7/x099/x999/x999/x999/x999/999", false),
        ] {
            assert_eq!(text.parse::<TileName>().unwrap().is_in(70_000), has, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_has_two_names(text in "tile/([0-9]{1,2}|entries)/(x[0-9]{2,3}/){0,3}[0-9]{2,4}(\\.p/[0-9]{1,3})?") {
            if let Ok(name) = text.parse::<TileName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
