//! The handle to a running node, and how it starts and stops.

use std::collections::BTreeSet;
use std::net::{TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Sender, bounded, unbounded};
use synod_consensus::{EntryKind, GroupId, MemberId, Seqno, SessionId};
use synod_log::{Files, LogReader, RealFiles};
use synod_member::{
    Action, ApplyOutcome, DatabasePosition, DecisionSearch, Deliverer, Driver, DriverLinks, Event,
    Host, LeaveDone, Level, Me, NodeStatus, OutcomeDecision, Piece, ReadDone, Shared, Snapshot,
    Start, StartEntropy, StartMode, Storage, Submission, Tuning, WaitPolicy, Waiter, lock,
    sessions_between, split_into_chunks,
};
use synod_wire::{DataState, LocalIdentity, OUR_VERSIONS, StateOffer, StateRequest, StateResult};

use crate::bell::Bell;
use crate::budget::{ByteBudget, Share};
use crate::config::{NodeConfig, NodeError};
use crate::core_thread::{Clock, CoreThread, DiskQueues, Incoming, PeerNetwork};
use crate::disk_threads::{LogThread, deliver, serve_catch_up, skip_deliveries};
use crate::peers::{Peers, PeersStart, Security};
use crate::pending::Pending;
use crate::session::new_session;
use crate::threads::spawn_vital;

/// Received and not handled, in bytes, all peers together.
const INBOUND_BYTES_MAX: usize = 64 << 20;

