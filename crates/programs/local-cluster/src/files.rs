//! The files of a node: where they are, and how they are made with the right owner.
//!
//! Servers run as another user when root starts them, so whatever a server reads or writes is given
//! to that user. Files with a password are readable by their owner only.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{ClusterError, IoContext, Result};
use crate::user::ServerUser;

/// The longest path of a Unix socket, without its terminating zero byte.
const SOCKET_PATH_MAX: usize = 107;

/// The files of one node. Everything is below [`NodeFiles::root`].
#[derive(Debug, Clone)]
pub struct NodeFiles {
    pub root: PathBuf,
    pub data: PathBuf,
    pub cnf: PathBuf,
    /// The group secret, if members have one.
    pub secret: PathBuf,
    pub socket: PathBuf,
    pub pid_file: PathBuf,
    pub tmp: PathBuf,
    /// The server's error log; grows over restarts.
    pub error_log: PathBuf,
    pub recover_log: PathBuf,
}

impl NodeFiles {
    pub fn of(dir: &Path, node: u8) -> NodeFiles {
        let root = dir.join(format!("node{node}"));
        NodeFiles {
            data: root.join("data"),
            cnf: root.join("my.cnf"),
            secret: root.join("synod.secret"),
            socket: root.join("mariadb.sock"),
            pid_file: root.join("mariadb.pid"),
            tmp: root.join("tmp"),
            error_log: root.join("error.log"),
            recover_log: root.join("recover.log"),
            root,
        }
    }

    /// Whether the node has a database (it need not be complete).
    pub fn has_data(&self) -> bool {
        self.data.join("ibdata1").exists()
    }

    /// Makes the directories that are missing, owned by the user that servers run as.
    pub fn create(&self, user: &ServerUser) -> Result<()> {
        let length = self.socket.as_os_str().len();
        if length > SOCKET_PATH_MAX {
            let path = self.socket.clone();
            return Err(ClusterError::PathTooLong {
                path,
                length,
                max: SOCKET_PATH_MAX,
            });
        }
        make_dir(&self.root, 0o755, user)?;
        make_dir(&self.data, 0o700, user)?;
        make_dir(&self.tmp, 0o700, user)
    }

    pub fn wipe(&self) -> Result<()> {
        for dir in [&self.data, &self.tmp] {
            if dir.exists() {
                fs::remove_dir_all(dir).context("remove", dir)?;
            }
        }
        Ok(())
    }
}

/// The files that encrypt full copies (SST), the same for all nodes.
#[derive(Debug, Clone)]
pub struct SstFiles {
    pub dir: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl SstFiles {
    pub fn of(dir: &Path) -> SstFiles {
        SstFiles::in_dir(dir.join("sst"))
    }

    pub fn in_dir(dir: PathBuf) -> SstFiles {
        SstFiles {
            certificate: dir.join("synod-sst.pem"),
            key: dir.join("synod-sst.key"),
            dir,
        }
    }

    /// Configuration section for the server's script `mariabackup`, at either end of a copy.
    pub fn section(&self) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        format!(
            "[sst]
ssl-mode = VERIFY_CA
ssl-ca = {certificate}
ssl-cert = {certificate}
ssl-key = {key}
"
        )
    }

    /// Makes the directory, owned by the user that servers run as.
    pub fn create(&self, user: &ServerUser) -> Result<()> {
        make_dir(&self.dir, 0o700, user)
    }
}

/// Makes a directory with this mode and owner; an existing one is left as it is.
pub(crate) fn make_dir(path: &Path, mode: u32, user: &ServerUser) -> Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => user.give(path),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e).context("create", path),
    }
}

/// Writes a file that only its owner may read (it holds a password).
pub(crate) fn write_private(path: &Path, text: String, owner: Option<&ServerUser>) -> Result<()> {
    if path.exists() {
        fs::remove_file(path).context("remove", path)?;
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .context("create", path)?;
    file.write_all(text.as_bytes()).context("write", path)?;
    owner.map_or(Ok(()), |user| user.give(path))
}
