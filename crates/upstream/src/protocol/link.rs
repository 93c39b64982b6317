//! A socket, in clear or encrypted, that one thread reads while another one may write.
//!
//! Encryption has a state that both directions change. So the reading thread waits for the socket
//! without the lock of that state, and takes it only for bytes that are there.

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
    /// In clear.
    pub(crate) fn clear(socket: TcpStream) -> Link {
        Link::of(socket, None)
    }

    /// Does the handshake; everything after it is encrypted.
    ///
    /// # Errors
    /// The handshake failed.
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

    /// How long a read waits.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.0.socket.set_read_timeout(Some(limit))
    }

    /// Ends it: a waiting read returns at once.
    pub(crate) fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        // It may have ended already.
        let _ = self.0.socket.shutdown(Shutdown::Both);
    }

    /// Whether this side has ended it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// A reader of it. There must be one at a time.
    pub(crate) fn reader(&self) -> LinkReader {
        LinkReader {
            link: self.clone(),
            buffer: vec![0; READ_BYTES],
            begin: 0,
            end: 0,
        }
    }

    /// Sends bytes, as a whole before those of other threads.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut socket = &self.0.socket;
        let Some(state) = &self.0.encryption else {
            return socket.write_all(bytes);
        };
        let mut state = lock(state);
        state.writer().write_all(bytes)?;
        while state.wants_write() {
            state.write_tls(&mut socket)?;
        }
        Ok(())
    }
}

/// Reads from a link, through a buffer.
#[derive(Debug)]
pub(crate) struct LinkReader {
    link: Link,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl LinkReader {
    /// Fills the buffer, which is empty; at the end of the connection it stays so.
    fn fill(&mut self) -> io::Result<()> {
        (self.begin, self.end) = (0, 0);
        let inner = &*self.link.0;
        let Some(state) = &inner.encryption else {
            self.end = (&inner.socket).read(&mut self.buffer)?;
            return Ok(());
        };
        loop {
            match lock(state).reader().read(&mut self.buffer) {
                Ok(count) => {
                    self.end = count;
                    return Ok(());
                }
                // The other side closed without a word about it; packets show if one is cut.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if !decrypt(&inner.socket, state, &mut self.buffer)? {
                return Ok(());
            }
        }
    }
}

/// Waits for bytes, and decrypts them. Returns whether some came.
fn decrypt(
    mut socket: &TcpStream,
    state: &Mutex<ClientConnection>,
    buffer: &mut [u8],
) -> io::Result<bool> {
    let count = socket.read(buffer)?;
    let mut rest = buffer.get(..count).unwrap_or_default();
    let mut state = lock(state);
    while !rest.is_empty() {
        state.read_tls(&mut rest)?;
        state.process_new_packets().map_err(io::Error::other)?;
    }
    // What the protocol itself answers, such as new keys.
    while state.wants_write() {
        state.write_tls(&mut socket)?;
    }
    Ok(count > 0)
}

impl Read for LinkReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.begin == self.end {
            self.fill()?;
        }
        let mut held = self.buffer.get(self.begin..self.end).unwrap_or_default();
        let count = held.read(out)?;
        self.begin += count;
        Ok(count)
    }
}

/// Locks even if a thread panicked while holding it: the state is valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
