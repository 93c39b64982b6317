//! Local transactions: what the provider knows of each, from its first key to its release.
//!
//! ```text
//! Executing ─certify─► Certifying ─ordered─► Ordered ─enter─► Entered ─leave─► Left
//!     │                    │                    │ abort        (release ends it)
//!     └─ abort: must_abort ┘                    └─replay─► Replaying ─► Left
//! ```
//! A streamed transaction goes round: after each of its fragments but the last, its release leads
//! from Left back to Executing. An aborted fragment is not replayed, see `streaming.rs`.
//!
//! A transaction's own thread drives it; another thread may abort it at any time and must not wait.
//!
//! - `certify`, `commit_order`, `replay`, `abort`: the calls of the server, in their usual order;
//! - `streaming`, `stream_rollbacks`: transactions that are sent in fragments while they run;
//! - `toi`: statements that execute alone at one place in the order; `write_set`: what travels.

mod abort;
mod certify;
mod commit_order;
mod replay;
pub(crate) mod stream_rollbacks;
pub(crate) mod streaming;
#[cfg(test)]
mod tests;
pub(crate) mod toi;
pub(crate) mod write_set;

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use synod_node::{KeySet, Pending};

use crate::api::{OpaqueId, TrxHandle, WsFlags};

/// How far a transaction is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Collects keys and data.
    Executing,
    /// In the group's hands, or being handed to the node piece by piece.
    Certifying(Arc<Pending>),
    /// Has a place; waits for its turn, or for its replay if it was aborted.
    Ordered(i64),
    /// Has its turn.
    Entered(i64),
    /// Has had its turn.
    Left(i64),
    /// Being applied again.
    Replaying(i64),
    /// Refused, or given up.
    Failed,
}

/// What a streamed transaction has beyond others: parts of it are with the group while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Serial number of the connection it streams over.
    pub(crate) serial: u64,
    /// Place of its first fragment, once that is ordered.
    pub(crate) first: Option<i64>,
}

/// What a transaction has gathered.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Where it is.
    pub(crate) phase: Phase,
    /// Keys it touched.
    pub(crate) keys: KeySet,
    /// Its write set.
    pub(crate) data: Vec<u8>,
    /// The write set as it was submitted; kept for a replay.
    pub(crate) submitted: Bytes,
    /// Flags it was certified with.
    pub(crate) flags: WsFlags,
    /// Connection it was certified on.
    pub(crate) conn: u64,
    /// What it depends on, once ordered.
    pub(crate) depends_on: i64,
    /// An action of higher priority has requested its abort (BF abort).
    pub(crate) must_abort: bool,
    /// It was refused, and its retry cannot win before this seqno has left the order here.
    pub(crate) lost_to: Option<i64>,
    /// Serial number of the connection it was submitted on; its place in the order means nothing to
    /// any other.
    pub(crate) serial: Option<u64>,
    /// Set with the first fragment.
    pub(crate) stream: Option<Stream>,
}

impl Gathered {
    /// Whether what was certified last does not end the transaction.
    pub(crate) fn is_fragment(&self) -> bool {
        self.stream.is_some() && !self.flags.contains(WsFlags::TRX_END)
    }
}

/// One local transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// The server's number.
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
                data: Vec::new(),
                submitted: Bytes::new(),
                flags: WsFlags::default(),
                conn: u64::MAX,
                depends_on: -1,
                must_abort: false,
                lost_to: None,
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

/// All local transactions.
#[derive(Default)]
pub(crate) struct Transactions {
    next: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<NonZeroU64, Arc<Transaction>>,
    by_trx: HashMap<u64, NonZeroU64>,
}

impl Transactions {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transaction of a handle; a new one if the handle has none yet.
    pub(crate) fn open(&self, handle: &mut TrxHandle) -> Arc<Transaction> {
        if let Some(known) = self.get(handle) {
            return known;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let id = NonZeroU64::new(number).expect("counts up from one");
        let transaction = Arc::new(Transaction::new(handle.trx_id));
        let mut table = self.table();
        table.by_id.insert(id, transaction.clone());
        table.by_trx.insert(handle.trx_id, id);
        handle.opaque = Some(OpaqueId(id));
        transaction
    }

    /// The transaction of a handle.
    pub(crate) fn get(&self, handle: &TrxHandle) -> Option<Arc<Transaction>> {
        self.table().by_id.get(&handle.opaque?.0).cloned()
    }

    /// The transaction with the server's number.
    pub(crate) fn by_trx(&self, trx_id: u64) -> Option<Arc<Transaction>> {
        let table = self.table();
        table.by_id.get(table.by_trx.get(&trx_id)?).cloned()
    }

    /// Forgets a transaction.
    pub(crate) fn remove(&self, handle: &mut TrxHandle) {
        let Some(OpaqueId(id)) = handle.opaque.take() else {
            return;
        };
        let mut table = self.table();
        table.by_id.remove(&id);
        if table.by_trx.get(&handle.trx_id) == Some(&id) {
            table.by_trx.remove(&handle.trx_id);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table().by_id.len()
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
