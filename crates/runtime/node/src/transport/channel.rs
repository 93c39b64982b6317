//! The bytes of a connection, in clear or encrypted.
//!
//! Code that reads and writes messages does not know which: [`Security`](super::Security) decides
//! at the handshake.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use synod_tls::{PeerCredential, TlsStream};

use super::dial::TimedSocket;

/// A connection, used by one thread at a time.
pub(super) enum Channel {
    Plain(TimedSocket),
    Encrypted(Box<TlsStream<TimedSocket>>),
}

impl Channel {
    pub(super) fn plain(socket: TimedSocket) -> Channel {
        Channel::Plain(socket)
    }

    pub(super) fn encrypted(stream: TlsStream<TimedSocket>) -> Channel {
        Channel::Encrypted(Box::new(stream))
    }

    /// Credential that the peer has proven in the handshake.
    pub(super) fn peer(&self) -> &PeerCredential {
        match self {
            Channel::Plain(_) => &PeerCredential::None,
            Channel::Encrypted(stream) => stream.peer(),
        }
    }

    /// The socket itself, so that another thread can close it.
    pub(super) fn stream(&self) -> &TcpStream {
        match self {
            Channel::Plain(socket) => socket.stream(),
            Channel::Encrypted(stream) => stream.get_ref().stream(),
        }
    }

    /// Removes the deadline of reads.
    pub(super) fn no_limit(&mut self) -> io::Result<()> {
        self.socket_mut().no_limit()
    }

    /// Sets a deadline for all reads from now on.
    pub(super) fn limit(&mut self, limit: Duration) {
        self.socket_mut().limit(limit);
    }

    /// Sets a deadline for all writes from now on.
    pub(super) fn limit_writes(&mut self, limit: Duration) {
        self.socket_mut().limit_writes(limit);
    }

    /// Whether the deadline of reads has passed.
    pub(super) fn is_too_late(&self) -> bool {
        match self {
            Channel::Plain(socket) => socket.is_too_late(),
            Channel::Encrypted(stream) => stream.get_ref().is_too_late(),
        }
    }

    /// Whether writes wait for room in the socket, or fail as [`io::ErrorKind::WouldBlock`].
    pub(super) fn set_waiting_writes(&mut self, wait: bool) {
        self.socket_mut().set_waiting_writes(wait);
    }

    fn socket_mut(&mut self) -> &mut TimedSocket {
        match self {
            Channel::Plain(socket) => socket,
            Channel::Encrypted(stream) => stream.get_mut(),
        }
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.read(buffer),
            Channel::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.write(bytes),
            Channel::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.write_vectored(parts),
            Channel::Encrypted(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(socket) => socket.flush(),
            Channel::Encrypted(stream) => stream.flush(),
        }
    }
}
