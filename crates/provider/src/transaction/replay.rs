//! Replay: a transaction that was aborted after it was ordered is applied again in its place.
//!
//! Called by the server on the client's own thread, after the rollback.

use synod_node::ProposalResult;

use crate::api::{ReplayContext, Status, TrxHandle};
use crate::connection::Connection;
use crate::transaction::write_set::WriteSet;
use crate::transaction::{Phase, Transaction};

impl Connection {
    /// Applies an aborted, ordered transaction again on its client's thread.
    pub(crate) fn replay(&self, handle: &TrxHandle, ctx: ReplayContext) -> Status {
        let Some(transaction) = self.shared.transactions.get(handle) else {
            return Status::TrxFail;
        };
        let Some(seqno) = self.place_to_replay(&transaction) else {
            return Status::TrxFail;
        };
        let its_turn = self.sequencer.wait_released(seqno - 1, None);
        if !its_turn || !self.sequencer.begin_local(seqno) {
            transaction.lock().phase = Phase::Failed;
            return Status::TrxFail;
        }
        let (meta, submitted, flags) = {
            let mut gathered = transaction.lock();
            gathered.phase = Phase::Replaying(seqno);
            let meta = self.local_meta(&transaction, &gathered, seqno);
            (meta, gathered.submitted.clone(), gathered.flags)
        };
        let write_set = match WriteSet::decode(seqno, submitted) {
            Ok(write_set) => write_set,
            Err(error) => {
                self.inconsistent(&error.to_string());
                return Status::TrxFail;
            }
        };
        match self
            .shared
            .callbacks
            .apply_replay(ctx, handle, flags, &write_set.data, &meta)
        {
            Ok(_) => {
                self.shared.counters.local_replays.one();
                Status::Ok
            }
            Err(_) if self.sequencer.is_aborted_before(seqno) => {
                transaction.lock().phase = Phase::Failed;
                Status::TrxFail
            }
            Err(_) => {
                self.inconsistent(&format!("transaction {seqno} could not be replayed"));
                Status::TrxFail
            }
        }
    }

    /// Where an aborted transaction was ordered; `None` if nowhere.
    fn place_to_replay(&self, transaction: &Transaction) -> Option<i64> {
        let (phase, conn) = {
            let gathered = transaction.lock();
            if !self.is_of_this_order(&gathered) {
                return None;
            }
            (gathered.phase.clone(), gathered.conn)
        };
        match phase {
            Phase::Ordered(seqno) => self.place_unless_rolled_back(transaction, seqno),
            Phase::Certifying(pending) | Phase::AwaitingReplay(pending) => {
                let result = pending.wait_for_result();
                let mut gathered = transaction.lock();
                if let ProposalResult::Ordered { seqno, depends_on } = result {
                    gathered.depends_on = depends_on.0;
                    drop(gathered);
                    return self.place_unless_rolled_back(transaction, seqno.0);
                }
                gathered.phase = Phase::Failed;
                let is_streamed = gathered.stream.is_some();
                drop(gathered);
                if is_streamed && result == ProposalResult::Unknown {
                    self.fail_unknown_stream_commit(transaction.trx_id);
                }
                // For any of these the client gets a deadlock error and tries again.
                let _ = self.refused(transaction.trx_id, conn, result);
                None
            }
            Phase::Executing
            | Phase::Submitting
            | Phase::Entered(_)
            | Phase::Left(_)
            | Phase::Replaying(_)
            | Phase::Failed => None,
        }
    }
}
