//! `synod-compat`: MariaDB's own test suites for Galera, run against `libsynod.so`.
//!
//! The suites come from Debian's package `mariadb-test` and stay there: this program selects tests,
//! runs the package's test driver as an unprivileged user, reads its output, and compares the result of
//! each run with `testing/compat/expected.tsv`.
//!
//! ```text
//!   args ─► catalogue (what the package has) ─► driver ─► output ─► outcome ─┐
//!                                   expected.tsv, skips ─► expectations ─────┴─► comparison ─► table
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
/// Exit code when nothing can be said.
const TROUBLE: u8 = 2;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(error) => {
            eprintln!("synod-compat: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// Whether everything is as expected.
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
