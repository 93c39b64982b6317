//! The results of runs, compared with the expected ones.
//!
//! A run that the machine skips never differs. A row without a run differs if its whole suite ran.

use std::collections::BTreeSet;
use std::fmt;

use crate::args::Selection;
use crate::expectations::{Expectations, Row};
use crate::outcome::{Ending, Outcome, Run};

/// A run that did not end as expected, or did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// A run without a row that did not pass.
    Unexpected(Run),
    /// A run whose row expects another result.
    Contradicts(Run, Row),
    /// A row for a run that does not exist any more.
    NoSuchRun(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Unexpected(run) => write!(f, "{run}"),
            Difference::Contradicts(run, row) => {
                let (word, reason) = (row.expected.word(), &row.reason);
                write!(f, "{run} (expected: {word}, {reason})")
            }
            Difference::NoSuchRun(row) => write!(f, "{row}: there was no such run"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) differences: Vec<Difference>,
}

impl Comparison {
    pub(crate) fn of(
        outcome: &Outcome,
        expectations: &Expectations,
        selection: &Selection,
    ) -> Comparison {
        let mut differences = Vec::new();
        let mut used = BTreeSet::new();
        for run in &outcome.runs {
            match expectations.of(run) {
                Some((key, row)) => {
                    used.insert(key);
                    // A test that the machine cannot run gives no result.
                    let is_silent = run.ending == Ending::Skipped;
                    if !is_silent && !row.expected.is(run.ending) {
                        differences.push(Difference::Contradicts(run.clone(), row.clone()));
                    }
                }
                None if matches!(run.ending, Ending::Passed | Ending::Skipped) => {}
                None => differences.push(Difference::Unexpected(run.clone())),
            }
        }
        if let Selection::Suites(suites) = selection {
            let unused = expectations
                .rows
                .keys()
                .filter(|key| suites.contains(&key.0.suite) && !used.contains(*key));
            let rows = unused.map(|(test, combination)| format!("{test} {combination}"));
            differences.extend(rows.map(Difference::NoSuchRun));
        }
        Comparison { differences }
    }

    pub(crate) fn is_as_expected(&self) -> bool {
        self.differences.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expectations::Expected;
    use crate::outcome::NONE;

    fn run(test: &str, ending: Ending) -> Run {
        Run {
            test: test.parse().unwrap(),
            combination: NONE.to_owned(),
            ending,
            comment: String::new(),
        }
    }

    fn compare(runs: &[(&str, Ending)], rows: &[(&str, Expected)], suites: &[&str]) -> usize {
        let outcome = Outcome {
            runs: runs
                .iter()
                .map(|(test, ending)| run(test, *ending))
                .collect(),
        };
        let mut expectations = Expectations::default();
        for (test, expected) in rows {
            let row = Row {
                expected: *expected,
                reason: "why".to_owned(),
            };
            let key = (test.parse().unwrap(), NONE.to_owned());
            expectations.rows.insert(key, row);
        }
        let selection = Selection::Suites(suites.iter().map(|s| (*s).to_owned()).collect());
        Comparison::of(&outcome, &expectations, &selection)
            .differences
            .len()
    }

    #[test]
    fn every_departure_from_the_expected_is_a_difference() {
        use Ending::{Failed, Passed, Skipped, SkippedByProvider};
        let none: &[(&str, Expected)] = &[];
        let [fail, skip, either] = [Expected::Fail, Expected::Skip, Expected::Either]
            .map(|expected| [("galera.a", expected)]);
        for (ending, rows, differences) in [
            (Passed, none, 0),
            (Skipped, none, 0),
            (Failed, none, 1),
            (SkippedByProvider, none, 1),
            (Failed, &fail, 0),
            (Passed, &fail, 1),
            (SkippedByProvider, &fail, 1),
            (Skipped, &fail, 0),
            (SkippedByProvider, &skip, 0),
            (Passed, &skip, 1),
            (Passed, &either, 0),
            (Failed, &either, 0),
            (SkippedByProvider, &either, 1),
        ] {
            let found = compare(&[("galera.a", ending)], rows, &["galera"]);
            assert_eq!(found, differences, "{ending:?} with {rows:?}");
        }
    }

    #[test]
    fn row_without_a_run_counts_if_its_suite_was_run() {
        let rows = [("galera.gone", Expected::Fail)];
        assert_eq!(compare(&[], &rows, &["galera"]), 1);
        assert_eq!(compare(&[], &rows, &["wsrep"]), 0);
    }
}
