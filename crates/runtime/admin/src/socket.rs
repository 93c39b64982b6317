//! The socket for commands, and its permissions.
//!
//! The socket is `synod.sock` in the log directory, which one process at a time holds by the log's
//! lock: what lies there under that name when it begins to listen was left by a process that has
//! ended, and is replaced. The socket has mode 0600 from its first moment;
//! [`crate::command_rights`] says who may order.
//!
//! If this machine has the group [`STATUS_GROUP`] and this process is in it, the socket is opened
//! to that group: its processes, such as an agent with a user of its own, may ask how the member
//! is, and order nothing.
//!
//! A directory whose path is too long for a socket's address is reached through `/proc/self/fd`.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, chmod, chown, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::{getegid, geteuid, getgroups};

/// Name of the socket in the log directory.
pub const NAME: &str = "synod.sock";
/// Local group of those who may ask for the status of this machine's members.
pub const STATUS_GROUP: &str = "synod-status";
/// Local groups: `name:password:number:users`.
const GROUPS: &str = "/etc/group";
/// Bytes of the longest path that a socket's address takes on Linux.
const PATH_BYTES_MAX: usize = 107;
/// Clients that the system keeps waiting for their connection to be taken.
const BACKLOG: i32 = 16;

/// Path of the socket of the member whose log is in `dir`.
pub fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "{} is no socket: something else has the name of the socket for commands. Remove it",
        path.display()
    )]
    Taken { path: PathBuf },
    #[error("cannot listen for commands at {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A socket that listens. Its file is removed with it, unless another one has taken its place.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the socket's file.
    file: (u64, u64),
    access: GroupAccess,
}

/// Access of the processes of [`STATUS_GROUP`] to a member's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupAccess {
    /// Processes of the group may ask for the status.
    Open,
    /// This machine has no such group.
    NoGroup,
    /// The group is there, and this process is not in it, so that it cannot open the socket.
    NotInGroup,
}

impl Listening {
    /// Listens for the commands of the member whose log is in `dir`. The caller holds that log's
    /// lock.
    pub fn begin(dir: &Path) -> Result<Listening, ListenError> {
        let path = std::path::absolute(path(dir)).unwrap_or_else(|_| path(dir));
        let error = |source| ListenError::Io {
            path: path.clone(),
            source,
        };
        if !remove_stale(&path).map_err(error)? {
            return Err(ListenError::Taken { path });
        }
        let listener = bound(&path).map_err(error)?;
        let access = open_to_group(&path).map_err(error)?;
        let file = identity(&path).map_err(error)?;
        Ok(Listening {
            listener,
            path,
            file,
            access,
        })
    }

    pub fn access(&self) -> GroupAccess {
        self.access
    }

    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether clients can find it. The scripts of a full copy (SST) remove what they do not know
    /// from a data directory.
    pub fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|file| file == self.file)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.is_in_place() {
            // It is harmless: the next process replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that was left at `path`; false if something else is there.
fn remove_stale(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path).map(|()| true),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// A socket with mode 0600. It has it before it has a name: Linux gives the file of a socket the
/// mode of the socket.
fn bound(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let reach = Reach::of(path)?;
    bind(&socket, &SocketAddrUnix::new(&reach.path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Lets [`STATUS_GROUP`] connect to this process's socket, if this process is in the group.
fn open_to_group(path: &Path) -> io::Result<GroupAccess> {
    let groups = match std::fs::read_to_string(GROUPS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(GroupAccess::NoGroup),
        groups => groups?,
    };
    let Some(group) = number_of_group(&groups, STATUS_GROUP).map(Gid::from_raw) else {
        return Ok(GroupAccess::NoGroup);
    };
    // Root may give a file to any group; a user only to one of theirs.
    let is_member = geteuid().is_root() || getegid() == group || getgroups()?.contains(&group);
    if !is_member {
        return Ok(GroupAccess::NotInGroup);
    }
    let reach = Reach::of(path)?;
    chown(&reach.path, None, Some(group))?;
    // After the name is there: the mode of a new one is cut by the process's umask.
    chmod(
        &reach.path,
        Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP,
    )?;
    Ok(GroupAccess::Open)
}

fn number_of_group(groups: &str, name: &str) -> Option<u32> {
    let lines = groups.lines().map(|line| line.split(':'));
    let mut found = lines.filter_map(|mut fields| {
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    found.next()
}

pub fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(&Reach::of(path)?.path)
}

struct Reach {
    path: PathBuf,
    /// Held while the path is used, if that leads through it.
    _dir: Option<File>,
}

impl Reach {
    fn of(path: &Path) -> io::Result<Reach> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Reach {
                path: path.to_owned(),
                _dir: None,
            });
        }
        let dir = File::open(dir)?;
        let through = OsString::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        Ok(Reach {
            path: PathBuf::from(through).join(name),
            _dir: Some(dir),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn socket_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let listening = Listening::begin(dir.path()).unwrap();
        let mode = std::fs::metadata(listening.path()).unwrap().permissions();
        let expected = match listening.access() {
            GroupAccess::Open => 0o660,
            GroupAccess::NoGroup | GroupAccess::NotInGroup => 0o600,
        };
        assert_eq!(mode.mode() & 0o777, expected);
    }

    #[test]
    fn number_of_a_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nsynod-status-x:x:7:\nbad\nsynod-status:x:998:mysql,alice\n";
        assert_eq!(number_of_group(groups, STATUS_GROUP), Some(998));
        assert_eq!(number_of_group("synod-status:x:many:", STATUS_GROUP), None);
        assert_eq!(number_of_group("synod-status", STATUS_GROUP), None);
        assert_eq!(number_of_group("", STATUS_GROUP), None);
    }

    #[test]
    fn socket_of_a_process_that_died_is_replaced_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        // The file stays, as after SIGKILL.
        drop(UnixListener::bind(path(dir.path())).unwrap());
        let refused = connect(&path(dir.path())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listening = Listening::begin(dir.path()).unwrap();
        connect(&path(dir.path())).unwrap();
        drop(listening);
        let missing = connect(&path(dir.path())).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(path(dir.path()), "mine").unwrap();
        let error = Listening::begin(dir.path()).unwrap_err();
        assert!(matches!(error, ListenError::Taken { .. }), "{error}");
        assert_eq!(std::fs::read(path(dir.path())).unwrap(), b"mine");
    }

    #[test]
    fn a_removed_or_replaced_socket_is_noticed_and_not_removed_twice() {
        let dir = tempfile::tempdir().unwrap();
        let first = Listening::begin(dir.path()).unwrap();
        assert!(first.is_in_place());
        std::fs::remove_file(first.path()).unwrap();
        assert!(!first.is_in_place());
        let second = Listening::begin(dir.path()).unwrap();
        drop(first);
        assert!(second.is_in_place());
    }

    #[test]
    fn long_directories_are_reached() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let listening = Listening::begin(&deep).unwrap();
        assert!(listening.is_in_place());
        connect(&path(&deep)).unwrap();
    }
}
