//! The host: applies what is delivered, and holds rows while their transactions are under way, as a
//! database does.
//!
//! Anything that must not happen ends the process; the parent then reports a failure.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::oracle::{Content, RowWrite, Transaction};
use bytes::Bytes;
use synod_node::{
    Delivery, DonorRequest, Host, Level, Node, Remedy, Seqno, StateTransferEvent, View,
};

use super::{Planted, copy};
use crate::database::Database;

/// Longest wait for another thread; a longer one means that it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A database in memory and in a file, with locks on rows.
pub(crate) struct StoreHost {
    state: Mutex<State>,
    changed: Condvar,
    planted: Option<Planted>,
    /// The node and this host, for threads that the host starts.
    links: OnceLock<(Weak<Node>, Weak<StoreHost>)>,
}

pub(crate) struct State {
    pub(crate) database: Database,
    /// The view in which the group has this session for the first time.
    joined: Option<View>,
    pub(crate) synced: bool,
    pub(crate) donating: bool,
    /// Rows of transactions that are under way.
    held: BTreeSet<u32>,
    /// Own transactions that are committed and not applied yet.
    own: HashMap<Seqno, Transaction>,
}

/// Ends the process, because something happened that must not.
pub(crate) fn fail(why: &str) -> ! {
    eprintln!("FAILED: {why}");
    std::process::exit(70)
}

impl StoreHost {
    pub(crate) fn new(database: Database, planted: Option<Planted>) -> StoreHost {
        let state = State {
            database,
            joined: None,
            synced: false,
            donating: false,
            held: BTreeSet::new(),
            own: HashMap::new(),
        };
        StoreHost {
            state: Mutex::new(state),
            changed: Condvar::new(),
            planted,
            links: OnceLock::new(),
        }
    }

    /// Connects the host to its node; once, right after the start.
    pub(crate) fn attach(self: &Arc<Self>, node: &Arc<Node>) {
        let _ = self.links.set((Arc::downgrade(node), Arc::downgrade(self)));
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.links.get().and_then(|(node, _)| node.upgrade())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `look` finds something; `None` after the limit.
    pub(crate) fn wait<T>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => PATIENCE,
            };
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the group to have this member.
    pub(crate) fn wait_joined(&self) -> View {
        let view = self.wait(None, |state| state.joined.clone());
        view.unwrap_or_else(|| fail("waiting for the group has ended"))
    }

    /// Waits until the database has everything up to here. False after the limit.
    pub(crate) fn wait_applied(&self, position: i64, limit: Duration) -> bool {
        let reached = |state: &mut State| (state.database.position() >= position).then_some(());
        self.wait(Some(limit), reached).is_some()
    }

    pub(crate) fn flush(&self) -> i64 {
        let mut state = self.lock();
        if let Err(error) = state.database.flush() {
            fail(&format!("cannot write the database: {error}"));
        }
        state.database.position()
    }

    /// Takes the rows for a transaction, and its snapshot; `None` if another client holds one of
    /// them.
    pub(crate) fn begin(&self, id: u64, rows: &[u32], certified: bool) -> Option<Transaction> {
        self.change(|state| {
            let is_held = rows.iter().any(|row| state.held.contains(row));
            if is_held && self.planted != Some(Planted::NoLocks) {
                return None;
            }
            state.held.extend(rows);
            let seen = |row: &u32| RowWrite {
                row: *row,
                seen: state.database.version(*row),
            };
            Some(Transaction {
                id,
                last_seen: state.database.position(),
                rows: rows.iter().map(seen).collect(),
                certified,
            })
        })
    }

    /// The transaction is committed at `seqno`: waits until it is applied in its place.
    pub(crate) fn finish(&self, seqno: Seqno, transaction: Transaction) {
        self.change(|state| state.own.insert(seqno, transaction));
        if !self.wait_applied(seqno.0, PATIENCE) {
            fail(&format!(
                "action {seqno} is committed, and was never delivered"
            ));
        }
    }

    /// The transaction is over.
    pub(crate) fn release(&self, rows: &[u32]) {
        self.change(|state| rows.iter().for_each(|row| _ = state.held.remove(row)));
    }

    fn own(&self, seqno: Seqno) -> Transaction {
        let own = self.wait(Some(PATIENCE), |state| state.own.remove(&seqno));
        own.unwrap_or_else(|| {
            fail(&format!(
                "action {seqno} has no data, and no client of this member made it"
            ))
        })
    }

    fn apply(&self, seqno: Seqno, content: Content) {
        self.change(|state| {
            let position = state.database.position();
            if seqno != Seqno(position + 1) {
                fail(&format!("{seqno} was delivered after {position}"));
            }
            state.database.apply(content);
        });
        if let Some(node) = self.node() {
            node.set_applied(seqno);
        }
    }
}

impl Host for StoreHost {
    fn log(&self, level: Level, text: &str) {
        eprintln!("{level:?} {text}");
    }

    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        let seqno = delivery.seqno();
        let content = match delivery {
            Delivery::View(view) => Content::Other(format!("{view:?}")),
            Delivery::Action { data, .. } => Content::Transaction(match data {
                Some(data) => decode(&data).unwrap_or_else(|why| fail(&why)),
                None => self.own(seqno),
            }),
        };
        self.apply(seqno, content);
        ControlFlow::Continue(())
    }

    fn joined(&self, view: &View) {
        self.change(|state| state.joined = Some(view.clone()));
    }

    fn primary_changed(&self, primary: bool) {
        eprintln!("primary: {primary}");
    }

    fn donate(&self, request: DonorRequest) {
        let links = self.links.get();
        if let Some((Some(node), Some(host))) = links.map(|(n, h)| (n.upgrade(), h.upgrade())) {
            copy::give(node, host, request);
        }
    }

    fn state_transfer_event(&self, id: u64, news: StateTransferEvent) {
        eprintln!("copy {id}: {news:?}");
    }

    fn allows(&self, _ip: &str) -> bool {
        true
    }

    fn failed(&self, why: &str, _remedy: Remedy) {
        fail(why);
    }
}

/// The data of an action: the transaction, and `padding` further bytes.
pub(crate) fn encode(transaction: &Transaction, padding: usize) -> serde_json::Result<Bytes> {
    let mut out = serde_json::to_vec(transaction)?;
    out.push(b'\n');
    out.extend(padding_of(transaction.id, padding));
    Ok(out.into())
}

/// Reads what [`encode`] wrote.
fn decode(data: &[u8]) -> Result<Transaction, String> {
    let at = data.iter().position(|byte| *byte == b'\n');
    let (line, padding) = data.split_at(at.map_or(data.len(), |at| at + 1));
    let transaction: Transaction = serde_json::from_slice(line)
        .map_err(|error| format!("an action is not what was handed over: {error}"))?;
    if !padding_of(transaction.id, padding.len()).eq(padding.iter().copied()) {
        let id = transaction.id;
        return Err(format!("the data of transaction {id} has changed"));
    }
    Ok(transaction)
}

fn padding_of(id: u64, len: usize) -> impl Iterator<Item = u8> {
    (0..len as u64).map(move |i| (i.wrapping_mul(id | 1) >> 3) as u8) // any byte of it
}
