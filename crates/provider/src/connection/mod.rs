//! One connection to the group, from `connect` to the final view.
//!
//! Locks, outermost first: [`Connection::close_node`]'s, [`Connection::state`], a transaction's own
//! lock. The sequencer's and the position keeper's are leaves. None but the first, which nothing of
//! the server's ever waits for, is held across a callback or a wait.

mod disconnect;
pub(crate) mod join;
mod node_events;
mod sst_donor;
mod sst_joiner;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_node::{
    DataState, GroupId, MemberId, Node, Origin, Seqno, SessionId, StateTransferEvent,
    View as GroupView,
};

use crate::api::CAPABILITIES;
use crate::api::{Callbacks, Gtid, LogLevel, Stid, TrxMeta, Uuid, View, ViewMember, ViewStatus};
use crate::apply::inconsistency::Votes;
use crate::apply::sequencer::{Sequencer, Task};
use crate::options::live::LiveOptions;
use crate::position::PositionKeeper;
use crate::status::LocalState;
use crate::status::counters::Counters;
use crate::transaction::Transactions;
use crate::transaction::stream_rollbacks::StreamEnd;
use crate::transaction::toi::Statements;

/// Application protocol of MariaDB's write sets; the only one the server accepts in views.
const APPLICATION_PROTOCOL: i32 = 4;

/// How the copy this server asked for ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Position of the database.
    pub(crate) gtid: Gtid,
    /// Zero: good.
    pub(crate) code: i32,
}

/// A copy this server gives.
#[derive(Clone, Debug)]
pub(crate) struct Donation {
    /// The request.
    pub(crate) id: u64,
    /// To whom.
    pub(crate) joiner: MemberId,
}

/// What threads of the server and of the node tell each other.
#[derive(Default)]
pub(crate) struct State {
    /// This session's first view.
    pub(crate) joined: Option<GroupView>,
    /// The latest view shown to the server in order.
    pub(crate) view: Option<GroupView>,
    /// Why the connection cannot go on.
    pub(crate) failure: Option<String>,
    /// For status.
    pub(crate) local: LocalState,
    /// Whether the server was last shown a primary view.
    pub(crate) shown_primary: bool,
    /// Whether the server has processed a view that has this member, in its place in the order.
    pub(crate) in_order: bool,
    /// The sequencer's position is the database's.
    pub(crate) tracked: bool,
    /// News of the copy asked for.
    pub(crate) news: VecDeque<(u64, StateTransferEvent)>,
    /// The copy has arrived, or not.
    pub(crate) received: Option<Received>,
    /// The copy being given.
    pub(crate) donation: Option<Donation>,
    /// How many times the server has stepped out of flow control.
    pub(crate) desyncs: u32,
    /// Streamed transactions to roll back everywhere. The first one is being seen to.
    pub(crate) stream_ends: VecDeque<StreamEnd>,
    /// How many of them there have been.
    pub(crate) stream_ends_done: u64,
    /// Which outcomes of actions stand.
    pub(crate) votes: Votes,
    /// The final view was shown.
    pub(crate) ended: bool,
}

/// What a connection shares with the provider.
pub(crate) struct Shared {
    /// The server.
    pub(crate) callbacks: Callbacks,
    /// Counts.
    pub(crate) counters: Arc<Counters>,
    /// Local transactions, of this connection and of earlier ones.
    pub(crate) transactions: Arc<Transactions>,
    /// Options.
    pub(crate) settings: Arc<LiveOptions>,
    /// Where the database is.
    pub(crate) position: Arc<PositionKeeper>,
}

