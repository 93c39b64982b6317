//! One connection to the group, from `connect` to the final view.
//!
//! [`Connection`] coordinates: it is called by the server's threads (through the provider) and by
//! the node's threads (as its host), and passes values between components. A component owns its
//! state, answers with values, and knows neither the connection nor another component:
//!
//! | component | owns |
//! |---|---|
//! | [`Admission`] | whether local actions may be proposed, and how many are under way |
//! | [`State`] | what threads wait for: lifecycle, views, SST, stream rollbacks, outcomes, notes |
//! | [`Shutdown`] | threads of the connection, and what happens once |
//! | [`Sequencer`] | the commit order, the queue, what is released |
//! | [`CommitWaits`] | clients that wait for the other servers |
//! | [`WriteGate`] | whether clients of this server may write |
//! | [`Transactions`], [`LostStreams`], [`Statements`] | local transactions, TOI |
//!
//! # Lock order
//!
//! Outermost first: [`Shutdown::stop_node`]'s, [`Connection::state`], a transaction's own lock. The
//! others are leaves: the sequencer's, that of [`CommitWaits`], the position keeper's. None is held
//! across a callback or a wait, except the first, which no thread of the server ever waits for.

mod admission;
mod copy_again;
pub(crate) mod disconnect;
pub(crate) mod join;
mod lifecycle;
mod node_events;
pub(crate) mod returning;
mod sst_donor;
pub(crate) mod sst_joiner;
mod start_watch;
pub(crate) mod views;
mod watched;
pub(crate) mod write_gate;

use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::time::Instant;

use synod_node::{DataState, GroupId, Node, Seqno, View as GroupView};

use crate::api::{Callbacks, Gtid, LogLevel, Stid, TrxMeta, Uuid};
use crate::apply::commit_wait::CommitWaits;
use crate::apply::inconsistency::{LastDecided, Outcomes};
use crate::apply::sequencer::{Sequencer, Task};
use crate::commands::EventLog;
use crate::live_options::LiveOptions;
use crate::other_replication::OtherReplication;
use crate::position::PositionKeeper;
use crate::status::LocalState;
use crate::status::counters::Counters;
use crate::transaction::Transactions;
use crate::transaction::outcome_notes::NoteQueue;
use crate::transaction::statements::Statements;
use crate::transaction::stream_rollbacks::RollbackQueue;
use crate::transaction::streaming::LostStreams;
use admission::Admission;
use disconnect::Shutdown;
use lifecycle::Lifecycle;
use returning::Restart;
use sst_donor::Donor;
use sst_joiner::{DonorPreference, SstNews};
use start_watch::StartWarning;
use views::{ShownViews, ViewFrame, session_uuid};
use watched::Watched;
use write_gate::WriteGate;

/// Shared state of a connection's threads, under one lock.
#[derive(Default)]
pub(crate) struct State {
    /// This session's first view, once the group has it.
    pub(crate) joined: Option<GroupView>,
    pub(crate) lifecycle: Lifecycle,
    /// Views that the server has been shown.
    pub(crate) views: ShownViews,
    /// Progress of the full copy that this server asked for.
    pub(crate) sst: SstNews,
    /// The full copy that this server gives.
    pub(crate) donor: Donor,
    /// Streamed transactions that all members must roll back.
    pub(crate) rollbacks: RollbackQueue,
    /// Outcomes of actions here, and those that won.
    pub(crate) outcomes: Outcomes,
    /// Outcomes of statements that are to be noted in the log.
    pub(crate) outcome_notes: NoteQueue,
}

/// State that outlives a connection: shared with the provider and with its other connections.
pub(crate) struct Shared {
    /// The server's callbacks and its log.
    pub(crate) callbacks: Callbacks,
    /// Counters of the status.
    pub(crate) counters: Arc<Counters>,
    /// Local transactions, of this connection and of earlier ones.
    pub(crate) transactions: Arc<Transactions>,
    /// Options that are read on hot paths.
    pub(crate) options: Arc<LiveOptions>,
    /// Recent events, for operators.
    pub(crate) events: Arc<EventLog>,
    /// Position of the database.
    pub(crate) position: Arc<PositionKeeper>,
    pub(crate) restart: Arc<Restart>,
    /// MariaDB's own replication beside the group.
    pub(crate) other_replication: Arc<OtherReplication>,
}

/// One connection to the group.
pub(crate) struct Connection {
    pub(crate) shared: Shared,
    /// Commit order and queue.
    pub(crate) sequencer: Sequencer,
    /// Clients that wait for the other servers.
    pub(crate) commit_wait: CommitWaits,
    /// Whether clients of this server may write.
    pub(crate) write_gate: WriteGate,
    /// Statements in total order (TOI) that execute now.
    pub(crate) statements: Statements,
    /// Streamed transactions that all members have rolled back.
    pub(crate) lost_streams: LostStreams,
    /// Up to where outcomes were decided.
    pub(crate) last_decided: LastDecided,
    /// Distinguishes this connection's ordered transactions from an earlier one's. Counts from 1.
    pub(crate) serial: u64,
    /// Donors that `wsrep_sst_donor` names.
    donors: DonorPreference,
    /// Threads, and what happens once.
    shutdown: Shutdown,
    /// Set right after the connection is made; empty in tests without a node.
    node: OnceLock<Arc<Node>>,
    /// For threads that outlive a call.
    itself: Weak<Connection>,
    state: Watched<State>,
    admission: Admission,
    start_warning: StartWarning,
}

