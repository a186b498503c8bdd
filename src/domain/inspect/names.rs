//! Names that are easily taken for each other.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use unicode_security::confusable_detection::skeleton;

use super::remark::shown;

/// For each of `items` that looks like others, though it is not the same: itself, one of them, and how many there are
/// beside that one. Takes time and memory in proportion to the items.
pub(super) fn groups<'a>(
    items: impl IntoIterator<Item = &'a str>,
    looks: fn(&str) -> String,
) -> Vec<(&'a str, &'a str, usize)> {
    let mut by_looks: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for item in items {
        by_looks.entry(looks(item)).or_default().insert(item);
    }
    let mut alike = Vec::new();
    for group in by_looks.into_values() {
        let mut first_two = group.iter();
        if let (Some(&first), Some(&second)) = (first_two.next(), first_two.next()) {
            let more = group.len() - 2;
            alike.extend(
                group
                    .iter()
                    .map(|&item| (item, if item == first { second } else { first }, more)),
            );
        }
    }
    alike
}

/// What a name looks like at a glance: confusable characters as one, and neither case nor what parts its words.
pub(super) fn name_looks(name: &str) -> String {
    path_looks(name).chars().filter(|char| char.is_alphanumeric()).collect()
}

/// What a path looks like at a glance: confusable characters as one, without case.
pub(super) fn path_looks(path: &str) -> String {
    let lower: String = skeleton(path).flat_map(char::to_lowercase).collect();
    skeleton(&lower).collect()
}

/// Says what something is easily taken for.
pub(super) fn told(other: &str, more: usize) -> String {
    match more {
        0 => format!("looks like {}", shown(other)),
        _ => format!("looks like {} and {more} more", shown(other)),
    }
}