/// See the module.
pub(crate) struct Connection {
    /// The server.
    pub(crate) callbacks: Callbacks,
    /// Order of things.
    pub(crate) sequencer: Sequencer,
    /// Counts.
    pub(crate) counters: Arc<Counters>,
    /// Local transactions, of this connection and of earlier ones.
    pub(crate) transactions: Arc<Transactions>,
    /// Statements in total order.
    pub(crate) statements: Statements,
    /// Options.
    pub(crate) settings: Arc<LiveOptions>,
    /// Where the database is.
    pub(crate) position: Arc<PositionKeeper>,
    /// Donors asked for by name, and whether others will do.
    pub(crate) donors: (Vec<String>, bool),
    /// Tells this connection's ordered transactions from an earlier one's.
    pub(crate) serial: u64,
    /// The first applier has begun to join.
    pub(crate) joining: AtomicBool,
    /// The final view is being, or was, shown.
    pub(crate) final_view: AtomicBool,
    /// Streamed transactions of this server that began before this position were given up by all.
    pub(crate) streams_lost_before: AtomicI64,
    /// The last action that was decided about.
    pub(crate) last_decided: AtomicI64,
    /// Tells the group of streamed transactions that are rolled back.
    pub(crate) stream_ender: Mutex<Option<JoinHandle<()>>>,
    /// Ends the node once everybody else is gone.
    pub(crate) closer: Mutex<Option<JoinHandle<()>>>,
    /// Held while the node is being stopped.
    pub(crate) stopping: Arc<Mutex<()>>,
    node: OnceLock<Arc<Node>>,
    state: Mutex<State>,
    changed: Condvar,
    primary: AtomicBool,
    /// Nothing new begins.
    closing: AtomicBool,
    /// Local actions between their submission and their end.
    in_flight: AtomicUsize,
}

impl Connection {
    /// A connection; the join will tell where its order begins.
    pub(crate) fn new(
        shared: Shared,
        serial: u64,
        donors: (Vec<String>, bool),
        queue_bytes_max: usize,
    ) -> Connection {
        let position = shared.position.current().seqno.0;
        Connection {
            callbacks: shared.callbacks,
            sequencer: Sequencer::new(position, queue_bytes_max),
            counters: shared.counters,
            transactions: shared.transactions,
            statements: Statements::default(),
            settings: shared.settings,
            position: shared.position,
            donors,
            serial,
            joining: AtomicBool::new(false),
            final_view: AtomicBool::new(false),
            streams_lost_before: AtomicI64::new(-1),
            last_decided: AtomicI64::new(-1),
            stream_ender: Mutex::new(None),
            closer: Mutex::new(None),
            stopping: Arc::default(),
            node: OnceLock::new(),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            primary: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
        }
    }

    /// The node serves this connection from now on.
    pub(crate) fn set_node(&self, node: Arc<Node>) {
        // Set once, right after the connection is made.
        let _ = self.node.set(node);
    }

