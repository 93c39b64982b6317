//! One connection to the group, from `connect` to the final view.
//!
//! Locks, outermost first: [`Connection::state`], a transaction's own lock. The sequencer's lock is a
//! leaf. No lock is held across a callback into the server.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use synod_node::{
    DataState, Delivery, DonorRequest, Host, Level, MemberId, Node, Origin, SessionId, TransferNews,
    View as GroupView,
};

use crate::api::{Callbacks, Gtid, LogLevel, Stid, TrxMeta, Uuid, View, ViewMember, ViewStatus};
use crate::boundary::peer_ip_allowed;
use crate::capabilities::CAPABILITIES;
use crate::counters::Counters;
use crate::sequence::{Queued, Sequencer, Task};
use crate::status::LocalState;
use crate::transaction::Transactions;

/// Application protocol of MariaDB's write sets; the only one the server accepts in views.
const APPLICATION_PROTOCOL: i32 = 4;

/// How the copy this server asked for ended.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Position of the database.
    pub gtid: Gtid,
    /// Zero: good.
    pub code: i32,
}

/// A copy this server gives.
#[derive(Clone, Debug)]
pub struct Donation {
    /// The request.
    pub id: u64,
    /// To whom.
    pub joiner: MemberId,
}

/// What threads of the server and of the node tell each other.
#[derive(Default)]
pub struct State {
    /// This session's first view.
    pub joined: Option<GroupView>,
    /// The latest view shown to the server in order.
    pub view: Option<GroupView>,
    /// Why the node stopped.
    pub failure: Option<String>,
    /// For status.
    pub local: LocalState,
    /// Whether the server was last shown a primary view.
    pub shown_primary: bool,
    /// Whether the first primary view was processed by the server.
    pub in_order: bool,
    /// News of the copy asked for.
    pub news: VecDeque<(u64, TransferNews)>,
    /// The copy has arrived, or not.
    pub received: Option<Received>,
    /// The copy being given.
    pub donation: Option<Donation>,
    /// How many times the server has stepped out of flow control.
    pub desyncs: u32,
    /// The final view was shown.
    pub ended: bool,
}

/// See the module.
pub struct Connection {
    /// The server.
    pub callbacks: Callbacks,
    /// Order of things.
    pub sequencer: Sequencer,
    /// Counts.
    pub counters: Arc<Counters>,
    /// Local transactions.
    pub transactions: Arc<Transactions>,
    /// Donors asked for by name, and whether others will do.
    pub donors: (Vec<String>, bool),
    /// The first applier has begun to join.
    pub joining: AtomicBool,
    node: OnceLock<Arc<Node>>,
    state: Mutex<State>,
    changed: Condvar,
    primary: AtomicBool,
}

impl Connection {
    /// A connection whose order begins after `position` (to be corrected by the join).
    pub fn new(
        callbacks: Callbacks,
        counters: Arc<Counters>,
        transactions: Arc<Transactions>,
        donors: (Vec<String>, bool),
        position: i64,
        queue_bytes_max: usize,
    ) -> Connection {
        Connection {
            callbacks,
            sequencer: Sequencer::new(position, queue_bytes_max),
            counters,
            transactions,
            donors,
            joining: AtomicBool::new(false),
            node: OnceLock::new(),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            primary: AtomicBool::new(false),
        }
    }

    /// The node serves this connection from now on.
    pub fn set_node(&self, node: Arc<Node>) {
        // Set once, right after the connection is made.
        let _ = self.node.set(node);
    }

