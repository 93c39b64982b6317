//! The encrypted connections that are open, with what their peers have proven.
//!
//! When the credentials of this member change, [`Security`](super::Security) closes those whose
//! peers it would refuse now. A connection is listed from the end of its handshake until its
//! channel is dropped.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use synod_member::lock;
use synod_tls::PeerProof;

/// Open connections, by a number of this table.
#[derive(Default)]
pub(super) struct OpenChannels(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    open: HashMap<u64, (TcpStream, PeerProof)>,
}

/// Keeps a connection in the table.
pub(super) struct Listed {
    table: Arc<OpenChannels>,
    number: u64,
}

impl OpenChannels {
    /// Lists a connection until what is returned is dropped.
    ///
    /// # Errors
    /// If the system has no file descriptor left.
    pub(super) fn list(
        self: &Arc<Self>,
        stream: &TcpStream,
        proof: PeerProof,
    ) -> io::Result<Listed> {
        let stream = stream.try_clone()?;
        let mut table = lock(&self.0);
        let number = table.next;
        table.next += 1;
        table.open.insert(number, (stream, proof));
        Ok(Listed {
            table: self.clone(),
            number,
        })
    }

    /// Closes the connections whose peers are not accepted; gives their number.
    pub(super) fn close_unless(&self, accepts: impl Fn(&PeerProof) -> bool) -> usize {
        let table = lock(&self.0);
        let refused = table.open.values().filter(|(_, proof)| !accepts(proof));
        refused
            // The thread that serves the connection sees its end. An error means that it is over.
            .inspect(|(stream, _)| drop(stream.shutdown(Shutdown::Both)))
            .count()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.table.0).open.remove(&self.number);
    }
}
