//! Opening a connection: connect, say hello, hear the answer.

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, HandshakeError, Hello, HelloReply, Lane, read_reply, write_hello,
};

use super::Peers;

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
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
}

/// Connects and says hello. The answer may be a refusal.
pub(super) fn dial(
    peers: &Peers,
    address: &str,
    lane: Lane,
) -> Result<(TcpStream, HelloReply), DialError> {
    let stream = connect(peers, address)?;
    prepare(&stream)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    let stopping = || io::Error::new(io::ErrorKind::Interrupted, "this member stops");
    let id = peers.remember(&stream, usize::MAX).ok_or_else(stopping)?;
    let reply = greet(&stream, &peers.hello(lane));
    peers.forget(id);
    Ok((stream, reply?))
}

fn greet(stream: &TcpStream, hello: &Hello) -> Result<HelloReply, HandshakeError> {
    write_hello(&mut FrameWriter::new(stream, HANDSHAKE_FRAME_MAX), hello)?;
    let timed = Timed::new(stream, HANDSHAKE_LIMIT);
    read_reply(
        &mut FrameReader::new(timed, HANDSHAKE_FRAME_MAX),
        hello.versions,
    )
}

fn connect(peers: &Peers, address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        if peers.is_stopping() {
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
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// A stream that is read until a deadline, or without one.
pub(super) struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Option<Instant>,
}

impl<'a> Timed<'a> {
    pub(super) fn new(stream: &'a TcpStream, limit: Duration) -> Timed<'a> {
        let deadline = Instant::now().checked_add(limit);
        Timed { stream, deadline }
    }

    /// From now on there is all the time in the world.
    pub(super) fn no_limit(&mut self) -> io::Result<()> {
        self.deadline = None;
        self.stream.set_read_timeout(None)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = "the handshake took too long";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.read(buffer)
    }
}
