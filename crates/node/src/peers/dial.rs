//! Opening a connection: connect, say hello, hear the answer.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use synod_tls::TlsHandshakeError;
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, HandshakeError, Hello, HelloReply, Lane, StreamError, read_reply,
    write_hello,
};

use super::Peers;
use super::channel::Channel;
use super::security::Security;

const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// A whole handshake must not take longer, however the bytes trickle in.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// A peer that takes longer than this for one write is as good as dead.
pub(super) const IO_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    #[error("no encrypted connection: {0}")]
    Tls(#[from] TlsHandshakeError),
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
}

impl DialError {
    /// What an operator has to mend, if it is that: not that the peer is away.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            DialError::Connect(_) | DialError::Tls(TlsHandshakeError::Io(_)) => None,
            DialError::Tls(_) => Some(self.to_string()),
            // What the peer says of our certificate comes with the first read.
            DialError::Handshake(HandshakeError::Stream(StreamError::Io(error)))
                if error.kind() == io::ErrorKind::InvalidData =>
            {
                Some(error.to_string())
            }
            DialError::Handshake(_) => None,
        }
    }
}

/// Connects and says hello. The answer may be a refusal.
pub(super) fn dial(
    peers: &Peers,
    address: &str,
    lane: Lane,
) -> Result<(Channel, HelloReply), DialError> {
    match attempt(peers, address, lane, &peers.security) {
        Err(DialError::Tls(TlsHandshakeError::Plaintext { .. }))
            if peers.security.may_fall_back() =>
        {
            attempt(peers, address, lane, &Security::Plain)
        }
        other => other,
    }
}

fn attempt(
    peers: &Peers,
    address: &str,
    lane: Lane,
    security: &Security,
) -> Result<(Channel, HelloReply), DialError> {
    let stream = connect(peers, address)?;
    prepare(&stream)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    let stopping = || io::Error::new(io::ErrorKind::Interrupted, "this member stops");
    let id = peers.remember(&stream, usize::MAX).ok_or_else(stopping)?;
    let greeted = security
        .secure_outgoing(Timed::new(stream, HANDSHAKE_LIMIT))
        .map_err(DialError::from)
        .and_then(|mut channel| {
            let reply = greet(&mut channel, &peers.hello(lane))?;
            Ok((channel, reply))
        });
    peers.forget(id);
    greeted
}

fn greet(channel: &mut Channel, hello: &Hello) -> Result<HelloReply, HandshakeError> {
    let sent = write_hello(
        &mut FrameWriter::new(&mut *channel, HANDSHAKE_FRAME_MAX),
        hello,
    );
    let reply = read_reply(
        &mut FrameReader::new(channel, HANDSHAKE_FRAME_MAX),
        hello.versions,
    );
    // Who refuses a connection may do so before it has heard the hello: then that is the reason.
    match (sent, reply) {
        (Err(error), Err(_)) => Err(error),
        (_, reply) => reply,
    }
}

fn connect(peers: &Peers, address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        if peers.is_stopping() || peers.is_isolated() {
            break;
        }
        match TcpStream::connect_timeout(&candidate, CONNECT_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Settings for either side.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    let socket = SockRef::from(stream);
    // Otherwise the system would repeat for a quarter of an hour what nobody answers.
    socket.set_tcp_user_timeout(Some(IO_LIMIT))?;
    socket.set_tcp_keepalive(&keepalive)
}

/// A connection that is read until a deadline, or without one.
#[derive(Debug)]
pub(super) struct Timed {
    stream: TcpStream,
    deadline: Option<Instant>,
}

impl Timed {
    pub(super) fn new(stream: TcpStream, limit: Duration) -> Timed {
        let deadline = Instant::now().checked_add(limit);
        Timed { stream, deadline }
    }

    /// The connection.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// From now on there is all the time in the world.
    pub(super) fn no_limit(&mut self) -> io::Result<()> {
        self.deadline = None;
        self.stream.set_read_timeout(None)
    }

    /// The byte that the next read begins with; `None` if the peer has hung up.
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

    /// The system calls a passed time limit "temporarily unavailable".
    fn too_late(&self, error: io::Error) -> io::Error {
        match (self.deadline, error.kind()) {
            (Some(_), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => took_too_long(),
            _ => error,
        }
    }
}

fn took_too_long() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.apply_deadline()?;
        self.stream.read(buffer).map_err(|e| self.too_late(e))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
