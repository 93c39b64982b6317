//! The member in this server: what its threads share, the calls of clients' threads, and what the
//! node asks of its host.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_commands::{CommandServer, CommitSteps, EventLog, Step};
use synod_node::{
    CommitWait, DataChunk, DataState, Delivery, DonorRequest, Election, Host, LeaderPreference,
    LeaderWeight, Level, LiveSetting, Node, NodeError, OwnLogTimes, ProposalResult, Remedy, Seqno,
    Setting, StartMode, StateTransferEvent, Topic, View, WaitPolicy, WritePermission,
};

use crate::clients::{Clients, Statement};
use crate::deliveries::{Delivered, Deliveries};
use crate::server::{ClientTransaction, Opening, Server, ServerError, ThreadToken};
use crate::settings::{NAMES, Settings};
use crate::status::{Counters, Stage, Status, Tally};
use crate::steps::Decided;
use crate::transaction::{self, NotOrderable, Origin, Proposed};

/// A thread that the server does not take yet tries again.
const BEGIN_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Ordered(Seqno),
    /// Not, and never to be, committed anywhere.
    Refused,
    /// Refused, and will be each time.
    TooLarge,
    /// The group may have it, or may get it: then it comes as one of another member does.
    Unknown,
}

pub(crate) struct Member {
    pub(crate) server: Arc<dyn Server>,
    pub(crate) settings: Settings,
    pub(crate) clients: Clients,
    pub(crate) deliveries: Deliveries,
    pub(crate) counters: Counters,
    pub(crate) tally: Mutex<Tally>,
    pub(crate) steps: CommitSteps,
    /// Commits that the server carries out.
    pub(crate) decided: Mutex<Decided>,
    pub(crate) events: EventLog,
    pub(crate) command_server: CommandServer,
    node: OnceLock<Arc<Node>>,
    /// The last number that the database had at the start, with or without gaps before it.
    pub(crate) had_at_start: Seqno,
    /// Everything up to here is in the database. Only one thread changes it.
    applied: AtomicI64,
    /// Whether the group is asked how far the other databases are.
    pub(crate) knows_others: AtomicBool,
    /// Bytes of the largest transaction of this server's clients that the group has ordered, since
    /// the database last had everything.
    pub(crate) largest_bytes: AtomicU64,
    /// Since when the server has been taking the event that it is given.
    pub(crate) queuing: Mutex<Option<Instant>>,
    state: Mutex<State>,
    pub(crate) changed: Condvar,
    /// The thread that feeds the channel waits for a position.
    advanced: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct State {
    pub(crate) stage: Stage,
    /// State that the node was told last.
    pub(crate) data: DataState,
    pub(crate) is_stopping: bool,
    /// The place of this session in the order, once the group has it.
    pub(crate) joined: Option<Seqno>,
    pub(crate) permission: WritePermission,
    /// Since when this server leads, if it was elected last: its permission to write follows.
    pub(crate) elected: Option<Instant>,
    /// Whether clients may write by the server's own settings; none: not known.
    pub(crate) is_open: Option<bool>,
    /// While this server takes writes, or is about to.
    pub(crate) opening: Opening,
    pub(crate) openings: i64,
    pub(crate) is_offline: bool,
    /// This server has begun the group, and has not said yet with which data.
    pub(crate) founds: bool,
    /// All other present databases have everything up to here, if the group is asked for that.
    pub(crate) others_applied: Seqno,
    pub(crate) problem: String,
}

impl Default for State {
    fn default() -> State {
        State {
            stage: Stage::default(),
            data: DataState::default(),
            is_stopping: false,
            joined: None,
            permission: WritePermission::default(),
            elected: None,
            is_open: None,
            opening: Opening::default(),
            openings: 0,
            is_offline: false,
            founds: false,
            others_applied: Seqno(i64::MAX),
            problem: String::new(),
        }
    }
}

impl Member {
    /// Starts the member of the database that `server` has now, with its threads.
    pub(crate) fn start(
        server: Arc<dyn Server>,
        settings: Settings,
    ) -> Result<Arc<Member>, StartError> {
        let executed = server.executed()?;
        let applied = executed.first_missing(settings.group) as i64 - 1;
        for warning in &settings.warnings {
            server.log(Level::Warning, warning);
        }
        let text = format!("the database has the group's history up to {applied}");
        server.log(Level::Info, &text);
        let member = Arc::new(Member {
            server,
            clients: Clients::default(),
            deliveries: Deliveries::default(),
            counters: Counters::default(),
            tally: Mutex::default(),
            steps: CommitSteps::default(),
            decided: Mutex::default(),
            events: EventLog::default(),
            command_server: CommandServer::default(),
            node: OnceLock::new(),
            had_at_start: Seqno(executed.last(settings.group) as i64),
            applied: AtomicI64::new(applied),
            knows_others: AtomicBool::new(false),
            largest_bytes: AtomicU64::new(0),
            queuing: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            advanced: Condvar::new(),
            threads: Mutex::default(),
            settings,
        });
        let config = member.settings.node(Seqno(applied));
        let node = Node::start(config, member.settings.mode, member.clone())?;
        let options = &member.settings.options;
        node.set(LiveSetting::FullLogPolicy(options.full_log_policy()));
        node.set(LiveSetting::InconsistencyPolicy(
            options.inconsistency_policy(),
        ));
        node.set(LiveSetting::LeaderPreference(options.leader_preference()));
        node.set(LiveSetting::RegionPatience(options.region_patience()));
        node.set_applied(Seqno(applied));
        let _ = member.node.set(node); // it was empty
        let started = member
            .run("synod-apply", Member::apply)
            .and_then(|()| member.run("synod-watch", Member::watch))
            .and_then(|()| member.run("synod-gate", Member::keep_gate));
        if let Err(error) = started {
            member.stop();
            return Err(StartError::Thread(error));
        }
        member.serve_commands();
        Ok(member)
    }

