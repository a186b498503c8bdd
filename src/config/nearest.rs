//! The word that was probably meant.

/// The word among `known` that is fewest edits away from `written`, if that is few enough to be a slip.
pub(super) fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let slips = 1 + written.chars().count() / 3;
    known
        .into_iter()
        .map(|word| (edits(written, word), word))
        .min()
        .filter(|(edits, _)| *edits <= slips)
        .map(|(_, word)| word)
}

/// The insertions, removals and replacements of one character that lead from `a` to `b` (Levenshtein).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // Edits from what was seen of `a` to each beginning of `b`.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (seen, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = seen + 1;
        for (column, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(edits(a, b), count, "{a} {b}");
        }
    }

    #[test]
    fn a_slip_finds_its_word_and_another_word_finds_none() {
        let known = ["listen", "hosts", "origins"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("host", known), Some("hosts"));
        assert_eq!(nearest("colour", known), None);
    }
}
