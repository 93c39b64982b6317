//! For which key a transaction has lost, for `synod conflicts`.
//!
//! The leader answers only to which action a transaction has lost. Both have their keys: the
//! transaction here, the action in this server's log. So what they have in common is found here,
//! when the transaction is over: by the thread of a client that has lost anyway.

use synod_binlog::write_set::WriteSet;
use synod_commands::unix_ms;
use synod_node::{KeySet, Seqno};

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
    /// Counts a transaction that has lost, with its keys. It is over: it holds no locks,
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
        let winner = loss
            .to()
            .and_then(|seqno| self.node()?.ordered_action(Seqno(seqno)));
        let found = winner.as_ref().map(|winner| keys.conflicting(&winner.keys));
        self.shared.counters.conflicts.count(Loser {
            at_ms,
            loss,
            connection,
            winner: winner.map(|winner| {
                let write_set = WriteSet::decode(-1, winner.data).ok();
                (winner.origin.member, write_set.map(|set| set.conn))
            }),
            tables: touched.names().collect(),
            keys: touched.describe(&found.unwrap_or_default()),
        });
    }
}

impl Gathered {
    /// Notes that the transaction has lost; counted when it is over.
    pub(super) fn note_loss(&mut self, loss: Loss) {
        self.loss = Some((loss, unix_ms()));
    }
}