    /// The node, once there is one.
    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.node.get()
    }

    /// What threads tell each other.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes who waits for it.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Waits until `done` finds what it looks for, or the deadline.
    pub(crate) fn wait_for<T>(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(found) = done(&mut state) {
                return Some(found);
            }
            let Some(at) = deadline else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Changes the state shown to operators and to the group. Inconsistent is the last one.
    pub(crate) fn set_local(&self, local: LocalState) {
        let stays = self.update(|state| {
            let stays = state.local == LocalState::Inconsistent;
            if !stays {
                state.local = local;
            }
            stays
        });
        if stays {
            return;
        }
        let data = match local {
            LocalState::Initialized => DataState::Disconnected,
            LocalState::Joining | LocalState::ReceivingStateTransfer => DataState::Joining,
            LocalState::DonorDesynced => DataState::Donor,
            LocalState::Joined => DataState::Joined,
            LocalState::Synced => DataState::Synced,
            LocalState::Inconsistent => DataState::Error,
        };
        self.report(data);
    }

    /// Tells the group about the database.
    pub(crate) fn report(&self, data: DataState) {
        if let Some(node) = self.node() {
            node.set_data_state(data);
        }
    }

    /// A line for the server's error log.
    pub(crate) fn log(&self, level: LogLevel, text: impl AsRef<str>) {
        self.callbacks.log(level, text.as_ref());
    }

    /// Whether transactions may be proposed.
    pub(crate) fn is_primary(&self) -> bool {
        self.primary.load(Ordering::SeqCst) && !self.is_closing()
    }

    /// Whether this connection has begun to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// From now on nothing new is proposed, and joining is given up.
    pub(crate) fn begin_closing(&self) {
        // Under the lock, so that nobody who has just looked goes to sleep.
        self.update(|_| self.closing.store(true, Ordering::SeqCst));
    }

    /// A leader with a quorum is heard, or not.
    pub(crate) fn set_primary(&self, primary: bool) {
        // Under the lock, so that nobody who has just looked goes to sleep.
        self.update(|_| self.primary.store(primary, Ordering::SeqCst));
        self.follow_primary();
    }

    /// Has the server told that the group is lost, if it believes otherwise. Not before its first
    /// view: until then it is busy joining. That the group is back it learns from a view in order.
    pub(crate) fn follow_primary(&self) {
        let lost = !self.is_primary();
        let believes_otherwise = {
            let state = self.state();
            state.in_order && state.shown_primary && lost
        };
        if believes_otherwise {
            self.sequencer.add_task(0, Task::ShowLost);
        }
    }

    /// Counts a local action that is about to be proposed; false if none may be.
    pub(crate) fn begin_flight(&self) -> bool {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let may = self.is_primary();
        if !may {
            self.end_flight();
        }
        may
    }

    /// A local action is over.
    pub(crate) fn end_flight(&self) {
        let before = self.in_flight.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.is_closing() {
            self.update(|_| ());
        }
    }

    /// Waits until no local action is under way; false on the deadline.
    pub(crate) fn wait_landed(&self, deadline: Instant) -> bool {
        let landed = |_: &mut State| (self.in_flight.load(Ordering::SeqCst) == 0).then_some(());
        self.wait_for(Some(deadline), landed).is_some()
    }

    /// The group, once there is one.
    pub(crate) fn group(&self) -> GroupId {
        self.node()
            .map_or(GroupId::NONE, |node| node.status().group)
    }

    /// Name of this session.
    pub(crate) fn own_uuid(&self) -> Uuid {
        self.node().map_or(Uuid::UNDEFINED, |node| {
            let (member, session) = node.identity();
            session_uuid(member, session)
        })
    }

    /// The action is finished; remembers how far the database is.
    pub(crate) fn release(&self, seqno: i64) {
        self.sequencer.release(seqno);
        let Some(node) = self.node() else { return };
        loop {
            let released = self.sequencer.released();
            node.set_applied(Seqno(released));
            // Somebody who was further may have said so before.
            if self.sequencer.released() == released {
                return;
            }
        }
    }

    /// A group's view as the server wants it.
    pub(crate) fn server_view(&self, view: &GroupView, status: ViewStatus, seqno: i64) -> View {
        let own = self.own_uuid();
        let members: Vec<ViewMember> = view
            .members
            .iter()
            .map(|member| ViewMember {
                id: session_uuid(member.member, member.session),
                name: member.name.clone(),
                incoming: member.incoming.clone(),
            })
            .collect();
        let number = match status {
            ViewStatus::Primary => i64::try_from(view.number).unwrap_or(i64::MAX),
            ViewStatus::NonPrimary | ViewStatus::Disconnected => -1,
        };
        View {
            state_id: Gtid {
                group: self.group(),
                seqno,
            },
            number,
            status,
            capabilities: CAPABILITIES,
            my_index: members.iter().position(|member| member.id == own),
            proto_ver: APPLICATION_PROTOCOL,
            members,
        }
    }

    /// What the server is told of an ordered action.
    pub(crate) fn meta(
        &self,
        seqno: i64,
        depends_on: i64,
        node: Uuid,
        trx: u64,
        conn: u64,
    ) -> TrxMeta {
        TrxMeta {
            gtid: Gtid {
                group: self.group(),
                seqno,
            },
            stid: Stid { node, trx, conn },
            depends_on,
        }
    }
}

/// A session's name in views and transaction ids: fresh for each connection to the group. Sorts as
/// views do ([`GroupView::members`]): the server keeps the view in a table with this as its key, and
/// after a copy it finds its own number by the table's order.
pub(crate) fn session_uuid(member: MemberId, session: SessionId) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&session.0.to_be_bytes());
    bytes[8..].copy_from_slice(&member.0.to_be_bytes());
    Uuid(bytes)
}

/// Name of the session an action came from.
pub(crate) fn origin_uuid(origin: &Origin) -> Uuid {
    session_uuid(origin.member, origin.session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sessions_sort_as_the_sessions_do() {
        let uuid = |session, member| session_uuid(MemberId(member), SessionId(session)).0;
        assert!(uuid(1 << 60, 9) < uuid((1 << 60) + 1, 3));
        assert!(uuid(255, 1) < uuid(256, 1));
        assert!(uuid(5, 1) < uuid(5, 2));
    }
}
