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
//!
//! # Rollbacks
//!
//! The others have fragments when a client gives up its transaction:
//!
//! - The client rolls back, or its fragment is aborted: the server calls `rollback` under locks of
//!   its own. So the rollback is queued, and a thread of this connection orders it.
//! - The server leaves, or dies: it orders nothing. The next view is without this session, and
//!   every server rolls back the streamed transactions of sessions that are not in the view
//!   (`streams_of_lost_members.rs`).
//!
//! # Doubt
//!
//! A commit may be given up here before anybody knows whether it is ordered: this server was
//! stopped, or lost its node, while it waited for a majority. It is on record
//! (`position/recorded.rs`), and the log tells at the next start: every action that the database
//! has is before such a commit. If a view with the next session of this member comes first, there
//! is no commit. If the commit comes, and the server was stopped in order, it has kept the
//! fragments in its table and commits them (seen on 10.11.19). Otherwise nothing says so, and the
//! data are not trusted.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use bytes::Bytes;
use synod_binlog::write_set::{Note, WriteSet};
use synod_node::{KeyType, Origin, Pending, ProposalResult, Remedy, WaitPolicy, WaitResult};
use wsrep_sys as sys;

use crate::api::{AbortOutcome, CertifyOutcome, LogLevel, Status, WsFlags};
use crate::apply::applier::Stop;
use crate::connection::departure::Data;
use crate::connection::session::Session;
use crate::transaction::abort::abort_outcome;
use crate::transaction::certify::{outcome, refused};
use crate::transaction::streams_of_lost_members::LostStreams;
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

/// Flags that a write set submitted with these flags travels with. If it is a fragment, it gets the
/// key that all fragments of its transaction share.
pub(crate) fn note_fragment(
    session: &Session,
    trx: u64,
    gathered: &mut Gathered,
    flags: WsFlags,
) -> WsFlags {
    if gathered.stream.is_none() && flags.contains(WsFlags::TRX_END) {
        return flags;
    }
    let begun = Stream {
        serial: session.serial,
        first: None,
    };
    gathered.stream.get_or_insert(begun);
    let (session, trx) = (session.own_uuid().0, trx.to_be_bytes());
    let key: [&[u8]; 3] = [KEY_SPACE, &session, &trx];
    gathered.keys.append(&key, KeyType::Exclusive);
    let flags = WsFlags(flags.0 & FRAGMENT_FLAGS);
    gathered.flags = flags;
    flags
}

/// The client of a streamed transaction is done with it.
pub(crate) fn finish_stream(
    lost_streams: &LostStreams,
    session: &Session,
    transaction: &Transaction,
    phase: Phase,
) {
    let is_fragment = transaction.lock().is_fragment();
    match phase {
        Phase::Executing | Phase::Failed => {}
        Phase::Left(seqno) => {
            session.server.counters.local_commits.one();
            session.release(seqno);
        }
        Phase::Ordered(seqno) if is_fragment => {
            session.sequencer.skip(seqno);
            let _ = roll_back_stream(session, StreamRollback::of(transaction.trx_id));
        }
        Phase::Entered(seqno) if is_fragment => {
            session.sequencer.leave(seqno);
            session.release(seqno);
            let _ = roll_back_stream(session, StreamRollback::of(transaction.trx_id));
        }
        Phase::Certifying(pending) if is_fragment => {
            give_up_fragment(session, transaction.trx_id, pending);
        }
        Phase::Ordered(seqno) | Phase::Replaying(seqno) => {
            leave_unfinished_commit(lost_streams, session, transaction, seqno);
        }
        Phase::Entered(_) => lose_stream_commit(session, transaction.trx_id),
        Phase::Certifying(pending) => match pending.give_up() {
            Some(ProposalResult::Ordered { seqno, .. }) => {
                leave_unfinished_commit(lost_streams, session, transaction, seqno.0)
            }
            Some(ProposalResult::Unknown) => doubt_stream_commit(session, transaction.trx_id),
            _ => {}
        },
    }
}

/// An ordered commit is not finished by its client.
fn leave_unfinished_commit(
    lost_streams: &LostStreams,
    session: &Session,
    transaction: &Transaction,
    seqno: i64,
) {
    if lost_streams
        .place_unless_rolled_back(session, transaction, seqno)
        .is_some()
    {
        lose_stream_commit(session, transaction.trx_id);
    }
}

