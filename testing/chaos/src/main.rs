//! Faults for a group of real processes, judged by an oracle.
//!
//! `synod-chaos run` starts members and clients. It kills, stops, restarts and wipes members at
//! random, then ends all faults, and compares the answers to clients with the databases of the
//! members. `docs/testing.md` says how to use it.
//!
//! ```text
//! cargo run -p synod-chaos -- run --seconds 20            # a new seed, printed first
//! cargo run -p synod-chaos -- run --seed 7 --seconds 20   # the same faults and clients again
//! ```
//!
//! | module | runs in | is |
//! |---|---|---|
//! | [`member`] | each member's process | a node, and a host with a simple database |
//! | [`run`] | the parent | clients, faults, progress, the verdict |
//! | [`protocol`] | both | commands of clients and replies of members |
//! | [`database`] | both | the file in which a member keeps what was applied |
//! | [`oracle`] | the parent | the rules that answers and databases are judged by |
#![forbid(unsafe_code)]

mod database;
mod member;
mod oracle;
mod parent;
mod protocol;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Kills and stops real processes of a group, and judges what the group did")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Starts a group, injects faults, and judges the group.
    Run(run::Options),
    /// One member; `run` starts these.
    #[command(hide = true)]
    Member(member::Options),
}

fn main() -> ExitCode {
    match Arguments::parse().what {
        What::Run(options) => run::main(&options),
        What::Member(options) => member::main(options),
    }
}
