//! TOI: statements (DDL) that execute at one place in the order on all servers, and alone.
//!
//! The order is taken from `to_execute_start` to `to_execute_end` of the same connection.
//!
//! # Grants of proxies
//!
//! Only an account that may be another one itself grants the right to be it (`GRANT PROXY`, `REVOKE
//! PROXY`), and appliers are no account: the statement fails on every server but its own (error
//! 1698), which the group then takes for the one whose data differ. So it is refused before it is
//! ordered.
//!
//! # Notes of outcomes
//!
//! Servers execute a statement themselves. A reader of the log has no database to execute it in: it
//! could not tell a statement that failed everywhere. So the origin notes in the log how each has
//! ended, while the group has a member without a database, which may be a relay. The statement's
//! write set promises the note, so that a reader knows whether to wait for one. If the origin dies,
//! the next view is without its session, and no note comes any more.
//!
//! A note is ordered like anything else, without a client: by a thread that lives as long as the
//! connection. Until then its statement counts as under way, and an orderly stop waits for it.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use synod_binlog::Events;
use synod_binlog::bodies::Query;
use synod_binlog::words::words;
use synod_binlog::write_set::{Note, WriteSet};
use synod_node::{Action, ApplyOutcome, Class, KeySet, KeyType, ProposalResult};
use wsrep_sys as sys;

use crate::api::{CertifyOutcome, LogLevel, Status, TrxMeta, WsFlags};
use crate::apply::failed_action_here::{Verdict, Votes, error_text};
use crate::apply::sequencer::Entered;
use crate::boundary;
use crate::connection::departure::LANDING_LIMIT;
use crate::connection::session::Session;
use crate::connection::write_gate::WriteGate;

pub(crate) struct NewStatement<'a> {
    pub(crate) conn: u64,
    pub(crate) keys: &'a [Vec<&'a [u8]>],
    pub(crate) action: &'a [&'a [u8]],
    pub(crate) flags: WsFlags,
}

impl NewStatement<'_> {
    fn action(&self, session: &Session, events: Bytes, note: Note) -> Action {
        let mut set = KeySet::new();
        for parts in self.keys {
            set.append(parts, KeyType::Exclusive);
        }
        let write_set = WriteSet {
            flags: self.flags | WsFlags::ISOLATION,
            note,
            trx: sys::WSREP_UNDEFINED_TRX_ID,
            conn: self.conn,
            data: events,
        };
        Action {
            class: Class::TotalOrder,
            keys: set,
            last_seen: session.sequencer.released(),
            data: write_set.encode(),
        }
    }
}

#[derive(Clone, Debug)]
struct Statement {
    seqno: i64,
    /// The promise of its write set about its outcome.
    note: Note,
    /// Its write set, should an applier have to execute it.
    data: Bytes,
}

/// Statements by the connections that execute them, and those that an applier executes instead.
pub(crate) struct Statements {
    executing: Mutex<HashMap<u64, Statement>>,
    /// Seqnos of the statements that an applier executes, by connection.
    adopted: Mutex<HashMap<u64, i64>>,
    /// The last of these.
    last_adopted: AtomicI64,
}

