//! BF abort: an ordered action aborts a local transaction that holds its locks.
//!
//! Called on any thread, with locks of the server held: nothing here waits.
//!
//! A victim that is with the group is not told to the server as aborted: the server would answer
//! error 1213 for it whatever becomes of it, and its client would repeat what the group may commit.
//! The aborter waits for its locks until the fate is known, which depends on no applier. If the
//! victim is ordered, `certify` then has it rolled back and replayed. A victim of which the last
//! piece is not sent is withdrawn instead: it lets go of its locks at once, however large it is.
//!
//! # Explanation
//!
//! `synod conflicts` says for which key a transaction has lost. The leader answers only to which
//! action. Both have their keys: the transaction here, the action in this server's log. So what
//! they have in common is found here, when the transaction is over: by the thread of a client that
//! has lost anyway.

use synod_binlog::write_set::WriteSet;
use synod_commands::unix_ms;
use synod_node::{KeySet, Pending, ProposalResult, Seqno};

use crate::api::{AbortOutcome, Status};
use crate::connection::session::Session;
use crate::status::conflicts::{Loser, Loss};
use crate::transaction::streamed_transactions::abort_fragment;
use crate::transaction::{Gathered, Phase, Transaction};

/// Aborts a local transaction for an action of higher priority. Waits for nothing.
pub(crate) fn abort(session: &Session, bf_seqno: i64, victim: u64) -> AbortOutcome {
    let Some(transaction) = session.server.transactions.by_trx(victim) else {
        return abort_outcome(Status::Ok, -1);
    };
    let mut gathered = transaction.lock();
    if gathered.is_fragment() {
        return abort_fragment(session, &transaction, gathered);
    }
    match gathered.phase.clone() {
        Phase::Executing => {
            if !std::mem::replace(&mut gathered.must_abort, true) {
                count_abort(&mut gathered, bf_seqno);
            }
            session.sequencer.interrupt_waits(&transaction.interrupted);
            abort_outcome(Status::Ok, -1)
        }
        Phase::Certifying(pending) if pending.withdraw() => {
            if !std::mem::replace(&mut gathered.must_abort, true) {
                count_abort(&mut gathered, bf_seqno);
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
            let interrupted = session.sequencer.interrupt(seqno, &transaction.interrupted);
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
            session.sequencer.interrupt_waits(&transaction.interrupted);
            abort_outcome(Status::NotAllowed, -1)
        }
    }
}

/// Counts a transaction that loses without having had a place in the order.
fn count_abort(gathered: &mut Gathered, bf_seqno: i64) {
    let by = (bf_seqno >= 0).then_some(bf_seqno);
    gathered.note_loss(Loss::Aborted { by });
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

pub(super) fn abort_outcome(status: Status, victim_seqno: i64) -> AbortOutcome {
    AbortOutcome {
        status,
        victim_seqno,
    }
}

/// A transaction with more keys than this is not explained.
const KEYS_MAX: usize = 1024;

/// The keys of a transaction that is under way, if they are few.
pub(super) fn kept(keys: KeySet) -> KeySet {
    if keys.len() <= KEYS_MAX {
        keys
    } else {
        KeySet::new()
    }
}

/// Counts a transaction that has lost, with its keys. It is over: it holds no locks,
/// and what it has lost to was delivered here, unless that took too long.
pub(super) fn explain_loss(session: &Session, transaction: &Transaction) {
    let mut gathered = transaction.lock();
    let Some((loss, at_ms)) = gathered.loss.take() else {
        return;
    };
    let keys = std::mem::take(&mut gathered.keys);
    let touched = std::mem::take(&mut gathered.touched);
    let connection = (gathered.conn != u64::MAX).then_some(gathered.conn);
    drop(gathered);
    let winner = loss
        .to()
        .and_then(|seqno| session.node()?.ordered_action(Seqno(seqno)));
    let found = winner.as_ref().map(|winner| keys.conflicting(&winner.keys));
    session.server.counters.conflicts.count(Loser {
        at_ms,
        loss,
        connection,
        winner: winner.map(|winner| {
            let write_set = WriteSet::decode(-1, winner.data).ok();
            (winner.origin.member, write_set.map(|set| set.conn))
        }),
        tables: touched.names().collect(),
        keys: touched.describe(&found.unwrap_or_default()),
    });
}

impl Gathered {
    /// Notes that the transaction has lost; counted when it is over.
    pub(super) fn note_loss(&mut self, loss: Loss) {
        self.loss = Some((loss, unix_ms()));
    }
}
