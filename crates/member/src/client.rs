//! Whoever waits for an action, as the driver sees it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use synod_consensus::Seqno;

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalResult {
    /// Committed in the log at this position.
    Ordered {
        /// Its position.
        seqno: Seqno,
        /// The last position that must be applied before it, on other members.
        depends_on: Seqno,
    },
    /// Refused by the leader: it conflicts with an action ordered before it.
    Conflict {
        /// That action's position; undefined if the leader no longer knows.
        with: Seqno,
    },
    /// Refused by the leader: its snapshot is older than the certification window. Try again.
    TooOld,
    /// Not ordered: the group has given up the first part of it, or its leader does not know that part. May be
    /// tried again.
    GivenUp,
    /// Refused by the leader for another reason, which was logged.
    Rejected,
    /// The group was lost before the outcome was known. It may still turn out to be ordered; it is
    /// then delivered like another member's.
    Unknown,
    /// There was no group to propose it to: it is nowhere, and will never be.
    NotProposed,
}

/// How long an action is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Until the group is lost; then its fate is unknown.
    #[default]
    UntilGroupLost,
    /// Until its fate is known, however long the group is lost, or the node stops. For an action
    /// that its origin could not finish after giving it up.
    UntilKnown,
}

/// Somebody who waits for an action's fate. Never blocks.
pub trait Client: Send + Sync {
    /// How long it waits.
    fn patience(&self) -> WaitPolicy {
        WaitPolicy::default()
    }
    /// Whether the fate is known already, or nobody waits for it any longer.
    fn is_decided(&self) -> bool;
    /// Decides. The first decision stands; returns whether this was it.
    fn decide(&self, fate: ProposalResult) -> bool;
}

/// The fate of one action, once there is one. Its owner sees to locking and waking.
#[derive(Debug, Default)]
pub struct ResultSlot {
    fate: Option<ProposalResult>,
    /// See `Shared::epoch`.
    epoch: Option<Arc<AtomicU64>>,
}

impl ResultSlot {
    /// Undecided; `epoch` is the member's, see [`crate::Shared::epoch`].
    pub fn new(epoch: Arc<AtomicU64>) -> ResultSlot {
        ResultSlot {
            fate: None,
            epoch: Some(epoch),
        }
    }

    /// The fate, if known.
    pub fn fate(&self) -> Option<ProposalResult> {
        self.fate
    }

    /// Decides. The first decision stands; returns whether this was it.
    pub fn decide(&mut self, fate: ProposalResult) -> bool {
        let is_first = self.fate.is_none();
        self.fate.get_or_insert(fate);
        is_first
    }

    /// Nobody waits any longer: what is not decided yet ends as [`ProposalResult::Unknown`]. The fate.
    pub fn give_up(&mut self) -> ProposalResult {
        if let Some(fate) = self.fate {
            return fate;
        }
        // Before the client lets go of its locks: whoever gets them next must not be taken for
        // somebody who has seen this action.
        if let Some(epoch) = &self.epoch
            && !synod_planted::is(synod_planted::Bug::NoEpoch)
        {
            epoch.fetch_add(1, Ordering::AcqRel);
        }
        self.fate = Some(ProposalResult::Unknown);
        ProposalResult::Unknown
    }
}

/// The driver's hold on a [`Client`]: nobody waits for ever, even if it is dropped on the way.
pub struct Waiter(Option<Arc<dyn Client>>);

impl Waiter {
    /// Whoever drops it undecided ends the wait with [`ProposalResult::Unknown`].
    pub fn new(client: Arc<dyn Client>) -> Waiter {
        Waiter(Some(client))
    }

    /// Lets go without a decision: another piece of the action will bring it.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Deref for Waiter {
    type Target = dyn Client;

    fn deref(&self) -> &(dyn Client + 'static) {
        &**self.0.as_ref().expect("only emptied when consumed")
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            client.decide(ProposalResult::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Waiting(Mutex<ResultSlot>);

    impl Client for Waiting {
        fn is_decided(&self) -> bool {
            self.0.lock().unwrap().fate().is_some()
        }

        fn decide(&self, fate: ProposalResult) -> bool {
            self.0.lock().unwrap().decide(fate)
        }
    }

    const CONFLICT: ProposalResult = ProposalResult::Conflict { with: Seqno(3) };

    #[test]
    fn first_decision_stands() {
        let mut outcome = ResultSlot::default();
        assert!(outcome.decide(CONFLICT));
        assert!(!outcome.decide(ProposalResult::Unknown));
        assert_eq!(outcome.give_up(), CONFLICT);
    }

    #[test]
    fn giving_up_begins_a_new_epoch_unless_the_fate_is_known() {
        let epoch = Arc::new(AtomicU64::new(4));
        let mut outcome = ResultSlot::new(epoch.clone());
        assert_eq!(outcome.give_up(), ProposalResult::Unknown);
        assert_eq!(epoch.load(Ordering::Acquire), 5);
        assert_eq!(outcome.give_up(), ProposalResult::Unknown);
        assert_eq!(epoch.load(Ordering::Acquire), 5);
    }

    #[test]
    fn waiter_dropped_on_the_way_ends_the_wait() {
        let client = Arc::new(Waiting::default());
        drop(Waiter::new(client.clone()));
        assert_eq!(
            client.0.lock().unwrap().fate(),
            Some(ProposalResult::Unknown)
        );
        let other = Arc::new(Waiting::default());
        Waiter::new(other.clone()).release();
        assert!(!other.is_decided());
    }
}
