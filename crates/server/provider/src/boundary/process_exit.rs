//! Actions at the orderly end of the process.
//!
//! The server frees the provider *before* it closes its storage engines (seen with 10.11.19:
//! `free`, then InnoDB's shutdown, then the end of `main`). So nothing that the server calls tells
//! that the engines have closed. The C library's exit does: it comes last. The library is linked so
//! that it stays in memory until then (`-z nodelete`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

type Task = Box<dyn Fn() + Send>;

static TASKS: Mutex<Vec<Task>> = Mutex::new(Vec::new());

/// Has `task` run when the process ends by `exit`: not after a signal, nor after an abort. It must
/// not call the server, which is gone by then. False if the system has no room for it.
pub(crate) fn at_process_exit(task: impl Fn() + Send + 'static) -> bool {
    let mut tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the function stays in memory as long as the process lives.
    let registered = !tasks.is_empty() || unsafe { libc::atexit(on_exit) } == 0;
    if registered {
        tasks.push(Box::new(task));
    }
    registered
}

/// Runs what was registered, as at the end of the process. For tests, whose servers share one.
pub fn run_exit_tasks() {
    let tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    for task in tasks.iter() {
        task();
    }
}

extern "C" fn on_exit() {
    // The server is gone: a panic cannot be reported any more.
    let _ = catch_unwind(AssertUnwindSafe(run_exit_tasks));
}
