//! The report at the end: a table of suites, and a line for each difference.
//!
//! Lines of `shutdown` and `state` count as differences, not as tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::comparison::{Comparison, Difference};
use crate::outcome::{Ending, Outcome, Run, SHUTDOWN, STATE, suite_order};

#[derive(Clone, Copy, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
    different: usize,
}

/// A line for each suite, then each difference.
pub(crate) fn render(outcome: &Outcome, comparison: &Comparison) -> String {
    let mut suites: BTreeMap<(usize, String), Counts> = BTreeMap::new();
    let key = |suite: &str| (suite_order(suite), suite.to_owned());
    let is_test = |run: &&Run| ![SHUTDOWN, STATE].contains(&run.combination.as_str());
    for run in outcome.runs.iter().filter(is_test) {
        let counts = suites.entry(key(&run.test.suite)).or_default();
        match run.ending {
            Ending::Passed => counts.passed += 1,
            Ending::Failed => counts.failed += 1,
            Ending::Skipped | Ending::SkippedByProvider => counts.skipped += 1,
        }
    }
    for difference in &comparison.differences {
        let suite = match difference {
            Difference::Unexpected(run) | Difference::Contradicts(run, _) => &run.test.suite,
            Difference::NoSuchRun(row) => row.split('.').next().unwrap_or_default(),
        };
        suites.entry(key(suite)).or_default().different += 1;
    }
    let mut text = format!(
        "\n{:<18} {:>7} {:>7} {:>7}  differ from expected\n",
        "suite", "passed", "failed", "skipped"
    );
    let mut total = Counts::default();
    for ((_, suite), counts) in &suites {
        text.push_str(&line(suite, counts));
        total.passed += counts.passed;
        total.failed += counts.failed;
        total.skipped += counts.skipped;
        total.different += counts.different;
    }
    text.push_str(&line("all", &total));
    for difference in &comparison.differences {
        // Writing to a String never fails.
        let _ = writeln!(text, "differs: {difference}");
    }
    text
}

fn line(suite: &str, counts: &Counts) -> String {
    let Counts {
        passed,
        failed,
        skipped,
        different,
    } = counts;
    format!("{suite:<18} {passed:>7} {failed:>7} {skipped:>7}  {different}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::NONE;

    #[test]
    fn suites_are_counted_in_their_order() {
        let run = |test: &str, combination: &str, ending| Run {
            test: test.parse().unwrap(),
            combination: combination.to_owned(),
            ending,
            comment: "12".to_owned(),
        };
        let failed = run("wsrep.b", NONE, Ending::Failed);
        let outcome = Outcome {
            runs: vec![
                run("galera.a", "x", Ending::Passed),
                run("galera.a", "y", Ending::Skipped),
                run("galera.a", SHUTDOWN, Ending::Failed),
                failed.clone(),
            ],
        };
        let comparison = Comparison {
            differences: vec![Difference::Unexpected(failed)],
        };
        let text = render(&outcome, &comparison);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["wsrep", "0", "1", "0", "1"]);
        assert_eq!(lines[1], ["galera", "1", "0", "1", "0"]);
        assert_eq!(lines[2], ["all", "1", "1", "1", "1"]);
        assert_eq!(lines[3], ["differs:", "wsrep.b", "fail", "12"]);
    }
}