pub(crate) fn fragment_certified(
    session: &Session,
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
        WaitResult::ProposalResult(ProposalResult::Ordered { .. } | ProposalResult::Unknown)
        | WaitResult::Interrupted => {
            gathered.phase = Phase::Failed;
            let is_abort = gathered.must_abort;
            drop(gathered);
            give_up_fragment(session, transaction.trx_id, pending);
            return outcome(match is_abort {
                true => Status::TrxFail,
                false => Status::ConnFail,
            });
        }
        WaitResult::ProposalResult(refusal) => {
            gathered.phase = Phase::Failed;
            let conn = gathered.conn;
            drop(gathered);
            return outcome(refused(session, transaction.trx_id, conn, refusal));
        }
    };
    gathered.depends_on = depends_on;
    gathered.phase = Phase::Ordered(seqno);
    if let Some(stream) = &mut gathered.stream {
        stream.first.get_or_insert(seqno);
    }
    CertifyOutcome {
        status: Status::Ok,
        meta: Some(session.local_meta(transaction, &gathered, seqno)),
    }
}

/// The client does not wait for its fragment. If that is ordered nevertheless, others apply it:
/// the server may not think of rolling it back, so that is done here.
fn give_up_fragment(session: &Session, trx: u64, pending: Arc<Pending>) {
    // Refused if this server leaves: the others roll back then.
    let _ = roll_back_stream(session, StreamRollback::after(trx, pending));
}

/// After a fragment the transaction continues, unless it was aborted meanwhile.
pub(crate) fn release_fragment(
    session: &Session,
    mut gathered: MutexGuard<'_, Gathered>,
    seqno: i64,
) -> Status {
    let is_in_flight = session.is_of_this_order(&gathered);
    gathered.serial = None;
    gathered.submitted.clear();
    gathered.phase = Phase::Executing;
    let status = match gathered.must_abort {
        true => Status::BfAbort,
        false => Status::Ok,
    };
    drop(gathered);
    if is_in_flight {
        session.release(seqno);
        session.end_flight();
    }
    status
}

/// A streamed transaction was rolled back here, while the other members commit it. This server
/// cannot commit it any more: the fragments are gone from its table.
pub(crate) fn lose_stream_commit(session: &Session, trx: u64) {
    session.leave_as_inconsistent(&format!(
        "the streamed transaction {trx} was rolled back here, while the group has committed it"
    ));
}

