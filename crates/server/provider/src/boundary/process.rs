//! This process: its threads, its signals, its end, and the program that takes its place.
//!
//! Signals belong to the server: threads of the provider block them.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::{fs, io};

/// Starts a thread with all signals blocked. Linux shows the first 15 bytes of the name.
pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        block_signals();
        body();
    })
}

fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set, which is ours; no old mask is asked for.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

// Orders to end that a starting server cannot hear yet. The server blocks signals before it starts
// its provider, and makes the thread that takes them when its start is nearly over. Until then a
// SIGTERM stays pending, for as long as the server waits for its group. Looking at what is pending
// takes nothing away: the server still gets it.

const ENDING: [(libc::c_int, &str); 3] = [
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
];

/// The signal that orders this process to end and that no thread has taken, if there is one. Only
/// on threads that block these signals, as those of [`spawn`] do.
pub(crate) fn pending_order_to_end() -> Option<&'static str> {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is ours to write.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: written by the successful call.
    let pending = unsafe { pending.assume_init() };
    // SAFETY: an initialised set, and numbers of signals.
    let is_pending = |signal| unsafe { libc::sigismember(&pending, signal) == 1 };
    ENDING
        .into_iter()
        .find_map(|(signal, name)| is_pending(signal).then_some(name))
}

// Actions at the orderly end of the process. The server frees the provider *before* it closes its
// storage engines (seen with 10.11.19: `free`, then InnoDB's shutdown, then the end of `main`). So
// nothing that the server calls tells that the engines have closed. The C library's exit does: it
// comes last. The library is linked so that it stays in memory until then (`-z nodelete`).

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

/// Exit status of a server that was to begin a group and could not. The unit of the packages knows
/// it: see `packaging/systemd/mariadb.service.d/synod.conf`.
const BEGINS_NOTHING: libc::c_int = 3;

/// Ends this process at once if it was started to begin a group. A service manager that starts it
/// again does so without that option, and the server would join a group that it finds, which
/// replaces its data: by the status it knows that a person has to decide. The server has not opened
/// its storage engines yet, or recovers them as after a crash.
pub(crate) fn end_if_started_to_begin() {
    let begins = |word: OsString| {
        let word = word.to_string_lossy().replace('_', "-");
        word == "--wsrep-new-cluster" || word == "--wsrep-new-cluster=1"
    };
    if std::env::args_os().any(begins) {
        // SAFETY: runs nothing of this process any more.
        unsafe { libc::_exit(BEGINS_NOTHING) };
    }
}

/// Files from this number on are the server's own; those below are standard input and outputs.
const FIRST_OWN_FILE: libc::c_int = 3;

/// Has every file of the server close when another program takes its place: its data files, whose
/// locks would be kept otherwise, and its sockets, whose ports would.
pub(crate) fn close_files_on_exec() -> std::io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(file) = number.filter(|file| *file >= FIRST_OWN_FILE) else {
            continue;
        };
        // SAFETY: changes a flag of a descriptor; one that is closed by now is refused.
        unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_that_no_thread_takes_is_found() {
        let thread = spawn("synod-test", || {
            assert_eq!(pending_order_to_end(), None);
            // SAFETY: to this thread, which blocks all signals and ends with them pending.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGHUP) };
            assert_eq!(pending_order_to_end(), None, "no order to end");
            // SAFETY: as above.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            assert_eq!(pending_order_to_end(), Some("SIGTERM"));
        });
        thread.unwrap().join().unwrap();
    }
}
