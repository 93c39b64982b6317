//! `synod log …`: reads a durable log offline, as a member reads it at its start.
//!
//! Nothing is changed, so the commands may run beside the member that writes the log.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use synod_admin::visible;
use synod_log::{LogError, offline};
use thiserror::Error;

/// Arguments of `synod log`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

const EXIT_CODES: &str = "\
DIR is the directory with the files synod-*.log: a node's data directory, unless synod.log_dir
names another one. It may be in use; then the newest records may appear half-written.

Exit codes:
  0  done; with 'verify': a member can start with this log
  1  damaged, or unreadable; see the message
  2  wrong usage
  3  there is no log";

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Print all records, oldest first
    Dump {
        /// Directory of the log
        dir: PathBuf,
        /// One JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Check all records and what links them
    Verify {
        /// Directory of the log
        dir: PathBuf,
    },
}

#[derive(Debug, Error)]
pub enum LogToolError {
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no log in the directory.
    #[error("there is no log in {dir}: no files synod-*.log", dir = dir.display())]
    NoLog {
        /// The directory.
        dir: PathBuf,
    },
    /// The answer cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl LogToolError {
    pub fn exit_code(&self) -> u8 {
        match self {
            LogToolError::Log(_) | LogToolError::Output(_) => 1,
            LogToolError::NoLog { .. } => 3,
        }
    }
}

pub fn run(arguments: &LogArgs) -> Result<u8, LogToolError> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let code = match &arguments.command {
        LogCommand::Dump { dir, json } => dump(dir, *json, &mut out),
        LogCommand::Verify { dir } => verify(dir, &mut out),
    };
    let flushed = out.flush();
    match (code, flushed) {
        // The reader has closed the pipe ('synod log dump … | head').
        (_, Err(e)) if e.kind() == ErrorKind::BrokenPipe => Ok(0),
        (code, flushed) => {
            flushed?;
            code
        }
    }
}

fn dump(dir: &Path, json: bool, out: &mut dyn Write) -> Result<u8, LogToolError> {
    check_exists(dir)?;
    match offline::dump(dir, out, json) {
        Ok(()) => Ok(0),
        Err(error) if is_broken_pipe(&error) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn verify(dir: &Path, out: &mut dyn Write) -> Result<u8, LogToolError> {
    check_exists(dir)?;
    let report = offline::verify(dir)?;
    write!(out, "{}", visible(&report.to_string()))?;
    Ok(u8::from(!report.is_sound()))
}

/// A directory without log files is probably the wrong directory, so it does not pass as a sound
/// log.
fn check_exists(dir: &Path) -> Result<(), LogToolError> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Err(LogToolError::NoLog {
            dir: dir.to_owned(),
        });
    };
    let ours = |name: &str| name.starts_with("synod-") && name.ends_with(".log");
    let found = entries
        .flatten()
        .any(|entry| ours(&entry.file_name().to_string_lossy()));
    if found {
        Ok(())
    } else {
        Err(LogToolError::NoLog {
            dir: dir.to_owned(),
        })
    }
}

fn is_broken_pipe(error: &LogError) -> bool {
    matches!(error, LogError::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_without_log_files_is_no_log() {
        let dir = std::env::temp_dir().join(format!("synod-no-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("ib_logfile0"), "").unwrap();
        for dir in [dir.as_path(), Path::new("/nowhere")] {
            let error = verify(dir, &mut Vec::new()).unwrap_err();
            assert_eq!(error.exit_code(), 3, "{error}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
