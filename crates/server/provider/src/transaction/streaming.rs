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
//! The rollback is in `stream_rollbacks.rs`.
//!
//! What earlier fragments touched stays protected by two things, as ordinary transactions are: a
//! write set that has not seen a fragment conflicts with its keys; one that has seen it comes from
//! a server where the open transaction holds its rows. A write set ordered before the next fragment
//! aborts the client here. Fragments of one transaction share a key, so that each depends on the
//! one before.
//!
//! Two rules keep members alike:
//!
//! * A client waits for the commit of its streamed transaction until the result is known, even
//!   while the group is lost: once the client has rolled back, this server could not commit it any
//!   more.
//! * A view without this server, or one that repeats the members of the one before, makes every
//!   server roll back the streamed transactions that began before it. A commit of such a one that
//!   is ordered later does nothing, here as elsewhere.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, MutexGuard};

use synod_node::{
    KeyType, Origin, Pending, ProposalResult, View as GroupView, WaitPolicy, WaitResult,
};

use crate::api::{AbortOutcome, CertifyOutcome, Status, WsFlags};
use crate::apply::applier::Stop;
use crate::connection::Connection;
use crate::transaction::abort::abort_outcome;
use crate::transaction::certify::outcome;
use crate::transaction::stream_rollbacks::StreamRollback;
use crate::transaction::{Gathered, Phase, Stream, Transaction};

/// First part of the key that all fragments of a transaction share. No schema has this name.
const KEY_SPACE: &[u8] = b"\0stream";

/// The flags that mean something for a fragment. The server takes no other for one.
const FRAGMENT_FLAGS: u32 = WsFlags::TRX_START.0 | WsFlags::TRX_END.0 | WsFlags::PA_UNSAFE.0;

/// Until when to wait for what is submitted now with these flags.
pub(crate) fn wait_policy(gathered: &Gathered, flags: WsFlags) -> WaitPolicy {
    if gathered.stream.is_some() && flags.contains(WsFlags::TRX_END) {
        WaitPolicy::UntilKnown
    } else {
        WaitPolicy::UntilGroupLost
    }
}

/// Streamed transactions of this server that all members have rolled back.
pub(crate) struct LostStreams {
    /// Serial number of the present connection; those of earlier ones are lost.
    serial: u64,
    /// Transactions whose first fragment has a smaller seqno are lost; -1: none is.
    before: AtomicI64,
}

impl LostStreams {
    /// None is lost on a new connection.
    pub(crate) fn new(serial: u64) -> LostStreams {
        LostStreams {
            serial,
            before: AtomicI64::new(-1),
        }
    }

    fn lose_before(&self, seqno: i64) {
        self.before.store(seqno, Ordering::Release);
    }

    fn contains(&self, stream: Stream) -> bool {
        let before = self.before.load(Ordering::Acquire);
        stream.serial != self.serial || stream.first.is_some_and(|first| first < before)
    }
}

impl Connection {
    /// A write set is about to be submitted with these flags: the flags that it travels with. If it
    /// is a fragment, it gets the key that all fragments of its transaction share.
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

    /// Whether all members have rolled back what was streamed of the transaction.
    pub(crate) fn has_lost(&self, gathered: &Gathered) -> bool {
        let lost = |stream| self.lost_streams.contains(stream);
        gathered.stream.is_some_and(lost)
    }

    /// Called before the server is shown a view, when everything before it is finished.
    pub(crate) fn lose_streams(&self, view: &GroupView) {
        let node = self.node().map(|node| node.identity());
        let present = node.is_some_and(|(member, session)| view.contains(member, session));
        let repeated = self.state().views.has_members_of(view);
        if !present || repeated {
            self.lost_streams.lose_before(view.seqno.0);
        }
    }

    /// Notes the verdict about a fragment and answers it.
    pub(crate) fn fragment_certified(
        &self,
        transaction: &Transaction,
        pending: Arc<Pending>,
        waited: WaitResult,
    ) -> CertifyOutcome {
        let mut gathered = transaction.lock();
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
        let _ = self.roll_back_stream(StreamRollback::after(trx, pending));
    }

