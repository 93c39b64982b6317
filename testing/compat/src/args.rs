//! The command line.
//!
//! Default paths are relative to the root of the repository, where the program is meant to run.

use std::path::PathBuf;

use clap::Parser;

use crate::catalogue::{SUITES, TestName};
use crate::error::CompatError;

/// Run MariaDB's own Galera test suites against libsynod.so
#[derive(Debug, Parser)]
#[command(name = "synod-compat", version)]
pub(crate) struct Args {
    /// A suite to run; may be given several times. Without any selection, all five
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(SUITES))]
    pub(crate) suite: Vec<String>,
    /// A test to run, as SUITE.NAME; may be given several times
    #[arg(long, conflicts_with_all = ["suite", "subset"])]
    pub(crate) test: Vec<TestName>,
    /// Run the short selection of testing/compat/subset.txt
    #[arg(long, conflicts_with = "suite")]
    pub(crate) subset: bool,
    /// Only print which tests would run
    #[arg(long)]
    pub(crate) list: bool,
    /// The provider library under test
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/release/libsynod.so"
    )]
    pub(crate) provider: PathBuf,
    /// The runs that are expected not to pass
    #[arg(
        long,
        value_name = "FILE",
        default_value = "testing/compat/expected.tsv"
    )]
    pub(crate) expected: PathBuf,
    /// Tests to leave out, in the test driver's own format (NAME : REASON in each line)
    #[arg(long, value_name = "FILE")]
    pub(crate) skip_test_list: Option<PathBuf>,
    /// Directory for servers and logs; made if missing, its contents are replaced
    #[arg(long, value_name = "DIR", default_value = "/var/tmp/synod-compat")]
    pub(crate) work_dir: PathBuf,
    /// First port, rounded up to what the test driver can use; each parallel worker takes 30
    #[arg(
        long,
        default_value_t = 28000,
        value_parser = clap::value_parser!(u16).range(10000..=32000)
    )]
    pub(crate) port_base: u16,
    /// Tests that run at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) parallel: u8,
    /// Minutes after which a test is ended
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=60))]
    pub(crate) test_minutes: u8,
    /// Also run the tests that the suites mark as big
    #[arg(long)]
    pub(crate) big: bool,
    /// Write the results to this file in the format of expected.tsv, with the known reasons
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

/// Selection of tests to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Whole suites.
    Suites(Vec<String>),
    /// Single tests.
    Tests(Vec<TestName>),
}

/// The short selection, as it was when this program was built.
const SUBSET: &str = include_str!("../subset.txt");

impl Args {
    pub(crate) fn selection(&self) -> Result<Selection, CompatError> {
        if self.subset {
            return Ok(Selection::Tests(subset()?));
        }
        if !self.test.is_empty() {
            return Ok(Selection::Tests(self.test.clone()));
        }
        let mut suites = self.suite.clone();
        if suites.is_empty() {
            suites = SUITES.map(str::to_owned).to_vec();
        }
        suites.dedup();
        Ok(Selection::Suites(suites))
    }
}

fn subset() -> Result<Vec<TestName>, CompatError> {
    SUBSET
        .lines()
        .map(str::trim)
        // Some tests have a '#' in their names.
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.parse().map_err(CompatError::Subset))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from([&["synod-compat"], words].concat())
    }

    #[test]
    fn declaration_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn without_a_selection_all_suites_run() {
        let selection = parse(&[]).unwrap().selection().unwrap();
        assert_eq!(
            selection,
            Selection::Suites(SUITES.map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn impossible_options_are_refused() {
        for words in [
            &["--suite", "rpl"][..],
            &["--test", "galera_defaults"],
            &["--test", "rpl.rpl_row"],
            &["--test", "galera.a b"],
            &["--test", "galera.x", "--suite", "wsrep"],
            &["--subset", "--suite", "wsrep"],
            &["--parallel", "0"],
            &["--port-base", "80"],
            &["--test-minutes", "-1"],
            &["galera"],
            &["--frobnicate"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn subset_has_tests_of_every_kind_and_none_twice() {
        let tests = subset().unwrap();
        let mut unique = tests.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), tests.len());
        assert!(tests.len() >= 60);
        for suite in ["galera", "galera_3nodes", "galera_sr"] {
            assert!(tests.iter().any(|test| test.suite == suite), "{suite}");
        }
        let named = |name| tests.iter().any(|test| test.name == name);
        assert!(named("mysql-wsrep-features#32"));
    }
}
