//! Local transactions: from their client's threads to the group and back.

use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_node::{Action, Class, Origin, Pending, ProposalResult, WaitResult};

use crate::api::{
    AbortOutcome, CertifyOutcome, LogLevel, ReplayContext, Status, TrxHandle, TrxMeta, WsFlags,
};
use crate::connection::Connection;
use crate::sequence::{Entered, NoApplier, Queued};
use crate::stream;
use crate::transaction::{Gathered, Phase, Transaction, is_applied};
use crate::write_set::WriteSet;

/// A transaction waits no longer for what it would be in conflict with. It holds locks meanwhile.
const CONFLICT_PATIENCE: Duration = Duration::from_millis(100);

impl Connection {
    /// Has the group order a transaction, or a fragment of one.
    pub(crate) fn certify(
        &self,
        conn: u64,
        handle: &mut TrxHandle,
        flags: WsFlags,
    ) -> CertifyOutcome {
        let transaction = self.transactions.open(handle);
        // Nothing new leaves a paused server: it could not take its place, and what others order
        // meanwhile would only make it a conflict.
        self.sequencer.wait_resumed(&transaction.interrupted);
        self.await_the_other(self.sequencer.alone(), &transaction);
        let action = match self.make_action(conn, &transaction, flags) {
            Ok(action) => action,
            Err(status) => {
                transaction.lock().phase = Phase::Failed;
                return outcome(status);
            }
        };
        let Some(node) = self.node() else {
            return outcome(Status::ConnFail);
        };
        let submitted = Instant::now();
        let pending = node.submit_with(&action, stream::patience(&transaction.lock()));
        {
            let mut gathered = transaction.lock();
            gathered.submitted = action.data;
            if gathered.must_abort {
                pending.interrupt();
            }
            gathered.phase = Phase::Certifying(pending.clone());
        }
        let waited = pending.wait();
        if let WaitResult::ProposalResult(fate) = waited {
            self.note_latency(submitted, fate);
        }
        self.certified(&transaction, pending, waited)
    }

    /// Spares a client a deadlock error, where a moment of patience can:
    ///
    /// - Before a transaction is sent, for a statement that executes alone. It may have let go of its locks, so
    ///   that the transaction got them, while it is not released: to the group, the transaction would be older
    ///   than it. Nothing else commits during such a statement anyway.
    /// - After it was refused, for what it is in conflict with: the verdict may come sooner than that. A retry
    ///   before it (`wsrep_retry_autocommit`) would only be refused again, or aborted.
    ///
    /// Whoever needs what the transaction holds meanwhile aborts it.
    fn await_the_other(&self, seqno: i64, transaction: &Transaction) {
        let deadline = Instant::now() + CONFLICT_PATIENCE;
        let interrupted = &transaction.interrupted;
        self.sequencer
            .wait_released_unless(seqno, Some(deadline), interrupted);
    }

    /// An action was submitted then, and its fate is known now.
    pub(crate) fn note_latency(&self, submitted: Instant, fate: ProposalResult) {
        if let ProposalResult::Ordered { .. } = fate {
            let now = Instant::now();
            let (took, period) = (now - submitted, self.settings.stats_period());
            self.counters.latency.note(now, took, period);
        }
    }

    /// Notes the verdict and tells it.
    fn certified(
        &self,
        transaction: &Transaction,
        pending: std::sync::Arc<Pending>,
        waited: WaitResult,
    ) -> CertifyOutcome {
        let mut gathered = transaction.lock();
        if gathered.is_fragment() {
            return self.fragment_certified(transaction, gathered, pending, waited);
        }
        match waited {
            WaitResult::Interrupted => {
                gathered.phase = Phase::AwaitingReplay(pending);
                outcome(Status::BfAbort)
            }
            WaitResult::ProposalResult(ProposalResult::Ordered { seqno, depends_on }) => {
                gathered.depends_on = depends_on.0;
                let meta = self.local_meta(transaction, &gathered, seqno.0);
                let status = if gathered.must_abort {
                    gathered.phase = Phase::AwaitingReplay(pending);
                    Status::BfAbort
                } else {
                    gathered.phase = Phase::Ordered(seqno.0);
                    Status::Ok
                };
                CertifyOutcome {
                    status,
                    meta: Some(meta),
                }
            }
            WaitResult::ProposalResult(fate) => {
                gathered.phase = Phase::Failed;
                let conn = gathered.conn;
                let is_streamed = gathered.stream.is_some();
                let is_wanted_gone = gathered.must_abort;
                drop(gathered);
                if is_streamed && fate == ProposalResult::Unknown {
                    self.lost_sight_of_commit(transaction.trx_id);
                }
                if let ProposalResult::Conflict { with } = fate
                    && !is_wanted_gone
                {
                    self.await_the_other(with.0, transaction);
                }
                outcome(self.refused(transaction.trx_id, conn, fate))
            }
        }
    }

