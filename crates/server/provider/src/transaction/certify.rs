//! Certification of local transactions: from their client's threads to the group and back.
//!
//! The action is made here, submitted to the node, and its result answered to the server. The
//! leader certifies; what it would refuse for certain, this member refuses itself. A refused client
//! gets a deadlock error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_binlog::write_set::HEADER_BYTES;
use synod_node::{Action, Class, Pending, ProposalResult, Seqno, WaitResult};
use synod_planted::planted;

use crate::api::{CertifyOutcome, LogLevel, Status, TrxHandle, WsFlags};
use crate::connection::Connection;
use crate::connection::session::Session;
use crate::status::conflicts::Loss;
use crate::transaction::{Gathered, Phase, Transaction, abort, streamed_transactions};

/// Longest wait of a transaction, with its locks, for a statement that executes alone.
const ALONE_WAIT: Duration = Duration::from_millis(100);
/// Longest wait of a refused transaction, without locks, for what it has lost to.
const REFUSED_WAIT: Duration = Duration::from_secs(3);

impl Connection {
    pub(crate) fn certify(
        &self,
        conn: u64,
        handle: &mut TrxHandle,
        flags: WsFlags,
    ) -> CertifyOutcome {
        let session = &self.session;
        let asked = Instant::now();
        let transaction = session.server.transactions.open(handle);
        // Nothing new leaves a paused server: it could not take its place, and what others order
        // meanwhile would only make it a conflict.
        session.sequencer.wait_resumed(&transaction.interrupted);
        wait_for_statement_alone(session, &transaction);
        if self.statements.would_wait_for_itself(session, conn) {
            transaction.lock().phase = Phase::Failed;
            return outcome(Status::TrxFail);
        }
        let Some(node) = session.node() else {
            return outcome(Status::ConnFail);
        };
        let policy = streamed_transactions::wait_policy(&transaction.lock(), flags);
        let pending = node.pending(policy);
        let action = match self.make_action(conn, &transaction, flags, &pending) {
            Ok(action) => action,
            Err(status) => {
                transaction.lock().phase = Phase::Failed;
                return outcome(status);
            }
        };
        let submitted = Instant::now();
        let earlier = Seqno(action.last_seen);
        // No lock is held: this thread may do the node's work now.
        node.hand_over(&action, &pending, || {
            self.seen_by(handle.trx_id).unwrap_or(earlier)
        });
        let handed_over = Instant::now();
        // Not needed any more, but to explain a loss; they may be many.
        let keys = abort::kept(action.keys);
        drop(action.data);
        let is_fragment = transaction.lock().is_fragment();
        if is_fragment {
            let waited = pending.wait();
            if let WaitResult::ProposalResult(result) = waited {
                session.server.note_latency(submitted, result);
            }
            return streamed_transactions::fragment_certified(
                session,
                &transaction,
                pending,
                waited,
            );
        }
        // Until the fate is known, even if it is to be aborted, see `abort.rs`.
        let result = pending.wait_for_result();
        if !matches!(result, ProposalResult::Ordered { .. }) {
            transaction.lock().keys = keys;
        }
        session.server.note_latency(submitted, result);
        if let Some(decided) = pending.decided_at() {
            let (steps, period) = (
                &session.server.counters.steps,
                session.server.options.stats_period(),
            );
            steps.note_order(asked, handed_over, decided, period);
        }
        transaction.lock().commit_began = Some(asked);
        self.certified(&transaction, result)
    }

    /// Notes the verdict about a whole transaction, or the end of one, and answers it.
    pub(super) fn certified(
        &self,
        transaction: &Transaction,
        result: ProposalResult,
    ) -> CertifyOutcome {
        let session = &self.session;
        let mut gathered = transaction.lock();
        if let ProposalResult::Ordered { seqno, depends_on } = result {
            gathered.depends_on = depends_on.0;
            gathered.phase = Phase::Ordered(seqno.0);
            if planted!(RefuseOrdered, false, else seqno.0 % 64 == 0) {
                gathered.phase = Phase::Failed;
                let data = gathered.submitted.clone();
                drop(gathered);
                session.adopt(seqno.0, data);
                return CertifyOutcome {
                    status: Status::TrxFail,
                    meta: None,
                };
            }
            return CertifyOutcome {
                status: if gathered.must_abort {
                    Status::BfAbort
                } else {
                    Status::Ok
                },
                meta: Some(session.local_meta(transaction, &gathered, seqno.0)),
            };
        }
        gathered.phase = Phase::Failed;
        count_refusal(&mut gathered, result);
        let conn = gathered.conn;
        let is_streamed = gathered.stream.is_some();
        if !gathered.must_abort {
            gathered.lost_to = winner_over(session, result);
        }
        drop(gathered);
        if is_streamed && result == ProposalResult::Unknown {
            streamed_transactions::doubt_stream_commit(session, transaction.trx_id);
        }
        outcome(refused(session, transaction.trx_id, conn, result))
    }

