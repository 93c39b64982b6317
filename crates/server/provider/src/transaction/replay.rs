//! Replay: a transaction that was aborted after it was ordered is applied again in its place.
//!
//! Called by the server on the client's own thread, after the rollback. Only two answers are
//! possible: OK, and TRX_FAIL, which is error 1213 to the client, or makes the server execute the
//! statement again. So a transaction that has a place is OK, even if this server leaves the group
//! before its turn: a majority has it on disk, and every member commits it.
//!
//! A server may hang in a replay for ever, with all that follows waiting behind it, and call itself
//! synced (seen with `UNIQUE ... USING HASH`). Nothing but a restart ends that, so each replay is
//! watched.

use std::time::{Duration, Instant};

use synod_binlog::write_set::WriteSet;
use synod_node::Remedy;

use crate::api::{LogLevel, ReplayContext, Status, TrxHandle};
use crate::boundary;
use crate::connection::Connection;
use crate::connection::disconnect::Data;
use crate::transaction::{Phase, Transaction};

/// Time that any replay may take once it has its turn.
const REPLAY_LIMIT: Duration = Duration::from_secs(60);
/// Each further second of a replay is for so many bytes: far less than a slow disk applies.
const BYTES_PER_SECOND: usize = 1 << 20;

impl Connection {
    /// Applies an aborted, ordered transaction again on its client's thread.
    pub(crate) fn replay(&self, handle: &TrxHandle, ctx: ReplayContext) -> Status {
        let Some(transaction) = self.shared.transactions.get(handle) else {
            return Status::TrxFail;
        };
        let (place, is_of_this_order) = {
            let gathered = transaction.lock();
            let place = match gathered.phase {
                Phase::Ordered(seqno) | Phase::Replaying(seqno) => Some(seqno),
                _ => None,
            };
            (place, self.is_of_this_order(&gathered))
        };
        let Some(seqno) = place else {
            return Status::TrxFail;
        };
        if !is_of_this_order {
            // That connection has ended, and the group has the transaction.
            return Status::Ok;
        }
        if self.place_unless_rolled_back(&transaction, seqno).is_none() {
            return Status::TrxFail;
        }
        if !self.apply_again(handle, ctx, &transaction, seqno) {
            return self.leave_to_the_group(&transaction);
        }
        self.shared.counters.local_replays.one();
        Status::Ok
    }

    /// Whether it is in the database now. If not, this server leaves the group.
    fn apply_again(
        &self,
        handle: &TrxHandle,
        ctx: ReplayContext,
        transaction: &Transaction,
        seqno: i64,
    ) -> bool {
        let its_turn = self.sequencer.wait_released(seqno - 1, None);
        if !its_turn || !self.sequencer.begin_local(seqno) {
            return false;
        }
        let (meta, submitted, flags) = {
            let mut gathered = transaction.lock();
            gathered.phase = Phase::Replaying(seqno);
            let meta = self.local_meta(transaction, &gathered, seqno);
            (meta, gathered.submitted.clone(), gathered.flags)
        };
        let write_set = match WriteSet::decode(seqno, submitted) {
            Ok(write_set) => write_set,
            Err(error) => {
                self.leave_as_unapplied(seqno, &error.to_string());
                return false;
            }
        };
        self.watch_replay(seqno, limit(write_set.data.len()));
        let callbacks = &self.shared.callbacks;
        let applied = callbacks.apply_replay(ctx, handle, flags, &write_set.data, &meta);
        if applied.is_err() && !self.sequencer.is_aborted_before(seqno) {
            let why = format!("transaction {seqno} could not be replayed");
            match transaction.lock().stream.is_some() {
                // Its fragments are gone.
                true => self.leave_as_inconsistent(&why),
                false => self.leave_as_unapplied(seqno, &why),
            }
        }
        applied.is_ok()
    }

    /// Starts the thread that has this server leave, and come back, if it hangs in the replay.
    pub(super) fn watch_replay(&self, seqno: i64, limit: Duration) {
        let Some(connection) = self.itself() else {
            return;
        };
        let watch = move || connection.leave_unless_released(seqno, limit);
        match boundary::spawn("synod-replay", watch) {
            Ok(thread) => self.keep_replay_watch(thread),
            Err(error) => self.log(
                LogLevel::Warn,
                format!("cannot start thread synod-replay: {error}"),
            ),
        }
    }

    fn leave_unless_released(&self, seqno: i64, limit: Duration) {
        let is_released = self
            .sequencer
            .wait_released(seqno, Some(Instant::now() + limit));
        if is_released || self.is_closing() {
            return;
        }
        let why = format!(
            "this server leaves the group: it hangs in transaction {seqno} of one of its clients, \
             which it applies again (replays) and has not finished for {} s. All later \
             transactions wait for that one",
            limit.as_secs()
        );
        self.leave(&why, Data::Good, Remedy::Restart);
    }

    /// The group commits the transaction, this server does not any more. Its client learns that it
    /// is committed, but not before this server refuses its statements: it shall not look for what
    /// is not here.
    fn leave_to_the_group(&self, transaction: &Transaction) -> Status {
        let is_streamed = {
            let mut gathered = transaction.lock();
            gathered.phase = Phase::Failed;
            gathered.stream.is_some()
        };
        if is_streamed {
            self.lose_stream_commit(transaction.trx_id);
        }
        self.wait_for(None, |state| state.lifecycle.has_ended().then_some(()));
        Status::Ok
    }
}

/// Time that the replay of a write set of so many bytes may take.
fn limit(bytes: usize) -> Duration {
    REPLAY_LIMIT + Duration::from_secs((bytes / BYTES_PER_SECOND) as u64)
}