    fn run(self: &Arc<Member>, name: &str, body: fn(&Member)) -> std::io::Result<()> {
        let member = self.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || {
            if let Some(thread) = member.begin_thread() {
                if catch_unwind(AssertUnwindSafe(|| body(&member))).is_err() {
                    member.fail("a thread of the plugin has ended with a defect. Restart it");
                }
                member.server.end_thread(thread);
            }
        })?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(thread);
        Ok(())
    }

    /// Waits until the server takes threads; none: the member stops before.
    fn begin_thread(&self) -> Option<ThreadToken> {
        loop {
            if let Some(thread) = self.server.begin_thread() {
                return Some(thread);
            }
            if self.pause(BEGIN_AGAIN) {
                return None;
            }
        }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        self.node.get().expect("threads start after the node")
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Waits for what `found` finds; none: the member stops before.
    pub(crate) fn wait_for<T>(&self, mut found: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            if let Some(found) = found(&mut state) {
                return Some(found);
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits so long, or until the member stops: then true.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let state = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, time, |state| !state.is_stopping);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping
    }

    pub(crate) fn applied(&self) -> Seqno {
        Seqno(self.applied.load(Ordering::Acquire))
    }

    /// Everything up to `seqno` is in the database.
    pub(crate) fn set_applied(&self, seqno: Seqno) {
        let before = self.applied.swap(seqno.0, Ordering::AcqRel);
        assert!(before <= seqno.0, "a database does not lose what it has");
        self.node().set_applied(seqno);
        let opens_later = self.lock().opens_later();
        self.advanced.notify_one();
        if opens_later {
            self.changed.notify_all();
        }
    }

    /// Waits until `is_enough` of the position; false: the member stops before.
    pub(crate) fn wait_for_applied(&self, mut is_enough: impl FnMut(Seqno) -> bool) -> bool {
        let must_wait = |state: &mut State| !state.is_stopping && !is_enough(self.applied());
        let waited = self.advanced.wait_while(self.lock(), must_wait);
        !waited.unwrap_or_else(PoisonError::into_inner).is_stopping
    }

    pub(crate) fn log(&self, level: Level, text: impl AsRef<str>) {
        self.server.log(level, text.as_ref());
    }

    pub(crate) fn fail(&self, why: impl Into<String>) {
        self.take_out(Stage::Failed, why.into());
    }

    /// The server takes no part any more: it must not lead, nor answer clients as if its data were
    /// the group's.
    pub(crate) fn take_out(&self, stage: Stage, why: String) {
        self.log(
            Level::Error,
            format!("this server does not follow its group any more: {why}"),
        );
        self.set_data_state(DataState::Error);
        self.set_defers(true);
        self.change(|state| {
            state.stage = stage;
            state.problem = why;
        });
    }

    pub(crate) fn set_data_state(&self, data: DataState) {
        self.lock().data = data;
        if let Some(node) = self.node.get() {
            node.set_data_state(data);
        }
    }

    /// Whether other members should rather lead.
    pub(crate) fn set_defers(&self, defers: bool) {
        let preference = match defers {
            true => LeaderPreference {
                weight: LeaderWeight::new(0).unwrap_or_default(),
                hands_over: true,
            },
            false => self.settings.options.leader_preference(),
        };
        if let Some(node) = self.node.get() {
            node.set(LiveSetting::LeaderPreference(preference));
        }
    }

    /// Decides a client's transaction. The client waits here, and holds its locks.
    pub(crate) fn commit(
        &self,
        client: &dyn ClientTransaction,
        statement: Arc<dyn Statement>,
    ) -> Decision {
        let asked = Instant::now();
        let decision = self.decide(client, statement, asked);
        if let Decision::Ordered(_) = decision {
            let decided = (asked, Instant::now());
            self.decided().insert(client.thread(), decided);
        }
        Counters::one(match decision {
            Decision::Ordered(_) => &self.counters.ordered,
            Decision::Refused | Decision::TooLarge => &self.counters.refused,
            Decision::Unknown => &self.counters.unknown,
        });
        decision
    }

    fn decide(
        &self,
        client: &dyn ClientTransaction,
        statement: Arc<dyn Statement>,
        asked: Instant,
    ) -> Decision {
        // What it has read before this server was the writer may be old by now.
        if client.began().is_some_and(|began| began != self.opening()) {
            return Decision::Refused;
        }
        let Proposed {
            action,
            later_bytes,
        } = match transaction::propose(client, self.origin()) {
            Ok(proposed) => proposed,
            Err(why) => {
                self.log_refused(&why);
                return match why {
                    NotOrderable::TooLarge { .. } => Decision::TooLarge,
                    NotOrderable::Unreadable | NotOrderable::Xa | NotOrderable::Events(_) => {
                        Decision::Refused
                    }
                };
            }
        };
        let node = self.node();
        let waits_for_others =
            client.waits_for_others() || self.settings.options.commit_wait() == CommitWait::Applied;
        if waits_for_others {
            self.ask_for_other_databases();
        }
        let pending = node.pending(WaitPolicy::UntilGroupLost);
        let read = |take: &mut dyn FnMut(Bytes) -> bool| {
            let is_read = later_bytes == 0 || transaction::read_parts(client, take);
            if !is_read {
                self.log_refused(&NotOrderable::Unreadable);
            }
            is_read
        };
        let mut handed_over = None;
        let result = self.clients.wait(&pending, statement.clone(), || {
            node.hand_over_as_it_comes(&action, later_bytes, &pending, read, || self.applied());
            handed_over = Some(Instant::now());
        });
        if let (Some(handed_over), Some(decided)) = (handed_over, pending.decided_at()) {
            let period = self.stats_period();
            self.steps.note_order(asked, handed_over, decided, period);
        }
        match result {
            ProposalResult::Ordered { seqno, .. } => {
                self.largest_bytes
                    .fetch_max(client.bytes(), Ordering::Relaxed);
                if waits_for_others {
                    let since = Instant::now();
                    self.await_others(seqno, statement.as_ref());
                    self.note_step(Step::Applied, since, Instant::now());
                }
                Decision::Ordered(seqno)
            }
            ProposalResult::Unknown => Decision::Unknown,
            ProposalResult::Conflict { .. }
            | ProposalResult::TooOld
            | ProposalResult::GivenUp
            | ProposalResult::NotWriter
            | ProposalResult::Rejected
            | ProposalResult::Withdrawn
            | ProposalResult::NotProposed => Decision::Refused,
        }
    }

    fn log_refused(&self, why: &NotOrderable) {
        self.log(Level::Warning, format!("a transaction is refused: {why}"));
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin {
            server_version: self.settings.version.number,
            server_id: self.settings.server_id,
            committed_us: transaction::now_us(),
        }
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn opening(&self) -> Opening {
        self.lock().opening
    }

    pub(crate) fn status(&self) -> Status {
        let node = self.node().status();
        let (checked, waiting) = self.tally().counts(self.applied());
        let state = self.lock();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let members = node.view.members.iter().map(|member| member.name.as_str());
        Status {
            state: match (state.stage, state.is_open) {
                (Stage::Joining, _) => "joining",
                (Stage::Following, Some(true)) => "writer",
                (Stage::Following, _) => "replica",
                (Stage::Stuck | Stage::Blocked | Stage::Failed, _) => "failed",
                (Stage::Stopped, _) => "stopped",
            },
            writer: node.leader_name.clone(),
            problem: state.problem.clone(),
            members: members.collect::<Vec<_>>().join(","),
            applied: self.applied().0,
            committed: node.commit_seqno.0,
            checked,
            waiting,
            ordered: count(&self.counters.ordered),
            refused: count(&self.counters.refused),
            unknown: count(&self.counters.unknown),
            is_primary: node.primary,
        }
    }

    pub(crate) fn leave(&self) {
        self.node().leave();
    }

    pub(crate) fn stop(&self) {
        self.change(|state| {
            state.is_stopping = true;
            state.stage = Stage::Stopped;
        });
        self.advanced.notify_all();
        self.deliveries.end();
        self.clients.end_all();
        // Orders that wait for the group end with the node.
        if let Some(node) = self.node.get() {
            node.stop();
        }
        self.command_server.stop();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // It has caught its own panics.
            let _ = thread.join();
        }
    }
}

impl Host for Member {
    fn setting_name(&self, setting: Setting) -> &'static str {
        NAMES.name_of(setting)
    }