    /// What to answer for an action that was not ordered.
    pub(crate) fn refused(&self, trx: u64, conn: u64, fate: ProposalResult) -> Status {
        let why = match fate {
            ProposalResult::Conflict { .. } => "it conflicts with an action ordered before it",
            ProposalResult::TooOld => "its snapshot is older than the certification history",
            ProposalResult::GivenUp => {
                "the group has given up the first part of it, see the leader's error log"
            }
            ProposalResult::Rejected => return Status::NodeFail,
            ProposalResult::Unknown
            | ProposalResult::NotProposed
            | ProposalResult::Ordered { .. } => return Status::ConnFail,
        };
        self.counters.local_cert_failures.one();
        if self.settings.log_conflicts() {
            let line = format!("transaction {trx} of connection {conn} was refused: {why}");
            self.log(LogLevel::Info, line);
        }
        Status::TrxFail
    }

    /// The transaction as it travels. From here on it is in flight, until its release.
    ///
    /// # Errors
    /// It was aborted before it got here, is too large, or nothing can be proposed at present.
    fn make_action(
        &self,
        conn: u64,
        transaction: &Transaction,
        flags: WsFlags,
    ) -> Result<Action, Status> {
        let last_seen = self.sequencer.released();
        let mut gathered = transaction.lock();
        if gathered.must_abort || self.has_lost(&gathered) {
            return Err(Status::TrxFail);
        }
        let flags = self.note_fragment(transaction.trx_id, &mut gathered, flags);
        let bytes = (gathered.keys.encoded_len() + gathered.data.len()) as u64;
        if bytes > self.settings.write_set_bytes_max() {
            return Err(Status::SizeExceeded);
        }
        // A failed fragment is still in flight.
        if !self.is_of_this_order(&gathered) && !self.begin_flight() {
            return Err(Status::ConnFail);
        }
        gathered.serial = Some(self.serial);
        gathered.phase = Phase::Submitting;
        gathered.flags = flags;
        gathered.conn = conn;
        let write_set = WriteSet {
            flags,
            trx: transaction.trx_id,
            conn,
            data: Bytes::from(std::mem::take(&mut gathered.data)),
        };
        let keys = std::mem::take(&mut gathered.keys);
        drop(gathered);
        let counters = &self.counters;
        counters.replicated.one();
        counters.repl_keys.add(keys.len() as u64);
        counters.repl_keys_bytes.add(keys.encoded_len() as u64);
        counters.repl_data_bytes.add(write_set.data.len() as u64);
        let data = write_set.encode();
        counters
            .replicated_bytes
            .add((keys.encoded_len() + data.len()) as u64);
        let pa_unsafe = flags.contains(WsFlags::PA_UNSAFE);
        Ok(Action {
            class: Class::WriteSet { pa_unsafe },
            keys,
            last_seen,
            data,
        })
    }

    pub(crate) fn local_meta(
        &self,
        transaction: &Transaction,
        gathered: &Gathered,
        seqno: i64,
    ) -> TrxMeta {
        let (trx, conn) = (transaction.trx_id, gathered.conn);
        self.meta(seqno, gathered.depends_on, self.own_uuid(), trx, conn)
    }

    /// Whether the transaction's place in the order is one of this connection's.
    pub(crate) fn is_of_this_order(&self, gathered: &Gathered) -> bool {
        gathered.serial == Some(self.serial)
    }

    /// Waits for a transaction's turn.
    pub(crate) fn commit_order_enter(&self, handle: &TrxHandle, meta: &TrxMeta) -> Status {
        let seqno = meta.gtid.seqno;
        if is_applied(handle) {
            return entered(self.sequencer.enter(seqno, None));
        }
        let Some(transaction) = self.transactions.get(handle) else {
            return Status::TrxMissing;
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
            Entered::Yes if !is_replaying => gathered.phase = Phase::Entered(seqno),
            Entered::Yes => {}
            Entered::Interrupted | Entered::Stopped => {
                gathered.must_abort = true;
                return aborted;
            }
        }
        Status::Ok
    }

