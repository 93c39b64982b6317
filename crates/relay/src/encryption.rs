//! Encryption to readers: the relay's certificate, and a connection that becomes encrypted.
//!
//! The files are read for each connection, since programs that renew certificates tell no process.
//! Readers are few, and stay.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use synod_tls::{ServiceStream, ServiceTls, TlsError, TlsFiles, TlsSettingNames};

use crate::protocol::packet::Connection;

/// How texts about certificates call the keys of the relay's file.
const NAMES: TlsSettingNames = TlsSettingNames {
    certificate: "relay.tls_cert",
    key: "relay.tls_key",
    authorities: "the authorities of readers",
    password: "relay.tls_key_password_file",
    ciphers: "the ciphers",
    switch: "relay.tls_cert",
};

/// How a relay encrypts.
#[derive(Clone, Debug)]
pub struct Encryption {
    files: TlsFiles,
    /// Readers in clear are refused.
    pub is_required: bool,
}

impl Encryption {
    /// With these PEM files.
    pub fn new(
        certificate: PathBuf,
        key: PathBuf,
        password: Option<PathBuf>,
        is_required: bool,
    ) -> Encryption {
        Encryption {
            files: TlsFiles {
                certificate,
                key,
                authorities: None,
                password,
                ciphers: String::new(),
                names: NAMES,
            },
            is_required,
        }
    }

    /// Reads the files, and checks them.
    ///
    /// # Errors
    /// With the file and the remedy.
    pub fn load(&self) -> Result<ServiceTls, TlsError> {
        ServiceTls::load(&self.files)
    }
}

/// A reader's connection, in clear or encrypted.
pub(crate) enum Link<'a> {
    Clear(&'a TcpStream),
    Encrypted(Box<ServiceStream<&'a TcpStream>>),
}

impl Read for Link<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Clear(stream) => stream.read(buffer),
            Link::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Link<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Link::Clear(stream) => stream.write(bytes),
            Link::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Link::Clear(stream) => stream.flush(),
            Link::Encrypted(stream) => stream.flush(),
        }
    }
}

impl Link<'_> {
    fn socket(&self) -> &TcpStream {
        match self {
            Link::Clear(stream) => stream,
            Link::Encrypted(stream) => stream.socket(),
        }
    }

    /// What a read finds that does not wait.
    fn look(&mut self) -> io::Result<usize> {
        match self {
            Link::Clear(stream) => stream.peek(&mut [0]),
            Link::Encrypted(stream) => stream.read(&mut [0]),
        }
    }
}

impl Connection for Link<'_> {
    fn has_ended(&mut self) -> bool {
        let looked = self
            .socket()
            .set_nonblocking(true)
            .and_then(|()| self.look());
        let ended = match looked {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        self.socket().set_nonblocking(false).is_err() || ended
    }

    fn encrypt(&mut self, tls: &ServiceTls) -> io::Result<()> {
        if let Link::Clear(stream) = self {
            *self = Link::Encrypted(Box::new(tls.accept(*stream)?));
        }
        Ok(())
    }
}
