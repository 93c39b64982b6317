//! No update is lost: of two transactions that write the same row, the later one has seen the
//! earlier one, or was refused.
//!
//! Each snapshot must also be a position of the history.

use super::{History, Violation};
use crate::oracle::evidence::{RowWrite, Transaction};

pub(super) fn check(history: &History<'_>) -> Vec<Violation> {
    let writes = history
        .transactions
        .iter()
        .flat_map(|(position, transaction)| {
            let rows = transaction.rows.iter();
            rows.map(move |write| (*position, *transaction, write))
        });
    writes
        .filter_map(|(position, transaction, write)| {
            lost(history, position, transaction, write)
                .or_else(|| wrong_snapshot(history, position, transaction, write))
        })
        .collect()
}

fn lost(
    history: &History<'_>,
    position: i64,
    transaction: &Transaction,
    write: &RowWrite,
) -> Option<Violation> {
    let latest = history.version(write.row, position - 1);
    let is_lost = transaction.certified && latest > transaction.last_seen;
    is_lost.then(|| Violation {
        rule: "no update is lost",
        what: format!(
            "transaction {} at {position} had seen {} only, but row {} was written at {latest}",
            transaction.id, transaction.last_seen, write.row
        ),
    })
}

fn wrong_snapshot(
    history: &History<'_>,
    position: i64,
    transaction: &Transaction,
    write: &RowWrite,
) -> Option<Violation> {
    let expected = history.version(write.row, transaction.last_seen);
    (write.seen != expected).then(|| Violation {
        rule: "a snapshot is a position of the history",
        what: format!(
            "transaction {} at {position} saw version {} of row {} in its snapshot at {}, \
             where it has version {expected}",
            transaction.id, write.seen, write.row, transaction.last_seen
        ),
    })
}
