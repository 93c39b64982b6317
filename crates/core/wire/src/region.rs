//! The region that a member is in, as its operator names it: a word that goes into tables, labels
//! of metrics and log lines as it is.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Name of a region: 1 to [`Region::LENGTH_MAX`] letters, digits, dots, hyphens or underscores. Two
/// regions are the same if their names are, in every byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(Arc<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    #[error("the name of a region has at least one letter")]
    Empty,
    #[error(
        "the name of a region has at most {} letters, not {length}",
        Region::LENGTH_MAX
    )]
    TooLong { length: usize },
    #[error(
        "the name of a region consists of the letters a to z and A to Z, digits, '.', '-' and '_', \
         and has no {found:?}"
    )]
    BadCharacter { found: char },
}

impl Region {
    /// Longest name, in bytes.
    pub const LENGTH_MAX: usize = 32;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Region {
    type Err = RegionError;

    fn from_str(name: &str) -> Result<Region, RegionError> {
        let is_good = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if let Some(found) = name.chars().find(|c| !is_good(c)) {
            return Err(RegionError::BadCharacter { found });
        }
        match name.len() {
            0 => Err(RegionError::Empty),
            length if length > Region::LENGTH_MAX => Err(RegionError::TooLong { length }),
            _ => Ok(Region(name.into())),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_bounded_length() {
        for name in ["a", "eu-west-1", "Frankfurt_2.b", &"x".repeat(32)] {
            let region: Region = name.parse().unwrap();
            assert_eq!(region.to_string(), name);
        }
        let error = |name: &str| name.parse::<Region>().unwrap_err();
        assert_eq!(error(""), RegionError::Empty);
        assert_eq!(error(&"x".repeat(33)), RegionError::TooLong { length: 33 });
        for (name, found) in [("eu west", ' '), ("a\"b", '"'), ("Köln", 'ö'), ("a;b", ';')] {
            assert_eq!(error(name), RegionError::BadCharacter { found });
        }
    }
}