    fn log(&self, level: Level, text: &str) {
        self.server.log(level, text);
    }

    fn note(&self, topic: Topic, level: Level, text: &str) {
        self.events.add(topic, level, text);
        self.log(level, text);
    }

    fn elected(&self, election: &Election) {
        self.events.elected(election);
        let is_own = election.leader == self.settings.name();
        self.change(|state| state.elected = is_own.then(Instant::now));
    }

    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        self.deliveries.push(Delivered::Last(delivery))
    }

    fn takes_chunks(&self) -> bool {
        true
    }

    fn deliver_chunk(&self, chunk: DataChunk) -> ControlFlow<()> {
        self.deliveries.push(Delivered::Chunk(chunk))
    }

    fn takes_now(&self) -> bool {
        self.deliveries.takes_now()
    }

    fn own_action_durable(&self, times: OwnLogTimes) {
        let period = self.stats_period();
        self.steps.note_took(Step::Append, times.append, period);
        self.steps.note_took(Step::Fsync, times.fsync, period);
    }

    fn own_action_committed(&self, took: Duration) {
        let period = self.stats_period();
        self.steps.note_took(Step::Quorum, took, period);
    }

    fn certification_begins(&self) {
        self.steps.certification_begins();
    }

    fn certification_ends(&self) {
        self.steps.certification_ends(self.stats_period());
    }

    fn joined(&self, view: &View) {
        self.change(|state| {
            state.founds = self.settings.mode == StartMode::TakeOver && view.number == 1;
            state.joined = Some(view.seqno);
        });
    }

    fn primary_changed(&self, primary: bool) {
        let text = match primary {
            true => "the group has a majority, and this member hears its leader",
            false => {
                "this member hears no leader with a majority: nothing is committed through it \
                 until it does. See which servers run, and whether they can be reached from here"
            }
        };
        let level = if primary { Level::Info } else { Level::Warning };
        self.log(level, text);
    }

    fn applied_everywhere(&self, seqno: Seqno) {
        self.change(|state| state.others_applied = seqno);
    }

    fn write_permission(&self, permission: WritePermission) {
        self.change(|state| state.permission = permission);
    }

    /// Full copies are not given by this version: the joiner is told so.
    fn donate(&self, request: DonorRequest) {
        if let Some(node) = self.node.get() {
            let text = "this version gives no full copies: copy the data with the clone plugin";
            node.answer_state_request(request.id, request.joiner, false, text.to_owned());
        }
    }

    fn state_transfer_event(&self, _id: u64, _news: StateTransferEvent) {}

    /// Members prove themselves by their credentials; addresses prove nothing.
    fn allows(&self, _ip: &str) -> bool {
        true
    }

    fn failed(&self, why: &str, remedy: Remedy) {
        let then = match remedy {
            Remedy::Restart => "restart this server once its disk works",
            Remedy::FullCopy => "it needs a full copy of another server's data",
            Remedy::Operator => "look at it before you restart this server",
        };
        self.fail(format!("{why}; {then}"));
    }
}

impl State {
    /// Whether the gate waits for a position: before it opens, or for the group's beginning.
    fn opens_later(&self) -> bool {
        let opens = matches!(self.permission, WritePermission::Here { .. });
        self.founds || self.is_open != Some(true) && opens
    }
}
