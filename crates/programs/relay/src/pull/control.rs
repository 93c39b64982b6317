//! Whether this relay is to pull, what its operators order, and what is known of the pull.
//!
//! Transactions without whole rows are no reason to stop: a replica executes them, and tools write
//! such ones on purpose (pt-table-checksum). But a reader of rows cannot know that it has missed
//! something.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use synod_admin::relay::PullState;
use synod_binlog::Gtid;
use synod_node::{Seqno, WritePermission};
use synod_upstream::{NotWholeRows, Stopped, UpstreamHandle};

use crate::lock;

/// Time limit for an order, which includes a connection to an upstream.
const ORDER_LIMIT: Duration = Duration::from_secs(25);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Pause,
    Resume,
    /// Pull from another server with the same transactions, at this address.
    Switch(String),
    /// The transaction of MySQL that stops the pull is left out: its GTID.
    Skip(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OrderRefusal {
    /// Another relay leads, or none.
    NotLeader,
    Refused(String),
    /// A reader needs what would be purged.
    Needed(String),
    Unknown,
}

pub(crate) type Ordered = (Order, Sender<Result<String, OrderRefusal>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) state: PullState,
    pub(crate) error: Option<String>,
}

#[derive(Default)]
struct State {
    /// This relay leads a term that begins after this action; none: it does not lead.
    turn: Option<Seqno>,
    turns: u64,
    order: Option<Ordered>,
    ordered: Seqno,
    open: Option<UpstreamHandle>,
    is_stopped: bool,
    /// The transaction at which the last pull has ended.
    stopped_at: Option<Stopped>,
    shown: Shown,
    row_lacks: NotWholeRowsSeen,
}

/// Orders to the puller, and its status. Only the puller itself and the thread of an operator's
/// command wait here.
#[derive(Default)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The last action before it.
    after: Seqno,
    number: u64,
}

impl Control {
    pub(crate) fn may_write(&self, permission: WritePermission) {
        let turn = match permission {
            WritePermission::Here { after } => Some(after),
            WritePermission::Everywhere | WritePermission::Elsewhere { .. } => None,
        };
        self.change(|state| {
            if state.turn == turn {
                return;
            }
            state.turn = turn;
            state.turns += 1;
            state.interrupt();
        });
    }

    pub(crate) fn stop(&self) {
        self.change(|state| {
            state.is_stopped = true;
            state.interrupt();
        });
    }

    /// Has an order carried out, if this relay leads.
    pub(crate) fn order(&self, order: Order) -> Result<String, OrderRefusal> {
        let (sender, result) = channel();
        let taken = self.change(|state| {
            if state.turn.is_none() || state.is_stopped {
                return Err(OrderRefusal::NotLeader);
            }
            if state.order.is_some() {
                let text = "another order is being carried out: repeat this one".to_owned();
                return Err(OrderRefusal::Refused(text));
            }
            state.order = Some((order, sender));
            state.interrupt();
            Ok(())
        });
        taken?;
        // The puller drops an order that it cannot carry out any more.
        result
            .recv_timeout(ORDER_LIMIT)
            .unwrap_or(Err(OrderRefusal::Unknown))
    }

    pub(crate) fn shown(&self) -> Shown {
        lock(&self.state).shown.clone()
    }

    pub(crate) fn warning(&self) -> Option<String> {
        lock(&self.state).row_lacks.warning()
    }

    /// Waits until this relay is to pull; none once it stops.
    pub(crate) fn await_turn(&self) -> Option<Turn> {
        let mut state = lock(&self.state);
        while !state.is_stopped {
            if let Some(after) = state.turn {
                let number = state.turns;
                return Some(Turn { after, number });
            }
            // An order that came before this relay lost its leadership.
            state.refuse(OrderRefusal::NotLeader);
            state.shown = Shown::default();
            let changed = self.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    pub(crate) fn has(&self, turn: Turn) -> bool {
        let state = lock(&self.state);
        !state.is_stopped && state.turn.is_some() && state.turns == turn.number
    }

    pub(crate) fn take_order(&self) -> Option<Ordered> {
        lock(&self.state).order.take()
    }

    pub(crate) fn refuse_order(&self, text: &str) {
        let refusal = OrderRefusal::Refused(text.to_owned());
        lock(&self.state).refuse(refusal);
    }

    /// An entry of this relay is in the log. Its result may be known before the node says that it
    /// is committed, and the next pull must not begin before it.
    pub(crate) fn ordered(&self, seqno: Seqno) {
        let mut state = lock(&self.state);
        state.ordered = state.ordered.max(seqno);
    }

    /// The newest entry of this relay with the result that it is in the log; zero: none.
    pub(crate) fn newest_ordered(&self) -> Seqno {
        lock(&self.state).ordered
    }

    /// Seqno up to which the log must be read before a pull begins in this turn, or an order is
    /// carried out.
    pub(crate) fn read_before(&self, turn: Turn) -> Seqno {
        lock(&self.state).ordered.max(turn.after)
    }

    /// Waits until something changes, at most for this long. Returns at once if an order waits, or
    /// the turn is over.
    pub(crate) fn pause(&self, turn: Turn, limit: Duration) {
        let is_as_before = |state: &mut State| state.is_as_before(turn);
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.state), limit, is_as_before);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// A connection is open, which ends when something changes. False if that has happened.
    pub(crate) fn opened(&self, turn: Turn, handle: UpstreamHandle) -> bool {
        let mut state = lock(&self.state);
        let is_wanted = state.is_as_before(turn);
        state.open = is_wanted.then_some(handle);
        is_wanted
    }

    pub(crate) fn closed(&self) {
        lock(&self.state).open = None;
    }

    pub(crate) fn show(&self, pull: PullState, error: Option<String>) {
        lock(&self.state).shown = Shown { state: pull, error };
    }

    /// A pull has ended, at a transaction that cannot be followed or without one.
    pub(crate) fn ended_at(&self, stopped: Option<Stopped>) {
        lock(&self.state).stopped_at = stopped;
    }

    pub(crate) fn stopped_at(&self) -> Option<Stopped> {
        lock(&self.state).stopped_at
    }

    /// A part of a transaction was pulled that lacks something for readers of rows; true if it is
    /// the transaction's first such part.
    pub(crate) fn pulled_without_rows(&self, gtid: Gtid, lack: &NotWholeRows) -> bool {
        lock(&self.state).row_lacks.note(gtid, lack)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let changed = change(&mut lock(&self.state));
        self.changed.notify_all();
        changed
    }
}

impl State {
    /// The turn is the present one still, and no order waits.
    fn is_as_before(&self, turn: Turn) -> bool {
        !self.is_stopped && self.turns == turn.number && self.order.is_none()
    }

