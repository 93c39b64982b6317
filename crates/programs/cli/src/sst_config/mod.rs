//! `synod sst-config`: what the server's scripts need for encrypted full copies (SST).
//!
//! Full copies are made by the server's own scripts, on connections of their own. Their key, their
//! certificate and the password of their account are derived from the group secret, so the command
//! gives the same on all members and nothing but the secret has to be copied.

mod certificate;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use clap::Args;
use synod_local_cluster::SstFiles;
use synod_tls::{GroupSecret, SecretFile, SecretFileError};
use thiserror::Error;

use certificate::SstCredentials;

/// Arguments of `synod sst-config`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct SstConfigArgs {
    /// File with the group secret; of several secrets, the first is used
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// Directory for the key and the certificate; it must exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

const HELP: &str = "\
Run it on every member, with the same secret, and put what it prints into that server's
configuration. The files get the owner of the secret file. After the secret was replaced, run it
again on all members.

  synod sst-config --secret-file /etc/mysql/synod.secret --dir /etc/mysql

Exit codes:
  0  done
  1  the secret cannot be read, or a file not be written
  2  wrong usage";

const ACCOUNT: &str = "synod_sst";
/// Purpose that the account's password is derived for.
const PASSWORD_PURPOSE: &str = "password of the account for full copies";
/// Bytes of the password, before they are written as hexadecimal digits.
const PASSWORD_BYTES: usize = 16;

#[derive(Debug, Error)]
pub enum SstConfigError {
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    #[error("cannot derive the key of full copies: {0}")]
    Key(String),
    /// A file cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The answer cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

pub fn run(arguments: &SstConfigArgs) -> Result<u8, SstConfigError> {
    let file = SecretFile {
        path: arguments.secret_file.clone(),
        setting: "--secret-file",
    };
    let secret = &file.read()?[0];
    let files = SstFiles::in_dir(arguments.dir.clone());
    write_files(secret, &file.path, &files)?;
    let text = configuration(secret, &files);
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// Writes the certificate and the key that follow from a secret, for the owner of `like` only.
pub fn write_files(
    secret: &GroupSecret,
    like: &Path,
    files: &SstFiles,
) -> Result<(), SstConfigError> {
    let derived = SstCredentials::derive(secret)?;
    write_for_owner_of(like, &files.certificate, &derived.certificate)?;
    write_for_owner_of(like, &files.key, &derived.key)
}

/// Writes a file that only the owner of `like` may read, over an older one.
fn write_for_owner_of(like: &Path, path: &Path, text: &str) -> Result<(), SstConfigError> {
    let write = || -> io::Result<()> {
        let owner = fs::metadata(like)?;
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        if file.metadata()?.uid() != owner.uid() {
            fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        }
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, path)
    };
    write().map_err(|source| SstConfigError::Write {
        path: path.to_owned(),
        source,
    })
}

fn configuration(secret: &GroupSecret, files: &SstFiles) -> String {
    let section = files.section();
    let password: String = secret.derive(PASSWORD_PURPOSE)[..PASSWORD_BYTES]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(
        "# In the configuration of every member. The file then holds a password: close it to other
# users (chmod 640, owner root:mysql).
[mariadbd]
wsrep_sst_method = mariabackup
wsrep_sst_auth = {ACCOUNT}:{password}

{section}
# Once, on any member:
#   CREATE OR REPLACE USER '{ACCOUNT}'@'localhost' IDENTIFIED BY '{password}';
#   GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR, REPLICA MONITOR ON *.*
#     TO '{ACCOUNT}'@'localhost';
"
    )
}
