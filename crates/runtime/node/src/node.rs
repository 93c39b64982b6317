//! The handle to a running node: what its host asks for and reports, and how it stops.
//!
//! Every method hands an event to the driver, or reads what that publishes in [`Shared`]. How a
//! node starts is in `start.rs`; what operators order is in `admin.rs`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::bounded;
use synod_consensus::{EntryKind, MemberId, Seqno, SessionId};
use synod_log::LogReader;
use synod_member::{
    Action, ApplyOutcome, ChunkSplitter, DatabasePosition, DecisionSearch, Deliverer, Event, Host,
    LeaveDone, Level, Me, NodeStatus, NotFetched, OrderedAction, OutcomeDecision, Piece, ReadDone,
    Remedy, SessionHistory, Shared, Snapshot, Submission, WaitPolicy, Waiter, lock, ordered_action,
    split_as_it_comes,
};
use synod_wire::{DataState, StateOffer, StateRequest, StateResult};

use crate::clock::Clock;
use crate::config::{NodeConfig, NodeError};
use crate::threads::core::Events;
use crate::threads::delivery::Delivery;
use crate::threads::spawn_vital;
use crate::transport::{CommandHandler, CompressionStatus, LinkStatus, Transport};
use crate::wait::{BudgetShare, ByteBudget, Pending};

/// A client's thread drives while no more actions of this member than this are without a result.
const DRIVING_CLIENTS_MAX: usize = 2;
/// Turns that a client's thread drives at a time: one for its action, one for what came meanwhile.
const CLIENT_TURNS_MAX: usize = 2;

/// A running member of a group. Dropping the handle does not stop it: see [`Node::stop`].
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) me: Me,
    pub(crate) events: Arc<Events>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) reader: LogReader,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) transport: Arc<Transport>,
    /// Bytes of this member's actions that have no proposal result yet.
    pub(crate) pending_budget: Arc<ByteBudget>,
    /// The same for the chunks of large actions, and much smaller: what waits here need not be
    /// split yet.
    pub(crate) chunk_budget: Arc<ByteBudget>,
    /// Number of the next action that is split into chunks.
    pub(crate) next_action: AtomicU64,
    /// Number of the next question to other members: a read, or a request for a state transfer.
    pub(crate) next_question: AtomicU64,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) clock: Clock,
}