    /// After a fragment the transaction continues, unless it was aborted meanwhile.
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
            Phase::Executing | Phase::Failed => {}
            Phase::Left(seqno) => {
                self.shared.counters.local_commits.one();
                self.release(seqno);
            }
            Phase::Ordered(seqno) if is_fragment => {
                self.sequencer.skip(seqno);
                let _ = self.roll_back_stream(StreamRollback::of(transaction.trx_id));
            }
            Phase::Entered(seqno) if is_fragment => {
                self.sequencer.leave(seqno);
                self.release(seqno);
                let _ = self.roll_back_stream(StreamRollback::of(transaction.trx_id));
            }
            Phase::Certifying(pending) if is_fragment => {
                self.give_up_fragment(transaction.trx_id, pending);
            }
            Phase::Ordered(seqno) | Phase::Replaying(seqno) => {
                self.leave_unfinished_commit(transaction, seqno);
            }
            Phase::Entered(_) => self.lose_stream_commit(transaction.trx_id),
            Phase::Certifying(pending) => match pending.give_up() {
                Some(ProposalResult::Ordered { seqno, .. }) => {
                    self.leave_unfinished_commit(transaction, seqno.0)
                }
                Some(ProposalResult::Unknown) => self.doubt_stream_commit(transaction.trx_id),
                _ => {}
            },
        }
    }

    /// An ordered commit is not finished by its client.
    fn leave_unfinished_commit(&self, transaction: &Transaction, seqno: i64) {
        if self.place_unless_rolled_back(transaction, seqno).is_some() {
            self.lose_stream_commit(transaction.trx_id);
        }
    }

    /// Place to commit in. `None`: the other members rolled the transaction back, and its commit
    /// does nothing.
    pub(crate) fn place_unless_rolled_back(
        &self,
        transaction: &Transaction,
        seqno: i64,
    ) -> Option<i64> {
        let mut gathered = transaction.lock();
        if !self.has_lost(&gathered) {
            return Some(seqno);
        }
        gathered.phase = Phase::Failed;
        drop(gathered);
        self.sequencer.skip(seqno);
        None
    }

    /// A streamed transaction was rolled back here, while the other members commit it. This server
    /// cannot commit it any more: the fragments are gone from its table.
    pub(crate) fn lose_stream_commit(&self, trx: u64) {
        self.leave_as_inconsistent(&format!(
            "the streamed transaction {trx} was rolled back here, while the group has committed it"
        ));
    }

    /// Aborts a transaction during or between its fragments. Its place does not matter: it holds
    /// its locks beyond the fragment.
    pub(crate) fn abort_fragment(
        &self,
        transaction: &Transaction,
        mut gathered: MutexGuard<'_, Gathered>,
    ) -> AbortOutcome {
        let seqno = match &gathered.phase {
            Phase::Executing => {
                // It may be waiting for the very statement that aborts it.
                self.sequencer.interrupt_waits(&transaction.interrupted);
                -1
            }
            Phase::Certifying(pending) => {
                pending.interrupt();
                pending.withdraw();
                match pending.result() {
                    Some(ProposalResult::Ordered { seqno, .. }) => seqno.0,
                    _ => -1,
                }
            }
            Phase::Ordered(seqno) => {
                // Too late if it has its turn; its release answers the abort then.
                self.sequencer.interrupt(*seqno, &transaction.interrupted);
                *seqno
            }
            Phase::Entered(seqno) | Phase::Left(seqno) => *seqno,
            Phase::Replaying(_) | Phase::Failed => {
                return abort_outcome(Status::NotAllowed, -1);
            }
        };
        gathered.must_abort = true;
        abort_outcome(Status::Ok, seqno)
    }

    /// Whether the action is a fragment that a client of this session has given up. It has no
    /// effect here and passes the order by itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_lost_by_connection_and_by_the_place_of_their_first_fragment() {
        let lost = LostStreams::new(2);
        let stream = |serial, first| Stream { serial, first };
        assert!(lost.contains(stream(1, None)), "of an earlier connection");
        assert!(!lost.contains(stream(2, Some(5))));
        lost.lose_before(6);
        assert!(lost.contains(stream(2, Some(5))));
        assert!(!lost.contains(stream(2, Some(7))));
        assert!(!lost.contains(stream(2, None)), "not begun yet");
    }
}
