//! No process outlives the one that started it, however that ends.

use std::process;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// From here on the kernel kills this process when its parent ends: even one that is stopped. (When the
/// parent's *thread* ends that started it, to be exact, so processes are started by threads that stay.)
pub(crate) fn die_with(parent: i32) {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("cannot bind this process to its parent: {error}");
        process::exit(1);
    }
    // It may have ended before the kernel was asked.
    if getppid() != Pid::from_raw(parent) {
        process::exit(1);
    }
}
