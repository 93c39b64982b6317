//! The `synod` program: only the command line.
//!
//! The work is in the library, so that tests can call it. Errors are printed here, with the exit
//! code that the failed command states.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use synod_cli::{demo, keygen, log_tool, sst_config};

/// Group replication for MariaDB by consensus: demo cluster and tools
#[derive(Debug, Parser)]
#[command(name = "synod", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A cluster on this machine to try things with
    Demo(demo::DemoArgs),
    /// Make a group secret
    Keygen(keygen::KeygenArgs),
    /// Measure groups of real servers on emulated networks
    Lab(Box<synod_lab::command::LabArgs>),
    /// Read a durable log offline
    Log(log_tool::LogArgs),
    /// Make what encrypted full copies (SST) need, from the group secret
    SstConfig(sst_config::SstConfigArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(arguments) => {
            demo::run(&arguments).map_err(|e| (e.exit_code(), e.to_string()))
        }
        Command::Keygen(arguments) => keygen::run(&arguments).map_err(|e| (1, e.to_string())),
        Command::Lab(arguments) => {
            synod_lab::command::run(&arguments).map_err(|e| (e.exit_code(), e.to_string()))
        }
        Command::Log(arguments) => {
            log_tool::run(&arguments).map_err(|e| (e.exit_code(), e.to_string()))
        }
        Command::SstConfig(arguments) => {
            sst_config::run(&arguments).map_err(|e| (1, e.to_string()))
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("synod: {message}");
            ExitCode::from(code)
        }
    }
}
