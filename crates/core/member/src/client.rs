//! Clients that wait for the result of a proposal, as the driver sees them. A host's thread submits
//! an action and waits on a [`Client`]. The driver holds it through a [`Waiter`] and ends the wait
//! with a [`ProposalResult`]. The first result wins: the driver and the client itself, which may
//! give up, race for it. [`ResultSlot`] is that rule for implementations of [`Client`]; locking and
//! waking are theirs.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use synod_consensus::Seqno;
use synod_planted::planted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalResult {
    Ordered {
        seqno: Seqno,
        /// The last action that other members must apply before it.
        depends_on: Seqno,
    },
    /// Refused: it conflicts with an action ordered before it.
    Conflict {
        /// Seqno of the action ordered before it; undefined if the leader no longer knows it.
        with: Seqno,
    },
    /// Refused by the leader: its snapshot position is older than the certification window. The
    /// client may try again.
    TooOld,
    /// Not ordered: its first chunks were discarded, or the leader does not know them. The client
    /// may try again.
    GivenUp,
    /// Refused by the leader: the group takes the leader's writes only, and this member does not
    /// lead; or it does, and its database had not applied what preceded its term.
    NotWriter,
    /// Refused by the leader for another reason, which was logged.
    Rejected,
    /// The group was lost before the result was known. The action may still be ordered; it is then
    /// delivered like one of another member.
    Unknown,
    /// Withdrawn by its client before its last piece was handed over: it will never be ordered.
    Withdrawn,
    /// There was no group to propose it to. The action was not sent and will never be ordered.
    NotProposed,
}

/// How long a client waits for a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Until the group is lost; the result is then [`ProposalResult::Unknown`].
    #[default]
    UntilGroupLost,
    /// Until the result is known, however long the group is lost, or until the node stops. For an
    /// action that its origin could not finish after an unknown result.
    UntilKnown,
}

/// A client that waits for the result of its proposal. Its methods never block.
pub trait Client: Send + Sync {
    fn patience(&self) -> WaitPolicy {
        WaitPolicy::default()
    }
    /// Whether there is a result already: one from the driver, or because the client gave up.
    fn is_decided(&self) -> bool;
    /// Ends the wait with this result, unless there is one already. Returns whether it did.
    fn decide(&self, result: ProposalResult) -> bool;
}

/// The result of one proposal, once there is one. The owner sees to locking and waking.
#[derive(Debug, Default)]
pub struct ResultSlot {
    result: Option<ProposalResult>,
    /// The epoch of this session's locks, see [`crate::Shared::epoch`]; none in tests.
    epoch: Option<Arc<AtomicU64>>,
}

impl ResultSlot {
    /// An empty slot; `epoch` is that of the member, see [`crate::Shared::epoch`].
    pub fn new(epoch: Arc<AtomicU64>) -> ResultSlot {
        ResultSlot {
            result: None,
            epoch: Some(epoch),
        }
    }

    pub fn result(&self) -> Option<ProposalResult> {
        self.result
    }

    /// Sets the result, unless there is one already. Returns whether it did.
    pub fn decide(&mut self, result: ProposalResult) -> bool {
        let is_first = self.result.is_none();
        self.result.get_or_insert(result);
        is_first
    }

    /// The client stops waiting: without a result so far, [`ProposalResult::Unknown`] is the
    /// result. Returns the result.
    pub fn give_up(&mut self) -> ProposalResult {
        if let Some(result) = self.result {
            return result;
        }
        // Before the client releases its locks. The transaction that gets them next has not seen
        // this action; in the same epoch, certification would assume that it has.
        if let Some(epoch) = &self.epoch {
            let lost_locks = planted!(NoEpoch, 1, else 0);
            epoch.fetch_add(lost_locks, Ordering::AcqRel);
        }
        self.result = Some(ProposalResult::Unknown);
        ProposalResult::Unknown
    }
}

/// The driver's hold on a [`Client`]. No client waits for ever: dropping the hold ends the wait.
pub struct Waiter(Option<Arc<dyn Client>>);

impl Waiter {
    /// Holds `client`. If the hold is dropped before there is a result, the wait ends with
    /// [`ProposalResult::Unknown`].
    pub fn new(client: Arc<dyn Client>) -> Waiter {
        Waiter(Some(client))
    }

    /// Lets the client wait on: another piece of the action will bring the result.
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
            self.0.lock().unwrap().result().is_some()
        }

        fn decide(&self, result: ProposalResult) -> bool {
            self.0.lock().unwrap().decide(result)
        }
    }

    const CONFLICT: ProposalResult = ProposalResult::Conflict { with: Seqno(3) };

    #[test]
    fn first_result_wins() {
        let mut slot = ResultSlot::default();
        assert!(slot.decide(CONFLICT));
        assert!(!slot.decide(ProposalResult::Unknown));
        assert_eq!(slot.give_up(), CONFLICT);
    }

    #[test]
    fn giving_up_begins_a_new_epoch_unless_the_result_is_known() {
        let epoch = Arc::new(AtomicU64::new(4));
        let mut slot = ResultSlot::new(epoch.clone());
        assert_eq!(slot.give_up(), ProposalResult::Unknown);
        assert_eq!(epoch.load(Ordering::Acquire), 5);
        assert_eq!(slot.give_up(), ProposalResult::Unknown);
        assert_eq!(epoch.load(Ordering::Acquire), 5);
    }

    #[test]
    fn dropped_waiter_ends_the_wait() {
        let client = Arc::new(Waiting::default());
        drop(Waiter::new(client.clone()));
        assert_eq!(
            client.0.lock().unwrap().result(),
            Some(ProposalResult::Unknown)
        );
        let other = Arc::new(Waiting::default());
        Waiter::new(other.clone()).release();
        assert!(!other.is_decided());
    }
}
