//! Local transactions: from their client's threads to the group and back.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_node::{Action, Class, Fate, Origin, Waited};
use wsrep_sys as sys;

use crate::api::{
    AbortOutcome, CertifyOutcome, LogLevel, ReplayContext, Status, TrxHandle, TrxMeta, WsFlags,
};
use crate::connection::Connection;
use crate::sequence::{Entered, Queued};
use crate::transaction::{Gathered, Phase, Transaction, is_applied};
use crate::write_set::WriteSet;

const WHOLE: WsFlags = WsFlags(sys::WSREP_FLAG_TRX_START | sys::WSREP_FLAG_TRX_END);

impl Connection {
    /// Has the group order a transaction.
    pub fn certify(&self, conn: u64, handle: &mut TrxHandle, flags: WsFlags) -> CertifyOutcome {
        if !flags.contains(WHOLE) {
            self.log(
                LogLevel::Warn,
                "streaming replication is not available yet: set wsrep_trx_fragment_size=0",
            );
            return outcome(Status::NotImplemented);
        }
        let transaction = self.transactions.open(handle);
        let Some(node) = self.node().filter(|_| self.is_primary()) else {
            transaction.lock().phase = Phase::Failed;
            return outcome(Status::ConnFail);
        };
        let Some(action) = self.make_action(conn, &transaction, flags) else {
            // Aborted while it was executing.
            return outcome(Status::TrxFail);
        };
        let pending = node.submit(&action);
        {
            let mut gathered = transaction.lock();
            gathered.submitted = action.data;
            if gathered.must_abort {
                pending.interrupt();
            }
            gathered.phase = Phase::Certifying(pending.clone());
        }
        let waited = pending.wait();
        let mut gathered = transaction.lock();
        match waited {
            Waited::Interrupted => {
                gathered.phase = Phase::AwaitingReplay(pending);
                outcome(Status::BfAbort)
            }
            Waited::Fate(Fate::Ordered { seqno, depends_on }) => {
                gathered.depends_on = depends_on.0;
                let meta = self.local_meta(&transaction, &gathered, seqno.0);
                let status = if gathered.must_abort {
                    gathered.phase = Phase::AwaitingReplay(pending);
                    Status::BfAbort
                } else {
                    gathered.phase = Phase::Ordered(seqno.0);
                    Status::Ok
                };
                CertifyOutcome { status, meta: Some(meta) }
            }
            Waited::Fate(fate) => {
                gathered.phase = Phase::Failed;
                outcome(self.refused(fate))
            }
        }
    }

    /// What to answer for an action that was not ordered.
    fn refused(&self, fate: Fate) -> Status {
        match fate {
            Fate::Conflict | Fate::TooOld => {
                self.counters.local_cert_failures.one();
                Status::TrxFail
            }
            Fate::Rejected => Status::NodeFail,
            Fate::Unknown | Fate::Ordered { .. } => Status::ConnFail,
        }
    }

    /// `None` if the transaction was aborted before it got here.
    fn make_action(&self, conn: u64, transaction: &Transaction, flags: WsFlags) -> Option<Action> {
        let last_seen = self.sequencer.released();
        let mut gathered = transaction.lock();
        if gathered.must_abort {
            gathered.phase = Phase::Failed;
            return None;
        }
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
        let counters = &self.counters;
        counters.replicated.one();
        counters.repl_keys.add(keys.len() as u64);
        counters.repl_keys_bytes.add(keys.encoded_len() as u64);
        counters.repl_data_bytes.add(write_set.data.len() as u64);
        let data = write_set.encode();
        counters.replicated_bytes.add((keys.encoded_len() + data.len()) as u64);
        let pa_unsafe = flags.contains(WsFlags::PA_UNSAFE);
        Some(Action { class: Class::WriteSet { pa_unsafe }, keys, last_seen, data })
    }

