//! Starting threads: named, and with all signals blocked, since those belong to the program that
//! hosts the node.

use std::thread::{Builder, JoinHandle};

use nix::sys::signal::SigSet;

use crate::config::NodeError;

/// Starts a thread. Linux shows the first 15 bytes of the name.
pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, NodeError> {
    Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            // Cannot fail with a valid set; if it did, the host's handlers would still be right.
            let _ = SigSet::all().thread_block();
            body();
        })
        .map_err(|source| NodeError::Thread { name: name.to_owned(), source })
}
