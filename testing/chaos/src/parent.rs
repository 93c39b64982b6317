//! Ends a process when the process that started it ends, for whatever reason.
//!
//! Members end with the run, and a run with the test that started it.

use std::process;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// From now on the kernel kills this process when its parent ends, even while this process is
/// stopped. (To be exact: when the *thread* of the parent ends that started it. Such threads must
/// stay.)
pub(crate) fn die_with(parent: i32) {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("cannot bind this process to its parent: {error}");
        process::exit(1);
    }
    // The parent may have ended before this call.
    if getppid() != Pid::from_raw(parent) {
        process::exit(1);
    }
}
