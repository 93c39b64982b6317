//! TOI: statements (DDL) that execute at one place in the order on all servers, and alone.
//!
//! The order is taken from `to_execute_start` to `to_execute_end` of the same connection.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use synod_node::{Action, Class, KeySet, KeyType, ProposalResult};
use synod_write_set::{Note, WriteSet};
use wsrep_sys as sys;

use super::outcome_notes::OutcomeNote;
use crate::api::{CertifyOutcome, Status, TrxMeta, WsFlags};
use crate::apply::sequencer::Entered;
use crate::boundary;
use crate::connection::Connection;

/// A statement that executes.
#[derive(Clone, Copy, Debug)]
struct Statement {
    seqno: i64,
    /// What its write set says about its outcome.
    note: Note,
}

/// Which connection executes which statement.
#[derive(Default)]
pub(crate) struct Statements(Mutex<HashMap<u64, Statement>>);

impl Statements {
    fn begin(&self, conn: u64, statement: Statement) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(conn, statement);
    }

    fn end(&self, conn: u64) -> Option<Statement> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&conn)
    }
}

impl Connection {
    /// Orders a statement and waits for its turn, alone.
    pub(crate) fn to_execute_start(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        action: &[&[u8]],
        flags: u32,
    ) -> CertifyOutcome {
        let failed = |status| CertifyOutcome { status, meta: None };
        if !self.takes_statements() {
            self.tell_who_writes();
            return failed(Status::NotAllowed);
        }
        if !self.begin_flight() {
            return failed(Status::ConnFail);
        }
        match self.order_statement(conn, keys, action, flags) {
            Ok(meta) => CertifyOutcome {
                status: Status::Ok,
                meta: Some(meta),
            },
            Err(status) => {
                self.end_flight();
                failed(status)
            }
        }
    }

    fn order_statement(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        action: &[&[u8]],
        flags: u32,
    ) -> Result<TrxMeta, Status> {
        let node = self.node().ok_or(Status::ConnFail)?;
        let note = match self.notes_outcomes() {
            true => Note::Promised,
            false => Note::None,
        };
        let action = self.statement(conn, keys, action, flags, note);
        let bytes = (action.keys.encoded_len() + action.data.len()) as u64;
        if bytes > self.shared.options.write_set_bytes_max() {
            return Err(Status::SizeExceeded);
        }
        self.shared.counters.replicated.one();
        self.shared
            .counters
            .replicated_bytes
            .add(action.data.len() as u64);
        let submitted = Instant::now();
        let result = node.submit(&action).wait_for_result();
        self.note_latency(submitted, result);
        let (seqno, depends_on) = match result {
            ProposalResult::Ordered { seqno, depends_on } => (seqno.0, depends_on.0),
            ProposalResult::Conflict { .. }
            | ProposalResult::TooOld
            | ProposalResult::GivenUp
            | ProposalResult::Withdrawn
            | ProposalResult::Rejected => {
                return Err(Status::TrxFail);
            }
            ProposalResult::NotWriter => {
                self.tell_who_writes();
                return Err(Status::NotAllowed);
            }
            ProposalResult::Unknown | ProposalResult::NotProposed => return Err(Status::ConnFail),
        };
        let trx = sys::WSREP_UNDEFINED_TRX_ID;
        match self.sequencer.enter_alone(seqno) {
            Entered::Yes => {
                self.statements.begin(conn, Statement { seqno, note });
                Ok(self.meta(seqno, depends_on, self.own_uuid(), trx, conn))
            }
            Entered::Interrupted | Entered::Stopped => Err(Status::ConnFail),
        }
    }

    fn statement(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        action: &[&[u8]],
        flags: u32,
        note: Note,
    ) -> Action {
        let mut set = KeySet::new();
        for parts in keys {
            set.append(parts, KeyType::Exclusive);
        }
        let mut data = BytesMut::new();
        for part in action {
            data.extend_from_slice(part);
        }
        let write_set = WriteSet {
            flags: WsFlags(flags) | WsFlags::ISOLATION,
            note,
            trx: sys::WSREP_UNDEFINED_TRX_ID,
            conn,
            data: Bytes::from(data),
        };
        Action {
            class: Class::TotalOrder,
            keys: set,
            last_seen: self.sequencer.released(),
            data: write_set.encode(),
        }
    }

    /// The statement is done. An error that `wsrep_ignore_apply_errors` does not let pass is
    /// reported to the group as any other: either the same statement fails on all servers, or this
    /// server differs.
    pub(crate) fn to_execute_end(&self, conn: u64, error: Option<&[u8]>) -> Status {
        let number = boundary::statement_error();
        let Some(Statement { seqno, note }) = self.statements.end(conn) else {
            return Status::TrxMissing;
        };
        let error = error.filter(|text| !text.is_empty());
        if let Some(error) = error
            && !self.confirm_failure(seqno, error)
        {
            // The client gets the statement's own error, whatever is answered here.
            self.end_flight();
            return Status::Ok;
        }
        self.leave_order(seqno);
        self.release(seqno);
        match (note, number) {
            (Note::Promised, Some(number)) => self.note_outcome(OutcomeNote::of(seqno, number)),
            _ => self.end_flight(),
        }
        self.hold_up_client(seqno, None);
        Status::Ok
    }
}
