//! The file with the secrets of the group.
//!
//! One secret a line; empty lines and lines that begin with `#` are skipped. The first secret is
//! the one that this member proves to have; a peer may have any of them. So secrets are replaced
//! without a stop (`docs/operating/tls.md`).

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::file_mode::mode_open_to_all;
use super::secret::{GroupSecret, SecretLineError};

/// More is no file of secrets.
const FILE_BYTES_MAX: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    pub path: PathBuf,
    /// Name, in texts, of the setting for the file.
    pub setting: &'static str,
}

/// Why a file of secrets cannot be used. The text is a line for the log.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    #[error(
        "cannot read the group secret in {path} ({setting}): {source}. The file must be readable \
         for the user that the server runs as. One member's file is made by 'synod keygen > \
         {path}', and copied to the others",
        path = file.path.display(), setting = file.setting
    )]
    Read {
        file: SecretFile,
        /// The operating system's error.
        source: io::Error,
    },
    /// Every user of the machine may read or change it.
    #[error(
        "the group secret in {path} ({setting}) is open to every user of this machine (mode \
         {mode:o}). Close it: chmod 600 {path}. If other users may have read it, replace it",
        path = file.path.display(), setting = file.setting
    )]
    Open { file: SecretFile, mode: u32 },
    /// A line is not a secret.
    #[error(
        "line {line} of {path} ({setting}) {reason}. Copy the file from a member that runs, or, \
         for a new group, make one by 'synod keygen > {path}'",
        path = file.path.display(), setting = file.setting
    )]
    Line {
        file: SecretFile,
        /// Number of the line, from 1.
        line: usize,
        reason: SecretLineError,
    },
    /// There is no secret in it.
    #[error(
        "there is no group secret in {path} ({setting}). Copy the file from a member that runs, \
         or, for a new group, make one by 'synod keygen > {path}'",
        path = file.path.display(), setting = file.setting
    )]
    Empty { file: SecretFile },
}

impl SecretFile {
    /// All secrets of the file, in its order; at least one.
    ///
    /// # Errors
    /// [`SecretFileError`], with the file, the line and the remedy.
    pub fn read(&self) -> Result<Vec<GroupSecret>, SecretFileError> {
        let text = self.text()?;
        let mut secrets = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let secret = GroupSecret::parse(line).map_err(|reason| SecretFileError::Line {
                file: self.clone(),
                line: at + 1,
                reason,
            })?;
            secrets.push(secret);
        }
        if secrets.is_empty() {
            let file = self.clone();
            return Err(SecretFileError::Empty { file });
        }
        Ok(secrets)
    }

    fn text(&self) -> Result<String, SecretFileError> {
        let failed = |source| SecretFileError::Read {
            file: self.clone(),
            source,
        };
        let file = File::open(&self.path).map_err(failed)?;
        let known = file.metadata().map_err(failed)?;
        if let Some(mode) = mode_open_to_all(&known) {
            let file = self.clone();
            return Err(SecretFileError::Open { file, mode });
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        // A line that is not text is no secret, and is named as such.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
