//! `synod manual`: the manual pages of `synod` and of its commands.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};

/// Arguments of `synod manual`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ManualArgs {
    /// An existing directory; pages of the same names are replaced
    directory: PathBuf,
}

const EXAMPLE: &str = "\
Example:

  mkdir pages
  synod manual pages
  man pages/synod-member-replace.1

Exit codes:
  0  done
  1  a page cannot be written
  2  wrong usage";

#[derive(Debug, thiserror::Error)]
#[error("cannot write the manual pages into {}: {source}", directory.display())]
pub struct ManualError {
    directory: PathBuf,
    source: io::Error,
}

pub fn run(arguments: &ManualArgs, commands: Command) -> Result<u8, ManualError> {
    let directory = &arguments.directory;
    clap_mangen::generate_to(commands, directory).map_err(|source| ManualError {
        directory: directory.clone(),
        source,
    })?;
    Ok(0)
}