    fn refuse(&mut self, refusal: OrderRefusal) {
        if let Some((_, reply)) = self.order.take() {
            // The operator may have waited long enough.
            let _ = reply.send(Err(refusal));
        }
    }

    fn interrupt(&mut self) {
        if let Some(handle) = self.open.take() {
            handle.stop();
        }
    }
}

/// Transactions without whole rows that this process has pulled.
#[derive(Clone, Debug, Default)]
struct NotWholeRowsSeen {
    transactions: u64,
    /// The newest of them, and the first that it lacks.
    newest: Option<(Gtid, NotWholeRows)>,
}

impl NotWholeRowsSeen {
    /// Takes what a part of a transaction lacks; true if it is the transaction's first such part.
    fn note(&mut self, gtid: Gtid, lack: &NotWholeRows) -> bool {
        if self.newest.as_ref().is_some_and(|(seen, _)| *seen == gtid) {
            return false;
        }
        self.transactions += 1;
        self.newest = Some((gtid, lack.clone()));
        true
    }

    fn warning(&self) -> Option<String> {
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
    fn relay_pulls_while_it_leads() {
        let control = Control::default();
        control.may_write(WritePermission::Here { after: Seqno(7) });
        let turn = control.await_turn().unwrap();
        assert_eq!(turn.after, Seqno(7));
        assert!(control.has(turn));
        control.may_write(WritePermission::Elsewhere { writer: None });
        assert!(!control.has(turn));
        control.may_write(WritePermission::Here { after: Seqno(7) });
        assert!(!control.has(turn), "another term");
        control.stop();
        assert_eq!(control.await_turn(), None);
    }

    /// Answer to an order that nothing carries out, when `happens` is called.
    fn answered(happens: impl Fn(&Control) + Sync) -> Result<String, OrderRefusal> {
        let control = Control::default();
        control.may_write(WritePermission::Here { after: Seqno(1) });
        std::thread::scope(|threads| {
            let answered = threads.spawn(|| control.order(Order::Pause));
            while lock(&control.state).order.is_none() {
                std::thread::yield_now();
            }
            happens(&control);
            answered.join().unwrap()
        })
    }

    #[test]
    fn order_that_cannot_be_carried_out_is_refused_at_once() {
        let text = "a member of this group has a database".to_owned();
        let refused = answered(|control| control.refuse_order(&text));
        assert_eq!(refused, Err(OrderRefusal::Refused(text.clone())));
        let refused = answered(|control| {
            control.may_write(WritePermission::Elsewhere { writer: None });
            std::thread::scope(|threads| {
                let waiting = threads.spawn(|| control.await_turn());
                while lock(&control.state).order.is_some() {
                    std::thread::yield_now();
                }
                control.stop();
                assert_eq!(waiting.join().unwrap(), None);
            });
        });
        assert_eq!(refused, Err(OrderRefusal::NotLeader));
    }

    #[test]
    fn pull_begins_after_what_this_relay_has_got_into_the_log() {
        let control = Control::default();
        control.may_write(WritePermission::Here { after: Seqno(7) });
        let turn = control.await_turn().unwrap();
        assert_eq!(control.read_before(turn), Seqno(7));
        control.ordered(Seqno(12));
        control.ordered(Seqno(11));
        assert_eq!(control.read_before(turn), Seqno(12));
    }

    #[test]
    fn orders_are_for_the_relay_that_leads() {
        let control = Control::default();
        let refused = control.order(Order::Pause);
        assert_eq!(refused, Err(OrderRefusal::NotLeader));
        control.may_write(WritePermission::Here { after: Seqno(1) });
        std::thread::scope(|threads| {
            let answered = threads.spawn(|| control.order(Order::Pause));
            let mut order = None;
            while order.is_none() {
                order = control.take_order();
                std::thread::yield_now();
            }
            let (order, reply) = order.unwrap();
            assert_eq!(order, Order::Pause);
            reply.send(Ok("done".to_owned())).unwrap();
            assert_eq!(answered.join().unwrap(), Ok("done".to_owned()));
        });
    }

    #[test]
    fn transactions_are_counted_once_and_the_newest_is_named() {
        let mut lacks = NotWholeRowsSeen::default();
        assert_eq!(lacks.warning(), None);
        let gtid = |sequence| Gtid::new(0, 1, sequence);
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
