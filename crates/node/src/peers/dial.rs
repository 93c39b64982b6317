//! Opening a connection: connect, say hello, hear the answer.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, HandshakeError, Hello, HelloReply, read_reply, write_hello,
};

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// A peer that takes longer than this for one read or write is as good as dead.
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
pub(super) fn dial(address: &str, hello: &Hello) -> Result<(TcpStream, HelloReply), DialError> {
    let stream = connect(address)?;
    prepare(&stream)?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    stream.set_read_timeout(Some(IO_LIMIT))?;
    let mut writer = FrameWriter::new(&stream, HANDSHAKE_FRAME_MAX);
    write_hello(&mut writer, hello)?;
    let mut reader = FrameReader::new(&stream, HANDSHAKE_FRAME_MAX);
    let reply = read_reply(&mut reader, hello.versions)?;
    Ok((stream, reply))
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
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
