//! The connection to a server: packets on a socket, in clear or encrypted, that one thread reads
//! while another one may write.
//!
//! Encryption has a state that both directions change. So the reading thread waits for the socket
//! without the lock of that state, and takes it only for bytes that are there.
//!
//! A packet is three bytes of length, one that counts packets, then the payload. A payload of the
//! greatest length is continued by the next packet.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConnection;

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 64 << 10;

/// A connection; its clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: TcpStream,
    encryption: Option<Mutex<ClientConnection>>,
    stopped: AtomicBool,
}

impl Link {
    pub(crate) fn clear(socket: TcpStream) -> Link {
        Link::of(socket, None)
    }

    /// Does the handshake; everything after it is encrypted.
    pub(crate) fn encrypted(
        mut socket: TcpStream,
        mut state: ClientConnection,
    ) -> io::Result<Link> {
        while state.is_handshaking() {
            state.complete_io(&mut socket)?;
        }
        Ok(Link::of(socket, Some(Mutex::new(state))))
    }

    fn of(socket: TcpStream, encryption: Option<Mutex<ClientConnection>>) -> Link {
        Link(Arc::new(Inner {
            socket,
            encryption,
            stopped: AtomicBool::default(),
        }))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.0.socket
    }

    pub(crate) fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.0.socket.set_read_timeout(Some(limit))
    }

    /// Ends it: a waiting read returns at once.
    pub(crate) fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        // It may have ended already.
        let _ = self.0.socket.shutdown(Shutdown::Both);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// A reader of it. There must be one at a time.
    pub(crate) fn reader(&self) -> LinkReader {
        LinkReader {
            link: self.clone(),
            plain: Held::default(),
            sealed: Held::default(),
        }
    }

    /// Sends bytes, as a whole before those of other threads.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut socket = &self.0.socket;
        let Some(state) = &self.0.encryption else {
            return socket.write_all(bytes);
        };
        let mut state = lock(state);
        let mut rest = bytes;
        while !rest.is_empty() {
            // The state holds little: it takes a part, and more once that is sent.
            let taken = state.writer().write(rest)?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = rest.get(taken..).unwrap_or_default();
            while state.wants_write() {
                state.write_tls(&mut socket)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct LinkReader {
    link: Link,
    plain: Held,
    /// Received bytes, not decrypted yet.
    sealed: Held,
}

/// Bytes that have come, and were not taken yet.
#[derive(Debug, Default)]
struct Held {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Reads into the buffer, which is empty. It stays so where `from` ends.
    fn fill(&mut self, mut from: impl Read) -> io::Result<()> {
        (self.begin, self.end) = (0, 0);
        self.buffer.resize(READ_BYTES, 0);
        self.end = from.read(&mut self.buffer)?;
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.begin..self.end).unwrap_or_default()
    }
}

impl LinkReader {
    /// Fills the buffer, which is empty; at the end of the connection it stays so.
    fn fill(&mut self) -> io::Result<()> {
        let inner = &*self.link.0;
        let Some(state) = &inner.encryption else {
            return self.plain.fill(&inner.socket);
        };
        loop {
            match self.plain.fill(lock(state).reader()) {
                Ok(()) => return Ok(()),
                // The other side closed without a word about it; packets show if one is cut.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.sealed.is_empty() {
                self.sealed.fill(&inner.socket)?;
            }
            if self.sealed.is_empty() {
                return Ok(());
            }
            decrypt(&inner.socket, state, &mut self.sealed)?;
        }
    }
}

/// Decrypts some of the bytes that have come. What that gives is read before more is decrypted: the
/// state holds little, and refuses bytes beyond that.
fn decrypt(
    mut socket: &TcpStream,
    state: &Mutex<ClientConnection>,
    sealed: &mut Held,
) -> io::Result<()> {
    let mut state = lock(state);
    let taken = state.read_tls(&mut sealed.bytes())?;
    state.process_new_packets().map_err(io::Error::other)?;
    sealed.begin = match taken {
        // Nothing is taken after the end that the other side has announced.
        0 => sealed.end,
        taken => sealed.begin + taken,
    };
    // What the protocol itself answers, such as new keys.
    while state.wants_write() {
        state.write_tls(&mut socket)?;
    }
    Ok(())
}

impl Read for LinkReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.plain.is_empty() {
            self.fill()?;
        }
        let count = self.plain.bytes().read(out)?;
        self.plain.begin += count;
        Ok(count)
    }
}

/// Locks even if a thread panicked while holding it: the state is valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Payload of a packet that another one continues.
pub const PACKET_BYTES_MAX: usize = 0xff_ffff;