/// Aborts a transaction during or between its fragments. Its place does not matter: it holds
/// its locks beyond the fragment.
pub(crate) fn abort_fragment(
    session: &Session,
    transaction: &Transaction,
    mut gathered: MutexGuard<'_, Gathered>,
) -> AbortOutcome {
    let seqno = match &gathered.phase {
        Phase::Executing => {
            // It may be waiting for the very statement that aborts it.
            session.sequencer.interrupt_waits(&transaction.interrupted);
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
            session
                .sequencer
                .interrupt(*seqno, &transaction.interrupted);
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
    session: &Session,
    seqno: i64,
    origin: &Origin,
    flags: WsFlags,
) -> Result<bool, Stop> {
    let is_mine = session
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
    session.sequencer.skip(seqno);
    Ok(true)
}

/// A streamed transaction that ends without a commit.
#[derive(Clone, Debug)]
pub(crate) struct StreamRollback {
    trx: u64,
    /// Its last fragment, if its client did not wait for it.
    fragment: Option<Arc<Pending>>,
}

impl StreamRollback {
    /// All its fragments are known to be ordered, or refused.
    pub(crate) fn of(trx: u64) -> StreamRollback {
        StreamRollback {
            trx,
            fragment: None,
        }
    }

    /// The result of its last fragment is not known yet.
    pub(crate) fn after(trx: u64, fragment: Arc<Pending>) -> StreamRollback {
        StreamRollback {
            trx,
            fragment: Some(fragment),
        }
    }
}

/// Rollbacks that wait to be ordered, oldest first.
#[derive(Default)]
pub(crate) struct RollbackQueue {
    /// The first one is being ordered.
    waiting: VecDeque<StreamRollback>,
    done: u64,
}

impl RollbackQueue {
    /// Adds a rollback, unless one of the same transaction waits that does as much.
    fn add(&mut self, rollback: StreamRollback) {
        let mut waiting = self.waiting.iter();
        match waiting.find(|known| known.trx == rollback.trx) {
            // The one with a fragment in flight comes first, so nothing is lost.
            Some(known) if known.fragment.is_some() || rollback.fragment.is_none() => {}
            _ => self.waiting.push_back(rollback),
        }
    }

    fn first(&self) -> Option<StreamRollback> {
        self.waiting.front().cloned()
    }

    fn finish_first(&mut self) {
        self.waiting.pop_front();
        self.done += 1;
    }

    /// Total number once all that wait are ordered.
    fn total(&self) -> u64 {
        self.done + self.waiting.len() as u64
    }
}

/// Has all members roll back a streamed transaction of this session. Returns at once. Refused
/// when this server leaves: the others see that in the next view.
pub(crate) fn roll_back_stream(session: &Session, rollback: StreamRollback) -> Status {
    if session.is_closing() {
        return Status::ConnFail;
    }
    session.update(|state| state.rollbacks.add(rollback));
    Status::Ok
}

/// Waits until the rollbacks asked for so far are ordered; false on the deadline, or if this
/// server leaves or has lost the group.
pub(crate) fn wait_streams_rolled_back(session: &Session, deadline: Option<Instant>) -> bool {
    let mut wanted = None;
    let ended = session.wait_for(deadline, |state| {
        let wanted = *wanted.get_or_insert(state.rollbacks.total());
        let hopeless = !session.is_primary();
        (hopeless || state.rollbacks.done >= wanted).then_some(!hopeless)
    });
    ended.unwrap_or(false)
}

/// Orders rollbacks, one after the other, as long as the session lasts.
pub(crate) fn roll_back_streams(session: &Session) {
    loop {
        let next = session.wait_for(None, |state| {
            let next = state.rollbacks.first();
            (session.is_closing() || next.is_some()).then_some(next)
        });
        let Some(rollback) = next.flatten().filter(|_| !session.is_closing()) else {
            return;
        };
        if let Some(fragment) = &rollback.fragment {
            pass_fragment(session, fragment);
        }
        // The other members may have earlier fragments, even if that one was refused.
        order_rollback(session, rollback.trx);
        session.update(|state| state.rollbacks.finish_first());
    }
}

/// Waits for the result of a fragment that its client gave up: a rollback must come after it.
fn pass_fragment(session: &Session, fragment: &Pending) {
    if let ProposalResult::Ordered { seqno, .. } = fragment.wait_for_result() {
        session.sequencer.skip(seqno.0);
    }
}

fn order_rollback(session: &Session, trx: u64) {
    let data = WriteSet {
        flags: WsFlags::ROLLBACK | WsFlags::PA_UNSAFE,
        note: Note::None,
        trx,
        conn: sys::WSREP_UNDEFINED_CONN_ID,
        data: Bytes::new(),
    }
    .encode();
    let ordered = session.order_alone(&data, || !session.is_closing());
    // If it was ordered and the answer was lost, a second one finds nothing to do.
    if let Some(seqno) = ordered {
        session.adopt(seqno, data);
    }
}

/// A streamed transaction is given up here, and it is not known now whether its commit is
/// ordered.
pub(crate) fn doubt_stream_commit(session: &Session, trx: u64) {
    let Some(identity) = session.node().map(|node| node.identity()) else {
        return;
    };
    let position = &session.server.position;
    if !position.stream_is_doubtful(session.group(), identity, trx) {
        return session.leave_as_inconsistent(&format!(
            "the streamed transaction {trx} was rolled back here, while the group may have \
             committed it, and so were many others before"
        ));
    }
    let why = format!(
        "the streamed transaction {trx} was rolled back here before it was known whether the \
         group has it: the log will tell"
    );
    if session.is_leaving_by_request() {
        session.log(LogLevel::Info, why);
    } else {
        session.leave(&why, Data::Good, Remedy::Restart);
    }
}

/// The server was shown a view with this session: nothing of an earlier session of this member
/// comes after it.
pub(crate) fn forget_doubtful_streams(session: &Session) {
    let Some(node) = session.node() else { return };
    let position = &session.server.position;
    position.no_stream_is_doubtful_before(node.identity().1);
}

/// Refuses an action that commits a doubtful stream which this server may have lost.
pub(crate) fn check_doubtful(
    session: &Session,
    seqno: i64,
    origin: &Origin,
    flags: WsFlags,
    trx: u64,
) -> Result<(), Stop> {
    let is_commit = flags.contains(WsFlags::TRX_END) && !flags.contains(WsFlags::TRX_START);
    let is_own = session.is_of_this_member(origin);
    let position = &session.server.position;
    if !is_commit || !is_own || position.was_stopped_in_order() {
        return Ok(());
    }
    let is_lost = position.record().doubtful.is_some_and(|streams| {
        streams.session == origin.session && streams.transactions.contains(&trx)
    });
    match is_lost {
        true => Err(Stop::Broken(format!(
            "action {seqno} commits the streamed transaction {trx}, which was rolled back here \
             before it was known whether the group had it"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollback_after_a_fragment_is_not_replaced_by_a_plain_one() {
        let mut queue = RollbackQueue::default();
        let fragment = Arc::new(Pending::default());
        queue.add(StreamRollback::after(7, fragment.clone()));
        queue.add(StreamRollback::of(7));
        assert_eq!(queue.total(), 1);
        assert!(queue.first().unwrap().fragment.is_some());
        queue.add(StreamRollback::of(8));
        queue.add(StreamRollback::after(8, fragment));
        assert_eq!(queue.total(), 3, "the fragment must pass, too");
    }

    #[test]
    fn total_counts_what_was_ordered_and_what_waits() {
        let mut queue = RollbackQueue::default();
        queue.add(StreamRollback::of(1));
        queue.add(StreamRollback::of(2));
        queue.finish_first();
        assert_eq!((queue.done, queue.total()), (1, 2));
        assert_eq!(queue.first().unwrap().trx, 2);
    }
}
