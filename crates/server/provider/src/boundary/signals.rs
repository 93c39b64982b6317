//! Orders to end that a starting server cannot hear yet.
//!
//! The server blocks signals before it starts its provider, and makes the thread that takes them
//! when its start is nearly over. Until then a SIGTERM stays pending, for as long as the server
//! waits for its group. Looking at what is pending takes nothing away: the server still gets it.

use std::mem::MaybeUninit;

/// The signals that end a server.
const ENDING: [(libc::c_int, &str); 3] = [
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
];

/// The signal that orders this process to end and that no thread has taken, if there is one. Only
/// on threads that block these signals, as those of [`super::spawn`] do.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_that_no_thread_takes_is_found() {
        let thread = super::super::spawn("synod-test", || {
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
