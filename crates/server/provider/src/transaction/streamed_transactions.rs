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
//!   its own, before it gives up the rows. The rollback is proposed at once, so that it is ordered
//!   before whatever other clients of this server write to these rows: elsewhere the open
//!   transaction has them until then. A thread of this connection waits for its place. Refused for
//!   want of a group: the view that takes this member back rolls back what it had streamed.
//! - The result of a fragment may not be known then. A second rollback is proposed after it.
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
use crate::connection::session::{Session, State};
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

/// Transactions whose rollback waits for the result of a proposal, oldest first.
#[derive(Default)]
pub(crate) struct WaitingRollbacks {
    /// The first one is being waited for.
    waiting: VecDeque<(u64, Arc<Pending>)>,
    done: u64,
}

impl WaitingRollbacks {
    fn add(&mut self, trx: u64, proposal: Arc<Pending>) {
        self.waiting.push_back((trx, proposal));
    }

    fn has(&self, trx: u64) -> bool {
        self.waiting.iter().any(|(known, _)| *known == trx)
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

/// Rollbacks that are not ordered yet.
#[derive(Default)]
pub(crate) struct Rollbacks {
    /// With the rollback that was proposed.
    proposed: WaitingRollbacks,
    /// With the fragment after which a second one is proposed.
    after_fragments: WaitingRollbacks,
}

impl Rollbacks {
    /// Whether one that waits does as much.
    fn covers(&self, rollback: &StreamRollback) -> bool {
        self.after_fragments.has(rollback.trx)
            || rollback.fragment.is_none() && self.proposed.has(rollback.trx)
    }
}

/// Has all members roll back a streamed transaction of this session: its rollback is ordered before
/// whatever this server submits after the return. Returns at once. Refused when this server leaves:
/// the others see that in the next view.
pub(crate) fn roll_back_stream(session: &Session, rollback: StreamRollback) -> Status {
    let Some(node) = session.node().filter(|_| !session.is_closing()) else {
        return Status::ConnFail;
    };
    let action = session.lonely_action(&rollback_data(rollback.trx));
    session.update(|state| {
        let rollbacks = &mut state.rollbacks;
        if rollbacks.covers(&rollback) {
            return;
        }
        let (trx, proposal) = (rollback.trx, node.submit_at_once(&action));
        rollbacks.proposed.add(trx, proposal);
        if let Some(fragment) = rollback.fragment {
            rollbacks.after_fragments.add(trx, fragment);
        }
    });
    Status::Ok
}

/// Waits until the rollbacks asked for so far are ordered; false on the deadline, or if this
/// server leaves or has lost the group.
pub(crate) fn wait_streams_rolled_back(session: &Session, deadline: Option<Instant>) -> bool {
    let mut wanted = None;
    let ended = session.wait_for(deadline, |state| {
        let all = [&state.rollbacks.proposed, &state.rollbacks.after_fragments];
        let wanted = wanted.get_or_insert(all.map(WaitingRollbacks::total));
        let hopeless = !session.is_primary();
        let are_done = all
            .iter()
            .zip(wanted)
            .all(|(of, wanted)| of.done >= *wanted);
        (hopeless || are_done).then_some(!hopeless)
    });
    ended.unwrap_or(false)
}

/// Gives proposed rollbacks to appliers, one after the other, as long as the session lasts.
pub(crate) fn apply_proposed_rollbacks(session: &Session) {
    let list: RollbackList = |state| &mut state.rollbacks.proposed;
    each_rollback(session, list, |trx, proposal| {
        match proposal.wait_for_result() {
            ProposalResult::Ordered { seqno, .. } => session.adopt(seqno.0, rollback_data(trx)),
            _ => order_rollback(session, trx),
        }
    });
}

/// Orders a second rollback after each fragment that its client gave up, as long as the session
/// lasts. In a thread of its own: such a fragment may wait for what the server applies.
pub(crate) fn roll_back_after_fragments(session: &Session) {
    let list: RollbackList = |state| &mut state.rollbacks.after_fragments;
    each_rollback(session, list, |trx, fragment| {
        if let ProposalResult::Ordered { seqno, .. } = fragment.wait_for_result() {
            session.sequencer.skip(seqno.0);
            order_rollback(session, trx);
        }
    });
}

type RollbackList = fn(&mut State) -> &mut WaitingRollbacks;

fn each_rollback(session: &Session, list: RollbackList, finish: impl Fn(u64, &Pending)) {
    loop {
        let next = session.wait_for(None, |state| {
            let next = list(state).waiting.front().cloned();
            (session.is_closing() || next.is_some()).then_some(next)
        });
        let Some((trx, proposal)) = next.flatten().filter(|_| !session.is_closing()) else {
            return;
        };
        finish(trx, &proposal);
        session.update(|state| list(state).finish_first());
    }
}

fn rollback_data(trx: u64) -> Bytes {
    WriteSet {
        flags: WsFlags::ROLLBACK | WsFlags::PA_UNSAFE,
        note: Note::None,
        trx,
        conn: sys::WSREP_UNDEFINED_CONN_ID,
        data: Bytes::new(),
    }
    .encode()
}

fn order_rollback(session: &Session, trx: u64) {
    let data = rollback_data(trx);
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
    fn rollback_after_a_fragment_does_what_a_plain_one_does_and_not_the_reverse() {
        let mut rollbacks = Rollbacks::default();
        let proposal = Arc::new(Pending::default());
        let (plain, after) = (
            StreamRollback::of(7),
            StreamRollback::after(7, proposal.clone()),
        );
        rollbacks.proposed.add(7, proposal.clone());
        assert!(rollbacks.covers(&plain));
        assert!(!rollbacks.covers(&after), "the fragment must pass, too");
        rollbacks.after_fragments.add(7, proposal);
        assert!(rollbacks.covers(&plain) && rollbacks.covers(&after));
        assert!(!rollbacks.covers(&StreamRollback::of(8)));
    }

    #[test]
    fn total_counts_what_was_ordered_and_what_waits() {
        let mut waiting = WaitingRollbacks::default();
        waiting.add(1, Arc::new(Pending::default()));
        waiting.add(2, Arc::new(Pending::default()));
        waiting.finish_first();
        assert_eq!((waiting.done, waiting.total()), (1, 2));
        assert!(waiting.has(2) && !waiting.has(1));
    }
}
