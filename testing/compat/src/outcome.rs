//! The result of each run, read from the driver's output.
//!
//! A test runs once for each of its *combinations* of server settings:
//!
//! ```text
//! galera.galera_defaults                   [ pass ]   2197
//! galera.MDEV-27862 'binlogon'             [ fail ]  timeout after 180 seconds
//! galera.galera_ssl                        [ skipped ]  Test needs --big-test
//! ```

use std::fmt;

use crate::catalogue::{SUITES, TestName};

/// Stands for "the test has no combinations".
pub(crate) const NONE: &str = "-";
/// Stands for what servers wrote into their logs while they were stopped after a test.
pub(crate) const SHUTDOWN: &str = "shutdown";

/// Stands for a server's state after a test that differs from the state before it.
pub(crate) const STATE: &str = "state";

const STATE_LINE: &str = "MTR's internal check of the test case '";
const SHUTDOWN_LINE: &str =
    "***Warnings generated in error logs during shutdown after running tests:";
/// The last line of the driver; without it, the driver has not run everything.
const LAST_WORD: &str = "Completed:";
/// The line below the results of all tests.
const RULE: &str = "----------";

/// Message of the last server but one of three when it stops. It is correct: a group keeps the
/// tolerance of its voters, where Galera's goes down to the last member (decision 021). The driver
/// stops all servers of a test, so every suite of three servers has this line.
const KNOWN_AT_SHUTDOWN: &str =
    "this member leaves, and the voters that are left are no majority without it";

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Passed,
    Failed,
    /// The machine, or this build of the server, lacks what the test needs.
    Skipped,
    /// The test asked the provider for something that it does not have.
    SkippedByProvider,
}

impl Ending {
    /// The word in `expected.tsv`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Ending::Passed => "pass",
            Ending::Failed => "fail",
            Ending::Skipped | Ending::SkippedByProvider => "skip",
        }
    }
}

/// One run of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) test: TestName,
    pub(crate) combination: String,
    pub(crate) ending: Ending,
    /// Text that the driver adds: a time in milliseconds, or a reason.
    pub(crate) comment: String,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run {
            test,
            combination,
            ending,
            comment,
        } = self;
        let name = match combination.as_str() {
            NONE => test.to_string(),
            combination => format!("{test} {combination}"),
        };
        write!(f, "{name:<58} {:<5} {comment}", ending.word())
    }
}

/// All runs, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) runs: Vec<Run>,
}

/// Reads the driver's output line by line.
#[derive(Default)]
pub(crate) struct Reader {
    outcome: Outcome,
    stopping: Option<Stopping>,
    is_complete: bool,
}

/// Lines that servers wrote into their logs while they stopped, as far as they have been read.
struct Stopping {
    run: Run,
    lines: Vec<String>,
}

impl Stopping {
    fn is_known(&self) -> bool {
        let is_known = |line: &String| line.contains(KNOWN_AT_SHUTDOWN);
        !self.lines.is_empty() && self.lines.iter().all(is_known)
    }
}

impl Reader {
    /// Takes a line; returns the runs that ended with it.
    pub(crate) fn line(&mut self, line: &str) -> &[Run] {
        let before = self.outcome.runs.len();
        let run = parse_run(line).or_else(|| parse_state(line));
        let stopping = parse_shutdown(line);
        let is_last = line.starts_with(LAST_WORD);
        self.is_complete |= is_last;
        if run.is_some() || stopping.is_some() || is_last || line.starts_with(RULE) {
            self.end_stopping();
        } else if let Some(stopping) = &mut self.stopping
            && !line.is_empty()
        {
            stopping.lines.push(line.to_owned());
        }
        self.outcome.runs.extend(run);
        if let Some(run) = stopping {
            let lines = Vec::new();
            self.stopping = Some(Stopping { run, lines });
        }
        &self.outcome.runs[before..]
    }

    /// The lines of the servers' logs have ended.
    fn end_stopping(&mut self) {
        let unknown = self.stopping.take().filter(|stopping| !stopping.is_known());
        self.outcome
            .runs
            .extend(unknown.map(|stopping| stopping.run));
    }

    /// Number of runs that have ended.
    pub(crate) fn runs(&self) -> usize {
        self.outcome.runs.len()
    }

    /// All runs; `None` if the driver ended before its last word.
    pub(crate) fn finish(self) -> Option<Outcome> {
        self.is_complete.then_some(self.outcome)
    }
}

fn parse_run(line: &str) -> Option<Run> {
    let (head, rest) = line.split_once(" [ ")?;
    let (word, comment) = rest.split_once(" ]")?;
    let comment = comment.trim();
    let ending = match word {
        "pass" => Ending::Passed,
        "fail" => Ending::Failed,
        "skipped" | "disabled" if is_environment(comment) || word == "disabled" => Ending::Skipped,
        "skipped" => Ending::SkippedByProvider,
        _ => return None,
    };
    let mut words = head.split_whitespace();
    let test: TestName = words.next()?.parse().ok()?;
    // With several workers, "w2" and the like follow.
    let combination = words
        .find_map(|word| word.strip_prefix('\'')?.strip_suffix('\''))
        .unwrap_or(NONE);
    Some(Run {
        test,
        combination: combination.to_owned(),
        ending,
        comment: comment.to_owned(),
    })
}

