//! The handle to a running node, and how it starts and stops.

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded, unbounded};
use synod_certify::CertLimits;
use synod_consensus::{
    Core, CoreParams, EntryKind, GroupId, LogBase, LogIndex, MemberId, Recovered, Seqno, SessionId,
    Time,
};
use synod_log::{Files, Identity, Log, LogReader, LogWriter, RealFiles};
use synod_wire::{DataState, LocalIdentity, OUR_VERSIONS, StateOffer, StateRequest, StateResult};

use crate::action::{Action, Piece, cut};
use crate::budget::ByteBudget;
use crate::catchup;
use crate::config::{DatabasePosition, NodeConfig, NodeError, StartMode};
use crate::deliver::Deliverer;
use crate::driver::{Driver, Event, LeaveDone, Links, Me, ReadDone, Start, Submission};
use crate::host::{Host, Level};
use crate::ingest::Ingestor;
use crate::peers::{Peers, PeersStart};
use crate::pending::{Pending, Waiter};
use crate::shared::{NodeStatus, Shared, lock};
use crate::snapshots::Snapshot;
use crate::storage::Storage;
use crate::threads::spawn_vital;

/// Received and not handled, in bytes, all peers together.
const INBOUND_BYTES_MAX: usize = 64 << 20;
/// Certification history is rebuilt from this many of the log's last entries.
const WARM_ENTRIES: u64 = 20_000;
/// And from about so many bytes, which bounds the time a start takes.
const WARM_TOTAL_BYTES: u64 = 256 << 20;
/// Read at a time for that.
const WARM_BYTES: usize = 4 << 20;

