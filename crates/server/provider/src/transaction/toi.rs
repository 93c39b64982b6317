//! TOI: statements (DDL) that execute at one place in the order on all servers, and alone.
//!
//! The order is taken from `to_execute_start` to `to_execute_end` of the same connection.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use synod_binlog::write_set::{Note, WriteSet};
use synod_node::{Action, ApplyOutcome, Class, KeySet, KeyType, ProposalResult};
use wsrep_sys as sys;

use super::outcome_notes::OutcomeNote;
use super::proxy_grants::{REFUSED, is_proxy_grant};
use super::statements::Statement;
use crate::api::{CertifyOutcome, LogLevel, Status, TrxMeta, WsFlags};
use crate::apply::inconsistency::{Verdict, error_text};
use crate::apply::sequencer::Entered;
use crate::boundary;
use crate::connection::Connection;

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
        if !self.takes_writes() {
            self.tell_who_writes();
            return failed(Status::NotAllowed);
        }
        if self.would_wait_for_itself(conn) {
            return failed(Status::TrxFail);
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
        let events = action.concat();
        if is_proxy_grant(&events) {
            boundary::refuse_statement(REFUSED);
            return Err(Status::NotAllowed);
        }
        if !self.takes_from_replica(WsFlags(flags) | WsFlags::ISOLATION, &events) {
            return Err(Status::NotAllowed);
        }
        let action = self.statement(conn, keys, events.into(), flags, note);
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
                let data = action.data;
                self.statements.begin(conn, Statement { seqno, note, data });
                Ok(self.meta(seqno, depends_on, self.own_uuid(), trx, conn))
            }
            Entered::Interrupted | Entered::Stopped => Err(Status::ConnFail),
        }
    }

    fn statement(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        events: Bytes,
        flags: u32,
        note: Note,
    ) -> Action {
        let mut set = KeySet::new();
        for parts in keys {
            set.append(parts, KeyType::Exclusive);
        }
        let write_set = WriteSet {
            flags: WsFlags(flags) | WsFlags::ISOLATION,
            note,
            trx: sys::WSREP_UNDEFINED_TRX_ID,
            conn,
            data: events,
        };
        Action {
            class: Class::TotalOrder,
            keys: set,
            last_seen: self.sequencer.released(),
            data: write_set.encode(),
        }
    }

    /// The statement is done. An error is reported to the group as any other: either the statement
    /// fails on all servers alike, or this server differs.
    pub(crate) fn to_execute_end(&self, conn: u64, error: Option<&[u8]>) -> Status {
        let number = boundary::statement_error();
        let Some(statement) = self.statements.end(conn) else {
            return Status::TrxMissing;
        };
        let seqno = statement.seqno;
        let Some(error) = error.filter(|text| !text.is_empty()) else {
            self.finish_statement(&statement, number);
            return Status::Ok;
        };
        let compared = statement_failure(error, number);
        // The client gets the statement's own error, whatever is answered here.
        match self.judge_failure(seqno, &compared) {
            Verdict::Alike => self.finish_statement(&statement, number),
            Verdict::Outvoted { winner, .. } => {
                self.execute_again(conn, &statement, number, &compared, winner);
            }
            Verdict::Unknown(why) => {
                self.leave_undecided(seqno, error, why);
                self.sequencer.abort();
                self.end_flight();
            }
            Verdict::PassedOver => self.end_flight(),
        }
        Status::Ok
    }

    /// Ends a statement whose outcome here is, as far as known, that of the other servers.
    fn finish_statement(&self, statement: &Statement, number: Option<u32>) {
        let seqno = statement.seqno;
        self.leave_order(seqno);
        self.release(seqno);
        self.tell_outcome(statement, number);
        self.hold_up_client(seqno, None);
    }

    /// Has an applier execute a statement again that failed here only, because of a setting of its
    /// client's session or a `KILL`: `winner` is the group's outcome. If the retry differs as well,
    /// this server leaves.
    fn execute_again(
        &self,
        conn: u64,
        statement: &Statement,
        number: Option<u32>,
        error: &[u8],
        winner: ApplyOutcome,
    ) {
        let seqno = statement.seqno;
        let text = error_text(error);
        let line = format!(
            "statement {seqno} failed for its client: {text}; in the group {winner} wins. An \
             applier executes it on this server now"
        );
        self.log(LogLevel::Warn, line);
        let number = match winner.is_success() {
            true => Some(0),
            false => number,
        };
        self.statements
            .adopt(conn, seqno, self.sequencer.released());
        self.adopt(seqno, statement.data.clone());
        self.tell_outcome(statement, number);
    }

    /// Whether a client has locked tables (`LOCK TABLES`) that an applier may need for the client's
    /// own last statement: what comes after it would wait for it, and it for the client.
    pub(super) fn would_wait_for_itself(&self, conn: u64) -> bool {
        let released = self.sequencer.released();
        self.statements.is_adopted(conn, released) && boundary::has_locked_tables()
    }

    /// Ends the statement's flight, with the note that its write set promises.
    fn tell_outcome(&self, statement: &Statement, number: Option<u32>) {
        match (statement.note, number) {
            (Note::Promised, Some(number)) => {
                self.note_outcome(OutcomeNote::of(statement.seqno, number));
            }
            _ => self.end_flight(),
        }
    }
}

/// The error of a statement as the servers compare it: by its number, if that is known. The
/// server's text has the numbers of warnings in it, and which of them there are depends on the
/// client's session (`sql_notes`, `max_error_count`), of which appliers know nothing.
pub(super) fn statement_failure(text: &[u8], number: Option<u32>) -> Cow<'_, [u8]> {
    match number {
        Some(number) if number != 0 => Cow::Owned(format!("Error_code: {number}").into_bytes()),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_a_statement_are_compared_by_their_number() {
        let text = b" Error_code: 1478; Error_code: 1005;\0";
        assert_eq!(&*statement_failure(text, Some(1005)), b"Error_code: 1005");
        assert_eq!(&*statement_failure(text, Some(0)), text);
        assert_eq!(&*statement_failure(text, None), text);
    }
}