    fn local_meta(&self, transaction: &Transaction, gathered: &Gathered, seqno: i64) -> TrxMeta {
        let (trx, conn) = (transaction.trx_id, gathered.conn);
        self.meta(seqno, gathered.depends_on, self.own_uuid(), trx, conn)
    }

    /// Waits for a transaction's turn.
    pub fn commit_order_enter(&self, handle: &TrxHandle, meta: &TrxMeta) -> Status {
        let seqno = meta.gtid.seqno;
        if is_applied(handle) {
            return entered(self.sequencer.enter(seqno, None));
        }
        let Some(transaction) = self.transactions.get(handle) else { return Status::TrxMissing };
        let replaying = matches!(transaction.lock().phase, Phase::Replaying(_));
        let interrupt = (!replaying).then_some(&transaction.interrupted);
        let result = self.sequencer.enter(seqno, interrupt);
        let mut gathered = transaction.lock();
        match result {
            Entered::Yes if !replaying => gathered.phase = Phase::Entered(seqno),
            Entered::Yes => {}
            Entered::Interrupted | Entered::Stopped => gathered.must_abort = true,
        }
        entered(result)
    }

    /// Ends a transaction's turn.
    pub fn commit_order_leave(
        &self,
        handle: &TrxHandle,
        meta: &TrxMeta,
        error: Option<&[u8]>,
        is_isolated: bool,
    ) -> Status {
        let seqno = meta.gtid.seqno;
        self.sequencer.leave(seqno);
        if !is_applied(handle) {
            if let Some(transaction) = self.transactions.get(handle) {
                transaction.lock().phase = Phase::Left(seqno);
            }
        }
        match error {
            Some(text) if !text.is_empty() && !is_isolated => {
                let text = String::from_utf8_lossy(text);
                let text = text.trim_end_matches('\0').trim();
                self.log(LogLevel::Error, format!("action {seqno} failed to apply here: {text}"));
                Status::NodeFail
            }
            _ => Status::Ok,
        }
    }

    /// A transaction is over.
    pub fn release_transaction(&self, handle: &mut TrxHandle) -> Status {
        let Some(transaction) = self.transactions.get(handle) else {
            handle.opaque = None;
            return Status::Ok;
        };
        let phase = std::mem::replace(&mut transaction.lock().phase, Phase::Failed);
        match phase {
            Phase::Left(seqno) => {
                self.counters.local_commits.one();
                self.release(seqno);
            }
            Phase::Ordered(seqno) | Phase::Entered(seqno) | Phase::Replaying(seqno) => {
                self.hand_to_applier(&transaction, seqno);
            }
            Phase::Certifying(pending) | Phase::AwaitingReplay(pending) => {
                if let Some(Fate::Ordered { seqno, .. }) = pending.give_up() {
                    self.hand_to_applier(&transaction, seqno.0);
                }
            }
            Phase::Executing | Phase::Submitting | Phase::Failed => {}
        }
        self.transactions.remove(handle);
        Status::Ok
    }

    /// An ordered transaction that its client will not finish: it is applied like another member's,
    /// since the other members have it.
    fn hand_to_applier(&self, transaction: &Transaction, seqno: i64) {
        let gathered = transaction.lock();
        let (member, session) = self.node().map(|node| node.identity()).unwrap_or_default();
        self.sequencer.adopt(Queued::Action {
            seqno,
            depends_on: seqno - 1,
            origin: Origin { member, session, number: 0 },
            data: gathered.submitted.clone(),
        });
    }

