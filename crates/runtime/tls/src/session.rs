//! An open encrypted connection, and the identity that its peer has proven.
//!
//! Every connection carries messages one way and belongs to one thread, so a session needs no lock
//! (decision 006). Errors of the library leave here in words for operators.

use std::io::{self, BufReader, ErrorKind, IoSlice, Read, Write};

use rustls::Connection;
use rustls::pki_types::CertificateDer;

use super::certificate::Certificate;
use super::error::TlsHandshakeError;
use super::refused_peer::explain;
use super::settings::CredentialNames;

/// The first byte that a TLS caller sends (a record of type "handshake", RFC 8446, section 5.1). A
/// frame never begins with it.
pub const FIRST_BYTE: u8 = 0x16;

/// Bytes asked of the socket at a time. The library by itself asks for a quarter of a record.
const READ_BYTES: usize = 64 * 1024;

/// The credential that a peer has proven to hold, as seen from this end of a connection. The texts
/// are compared with texts that members have stored: how a subject is written never changes, and
/// different subjects never have the same text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PeerCredential {
    #[default]
    None,
    /// A secret of the group. Any member may have opened or answered this connection.
    Secret {
        /// The public key that follows from the secret (SubjectPublicKeyInfo, DER).
        key: Vec<u8>,
    },
    /// The key of a certificate that one of this member's authorities has signed.
    Certificate {
        /// The certificate's subject in the syntax of RFC 4514, in the certificate's order, at most
        /// [`crate::SUBJECT_BYTES_MAX`] bytes. A certificate with an empty subject is named by its
        /// public key (`key-sha256=`), one with a longer subject by that subject
        /// (`subject-sha256=`).
        subject: String,
    },
}

impl PeerCredential {
    fn of_certificate(leaf: &CertificateDer<'_>) -> Result<PeerCredential, String> {
        let subject = Certificate::parse(leaf)?.compared_subject()?;
        Ok(PeerCredential::Certificate { subject })
    }
}

/// One end of an encrypted connection, used by one thread at a time. After the handshake a member
/// only writes on connections it has opened and only reads on those opened to it, so neither ever
/// waits for a lock.
#[derive(Debug)]
pub struct TlsStream<S> {
    connection: Connection,
    socket: Socket<S>,
    peer: PeerCredential,
    names: CredentialNames,
}

/// Reads [`READ_BYTES`] at a time, writes through.
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
    /// Does the TLS handshake: everything that comes before data.
    pub(super) fn handshake(
        mut connection: Connection,
        socket: S,
        names: CredentialNames,
    ) -> Result<TlsStream<S>, TlsHandshakeError> {
        let mut socket = Socket(BufReader::with_capacity(READ_BYTES, socket));
        while connection.is_handshaking() {
            connection
                .complete_io(&mut socket)
                .map_err(|error| TlsHandshakeError::from_io(error, &names))?;
        }
        let peer = proven(&connection, &names)?;
        Ok(TlsStream {
            connection,
            socket,
            peer,
            names,
        })
    }

    /// Identity that the peer proved in the handshake. Never [`PeerCredential::None`].
    pub fn peer(&self) -> &PeerCredential {
        &self.peer
    }

    pub fn get_ref(&self) -> &S {
        self.socket.0.get_ref()
    }

    /// The transport, for its settings; reading or writing it damages the stream.
    pub fn get_mut(&mut self) -> &mut S {
        self.socket.0.get_mut()
    }

    /// Sends the bytes that are encrypted already.
    fn drain(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

/// Identity proven in the handshake: a verifier has accepted the peer's certificate or key.
fn proven(
    connection: &Connection,
    names: &CredentialNames,
) -> Result<PeerCredential, TlsHandshakeError> {
    let shown = connection
        .peer_certificates()
        .and_then(|chain| chain.first())
        .ok_or_else(|| TlsHandshakeError::Failed("it shows no credential".to_owned()))?;
    match names {
        CredentialNames::Secret { .. } => {
            let key = shown.to_vec();
            Ok(PeerCredential::Secret { key })
        }
        CredentialNames::Certificates(_) => {
            PeerCredential::of_certificate(shown).map_err(|reason| {
                TlsHandshakeError::Failed(format!("its certificate is refused: {reason}"))
            })
        }
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.connection.wants_read() {
            // Also sends the library's answer to the peer's last message.
            let (read, _) = self
                .connection
                .complete_io(&mut self.socket)
                .map_err(|error| explain(error, &self.names))?;
            if read == 0 {
                break;
            }
        }
        match self.connection.reader().read(buffer) {
            // The peer closed without TLS's close_notify. Frames show by themselves if one is
            // incomplete.
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
        // These bytes are encrypted and will be sent; an error shows again at the next call.
        let _ = self.drain();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        self.socket.flush()
    }
}
