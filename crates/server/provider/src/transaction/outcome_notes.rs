//! Outcomes of statements in total order, noted in the log by their origin.
//!
//! Servers execute the statement themselves, and need no note. A reader of the log has no database
//! to execute it in: without a note it could not tell a statement that failed everywhere. So notes
//! are written while the group has a member without a database, which may be a relay.
//!
//! The statement's write set promises the note, so that a reader knows whether to wait for one. If
//! the origin dies, the next view is without its session, and no note comes any more.
//!
//! A note is ordered like anything else, without a client: by a thread that lives as long as the
//! connection. Until then its statement counts as under way, and an orderly stop waits for it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use synod_binlog::write_set::WriteSet;

use crate::boundary;
use crate::connection::Connection;
use crate::connection::disconnect::LANDING_LIMIT;

/// `ER_UNKNOWN_ERROR`: of errors without a number that fits.
const UNKNOWN_ERROR: u16 = 1105;

/// Outcome of a statement here.
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

impl Connection {
    /// Whether the outcomes of statements are noted: this server can tell them, and there is a
    /// member that may have readers.
    pub(crate) fn notes_outcomes(&self) -> bool {
        let has_readers = || {
            let status = self.node().map(|node| node.status());
            status.is_some_and(|status| status.members.iter().any(|member| !member.has_data))
        };
        boundary::can_tell_statement_errors() && has_readers()
    }

    /// Notes how a statement has ended. Returns at once; the statement's flight ends with the note.
    pub(crate) fn note_outcome(&self, note: OutcomeNote) {
        self.update(|state| state.outcome_notes.push_back(note));
    }

    pub(crate) fn start_outcome_notes(self: &Arc<Connection>) -> io::Result<()> {
        let connection = self.clone();
        let thread = boundary::spawn("synod-outcomes", move || connection.note_outcomes())?;
        self.keep_outcome_notes(thread);
        Ok(())
    }

    /// Gives executing statements a moment to end when this server leaves.
    fn note_outcomes(&self) {
        let mut until = None;
        loop {
            let next = self.wait_for(until, |state| {
                let next = state.outcome_notes.pop_front();
                let ends = self.is_closing() && (until.is_none() || self.has_landed());
                (next.is_some() || ends).then_some(next)
            });
            match next.flatten() {
                Some(note) => {
                    self.order_note(note);
                    self.end_flight();
                }
                None if until.is_none() => until = Some(Instant::now() + LANDING_LIMIT),
                None => return,
            }
        }
    }

    fn order_note(&self, note: OutcomeNote) {
        let data = WriteSet::outcome(note.statement.unsigned_abs(), note.error).encode();
        // Where it cannot be ordered, the next view is without this session, and readers wait no
        // longer. If it was ordered and the answer was lost, a second one says the same.
        if let Some(seqno) = self.order_alone(&data, || self.is_primary()) {
            self.pass_note(seqno);
        }
    }

    /// A note does nothing to a database.
    pub(crate) fn pass_note(&self, seqno: i64) {
        self.sequencer.skip(seqno);
        self.report_progress();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_a_number_are_errors() {
        assert_eq!(OutcomeNote::of(5, 1050).error, 1050);
        assert_eq!(OutcomeNote::of(5, 0).error, 0);
        assert_eq!(OutcomeNote::of(5, 1 << 20).error, UNKNOWN_ERROR);
    }
}
