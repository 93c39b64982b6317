//! Finds the members that listen for commands on this machine.
//!
//! The system lists the sockets that listen, with their paths, in `/proc/net/unix`. Sockets that
//! were bound through `/proc/self/fd`, because their directory's path is too long, cannot be found
//! that way.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::socket;

/// The system's list of UNIX sockets.
pub const LIST: &str = "/proc/net/unix";

/// The flag of a socket that listens (`__SO_ACCEPTCON`).
const LISTENS: u64 = 0x1_0000;

pub fn listening() -> io::Result<Vec<PathBuf>> {
    Ok(listening_in(&std::fs::read_to_string(LIST)?))
}

fn listening_in(list: &str) -> Vec<PathBuf> {
    let dirs: BTreeSet<PathBuf> = list.lines().filter_map(directory).collect();
    dirs.into_iter().collect()
}

/// The directory of a line, if it is of a member that listens. The fields are: number, references,
/// protocol, flags, type, state, inode, path.
fn directory(line: &str) -> Option<PathBuf> {
    let mut fields = line.split_ascii_whitespace();
    let flags = u64::from_str_radix(fields.nth(3)?, 16).ok()?;
    let inode = fields.nth(2)?;
    // The path may contain spaces.
    let behind = line.split_once(&format!(" {inode} "))?.1;
    let path = Path::new(behind.trim_start());
    let is_ours = path.is_absolute()
        && !path.starts_with("/proc")
        && path.file_name().is_some_and(|name| name == socket::NAME);
    (is_ours && flags & LISTENS != 0).then(|| path.parent().map(Path::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_listen_are_found_and_nothing_else() {
        let list = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21345 /run/mysqld/mysqld.sock
0000000000000000: 00000002 00000000 00010000 0001 01 21346 /var/lib/mysql/synod.sock
0000000000000000: 00000003 00000000 00000000 0001 03 21347 /var/lib/mysql/synod.sock
0000000000000000: 00000003 00000000 00000000 0001 03 21348 /var/lib/other/synod.sock
0000000000000000: 00000002 00000000 00010000 0001 01 21349 /srv/my data/synod.sock
0000000000000000: 00000002 00000000 00010000 0001 01 21350 /proc/self/fd/9/synod.sock
0000000000000000: 00000003 00000000 00000000 0001 03 21351
";
        let expected = [PathBuf::from("/srv/my data"), "/var/lib/mysql".into()];
        assert_eq!(listening_in(list), expected);
        assert!(listening_in("").is_empty());
    }

    #[test]
    fn own_socket_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let _listening = socket::Listening::begin(dir.path()).unwrap();
        assert!(listening().unwrap().contains(&dir.path().to_owned()));
    }
}
