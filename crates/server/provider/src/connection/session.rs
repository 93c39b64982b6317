//! One session with the group: the small context that every owner of a connection is given.
//!
//! It has what all of them need and none of them owns: the server, the node, the commit order,
//! whether local actions may be proposed, and how the stay ends (`departure.rs`).
//!
//! # Lock order
//!
//! Outermost first: the one that is held while the node is being stopped (`departure.rs`),
//! [`Session::state`], a transaction's own lock. The others are leaves: the sequencer's, that of
//! [`HeldCommits`], the position keeper's. None is held across a callback or a wait, except the
//! first, which no thread of the server ever waits for.
//!
//! All that threads wait for is under one lock, [`State`], because some wait for parts of several
//! owners: for a copy or a failure, say. Each part has private fields, so that only its owner
//! changes it.

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_commands::Step;
use synod_node::{
    Action, Class, DataState, GroupId, KeySet, Node, Origin, ProposalResult, Remedy, Seqno,
    View as GroupView,
};

use super::departure::{Data, Exit, Restart};
use super::donor::Donor;
use super::joiner::SstNews;
use super::lifecycle::{Admission, Lifecycle};
use super::views::{ShownViews, ViewFrame, session_uuid};
use crate::api::{Callbacks, Gtid, LogLevel, Stid, TrxMeta, Uuid};
use crate::apply::client_waits::{HeldCommits, Wait};
use crate::apply::failed_action_here::Outcomes;
use crate::apply::sequencer::{NoApplier, Queued, Sequencer, Task};
use crate::commands::EventLog;
use crate::live_options::LiveOptions;
use crate::other_replication::OtherReplication;
use crate::position::PositionKeeper;
use crate::status::LocalState;
use crate::status::counters::Counters;
use crate::sync::MutexGuard;
use crate::transaction::statements::NoteQueue;
use crate::transaction::streamed_transactions::Rollbacks;
use crate::transaction::{Gathered, Transaction, Transactions};
use crate::waiting::Watched;

/// Time from an action that was refused or lost to the next attempt.
const RETRY: Duration = Duration::from_millis(200);

/// State that threads wait for, under one lock.
#[derive(Default)]
pub(crate) struct State {
    /// This session's first view, once the group has it.
    pub(crate) joined: Option<GroupView>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) views: ShownViews,
    /// Progress of the full copy that this server asked for.
    pub(crate) sst: SstNews,
    pub(crate) donor: Donor,
    /// Streamed transactions that all members must roll back.
    pub(crate) rollbacks: Rollbacks,
    pub(crate) outcomes: Outcomes,
    pub(crate) outcome_notes: NoteQueue,
}

/// The server's side, which outlives a connection: shared with the provider.
pub(crate) struct Server {
    pub(crate) callbacks: Callbacks,
    pub(crate) counters: Arc<Counters>,
    /// Local transactions, of this connection and of earlier ones.
    pub(crate) transactions: Arc<Transactions>,
    pub(crate) options: Arc<LiveOptions>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) position: Arc<PositionKeeper>,
    pub(crate) restart: Arc<Restart>,
    pub(crate) other_replication: Arc<OtherReplication>,
}

impl Server {
    pub(crate) fn log(&self, level: LogLevel, text: impl AsRef<str>) {
        self.callbacks.log(level, text.as_ref());
    }

    pub(crate) fn note_step(&self, step: Step, since: Instant, until: Instant) {
        let period = self.options.stats_period();
        self.counters.steps.note(step, since, until, period);
    }

    /// [`Server::note_step`] for a step that has just ended.
    pub(crate) fn note_took(&self, step: Step, took: Duration) {
        let period = self.options.stats_period();
        self.counters.steps.note_took(step, took, period);
    }

    /// Notes how long an action took from `submitted` until now, if it was ordered.
    pub(crate) fn note_latency(&self, submitted: Instant, result: ProposalResult) {
        if let ProposalResult::Ordered { .. } = result {
            let now = Instant::now();
            let (took, period) = (now - submitted, self.options.stats_period());
            self.counters.latency.note(now, took, period);
        }
    }

    /// A client's commit is over, from its view.
    fn note_commit(&self, began: Option<Instant>) {
        if let Some(began) = began {
            self.counters.steps.note_commit(began.elapsed());
        }
    }

    /// Lets clients have their answers.
    pub(crate) fn end_waits(&self, waits: Vec<Wait>) {
        for wait in waits {
            self.note_step(Step::Applied, wait.since, Instant::now());
            self.note_commit(wait.commit_began);
        }
    }
}

/// One stay in the group, from `connect` to the final view.
pub(crate) struct Session {
    pub(crate) server: Server,
    pub(crate) sequencer: Sequencer,
    pub(crate) held_commits: HeldCommits,
    /// Distinguishes this session's ordered transactions from an earlier one's. Counts from 1.
    pub(crate) serial: u64,
    /// Set right after the connection is made; empty in tests without a node.
    node: OnceLock<Arc<Node>>,
    itself: Weak<Session>,
    state: Watched<State>,
    admission: Admission,
    pub(super) exit: Exit,
}

impl Session {
    /// A session without a node; the join moves its order to where it begins.
    pub(super) fn new(server: Server, serial: u64, queue_bytes_max: usize) -> Arc<Session> {
        let position = server.position.current().seqno.0;
        Arc::new_cyclic(|itself| Session {
            server,
            sequencer: Sequencer::new(position, queue_bytes_max),
            held_commits: HeldCommits::default(),
            serial,
            node: OnceLock::new(),
            itself: itself.clone(),
            state: Watched::default(),
            admission: Admission::default(),
            exit: Exit::default(),
        })
    }