impl Connection {
    /// A connection without a node; the join moves its order to where it begins.
    pub(crate) fn new(
        shared: Shared,
        serial: u64,
        donors: DonorPreference,
        queue_bytes_max: usize,
    ) -> Arc<Connection> {
        let position = shared.position.current().seqno.0;
        Arc::new_cyclic(|itself| Connection {
            shared,
            sequencer: Sequencer::new(position, queue_bytes_max),
            commit_wait: CommitWaits::default(),
            write_gate: WriteGate::default(),
            statements: Statements::default(),
            lost_streams: LostStreams::new(serial),
            last_decided: LastDecided::default(),
            serial,
            donors,
            shutdown: Shutdown::default(),
            node: OnceLock::new(),
            itself: itself.clone(),
            state: Watched::default(),
            admission: Admission::default(),
            start_warning: StartWarning::default(),
        })
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

    /// For a thread that outlives the call.
    pub(crate) fn itself(&self) -> Option<Arc<Connection>> {
        self.itself.upgrade()
    }

    /// Locks the shared state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes the state and wakes the threads that wait for it.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.update(change)
    }

    /// Waits until `done` finds what it looks for, or the deadline.
    pub(crate) fn wait_for<T>(
        &self,
        deadline: Option<Instant>,
        done: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        self.state.wait_for(deadline, done)
    }

    /// Changes the state shown to operators and to the group. Inconsistent is the last one.
    pub(crate) fn set_local(&self, local: LocalState) {
        if !self.update(|state| state.lifecycle.set_local(local)) {
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

    /// Reports the state of the database to the group.
    pub(crate) fn report(&self, data: DataState) {
        if let Some(node) = self.node() {
            node.set_data_state(data);
        }
    }

    /// A line for the server's error log.
    pub(crate) fn log(&self, level: LogLevel, text: impl AsRef<str>) {
        self.shared.callbacks.log(level, text.as_ref());
    }

    /// Whether transactions may be proposed.
    pub(crate) fn is_primary(&self) -> bool {
        self.admission.is_primary()
    }

    /// Whether this connection has begun to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.admission.is_closing()
    }

    /// From now on nothing new is proposed, and a join that is under way ends.
    pub(crate) fn begin_closing(&self) {
        // Under the lock, so that a thread that has just looked does not go to sleep.
        self.update(|_| self.admission.close());
        self.end_waits(self.commit_wait.end());
    }

    /// A leader with a quorum is heard, or is not.
    pub(crate) fn set_primary(&self, primary: bool) {
        // Under the lock, so that a thread that has just looked does not go to sleep.
        self.update(|_| self.admission.set_primary(primary));
        self.follow_primary();
    }

    /// Has an applier show the server that the group is lost, if the server believes otherwise. Not
    /// before its first view: until then the server is busy with the join. That the group is back
    /// is shown by a view in order.
    pub(crate) fn follow_primary(&self) {
        let lost = !self.is_primary();
        if lost && self.state().views.believes_in_group() {
            self.sequencer.add_task(0, Task::ShowLost);
        }
    }

    /// Counts a local action that is about to be proposed; false if none may be.
    pub(crate) fn begin_flight(&self) -> bool {
        let may = self.admission.begin();
        if !may {
            self.end_flight();
        }
        may
    }

    /// A local action is over.
    pub(crate) fn end_flight(&self) {
        if self.admission.end() {
            self.update(|_| ());
        }
    }

    /// Whether no local action is under way.
    pub(crate) fn has_landed(&self) -> bool {
        self.admission.is_empty()
    }

    /// Waits until no local action is under way; false on the deadline.
    pub(crate) fn wait_landed(&self, deadline: Instant) -> bool {
        let landed = |_: &mut State| self.admission.is_empty().then_some(());
        self.wait_for(Some(deadline), landed).is_some()
    }

    /// The group, once there is one.
    pub(crate) fn group(&self) -> GroupId {
        self.node()
            .map_or(GroupId::NONE, |node| node.status().group)
    }

    /// A position in the history of the group.
    pub(crate) fn gtid(&self, seqno: i64) -> Gtid {
        Gtid {
            group: self.group(),
            seqno,
        }
    }

    /// Name of this session.
    pub(crate) fn own_uuid(&self) -> Uuid {
        self.node().map_or(Uuid::UNDEFINED, |node| {
            let (member, session) = node.identity();
            session_uuid(member, session)
        })
    }

    /// The action is finished; reports to the node how far the database is.
    pub(crate) fn release(&self, seqno: i64) {
        self.sequencer.release(seqno);
        self.report_progress();
    }

    /// Reports to the node how far the database is.
    pub(crate) fn report_progress(&self) {
        let Some(node) = self.node() else { return };
        node.set_left(Seqno(self.sequencer.left()));
        loop {
            let released = self.sequencer.released();
            node.set_applied(Seqno(released));
            // Another thread that was further may have reported before this one.
            if self.sequencer.released() == released {
                return;
            }
        }
    }

    /// The parts of a view at `seqno` other than its members.
    pub(crate) fn view_frame(&self, seqno: i64) -> ViewFrame {
        let own = self.own_uuid();
        let position = self.gtid(seqno);
        ViewFrame { position, own }
    }

    /// The server's view of an ordered action.
    pub(crate) fn meta(
        &self,
        seqno: i64,
        depends_on: i64,
        node: Uuid,
        trx: u64,
        conn: u64,
    ) -> TrxMeta {
        TrxMeta {
            gtid: self.gtid(seqno),
            stid: Stid { node, trx, conn },
            depends_on,
        }
    }
}
