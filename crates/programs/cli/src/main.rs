//! The `synod` program: only the command line. The work is in the library, so that tests can call
//! it. Errors are printed here, with the exit code that the failed command states.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use synod_cli::operate::{self, OperateError};
use synod_cli::{
    agent, completion, copy, demo, doctor, keygen, log_tool, logger, manual, relay, sst_config,
};

/// Group replication for MariaDB by consensus: demo cluster and tools
#[derive(Debug, Parser)]
#[command(name = "synod", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve health checks and metrics of a server over HTTP
    Agent(agent::AgentArgs),
    /// Print a script that completes commands in a shell
    Completion(completion::CompletionArgs),
    /// Show which tables' transactions lose to other servers
    Conflicts(operate::ConflictsArgs),
    /// Show or change whether a stopped server's data are used, or replaced by a full copy
    Copy(copy::CopyArgs),
    /// A cluster on this machine to try things with
    Demo(demo::DemoArgs),
    /// Find what stands between a server and a group, before and after
    Doctor(doctor::DoctorArgs),
    /// Make a group secret
    Keygen(keygen::KeygenArgs),
    /// Show or change who leads
    Leader(operate::LeaderArgs),
    /// Read a durable log offline
    Log(log_tool::LogArgs),
    /// Run a voter with a log and no database
    Logger(logger::LoggerArgs),
    /// Write manual pages of all commands
    Manual(manual::ManualArgs),
    /// Serve the group's log as a binlog, to replicas and tools
    Relay(relay::RelayArgs),
    /// Make what encrypted full copies (SST) need, from the group secret
    SstConfig(sst_config::SstConfigArgs),
    /// Show or change who is in the group, and who votes
    Member(operate::MemberArgs),
    /// Show or change which protocol version the group speaks
    Protocol(operate::ProtocolArgs),
    /// A majority is lost for good: show what is left, and continue with it
    Recover(operate::RecoverArgs),
    /// Show the group and a server
    Status(operate::StatusArgs),
    /// Show the group and a server, live
    Watch(operate::WatchArgs),
    /// Change how much a server should lead
    Weight(operate::WeightArgs),
    /// Show what has happened lately: elections, refusals, slow writes, servers that left
    Why(operate::WhyArgs),
}

fn main() -> ExitCode {
    let operated = |result: Result<u8, OperateError>| {
        result.map_err(|error| (error.exit_code(), error.to_string()))
    };
    let result = match Cli::parse().command {
        Command::Agent(arguments) => {
            agent::run(&arguments).map_err(|e| (e.exit_code(), e.to_string()))
        }
        Command::Completion(arguments) => {
            completion::run(&arguments, Cli::command()).map_err(|e| (1, e.to_string()))
        }
        Command::Conflicts(arguments) => operated(operate::conflicts(&arguments)),
        Command::Leader(arguments) => operated(operate::leader(&arguments)),
        Command::Member(arguments) => operated(operate::member(&arguments)),
        Command::Protocol(arguments) => operated(operate::protocol(&arguments)),
        Command::Recover(arguments) => operated(operate::recover(&arguments)),
        Command::Status(arguments) => operated(operate::status(&arguments)),
        Command::Watch(arguments) => operated(operate::watch(&arguments)),
        Command::Weight(arguments) => operated(operate::weight(&arguments)),
        Command::Why(arguments) => operated(operate::why(&arguments)),
        Command::Copy(arguments) => copy::run(&arguments).map_err(|e| (1, e.to_string())),
        Command::Demo(arguments) => {
            demo::run(&arguments).map_err(|e| (e.exit_code(), e.to_string()))
        }
        Command::Doctor(arguments) => doctor::run(&arguments).map_err(|e| (1, e.to_string())),
        Command::Keygen(arguments) => keygen::run(&arguments).map_err(|e| (1, e.to_string())),
        Command::Log(arguments) => {
            log_tool::run(&arguments).map_err(|e| (e.exit_code(), e.to_string()))
        }
        Command::Logger(arguments) => {
            logger::run(&arguments).map_err(|e| (e.exit_code(), e.to_string()))
        }
        Command::Manual(arguments) => {
            manual::run(&arguments, Cli::command()).map_err(|e| (1, e.to_string()))
        }
        Command::Relay(arguments) => relay::run(&arguments),
        Command::SstConfig(arguments) => {
            sst_config::run(&arguments).map_err(|e| (1, e.to_string()))
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            eprintln!("synod: {}", synod_cli::visible(&message));
            ExitCode::from(code)
        }
    }
}
