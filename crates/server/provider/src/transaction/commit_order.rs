//! A transaction's turn in the commit order, and its end.
//!
//! The server calls `commit_order_enter` and `commit_order_leave` around the commit in the engine,
//! and `release` when it is done with the transaction. A transaction that was ordered and that its
//! client does not finish is given to an applier: the other members have it.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use synod_node::{Origin, ProposalResult, Remedy};
use wsrep_sys as sys;

use crate::api::{Status, TrxHandle, TrxMeta};
use crate::apply::applier;
use crate::apply::commit_wait::Wait;
use crate::apply::inconsistency::Failure;
use crate::apply::sequencer::{Entered, NoApplier, Queued};
use crate::boundary;
use crate::connection::Connection;
use crate::connection::disconnect::Data;
use crate::status::commit_steps::Step;
use crate::transaction::toi::statement_failure;
use crate::transaction::{Gathered, Phase, Transaction, is_applied};

impl Connection {
    /// Waits for a transaction's turn. The server commits whatever is answered here, unless that is
    /// [`Status::BfAbort`] (or, for a fragment, [`Status::TrxFail`]).
    pub(crate) fn commit_order_enter(&self, handle: &TrxHandle, meta: &TrxMeta) -> Status {
        let (seqno, asked) = (meta.gtid.seqno, Instant::now());
        if is_applied(handle) {
            let result = self.sequencer.enter(seqno, None);
            self.note_failing(seqno, result);
            let result = entered(result);
            if let Some(began) = applier::take_beginning() {
                self.note_step(Step::Apply, began, asked);
                self.note_step(Step::ApplyTurn, asked, Instant::now());
            }
            return result;
        }
        let Some(transaction) = self.shared.transactions.get(handle) else {
            return Status::BfAbort;
        };
        let (is_replaying, aborted) = {
            let mut gathered = transaction.lock();
            // The server replays what was aborted, but never a fragment.
            let aborted = match gathered.is_fragment() {
                true => Status::TrxFail,
                false => Status::BfAbort,
            };
            if !self.is_of_this_order(&gathered) {
                gathered.must_abort = true;
                return aborted;
            }
            (matches!(gathered.phase, Phase::Replaying(_)), aborted)
        };
        let interrupt = (!is_replaying).then_some(&transaction.interrupted);
        let result = self.sequencer.enter(seqno, interrupt);
        let mut gathered = transaction.lock();
        match result {
            Entered::Yes if !is_replaying => {
                let now = Instant::now();
                self.note_step(Step::Turn, asked, now);
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
        let seqno = meta.gtid.seqno;
        let error = error.filter(|text| !text.is_empty());
        if let Some(error) = error
            && !self.confirm_failure(seqno, &failure(handle, error))
        {
            return Status::NodeFail;
        }
        if is_applied(handle) {
            return match self.leave_order(seqno) {
                true => Status::Ok,
                false => Status::NodeFail,
            };
        }
        let Some(transaction) = self.shared.transactions.get(handle) else {
            return Status::TrxMissing;
        };
        let mut gathered = transaction.lock();
        if self.is_of_this_order(&gathered) {
            self.sequencer.leave(seqno);
            self.end_step(&mut gathered, Step::Engine);
            gathered.phase = Phase::Left(seqno);
            drop(gathered);
            self.check_outcome(seqno);
            self.note_ended(seqno, error.is_some());
        }
        Status::Ok
    }

    /// A step of a commit ends that began at the end of the one before.
    fn end_step(&self, gathered: &mut Gathered, step: Step) {
        let now = Instant::now();
        if let Some(began) = gathered.step_ended.replace(now) {
            self.note_step(step, began, now);
        }
    }

    /// Lets the next seqno have its turn. False if this one was never let in: the database must not
    /// be taken for having it.
    pub(crate) fn leave_order(&self, seqno: i64) -> bool {
        let has_left = self.sequencer.leave(seqno);
        match has_left {
            true => {
                self.check_outcome(seqno);
                self.note_ended(seqno, self.has_failed_alike(seqno));
            }
            false => self.note_passed_over(seqno),
        }
        has_left
    }

    /// A transaction is over, or a fragment of one that continues.
    pub(crate) fn release_transaction(&self, handle: &mut TrxHandle) -> Status {
        let Some(transaction) = self.shared.transactions.get(handle) else {
            handle.opaque = None;
            return Status::Ok;
        };
        let (phase, is_in_flight, began) = {
            let mut gathered = transaction.lock();
            if let (true, &Phase::Left(seqno)) = (gathered.is_fragment(), &gathered.phase) {
                return self.release_fragment(gathered, seqno);
            }
            let is_in_flight = self.is_of_this_order(&gathered);
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
            self.end_flight();
            if let Some(seqno) = committed {
                self.hold_up_client(seqno, began);
            }
        }
        self.wait_for_winner(&transaction);
        self.explain_loss(&transaction);
        self.shared.transactions.remove(handle);
        Status::Ok
    }

    /// The server answers OK to its client next; or once the other servers have applied the action
    /// at `seqno`, if they are to be waited for (`synod.commit_wait`). It has left the order here
    /// and is released: no other transaction waits for this one, on no server.
    pub(super) fn hold_up_client(&self, seqno: i64, commit_began: Option<Instant>) {
        if !self.shared.options.waits_until_applied() {
            return self.note_commit(commit_began);
        }
        let since = Instant::now();
        if !self.commit_wait.hold_up(seqno, commit_began) {
            self.note_step(Step::Applied, since, Instant::now());
            self.note_commit(commit_began);
        }
    }

    /// Lets clients have their answers.
    pub(crate) fn end_waits(&self, waits: Vec<Wait>) {
        for wait in waits {
            self.note_step(Step::Applied, wait.since, Instant::now());
            self.note_commit(wait.commit_began);
        }
    }

    fn note_commit(&self, began: Option<Instant>) {
        if let Some(began) = began {
            self.shared.counters.steps.note_commit(began.elapsed());
        }
    }

    fn finish_transaction(&self, transaction: &Transaction, phase: Phase) {
        if transaction.lock().stream.is_some() {
            return self.finish_stream(transaction, phase);
        }
        match phase {
            Phase::Left(seqno) => {
                self.shared.counters.local_commits.one();
                self.release(seqno);
                self.end_step(&mut transaction.lock(), Step::Release);
            }
            Phase::Ordered(seqno) | Phase::Entered(seqno) | Phase::Replaying(seqno) => {
                self.hand_to_applier(transaction, seqno);
            }
            Phase::Certifying(pending) => {
                if let Some(ProposalResult::Ordered { seqno, .. }) = pending.give_up() {
                    self.hand_to_applier(transaction, seqno.0);
                }
            }
            Phase::Executing | Phase::Failed => {}
        }
    }

    /// An ordered transaction that its client will not finish: it is applied like another member's,
    /// since the other members have it.
    fn hand_to_applier(&self, transaction: &Transaction, seqno: i64) {
        let data = transaction.lock().submitted.clone();
        self.adopt(seqno, data);
    }

    /// An applier of this server shall apply this server's own action.
    pub(crate) fn adopt(&self, seqno: i64, data: Bytes) {
        let (member, session) = self.node().map(|node| node.identity()).unwrap_or_default();
        let adopted = self.sequencer.adopt(Queued::Action {
            seqno,
            depends_on: seqno - 1,
            origin: Origin {
                member,
                session,
                number: 0,
            },
            data,
        });
        if let Err(NoApplier) = adopted {
            let why = format!(
                "action {seqno} was given up by its client, and all appliers wait for it: this \
                 server leaves the group, and comes back to apply it from the log"
            );
            self.leave(&why, Data::Good, Remedy::Restart);
            self.sequencer.abort();
        }
    }
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