/// A payload, and the number of its last packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub payload: Vec<u8>,
    pub number: u8,
}

#[derive(Debug)]
pub enum PacketError {
    Io(io::Error),
    TooLarge,
}

impl From<io::Error> for PacketError {
    fn from(error: io::Error) -> PacketError {
        PacketError::Io(error)
    }
}

/// Takes a packet with those that continue it.
pub fn read_packet(from: &mut impl Read, bytes_max: usize) -> Result<Packet, PacketError> {
    let mut payload = Vec::new();
    loop {
        let mut header = [0; 4];
        from.read_exact(&mut header)?;
        let [a, b, c, number] = header;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if payload.len() + length > bytes_max {
            return Err(PacketError::TooLarge);
        }
        // Grows with what arrives: a length alone takes no memory.
        let taken = from.take(length as u64).read_to_end(&mut payload)?;
        if taken < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if length < PACKET_BYTES_MAX {
            return Ok(Packet { payload, number });
        }
    }
}

pub(crate) fn small_packet(number: u8, payload: &[u8]) -> Vec<u8> {
    debug_assert!(payload.len() < PACKET_BYTES_MAX, "statements are small");
    let [a, b, c, ..] = (payload.len() as u32).to_le_bytes();
    [&[a, b, c, number], payload].concat()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::{fs, thread};

    use synod_tls::{ForeignTls, ServiceTls, TlsFiles};

    use super::*;

    /// An encrypted connection, and the thread that serves its other side.
    fn link_to<T: Send + 'static>(
        serve: impl FnOnce(&mut dyn ReadWrite) -> T + Send + 'static,
    ) -> (Link, thread::JoinHandle<T>) {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/tls/tests/tls_data");
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        fs::copy(data.join("version1.key"), &key).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let service = ServiceTls::load(&TlsFiles {
            certificate: data.join("version1.pem"),
            key,
            authorities: None,
            password: None,
            ciphers: String::new(),
            names: synod_tls::TlsSettingNames::default(),
        });
        let service = service.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let serving = thread::spawn(move || {
            let mut stream = service.accept(far).unwrap();
            serve(&mut stream)
        });
        let tls = ForeignTls::load(&data.join("authority.pem"), false).unwrap();
        let link = Link::encrypted(near, tls.session("upstream").unwrap()).unwrap();
        (link, serving)
    }

    trait ReadWrite: Read + Write {}
    impl<T: Read + Write> ReadWrite for T {}

    fn bytes(count: u32) -> Vec<u8> {
        (0..count).map(|number| number as u8).collect()
    }

    #[test]
    fn much_that_has_come_encrypted_is_read_to_its_end() {
        let sent = bytes(100_000);
        let writes = sent.clone();
        let (link, serving) = link_to(move |stream| {
            stream.write_all(&writes).unwrap();
            stream.flush().unwrap();
        });
        serving.join().unwrap();
        let mut found = Vec::new();
        link.reader().read_to_end(&mut found).unwrap();
        assert!(found == sent, "{} bytes", found.len());
    }

    #[test]
    fn much_is_sent_encrypted() {
        let sent = bytes(1_000_000);
        let mut found = vec![0; sent.len()];
        let (link, serving) = link_to(move |stream| {
            stream.read_exact(&mut found).unwrap();
            found
        });
        link.send(&sent).unwrap();
        assert!(serving.join().unwrap() == sent);
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        for payload in [&b""[..], b"x", &[1; 1000]] {
            let bytes = small_packet(7, payload);
            let packet = read_packet(&mut &bytes[..], 1000).unwrap();
            assert_eq!((&*packet.payload, packet.number), (payload, 7));
            let cut = &bytes[..bytes.len() - 1];
            assert!(matches!(
                read_packet(&mut &*cut, 1000),
                Err(PacketError::Io(_))
            ));
        }
    }

    #[test]
    fn large_payload_is_put_together_and_bounded() {
        let mut bytes = vec![0xff, 0xff, 0xff, 3];
        bytes.resize(4 + PACKET_BYTES_MAX, 1);
        bytes.extend_from_slice(&[1, 0, 0, 4, 2]);
        let packet = read_packet(&mut &bytes[..], 32 << 20).unwrap();
        assert_eq!(
            (packet.payload.len(), packet.number),
            (PACKET_BYTES_MAX + 1, 4)
        );
        assert_eq!(packet.payload.last(), Some(&2));
        let refused = read_packet(&mut &bytes[..], PACKET_BYTES_MAX);
        assert!(matches!(refused, Err(PacketError::TooLarge)));
    }
}
