//! `synod keygen`: makes a group secret.
//!
//! The secret goes to standard output, one line, so that it can be written to a new file or
//! appended to one. A file that standard output leads to is closed to other users: servers refuse
//! a secret that every user may read.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use clap::Args;
use synod_tls::{GroupSecret, SECRET_BYTES};
use thiserror::Error;

/// Arguments of `synod keygen`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct KeygenArgs {}

const EXAMPLE: &str = "\
A group secret lets members in: any process that has it can join the group. All members have the
same file.

  synod keygen > /etc/mysql/synod.secret
  chown mysql: /etc/mysql/synod.secret

Copy the file to the other members (mode 600), and add to wsrep_provider_options on all:

  synod.secret_file=/etc/mysql/synod.secret

To replace the secret later without a stop: append a new one ('synod keygen >>'), see the manual,
docs/operating/tls.md.

Exit codes:
  0  done
  1  no random bytes, or the secret cannot be written
  2  wrong usage";

const NOT_OWNER: u32 = 0o077;

#[derive(Debug, Error)]
pub enum KeygenError {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
    #[error("cannot write the secret to standard output: {0}")]
    Output(#[from] io::Error),
}

pub fn run(_arguments: &KeygenArgs) -> Result<u8, KeygenError> {
    let line = new_secret().map_err(KeygenError::Random)?.to_line() + "\n";
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // Before the secret is in it.
    let closed = close_to_others(&output)?;
    (&output).write_all(line.as_bytes())?;
    if closed {
        eprintln!(
            "synod: the file can be read by its owner only now (mode 600). Give it to the user \
             that the server runs as: chown mysql: FILE"
        );
    }
    Ok(0)
}

pub fn new_secret() -> Result<GroupSecret, getrandom::Error> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(GroupSecret::from_random(bytes))
}

/// Takes a file's permissions from other users; whether it had any. What is no file, a terminal or
/// a pipe, is left alone.
fn close_to_others(output: &File) -> io::Result<bool> {
    let data = output.metadata()?;
    if !data.is_file() || data.permissions().mode() & NOT_OWNER == 0 {
        return Ok(false);
    }
    output.set_permissions(PermissionsExt::from_mode(0o600))?;
    Ok(true)
}