/// A running member of a group.
pub struct Node {
    config: NodeConfig,
    me: Me,
    events: Sender<Event>,
    shared: Arc<Shared>,
    reader: LogReader,
    host: Arc<dyn Host>,
    peers: Arc<Peers>,
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
        let listener = listen(&config.listen)?;
        let mut opened = open_log(files, &config, &host)?;
        let group = begin_history(&mut config, mode, &mut opened, &host)?;
        let me = Me {
            member: opened.identity.member,
            session: SessionId(random_u64()?),
        };
        let warm_entries = warm_entries(&opened.recovered);
        let core = Core::new(
            CoreParams {
                id: me.member,
                timing: config.timing.clone(),
                limits: config.limits.clone(),
                seed: random_u64()?,
            },
            opened.recovered,
            Time(0),
        );
        let ingest = warm_ingestor(&config, &core, &opened.reader, warm_entries, &host);
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
            seeds: config.seeds.clone(),
            events: events.clone(),
            inbound_budget: inbound_budget.clone(),
            host: host.clone(),
        })?;
        let shared = Arc::new(Shared::default());
        shared.log_written(0, opened.reader.last_index());
        shared
            .applied
            .store(config.database.seqno.0, Ordering::Release);
        {
            let mut status = lock(&shared.status);
            (status.member, status.session, status.group) = (me.member, me.session, group);
        }
        let node = Arc::new(Node {
            me: me.clone(),
            events: events.clone(),
            shared: shared.clone(),
            reader: opened.reader.clone(),
            host: host.clone(),
            peers: peers.clone(),
            pending_budget: pending_budget.clone(),
            next_chunked: AtomicU64::new(1),
            next_read: AtomicU64::new(1),
            threads: Mutex::new(Vec::new()),
            config: config.clone(),
        });
        let storage = Storage {
            writer: opened.writer,
            reader: opened.reader.clone(),
            jobs: job_queue,
            events: events.clone(),
            host: host.clone(),
            shared: shared.clone(),
        };
        let links = Links {
            events: event_queue,
            jobs,
            catchup,
            peers: peers.clone(),
            host: host.clone(),
            shared,
            reader: opened.reader.clone(),
            pending_budget,
            inbound_budget,
        };
        let driver_start = Start {
            me,
            config,
            group,
            mode,
            core,
            ingest,
        };
        let reader = opened.reader;
        let started = node
            .run("synod-log", move || storage.run())
            .and_then(|()| node.run("synod-core", move || Driver::new(driver_start, links).run()))
            .and_then(|()| {
                node.run("synod-catchup", move || {
                    catchup::run(&catchup_queue, &reader, &peers, &host);
                })
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
        let (host, shared) = (self.host.clone(), self.shared.clone());
        let (events, budget) = (self.events.clone(), self.pending_budget.clone());
        let on_panic = move |why: String| {
            host.log(Level::Error, &why);
            host.failed(&why);
            shared.stop();
            budget.close();
            // Ends the core thread, if it is not the one that panicked.
            let _ = events.send(Event::Stop);
        };
        let thread = spawn_vital(name, on_panic, body)?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Who this member is.
    pub fn identity(&self) -> (MemberId, SessionId) {
        (self.me.member, self.me.session)
    }

    /// Hands an action to the group. Waits while too many bytes are on their way.
    pub fn submit(&self, action: &Action) -> Arc<Pending> {
        let pending = Arc::new(Pending::new(self.shared.epoch.clone()));
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        let snapshot = self.shared.snapshots.hold(Seqno(action.last_seen));
        let number = self.next_chunked.fetch_add(1, Ordering::Relaxed);
        for piece in cut(action, epoch, self.config.chunk_bytes, number) {
            if pending.fate().is_some() {
                break;
            }
            self.submit_piece(piece, &pending, &snapshot);
        }
        pending
    }

    fn submit_piece(&self, piece: Piece, pending: &Arc<Pending>, snapshot: &Arc<Snapshot>) {
        let (kind, payload) = match piece {
            Piece::Chunk(payload) => (EntryKind::Chunk, payload),
            Piece::Last(payload) => (EntryKind::Action, payload),
        };
        let submission = Submission {
            kind,
            payload,
            pending: Waiter::new(pending.clone()),
            snapshot: snapshot.clone(),
        };
        // Large actions leave room for small ones.
        let taken = match kind {
            EntryKind::Chunk => self.pending_budget.take_from_half(submission.payload.len()),
            _ => self.pending_budget.take(submission.payload.len()),
        };
        if taken {
            // Dropped undelivered, it ends the wait.
            let _ = self.events.send(Event::Submit(submission));
        }
    }

    /// The group's position: everything acknowledged anywhere before the call is at or below it.
    /// `None` if it could not be learnt within `limit`.
    pub fn read_position(&self, limit: Duration) -> Option<Seqno> {
        let id = self.next_read.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = bounded(1);
        self.events.send(Event::Read(ReadDone { id, reply })).ok()?;
        let answered = match Instant::now().checked_add(limit) {
            Some(deadline) => answer.recv_deadline(deadline).ok(),
            None => answer.recv().ok(),
        };
        if answered.is_none() {
            let _ = self.events.send(Event::CancelRead(id));
        }
        answered
    }

    /// Starts handing over everything after `after`. Call it once.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn deliver_after(&self, after: Seqno) -> Result<(), NodeError> {
        let deliverer = Deliverer {
            reader: self.reader.clone(),
            shared: self.shared.clone(),
            host: self.host.clone(),
            me: self.identity(),
            open: std::collections::HashMap::new(),
        };
        self.run("synod-deliver", move || deliverer.run(after))
    }

    /// Where the database was at start.
    pub fn database(&self) -> DatabasePosition {
        self.config.database
    }

    /// Whether this member's own log has, or will have, every action after `seqno`.
    pub fn can_deliver_after(&self, seqno: Seqno) -> bool {
        seqno.next() >= self.first_seqno()
    }

    fn first_seqno(&self) -> Seqno {
        let base = Seqno(self.shared.base_seqno.load(Ordering::Acquire));
        self.reader.first_seqno_available().max(base.next())
    }

    /// Tells what the database does, for donor choice and promotion to voter.
    pub fn set_data_state(&self, state: DataState) {
        let _ = self.events.send(Event::DataState(state));
    }

    /// Everything up to here is in the database.
    pub fn set_applied(&self, seqno: Seqno) {
        self.shared.applied.store(seqno.0, Ordering::Release);
    }

    /// Asks for a full copy that contains everything up to `after`. News comes through
    /// [`Host::transfer_news`] with the returned number.
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
        let _ = self.events.send(Event::RequestState(request));
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
        let _ = self.events.send(Event::StateOffer { joiner, offer });
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
        let _ = self.events.send(Event::StateResult { joiner, result });
    }

    /// Whether a leader with a quorum is heard.
    pub fn is_primary(&self) -> bool {
        self.shared.is_primary()
    }

    /// Seqno of the last committed action known here.
    pub fn commit_seqno(&self) -> Seqno {
        Seqno(self.shared.commit_seqno.load(Ordering::Acquire))
    }

    /// A snapshot for status output.
    pub fn status(&self) -> NodeStatus {
        let mut status = lock(&self.shared.status).clone();
        status.commit_seqno = self.commit_seqno();
        status.first_seqno = self.first_seqno();
        status.log_bytes = self.shared.log_bytes.load(Ordering::Acquire);
        status
    }

    /// Leaves the group: hands leadership over, gets out of the voters. Bounded to a few seconds.
    pub fn leave(&self) {
        let (done, left) = bounded(1);
        if self.events.send(Event::Leave(LeaveDone(done))).is_ok() {
            // An error means that the node has stopped already.
            let _ = left.recv();
        }
    }

    /// Stops every thread and closes the log. What clients wait for ends as [`Fate::Unknown`].
    pub fn stop(&self) {
        let _ = self.events.send(Event::Stop);
        self.shared.stop();
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

struct OpenedLog {
    writer: LogWriter,
    reader: LogReader,
    recovered: Recovered,
    identity: Identity,
}

fn open_log(
    files: Arc<dyn Files>,
    config: &NodeConfig,
    host: &Arc<dyn Host>,
) -> Result<OpenedLog, NodeError> {
    let opened = Log::open(files, &config.log_dir, config.log.clone())?;
    let dir = config.log_dir.display();
    host.log(Level::Info, &format!("log in {dir}: {}", opened.report));
    Ok(OpenedLog {
        writer: opened.writer,
        reader: opened.reader,
        recovered: opened.recovered,
        identity: opened.identity,
    })
}

/// Decides which history this member starts with; a bootstrap begins one.
fn begin_history(
    config: &mut NodeConfig,
    mode: StartMode,
    opened: &mut OpenedLog,
    host: &Arc<dyn Host>,
) -> Result<GroupId, NodeError> {
    let group = opened.identity.group;
    if mode == StartMode::Join {
        return Ok(group);
    }
    let database = config.database;
    if group != GroupId::NONE {
        if database.group != GroupId::NONE && database.group != group {
            return Err(NodeError::OtherHistory {
                log_dir: config.log_dir.clone(),
                log_group: group,
                database_group: database.group,
            });
        }
        let text = format!(
            "bootstrap was asked for, but this member belongs to group {group} already: it finds its \
             way back by itself"
        );
        host.log(Level::Info, &text);
        return Ok(group);
    }
    let group = match database.group {
        GroupId::NONE => GroupId(random_uuid()?),
        group => group,
    };
    opened.writer.set_group(group)?;
    if database.group == group && database.seqno > Seqno(0) {
        let base = LogBase {
            seqno: database.seqno,
            ..LogBase::default()
        };
        opened.writer.reset(base.clone())?;
        opened.writer.sync()?;
        opened.recovered.base = base;
    }
    // This database is the group's: what it holds is the beginning of the history.
    config.database = DatabasePosition {
        group,
        seqno: database.seqno.max(Seqno(0)),
    };
    host.log(Level::Info, &format!("beginning group {group}"));
    Ok(group)
}

/// How many of the log's last entries to read at start, judged by the size of the newest.
fn warm_entries(recovered: &Recovered) -> u64 {
    let known = recovered.tail.len() as u64;
    let bytes: u64 = recovered
        .tail
        .iter()
        .map(|header| u64::from(header.payload_len))
        .sum();
    match bytes.checked_div(known) {
        None | Some(0) => WARM_ENTRIES,
        Some(average) => (WARM_TOTAL_BYTES / average).clamp(1, WARM_ENTRIES),
    }
}

/// Certification state as far as the end of the log tells it.
fn warm_ingestor(
    config: &NodeConfig,
    core: &Core,
    reader: &LogReader,
    warm_entries: u64,
    host: &Arc<dyn Host>,
) -> Ingestor {
    let limits = CertLimits {
        span_max: i64::try_from(config.certification_span).unwrap_or(i64::MAX),
        ..CertLimits::default()
    };
    let base = core.base();
    let last = core.last_id().index;
    let start = LogIndex(last.0.saturating_sub(warm_entries).max(base.last.index.0));
    let seqno = match start == base.last.index {
        true => Some(base.seqno),
        false => reader.header(start).ok().map(|header| header.seqno),
    };
    let mut ingest = Ingestor::new(start, seqno.unwrap_or(core.last_seqno()), limits);
    let mut next = start.next();
    while seqno.is_some() && next <= last {
        match reader.read(next, last, WARM_BYTES) {
            Ok(entries) => {
                for entry in entries {
                    next = entry.header.index.next();
                    if let Err(error) = ingest.appended(&entry.header, &entry.payload) {
                        let text = format!("entry {}: {error}", entry.header.id());
                        host.log(Level::Debug, &text);
                    }
                }
            }
            Err(error) => {
                host.log(
                    Level::Warning,
                    &format!("certification starts without history: {error}"),
                );
                return Ingestor::new(last, core.last_seqno(), limits);
            }
        }
    }
    ingest
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
