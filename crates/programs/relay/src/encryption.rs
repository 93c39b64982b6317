//! Encryption to readers: the relay's certificate, and a connection that becomes encrypted.
//!
//! A relay may vote, and a certificate for readers is no reason to be absent: it runs with one that
//! has expired, and without one that can be used.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use synod_tls::{
    ServiceCertificates, ServiceStream, ServiceTls, TlsError, TlsFiles, TlsSettingNames,
};

use crate::protocol::packet::Connection;
use crate::stalled_reader::{SILENCE_LIMIT, keep_alive};

/// Names of the relay's keys in texts about certificates.
const NAMES: TlsSettingNames = TlsSettingNames {
    certificate: "relay.tls_cert",
    key: "relay.tls_key",
    authorities: "the authorities of readers",
    password: "relay.tls_key_password_file",
    ciphers: "the ciphers",
    switch: "relay.tls_cert",
};

#[derive(Clone, Debug)]
pub struct Encryption {
    files: TlsFiles,
    /// Readers in clear are refused.
    pub is_required: bool,
}

impl Encryption {
    pub(crate) fn new(
        files: [PathBuf; 2],
        password: Option<PathBuf>,
        is_required: bool,
    ) -> Encryption {
        let [certificate, key] = files;
        let files = TlsFiles {
            certificate,
            key,
            authorities: None,
            password,
            ciphers: String::new(),
            names: NAMES,
        };
        Encryption { files, is_required }
    }

    pub fn load(&self) -> Result<ServiceTls, TlsError> {
        ServiceTls::load(&self.files)
    }

    pub(crate) fn begin(&self) -> Encrypting {
        Encrypting {
            certificates: ServiceCertificates::begin(self.files.clone()),
            is_required: self.is_required,
        }
    }
}

pub(crate) struct Encrypting {
    /// The certificate as its files have it, if they can be used.
    pub(crate) certificates: ServiceCertificates,
    pub(crate) is_required: bool,
}

/// So much is read at a time to see whether a connection has ended, in bytes.
const LOOK_BYTES: usize = 1024;
/// So often, if there is more. Readers say next to nothing during a dump.
const LOOKS: u32 = 16;

/// A socket that may have a deadline for all that is read and written until then. The limits of the
/// system are for each call, so a byte now and then would keep a caller.
#[derive(Clone)]
pub(crate) struct Socket<'a> {
    stream: &'a TcpStream,
    deadline: Cell<Option<Instant>>,
}

impl<'a> Socket<'a> {
    pub(crate) fn until(stream: &'a TcpStream, deadline: Instant) -> Socket<'a> {
        let deadline = Cell::new(Some(deadline));
        Socket { stream, deadline }
    }

    /// The time that is left; none: there is no deadline.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(deadline) = self.deadline.get() else {
            return Ok(None);
        };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.read(buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.stream.set_write_timeout(Some(left))?;
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

pub(crate) enum Link<'a> {
    Clear(Socket<'a>),
    Encrypted(Box<ServiceStream<Socket<'a>>>),
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
    fn socket(&self) -> &Socket<'_> {
        match self {
            Link::Clear(socket) => socket,
            Link::Encrypted(stream) => stream.socket(),
        }
    }

    fn set_nonblocking(&self, is_so: bool) -> bool {
        self.socket().stream.set_nonblocking(is_so).is_ok()
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
        let may_look = self.set_nonblocking(true);
        let ended = !may_look || self.look();
        !self.set_nonblocking(false) || ended
    }

    fn is_gone(&self) -> bool {
        let may_look = self.set_nonblocking(true);
        let is_there = match self.socket().stream.peek(&mut [0]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        !self.set_nonblocking(false) || !may_look || !is_there
    }

    fn may_be_silent(&self) -> io::Result<()> {
        let stream = self.socket().stream;
        keep_alive(stream)?;
        stream.set_read_timeout(Some(SILENCE_LIMIT))
    }

    fn lift_deadline(&mut self) {
        self.socket().deadline.set(None);
    }

    fn encrypt(&mut self, tls: &ServiceTls) -> io::Result<()> {
        if let Link::Clear(socket) = self {
            *self = Link::Encrypted(Box::new(tls.accept(socket.clone())?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::connection;
    use std::net::Shutdown;

    /// COM_QUIT, with its header.
    const QUIT: [u8; 5] = [1, 0, 0, 0, 1];

    #[test]
    fn reader_that_says_goodbye_has_ended() {
        let (mut reader, served) = connection();
        let limit = Duration::from_secs(60);
        let mut link = Link::Clear(Socket::until(&served, Instant::now() + limit));
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

    #[test]
    fn caller_with_a_byte_now_and_then_meets_the_deadline() {
        const LIMIT: Duration = Duration::from_millis(300);
        let (mut caller, served) = connection();
        let mut link = Link::Clear(Socket::until(&served, Instant::now() + LIMIT));
        let begun = Instant::now();
        let error = loop {
            caller.write_all(b"x").unwrap();
            if let Err(error) = link.read_exact(&mut [0; 2]) {
                break error;
            }
            caller.write_all(b"x").unwrap();
        };
        let limits = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(limits.contains(&error.kind()), "{error}");
        assert!(begun.elapsed() >= LIMIT);
        link.lift_deadline();
        served.set_read_timeout(None).unwrap();
        caller.write_all(b"y").unwrap();
        assert!(link.read(&mut [0]).is_ok());
    }
}
