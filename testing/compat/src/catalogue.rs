//! The suites and their tests, as the package has them.
//!
//! Only suites that take their provider from the environment are of use here.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::args::Selection;
use crate::error::CompatError;

/// The suites that take their provider from the environment.
pub(crate) const SUITES: [&str; 5] = [
    "wsrep",
    "galera",
    "galera_3nodes",
    "galera_sr",
    "galera_3nodes_sr",
];

/// Directories of the test driver in Debian's `mariadb-test`: in Debian 12, and from 13 on.
const PACKAGE_DIRS: [&str; 2] = [
    "/usr/share/mysql/mysql-test",
    "/usr/share/mariadb/mariadb-test",
];

/// `SUITE.NAME`
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TestName {
    pub(crate) suite: String,
    pub(crate) name: String,
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.suite, self.name)
    }
}

impl FromStr for TestName {
    type Err = String;

    fn from_str(text: &str) -> Result<TestName, String> {
        let (suite, name) = text
            .split_once('.')
            .ok_or_else(|| format!("'{text}' is not of the form SUITE.NAME"))?;
        if !SUITES.contains(&suite) {
            return Err(format!(
                "'{suite}' is none of the suites {}",
                SUITES.join(", ")
            ));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-#.+".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(format!("'{name}' is not the name of a test"));
        }
        Ok(TestName {
            suite: suite.to_owned(),
            name: name.to_owned(),
        })
    }
}

pub(crate) struct Catalogue {
    dir: PathBuf,
}

impl Catalogue {
    pub(crate) fn of_package() -> Result<Catalogue, CompatError> {
        let dir = package_dir();
        if !driver_of(&dir).is_file() {
            return Err(CompatError::NoPackage { dir });
        }
        Ok(Catalogue { dir })
    }

    /// The selected tests, sorted.
    ///
    /// # Errors
    /// If a test is named that the package does not have, or a suite cannot be read.
    pub(crate) fn tests(&self, selection: &Selection) -> Result<Vec<TestName>, CompatError> {
        match selection {
            Selection::Suites(suites) => {
                let mut tests = Vec::new();
                for suite in suites {
                    tests.extend(self.suite(suite)?);
                }
                Ok(tests)
            }
            Selection::Tests(wanted) => {
                for test in wanted {
                    if !self
                        .suite_dir(&test.suite)
                        .join(format!("{}.test", test.name))
                        .is_file()
                    {
                        return Err(CompatError::NoSuchTest { test: test.clone() });
                    }
                }
                Ok(wanted.clone())
            }
        }
    }

    fn suite(&self, suite: &str) -> Result<Vec<TestName>, CompatError> {
        let dir = self.suite_dir(suite);
        let unreadable = |source| CompatError::File {
            what: "read",
            path: dir.clone(),
            source,
        };
        let mut tests = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.file_name();
            if let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".test")) {
                tests.push(TestName {
                    suite: suite.to_owned(),
                    name: name.to_owned(),
                });
            }
        }
        tests.sort();
        Ok(tests)
    }

    fn suite_dir(&self, suite: &str) -> PathBuf {
        self.dir.join("suite").join(suite).join("t")
    }
}

/// Directory the test driver must be started in.
pub(crate) fn package_dir() -> PathBuf {
    let [older, newer] = PACKAGE_DIRS.map(PathBuf::from);
    if driver_of(&newer).is_file() {
        newer
    } else {
        older
    }
}

pub(crate) fn driver_of(dir: &std::path::Path) -> PathBuf {
    dir.join("mariadb-test-run.pl")
}
