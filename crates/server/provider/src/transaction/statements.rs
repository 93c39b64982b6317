//! Statements in total order, by the connections of their clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use synod_binlog::write_set::Note;

/// A statement that executes.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) seqno: i64,
    /// The promise of its write set about its outcome.
    pub(super) note: Note,
    /// Its write set, should an applier have to execute it.
    pub(super) data: Bytes,
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
    pub(super) fn begin(&self, conn: u64, statement: Statement) {
        lock(&self.executing).insert(conn, statement);
    }

    pub(super) fn end(&self, conn: u64) -> Option<Statement> {
        lock(&self.executing).remove(&conn)
    }

    /// An applier executes the statement at `seqno` in the place of this connection; everything up
    /// to `released` is finished.
    pub(super) fn adopt(&self, conn: u64, seqno: i64, released: i64) {
        let mut adopted = lock(&self.adopted);
        adopted.retain(|_, seqno| *seqno > released);
        adopted.insert(conn, seqno);
        self.last_adopted.fetch_max(seqno, Ordering::Release);
    }

    /// Whether an applier has a statement of this connection that is not finished. Costs nothing
    /// unless there is one of any connection.
    pub(super) fn is_adopted(&self, conn: u64, released: i64) -> bool {
        if self.last_adopted.load(Ordering::Acquire) <= released {
            return false;
        }
        let adopted = lock(&self.adopted).get(&conn).copied();
        adopted.is_some_and(|seqno| seqno > released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
