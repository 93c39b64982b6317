//! The `synod-lab` program: only the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use synod_lab::command::{self, LabArgs};

/// Measure groups of real servers on emulated networks, beside other systems
#[derive(Debug, Parser)]
#[command(name = "synod-lab", version)]
struct Cli {
    #[command(flatten)]
    arguments: LabArgs,
}

fn main() -> ExitCode {
    match command::run(&Cli::parse().arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("synod-lab: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
