//! Streamed transactions of this server's clients: each fragment is an action of its own, ordered
//! while the transaction runs, and other servers hold what they have of it as an open transaction.
//!
//! ```text
//!           ┌──────────────── release ◄─────────────────┐
//!       Executing ──certify (no END)──► Certifying ──► Ordered ──► Entered ──► Left
//!           │                                │ abort      │ abort
//!           │ END: as any transaction        └──► given up: passes without effect here,
//!           ▼                                     and a rollback is ordered after it
//! ```
//!
//! What earlier fragments touched stays protected by two things, as ordinary transactions are: a write
//! set that has not seen a fragment conflicts with its keys; one that has seen it comes from a server
//! where the open transaction holds its rows. A write set ordered before the next fragment aborts the
//! client here. Fragments of one transaction share a key, so that each depends on the one before.
//!
//! Two rules keep members alike:
//!
//! * The commit of a streamed transaction is waited for until its fate is known, even while the group
//!   is lost: once the client has rolled back, this server could not commit it any more.
//! * A view without this server, or one that repeats the members of the one before, makes every server
//!   roll back the streamed transactions that began before it. A commit of such a one that is ordered
//!   later does nothing, here as elsewhere.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use synod_node::{
    KeyType, Origin, Pending, ProposalResult, View as GroupView, WaitPolicy, WaitResult,
};

use crate::api::{AbortOutcome, CertifyOutcome, Status, WsFlags};
use crate::apply::applier::Stop;
use crate::connection::Connection;
use crate::transaction::abort::abort_outcome;
use crate::transaction::certify::outcome;
use crate::transaction::stream_rollbacks::StreamEnd;
use crate::transaction::{Gathered, Phase, Stream, Transaction};

/// No schema has this name.
const KEY_SPACE: &[u8] = b"\0stream";

/// The flags that mean something for a fragment. The server takes no other for one.
const FRAGMENT_FLAGS: u32 = WsFlags::TRX_START.0 | WsFlags::TRX_END.0 | WsFlags::PA_UNSAFE.0;

/// How long to wait for what is submitted now.
pub(crate) fn patience(gathered: &Gathered) -> WaitPolicy {
    match gathered.stream.is_some() && !gathered.is_fragment() {
        true => WaitPolicy::UntilKnown,
        false => WaitPolicy::UntilGroupLost,
    }
}

impl Connection {
    /// About to be submitted with these flags; as which it is.
    pub(crate) fn note_fragment(
        &self,
        trx: u64,
        gathered: &mut Gathered,
        flags: WsFlags,
    ) -> WsFlags {
        if gathered.stream.is_none() && flags.contains(WsFlags::TRX_END) {
            return flags;
        }
        let begun = Stream {
            serial: self.serial,
            first: None,
        };
        gathered.stream.get_or_insert(begun);
        let (session, trx) = (self.own_uuid().0, trx.to_be_bytes());
        let key: [&[u8]; 3] = [KEY_SPACE, &session, &trx];
        gathered.keys.append(&key, KeyType::Exclusive);
        let flags = WsFlags(flags.0 & FRAGMENT_FLAGS);
        gathered.flags = flags;
        flags
    }

    /// Whether everybody has rolled back what was streamed of it.
    pub(crate) fn has_lost(&self, gathered: &Gathered) -> bool {
        let before = self.streams_lost_before.load(Ordering::Acquire);
        gathered.stream.is_some_and(|stream| {
            stream.serial != self.serial || stream.first.is_some_and(|first| first < before)
        })
    }

    /// Called before the server is shown a view, when everything before it is finished.
    pub(crate) fn lose_streams(&self, view: &GroupView) {
        let node = self.node().map(|node| node.identity());
        let present = node.is_some_and(|(member, session)| view.contains(member, session));
        let repeated = {
            let state = self.state();
            state
                .view
                .as_ref()
                .is_some_and(|last| last.members == view.members)
        };
        if !present || repeated {
            self.streams_lost_before
                .store(view.seqno.0, Ordering::Release);
        }
    }

    /// Notes the verdict about a fragment and tells it.
    pub(crate) fn fragment_certified(
        &self,
        transaction: &Transaction,
        mut gathered: MutexGuard<'_, Gathered>,
        pending: Arc<Pending>,
        waited: WaitResult,
    ) -> CertifyOutcome {
        let (seqno, depends_on) = match waited {
            WaitResult::ProposalResult(ProposalResult::Ordered { seqno, depends_on })
                if !gathered.must_abort =>
            {
                (seqno.0, depends_on.0)
            }
            WaitResult::ProposalResult(
                ProposalResult::Ordered { .. } | ProposalResult::Unknown,
            )
            | WaitResult::Interrupted => {
                gathered.phase = Phase::Failed;
                let is_abort = gathered.must_abort;
                drop(gathered);
                self.give_up_fragment(transaction.trx_id, pending);
                return outcome(match is_abort {
                    true => Status::TrxFail,
                    false => Status::ConnFail,
                });
            }
            WaitResult::ProposalResult(refusal) => {
                gathered.phase = Phase::Failed;
                let conn = gathered.conn;
                drop(gathered);
                return outcome(self.refused(transaction.trx_id, conn, refusal));
            }
        };
        gathered.depends_on = depends_on;
        gathered.phase = Phase::Ordered(seqno);
        if let Some(stream) = &mut gathered.stream {
            stream.first.get_or_insert(seqno);
        }
        CertifyOutcome {
            status: Status::Ok,
            meta: Some(self.local_meta(transaction, &gathered, seqno)),
        }
    }