    /// The transaction as it travels; an error if it was aborted before, is too large, or nothing
    /// can be proposed. From here on it is in flight, until its release.
    ///
    /// Its snapshot position is set again when its last piece is sent, if it may still write then:
    /// otherwise the leader refuses the first one. That is what has left the order, not what is
    /// released: a client that waited for a row gets it when the one before commits in the engine,
    /// which is before its release. No action that has left can be one that this transaction has
    /// not seen: where both change a row, or insert the same key, the one that had the lock first
    /// is finished, or was to be aborted before this point. An abort from here on waits for this
    /// transaction's fate, so its aborter does not leave.
    fn make_action(
        &self,
        conn: u64,
        transaction: &Transaction,
        flags: WsFlags,
        pending: &Arc<Pending>,
    ) -> Result<Action, Status> {
        let session = &self.session;
        let counters = &session.server.counters;
        let mut gathered = transaction.lock();
        if gathered.must_abort || self.lost_streams.has_lost(&gathered) {
            return Err(Status::TrxFail);
        }
        let Some(last_seen) = self.seen_by(transaction.trx_id) else {
            counters.writes_refused.one();
            return Err(Status::TrxFail);
        };
        let trx = transaction.trx_id;
        let flags = streamed_transactions::note_fragment(session, trx, &mut gathered, flags);
        let bytes = (gathered.keys.encoded_len() + gathered.data.server_bytes()) as u64;
        if gathered.is_too_large || bytes > session.server.options.write_set_bytes_max() {
            return Err(Status::SizeExceeded);
        }
        // A failed fragment is still in flight.
        if !session.is_of_this_order(&gathered) && !session.begin_flight() {
            return Err(Status::ConnFail);
        }
        gathered.serial = Some(session.serial);
        gathered.phase = Phase::Certifying(pending.clone());
        gathered.flags = flags;
        gathered.conn = conn;
        let draft = std::mem::take(&mut gathered.data);
        let keys = std::mem::take(&mut gathered.keys);
        counters.repl_data_bytes.add(draft.server_bytes() as u64);
        let data = draft.finish(flags, transaction.trx_id, conn);
        let server = &session.server;
        if !server
            .other_replication
            .takes(server, flags, &data[HEADER_BYTES..])
        {
            return Err(Status::TrxFail);
        }
        gathered.submitted = data.clone();
        drop(gathered);
        counters.replicated.one();
        counters.repl_keys.add(keys.len() as u64);
        if keys.is_coarse() && session.server.options.log_conflicts() {
            let (trx, rows) = (transaction.trx_id, session.server.options.row_keys_max());
            let line = format!(
                "transaction {trx} of connection {conn} has keys of more than {rows} rows \
                 (synod.max_row_keys): any change of its tables by another server conflicts"
            );
            session.log(LogLevel::Info, line);
        }
        counters.repl_keys_bytes.add(keys.encoded_len() as u64);
        counters
            .replicated_bytes
            .add((keys.encoded_len() + data.len()) as u64);
        let pa_unsafe = flags.contains(WsFlags::PA_UNSAFE);
        Ok(Action {
            class: Class::WriteSet { pa_unsafe },
            keys,
            last_seen: last_seen.0,
            data,
        })
    }

    /// The snapshot position of a transaction that commits now; `None` if it may not write, because
    /// another server may have written since it began. The gate is asked after the position: it
    /// closes before anything of another writer gets here, so the position has nothing of that.
    fn seen_by(&self, trx: u64) -> Option<Seqno> {
        let left = self.session.sequencer.left();
        self.write_gate.admits(trx).then_some(Seqno(left))
    }
}