impl Default for Statements {
    fn default() -> Statements {
        Statements {
            executing: Mutex::default(),
            adopted: Mutex::default(),
            last_adopted: AtomicI64::new(i64::MIN),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Statements {
    /// Orders a statement and waits for its turn, alone.
    pub(crate) fn begin(
        &self,
        session: &Session,
        gate: &WriteGate,
        statement: &NewStatement<'_>,
    ) -> CertifyOutcome {
        let failed = |status| CertifyOutcome { status, meta: None };
        if !gate.is_open() {
            gate.refuse(session);
            return failed(Status::NotAllowed);
        }
        if self.would_wait_for_itself(session, statement.conn) {
            return failed(Status::TrxFail);
        }
        if !session.begin_flight() {
            return failed(Status::ConnFail);
        }
        match self.order(session, gate, statement) {
            Ok(meta) => CertifyOutcome {
                status: Status::Ok,
                meta: Some(meta),
            },
            Err(status) => {
                session.end_flight();
                failed(status)
            }
        }
    }

    fn order(
        &self,
        session: &Session,
        gate: &WriteGate,
        statement: &NewStatement<'_>,
    ) -> Result<TrxMeta, Status> {
        let node = session.node().ok_or(Status::ConnFail)?;
        let note = match notes_outcomes(session) {
            true => Note::Promised,
            false => Note::None,
        };
        let events = statement.action.concat();
        if is_proxy_grant(&events) {
            boundary::refuse_statement(REFUSED);
            return Err(Status::NotAllowed);
        }
        let other = &session.server.other_replication;
        if !other.takes(
            &session.server,
            statement.flags | WsFlags::ISOLATION,
            &events,
        ) {
            return Err(Status::NotAllowed);
        }
        let action = statement.action(session, events.into(), note);
        let bytes = (action.keys.encoded_len() + action.data.len()) as u64;
        if bytes > session.server.options.write_set_bytes_max() {
            return Err(Status::SizeExceeded);
        }
        session.server.counters.replicated.one();
        session
            .server
            .counters
            .replicated_bytes
            .add(action.data.len() as u64);
        let submitted = Instant::now();
        let result = node.submit(&action).wait_for_result();
        session.server.note_latency(submitted, result);
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
                gate.refuse(session);
                return Err(Status::NotAllowed);
            }
            ProposalResult::Unknown | ProposalResult::NotProposed => return Err(Status::ConnFail),
        };
        let trx = sys::WSREP_UNDEFINED_TRX_ID;
        match session.sequencer.enter_alone(seqno) {
            Entered::Yes => {
                session.server.position.executes(session.group(), seqno);
                let data = action.data;
                let executing = Statement { seqno, note, data };
                lock(&self.executing).insert(statement.conn, executing);
                Ok(session.meta(seqno, depends_on, session.own_uuid(), trx, statement.conn))
            }
            Entered::Interrupted | Entered::Stopped => Err(Status::ConnFail),
        }
    }

    /// The statement is done. An error is reported to the group as any other: either the statement
    /// fails on all servers alike, or this server differs.
    pub(crate) fn end(
        &self,
        session: &Session,
        votes: &Votes,
        conn: u64,
        error: Option<&[u8]>,
    ) -> Status {
        let number = boundary::statement_error();
        let Some(statement) = lock(&self.executing).remove(&conn) else {
            return Status::TrxMissing;
        };
        let seqno = statement.seqno;
        let Some(error) = error.filter(|text| !text.is_empty()) else {
            finish(session, votes, &statement, number);
            return Status::Ok;
        };
        let compared = statement_failure(error, number);
        // The client gets the statement's own error, whatever is answered here.
        match votes.judge_failure(session, seqno, &compared) {
            Verdict::Alike => finish(session, votes, &statement, number),
            Verdict::Outvoted { winner, .. } => {
                self.execute_again(session, conn, &statement, number, &compared, winner);
            }
            Verdict::Unknown(why) => {
                votes.leave_undecided(session, seqno, error, why);
                session.sequencer.abort();
                session.end_flight();
            }
            Verdict::PassedOver => session.end_flight(),
        }
        Status::Ok
    }

    /// Has an applier execute a statement again that failed here only, because of a setting of its
    /// client's session or a `KILL`: `winner` is the group's outcome. If the retry differs as well,
    /// this server leaves.
    fn execute_again(
        &self,
        session: &Session,
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
        session.log(LogLevel::Warn, line);
        let number = match winner.is_success() {
            true => Some(0),
            false => number,
        };
        self.adopt(conn, seqno, session.sequencer.released());
        session.adopt(seqno, statement.data.clone());
        tell_outcome(session, statement, number);
    }

    /// Whether a client has locked tables (`LOCK TABLES`) that an applier may need for the client's
    /// own last statement: what comes after it would wait for it, and it for the client.
    pub(super) fn would_wait_for_itself(&self, session: &Session, conn: u64) -> bool {
        let released = session.sequencer.released();
        self.is_adopted(conn, released) && boundary::has_locked_tables()
    }

    /// An applier executes the statement at `seqno` in the place of this connection; everything up
    /// to `released` is finished.
    fn adopt(&self, conn: u64, seqno: i64, released: i64) {
        let mut adopted = lock(&self.adopted);
        adopted.retain(|_, seqno| *seqno > released);
        adopted.insert(conn, seqno);
        self.last_adopted.fetch_max(seqno, Ordering::Release);
    }

    /// Whether an applier has a statement of this connection that is not finished. Costs nothing
    /// unless there is one of any connection.
    fn is_adopted(&self, conn: u64, released: i64) -> bool {
        if self.last_adopted.load(Ordering::Acquire) <= released {
            return false;
        }
        let adopted = lock(&self.adopted).get(&conn).copied();
        adopted.is_some_and(|seqno| seqno > released)
    }
}

fn finish(session: &Session, votes: &Votes, statement: &Statement, number: Option<u32>) {
    let seqno = statement.seqno;
    votes.leave_order(session, seqno);
    session.release(seqno);
    tell_outcome(session, statement, number);
    session.hold_up_client(seqno, None);
}

/// Ends the statement's flight, with the note that its write set promises.
fn tell_outcome(session: &Session, statement: &Statement, number: Option<u32>) {
    match (statement.note, number) {
        (Note::Promised, Some(number)) => {
            note_outcome(session, OutcomeNote::of(statement.seqno, number));
        }
        _ => session.end_flight(),
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

/// `ER_UNKNOWN_ERROR`: of errors without a number that fits.
const UNKNOWN_ERROR: u16 = 1105;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutcomeNote {
    statement: i64,
    /// The number of its error; zero: none.
    error: u16,
}

impl OutcomeNote {
    /// A statement that has ended with this error, by the server's number; zero: with none.
    pub(crate) fn of(statement: i64, error: u32) -> OutcomeNote {
        OutcomeNote {
            statement,
            error: u16::try_from(error).unwrap_or(UNKNOWN_ERROR),
        }
    }
}

/// Notes that wait to be ordered, oldest first.
pub(crate) type NoteQueue = VecDeque<OutcomeNote>;

/// Whether the outcomes of statements are noted: this server can tell them, and there is a
/// member that may have readers.
fn notes_outcomes(session: &Session) -> bool {
    let has_readers = || {
        let status = session.node().map(|node| node.status());
        status.is_some_and(|status| status.members.iter().any(|member| !member.has_data))
    };
    boundary::can_tell_statement_errors() && has_readers()
}

/// Notes how a statement has ended. Returns at once; the statement's flight ends with the note.
fn note_outcome(session: &Session, note: OutcomeNote) {
    session.update(|state| state.outcome_notes.push_back(note));
}

/// Orders notes as long as the session lasts. Gives executing statements a moment to end when this
/// server leaves.
pub(crate) fn note_outcomes(session: &Session) {
    let mut until = None;
    loop {
        let next = session.wait_for(until, |state| {
            let next = state.outcome_notes.pop_front();
            let ends = session.is_closing() && (until.is_none() || session.has_landed());
            (next.is_some() || ends).then_some(next)
        });
        match next.flatten() {
            Some(note) => {
                order_note(session, note);
                session.end_flight();
            }
            None if until.is_none() => until = Some(Instant::now() + LANDING_LIMIT),
            None => return,
        }
    }
}

fn order_note(session: &Session, note: OutcomeNote) {
    let data = WriteSet::outcome(note.statement.unsigned_abs(), note.error).encode();
    // Where it cannot be ordered, the next view is without this session, and readers wait no
    // longer. If it was ordered and the answer was lost, a second one says the same.
    if let Some(seqno) = session.order_alone(&data, || session.is_primary()) {
        session.pass_note(seqno);
    }
}

/// The error for a client that grants the right to be another account.
const REFUSED: &str = "GRANT PROXY and REVOKE PROXY cannot be replicated: they \
     fail on every other server. On each server of the group: SET SESSION wsrep_on = OFF, this \
     statement, SET SESSION wsrep_on = ON";

fn is_proxy_grant(events: &[u8]) -> bool {
    let queries = Events::of(events).flatten();
    let mut queries = queries.filter(|event| event.header.event_type.is_query());
    queries.any(|event| {
        let query = Query::parse(event.body);
        query.is_ok_and(|query| is_about_proxies(query.statement))
    })
}

fn is_about_proxies(statement: &[u8]) -> bool {
    let mut words = words(statement).map(|(word, _)| word);
    let mut next = || words.next().unwrap_or_default();
    // A role may have that name: GRANT proxy TO ...
    matches!(next().as_str(), "GRANT" | "REVOKE") && next() == "PROXY" && next() == "ON"
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

    #[test]
    fn adopted_statements_are_known_until_they_are_finished() {
        let statements = Statements::default();
        assert!(!statements.is_adopted(1, 4));
        statements.adopt(1, 5, 4);
        statements.adopt(2, 7, 4);
        assert!(statements.is_adopted(1, 4));
        assert!(!statements.is_adopted(1, 5), "finished");
        assert!(statements.is_adopted(2, 5));
        assert!(!statements.is_adopted(3, 5), "another client's");
        statements.adopt(3, 9, 8);
        assert_eq!(lock(&statements.adopted).len(), 1);
    }

    #[test]
    fn errors_without_a_number_are_errors() {
        assert_eq!(OutcomeNote::of(5, 1050).error, 1050);
        assert_eq!(OutcomeNote::of(5, 0).error, 0);
        assert_eq!(OutcomeNote::of(5, 1 << 20).error, UNKNOWN_ERROR);
    }

    #[test]
    fn only_grants_of_proxies_are_found() {
        for statement in [
            "GRANT PROXY ON a TO b",
            "revoke proxy on a@localhost from b",
            "-- by a tool\nGRANT /* */ PROXY ON ''@'' TO b WITH GRANT OPTION",
        ] {
            assert!(is_about_proxies(statement.as_bytes()), "{statement}");
        }
        for statement in [
            "GRANT proxy TO b",
            "GRANT SELECT ON proxy.* TO b",
            "GRANT ALL ON *.* TO proxy",
            "CREATE TABLE proxy (a INT)",
            "",
        ] {
            assert!(!is_about_proxies(statement.as_bytes()), "{statement}");
        }
    }

    #[test]
    fn statement_is_that_of_the_query_event() {
        const QUERY: u8 = 2;
        let statement = b"GRANT PROXY ON a TO b";
        let body = [&[0; 8][..], &[0; 5], b"\0", statement].concat();
        let size = u32::try_from(19 + body.len()).unwrap().to_le_bytes();
        let event = [&[0; 4][..], &[QUERY], &[0; 4], &size, &[0; 6], &body].concat();
        assert!(is_proxy_grant(&event));
        assert!(!is_proxy_grant(b"ALTER"), "no event");
        assert!(!is_proxy_grant(b""));
    }
}
