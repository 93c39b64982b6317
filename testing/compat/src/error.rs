//! Errors that keep the tests from running.
//!
//! A test that fails is no error: it is a result that the comparison judges.

use std::path::PathBuf;

use synod_local_cluster::ClusterError;

use crate::catalogue::TestName;

/// Error that kept the tests, or some of them, from running.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompatError {
    /// The suites are not installed.
    #[error(
        "there is no {dir}: install the package mariadb-test ('make compat' does it)",
        dir = dir.display()
    )]
    NoPackage {
        /// Directory that was expected.
        dir: PathBuf,
    },
    /// A test that the package does not have.
    #[error("the installed package has no test {test}; --list shows what it has")]
    NoSuchTest {
        /// The test that was asked for.
        test: TestName,
    },
    /// `testing/compat/subset.txt` is wrong.
    #[error("testing/compat/subset.txt: {0}")]
    Subset(String),
    /// The library was not built.
    #[error(
        "there is no provider library {path}: run 'make build', or name one with --provider",
        path = path.display()
    )]
    NoProvider {
        /// Path that was expected.
        path: PathBuf,
    },
    /// A directory that another program made.
    #[error(
        "{dir} exists and was not made by this program: name another --work-dir",
        dir = dir.display()
    )]
    ForeignDir { dir: PathBuf },
    /// A file or directory that cannot be used.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File {
        /// Operation attempted, as a verb.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The user who runs the servers.
    #[error(transparent)]
    User(#[from] ClusterError),
    /// A line of the file of expectations.
    #[error("{path}, line {line}: {why}", path = path.display())]
    Expectation {
        path: PathBuf,
        line: usize,
        /// Error in the line.
        why: String,
    },
    /// The driver ended before it had run everything.
    #[error(
        "the test driver ended early ({status}) after {runs} runs; its output is in {log}",
        log = log.display()
    )]
    DriverEnded {
        status: String,
        /// Number of runs that had ended.
        runs: usize,
        /// The file with its output.
        log: PathBuf,
    },
}
