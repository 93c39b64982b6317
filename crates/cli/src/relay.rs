//! `synod relay`: runs a member that serves the group's log as a binlog, until a signal ends it.

use std::path::PathBuf;

use clap::Args;
use synod_relay::RelayConfig;

/// Arguments of `synod relay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct RelayArgs {
    /// Configuration file (TOML)
    #[arg(long)]
    config: PathBuf,
    /// Only check the file
    #[arg(long)]
    check: bool,
}

/// A file that works, for the help text.
const EXAMPLE: &str = "\
A relay is a member without a database. Replicas of MariaDB and mariadb-binlog read the group's
transactions from it, by GTID. A file that works:

  cluster_name = \"my_cluster\"
  name = \"relay1\"
  address = \"relay1.example.com\"
  peers = [\"db1.example.com\", \"db2.example.com\"]
  synod.log_dir = \"/var/lib/synod-relay\"
  synod.secret_file = \"/etc/synod/group.secret\"
  relay.listen = \"0.0.0.0:3310\"
  relay.accounts.repl = \"*...\"    # SELECT PASSWORD('...')

  synod relay --config /etc/synod/relay.toml

SIGTERM has it leave the group and end. It writes lines to standard error. See the manual,
docs/operating/relay.md.

Exit codes:
  0  left in an orderly shutdown; with --check: the file is right
  1  failed, and may succeed later: start it again
  2  wrong usage
  3  failed, and an operator has to act first; see the message";

/// Exit code of what an operator has to correct.
const WRONG_FILE: u8 = 3;

/// Runs the relay; gives the exit code.
///
/// # Errors
/// It does not start, or has failed: the exit code, and why.
pub fn run(arguments: &RelayArgs) -> Result<u8, (u8, String)> {
    let file = &arguments.config;
    let config = RelayConfig::read(file).map_err(|error| (WRONG_FILE, error.to_string()))?;
    if arguments.check {
        if let Some(encryption) = &config.encryption {
            let wrong = |error: synod_tls::TlsError| (WRONG_FILE, error.to_string());
            encryption.load().map_err(wrong)?;
        }
        let name = &config.member.name;
        println!("{} is right: relay '{name}'", file.display());
    } else {
        synod_relay::run(&config).map_err(|error| (error.exit_code(), error.to_string()))?;
    }
    Ok(0)
}
