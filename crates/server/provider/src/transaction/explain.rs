//! For which key a transaction has lost, for `synod conflicts`.
//!
//! The leader answers only to which action a transaction has lost. Both have their keys: the
//! transaction here, the action in this server's log. So what they have in common is found here,
//! when the transaction is over: by the thread of a client that has lost anyway.

use synod_binlog::write_set::WriteSet;
use synod_commands::unix_ms;
use synod_node::{KeySet, OrderedAction, Seqno};

use crate::connection::Connection;
use crate::status::conflicts::{Loser, Loss};
use crate::transaction::{Gathered, Transaction};

/// A transaction with more keys than this is not explained.
const KEYS_MAX: usize = 1024;

/// The keys of a transaction that is under way, if they are few.
pub(super) fn kept(keys: KeySet) -> KeySet {
    if keys.len() <= KEYS_MAX {
        keys
    } else {
        KeySet::new()
    }
}

impl Connection {
    /// Counts a transaction that has lost. Waits for nothing.
    pub(super) fn count_loss(&self, gathered: &mut Gathered, loss: Loss) {
        let now = unix_ms();
        let conflicts = &self.shared.counters.conflicts;
        conflicts.lost(loss, &gathered.touched, now);
        gathered.loss = Some((loss, now));
    }

    /// Finds out for which keys a transaction has lost, if it has. It is over: it holds no locks,
    /// and what it has lost to was delivered here, unless that took too long.
    pub(super) fn explain_loss(&self, transaction: &Transaction) {
        let mut gathered = transaction.lock();
        let Some((loss, at_ms)) = gathered.loss.take() else {
            return;
        };
        let keys = std::mem::take(&mut gathered.keys);
        let touched = std::mem::take(&mut gathered.touched);
        let connection = (gathered.conn != u64::MAX).then_some(gathered.conn);
        drop(gathered);
        let winner = loss.to().and_then(|seqno| self.ordered_action(seqno));
        let found = winner.as_ref().map(|winner| keys.conflicting(&winner.keys));
        let keys = touched.describe(&found.unwrap_or_default());
        let mut tables = touched.names();
        let table = tables.next().filter(|_| tables.next().is_none());
        drop(tables);
        self.shared.counters.conflicts.explained(Loser {
            at_ms,
            loss,
            connection,
            winner: winner.and_then(|winner| {
                let write_set = WriteSet::decode(-1, winner.data).ok()?;
                Some((winner.origin.member, write_set.conn))
            }),
            table,
            keys,
        });
    }

    fn ordered_action(&self, seqno: i64) -> Option<OrderedAction> {
        self.node()?.ordered_action(Seqno(seqno))
    }
}
