//! Transport of lines: a UNIX socket, or an encrypted connection of the group.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection that carries lines both ways, used by one thread at a time.
///
/// After a limit has passed a read or write fails as [`io::ErrorKind::TimedOut`] or
/// [`io::ErrorKind::WouldBlock`].
pub trait Connection: Read + Write {
    fn limit_read(&mut self, limit: Duration) -> io::Result<()>;

    /// Bounds the time of the next write, and of a flush.
    fn limit_write(&mut self, limit: Duration) -> io::Result<()>;
}

impl Connection for UnixStream {
    fn limit_read(&mut self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))
    }

    fn limit_write(&mut self, limit: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(limit))
    }
}

impl Connection for &UnixStream {
    fn limit_read(&mut self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit))
    }

    fn limit_write(&mut self, limit: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(limit))
    }
}
