//! Errors of clusters on this machine.
//!
//! Every text names the thing and the remedy, as a command that the reader can type. The exit codes
//! of the program `synod` are decided here, so that its help and its behaviour agree.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum ClusterError {
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "the program '{program}' is not installed; install it with \
         'apt-get install {package}', or run scripts/install-packages"
    )]
    ProgramMissing {
        program: &'static str,
        package: &'static str,
    },
    #[error(
        "there is no cluster in {dir}; create it with 'synod demo up' (or name another --dir)",
        dir = dir.display()
    )]
    NoCluster { dir: PathBuf },
    #[error(
        "{dir} holds other files and no cluster; name an empty or new directory with --dir",
        dir = dir.display()
    )]
    ForeignDirectory { dir: PathBuf },
    #[error(
        "{path} is not used: {reason}, and what stands there is run. Remove it, or name a \
         directory of your own with --dir",
        path = path.display()
    )]
    NotOwn { path: PathBuf, reason: String },
    #[error(
        "{path} is damaged ({reason}); if the data may be lost, remove the directory and run \
         'synod demo up'",
        path = path.display()
    )]
    BadSettings { path: PathBuf, reason: String },
    #[error(
        "the cluster in {dir} was created with {name} {stored}, not {asked}; leave the option out, \
         use another --dir, or remove the cluster with 'synod demo destroy'",
        dir = dir.display()
    )]
    SettingsDiffer {
        dir: PathBuf,
        name: &'static str,
        stored: String,
        asked: String,
    },
    #[error("{name} {value} is not possible: {reason}")]
    SettingOutOfRange {
        name: &'static str,
        value: String,
        reason: &'static str,
    },
    #[error(
        "another synod command is working on {dir}; wait until it has finished",
        dir = dir.display()
    )]
    Locked { dir: PathBuf },
    #[error("there is no node {node}: the cluster has nodes 1 to {nodes}")]
    NoSuchNode { node: u8, nodes: u8 },
    #[error("node {node} is not running; start it with 'synod demo start {node}'")]
    NotRunning { node: u8 },
    #[error(
        "node {node} is running (pid {pid}); end it first with 'synod demo stop {node}' or \
         'synod demo kill {node}'"
    )]
    Running { node: u8, pid: i32 },
    #[error(
        "port {port} on 127.0.0.1 is in use, and node {node} needs it for {purpose}; end the \
         program that listens there ('ss -ltnp sport = :{port}' shows it), or create the cluster \
         elsewhere with another --base-port and --dir"
    )]
    PortInUse {
        port: u16,
        purpose: &'static str,
        node: u8,
    },
    #[error(
        "there is no provider library at {path}; build it with 'make build', or name one with \
         --provider",
        path = path.display()
    )]
    ProviderMissing { path: PathBuf },
    #[error(
        "the servers run as user '{user}', who cannot reach {dir}; name a directory below one that \
         all users may enter (for instance --dir /var/tmp/synod-demo), or allow it: \
         'chmod o+x' on {blocking}",
        dir = dir.display(),
        blocking = blocking.display()
    )]
    Unreachable {
        dir: PathBuf,
        user: String,
        /// The outermost directory that user may not enter.
        blocking: PathBuf,
    },
    #[error("started by root, but there is no user 'mysql' or 'nobody' to run servers as")]
    NoUnprivilegedUser,
    #[error(
        "the socket {path} would have a path of {length} bytes, and the system allows {max}; \
         choose a directory with a shorter path by --dir",
        path = path.display()
    )]
    PathTooLong {
        path: PathBuf,
        length: usize,
        max: usize,
    },
    #[error("node {node}: creating an empty database failed:\n{output}")]
    InstallFailed { node: u8, output: String },
    #[error(
        "node {node}: mariadbd --wsrep-recover printed no position ({status}); its log {log} \
         ends:\n\
         {tail}",
        log = log.display()
    )]
    RecoverFailed {
        node: u8,
        status: String,
        log: PathBuf,
        tail: Lines,
    },
    #[error(
        "node {node}: the server ended while starting ({status}); its log {log} says:\n{tail}",
        log = log.display()
    )]
    Exited {
        node: u8,
        status: String,
        log: PathBuf,
        tail: Lines,
    },
    #[error(
        "node {node}: the server runs, and has left its group for good: {why}; its log {log} \
         says:\n{tail}",
        log = log.display()
    )]
    Left {
        node: u8,
        why: String,
        log: PathBuf,
        tail: Lines,
    },
    #[error(
        "node {node}: still not {waiting_for} after {} s (now: {now}); its log {log} says:\n{tail}",
        waited.as_secs(),
        log = log.display()
    )]
    Timeout {
        node: u8,
        waiting_for: &'static str,
        waited: Duration,
        now: String,
        log: PathBuf,
        tail: Lines,
    },
    #[error("node {node}: {message}")]
    Sql { node: u8, message: String },
}

impl ClusterError {
    /// The exit code of a command that ends with this error; see `synod demo --help`.
    pub fn exit_code(&self) -> u8 {
        match self {
            ClusterError::NoCluster { .. } | ClusterError::NoSuchNode { .. } => 3,
            ClusterError::NotRunning { .. }
            | ClusterError::Running { .. }
            | ClusterError::SettingsDiffer { .. }
            | ClusterError::SettingOutOfRange { .. }
            | ClusterError::ForeignDirectory { .. }
            | ClusterError::NotOwn { .. }
            | ClusterError::Locked { .. } => 4,
            ClusterError::ProgramMissing { .. }
            | ClusterError::PortInUse { .. }
            | ClusterError::ProviderMissing { .. }
            | ClusterError::Unreachable { .. }
            | ClusterError::NoUnprivilegedUser
            | ClusterError::PathTooLong { .. } => 5,
            ClusterError::InstallFailed { .. }
            | ClusterError::RecoverFailed { .. }
            | ClusterError::Exited { .. }
            | ClusterError::Left { .. }
            | ClusterError::Timeout { .. } => 6,
            ClusterError::Io { .. }
            | ClusterError::BadSettings { .. }
            | ClusterError::Sql { .. } => 1,
        }
    }
}

/// Lines of a log, shown indented, one below the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(pub Vec<String>);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "    (nothing)");
        }
        for (i, line) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}    {line}")?;
        }
        Ok(())
    }
}

pub type Result<T> = std::result::Result<T, ClusterError>;

/// Turns an I/O result into one of a cluster, with the verb and the path that a reader needs.
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| ClusterError::Io {
            action,
            path: path.into(),
            source,
        })
    }
}
