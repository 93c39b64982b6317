//! `synod logger`: runs a voter with a log and no database, until a signal ends it.

use std::path::PathBuf;

use clap::Args;
use synod_logger::{LoggerConfig, LoggerError};

/// Arguments of `synod logger`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct LoggerArgs {
    /// Configuration file (TOML)
    #[arg(long)]
    config: PathBuf,
    /// Only check the file
    #[arg(long)]
    check: bool,
}

const EXAMPLE: &str = "\
Two servers and a logger survive the loss of any one of them. The group must exist: a logger joins
it, and never begins one. A file that works:

  cluster_name = \"payments\"
  name = \"witness\"
  address = \"witness.example.com\"
  peers = [\"db1.example.com\", \"db2.example.com\"]
  synod.log_dir = \"/var/lib/synod-logger\"
  synod.secret_file = \"/etc/synod/group.secret\"

  synod logger --config /etc/synod/logger.toml

SIGTERM has it leave the group and end, SIGHUP has it read its credentials again. It writes lines to
standard error. See the manual, docs/operating/membership.md.

Exit codes:
  0  left in an orderly shutdown; with --check: the file is right
  1  failed, and may succeed later: start it again
  2  wrong usage
  3  failed, and an operator has to act first; see the message";

pub fn run(arguments: &LoggerArgs) -> Result<u8, LoggerError> {
    if arguments.check {
        let config = LoggerConfig::read(&arguments.config)?;
        config.check_place(&arguments.config)?;
        println!(
            "{} is right: logger '{}'",
            arguments.config.display(),
            config.name
        );
    } else {
        synod_logger::run(&arguments.config)?;
    }
    Ok(0)
}