    /// The node, once there is one.
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.node.get()
    }

    /// What threads tell each other.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes who waits for it.
    pub fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Waits until `done` finds what it looks for, or the deadline.
    pub fn wait_for<T>(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(found) = done(&mut state) {
                return Some(found);
            }
            state = match deadline {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    if left == Duration::ZERO {
                        return None;
                    }
                    self.changed
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Changes the state shown to operators and to the group.
    pub fn set_local(&self, local: LocalState) {
        self.update(|state| state.local = local);
        let data = match local {
            LocalState::Initialized => DataState::Disconnected,
            LocalState::Joining | LocalState::ReceivingStateTransfer => DataState::Joining,
            LocalState::DonorDesynced => DataState::Donor,
            LocalState::Joined => DataState::Joined,
            LocalState::Synced => DataState::Synced,
            LocalState::Inconsistent => DataState::Error,
        };
        if let Some(node) = self.node() {
            node.set_data_state(data);
        }
    }

    /// A line for the server's error log.
    pub fn log(&self, level: LogLevel, text: impl AsRef<str>) {
        self.callbacks.log(level, text.as_ref());
    }

    /// Whether transactions may be proposed.
    pub fn is_primary(&self) -> bool {
        self.primary.load(Ordering::Acquire)
    }

    /// The group, once there is one.
    pub fn group(&self) -> synod_node::GroupId {
        self.node().map_or(synod_node::GroupId::NONE, |node| node.status().group)
    }

    /// Name of this session.
    pub fn own_uuid(&self) -> Uuid {
        self.node().map_or(Uuid::UNDEFINED, |node| {
            let (member, session) = node.identity();
            session_uuid(member, session)
        })
    }

    /// The action is finished; remembers how far the database is.
    pub fn release(&self, seqno: i64) {
        self.sequencer.release(seqno);
        if let Some(node) = self.node() {
            node.set_applied(synod_node::Seqno(self.sequencer.released()));
        }
    }

    /// A group's view as the server wants it.
    pub fn server_view(&self, view: &GroupView, status: ViewStatus, seqno: i64) -> View {
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
            state_id: Gtid { group: self.group(), seqno },
            number,
            status,
            capabilities: CAPABILITIES,
            my_index: members.iter().position(|member| member.id == own),
            proto_ver: APPLICATION_PROTOCOL,
            members,
        }
    }

    /// What the server is told of an ordered action.
    pub fn meta(&self, seqno: i64, depends_on: i64, node: Uuid, trx: u64, conn: u64) -> TrxMeta {
        TrxMeta {
            gtid: Gtid { group: self.group(), seqno },
            stid: Stid { node, trx, conn },
            depends_on,
        }
    }

    /// This server cannot apply what the others applied: it leaves, and says so.
    pub fn inconsistent(&self, why: &str) {
        self.log(
            LogLevel::Error,
            format!(
                "this server leaves the group, its data may differ from the others': {why}. Find out \
                 why before you go on; to bring it back, stop it, delete its data and start it again"
            ),
        );
        self.set_local(LocalState::Inconsistent);
        self.sequencer.stop_broken();
    }

    /// The node stopped by itself.
    fn node_failed(&self, why: &str) {
        let first = self.update(|state| state.failure.get_or_insert(why.to_owned()) == why);
        if first {
            self.log(LogLevel::Error, why);
        }
        self.primary.store(false, Ordering::Release);
        self.sequencer.stop();
    }
}

/// A session's name in views and transaction ids: fresh for each connection to the group.
pub fn session_uuid(member: MemberId, session: SessionId) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&member.0.to_be_bytes());
    bytes[8..].copy_from_slice(&session.0.to_be_bytes());
    Uuid(bytes)
}

/// Name of the session an action came from.
pub fn origin_uuid(origin: &Origin) -> Uuid {
    session_uuid(origin.member, origin.session)
}

impl Host for Connection {
    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warning => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.callbacks.log(level, text);
    }

    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        let taken = match delivery {
            Delivery::View(view) => self.sequencer.push(Queued::View(view)),
            Delivery::Action { seqno, data: None, .. } => self.sequencer.push_local(seqno.0),
            Delivery::Action { seqno, depends_on, origin, data: Some(data) } => {
                self.counters.received.one();
                self.counters.received_bytes.add(data.len() as u64);
                let (seqno, depends_on) = (seqno.0, depends_on.0);
                self.sequencer.push(Queued::Action { seqno, depends_on, origin, data })
            }
        };
        if taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn joined(&self, view: &GroupView) {
        self.update(|state| state.joined = Some(view.clone()));
    }

    fn primary_changed(&self, primary: bool) {
        self.primary.store(primary, Ordering::Release);
        if self.state().in_order {
            self.sequencer.add_task(0, Task::ShowPrimary);
        }
    }

    fn donate(&self, request: DonorRequest) {
        let after = request.after.0;
        self.sequencer.add_task(after, Task::Donate(request));
    }

    fn transfer_news(&self, id: u64, news: TransferNews) {
        self.update(|state| state.news.push_back((id, news)));
    }

    fn allows(&self, ip: &str) -> bool {
        peer_ip_allowed(ip)
    }

    fn failed(&self, why: &str) {
        self.node_failed(why);
    }
}
