//! Errors of the lab. Every message names the cause and the remedy, as a command to type.

use std::path::PathBuf;

use synod_local_cluster::ClusterError;
use thiserror::Error;

use crate::meters::MeterError;

#[derive(Debug, Error)]
pub enum LabError {
    #[error(
        "the lab makes network namespaces and devices, which only root may: run it as root, or \
         with 'sudo'"
    )]
    NotRoot,
    #[error(
        "there is no /dev/net/tun, which the emulated network is made of: 'modprobe tun' loads \
         it; a container needs '--device /dev/net/tun --cap-add NET_ADMIN --cap-add SYS_ADMIN'"
    )]
    NoTun,
    #[error(
        "another lab named '{name}' is running (it holds {lock}); wait until it has ended, or \
         choose another --name",
        lock = lock.display()
    )]
    NameTaken { name: String, lock: PathBuf },
    #[error("{name} {value}: {reason}")]
    BadArgument {
        name: &'static str,
        value: String,
        reason: String,
    },
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("'{command}' failed ({status}): {said}")]
    Failed {
        command: String,
        status: String,
        said: String,
    },
    #[error("the router, which emulates the network, ended while starting: {said}")]
    RouterEnded { said: String },
    #[error("the router refuses: {0}")]
    Refused(String),
    #[error("{what}: not within {seconds} s ({now})")]
    Timeout {
        what: String,
        seconds: u64,
        now: String,
    },
    #[error("cannot understand what {program} printed: no {missing} in:\n{text}")]
    NotUnderstood {
        program: &'static str,
        missing: &'static str,
        text: String,
    },
    #[error("the disk of {disk}: {said}", disk = disk.display())]
    Disk { disk: PathBuf, said: String },
    #[error("{host}: {said}")]
    Host {
        /// A host of `--hosts`.
        host: String,
        said: String,
    },
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Meter(#[from] MeterError),
}

pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::BadArgument { .. } => 2,
            LabError::NameTaken { .. } => 4,
            LabError::NotRoot | LabError::NoTun | LabError::Host { .. } => 5,
            LabError::RouterEnded { .. } | LabError::Timeout { .. } => 6,
            LabError::Io { .. }
            | LabError::Disk { .. }
            | LabError::Failed { .. }
            | LabError::Refused(_)
            | LabError::NotUnderstood { .. } => 1,
            LabError::Cluster(error) => error.exit_code(),
            LabError::Meter(error) => error.exit_code(),
        }
    }
}

/// Turns an I/O result into one of the lab, with the verb and the path that a reader needs.
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| LabError::Io {
            action,
            path: path.into(),
            source,
        })
    }
}
