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

/// Examples for the help text.
const EXAMPLE: &str = "\
Example:

  mkdir pages
  synod manual pages
  man pages/synod-member-replace.1

Exit codes:
  0  done
  1  a page cannot be written
  2  wrong usage";

/// A page could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the manual pages into {}: {source}", directory.display())]
pub struct ManualError {
    directory: PathBuf,
    source: io::Error,
}

/// Writes a page for each of these commands.
///
/// # Errors
/// The directory is not there, or cannot be written to.
pub fn run(arguments: &ManualArgs, commands: Command) -> Result<u8, ManualError> {
    let directory = &arguments.directory;
    clap_mangen::generate_to(commands, directory).map_err(|source| ManualError {
        directory: directory.clone(),
        source,
    })?;
    Ok(0)
}