/// A running member of a group.
pub struct Node {
    config: NodeConfig,
    me: Me,
    events: Sender<Incoming>,
    shared: Arc<Shared>,
    bell: Arc<Bell>,
    reader: LogReader,
    host: Arc<dyn Host>,
    pub(crate) peers: Arc<Peers>,
    pending_budget: Arc<ByteBudget>,
    next_chunked: AtomicU64,
    next_read: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Node {
    /// Opens the log, listens, and takes part. Returns at once; [`Host::joined`] tells when the
    /// group has this member.
    ///
    /// # Errors
    /// If the log cannot be opened, belongs to another history than the database, or the address
    /// cannot be listened on.
    pub fn start(
        config: NodeConfig,
        mode: StartMode,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Node>, NodeError> {
        Node::start_on(Arc::new(RealFiles), config, mode, host)
    }

    /// As [`Node::start`], with the log on these files.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_on(
        files: Arc<dyn Files>,
        mut config: NodeConfig,
        mode: StartMode,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Node>, NodeError> {
        if mode == StartMode::Bootstrap && !config.has_data {
            return Err(NodeError::BeginWithoutData);
        }
        // Before anything is opened: a member that should encrypt never goes on without.
        let security = Security::new(config.tls.clone())?;
        host.log(Level::Info, &security.summary());
        let listener = listen(&config.listen)?;
        let mut opened = config.open_log(files, &host)?;
        let clock = Clock::start();
        let start = Start::new(
            config.member(),
            Tuning::default(),
            mode,
            draw()?,
            &mut opened,
            &host,
            clock.now(),
        );
        let start = start.map_err(|error| config.explain(error))?;
        config.database = start.database();
        let (me, group) = (start.me(), start.group());
        let (events, event_queue) = unbounded();
        let (jobs, job_queue) = unbounded();
        let (catchup, catchup_queue) = unbounded();
        let inbound_budget = Arc::new(ByteBudget::new(INBOUND_BYTES_MAX));
        let pending_budget = Arc::new(ByteBudget::new(config.pending_bytes));
        let peers = Peers::start(PeersStart {
            identity: LocalIdentity {
                versions: OUR_VERSIONS,
                group,
                cluster_name: config.cluster_name.clone(),
                member: me.member,
                session: me.session,
                name: config.name.clone(),
            },
            address: config.address.clone(),
            listener,
            security,
            seeds: config.seeds.clone(),
            events: events.clone(),
            inbound_budget: inbound_budget.clone(),
            host: host.clone(),
        })?;
        if let Err(error) = look_for_twin(&config, &start, &peers) {
            peers.stop();
            return Err(error);
        }
        let (bell, reader) = (Arc::new(Bell::default()), opened.reader);
        let ringing = bell.clone();
        let (written, applied) = (reader.last_index(), config.database.seqno);
        let shared = Arc::new(Shared::new(written, applied, move || ringing.ring()));
        let node = Arc::new(Node {
            me,
            events: events.clone(),
            shared: shared.clone(),
            bell: bell.clone(),
            reader: reader.clone(),
            host: host.clone(),
            peers: peers.clone(),
            pending_budget: pending_budget.clone(),
            next_chunked: AtomicU64::new(1),
            next_read: AtomicU64::new(first_number(me.session)),
            threads: Mutex::new(Vec::new()),
            config,
        });
        let log = LogThread {
            storage: Storage::new(opened.writer, reader.clone(), host.clone(), shared.clone()),
            jobs: job_queue,
            events,
        };
        let links = DriverLinks {
            peers: Box::new(PeerNetwork(peers.clone())),
            disk: Box::new(DiskQueues { jobs, catchup }),
            host: host.clone(),
            shared,
            reader: reader.clone(),
            observer: None,
        };
        let core = CoreThread {
            driver: Driver::new(start, links, clock.now()),
            clock,
            events: event_queue,
            bell,
            pending_budget,
            inbound_budget,
        };
        let started = node
            .run("synod-log", move || log.run())
            .and_then(|()| node.run("synod-core", move || core.run()))
            .and_then(|()| {
                let events = node.events.clone();
                node.run("synod-catchup", move || {
                    serve_catch_up(&catchup_queue, &reader, &peers, &host, &events);
                })
            });
        let started = started.and_then(|()| match node.config.has_data {
            true => Ok(()),
            false => node.skip_deliveries(),
        });
        if let Err(error) = started {
            node.stop();
            return Err(error);
        }
        Ok(node)
    }

    /// Starts a thread; if it panics, the node fails as it does when its disk fails.
    fn run(
        &self,
        name: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), NodeError> {
        let (host, bell) = (self.host.clone(), self.bell.clone());
        let (events, budget) = (self.events.clone(), self.pending_budget.clone());
        let on_panic = move |why: String| {
            host.log(Level::Error, &why);
            host.failed(&why);
            bell.stop();
            budget.close();
            // Ends the core thread, if it is not the one that panicked.
            let _ = events.send(Event::Stop.into());
        };
        let thread = spawn_vital(name, on_panic, body)?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    pub(crate) fn send_event(&self, event: Event) {
        // Once the core thread has ended, nothing matters any more.
        let _ = self.events.send(event.into());
    }

    /// Who this member is.
    pub fn identity(&self) -> (MemberId, SessionId) {
        (self.me.member, self.me.session)
    }

    /// Hands an action to the group. Waits while too many bytes are on their way.
    pub fn submit(&self, action: &Action) -> Arc<Pending> {
        self.submit_with(action, WaitPolicy::default())
    }

    /// As [`Node::submit`], with another patience.
    pub fn submit_with(&self, action: &Action, patience: WaitPolicy) -> Arc<Pending> {
        let pending = Arc::new(Pending::new(self.shared.epoch().clone(), patience));
        let epoch = self.shared.epoch().load(Ordering::Acquire);
        let snapshot = self.shared.hold_snapshot(Seqno(action.last_seen));
        let number = self.next_chunked.fetch_add(1, Ordering::Relaxed);
        for piece in split_into_chunks(action, epoch, self.config.chunk_bytes, number) {
            if pending.fate().is_some() {
                break;
            }
            self.submit_piece(piece, &pending, &snapshot);
        }
        pending
    }

    fn submit_piece(&self, piece: Piece, pending: &Arc<Pending>, snapshot: &Arc<Snapshot>) {
        let (kind, payload) = piece.into_proposal();
        let waiter = Waiter::new(pending.clone());
        // Large actions leave room for small ones.
        let (budget, bytes) = (&self.pending_budget, payload.len());
        let taken = match kind {
            EntryKind::Chunk => budget.take_from_half(bytes),
            _ => budget.take(bytes),
        };
        if taken {
            let submission = Submission {
                kind,
                payload,
                waiter,
                snapshot: snapshot.clone(),
                held: Some(Box::new(Share::of(budget.clone(), bytes))),
            };
            // Dropped undelivered, it ends the wait.
            self.send_event(Event::Submit(submission));
        }
    }

    /// The group's position: everything acknowledged anywhere before the call is at or below it.
    /// `None` if it could not be learnt within `limit`.
    pub fn read_position(&self, limit: Duration) -> Option<Seqno> {
        let id = self.next_read.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = bounded(1);
        let reply = Box::new(move |seqno| {
            // Whoever asked may have given up.
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

    /// Starts handing over everything after `after`. Call it once.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn deliver_after(&self, after: Seqno) -> Result<(), NodeError> {
        let (reader, shared) = (self.reader.clone(), self.shared.clone());
        let (host, bell) = (self.host.clone(), self.bell.clone());
        let deliverer = Deliverer::new(reader, shared, host.clone(), self.me, after);
        let events = self.events.clone();
        self.run("synod-deliver", move || {
            deliver(deliverer, &bell, &host, &events);
        })
    }

    /// For a member without a database, which is complete without deliveries.
    fn skip_deliveries(&self) -> Result<(), NodeError> {
        self.send_event(Event::DataState(DataState::Joined));
        let (shared, bell, events) = (self.shared.clone(), self.bell.clone(), self.events.clone());
        self.run("synod-deliver", move || {
            skip_deliveries(&shared, &bell, &events);
        })
    }

    /// Where the database was at start.
    pub fn database(&self) -> DatabasePosition {
        self.shared.position_of(self.config.database)
    }

    /// Whether this member's own log has, or will have, every action after `seqno`.
    pub fn can_deliver_after(&self, seqno: Seqno) -> bool {
        seqno.next() >= self.shared.first_seqno(&self.reader)
    }

    /// Sessions that proposed an action or were present after `after`, up to `up_to`: both in the
    /// history that this member has. Waits until it has it; empty if the node stops before.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn sessions_between(
        &self,
        after: Seqno,
        up_to: Seqno,
    ) -> Result<BTreeSet<(MemberId, SessionId)>, NodeError> {
        let mut committed_at = None;
        while let Some(seen) = self.bell.rung() {
            let (index, seqno) = self.shared.committed();
            if committed_at.is_none() && seqno >= up_to {
                committed_at = Some(index);
            }
            if committed_at.is_some_and(|index| self.shared.readable() >= index) {
                return Ok(sessions_between(&self.reader, after, up_to)?);
            }
            self.bell.wait_after(seen);
        }
        Ok(BTreeSet::new())
    }

    /// Tells what the database does, for donor choice and promotion to voter.
    pub fn set_data_state(&self, state: DataState) {
        if self.config.has_data {
            self.send_event(Event::DataState(state));
        }
    }

    /// Everything up to here is in the database.
    pub fn set_applied(&self, seqno: Seqno) {
        if self.shared.set_applied(seqno) {
            self.send_event(Event::Applied);
        }
    }

    /// An action has failed on the database, which does nothing more until [`Host::outcome_decided`] tells
    /// whose outcome stands. If it was decided before this session, only [`Node::continue_search`] finds it.
    pub fn report_failure(&self, seqno: Seqno, outcome: ApplyOutcome) {
        self.send_event(Event::ActionFailed { seqno, outcome });
    }

    /// Goes on with a search for a decision, as far as this member's log can be read by now.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn continue_search(
        &self,
        search: &mut DecisionSearch,
    ) -> Result<Option<OutcomeDecision>, NodeError> {
        Ok(search.read_on(&self.reader, self.shared.readable())?)
    }

    /// Asks for a full copy that contains everything up to `after`. News comes through
    /// [`Host::state_transfer_event`] with the returned number.
    pub fn request_state(
        &self,
        after: Seqno,
        preferred: Vec<String>,
        any_donor: bool,
        request: bytes::Bytes,
    ) -> u64 {
        let id = self.next_read.fetch_add(1, Ordering::Relaxed);
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

    /// A donor's answer to [`Host::donate`].
    pub fn answer_state_request(&self, id: u64, joiner: MemberId, accepted: bool, text: String) {
        let offer = StateOffer {
            id,
            donor: self.me.member,
            accepted,
            text,
        };
        self.send_event(Event::StateOffer { joiner, offer });
    }

    /// A donor has finished, well or badly.
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

    /// Whether a leader with a quorum is heard.
    pub fn is_primary(&self) -> bool {
        self.shared.is_primary()
    }

    /// Seqno of the last committed action known here.
    pub fn commit_seqno(&self) -> Seqno {
        self.shared.commit_seqno()
    }

    /// A snapshot for status output.
    pub fn status(&self) -> NodeStatus {
        let mut status = self.shared.status();
        status.first_seqno = self.shared.first_seqno(&self.reader);
        status
    }

    /// Leaves the group: hands leadership over, gets out of the voters. Bounded to a few seconds.
    pub fn leave(&self) {
        self.leave_by(Event::Leave);
    }

    /// As [`Node::leave`], but waits until the others can do without this member's vote; it stands by
    /// with its log until then. Ends when [`Node::leave`] or [`Node::stop`] is called meanwhile.
    pub fn leave_when_not_needed(&self) {
        self.leave_by(Event::LeaveWhenNotNeeded);
    }

    fn leave_by(&self, event: fn(LeaveDone) -> Event) {
        let (done, left) = bounded(1);
        self.send_event(event(LeaveDone(Box::new(move || {
            // Whoever asked may have gone.
            let _ = done.send(());
        }))));
        // An error means that the node has stopped already, or was told anew.
        let _ = left.recv();
    }

    /// Stops every thread and closes the log. What clients wait for ends as [`ProposalResult::Unknown`].
    pub fn stop(&self) {
        self.send_event(Event::Stop);
        self.bell.stop();
        self.pending_budget.close();
        self.peers.stop();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn listen(address: &str) -> Result<TcpListener, NodeError> {
    let error = |source| NodeError::Listen {
        address: address.to_owned(),
        source,
    };
    let candidates: Vec<_> = address.to_socket_addrs().map_err(error)?.collect();
    TcpListener::bind(candidates.as_slice()).map_err(error)
}

fn draw() -> Result<StartEntropy, NodeError> {
    Ok(StartEntropy {
        session: new_session(SystemTime::now(), random_u64()?),
        seed: random_u64()?,
        group: GroupId(random_uuid()?),
    })
}

/// A log that was copied to another machine names the address of the original. It is called before this
/// process takes part in anything.
fn look_for_twin(config: &NodeConfig, start: &Start, peers: &Peers) -> Result<(), NodeError> {
    let Some(address) = start.configured_address() else {
        return Ok(());
    };
    if address == config.address || !peers.has_twin_at(address) {
        return Ok(());
    }
    Err(NodeError::DuplicateIdentity {
        address: address.to_owned(),
        text: peers.twin_text(),
    })
}

/// Where the numbers of questions to other members start: answers to an earlier session of this member
/// must not be taken for answers to this one.
fn first_number(session: SessionId) -> u64 {
    (session.0 << 32) >> 1
}

fn random_u64() -> Result<u64, NodeError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| NodeError::Random(error.to_string()))?;
    // Zero means nobody.
    Ok(u64::from_le_bytes(bytes).max(1))
}

fn random_uuid() -> Result<[u8; 16], NodeError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| NodeError::Random(error.to_string()))?;
    // RFC 4122, version 4.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Ok(bytes)
}