    /// Ends a transaction's turn. With an error it does so only if the group had the same one: nothing
    /// after an action that this server alone could not apply may get into its database.
    pub(crate) fn commit_order_leave(
        &self,
        handle: &TrxHandle,
        meta: &TrxMeta,
        error: Option<&[u8]>,
    ) -> Status {
        let seqno = meta.gtid.seqno;
        if let Some(error) = error.filter(|text| !text.is_empty())
            && !self.may_go_on_after(seqno, error)
        {
            return Status::NodeFail;
        }
        if is_applied(handle) {
            self.leave_order(seqno);
            return Status::Ok;
        }
        let Some(transaction) = self.transactions.get(handle) else {
            return Status::TrxMissing;
        };
        let mut gathered = transaction.lock();
        if self.is_of_this_order(&gathered) {
            self.sequencer.leave(seqno);
            gathered.phase = Phase::Left(seqno);
            drop(gathered);
            self.ended(seqno);
        }
        Status::Ok
    }

    /// Lets the next seqno have its turn.
    pub(crate) fn leave_order(&self, seqno: i64) {
        self.sequencer.leave(seqno);
        self.ended(seqno);
    }

    /// A transaction is over, or a fragment of one that goes on.
    pub(crate) fn release_transaction(&self, handle: &mut TrxHandle) -> Status {
        let Some(transaction) = self.transactions.get(handle) else {
            handle.opaque = None;
            return Status::Ok;
        };
        let (phase, is_in_flight) = {
            let mut gathered = transaction.lock();
            if let (true, &Phase::Left(seqno)) = (gathered.is_fragment(), &gathered.phase) {
                return self.release_fragment(gathered, seqno);
            }
            let is_in_flight = self.is_of_this_order(&gathered);
            gathered.serial = None;
            (
                std::mem::replace(&mut gathered.phase, Phase::Failed),
                is_in_flight,
            )
        };
        if is_in_flight {
            self.finish_transaction(&transaction, phase);
            self.end_flight();
        }
        self.transactions.remove(handle);
        Status::Ok
    }

    fn finish_transaction(&self, transaction: &Transaction, phase: Phase) {
        if transaction.lock().stream.is_some() {
            return self.finish_stream(transaction, phase);
        }
        match phase {
            Phase::Left(seqno) => {
                self.counters.local_commits.one();
                self.release(seqno);
            }
            Phase::Ordered(seqno) | Phase::Entered(seqno) | Phase::Replaying(seqno) => {
                self.hand_to_applier(transaction, seqno);
            }
            Phase::Certifying(pending) | Phase::AwaitingReplay(pending) => {
                if let Some(ProposalResult::Ordered { seqno, .. }) = pending.give_up() {
                    self.hand_to_applier(transaction, seqno.0);
                }
            }
            Phase::Executing | Phase::Submitting | Phase::Failed => {}
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
            self.fail(&format!(
                "action {seqno} was given up by its client, and all appliers wait for it: this \
                 server leaves the group. Start it again: the log has the action"
            ));
            self.sequencer.cut();
        }
    }

