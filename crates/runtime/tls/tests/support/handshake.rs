//! Handshakes over real sockets.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use synod_tls::{Tls, TlsHandshakeError, TlsStream};

/// A connection over loopback.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (called, _) = listener.accept().unwrap();
    for stream in [&caller, &called] {
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).unwrap();
        stream.set_write_timeout(limit).unwrap();
    }
    (caller, called)
}

/// One end after its handshake.
pub(crate) type Shaken = Result<TlsStream<TcpStream>, TlsHandshakeError>;

/// Both ends of a handshake.
pub(crate) fn shake(caller: &Tls, called: &Tls) -> (Shaken, Shaken) {
    let (near, far) = pair();
    let called = called.clone();
    let other = thread::spawn(move || called.accept(far));
    let near = caller.connect(near);
    (near, other.join().unwrap())
}

/// Result of the caller's first read.
pub(crate) fn first_word(stream: Shaken) -> String {
    match stream {
        Err(error) => error.to_string(),
        Ok(mut stream) => match stream.read(&mut [0; 16]) {
            Ok(len) => format!("{len} bytes"),
            Err(error) => error.to_string(),
        },
    }
}
