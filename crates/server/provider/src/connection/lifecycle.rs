//! Lifecycle of a connection from its start to its final view, as operators see it, and the gate
//! that each local action passes on its way to the group.
//!
//! Two states are final: a connection that has failed keeps its first reason, and a server that is
//! inconsistent stays so until it is started again.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use synod_node::Remedy;

use crate::status::LocalState;

#[derive(Default)]
pub(crate) struct Lifecycle {
    local: LocalState,
    failure: Option<String>,
    remedy: Option<Remedy>,
    node_ends: bool,
    tracked: bool,
    ended: bool,
    released: bool,
}

impl Lifecycle {
    pub(crate) fn local(&self) -> LocalState {
        self.local
    }

    /// Changes what is shown; false if the server is inconsistent, which it stays.
    pub(crate) fn set_local(&mut self, local: LocalState) -> bool {
        let may_change = !self.is_inconsistent();
        if may_change {
            self.local = local;
        }
        may_change
    }

    /// Whether the server has its place in the group: its database has, or will get in order, what
    /// the group has.
    pub(crate) fn has_place(&self) -> bool {
        match self.local {
            LocalState::Joined | LocalState::Synced | LocalState::DonorDesynced => true,
            LocalState::Initialized
            | LocalState::Joining
            | LocalState::ReceivingStateTransfer
            | LocalState::Inconsistent => false,
        }
    }

    /// Whether the data may differ from the other servers'.
    pub(crate) fn is_inconsistent(&self) -> bool {
        self.local == LocalState::Inconsistent
    }

    pub(crate) fn failure(&self) -> Option<&String> {
        self.failure.as_ref()
    }

    /// The connection fails, and this brings the server back; true for the first failure, whose
    /// reason is kept.
    pub(crate) fn fail(&mut self, why: &str, remedy: Remedy) -> bool {
        let first = self.failure.is_none();
        self.failure.get_or_insert_with(|| why.to_owned());
        self.remedy.get_or_insert(remedy);
        first
    }

    /// The connection fails because the data may differ, which counts more than any other failure;
    /// true the first time.
    pub(crate) fn fail_as_inconsistent(&mut self, why: &str, remedy: Remedy) -> bool {
        self.fail(why, remedy);
        self.remedy = Some(remedy);
        let first = !self.is_inconsistent();
        self.local = LocalState::Inconsistent;
        first
    }

    pub(crate) fn remedy(&self) -> Option<Remedy> {
        self.remedy
    }

    pub(crate) fn node_ends(&mut self) {
        self.node_ends = true;
    }

    /// Whether this member can continue to vote although its database leaves the group.
    pub(crate) fn keeps_vote(&self) -> bool {
        self.failure.is_some() && !self.node_ends
    }

    /// The sequencer's position is the database's from now on.
    pub(crate) fn track(&mut self) {
        self.tracked = true;
    }

    /// Whether the sequencer's position is the database's. Before, a copy may replace it.
    pub(crate) fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// Whether the position may be saved as that of a database at rest.
    pub(crate) fn may_save_position(&self) -> bool {
        self.tracked && !self.ended && !self.is_inconsistent()
    }

    /// The server ends, or connects again: what becomes of this connection is its own affair.
    pub(crate) fn release(&mut self) {
        self.released = true;
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.set_local(LocalState::Initialized);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }
}

#[derive(Default)]
pub(crate) struct Admission {
    /// A leader with a quorum is heard.
    primary: AtomicBool,
    closing: AtomicBool,
    /// Local actions between their submission and their end.
    in_flight: AtomicUsize,
}

impl Admission {
    pub(crate) fn is_primary(&self) -> bool {
        self.primary.load(Ordering::SeqCst) && !self.is_closing()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(crate) fn set_primary(&self, primary: bool) {
        self.primary.store(primary, Ordering::SeqCst);
    }

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

    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_is_the_one_that_is_told() {
        let mut lifecycle = Lifecycle::default();
        assert!(lifecycle.fail("no disk", Remedy::Restart));
        assert!(!lifecycle.fail("no group", Remedy::Operator));
        assert_eq!(lifecycle.failure().unwrap(), "no disk");
        assert_eq!(lifecycle.remedy(), Some(Remedy::Restart));
        assert!(lifecycle.fail_as_inconsistent("differs", Remedy::Operator));
        assert_eq!(lifecycle.remedy(), Some(Remedy::Operator));
    }

    #[test]
    fn inconsistent_is_final_and_saves_no_position() {
        let mut lifecycle = Lifecycle::default();
        lifecycle.track();
        assert!(lifecycle.may_save_position());
        assert!(lifecycle.fail_as_inconsistent("differs", Remedy::Operator));
        assert!(!lifecycle.fail_as_inconsistent("differs", Remedy::Operator));
        assert!(!lifecycle.set_local(LocalState::Synced));
        lifecycle.end();
        assert_eq!(lifecycle.local(), LocalState::Inconsistent);
        assert!(!lifecycle.may_save_position());
    }

    #[test]
    fn position_is_not_saved_twice() {
        let mut lifecycle = Lifecycle::default();
        assert!(!lifecycle.may_save_position(), "the database is not known");
        lifecycle.track();
        lifecycle.end();
        assert!(!lifecycle.may_save_position());
        assert_eq!(lifecycle.local(), LocalState::Initialized);
    }

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