fn parse_state(line: &str) -> Option<Run> {
    let (test, _) = line.strip_prefix(STATE_LINE)?.split_once("' failed")?;
    Some(Run {
        test: test.parse().ok()?,
        combination: STATE.to_owned(),
        ending: Ending::Failed,
        comment: "the servers are not as they were before".to_owned(),
    })
}

/// Servers are stopped after several tests. Lines that they wrote while stopping count for the last
/// test.
fn parse_shutdown(line: &str) -> Option<Run> {
    let test = line
        .strip_prefix(SHUTDOWN_LINE)?
        .split_whitespace()
        .last()?;
    Some(Run {
        test: test.parse().ok()?,
        combination: SHUTDOWN.to_owned(),
        ending: Ending::Failed,
        comment: "unexpected lines in error logs".to_owned(),
    })
}

/// Whether a test is skipped for a reason that has nothing to do with the provider.
fn is_environment(reason: &str) -> bool {
    const REASONS: [&str; 7] = [
        "Test needs --big-test",
        "debug_sync is not available",
        "Requires debug build",
        "Not run for embedded server",
        "Test requires",
        "Need '",
        "No ",
    ];
    REASONS.iter().any(|known| reason.starts_with(known))
}

/// Order of suites in reports.
pub(crate) fn suite_order(suite: &str) -> usize {
    SUITES
        .iter()
        .position(|s| *s == suite)
        .unwrap_or(SUITES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Outcome> {
        let mut reader = Reader::default();
        for line in text.lines() {
            reader.line(line);
        }
        reader.finish()
    }

    fn short(text: &str) -> Vec<String> {
        let runs = read(text).expect("complete").runs;
        let line = |r: &Run| format!("{} {} {:?} {}", r.test, r.combination, r.ending, r.comment);
        runs.iter().map(line).collect()
    }

    #[test]
    fn endings_combinations_and_workers_are_told_apart() {
        let text = "\
galera.galera_defaults                   [ pass ]   2197
galera.MDEV-27862 'binlogon,x'           [ fail ]  timeout after 180 seconds
galera_sr.GCF-1008 w2 [ skipped ]  Test needs --big-test
galera.galera_wan                        [ disabled ]  MDEV-35940
galera.versions                          [ skipped ]  Test requires Galera 4.30
galera.points                            [ skipped ]  some feature is missing
Completed: Failed 1/2 tests, 50.00% were successful.";
        let expected = [
            "galera.galera_defaults - Passed 2197",
            "galera.MDEV-27862 binlogon,x Failed timeout after 180 seconds",
            "galera_sr.GCF-1008 - Skipped Test needs --big-test",
            "galera.galera_wan - Skipped MDEV-35940",
            "galera.versions - Skipped Test requires Galera 4.30",
            "galera.points - SkippedByProvider some feature is missing",
        ];
        assert_eq!(short(text), expected);
    }

    #[test]
    fn lines_at_shutdown_count_against_the_last_test() {
        let text = "\
***Warnings generated in error logs during shutdown after running tests: galera.a galera.b

[Warning] WSREP: something else

galera.c                                 [ pass ]   1
Completed: All 3 tests were successful.";
        let expected = [
            "galera.b shutdown Failed unexpected lines in error logs",
            "galera.c - Passed 1",
        ];
        assert_eq!(short(text), expected);
    }

    #[test]
    fn known_line_at_shutdown_is_no_failure_alone() {
        let known = "[Warning] WSREP: this member leaves, and the voters that are left are no \
                     majority without it: the group is not primary";
        let block = |lines: &str| {
            format!("{SHUTDOWN_LINE} galera.a\n\n{lines}\n\n----------\nCompleted: x")
        };
        assert_eq!(short(&block(known)), [""; 0]);
        let failed = ["galera.a shutdown Failed unexpected lines in error logs"];
        let other = format!("{known}\n\n[ERROR] WSREP: something else");
        assert_eq!(short(&block(&other)), failed);
        assert_eq!(short(&block("")), failed);
    }

    #[test]
    fn state_left_behind_counts_against_its_test() {
        let text = "\
MTR's internal check of the test case 'galera.a' failed.
Completed: All 1 tests were successful.";
        let expected = "galera.a state Failed the servers are not as they were before";
        assert_eq!(short(text), [expected]);
    }

    #[test]
    fn what_tests_print_is_no_result() {
        let text = "\
CURRENT_TEST: galera.a
some.thing [ pass ] 1
 [ fail ]
galera.a [ pass
galera.a [ warning ] x
Completed: x";
        assert_eq!(short(text), [""; 0]);
    }

    #[test]
    fn output_that_breaks_off_is_no_outcome() {
        assert_eq!(read("galera.a   [ pass ]   1\n"), None);
    }
}
