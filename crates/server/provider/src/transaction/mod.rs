//! Local transactions: what the provider knows of each, from its first key to its release.
//!
//! ```text
//! Executing ─certify─► Certifying ─ordered─► Ordered ─enter─► Entered ─leave─► Left
//!     │                    │                    │ abort        (release ends it)
//!     └─ abort: must_abort ┘                    └─replay─► Replaying ─► Left
//! ```
//! A streamed transaction goes round: after each of its fragments but the last, its release leads
//! from Left back to Executing. An aborted fragment is not replayed, see
//! `streamed_transactions.rs`.
//!
//! A transaction's own thread drives it; another thread may abort it at any time and must not wait.

pub(crate) mod abort;
mod certify;
mod commit_order;
pub(crate) mod statements;
pub(crate) mod streamed_transactions;
pub(crate) mod streams_of_lost_members;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use synod_binlog::write_set::Draft;
use synod_node::{KeySet, Pending};

use crate::api::{OpaqueId, TrxHandle, WsFlags};
use crate::status::conflicts::Loss;
use crate::status::conflicts::touched::Touched;

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Executing,
    /// In the group's hands, or being handed to the node piece by piece.
    Certifying(Arc<Pending>),
    /// Has a place; waits for its turn, or for its replay if it was aborted.
    Ordered(i64),
    Entered(i64),
    Left(i64),
    Replaying(i64),
    /// Refused, or given up.
    Failed,
}

/// Additional state of a streamed transaction, parts of which are with the group while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) serial: u64,
    /// Place of its first fragment, once that is ordered.
    pub(crate) first: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) phase: Phase,
    pub(crate) keys: KeySet,
    /// Tables and rows of those keys, for the report of a conflict.
    pub(crate) touched: Touched,
    pub(crate) data: Draft,
    /// The write set as it was submitted; kept for a replay.
    pub(crate) submitted: Bytes,
    pub(crate) flags: WsFlags,
    pub(crate) conn: u64,
    pub(crate) depends_on: i64,
    /// More was to be appended than a write set may have.
    pub(crate) is_too_large: bool,
    /// An action of higher priority has requested its abort (BF abort).
    pub(crate) must_abort: bool,
    /// End of the last step of its commit, see [`synod_commands::Step`].
    pub(crate) step_ended: Option<Instant>,
    /// Start of its commit: the server's call that has it ordered.
    pub(crate) commit_began: Option<Instant>,
    /// Seqno that must leave the order here before a retry of the refused transaction can win.
    pub(crate) lost_to: Option<i64>,
    /// Kind and time of its loss, in milliseconds since 1970; until that is explained, at its end.
    pub(crate) loss: Option<(Loss, u64)>,
    /// Serial number of the connection it was submitted on; its place in the order means nothing to
    /// any other.
    pub(crate) serial: Option<u64>,
    /// Set with the first fragment.
    pub(crate) stream: Option<Stream>,
}

impl Gathered {
    /// Whether what was certified last does not end the transaction.
    fn is_fragment(&self) -> bool {
        self.stream.is_some() && !self.flags.contains(WsFlags::TRX_END)
    }
}

#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) trx_id: u64,
    /// Interrupts its wait for the commit order, for the end of a pause, or for what it would
    /// conflict with.
    pub(crate) interrupted: AtomicBool,
    gathered: Mutex<Gathered>,
}

impl Transaction {
    fn new(trx_id: u64) -> Transaction {
        Transaction {
            trx_id,
            interrupted: AtomicBool::new(false),
            gathered: Mutex::new(Gathered {
                phase: Phase::Executing,
                keys: KeySet::new(),
                touched: Touched::default(),
                data: Draft::default(),
                submitted: Bytes::new(),
                flags: WsFlags::default(),
                conn: u64::MAX,
                depends_on: -1,
                is_too_large: false,
                must_abort: false,
                step_ended: None,
                commit_began: None,
                lost_to: None,
                loss: None,
                serial: None,
                stream: None,
            }),
        }
    }

    /// Its state. Held for moments only: an aborter holds locks of the server.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All local transactions. Clients look theirs up for each row that they change, so the table is in
/// parts with a lock each.
pub(crate) struct Transactions {
    next: AtomicU64,
    by_id: Sharded<NonZeroU64>,
    by_trx: Sharded<u64>,
}

impl Default for Transactions {
    fn default() -> Transactions {
        Transactions {
            next: AtomicU64::new(0),
            by_id: Sharded::default(),
            by_trx: Sharded::default(),
        }
    }
}

impl Transactions {
    /// The transaction of a handle; a new one if the handle has none yet.
    pub(crate) fn open(&self, handle: &mut TrxHandle) -> Arc<Transaction> {
        if let Some(known) = self.get(handle) {
            return known;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let id = NonZeroU64::new(number).expect("counts up from one");
        let transaction = Arc::new(Transaction::new(handle.trx_id));
        self.by_id.part(id.get()).insert(id, transaction.clone());
        self.by_trx
            .part(handle.trx_id)
            .insert(handle.trx_id, transaction.clone());
        handle.opaque = Some(OpaqueId(id));
        transaction
    }

    pub(crate) fn get(&self, handle: &TrxHandle) -> Option<Arc<Transaction>> {
        let OpaqueId(id) = handle.opaque?;
        self.by_id.part(id.get()).get(&id).cloned()
    }

    fn by_trx(&self, trx_id: u64) -> Option<Arc<Transaction>> {
        self.by_trx.part(trx_id).get(&trx_id).cloned()
    }

    pub(crate) fn remove(&self, handle: &mut TrxHandle) {
        let Some(OpaqueId(id)) = handle.opaque.take() else {
            return;
        };
        let removed = self.by_id.part(id.get()).remove(&id);
        let mut by_trx = self.by_trx.part(handle.trx_id);
        // The server's number may be another one's by now.
        let is_same = |known: &Arc<Transaction>| {
            removed
                .as_ref()
                .is_some_and(|removed| Arc::ptr_eq(known, removed))
        };
        if by_trx.get(&handle.trx_id).is_some_and(is_same) {
            by_trx.remove(&handle.trx_id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// Parts of a table; a power of two.
const PARTS: usize = 64;

/// A table of transactions, in parts by the low bits of their numbers.
struct Sharded<K>([Mutex<HashMap<K, Arc<Transaction>>>; PARTS]);

impl<K> Default for Sharded<K> {
    fn default() -> Sharded<K> {
        Sharded(std::array::from_fn(|_| Mutex::default()))
    }
}

impl<K> Sharded<K> {
    fn part(&self, number: u64) -> MutexGuard<'_, HashMap<K, Arc<Transaction>>> {
        let part = &self.0[number as usize % PARTS]; // any bits will do
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> usize {
        (0..PARTS as u64).map(|part| self.part(part).len()).sum()
    }
}

/// The handle of an action that is applied here. Its top bit distinguishes it from local ones.
pub(crate) fn applied_handle(trx_id: u64, seqno: i64) -> TrxHandle {
    let number = APPLIED_BIT | seqno.unsigned_abs();
    TrxHandle {
        trx_id,
        opaque: NonZeroU64::new(number).map(OpaqueId),
    }
}

/// Whether a handle came from [`applied_handle`].
pub(crate) fn is_applied(handle: &TrxHandle) -> bool {
    handle
        .opaque
        .is_some_and(|id| id.0.get() & APPLIED_BIT != 0)
}

const APPLIED_BIT: u64 = 1 << 63;
