//! BF abort: an ordered action aborts a local transaction that holds its locks.
//!
//! Called on any thread, with locks of the server held: nothing here waits.
//!
//! A victim that is with the group is not told to the server as aborted: the server would answer
//! error 1213 for it whatever becomes of it, and its client would repeat what the group may commit.
//! The aborter waits for its locks until the fate is known, which depends on no applier. If the
//! victim is ordered, `certify` then has it rolled back and replayed. A victim of which the last
//! piece is not sent is withdrawn instead: it lets go of its locks at once, however large it is.

use synod_node::{Pending, ProposalResult};

use crate::api::{AbortOutcome, Status};
use crate::connection::Connection;
use crate::status::conflicts::Loss;
use crate::transaction::{Gathered, Phase};

impl Connection {
    /// Aborts a local transaction for an action of higher priority. Waits for nothing.
    pub(crate) fn abort(&self, bf_seqno: i64, victim: u64) -> AbortOutcome {
        let Some(transaction) = self.shared.transactions.by_trx(victim) else {
            return abort_outcome(Status::Ok, -1);
        };
        let mut gathered = transaction.lock();
        if gathered.is_fragment() {
            return self.abort_fragment(&transaction, gathered);
        }
        match gathered.phase.clone() {
            Phase::Executing => {
                if !std::mem::replace(&mut gathered.must_abort, true) {
                    self.count_abort(&mut gathered, bf_seqno);
                }
                self.sequencer.interrupt_waits(&transaction.interrupted);
                abort_outcome(Status::Ok, -1)
            }
            Phase::Certifying(pending) if pending.withdraw() => {
                if !std::mem::replace(&mut gathered.must_abort, true) {
                    self.count_abort(&mut gathered, bf_seqno);
                }
                abort_outcome(Status::NotAllowed, -1)
            }
            Phase::Certifying(pending) => {
                let seqno = ordered_at(&pending);
                gathered.must_abort |= !seqno.is_some_and(|seqno| is_before(seqno, bf_seqno));
                abort_outcome(Status::NotAllowed, seqno.unwrap_or(-1))
            }
            // Aborted already, or first in the order.
            Phase::Ordered(seqno) if gathered.must_abort || is_before(seqno, bf_seqno) => {
                abort_outcome(Status::NotAllowed, seqno)
            }
            Phase::Ordered(seqno) => {
                let interrupted = self.sequencer.interrupt(seqno, &transaction.interrupted);
                gathered.must_abort |= interrupted;
                let status = if interrupted {
                    Status::Ok
                } else {
                    Status::NotAllowed
                };
                abort_outcome(status, seqno)
            }
            Phase::Entered(seqno) | Phase::Left(seqno) | Phase::Replaying(seqno) => {
                abort_outcome(Status::NotAllowed, seqno)
            }
            Phase::Failed => {
                // On its way to its rollback: no more waiting.
                self.sequencer.interrupt_waits(&transaction.interrupted);
                abort_outcome(Status::NotAllowed, -1)
            }
        }
    }

    /// Counts a transaction that loses without having had a place in the order.
    fn count_abort(&self, gathered: &mut Gathered, bf_seqno: i64) {
        let by = (bf_seqno >= 0).then_some(bf_seqno);
        gathered.note_loss(Loss::Aborted { by });
    }
}

/// Whether the victim is ordered before the aborter. -1: the aborter has no place, it always wins.
fn is_before(victim: i64, bf_seqno: i64) -> bool {
    bf_seqno >= 0 && victim < bf_seqno
}

fn ordered_at(pending: &Pending) -> Option<i64> {
    match pending.result() {
        Some(ProposalResult::Ordered { seqno, .. }) => Some(seqno.0),
        _ => None,
    }
}

/// An answer about a victim.
pub(crate) fn abort_outcome(status: Status, victim_seqno: i64) -> AbortOutcome {
    AbortOutcome {
        status,
        victim_seqno,
    }
}
