//! Waits for the next client of a socket, and can be woken.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::socket::Listening;

#[derive(Debug)]
pub enum Accepted {
    /// A client. Its stream blocks.
    Client(UnixStream),
    /// Nothing came in time, or the client has gone again.
    Nothing,
    /// The other end of the waking stream was closed, or written to.
    Woken,
}

impl Listening {
    /// Waits for a client, until `wake` can be read, or until `limit` has passed.
    pub fn accept(&self, wake: &UnixStream, limit: Duration) -> io::Result<Accepted> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        let (listener, wake) = (self.listener().as_fd(), wake.as_fd());
        let mut waited = [
            PollFd::from_borrowed_fd(listener, PollFlags::IN),
            PollFd::from_borrowed_fd(wake, PollFlags::IN),
        ];
        match poll(&mut waited, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !waited[1].revents().is_empty() {
            return Ok(Accepted::Woken);
        }
        if waited[0].revents().is_empty() {
            return Ok(Accepted::Nothing);
        }
        match self.listener().accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                Ok(Accepted::Client(stream))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Accepted::Nothing),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn wait_ends_with_a_client_or_the_time_or_by_order() {
        let dir = tempfile::tempdir().unwrap();
        let listening = Listening::begin(dir.path()).unwrap();
        let (wake, order) = UnixStream::pair().unwrap();
        let nothing = listening.accept(&wake, Duration::ZERO).unwrap();
        assert!(matches!(nothing, Accepted::Nothing));
        let _client = socket::connect(listening.path()).unwrap();
        let client = listening.accept(&wake, PATIENCE).unwrap();
        assert!(matches!(client, Accepted::Client(_)));
        drop(order);
        let woken = listening.accept(&wake, PATIENCE).unwrap();
        assert!(matches!(woken, Accepted::Woken));
    }
}