    pub(crate) fn set_node(&self, node: Arc<Node>) {
        // Set once, right after the connection is made.
        let _ = self.node.set(node);
    }

    /// Why no leader is heard although the group may run, and what to do; in sentences.
    pub(crate) fn unheard(&self) -> Vec<String> {
        self.node()
            .map(|node| node.status().unheard)
            .unwrap_or_default()
    }

    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.node.get()
    }

    /// For a thread that outlives the call.
    pub(super) fn itself(&self) -> Option<Arc<Session>> {
        self.itself.upgrade()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.update(change)
    }

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

    pub(crate) fn report(&self, data: DataState) {
        if let Some(node) = self.node() {
            node.set_data_state(data);
        }
    }

    pub(crate) fn log(&self, level: LogLevel, text: impl AsRef<str>) {
        self.server.log(level, text);
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.admission.is_primary()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.admission.is_closing()
    }

    /// From now on nothing new is proposed, and a join that is under way ends.
    pub(crate) fn begin_closing(&self) {
        // Under the lock, so that a thread that has just looked does not go to sleep.
        self.update(|_| self.admission.close());
        self.server.end_waits(self.held_commits.end());
    }

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

    pub(crate) fn begin_flight(&self) -> bool {
        let may = self.admission.begin();
        if !may {
            self.end_flight();
        }
        may
    }

    pub(crate) fn end_flight(&self) {
        if self.admission.end() {
            self.update(|_| ());
        }
    }

    pub(crate) fn has_landed(&self) -> bool {
        self.admission.is_empty()
    }

    pub(crate) fn wait_landed(&self, deadline: Instant) -> bool {
        let landed = |_: &mut State| self.admission.is_empty().then_some(());
        self.wait_for(Some(deadline), landed).is_some()
    }

    pub(crate) fn group(&self) -> GroupId {
        self.node()
            .map_or(GroupId::NONE, |node| node.status().group)
    }

    pub(crate) fn gtid(&self, seqno: i64) -> Gtid {
        Gtid::new(self.group(), seqno)
    }

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

    fn report_progress(&self) {
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

    /// Whether the server has asked to leave, and nothing has gone wrong before that.
    pub(crate) fn is_leaving_by_request(&self) -> bool {
        self.is_closing() && self.state().lifecycle.failure().is_none()
    }

    /// An action without an effect passes the order by itself.
    pub(crate) fn pass_note(&self, seqno: i64) {
        self.sequencer.skip(seqno);
        self.report_progress();
    }

    /// [`Session::meta`] of a transaction of this server's client.
    pub(crate) fn local_meta(
        &self,
        transaction: &Transaction,
        gathered: &Gathered,
        seqno: i64,
    ) -> TrxMeta {
        let (trx, conn) = (transaction.trx_id, gathered.conn);
        self.meta(seqno, gathered.depends_on, self.own_uuid(), trx, conn)
    }

    /// Whether an action comes from this member, whatever the session.
    pub(crate) fn is_of_this_member(&self, origin: &Origin) -> bool {
        let member = self.node().map(|node| node.identity().0);
        member == Some(origin.member)
    }

    /// Whether the transaction's place in the order is one of this connection's.
    pub(crate) fn is_of_this_order(&self, gathered: &Gathered) -> bool {
        gathered.serial == Some(self.serial)
    }

    /// The server answers OK to its client next; or once the other servers have applied the action
    /// at `seqno`, if they are to be waited for (`synod.commit_wait`). It has left the order here
    /// and is released: no other transaction waits for this one, on no server.
    pub(crate) fn hold_up_client(&self, seqno: i64, commit_began: Option<Instant>) {
        if !self.server.options.waits_until_applied() {
            return self.server.note_commit(commit_began);
        }
        let since = Instant::now();
        if !self.held_commits.hold_up(seqno, commit_began) {
            self.server.note_step(Step::Applied, since, Instant::now());
            self.server.note_commit(commit_began);
        }
    }

    /// An applier of this server shall apply this server's own action.
    pub(crate) fn adopt(&self, seqno: i64, data: Bytes) {
        let (member, session) = self.node().map(|node| node.identity()).unwrap_or_default();
        let adopted = self.sequencer.adopt(Queued::Action {
            seqno,
            depends_on: seqno - 1,
            origin: Origin::new(member, session, 0),
            data,
        });
        if let Err(NoApplier) = adopted {
            let why = format!(
                "action {seqno} was given up by its client, and all appliers wait for it: this \
                 server leaves the group, and comes back to apply it from the log"
            );
            self.leave(&why, Data::Good, Remedy::Restart);
            self.sequencer.abort();
        }
    }

    /// An action that is never refused, and is applied alone.
    pub(crate) fn lonely_action(&self, data: &Bytes) -> Action {
        Action {
            class: Class::Barrier,
            keys: KeySet::new(),
            last_seen: self.sequencer.released(),
            data: data.clone(),
        }
    }

    /// Has the group order an action that is never refused, and alone; its seqno. Waits for a
    /// primary, and tries again until it succeeds: the action may be ordered more than once. None
    /// if `may_order` says no before an attempt, or the connection closes.
    pub(crate) fn order_alone(&self, data: &Bytes, may_order: impl Fn() -> bool) -> Option<i64> {
        loop {
            self.wait_for(None, |_| {
                (self.is_closing() || self.is_primary()).then_some(())
            });
            let node = self.node().filter(|_| may_order())?;
            let action = self.lonely_action(data);
            if let ProposalResult::Ordered { seqno, .. } = node.submit(&action).wait_for_result() {
                return Some(seqno.0);
            }
            if self.is_closing() {
                return None;
            }
            let again = Instant::now() + RETRY;
            self.wait_for(Some(again), |_| self.is_closing().then_some(()));
        }
    }
}
