//! `testing/compat/expected.tsv`: the runs that do not pass, and why.
//!
//! ```text
//! test <TAB> combination <TAB> expected result <TAB> reason
//! ```
//! A combination is what the driver prints in quotes. `-` stands for none, `*` for all, `shutdown`
//! for lines that servers log while being stopped after the test, and `state` for a state that the
//! test leaves behind. A run without a row is expected to pass, or to be skipped for a reason of
//! the machine. `either` is for tests that race against the server itself with every provider,
//! which was shown with Galera's library; it is rare. `#` begins a comment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::catalogue::TestName;
use crate::error::CompatError;
use crate::outcome::{Ending, Outcome, Run};

/// Stands for all combinations.
const ANY: &str = "*";
/// Reason that [`record`] writes if none is known.
const UNEXPLAINED: &str = "not explained yet";

/// An expected result other than "passes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Fail,
    Skip,
    /// The test passes or fails: a race within the test.
    Either,
}

impl Expected {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Expected::Fail => "fail",
            Expected::Skip => "skip",
            Expected::Either => "either",
        }
    }

    /// Whether a run ended as this says.
    pub(crate) fn is(self, ending: Ending) -> bool {
        match self {
            Expected::Fail => ending == Ending::Failed,
            Expected::Skip => matches!(ending, Ending::Skipped | Ending::SkippedByProvider),
            Expected::Either => matches!(ending, Ending::Passed | Ending::Failed),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) expected: Expected,
    pub(crate) reason: String,
}

/// All rows, by test and combination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expectations {
    pub(crate) rows: BTreeMap<(TestName, String), Row>,
}

impl Expectations {
    pub(crate) fn read(path: &Path) -> Result<Expectations, CompatError> {
        let text = std::fs::read_to_string(path).map_err(|source| CompatError::File {
            what: "read",
            path: path.to_owned(),
            source,
        })?;
        Expectations::parse(&text).map_err(|(line, why)| CompatError::Expectation {
            path: path.to_owned(),
            line,
            why,
        })
    }

    fn parse(text: &str) -> Result<Expectations, (usize, String)> {
        let mut all = Expectations::default();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let failed = |why| (number + 1, why);
            let (key, row) = parse_row(line).map_err(failed)?;
            if all.rows.contains_key(&key) {
                return Err(failed(format!("{} {} is twice", key.0, key.1)));
            }
            all.rows.insert(key, row);
        }
        Ok(all)
    }

    /// Expectation for a run: the row of its combination, or the row of all combinations.
    pub(crate) fn of(&self, run: &Run) -> Option<(&(TestName, String), &Row)> {
        let exact = (run.test.clone(), run.combination.clone());
        let any = (run.test.clone(), ANY.to_owned());
        let found = self.rows.get_key_value(&exact);
        found.or_else(|| self.rows.get_key_value(&any))
    }
}

fn parse_row(line: &str) -> Result<((TestName, String), Row), String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [test, combination, expected, reason] = fields[..] else {
        return Err(format!(
            "{} fields instead of 4, separated by tabs",
            fields.len()
        ));
    };
    let expected = match expected {
        "fail" => Expected::Fail,
        "skip" => Expected::Skip,
        "either" => Expected::Either,
        other => return Err(format!("'{other}' is none of 'fail', 'skip', 'either'")),
    };
    if combination.is_empty() || reason.trim().is_empty() {
        return Err("the combination or the reason is empty".to_owned());
    }
    let row = Row {
        expected,
        reason: reason.to_owned(),
    };
    Ok(((test.parse()?, combination.to_owned()), row))
}

/// Writes what did not pass in the format of the expectations, with the reasons that are known.
pub(crate) fn record(
    path: &Path,
    outcome: &Outcome,
    known: &Expectations,
) -> Result<(), CompatError> {
    std::fs::write(path, recorded(outcome, known)).map_err(|source| CompatError::File {
        what: "write",
        path: path.to_owned(),
        source,
    })
}

fn recorded(outcome: &Outcome, known: &Expectations) -> String {
    let mut rows = BTreeMap::new();
    for run in &outcome.runs {
        let row = known.of(run).map(|(_, row)| row);
        let either = row.filter(|row| row.expected == Expected::Either);
        let expected = match (either, run.ending) {
            (Some(_), Ending::Passed | Ending::Failed) => Expected::Either,
            (None, Ending::Failed) => Expected::Fail,
            (_, Ending::SkippedByProvider) => Expected::Skip,
            (None, Ending::Passed) | (_, Ending::Skipped) => continue,
        };
        let reason = row.map_or(UNEXPLAINED, |row| row.reason.as_str());
        rows.insert((&run.test, &run.combination), (expected, reason));
    }
    let mut text = String::new();
    for ((test, combination), (expected, reason)) in rows {
        // Writing to a String never fails.
        let _ = writeln!(text, "{test}\t{combination}\t{}\t{reason}", expected.word());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::NONE;

    fn run(test: &str, combination: &str, ending: Ending) -> Run {
        Run {
            test: test.parse().unwrap(),
            combination: combination.to_owned(),
            ending,
            comment: String::new(),
        }
    }

    #[test]
    fn row_of_the_combination_goes_before_the_row_of_all() {
        let text = "# why\n\ngalera.a\t*\tfail\tall\ngalera.a\tx\tskip\tone\n";
        let rows = Expectations::parse(text).unwrap();
        let reason = |combination| {
            let found = rows.of(&run("galera.a", combination, Ending::Failed));
            found.map(|(_, row)| row.reason.clone())
        };
        assert_eq!(reason("x").unwrap(), "one");
        assert_eq!(reason(NONE).unwrap(), "all");
        assert!(rows.of(&run("galera.b", NONE, Ending::Failed)).is_none());
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, line) in [
            ("galera.a\t-\tfail", 1),
            ("# x\ngalera.a\t-\tpass\twhy", 2),
            ("galera.a\t-\tfail\t ", 1),
            ("a\t-\tfail\twhy", 1),
            ("galera.a\t-\tfail\twhy\ngalera.a\t-\tskip\twhy", 2),
        ] {
            assert_eq!(Expectations::parse(text).unwrap_err().0, line, "{text:?}");
        }
    }

    #[test]
    fn record_keeps_known_reasons_and_can_be_read() {
        let known = "galera.a\t*\tfail\tbecause\ngalera.e\t-\teither\ta race\n";
        let known = Expectations::parse(known).unwrap();
        let outcome = Outcome {
            runs: vec![
                run("galera.b", NONE, Ending::SkippedByProvider),
                run("galera.a", "x", Ending::Failed),
                run("galera.c", NONE, Ending::Passed),
                run("galera.d", NONE, Ending::Skipped),
                run("galera.e", NONE, Ending::Passed),
            ],
        };
        let text = recorded(&outcome, &known);
        let expected = "galera.a\tx\tfail\tbecause\ngalera.b\t-\tskip\tnot explained yet\n\
                        galera.e\t-\teither\ta race\n";
        assert_eq!(text, expected);
        assert!(Expectations::parse(&text).is_ok());
    }
}
