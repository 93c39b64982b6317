//! The socket for readers, opened as soon as its address can be had.
//!
//! A relay votes. Its address for readers may be another program's, or not be there yet (one that
//! moves between machines), and that is no reason for the group to lack a voter: the relay says so
//! each minute, and tries again.

use std::io;
use std::net::TcpListener;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two tries.
const RETRY: Duration = Duration::from_secs(1);
/// The reason is told again after this time.
const TELL: Duration = Duration::from_secs(60);

/// The socket for readers.
pub(crate) struct Listening {
    address: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    socket: Option<TcpListener>,
    has_ended: bool,
}

impl Listening {
    pub(crate) fn at(address: String) -> Listening {
        Listening {
            address,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits until the address can be had, and tells why it cannot; `None`: the relay has ended.
    /// The socket that is given shares its end with this one.
    pub(crate) fn open(&self, tell: impl Fn(&str)) -> Option<TcpListener> {
        let mut told: Option<Instant> = None;
        loop {
            match self.bind() {
                Ok(socket) => return socket,
                Err(error) => {
                    if told.is_none_or(|at| at.elapsed() >= TELL) {
                        told = Some(Instant::now());
                        tell(&format!(
                            "cannot listen for readers on {}: {error}. This relay votes, and \
                             serves no reader. It tries again by itself; if the address is wrong, \
                             correct relay.listen and restart it",
                            self.address
                        ));
                    }
                }
            }
            let state = self.lock();
            let waited = self
                .changed
                .wait_timeout_while(state, RETRY, |state| !state.has_ended);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn bind(&self) -> io::Result<Option<TcpListener>> {
        let mut state = self.lock();
        if state.has_ended {
            return Ok(None);
        }
        let socket = TcpListener::bind(&self.address)?;
        state.socket = Some(socket.try_clone()?);
        Ok(Some(socket))
    }

    /// Ends the wait of the thread that opens the socket, or accepts readers on it.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        if let Some(socket) = state.socket.take() {
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn address_that_is_taken_is_waited_for_and_the_reason_told_once() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let listening = Listening::at(address.to_string());
        let (tell, told) = mpsc::channel();
        thread::scope(|threads| {
            let opened =
                threads.spawn(|| listening.open(|text| tell.send(text.to_owned()).unwrap()));
            let text = told.recv().unwrap();
            assert!(
                text.contains("cannot listen for readers on 127.0.0.1:"),
                "{text}"
            );
            drop(taken);
            let socket = opened.join().unwrap().expect("the address is free");
            assert_eq!(socket.local_addr().unwrap(), address);
        });
        assert!(told.try_recv().is_err());
        let socket = listening
            .lock()
            .socket
            .as_ref()
            .unwrap()
            .try_clone()
            .unwrap();
        listening.end();
        assert!(socket.accept().is_err(), "the accepting thread ends, too");
    }

    #[test]
    fn relay_that_ends_does_not_wait_for_its_address() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = Listening::at(taken.local_addr().unwrap().to_string());
        let (tell, told) = mpsc::channel();
        thread::scope(|threads| {
            let opened = threads.spawn(|| listening.open(|_| tell.send(()).unwrap()).is_none());
            told.recv().unwrap();
            listening.end();
            assert!(opened.join().unwrap());
        });
    }
}
