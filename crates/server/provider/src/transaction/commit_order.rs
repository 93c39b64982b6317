//! A transaction's turn in the commit order, and its end.
//!
//! The server calls `commit_order_enter` and `commit_order_leave` around the commit in the engine,
//! and `release` when it is done with the transaction. A transaction that was ordered and that its
//! client does not finish is given to an applier: the other members have it.
//!
//! # Replay
//!
//! A transaction that was aborted after it was ordered is applied again in its place: called by the
//! server on the client's own thread, after the rollback. Only two answers are possible: OK, and
//! TRX_FAIL, which is error 1213 to the client, or makes the server execute the statement again. So
//! a transaction that has a place is OK, even if this server leaves the group before its turn: a
//! majority has it on disk, and every member commits it.
//!
//! A server may hang in a replay for ever, with all that follows waiting behind it, and call itself
//! synced (seen with `UNIQUE ... USING HASH`). Nothing but a restart ends that, so each replay is
//! watched.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use synod_binlog::write_set::WriteSet;
use synod_commands::Step;
use synod_node::{ProposalResult, Remedy};
use wsrep_sys as sys;

use crate::api::{LogLevel, ReplayContext, Status, TrxHandle, TrxMeta};
use crate::apply::applier;
use crate::apply::failed_action_here::{Failure, note_failing};
use crate::apply::recorded_lack::note_ended;
use crate::apply::sequencer::Entered;
use crate::boundary;
use crate::connection::Connection;
use crate::connection::departure::Data;
use crate::connection::session::Session;
use crate::transaction::abort::explain_loss;
use crate::transaction::certify::wait_for_winner;
use crate::transaction::statements::statement_failure;
use crate::transaction::streamed_transactions::{
    finish_stream, lose_stream_commit, release_fragment,
};
use crate::transaction::{Gathered, Phase, Transaction, is_applied};

impl Connection {
    /// Waits for a transaction's turn. The server commits whatever is answered here, unless that is
    /// [`Status::BfAbort`] (or, for a fragment, [`Status::TrxFail`]).
    pub(crate) fn commit_order_enter(&self, handle: &TrxHandle, meta: &TrxMeta) -> Status {
        let session = &self.session;
        let (seqno, asked) = (meta.gtid.seqno, Instant::now());
        if is_applied(handle) {
            let result = session.sequencer.enter(seqno, None);
            note_failing(session, seqno, result);
            let result = entered(result);
            if let Some(began) = applier::take_beginning() {
                session.server.note_step(Step::Apply, began, asked);
                session
                    .server
                    .note_step(Step::ApplyTurn, asked, Instant::now());
            }
            return result;
        }
        let Some(transaction) = session.server.transactions.get(handle) else {
            return Status::BfAbort;
        };
        let (is_replaying, aborted) = {
            let mut gathered = transaction.lock();
            // The server replays what was aborted, but never a fragment.
            let aborted = match gathered.is_fragment() {
                true => Status::TrxFail,
                false => Status::BfAbort,
            };
            if !session.is_of_this_order(&gathered) {
                gathered.must_abort = true;
                return aborted;
            }
            (matches!(gathered.phase, Phase::Replaying(_)), aborted)
        };
        let interrupt = (!is_replaying).then_some(&transaction.interrupted);
        let result = session.sequencer.enter(seqno, interrupt);
        let mut gathered = transaction.lock();
        match result {
            Entered::Yes if !is_replaying => {
                let now = Instant::now();
                session.server.note_step(Step::Turn, asked, now);
                gathered.step_ended = Some(now);
                gathered.phase = Phase::Entered(seqno);
            }
            Entered::Yes => {}
            Entered::Interrupted | Entered::Stopped => {
                gathered.must_abort = true;
                return aborted;
            }
        }
        Status::Ok
    }