impl Node {
    /// Starts a thread without which the node fails: a panic counts as a failed disk.
    pub(crate) fn run(
        &self,
        name: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), NodeError> {
        let (host, delivery) = (self.host.clone(), self.delivery.clone());
        let events = self.events.clone();
        let budgets = [self.pending_budget.clone(), self.chunk_budget.clone()];
        let on_panic = move |why: String| {
            host.log(Level::Error, &why);
            host.failed(&why, Remedy::Restart);
            delivery.stop();
            budgets.iter().for_each(|budget| budget.close());
            // Ends the core thread, if it is not the one that panicked.
            events.send(Event::Stop.into());
        };
        let thread = spawn_vital(name, on_panic, body)?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    pub(crate) fn send_event(&self, event: Event) {
        // If the driver has stopped, the event is dropped, which ends any wait for it.
        self.events.send(event.into());
    }

    pub fn identity(&self) -> (MemberId, SessionId) {
        (self.me.member, self.me.session)
    }

    pub fn cluster_name(&self) -> &str {
        &self.config.cluster_name
    }

    /// Proposes an action to the group. Waits while too many bytes of this member's actions have no
    /// result yet ([`NodeConfig::pending_bytes`]).
    ///
    /// The calling thread may do a turn of the node's work, in which it calls the [`Host`] and
    /// writes to sockets without a wait: it must hold no lock that the host's methods take.
    pub fn submit(&self, action: &Action) -> Arc<Pending> {
        self.submit_with(action, WaitPolicy::default())
    }

    /// Like [`Node::submit`], with another policy of waiting for the result.
    pub fn submit_with(&self, action: &Action, policy: WaitPolicy) -> Arc<Pending> {
        let pending = self.pending(policy);
        // The position is known from the start: held while the pieces before the last one wait.
        let _held = self.shared.hold_snapshot(Seqno(action.last_seen));
        self.hand_over(action, &pending, || Seqno(action.last_seen));
        pending
    }

    /// The place for the result of an action that is about to be handed over. It can be withdrawn
    /// from now on.
    pub fn pending(&self, policy: WaitPolicy) -> Arc<Pending> {
        let (epoch, room) = (self.shared.epoch().clone(), self.chunk_budget.clone());
        Arc::new(Pending::new(epoch, policy, room))
    }

    /// Proposes an action piece by piece, as [`Node::submit`] does. Ends early once the action has
    /// a result, or is withdrawn; what the group has of a withdrawn action is discarded at once.
    /// `last_seen` is asked for the action's snapshot position as late as possible: when its last
    /// piece is made. It must be at or above what [`Node::set_applied`] was told before.
    pub fn hand_over(
        &self,
        action: &Action,
        pending: &Arc<Pending>,
        last_seen: impl FnOnce() -> Seqno,
    ) {
        self.hand_over_as_it_comes(action, 0, pending, |_| true, last_seen);
    }

    /// Proposes an action of one piece, before all that is submitted after the return. Takes no
    /// room, waits for nothing and does not drive, so the caller may hold locks of the host.
    pub fn submit_at_once(&self, action: &Action) -> Arc<Pending> {
        let pending = self.pending(WaitPolicy::default());
        let epoch = self.shared.epoch().load(Ordering::Acquire);
        let number = self.next_action.fetch_add(1, Ordering::Relaxed);
        let mut pieces = split_as_it_comes(action, 0, epoch, self.config.chunk_bytes, number);
        assert!(
            pieces.is_at_last(),
            "only small actions may pass the others"
        );
        let snapshot = self.hold_snapshot(|| Seqno(action.last_seen));
        pieces.see(snapshot.seqno());
        if let Some(last) = pieces.next().filter(|_| pending.begin_last_piece()) {
            let (kind, payload) = last.into_proposal();
            self.send_event(Event::Submit(Submission {
                kind,
                payload,
                waiter: Waiter::new(pending.clone()),
                snapshot: Some(snapshot),
                held: None,
            }));
        }
        pending
    }

    /// Proposes an action as [`Node::hand_over`] does, of which `later_bytes` of data are not in
    /// memory: `read` hands them over in parts, until it is told that no more are wanted. If it
    /// cannot, it returns false, and the action is withdrawn.
    pub fn hand_over_as_it_comes(
        &self,
        action: &Action,
        later_bytes: usize,
        pending: &Arc<Pending>,
        read: impl FnOnce(&mut dyn FnMut(Bytes) -> bool) -> bool,
        last_seen: impl FnOnce() -> Seqno,
    ) {
        let epoch = self.shared.epoch().load(Ordering::Acquire);
        let number = self.next_action.fetch_add(1, Ordering::Relaxed);
        let chunk_bytes = self.config.chunk_bytes;
        let mut pieces = split_as_it_comes(action, later_bytes, epoch, chunk_bytes, number);
        let withdrawal = pieces.withdrawal();
        let mut is_wanted = self.submit_chunks(&mut pieces, pending);
        let mut found_bytes = 0;
        let is_read = !is_wanted
            || read(&mut |part| {
                found_bytes += part.len();
                pieces.append(part);
                is_wanted = self.submit_chunks(&mut pieces, pending);
                is_wanted
            });
        if is_wanted && is_read && found_bytes == later_bytes {
            self.submit_last(pieces, pending, last_seen);
        } else {
            // It has a result already, unless its data are not what was said.
            pending.withdraw();
        }
        if let Some(chunk) = withdrawal.filter(|_| pending.is_withdrawn()) {
            self.submit_withdrawal(chunk);
        }
    }

    /// Takes no room and waits for nothing: the client of a withdrawn action may hold locks that
    /// others wait for. The result is of no interest.
    fn submit_withdrawal(&self, chunk: Piece) {
        let (kind, payload) = chunk.into_proposal();
        let submission = Submission {
            kind,
            payload,
            waiter: Waiter::new(self.pending(WaitPolicy::default())),
            snapshot: None,
            held: None,
        };
        self.submit_event(Event::Submit(submission));
    }

    /// Submits the chunks that are due; false: the action has a result already.
    fn submit_chunks(&self, pieces: &mut ChunkSplitter, pending: &Arc<Pending>) -> bool {
        while !pieces.is_at_last() {
            let Some(chunk) = pieces.next().filter(|_| pending.result().is_none()) else {
                return false;
            };
            self.submit_piece(chunk, pending, None);
        }
        true
    }

    fn submit_last(
        &self,
        mut pieces: ChunkSplitter,
        pending: &Arc<Pending>,
        last_seen: impl FnOnce() -> Seqno,
    ) {
        let snapshot = self.hold_snapshot(last_seen);
        pieces.see(snapshot.seqno());
        if let Some(last) = pieces.next().filter(|_| pending.begin_last_piece()) {
            self.submit_piece(last, pending, Some(snapshot));
        }
    }

    /// Asks for a snapshot position and holds it. Something at or below the answer is held before,
    /// so that no report of this member lets the group forget what is after the answer.
    fn hold_snapshot(&self, last_seen: impl FnOnce() -> Seqno) -> Arc<Snapshot> {
        let _meanwhile = self.shared.hold_snapshot(self.shared.applied());
        self.shared.hold_snapshot(last_seen())
    }

    fn submit_piece(&self, piece: Piece, pending: &Arc<Pending>, snapshot: Option<Arc<Snapshot>>) {
        let (kind, payload) = piece.into_proposal();
        let waiter = Waiter::new(pending.clone());
        // Large actions leave room for small ones.
        let budget = match kind {
            EntryKind::Chunk => &self.chunk_budget,
            _ => &self.pending_budget,
        };
        let bytes = payload.len();
        let is_withdrawn = || kind == EntryKind::Chunk && pending.result().is_some();
        if budget.take_unless(bytes, is_withdrawn) {
            let submission = Submission {
                kind,
                payload,
                waiter,
                snapshot,
                held: Some(Box::new(BudgetShare::of(budget.clone(), bytes))),
            };
            // If it is dropped on its way, the wait ends.
            self.submit_event(Event::Submit(submission));
        }
    }

    /// Drives, if few actions of this member are under way: this one then leaves without a hop.
    /// With more of them, the core thread makes one turn of what gathers until it is awake.
    fn submit_event(&self, event: Event) {
        if self.pending_budget.takers() <= DRIVING_CLIENTS_MAX {
            self.events.drive(event.into(), CLIENT_TURNS_MAX);
        } else {
            self.send_event(event);
        }
    }

    /// The group's position: every action acknowledged on any member before the call is at or below
    /// it. `None` if no quorum has confirmed it within `limit`.
    pub fn read_position(&self, limit: Duration) -> Option<Seqno> {
        let id = self.next_question.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = bounded(1);
        let reply = Box::new(move |seqno| {
            // The caller may have waited long enough.
            let _ = reply.send(seqno);
        });
        self.send_event(Event::Read(ReadDone { id, reply }));
        let answered = match Instant::now().checked_add(limit) {
            Some(deadline) => answer.recv_deadline(deadline).ok(),
            None => answer.recv().ok(),
        };
        if answered.is_none() {
            self.send_event(Event::CancelRead(id));
        }
        answered
    }

    /// Greatest age of the database, if it has everything up to `applied`: it shows what was
    /// acknowledged on any member before that. None: no answered question for the group's position
    /// proves any. Only questions make it younger.
    pub fn staleness(&self, applied: Seqno) -> Option<Duration> {
        self.shared.staleness(self.clock.now(), applied)
    }

    /// Asks for the group's position without a wait, unless that was done less than `every` ago.
    pub fn keep_fresh(&self, every: Duration) {
        if self.shared.is_question_due(self.clock.now(), every) {
            let id = self.next_question.fetch_add(1, Ordering::Relaxed);
            let reply = Box::new(|_| ());
            self.send_event(Event::Read(ReadDone { id, reply }));
        }
    }

    /// Starts to deliver everything after `after` to the host. Call it once.
    pub fn deliver_after(&self, after: Seqno) -> Result<(), NodeError> {
        let (reader, shared) = (self.reader.clone(), self.shared.clone());
        let (host, delivery) = (self.host.clone(), self.delivery.clone());
        let deliverer = Deliverer::new(reader, shared, host.clone(), self.me, after);
        let events = self.events.clone();
        self.run("synod-deliver", move || {
            delivery.run(deliverer, &host, &events);
        })
    }

    /// For a member without a database: states that it is joined, and delivers nothing.
    pub(crate) fn skip_deliveries(&self) -> Result<(), NodeError> {
        self.send_event(Event::DataState(DataState::Joined));
        let (shared, delivery, events) = (
            self.shared.clone(),
            self.delivery.clone(),
            self.events.clone(),
        );
        self.run("synod-deliver", move || {
            delivery.skip(&shared, &events);
        })
    }

    pub fn database(&self) -> DatabasePosition {
        self.shared.position_of(self.config.database)
    }

    /// Whether this member's own log has every action after `seqno`, or will have once queued
    /// writes are done. What it lacks may be fetched: see [`Node::find_actions_after`].
    pub fn can_deliver_after(&self, seqno: Seqno) -> bool {
        seqno.next() >= self.shared.first_seqno(&self.reader)
    }

    /// Looks for the actions after `seqno` that this member's own log lacks. Waits until a member
    /// that is present has sent the first of them ([`Node::deliver_after`] fetches the rest), or
    /// all that are present have said that they have none. Not beside a delivery.
    pub fn find_actions_after(&self, seqno: Seqno) -> Result<(), NotFetched> {
        let log_moved = self.delivery.log_moved();
        while let Some(seen) = log_moved.count() {
            if let Some(found) = self.shared.look_for_entries_after(seqno) {
                return found;
            }
            self.send_event(Event::Fetch);
            log_moved.wait_beyond(seen);
        }
        let asked = "this member stops".to_owned();
        Err(NotFetched { asked })
    }

    /// Sessions that proposed an action or were present after `after`, up to `up_to`. Waits until
    /// this member's log reaches that far, and fetches what it lacks before; empty if the node
    /// stops first. Not beside a delivery.
    pub fn sessions_between(
        &self,
        after: Seqno,
        up_to: Seqno,
    ) -> Result<BTreeSet<(MemberId, SessionId)>, NodeError> {
        let mut history = SessionHistory::new(after, up_to);
        let mut committed_at = None;
        let log_moved = self.delivery.log_moved();
        while let Some(seen) = log_moved.count() {
            let (index, seqno) = self.shared.committed();
            if committed_at.is_none() && seqno >= up_to {
                committed_at = Some(index);
            }
            if committed_at.is_some_and(|index| self.shared.readable() >= index) {
                match history.read_on(&self.reader, &self.shared)? {
                    Some(sessions) => return Ok(sessions),
                    None => self.send_event(Event::Fetch),
                }
            }
            log_moved.wait_beyond(seen);
        }
        Ok(BTreeSet::new())
    }

    /// The action with this seqno, if this member's log has it, and it came in one piece. Reads the
    /// log's memory, or its disk.
    pub fn ordered_action(&self, seqno: Seqno) -> Option<OrderedAction> {
        ordered_action(&self.reader, self.shared.readable(), seqno)
    }

    /// States what the database does, for the choice of donors and for promotion to voter. Ignored
    /// on a member without a database.
    pub fn set_data_state(&self, state: DataState) {
        if self.config.has_data {
            self.send_event(Event::DataState(state));
        }
    }

    /// States that every action up to `seqno` is in the database.
    pub fn set_applied(&self, seqno: Seqno) {
        if self.shared.set_applied(seqno) {
            self.send_event(Event::Applied);
        }
    }

    /// States that every action up to `seqno` has left the host's commit order: its rows are
    /// changed, and threads may still be busy with it.
    pub fn set_left(&self, seqno: Seqno) {
        self.shared.set_left(seqno);
    }

    /// Reports that an action has failed on the database, which then waits for
    /// [`Host::outcome_decided`]. A decision made before this session is found by
    /// [`Node::continue_search`] only.
    pub fn report_failure(&self, seqno: Seqno, outcome: ApplyOutcome) {
        self.send_event(Event::ActionFailed { seqno, outcome });
    }

    /// Continues the search for an outcome decision, as far as this member's log can be read now.
    pub fn continue_search(
        &self,
        search: &mut DecisionSearch,
    ) -> Result<Option<OutcomeDecision>, NodeError> {
        Ok(search.read_on(&self.reader, self.shared.readable())?)
    }

    /// Asks for a state transfer that contains everything up to `after`. Its events come through
    /// [`Host::state_transfer_event`] with the returned number.
    pub fn request_state(
        &self,
        after: Seqno,
        preferred: Vec<String>,
        any_donor: bool,
        request: bytes::Bytes,
    ) -> u64 {
        let id = self.next_question.fetch_add(1, Ordering::Relaxed);
        let request = StateRequest {
            id,
            joiner: self.me.member,
            session: self.me.session,
            after,
            preferred,
            any_donor,
            request,
        };
        self.send_event(Event::RequestState(request));
        id
    }

    /// Answers a [`Host::donate`], as the donor.
    pub fn answer_state_request(&self, id: u64, joiner: MemberId, accepted: bool, text: String) {
        let offer = StateOffer {
            id,
            donor: self.me.member,
            accepted,
            text,
        };
        self.send_event(Event::StateOffer { joiner, offer });
    }

    /// Reports that a state transfer to `joiner` has ended, as its donor. `code` is zero for
    /// success.
    pub fn finish_donation(
        &self,
        id: u64,
        joiner: MemberId,
        seqno: Seqno,
        code: i32,
        text: String,
    ) {
        let result = StateResult {
            id,
            ok: code == 0,
            code,
            seqno,
            text,
        };
        self.send_event(Event::StateResult { joiner, result });
    }

    /// Whether this member hears a leader with a quorum.
    pub fn is_primary(&self) -> bool {
        self.shared.is_primary()
    }

    /// The last committed action that this member knows.
    pub fn commit_seqno(&self) -> Seqno {
        self.shared.commit_seqno()
    }

    pub fn status(&self) -> NodeStatus {
        let mut status = self.shared.status();
        status.first_seqno = self.shared.first_seqno(&self.reader);
        status.durable_index = self.reader.durable_index();
        status.log_begins_ms = self.reader.begins_unix_ms();
        status
    }

    pub fn compression(&self) -> CompressionStatus {
        self.transport.compression_status()
    }

    /// How far away the other members are, and what their clocks show, as this one has measured;
    /// ascending by member.
    pub fn links(&self) -> Vec<LinkStatus> {
        self.transport.link_status()
    }

    /// Serves clients that give commands from other machines, from now on, by this handler; until
    /// then they are told to try again. They have proven to hold the group's credentials, so there
    /// are none while connections are in clear.
    pub fn serve_commands(&self, handler: Arc<CommandHandler>) {
        self.transport.serve_commands(handler);
    }

    /// Leaves the group in an orderly shutdown: hands leadership over, and leaves the voters and
    /// the view. Takes a few seconds at most.
    pub fn leave(&self) {
        self.leave_by(Event::Leave);
    }

    /// Like [`Node::leave`], but stays a voter, with its log and without a database, until the
    /// others have a quorum without it. Ends early when [`Node::leave`] or [`Node::stop`] is
    /// called.
    pub fn leave_when_not_needed(&self) {
        self.leave_by(Event::LeaveWhenNotNeeded);
    }

    fn leave_by(&self, event: fn(LeaveDone) -> Event) {
        let (done, left) = bounded(1);
        self.send_event(event(LeaveDone(Box::new(move || {
            // The caller's thread may have ended.
            let _ = done.send(());
        }))));
        // An error means that the node has stopped already, or that another leave replaced this
        // one.
        let _ = left.recv();
    }

    /// Stops every thread and closes the log. Actions without a result yet end as
    /// [`ProposalResult::Unknown`](crate::ProposalResult::Unknown).
    pub fn stop(&self) {
        self.send_event(Event::Stop);
        self.delivery.stop();
        self.pending_budget.close();
        self.chunk_budget.close();
        self.transport.stop();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A thread that panicked has logged the reason.
            let _ = thread.join();
        }
    }
}