fn count_refusal(gathered: &mut Gathered, result: ProposalResult) {
    let loss = match result {
        ProposalResult::Conflict { with } => Loss::Refused { to: with.0 },
        ProposalResult::TooOld => Loss::TooOld,
        ProposalResult::GivenUp => Loss::GivenUp,
        // Counted when it was aborted, if by an action of higher priority.
        ProposalResult::Withdrawn
        | ProposalResult::NotWriter
        | ProposalResult::Ordered { .. }
        | ProposalResult::Rejected
        | ProposalResult::Unknown
        | ProposalResult::NotProposed => return,
    };
    gathered.note_loss(loss);
}

/// Spares a client a deadlock error where a short wait can: a statement that executes alone may
/// have let go of its locks, so that the transaction got them, while it has not left the order.
/// To the group, the transaction would be older than it. Nothing else commits during such a
/// statement anyway. An action that needs the transaction's locks meanwhile aborts it.
fn wait_for_statement_alone(session: &Session, transaction: &Transaction) {
    let (alone, deadline) = (session.sequencer.alone(), Instant::now() + ALONE_WAIT);
    let interrupted = &transaction.interrupted;
    session
        .sequencer
        .wait_left_unless(alone, Some(deadline), interrupted);
}

/// Waits for what a refused transaction has lost to. Until that has left the order here, a
/// retry would only be refused again, or aborted, and would keep appliers busy meanwhile. The
/// server does not let know whether it repeats the statement itself (`wsrep_retry_autocommit`)
/// or answers error 1213, after which the client repeats its transaction: either gains.
///
/// Called when the server has rolled the transaction back: it holds no locks.
pub(super) fn wait_for_winner(session: &Session, transaction: &Transaction) {
    let Some(winner) = transaction.lock().lost_to.take() else {
        return;
    };
    let deadline = Instant::now() + REFUSED_WAIT;
    let interrupted = &transaction.interrupted;
    session
        .sequencer
        .wait_left_unless(winner, Some(deadline), interrupted);
}

/// The position that a refused transaction has to see before its retry can succeed.
fn winner_over(session: &Session, result: ProposalResult) -> Option<i64> {
    match result {
        ProposalResult::Conflict { with } => Some(with.0),
        // The history begins somewhere before this.
        ProposalResult::TooOld => session.node().map(|node| node.commit_seqno().0),
        ProposalResult::Ordered { .. }
        | ProposalResult::GivenUp
        | ProposalResult::NotWriter
        | ProposalResult::Rejected
        | ProposalResult::Withdrawn
        | ProposalResult::Unknown
        | ProposalResult::NotProposed => None,
    }
}

/// Status for an action that was not or must not be ordered. Only `TrxFail` makes the server
/// answer error 1213 and retry the statement, so only refused actions get it.
pub(super) fn refused(session: &Session, trx: u64, conn: u64, result: ProposalResult) -> Status {
    let why = match result {
        ProposalResult::Conflict { .. } => "it conflicts with an action ordered before it",
        ProposalResult::TooOld => "its snapshot is older than the certification history",
        ProposalResult::GivenUp => {
            "the group has discarded the first part of it, see the leader's error log"
        }
        // By an action of higher priority, as if that had come before.
        ProposalResult::Withdrawn => return Status::TrxFail,
        ProposalResult::NotWriter => {
            // If the server repeats the statement, or the client its transaction, the gate
            // answers, and names the writer.
            session.server.counters.writes_refused.one();
            return Status::TrxFail;
        }
        ProposalResult::Rejected => return Status::NodeFail,
        ProposalResult::Unknown | ProposalResult::NotProposed | ProposalResult::Ordered { .. } => {
            return Status::ConnFail;
        }
    };
    session.server.counters.local_cert_failures.one();
    if session.server.options.log_conflicts() {
        let line = format!("transaction {trx} of connection {conn} was refused: {why}");
        session.log(LogLevel::Info, line);
    }
    Status::TrxFail
}

/// An answer without a place in the order.
pub(super) fn outcome(status: Status) -> CertifyOutcome {
    CertifyOutcome { status, meta: None }
}