    /// Applies an aborted, ordered transaction again on its client's thread.
    pub(crate) fn replay(&self, handle: &TrxHandle, ctx: ReplayContext) -> Status {
        let Some(transaction) = self.transactions.get(handle) else {
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
            .callbacks
            .apply_replay(ctx, handle, flags, &write_set.data, &meta)
        {
            Ok(_) => {
                self.counters.local_replays.one();
                Status::Ok
            }
            Err(_) if self.sequencer.is_cut_off(seqno) => {
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
            Phase::Ordered(seqno) => self.unless_lost(transaction, seqno),
            Phase::Certifying(pending) | Phase::AwaitingReplay(pending) => {
                let fate = pending.wait_for_result();
                let mut gathered = transaction.lock();
                if let ProposalResult::Ordered { seqno, depends_on } = fate {
                    gathered.depends_on = depends_on.0;
                    drop(gathered);
                    return self.unless_lost(transaction, seqno.0);
                }
                gathered.phase = Phase::Failed;
                let is_streamed = gathered.stream.is_some();
                drop(gathered);
                if is_streamed && fate == ProposalResult::Unknown {
                    self.lost_sight_of_commit(transaction.trx_id);
                }
                // Whatever it was, the client is told to try again.
                let _ = self.refused(transaction.trx_id, conn, fate);
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

    /// Aborts a local transaction for an action of higher priority. Waits for nothing.
    pub(crate) fn abort(&self, bf_seqno: i64, victim: u64) -> AbortOutcome {
        let Some(transaction) = self.transactions.by_trx(victim) else {
            return abort_outcome(Status::Ok, -1);
        };
        let mut gathered = transaction.lock();
        if gathered.is_fragment() {
            return self.abort_fragment(&transaction, gathered);
        }
        match gathered.phase.clone() {
            Phase::Executing | Phase::Submitting => {
                gathered.must_abort = true;
                self.sequencer.interrupt_waits(&transaction.interrupted);
                abort_outcome(Status::Ok, -1)
            }
            Phase::Certifying(pending) => match pending.fate() {
                Some(ProposalResult::Ordered { seqno, .. }) if is_before(seqno.0, bf_seqno) => {
                    abort_outcome(Status::NotAllowed, seqno.0)
                }
                fate => {
                    gathered.must_abort = true;
                    pending.interrupt();
                    let seqno = match fate {
                        Some(ProposalResult::Ordered { seqno, .. }) => seqno.0,
                        _ => -1,
                    };
                    abort_outcome(Status::Ok, seqno)
                }
            },
            // Aborted already, or first in the order.
            Phase::Ordered(seqno) if gathered.must_abort || is_before(seqno, bf_seqno) => {
                abort_outcome(Status::NotAllowed, seqno)
            }
            Phase::Ordered(seqno) => {
                let interrupted = self.sequencer.interrupt(seqno, &transaction.interrupted);
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
            Phase::AwaitingReplay(_) => abort_outcome(Status::NotAllowed, -1),
            Phase::Failed => {
                // On its way to its rollback: no more waiting.
                self.sequencer.interrupt_waits(&transaction.interrupted);
                abort_outcome(Status::NotAllowed, -1)
            }
        }
    }
}

/// What the server says about a failure, as a line.
pub(crate) fn error_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_matches([' ', '\0', ';']).to_owned()
}

/// Whether the victim is ordered before the aborter. -1: the aborter has no place, it always wins.
fn is_before(victim: i64, bf_seqno: i64) -> bool {
    bf_seqno >= 0 && victim < bf_seqno
}

pub(crate) fn outcome(status: Status) -> CertifyOutcome {
    CertifyOutcome { status, meta: None }
}

pub(crate) fn abort_outcome(status: Status, victim_seqno: i64) -> AbortOutcome {
    AbortOutcome {
        status,
        victim_seqno,
    }
}

fn entered(result: Entered) -> Status {
    match result {
        Entered::Yes => Status::Ok,
        Entered::Interrupted | Entered::Stopped => Status::BfAbort,
    }
}

#[cfg(test)]
mod tests {
    //! What an abort does to a transaction that is in the group's hands, which takes no time in a group
    //! that works. The other phases are tested with a real node.

    use std::sync::Arc;

    use synod_node::GroupId;

    use super::*;
    use crate::api::{Callbacks, Gtid};
    use crate::connection::Shared;
    use crate::position::PositionKeeper;
    use crate::settings::Settings;
    use crate::transaction::Transactions;

    const TRX: u64 = 17;

    fn connection() -> Connection {
        let nowhere = std::env::temp_dir().join("synod-no-such-directory");
        let start = Gtid {
            group: GroupId([1; 16]),
            seqno: 5,
        };
        let callbacks = Callbacks::none();
        let shared = Shared {
            callbacks: callbacks.clone(),
            counters: Arc::default(),
            transactions: Arc::new(Transactions::default()),
            settings: Arc::new(Settings::default()),
            position: Arc::new(PositionKeeper::load(nowhere, start, callbacks).unwrap()),
        };
        Connection::new(shared, 1, (Vec::new(), true), 1 << 20)
    }

    /// A transaction whose fate is not known.
    fn certifying(connection: &Connection) -> (TrxHandle, Arc<Transaction>, Arc<Pending>) {
        let mut handle = TrxHandle {
            trx_id: TRX,
            opaque: None,
        };
        let transaction = connection.transactions.open(&mut handle);
        let pending = Arc::new(Pending::default());
        {
            let mut gathered = transaction.lock();
            gathered.serial = Some(connection.serial);
            gathered.phase = Phase::Certifying(pending.clone());
        }
        (handle, transaction, pending)
    }

    fn answer(outcome: AbortOutcome) -> (Status, i64) {
        (outcome.status, outcome.victim_seqno)
    }

    #[test]
    fn abort_before_the_verdict_is_granted_and_wakes_the_client() {
        let connection = connection();
        let (_, transaction, pending) = certifying(&connection);
        assert_eq!(answer(connection.abort(9, TRX)), (Status::Ok, -1));
        let waited = pending.wait();
        assert_eq!(waited, WaitResult::Interrupted);
        let outcome = connection.certified(&transaction, pending, waited);
        assert_eq!((outcome.status, outcome.meta), (Status::BfAbort, None));
        assert_eq!(
            answer(connection.abort(9, TRX)),
            (Status::NotAllowed, -1),
            "aborted already"
        );
    }

    #[test]
    fn verdict_that_comes_together_with_an_abort_still_leads_to_a_replay() {
        let connection = connection();
        let (_, transaction, pending) = certifying(&connection);
        assert_eq!(answer(connection.abort(-1, TRX)), (Status::Ok, -1));
        let seqno = synod_node::Seqno(8);
        let fate = ProposalResult::Ordered {
            seqno,
            depends_on: synod_node::Seqno(6),
        };
        let outcome = connection.certified(&transaction, pending, WaitResult::ProposalResult(fate));
        assert_eq!(outcome.status, Status::BfAbort);
        assert_eq!(outcome.meta.unwrap().gtid.seqno, 8);
    }

    #[test]
    fn refused_transaction_waits_for_what_it_conflicts_with_until_that_needs_it_gone() {
        let connection = Arc::new(connection());
        let (_, transaction, pending) = certifying(&connection);
        let refused = {
            let (connection, transaction) = (connection.clone(), transaction.clone());
            std::thread::spawn(move || {
                let with = synod_node::Seqno(i64::MAX);
                let fate = WaitResult::ProposalResult(ProposalResult::Conflict { with });
                connection.certified(&transaction, pending, fate).status
            })
        };
        while !matches!(transaction.lock().phase, Phase::Failed) {
            std::thread::yield_now();
        }
        assert_eq!(answer(connection.abort(9, TRX)), (Status::NotAllowed, -1));
        assert_eq!(refused.join().unwrap(), Status::TrxFail);
        assert!(
            transaction
                .interrupted
                .load(std::sync::atomic::Ordering::Acquire)
        );
    }

    #[test]
    fn statement_that_executes_is_waited_for_until_it_wants_the_fragment_gone() {
        let connection = Arc::new(connection());
        let (_, transaction, _) = certifying(&connection);
        {
            let mut gathered = transaction.lock();
            gathered.phase = Phase::Executing;
            gathered.stream = Some(crate::transaction::Stream {
                serial: connection.serial,
                first: Some(4),
            });
        }
        connection.sequencer.begin_alone(6);
        let waits = {
            let (connection, transaction) = (connection.clone(), transaction.clone());
            std::thread::spawn(move || {
                let alone = connection.sequencer.alone();
                let interrupted = &transaction.interrupted;
                connection
                    .sequencer
                    .wait_released_unless(alone, None, interrupted)
            })
        };
        assert_eq!(answer(connection.abort(6, TRX)), (Status::Ok, -1));
        assert!(!waits.join().unwrap());
        assert!(transaction.lock().must_abort);
    }

    #[test]
    fn replay_of_what_never_got_a_place_fails() {
        let connection = connection();
        let (handle, transaction, pending) = certifying(&connection);
        connection.abort(-1, TRX);
        connection.certified(&transaction, pending.clone(), WaitResult::Interrupted);
        assert_eq!(pending.give_up(), Some(ProposalResult::Unknown));
        let status = connection.replay(&handle, ReplayContext::for_tests(1));
        assert_eq!(status, Status::TrxFail);
    }

    #[test]
    fn place_in_an_earlier_connections_order_means_nothing() {
        let connection = connection();
        let (mut handle, transaction, _) = certifying(&connection);
        {
            let mut gathered = transaction.lock();
            gathered.serial = Some(connection.serial + 1);
            gathered.phase = Phase::Ordered(6);
        }
        let meta = connection.local_meta(&transaction, &transaction.lock(), 6);
        assert_eq!(
            connection.commit_order_enter(&handle, &meta),
            Status::BfAbort
        );
        assert_eq!(
            connection.replay(&handle, ReplayContext::for_tests(1)),
            Status::TrxFail
        );
        transaction.lock().phase = Phase::Left(6);
        assert_eq!(connection.release_transaction(&mut handle), Status::Ok);
        assert_eq!(connection.sequencer.released(), 5);
    }

    #[test]
    fn error_texts_lose_their_padding() {
        assert_eq!(error_text(b" Error_code: 1060;\0"), "Error_code: 1060");
        assert_eq!(error_text(b"\0\0"), "");
    }
}
