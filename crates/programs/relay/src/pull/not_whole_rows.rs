//! Transactions that were kept, and whose changes are not whole rows.
//!
//! They are no reason to stop: a replica executes them, and tools write such ones on purpose
//! (pt-table-checksum). But a reader of rows cannot know that it has missed something.

use synod_binlog::Gtid;
use synod_upstream::NotWholeRows;

/// Transactions without whole rows that this process has pulled.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotWholeRowsSeen {
    transactions: u64,
    /// The newest of them, and the first that it lacks.
    newest: Option<(Gtid, NotWholeRows)>,
}

impl NotWholeRowsSeen {
    /// Takes what a part of a transaction lacks; true if it is the transaction's first such part.
    pub(super) fn note(&mut self, gtid: Gtid, lack: &NotWholeRows) -> bool {
        if self.newest.as_ref().is_some_and(|(seen, _)| *seen == gtid) {
            return false;
        }
        self.transactions += 1;
        self.newest = Some((gtid, lack.clone()));
        true
    }

    /// The text for operators; none: no such transaction was pulled.
    pub(crate) fn warning(&self) -> Option<String> {
        let (gtid, lack) = self.newest.as_ref()?;
        Some(format!(
            "transactions without whole rows came from the upstream since this relay began: {}. \
             The newest, {gtid}, has {lack}. Replicas execute them, but readers of rows (CDC) do \
             not get their changes: copy what they have touched for those readers, and find the \
             upstream's client that sets this, or the table that is versioned by transactions",
            self.transactions
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_counted_once_and_the_newest_is_named() {
        let mut lacks = NotWholeRowsSeen::default();
        assert_eq!(lacks.warning(), None);
        let gtid = |sequence| Gtid {
            domain: 0,
            server_id: 1,
            sequence,
        };
        assert!(lacks.note(gtid(4), &NotWholeRows::Columns));
        let statement = NotWholeRows::Statement("DELETE FROM t".to_owned());
        assert!(lacks.note(gtid(7), &statement));
        assert!(!lacks.note(gtid(7), &NotWholeRows::Columns), "another part");
        let text = lacks.warning().unwrap();
        for part in ["began: 2.", "0-1-7", "DELETE FROM t"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
