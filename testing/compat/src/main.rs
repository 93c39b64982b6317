//! `synod-compat`: MariaDB's own test suites for Galera, run against `libsynod.so`.
//!
//! The suites come from Debian's package `mariadb-test` and stay there. This program selects tests,
//! runs the package's test driver as an unprivileged user, reads its output, and compares the
//! result of each run with `testing/compat/expected.tsv`. It runs from the root of the repository:
//!
//! ```text
//! cargo run -p synod-compat --release -- --subset                 # the short selection
//! cargo run -p synod-compat --release -- --test galera.galera_ssl # one test
//! ```
//!
//! ```text
//! args ─► catalogue (what the package has) ─► driver ─► output ─► outcome ─┐
//!                                        expected.tsv ─► expectations ─────┴─► comparison ─► table
//! ```
#![forbid(unsafe_code)]

mod args;
mod catalogue;
mod comparison;
mod driver;
mod error;
mod expectations;
mod outcome;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Selection};
use catalogue::Catalogue;
use comparison::Comparison;
use error::CompatError;
use expectations::Expectations;

/// Exit code when a run differs from what is expected.
const DIFFERENT: u8 = 1;
/// Exit code when the tests could not run.
const NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(error) => {
            eprintln!("synod-compat: {error}");
            ExitCode::from(NOT_RUN)
        }
    }
}

/// Runs the tests; returns whether every result is as expected.
fn run(args: &Args) -> Result<bool, CompatError> {
    let catalogue = Catalogue::of_package()?;
    let selection = args.selection()?;
    if args.list {
        for test in catalogue.tests(&selection)? {
            println!("{test}");
        }
        return Ok(true);
    }
    let expectations = Expectations::read(&args.expected)?;
    let tests = match &selection {
        Selection::Suites(_) => None,
        Selection::Tests(_) => Some(catalogue.tests(&selection)?),
    };
    let outcome = driver::run(args, &selection, tests.as_deref())?;
    if let Some(file) = &args.record {
        expectations::record(file, &outcome, &expectations)?;
    }
    let comparison = Comparison::of(&outcome, &expectations, &selection);
    print!("{}", table::render(&outcome, &comparison));
    Ok(comparison.is_as_expected())
}
