//! `synod-isolation`: which anomalies clients of real servers see, under faults.
//!
//! Exit code 1: the promise was broken, or the run did not work.

use std::process::ExitCode;

use clap::Parser;
use synod_e2e::{Failure, Outcome};
use synod_isolation::run::{Options, run};

#[derive(Parser)]
#[command(about = "Runs clients and faults against real servers, and checks isolation")]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let whole = || -> Outcome {
        let report = run(&Arguments::parse().options)?;
        print!("{report}");
        if report.is_good() {
            Ok(())
        } else {
            Err(Failure("the promise was broken".into()))
        }
    };
    synod_e2e::exit_code(whole())
}
