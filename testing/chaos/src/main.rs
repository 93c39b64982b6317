//! Torments a group of real processes: `synod-chaos run` starts members, lets clients work, kills, stops,
//! restarts and wipes members at random, and holds what clients were told against what the members'
//! databases contain in the end. `docs/testing.md` says how to use it.
//!
//! | module | runs in | is |
//! |---|---|---|
//! | [`member`] | each member's process | a node, and a host that stores actions instead of a database |
//! | [`run`] | the parent | clients, troubles, the watch over progress, the verdict |
//! | [`protocol`] | both | what clients and members say to each other |
//! | [`database`] | both | the file in which a member keeps what was applied |
#![forbid(unsafe_code)]

mod database;
mod member;
mod parent;
mod protocol;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Torments a group of real processes and judges what it did")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Starts a group, torments it, and judges it.
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
