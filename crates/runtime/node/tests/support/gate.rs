//! A relay in front of a member that can be shut: messages that are on their way then are lost.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Forwards connections while it is open.
pub(crate) struct Gate {
    pub(crate) address: String,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    shut: AtomicBool,
    ended: AtomicBool,
    forwarded: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

impl State {
    fn keep(&self, stream: &TcpStream) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.push(stream.try_clone().unwrap());
    }

    fn hang_up(&self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in streams.drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Gate {
    pub(crate) fn to(target: String) -> Gate {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        let serving = state.clone();
        let accepting = thread::spawn(move || accept(&listener, &target, &serving));
        Gate {
            address,
            state,
            accepting: Some(accepting),
        }
    }

    pub(crate) fn shut(&self) {
        self.state.shut.store(true, Ordering::Release);
        self.state.hang_up();
    }

    /// Breaks the connections that exist; new connections pass.
    pub(crate) fn hang_up(&self) {
        self.state.hang_up();
    }

    /// Connections let through so far.
    pub(crate) fn forwarded(&self) -> usize {
        self.state.forwarded.load(Ordering::Acquire)
    }

    pub(crate) fn open(&self) {
        self.state.shut.store(false, Ordering::Release);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Release);
        self.state.hang_up();
        // Wakes the accepting thread.
        drop(TcpStream::connect(&self.address));
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, target: &str, state: &Arc<State>) {
    for stream in listener.incoming() {
        if state.ended.load(Ordering::Acquire) {
            return;
        }
        let Ok(caller) = stream else { continue };
        if state.shut.load(Ordering::Acquire) {
            continue;
        }
        let Ok(called) = TcpStream::connect(target) else {
            continue;
        };
        state.keep(&caller);
        state.keep(&called);
        // It may have been shut meanwhile, when these two were not kept yet.
        if state.shut.load(Ordering::Acquire) {
            state.hang_up();
            continue;
        }
        state.forwarded.fetch_add(1, Ordering::AcqRel);
        for (from, to) in [(&caller, &called), (&called, &caller)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            thread::spawn(move || forward(from, to));
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
