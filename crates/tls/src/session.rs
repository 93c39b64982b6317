//! An open encrypted connection.

use std::io::{self, BufReader, ErrorKind, IoSlice, Read, Write};

use rustls::Connection;

use super::error::{TlsHandshakeError, explain};

/// The first byte that a TLS caller sends (a record of type "handshake", RFC 8446, section 5.1). A
/// frame never begins so.
pub const FIRST_BYTE: u8 = 0x16;

/// Asked of the socket at a time. The library by itself asks for a quarter of a record.
const READ_BYTES: usize = 64 * 1024;

/// One end of an encrypted connection, used by one thread at a time. After the handshake a member
/// only writes on connections it has opened and only reads on those opened to it, so neither ever
/// waits for a lock.
#[derive(Debug)]
pub struct TlsStream<S> {
    connection: Connection,
    socket: Socket<S>,
}

/// Reads much at a time, writes through.
#[derive(Debug)]
struct Socket<S>(BufReader<S>);

impl<S: Read> Read for Socket<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Write> Write for Socket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.get_mut().write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// Exchanges what comes before data.
    pub(super) fn handshake(
        mut connection: Connection,
        socket: S,
    ) -> Result<TlsStream<S>, TlsHandshakeError> {
        let mut socket = Socket(BufReader::with_capacity(READ_BYTES, socket));
        while connection.is_handshaking() {
            connection
                .complete_io(&mut socket)
                .map_err(TlsHandshakeError::from_io)?;
        }
        Ok(TlsStream { connection, socket })
    }

    /// The transport.
    pub fn get_ref(&self) -> &S {
        self.socket.0.get_ref()
    }

    /// The transport, for its settings; reading or writing it damages the stream.
    pub fn get_mut(&mut self) -> &mut S {
        self.socket.0.get_mut()
    }

    /// Sends what is encrypted already.
    fn drain(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.connection.wants_read() {
            // Also sends what the peer's last message calls for.
            let (read, _) = self
                .connection
                .complete_io(&mut self.socket)
                .map_err(explain)?;
            if read == 0 {
                break;
            }
        }
        match self.connection.reader().read(buffer) {
            // The peer hung up without TLS's farewell. Frames say themselves whether they are whole.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.drain()?;
        let taken = self.connection.writer().write_vectored(parts)?;
        // It is encrypted and ours to send now; an error shows again at the next call.
        let _ = self.drain();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        self.socket.flush()
    }
}
