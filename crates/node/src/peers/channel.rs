//! A connection's bytes, in clear or encrypted.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use synod_tls::TlsStream;

use super::dial::Timed;

/// A connection, used by one thread.
pub(super) enum Channel {
    Plain(Timed),
    Encrypted(Box<TlsStream<Timed>>),
}

impl Channel {
    pub(super) fn plain(socket: Timed) -> Channel {
        Channel::Plain(socket)
    }

    pub(super) fn encrypted(stream: TlsStream<Timed>) -> Channel {
        Channel::Encrypted(Box::new(stream))
    }

    /// The connection itself, to be closed from elsewhere.
    pub(super) fn stream(&self) -> &TcpStream {
        match self {
            Channel::Plain(socket) => socket.stream(),
            Channel::Encrypted(stream) => stream.get_ref().stream(),
        }
    }

    /// From now on there is all the time in the world to read.
    pub(super) fn no_limit(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(socket) => socket.no_limit(),
            Channel::Encrypted(stream) => stream.get_mut().no_limit(),
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
