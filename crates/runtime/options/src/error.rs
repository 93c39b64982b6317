//! Errors of options, in the words for the server's error log.
//!
//! The text is the line to log. Lines that Galera writes too have Galera's words, because test
//! suites look for them.

use std::fmt;

use super::table::SPECS;

/// Why options were refused. The text is the line to log, at ERROR; answer `Status::NodeFail`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Exactly the line that Galera logs and its test suites look for.
    #[error("Unknown parameter '{name}'")]
    Unknown { name: String },
    /// A name that begins with `synod.` and does not exist.
    #[error("Unknown parameter '{name}'; did you mean '{nearest}'?")]
    UnknownOwn {
        name: String,
        /// The most similar name that exists.
        nearest: &'static str,
    },
    #[error("{name} is no longer an option: {why}. Remove it")]
    Removed {
        name: &'static str,
        why: &'static str,
    },
    #[error("malformed provider option '{segment}': {reason}")]
    Malformed {
        segment: String,
        reason: &'static str,
    },
    #[error("provider option '{name}' cannot be '{value}': {reason}")]
    BadValue {
        name: &'static str,
        value: String,
        /// The values that the option takes, or why it does not take this one.
        reason: String,
    },
    #[error("provider option '{name}' can be set at server start only")]
    ReadOnly { name: &'static str },
    #[error("provider option '{name}' cannot be '{value}': {reason}")]
    Refused {
        name: &'static str,
        value: String,
        reason: &'static str,
    },
}

/// An option of a saved list that was left as it is ([`OptionSpec::of_group`](super::OptionSpec)).
/// The text is a warning for the operator whose statement it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRestored {
    pub name: &'static str,
    pub text: String,
}

impl fmt::Display for NotRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotRestored { name, text } = self;
        write!(
            f,
            "{name}={text} is ignored. The list also names options for the server's start, so it \
             is a saved one, and another server or a command may have changed {name} since. To \
             set it: SET GLOBAL wsrep_provider_options='{name}={text}'"
        )
    }
}

/// An accepted option without effect. The text is a line to log, at INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub name: &'static str,
    pub why: &'static str,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "provider option '{}' is accepted but has no effect: {}",
            self.name, self.why
        )
    }
}

/// Options that are gone, and what happens instead. A name stays here for one middle number.
const REMOVED: [(&str, &str); 3] = [
    (
        "synod.laggard_after",
        "proxies ask 'synod agent' for /health/reader?max_lag_ms=5000&lagging=404",
    ),
    (
        "synod.lease",
        "a causal read asks a majority (one round trip)",
    ),
    (
        "synod.promise",
        "a member that hears the leader votes for no other for four times synod.heartbeat_period",
    ),
];

/// The error for an option of an earlier version; `None`: there was none of this name.
pub fn removed(name: &str) -> Option<OptionsError> {
    let (name, why) = REMOVED.into_iter().find(|(removed, _)| *removed == name)?;
    Some(OptionsError::Removed { name, why })
}

/// The error for a name that is not in the table. Only for a name that begins with `synod.` it has
/// a suggestion: for Galera's, the exact line of Galera is expected.
pub(crate) fn unknown(name: &str) -> OptionsError {
    if let Some(removed) = removed(name) {
        return removed;
    }
    let own = SPECS
        .iter()
        .map(|spec| spec.name)
        .filter(|known| known.starts_with("synod."));
    match nearest(name, own) {
        Some(nearest) if name.starts_with("synod.") => OptionsError::UnknownOwn {
            name: name.to_owned(),
            nearest,
        },
        _ => OptionsError::Unknown {
            name: name.to_owned(),
        },
    }
}

/// The name that a mistyped one probably means: the candidate with the smallest edit distance; the
/// first of several.
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
