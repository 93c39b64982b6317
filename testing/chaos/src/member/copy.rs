//! Full copies: a joiner that cannot catch up from the log gets the whole database of a donor.
//!
//! The joiner names a socket in its request, and the donor writes the copy to it.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use synod_node::{DataState, DonorRequest, Node, Seqno, View};

use super::host::StoreHost;
use crate::database::Database;

/// The socket, in the joiner's directory.
const COPY_SOCKET: &str = "copy.sock";
/// Time after which the joiner asks again.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// Longest time of a write to the joiner; after it the copy fails.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Longest time until the donor has applied what the joiner needs.
const APPLY_LIMIT: Duration = Duration::from_secs(10);

/// Asks until a complete copy has arrived.
pub(crate) fn take(dir: &Path, node: &Node, view: &View) -> std::io::Result<Database> {
    let path = dir.join(COPY_SOCKET);
    let copies = listen(dir, &path)?;
    loop {
        let address = Bytes::copy_from_slice(path.as_os_str().as_bytes());
        node.request_state(view.seqno, Vec::new(), true, address);
        if let Ok(database) = copies.recv_timeout(ASK_AGAIN) {
            return Ok(database);
        }
    }
}

/// Receives the first complete copy.
fn listen(dir: &Path, path: &Path) -> std::io::Result<Receiver<Database>> {
    // A process that was killed may have left its socket.
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    let (whole, copies) = channel();
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            match Database::receive(&dir, stream) {
                // The first one counts: a later one would replace the file of a database in use.
                Ok(Some(database)) => return whole.send(database).unwrap_or(()),
                Ok(None) => eprintln!("a copy was incomplete"),
                Err(error) => eprintln!("a copy failed: {error}"),
            }
        }
    });
    Ok(copies)
}

/// Sends a copy, on a thread of its own.
pub(crate) fn give(node: Arc<Node>, host: Arc<StoreHost>, request: DonorRequest) {
    std::thread::spawn(move || {
        let fit = host.change(|state| {
            let fit = state.synced && !state.donating;
            state.donating |= fit;
            fit
        });
        if !fit {
            let why = "not synced, or giving a copy already".to_owned();
            return node.answer_state_request(request.id, request.joiner, false, why);
        }
        node.answer_state_request(request.id, request.joiner, true, String::new());
        node.set_data_state(DataState::Donor);
        let (code, text, seqno) = match send(&host, &request) {
            Ok(seqno) => (0, String::new(), seqno),
            Err(error) => (1, error.to_string(), Seqno::UNDEFINED),
        };
        eprintln!("gave a copy at {seqno}: {code} {text}");
        node.finish_donation(request.id, request.joiner, seqno, code, text);
        host.change(|state| state.donating = false);
        node.set_data_state(DataState::Synced);
    });
}

fn send(host: &StoreHost, request: &DonorRequest) -> std::io::Result<Seqno> {
    if !host.wait_applied(request.after.0, APPLY_LIMIT) {
        return Err(std::io::Error::other("the donor lags"));
    }
    let (copy, position) = {
        let state = host.lock();
        (state.database.copy()?, state.database.position())
    };
    let path = Path::new(std::ffi::OsStr::from_bytes(&request.request));
    let mut stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(WRITE_LIMIT))?;
    stream.write_all(&copy)?;
    Ok(Seqno(position))
}
