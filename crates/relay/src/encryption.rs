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

/// So much is read at a time to see whether a connection has ended, in bytes.
const LOOK_BYTES: usize = 1024;
/// So often, if there is more. Readers say next to nothing during a dump.
const LOOKS: u32 = 16;

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

    /// Whether reads that do not wait come to an end. What they give is passed over.
    fn look(&mut self) -> bool {
        let mut said = [0; LOOK_BYTES];
        for _ in 0..LOOKS {
            match self.read(&mut said) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
        false
    }
}

impl Connection for Link<'_> {
    fn has_ended(&mut self) -> bool {
        // A reader that leaves may say so first: the end is behind its words.
        let may_look = self.socket().set_nonblocking(true).is_ok();
        let ended = !may_look || self.look();
        self.socket().set_nonblocking(false).is_err() || ended
    }

    fn encrypt(&mut self, tls: &ServiceTls) -> io::Result<()> {
        if let Link::Clear(stream) = self {
            *self = Link::Encrypted(Box::new(tls.accept(*stream)?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};
    use std::time::{Duration, Instant};

    /// COM_QUIT, with its header.
    const QUIT: [u8; 5] = [1, 0, 0, 0, 1];

    #[test]
    fn reader_that_says_goodbye_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, _) = listener.accept().unwrap();
        let mut link = Link::Clear(&served);
        assert!(!link.has_ended());
        reader.write_all(&QUIT).unwrap();
        assert!(!link.has_ended(), "it is still there");
        reader.write_all(&QUIT).unwrap();
        reader.shutdown(Shutdown::Both).unwrap();
        let begun = Instant::now();
        while !link.has_ended() {
            assert!(begun.elapsed() < Duration::from_secs(10), "not seen");
        }
    }
}
