//! Finds the name that a mistyped name probably means.
//!
//! In a server only names that begin with `synod.` get a suggestion: for Galera's, the exact line
//! of Galera is expected.

/// The candidate with the smallest edit distance; the first of several.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates.min_by_key(|candidate| distance(name, candidate))
}

/// Levenshtein distance in bytes: insertions, deletions and replacements that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    // `row[j]`: distance between the bytes of `a` seen so far and the first j bytes of `b`.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_edits() {
        let cases = [
            ("", "", 0),
            ("a", "", 1),
            ("kitten", "sitting", 3),
            ("log_dri", "log_dir", 2),
        ];
        for (a, b, expected) in cases {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