    /// Applies an aborted, ordered transaction again on its client's thread.
    pub fn replay(&self, handle: &TrxHandle, ctx: ReplayContext) -> Status {
        let Some(transaction) = self.transactions.get(handle) else { return Status::TrxFail };
        let phase = transaction.lock().phase.clone();
        let seqno = match phase {
            Phase::Ordered(seqno) => seqno,
            Phase::Certifying(pending) | Phase::AwaitingReplay(pending) => {
                match pending.wait_for_fate() {
                    Fate::Ordered { seqno, depends_on } => {
                        transaction.lock().depends_on = depends_on.0;
                        seqno.0
                    }
                    fate => {
                        transaction.lock().phase = Phase::Failed;
                        // Whatever it was, the client is told to try again.
                        let _ = self.refused(fate);
                        return Status::TrxFail;
                    }
                }
            }
            _ => return Status::TrxFail,
        };
        if !self.sequencer.wait_released(seqno - 1, None) {
            transaction.lock().phase = Phase::Failed;
            return Status::TrxFail;
        }
        let (meta, submitted, flags) = {
            let mut gathered = transaction.lock();
            gathered.phase = Phase::Replaying(seqno);
            (self.local_meta(&transaction, &gathered, seqno), gathered.submitted.clone(), gathered.flags)
        };
        let write_set = match WriteSet::decode(seqno, submitted) {
            Ok(write_set) => write_set,
            Err(error) => {
                self.inconsistent(&error.to_string());
                return Status::TrxFail;
            }
        };
        match self.callbacks.apply_replay(ctx, handle, flags, &write_set.data, &meta) {
            Ok(_) => {
                self.counters.local_replays.one();
                Status::Ok
            }
            Err(_) => {
                self.inconsistent(&format!("transaction {seqno} could not be replayed"));
                Status::TrxFail
            }
        }
    }

    /// Aborts a local transaction for an action of higher priority.
    pub fn abort(&self, bf_seqno: i64, victim: u64) -> AbortOutcome {
        let Some(transaction) = self.transactions.by_trx(victim) else {
            return abort_outcome(Status::Ok, -1);
        };
        let mut gathered = transaction.lock();
        match gathered.phase.clone() {
            Phase::Executing | Phase::Submitting => {
                gathered.must_abort = true;
                abort_outcome(Status::Ok, -1)
            }
            Phase::Certifying(pending) => match pending.fate() {
                Some(Fate::Ordered { seqno, .. }) if is_before(seqno.0, bf_seqno) => {
                    abort_outcome(Status::NotAllowed, seqno.0)
                }
                fate => {
                    gathered.must_abort = true;
                    pending.interrupt();
                    let seqno = match fate {
                        Some(Fate::Ordered { seqno, .. }) => seqno.0,
                        _ => -1,
                    };
                    abort_outcome(Status::Ok, seqno)
                }
            },
            Phase::Ordered(seqno) if is_before(seqno, bf_seqno) => {
                abort_outcome(Status::NotAllowed, seqno)
            }
            Phase::Ordered(seqno) => {
                let interrupted = self.sequencer.interrupt(seqno, &transaction.interrupted);
                gathered.must_abort |= interrupted;
                let status = if interrupted { Status::Ok } else { Status::NotAllowed };
                abort_outcome(status, seqno)
            }
            Phase::Entered(seqno) | Phase::Left(seqno) | Phase::Replaying(seqno) => {
                abort_outcome(Status::NotAllowed, seqno)
            }
            Phase::AwaitingReplay(_) | Phase::Failed => abort_outcome(Status::NotAllowed, -1),
        }
    }

    /// Whether a transaction has been told to go away.
    pub fn must_abort(transaction: &Transaction) -> bool {
        transaction.interrupted.load(Ordering::Acquire) || transaction.lock().must_abort
    }
}

/// Whether the victim is ordered before the aborter. -1: the aborter has no place, it always wins.
fn is_before(victim: i64, bf_seqno: i64) -> bool {
    bf_seqno >= 0 && victim < bf_seqno
}

fn outcome(status: Status) -> CertifyOutcome {
    CertifyOutcome { status, meta: None }
}

fn abort_outcome(status: Status, victim_seqno: i64) -> AbortOutcome {
    AbortOutcome { status, victim_seqno }
}

fn entered(result: Entered) -> Status {
    match result {
        Entered::Yes => Status::Ok,
        Entered::Interrupted | Entered::Stopped => Status::BfAbort,
    }
}
