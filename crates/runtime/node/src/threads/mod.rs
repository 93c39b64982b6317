//! The threads of a node, and what each of them runs.
//!
//! All are named, and block all signals, which belong to the program that hosts the node. A thread
//! that panics ends the node as a failed disk does: see [`spawn_vital`].

pub(crate) mod core;
pub(crate) mod delivery;
pub(crate) mod disk;
mod driving;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::SigSet;

use crate::config::NodeError;

/// Starts a thread that the node cannot run without. If it panics, `on_panic` gets the reason.
pub(crate) fn spawn_vital(
    name: &'static str,
    on_panic: impl FnOnce(String) + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, NodeError> {
    spawn(name, move || {
        // Nothing of the body's state is used after a panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("no reason given");
            on_panic(format!("thread {name} failed by an internal error: {text}"));
        }
    })
}

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
        .map_err(|source| NodeError::Thread {
            name: name.to_owned(),
            source,
        })
}
