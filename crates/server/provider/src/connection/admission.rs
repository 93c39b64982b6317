//! Whether local actions may be proposed, and how many are under way.
//!
//! Read by every client's thread, so it has no lock. Threads that wait for a change of it wait at
//! the connection's state, under whose lock it is changed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The gate that each local action passes on its way to the group.
#[derive(Default)]
pub(crate) struct Admission {
    /// A leader with a quorum is heard.
    primary: AtomicBool,
    /// The connection has begun to end; never taken back.
    closing: AtomicBool,
    /// Local actions between their submission and their end.
    in_flight: AtomicUsize,
}

impl Admission {
    /// Whether actions may be proposed.
    pub(crate) fn is_primary(&self) -> bool {
        self.primary.load(Ordering::SeqCst) && !self.is_closing()
    }

    /// Whether the connection has begun to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// A leader with a quorum is heard, or is not.
    pub(crate) fn set_primary(&self, primary: bool) {
        self.primary.store(primary, Ordering::SeqCst);
    }

    /// No action is admitted any more.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Counts an action; false if it may not be proposed. It must be ended in both cases.
    ///
    /// Counted before the gate is read: a thread that has closed the gate and finds no action under
    /// way knows that none will be proposed.
    pub(crate) fn begin(&self) -> bool {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.is_primary()
    }

    /// An action is over; true if a closing connection waited for this one as the last.
    pub(crate) fn end(&self) -> bool {
        let before = self.in_flight.fetch_sub(1, Ordering::SeqCst);
        before == 1 && self.is_closing()
    }

    /// Whether no action is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_primary_that_is_not_closing_admits_actions() {
        let admission = Admission::default();
        assert!(!admission.begin());
        assert!(!admission.end(), "no disconnect waits");
        admission.set_primary(true);
        assert!(admission.begin());
        admission.close();
        assert!(!admission.is_primary());
        assert!(!admission.begin());
        assert!(!admission.end(), "one is under way");
        assert!(admission.end(), "that was the last one");
        assert!(admission.is_empty());
    }
}