    /// Ends a transaction's turn. With an error it does so only if the group had the same one:
    /// nothing after an action that this server alone could not apply may get into its database.
    pub(crate) fn commit_order_leave(
        &self,
        handle: &TrxHandle,
        meta: &TrxMeta,
        error: Option<&[u8]>,
    ) -> Status {
        let session = &self.session;
        let seqno = meta.gtid.seqno;
        let error = error.filter(|text| !text.is_empty());
        if let Some(error) = error
            && !self
                .votes
                .confirm_failure(session, seqno, &failure(handle, error))
        {
            return Status::NodeFail;
        }
        if is_applied(handle) {
            return match self.votes.leave_order(session, seqno) {
                true => Status::Ok,
                false => Status::NodeFail,
            };
        }
        let Some(transaction) = session.server.transactions.get(handle) else {
            return Status::TrxMissing;
        };
        let mut gathered = transaction.lock();
        if session.is_of_this_order(&gathered) {
            session.sequencer.leave(seqno);
            end_step(session, &mut gathered, Step::Engine);
            gathered.phase = Phase::Left(seqno);
            drop(gathered);
            self.votes.check_outcome(session, seqno);
            note_ended(session, seqno, error.is_some());
        }
        Status::Ok
    }

    /// A transaction is over, or a fragment of one that continues.
    pub(crate) fn release_transaction(&self, handle: &mut TrxHandle) -> Status {
        let session = &self.session;
        let Some(transaction) = session.server.transactions.get(handle) else {
            handle.opaque = None;
            return Status::Ok;
        };
        let (phase, is_in_flight, began) = {
            let mut gathered = transaction.lock();
            if let (true, &Phase::Left(seqno)) = (gathered.is_fragment(), &gathered.phase) {
                return release_fragment(session, gathered, seqno);
            }
            let is_in_flight = session.is_of_this_order(&gathered);
            gathered.serial = None;
            (
                std::mem::replace(&mut gathered.phase, Phase::Failed),
                is_in_flight,
                gathered.commit_began.take(),
            )
        };
        if is_in_flight {
            let committed = match phase {
                Phase::Left(seqno) => Some(seqno),
                _ => None,
            };
            self.finish_transaction(&transaction, phase);
            session.end_flight();
            if let Some(seqno) = committed {
                session.hold_up_client(seqno, began);
            }
        }
        wait_for_winner(session, &transaction);
        explain_loss(session, &transaction);
        session.server.transactions.remove(handle);
        Status::Ok
    }

    fn finish_transaction(&self, transaction: &Transaction, phase: Phase) {
        let session = &self.session;
        if transaction.lock().stream.is_some() {
            return finish_stream(&self.lost_streams, session, transaction, phase);
        }
        match phase {
            Phase::Left(seqno) => {
                session.server.counters.local_commits.one();
                session.release(seqno);
                end_step(session, &mut transaction.lock(), Step::Release);
            }
            Phase::Ordered(seqno) | Phase::Entered(seqno) | Phase::Replaying(seqno) => {
                hand_to_applier(session, transaction, seqno);
            }
            Phase::Certifying(pending) => {
                if let Some(ProposalResult::Ordered { seqno, .. }) = pending.give_up() {
                    hand_to_applier(session, transaction, seqno.0);
                }
            }
            Phase::Executing | Phase::Failed => {}
        }
    }

    /// Applies an aborted, ordered transaction again on its client's thread.
    pub(crate) fn replay(&self, handle: &TrxHandle, ctx: ReplayContext) -> Status {
        let session = &self.session;
        let Some(transaction) = session.server.transactions.get(handle) else {
            return Status::TrxFail;
        };
        let (place, is_of_this_order) = {
            let gathered = transaction.lock();
            let place = match gathered.phase {
                Phase::Ordered(seqno) | Phase::Replaying(seqno) => Some(seqno),
                _ => None,
            };
            (place, session.is_of_this_order(&gathered))
        };
        let Some(seqno) = place else {
            return Status::TrxFail;
        };
        if !is_of_this_order {
            // That connection has ended, and the group has the transaction.
            return Status::Ok;
        }
        if self
            .lost_streams
            .place_unless_rolled_back(session, &transaction, seqno)
            .is_none()
        {
            return Status::TrxFail;
        }
        if !self.apply_again(handle, ctx, &transaction, seqno) {
            return leave_to_the_group(session, &transaction);
        }
        session.server.counters.local_replays.one();
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
        let session = &self.session;
        let its_turn = session.sequencer.wait_released(seqno - 1, None);
        if !its_turn || !session.sequencer.begin_local(seqno) {
            return false;
        }
        let (meta, submitted, flags) = {
            let mut gathered = transaction.lock();
            gathered.phase = Phase::Replaying(seqno);
            let meta = session.local_meta(transaction, &gathered, seqno);
            (meta, gathered.submitted.clone(), gathered.flags)
        };
        let write_set = match WriteSet::decode(seqno, submitted) {
            Ok(write_set) => write_set,
            Err(error) => {
                self.votes
                    .leave_as_unapplied(session, seqno, &error.to_string());
                return false;
            }
        };
        watch_replay(session, seqno, limit(write_set.data.len()));
        let callbacks = &session.server.callbacks;
        let applied = callbacks.apply_replay(ctx, handle, flags, &write_set.data, &meta);
        if applied.is_err() && !session.sequencer.is_aborted_before(seqno) {
            let why = format!("transaction {seqno} could not be replayed");
            match transaction.lock().stream.is_some() {
                // Its fragments are gone.
                true => session.leave_as_inconsistent(&why),
                false => self.votes.leave_as_unapplied(session, seqno, &why),
            }
        }
        applied.is_ok()
    }
}

