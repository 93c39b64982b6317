//! The bytes of a connection, in clear or encrypted, and the deadlines of its socket.
//!
//! Code that reads and writes messages does not know which:
//! [`ConnectionEncryption`](super::ConnectionEncryption) decides at the handshake.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use socket2::{SockRef, TcpKeepalive};
use synod_tls::{PeerCredential, TlsStream};

/// A peer that takes longer than this for one write counts as dead.
const IO_LIMIT: Duration = Duration::from_secs(10);

/// A connection, used by one thread at a time.
pub(super) enum Channel {
    Plain(TimedSocket),
    Encrypted(Box<TlsStream<TimedSocket>>),
}

impl Channel {
    pub(super) fn peer(&self) -> &PeerCredential {
        match self {
            Channel::Plain(_) => &PeerCredential::None,
            Channel::Encrypted(stream) => stream.peer(),
        }
    }

    pub(super) fn socket(&self) -> &TimedSocket {
        match self {
            Channel::Plain(socket) => socket,
            Channel::Encrypted(stream) => stream.get_ref(),
        }
    }

    pub(super) fn socket_mut(&mut self) -> &mut TimedSocket {
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

/// Sets the options of a connection's socket, at either end.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    let socket = SockRef::from(stream);
    // Otherwise the system would repeat unanswered packets for a quarter of an hour.
    socket.set_tcp_user_timeout(Some(IO_LIMIT))?;
    socket.set_tcp_keepalive(&keepalive)
}

/// A socket that is read until a deadline, or without one; written to likewise.
#[derive(Debug)]
pub(super) struct TimedSocket {
    stream: TcpStream,
    deadline: Option<Instant>,
    /// None: each write has its own limit, that of the stream.
    write_deadline: Option<Instant>,
    waits_for_room: bool,
}

/// A write that never waits, nor raises a signal on a connection that is over.
const AT_ONCE: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

impl TimedSocket {
    pub(super) fn new(stream: TcpStream, limit: Duration) -> TimedSocket {
        let deadline = Instant::now().checked_add(limit);
        TimedSocket {
            stream,
            deadline,
            write_deadline: None,
            waits_for_room: true,
        }
    }

    /// The socket itself, so that another thread can close it.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn no_limit(&mut self) -> io::Result<()> {
        match self.deadline.take() {
            None => Ok(()),
            Some(_) => self.stream.set_read_timeout(None),
        }
    }

    /// Sets a deadline for all reads from now on.
    pub(super) fn limit(&mut self, limit: Duration) {
        self.deadline = Instant::now().checked_add(limit);
    }

    /// Sets a deadline for all writes from now on that wait for room.
    pub(super) fn limit_writes(&mut self, limit: Duration) {
        self.write_deadline = Instant::now().checked_add(limit);
    }

    /// Whether writes wait for room, or fail as [`io::ErrorKind::WouldBlock`].
    pub(super) fn set_waiting_writes(&mut self, wait: bool) {
        self.waits_for_room = wait;
    }

    pub(super) fn is_too_late(&self) -> bool {
        self.deadline.is_some_and(|at| at <= Instant::now())
    }

    /// The first byte of the next read; `None` if the peer has closed the connection.
    pub(super) fn peek(&self) -> io::Result<Option<u8>> {
        self.apply_deadline()?;
        let mut first = [0];
        let len = self.stream.peek(&mut first).map_err(|e| self.too_late(e))?;
        Ok((len > 0).then_some(first[0]))
    }

    fn apply_deadline(&self) -> io::Result<()> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(took_too_long());
        }
        self.stream.set_read_timeout(Some(left))
    }

    fn apply_write_deadline(&self) -> io::Result<()> {
        let Some(deadline) = self.write_deadline else {
            return Ok(());
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left))
    }

    /// The system calls a passed time limit "temporarily unavailable".
    fn too_late(&self, error: io::Error) -> io::Error {
        match (self.deadline, error.kind()) {
            (Some(_), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => took_too_long(),
            _ => error,
        }
    }
}

fn took_too_long() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it took too long")
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.apply_deadline()?;
        self.stream.read(buffer).map_err(|e| self.too_late(e))
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.waits_for_room {
            self.apply_write_deadline()?;
            return self.stream.write(bytes);
        }
        Ok(send(&self.stream, bytes, AT_ONCE)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.waits_for_room {
            self.apply_write_deadline()?;
            return self.stream.write_vectored(parts);
        }
        let mut nothing_else = SendAncillaryBuffer::default();
        Ok(sendmsg(&self.stream, parts, &mut nothing_else, AT_ONCE)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
