//! `synod relay`: runs a member that serves the group's log as a binlog, or keeps that of another
//! server, until a signal ends it; and commands for one that runs.

use std::path::PathBuf;

use clap::Args;
use synod_relay::{RelayConfig, StartMode};

use crate::operate::{self, UpstreamCommand};

/// Arguments of `synod relay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE, args_conflicts_with_subcommands = true)]
pub struct RelayArgs {
    #[command(subcommand)]
    command: Option<UpstreamCommand>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only check the file
    #[arg(long)]
    check: bool,
    /// Begin a group with this relay, once; only for relays of an upstream
    #[arg(long, conflicts_with = "check")]
    bootstrap: bool,
}

const EXAMPLE: &str = "\
A relay is a member without a database. Replicas of MariaDB and mariadb-binlog read the group's
transactions from it, by GTID. A file that works:

  cluster_name = \"payments\"
  name = \"relay1\"
  address = \"relay1.example.com\"
  peers = [\"db1.example.com\", \"db2.example.com\"]
  synod.log_dir = \"/var/lib/synod-relay\"
  synod.secret_file = \"/etc/synod/group.secret\"
  relay.listen = \"0.0.0.0:3310\"
  relay.accounts.repl = \"*...\"    # SELECT PASSWORD('...')

  synod relay --config /etc/synod/relay.toml

With relay.upstream it keeps the binlog of a server outside the group, in a group of relays. The
first one begins it:

  synod relay --config /etc/synod/relay.toml --bootstrap

SIGTERM has it leave the group and end. It writes lines to standard error. See the manual,
docs/operating/relay.md.

Exit codes:
  0  left in an orderly shutdown; with --check: the file is right
  1  failed, and may succeed later: start it again
  2  wrong usage
  3  failed, and an operator has to act first; see the message";

/// Exit code of a command line without what it needs.
const WRONG_USAGE: u8 = 2;
/// Exit code of what an operator has to correct.
const WRONG_FILE: u8 = 3;

/// An error is the exit code, and the cause in words.
pub fn run(arguments: &RelayArgs) -> Result<u8, (u8, String)> {
    if let Some(command) = &arguments.command {
        return operate::upstream(command).map_err(|error| (error.exit_code(), error.to_string()));
    }
    let Some(file) = &arguments.config else {
        let text = "which relay? Name its file with --config, or give one of the commands that \
                    'synod relay --help' lists";
        return Err((WRONG_USAGE, text.to_owned()));
    };
    let config = RelayConfig::read(file).map_err(|error| (WRONG_FILE, error.to_string()))?;
    if arguments.check {
        let placed = config.member.check_place(file);
        placed.map_err(|error| (WRONG_FILE, error.to_string()))?;
        if let Some(encryption) = &config.encryption {
            let wrong = |error: synod_tls::TlsError| (WRONG_FILE, error.to_string());
            encryption.load().map_err(wrong)?;
        }
        let name = &config.member.name;
        println!("{} is right: relay '{name}'", file.display());
    } else {
        let mode = mode(arguments, &config)?;
        synod_relay::run(&config, mode).map_err(|error| (error.exit_code(), error.to_string()))?;
    }
    Ok(0)
}

/// Only a group of relays can begin without a server.
fn mode(arguments: &RelayArgs, config: &RelayConfig) -> Result<StartMode, (u8, String)> {
    if !arguments.bootstrap {
        return Ok(StartMode::Join);
    }
    if config.upstream.is_none() {
        let text = "--bootstrap begins a group of relays, and this file names no relay.upstream: \
                    a relay of a group of servers joins it. Leave --bootstrap out";
        return Err((WRONG_FILE, text.to_owned()));
    }
    Ok(StartMode::Bootstrap)
}