/// A step of a commit ends that began at the end of the one before.
fn end_step(session: &Session, gathered: &mut Gathered, step: Step) {
    let now = Instant::now();
    if let Some(began) = gathered.step_ended.replace(now) {
        session.server.note_step(step, began, now);
    }
}

/// An ordered transaction that its client will not finish: it is applied like another member's,
/// since the other members have it.
fn hand_to_applier(session: &Session, transaction: &Transaction, seqno: i64) {
    let data = transaction.lock().submitted.clone();
    session.adopt(seqno, data);
}

fn failure<'a>(handle: &TrxHandle, text: &'a [u8]) -> Failure<'a> {
    let is_statement = is_applied(handle) && handle.trx_id == sys::WSREP_UNDEFINED_TRX_ID;
    let compared = match is_statement {
        true => statement_failure(text, boundary::statement_error()),
        false => Cow::Borrowed(text),
    };
    Failure {
        text,
        compared,
        is_statement,
    }
}

fn entered(result: Entered) -> Status {
    match result {
        Entered::Yes => Status::Ok,
        Entered::Interrupted | Entered::Stopped => Status::BfAbort,
    }
}

/// Time that any replay may take once it has its turn.
const REPLAY_LIMIT: Duration = Duration::from_secs(60);
/// Each further second of a replay is for so many bytes: far less than a slow disk applies.
const BYTES_PER_SECOND: usize = 1 << 20;

/// Starts the thread that has this server leave, and come back, if it hangs in the replay.
pub(super) fn watch_replay(session: &Session, seqno: i64, limit: Duration) {
    let watch = move |session: &Session| leave_unless_released(session, seqno, limit);
    if let Err(error) = session.start_thread("synod-replay", watch) {
        session.log(LogLevel::Warn, error);
    }
}

fn leave_unless_released(session: &Session, seqno: i64, limit: Duration) {
    let is_released = session
        .sequencer
        .wait_released(seqno, Some(Instant::now() + limit));
    if is_released || session.is_closing() {
        return;
    }
    let why = format!(
        "this server leaves the group: it hangs in transaction {seqno} of one of its clients, \
         which it applies again (replays) and has not finished for {} s. All later \
         transactions wait for that one",
        limit.as_secs()
    );
    session.leave(&why, Data::Good, Remedy::Restart);
}

/// The group commits the transaction, this server does not any more. Its client learns that it
/// is committed, but not before this server refuses its statements: it shall not look for what
/// is not here.
fn leave_to_the_group(session: &Session, transaction: &Transaction) -> Status {
    let is_streamed = {
        let mut gathered = transaction.lock();
        gathered.phase = Phase::Failed;
        gathered.stream.is_some()
    };
    if is_streamed {
        lose_stream_commit(session, transaction.trx_id);
    }
    session.wait_for(None, |state| state.lifecycle.has_ended().then_some(()));
    Status::Ok
}

/// Time that the replay of a write set of so many bytes may take.
fn limit(bytes: usize) -> Duration {
    REPLAY_LIMIT + Duration::from_secs((bytes / BYTES_PER_SECOND) as u64)
}