    /// The client does not wait for its fragment. If that is ordered nevertheless, others apply it:
    /// the server may not think of rolling it back, so that is done here.
    fn give_up_fragment(&self, trx: u64, pending: Arc<Pending>) {
        // Refused if this server leaves: the others roll back then.
        let _ = self.end_stream(StreamEnd::after(trx, pending));
    }

    /// After a fragment the transaction goes on, unless it was aborted meanwhile.
    pub(crate) fn release_fragment(
        &self,
        mut gathered: MutexGuard<'_, Gathered>,
        seqno: i64,
    ) -> Status {
        let is_in_flight = self.is_of_this_order(&gathered);
        gathered.serial = None;
        gathered.submitted.clear();
        gathered.phase = Phase::Executing;
        let status = match gathered.must_abort {
            true => Status::BfAbort,
            false => Status::Ok,
        };
        drop(gathered);
        if is_in_flight {
            self.release(seqno);
            self.end_flight();
        }
        status
    }

    /// The client of a streamed transaction is done with it.
    pub(crate) fn finish_stream(&self, transaction: &Transaction, phase: Phase) {
        let is_fragment = transaction.lock().is_fragment();
        match phase {
            Phase::Executing | Phase::Submitting | Phase::Failed => {}
            Phase::Left(seqno) => {
                self.counters.local_commits.one();
                self.release(seqno);
            }
            Phase::Ordered(seqno) if is_fragment => {
                self.sequencer.skip(seqno);
                let _ = self.end_stream(StreamEnd::of(transaction.trx_id));
            }
            Phase::Entered(seqno) if is_fragment => {
                self.sequencer.leave(seqno);
                self.release(seqno);
                let _ = self.end_stream(StreamEnd::of(transaction.trx_id));
            }
            Phase::Certifying(pending) | Phase::AwaitingReplay(pending) if is_fragment => {
                self.give_up_fragment(transaction.trx_id, pending);
            }
            Phase::Ordered(seqno) | Phase::Replaying(seqno) => {
                self.commit_was_left(transaction, seqno);
            }
            Phase::Entered(_) => self.lost_sight_of_commit(transaction.trx_id),
            Phase::Certifying(pending) | Phase::AwaitingReplay(pending) => {
                match pending.give_up() {
                    Some(ProposalResult::Ordered { seqno, .. }) => {
                        self.commit_was_left(transaction, seqno.0)
                    }
                    Some(ProposalResult::Unknown) => self.lost_sight_of_commit(transaction.trx_id),
                    _ => {}
                }
            }
        }
    }

    /// An ordered commit is not finished by its client.
    fn commit_was_left(&self, transaction: &Transaction, seqno: i64) {
        if self.unless_lost(transaction, seqno).is_some() {
            self.lost_sight_of_commit(transaction.trx_id);
        }
    }

    /// Where to commit a transaction that has a place; nowhere if others only have a commit of
    /// something they rolled back.
    pub(crate) fn unless_lost(&self, transaction: &Transaction, seqno: i64) -> Option<i64> {
        let mut gathered = transaction.lock();
        if !self.has_lost(&gathered) {
            return Some(seqno);
        }
        gathered.phase = Phase::Failed;
        drop(gathered);
        self.sequencer.skip(seqno);
        None
    }

    /// A streamed transaction was rolled back here, and others may commit it: the fragments are gone
    /// from this server's table.
    pub(crate) fn lost_sight_of_commit(&self, trx: u64) {
        self.inconsistent(&format!(
            "the streamed transaction {trx} was rolled back here, while the group may have \
             committed it"
        ));
    }

    /// Aborts a transaction during or between its fragments. Its place does not matter: it holds its
    /// locks beyond the fragment.
    pub(crate) fn abort_fragment(
        &self,
        transaction: &Transaction,
        mut gathered: MutexGuard<'_, Gathered>,
    ) -> AbortOutcome {
        let seqno = match &gathered.phase {
            Phase::Executing | Phase::Submitting => {
                // It may be waiting for just that statement which wants it gone.
                self.sequencer.interrupt_waits(&transaction.interrupted);
                -1
            }
            Phase::Certifying(pending) => {
                pending.interrupt();
                match pending.fate() {
                    Some(ProposalResult::Ordered { seqno, .. }) => seqno.0,
                    _ => -1,
                }
            }
            Phase::Ordered(seqno) => {
                // Too late if it has its turn; its release tells then.
                self.sequencer.interrupt(*seqno, &transaction.interrupted);
                *seqno
            }
            Phase::Entered(seqno) | Phase::Left(seqno) => *seqno,
            Phase::AwaitingReplay(_) | Phase::Replaying(_) | Phase::Failed => {
                return abort_outcome(Status::NotAllowed, -1);
            }
        };
        gathered.must_abort = true;
        abort_outcome(Status::Ok, seqno)
    }

    /// Whether the action is a fragment that a client of this session has given up: it has nothing to
    /// do here and passes by itself.
    pub(crate) fn passes_own_fragment(
        &self,
        seqno: i64,
        origin: &Origin,
        flags: WsFlags,
    ) -> Result<bool, Stop> {
        let is_mine = self
            .node()
            .is_some_and(|node| node.identity() == (origin.member, origin.session));
        let whole = WsFlags::TRX_START | WsFlags::TRX_END;
        let is_other = flags.0 & (WsFlags::ISOLATION | WsFlags::ROLLBACK).0 != 0;
        if !is_mine || is_other || flags.contains(whole) {
            return Ok(false);
        }
        if flags.contains(WsFlags::TRX_END) {
            let why = format!("action {seqno} commits a streamed transaction given up here");
            return Err(Stop::Broken(why));
        }
        self.sequencer.skip(seqno);
        Ok(true)
    }
}
