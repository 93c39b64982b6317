//! A host without a database, and groups of nodes in this process: real threads, sockets and files.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod gate;

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gate::Gate;
use synod_node::{
    Action, Class, CompressionChoice, DataState, DatabasePosition, Delivery, DonorRequest, GroupId,
    Host, KeySet, KeyType, Level, Limits, LogOptions, MemberConfig, MemberId, Node, NodeConfig,
    NodeError, OUR_VERSIONS, Origin, OutcomeDecision, ProposalResult, Remedy, RoleName, Seqno,
    StartMode, StateTransferEvent, Timing, TlsConfig, View, VoterPolicy, WritePermission,
};
use tempfile::TempDir;

/// No condition takes longer, or the test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// See `NodeConfig::suspect`.
pub(crate) const SUSPECT: Duration = Duration::from_secs(2);
/// Small, so that large actions have many.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Calls of a host's methods, since its member's database was made.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) joined: u64,
    pub(crate) primary: Option<bool>,
    pub(crate) failed: Option<String>,
    /// Only a full copy helps.
    pub(crate) needs_copy: bool,
    pub(crate) lines: Vec<(Level, String)>,
    /// Up to where everything was said to be applied everywhere, and after how many lines.
    pub(crate) everywhere: Vec<(usize, Seqno)>,
    /// Whether it was said to take writes, each time that changed in this run.
    pub(crate) permissions: Vec<WritePermission>,
    pub(crate) donations: Vec<DonorRequest>,
    pub(crate) news: Vec<(u64, StateTransferEvent)>,
    /// Addresses of callers that it was asked about.
    pub(crate) callers: Vec<String>,
    /// The host's allowlist is empty, and in force.
    pub(crate) allows_none: bool,
    /// The outcome decisions, as soon as the host was called with them.
    pub(crate) decisions: Vec<OutcomeDecision>,
    /// The same, in their places among the deliveries.
    pub(crate) delivered_decisions: Vec<OutcomeDecision>,
    /// The database applies nothing after this.
    pub(crate) applies_up_to: Option<Seqno>,
    /// The host refuses deliveries from now on.
    stopped: bool,
    node: Weak<Node>,
}

impl Record {
    pub(crate) fn last(&self) -> Seqno {
        self.deliveries.last().map_or(Seqno(0), Delivery::seqno)
    }

    pub(crate) fn view(&self) -> Option<&View> {
        self.deliveries.iter().rev().find_map(|d| match d {
            Delivery::View(view) => Some(view),
            Delivery::Action { .. } => None,
        })
    }

    pub(crate) fn view_names(&self) -> Vec<String> {
        let members = self.view().map(|view| &view.members);
        let mut names: Vec<String> = members
            .into_iter()
            .flatten()
            .map(|m| m.name.clone())
            .collect();
        names.sort();
        names
    }

    /// Whether no commit up to this one has to wait.
    pub(crate) fn is_everywhere(&self, seqno: Seqno) -> bool {
        self.everywhere.last().is_some_and(|(_, at)| *at >= seqno)
    }

    pub(crate) fn says(&self, text: &str) -> bool {
        self.times_said(text) > 0
    }

    pub(crate) fn times_said(&self, text: &str) -> usize {
        let lines = self.lines.iter();
        lines.filter(|(_, line)| line.contains(text)).count()
    }
}

/// The host of one member.
#[derive(Default)]
pub(crate) struct Recorder {
    record: Mutex<Record>,
    changed: Condvar,
    /// The host has cut itself off.
    pub(crate) isolated: AtomicBool,
}

impl Recorder {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for a condition on the record.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, condition: impl Fn(&Record) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut record = self.lock();
        while !condition(&record) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain: {what}\n{}", tail(&record));
            record = self
                .changed
                .wait_timeout(record, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn tail(record: &Record) -> String {
    let skip = record.lines.len().saturating_sub(40);
    let lines = record.lines.iter().skip(skip);
    let lines: Vec<String> = lines
        .map(|(level, line)| format!("{level:?} {line}"))
        .collect();
    format!(
        "last {} in view {:?}, failed {:?}, primary {:?}\n{}",
        record.last(),
        record.view_names(),
        record.failed,
        record.primary,
        lines.join("\n")
    )
}

impl Host for Recorder {
    fn log(&self, level: Level, text: &str) {
        self.change(|record| record.lines.push((level, text.to_owned())));
    }

    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        self.change(|record| {
            if record.stopped {
                flow = ControlFlow::Break(());
                return;
            }
            let seqno = delivery.seqno();
            let applies = record.applies_up_to.is_none_or(|last| seqno <= last);
            if let Some(node) = record.node.upgrade().filter(|_| applies) {
                node.set_applied(seqno);
            }
            record.deliveries.push(delivery);
        });
        flow
    }

    fn joined(&self, _view: &View) {
        self.change(|record| record.joined += 1);
    }

    fn primary_changed(&self, primary: bool) {
        self.change(|record| record.primary = Some(primary));
    }

    fn applied_everywhere(&self, seqno: Seqno) {
        self.change(|record| record.everywhere.push((record.lines.len(), seqno)));
    }

    fn write_permission(&self, permission: WritePermission) {
        self.change(|record| record.permissions.push(permission));
    }

    fn donate(&self, request: DonorRequest) {
        self.change(|record| record.donations.push(request));
    }

    fn state_transfer_event(&self, id: u64, news: StateTransferEvent) {
        self.change(|record| record.news.push((id, news)));
    }

    fn allows(&self, ip: &str) -> bool {
        self.change(|record| record.callers.push(ip.to_owned()));
        !self.lock().allows_none
    }

    fn is_isolated(&self) -> bool {
        self.isolated.load(Ordering::Relaxed)
    }

    fn outcome_decided(&self, decision: &OutcomeDecision) {
        self.change(|record| record.decisions.push(decision.clone()));
    }

    fn deliver_decision(&self, decision: &OutcomeDecision) {
        self.change(|record| record.delivered_decisions.push(decision.clone()));
    }

    fn failed(&self, why: &str, remedy: Remedy) {
        self.change(|record| {
            record.failed.get_or_insert(why.to_owned());
            record.needs_copy |= remedy == Remedy::FullCopy;
        });
    }
}

/// Waits for a condition that no event announces.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Address at which a member can listen on this machine, as `host:port`. The system gives the port
/// to no outbound connection: those have ports above these.
pub(crate) fn free_address(ip: IpAddr) -> String {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    loop {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed) + u64::from(std::process::id()) * 97;
        let port = 11_000 + (given % 9_000) as u16;
        if let Ok(listener) = TcpListener::bind((ip, port)) {
            return listener.local_addr().unwrap().to_string();
        }
    }
}

/// One member: its disk, its database, and its node while it runs.
pub(crate) struct Member {
    pub(crate) config: NodeConfig,
    pub(crate) host: Arc<Recorder>,
    pub(crate) dir: TempDir,
    node: Option<Arc<Node>>,
}

impl Member {
    pub(crate) fn new(name: &str, cluster_name: &str) -> Member {
        let dir = tempfile::tempdir().unwrap();
        let address = free_address(Ipv4Addr::LOCALHOST.into());
        let config = NodeConfig {
            member: MemberConfig {
                name: name.to_owned(),
                cluster_name: cluster_name.to_owned(),
                address: address.clone(),
                incoming: format!("{name}:3306"),
                timing: Timing {
                    heartbeat_us: 50_000,
                    promise_us: 300_000,
                    election_timeout_min_us: 600_000,
                    election_timeout_max_us: 1_200_000,
                    retry_us: 200_000,
                },
                limits: Limits::default(),
                suspect: SUSPECT,
                keeps_log_only: false,
                apply_lag_max: Duration::from_millis(200),
                certification_span: 100_000,
                region: None,
                wants_vote: true,
                voter_policy: VoterPolicy::default(),
                has_data: true,
                database: DatabasePosition::new(GroupId::NONE, Seqno::UNDEFINED),
                versions: OUR_VERSIONS,
                certificate: None,
            },
            listen: address,
            seeds: Vec::new(),
            log_dir: dir.path().to_owned(),
            log: LogOptions {
                segment_bytes: 1 << 20,
                ..LogOptions::default()
            },
            chunk_bytes: CHUNK_BYTES,
            pending_bytes: 8 << 20,
            compression: CompressionChoice::Auto,
            tls: None,
            flush_period: Duration::from_secs(1),
        };
        Member {
            config,
            host: Arc::default(),
            dir,
            node: None,
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.node.is_some()
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        self.node.as_ref().expect("the member runs")
    }

    pub(crate) fn last(&self) -> Seqno {
        self.host.lock().last()
    }

    /// Starts the node; does not wait for anything.
    pub(crate) fn start(&mut self, mode: StartMode) -> Result<(), NodeError> {
        self.start_by(|config, host| Node::start(config, mode, host))
    }

    pub(crate) fn start_by(
        &mut self,
        start: impl FnOnce(NodeConfig, Arc<dyn Host>) -> Result<Arc<Node>, NodeError>,
    ) -> Result<(), NodeError> {
        self.host.change(|record| {
            record.joined = 0;
            record.primary = None;
            record.stopped = false;
            record.lines.clear();
            record.permissions.clear();
        });
        let last = self.last();
        if last > Seqno(0) {
            self.config.database.seqno = last;
        }
        let node = start(self.config.clone(), self.host.clone())?;
        node.set_applied(last);
        self.host
            .change(|record| record.node = Arc::downgrade(&node));
        self.node = Some(node);
        Ok(())
    }

    /// Waits until the group has this member, then takes deliveries.
    #[track_caller]
    pub(crate) fn take_part(&mut self) {
        self.host.wait("joining", |record| record.joined > 0);
        let node = self.node();
        let last = self.last();
        assert!(node.can_deliver_after(last), "the log has what is missing");
        node.set_data_state(DataState::Synced);
        node.deliver_after(last).unwrap();
        self.config.database.group = self.node().status().group;
    }

    /// Takes over another member's database, as a full copy does.
    pub(crate) fn copy_database(&self, other: &Member) {
        let deliveries = other.host.lock().deliveries.clone();
        self.host.change(|record| record.deliveries = deliveries);
    }

    /// The database loses what it applied after `seqno`.
    pub(crate) fn forget_after(&self, seqno: Seqno) {
        self.host
            .change(|record| record.deliveries.retain(|d| d.seqno() <= seqno));
    }

    /// The database applies nothing more, until [`Member::resume`].
    pub(crate) fn hold(&self) {
        self.host
            .change(|record| record.applies_up_to = Some(record.last()));
    }

    /// The database applies the deliveries that it held back, and all later ones.
    pub(crate) fn resume(&self) {
        let node = self.node().clone();
        self.host.change(|record| {
            record.applies_up_to = None;
            node.set_applied(record.last());
        });
    }

    #[track_caller]
    pub(crate) fn wait_voter(&self) {
        eventually("becoming a voter", || self.node().status().voter);
    }

    /// Ends the node as a kill would: no other member gets a message.
    pub(crate) fn stop(&mut self) {
        self.host.change(|record| record.stopped = true);
        if let Some(node) = self.node.take() {
            node.stop();
        }
    }

    pub(crate) fn leave(&mut self) {
        self.node().leave();
        self.stop();
    }

    pub(crate) fn is_leader(&self) -> bool {
        let status = self.node().status();
        status.role == Some(RoleName::Leader)
    }

    /// Orders an action that conflicts with nothing of another name.
    pub(crate) fn order(&self, key: &str, data: impl Into<Bytes>) -> ProposalResult {
        self.submit(key, data).wait_for_result()
    }

    pub(crate) fn submit(&self, key: &str, data: impl Into<Bytes>) -> Arc<synod_node::Pending> {
        self.node().submit(&action(key, self.last(), data))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn action(key: &str, last_seen: Seqno, data: impl Into<Bytes>) -> Action {
    let mut keys = KeySet::new();
    keys.append(&[b"db", b"t", key.as_bytes()], KeyType::Exclusive);
    Action {
        class: Class::WriteSet { pa_unsafe: false },
        keys,
        last_seen: last_seen.0,
        data: data.into(),
    }
}

#[track_caller]
pub(crate) fn seqno_of(result: ProposalResult) -> Seqno {
    match result {
        ProposalResult::Ordered { seqno, .. } => seqno,
        other => panic!("not ordered: {other:?}"),
    }
}

/// A group whose members take part and vote.
pub(crate) struct Group {
    pub(crate) members: Vec<Member>,
}

impl Group {
    pub(crate) fn of(size: usize, name: &str) -> Group {
        Group::prepared(size, name).begin()
    }

    /// Changes a group in clear to encryption without a stop: each member accepts both at first.
    pub(crate) fn encrypt_one_by_one(&mut self, tls_of: impl Fn(&str) -> Option<TlsConfig>) {
        for accept_plain in [true, false] {
            for at in 0..self.members.len() {
                let member = &mut self.members[at];
                member.stop();
                let mut tls = tls_of(&member.config.name);
                tls.as_mut().unwrap().accept_plain = accept_plain;
                member.config.tls = tls;
                member.start(StartMode::Join).unwrap();
                member.take_part();
                self.wait_complete();
                seqno_of(self.members[at].order(&format!("{accept_plain}{at}"), "v"));
            }
        }
    }

    pub(crate) fn begin(mut self) -> Group {
        let group = &mut self;
        group.members[0].start(StartMode::Bootstrap).unwrap();
        group.members[0].take_part();
        for member in &mut group.members[1..] {
            member.start(StartMode::Join).unwrap();
        }
        for member in &mut group.members[1..] {
            member.take_part();
        }
        group.wait_complete();
        self
    }

    /// Members that know of each other and do not run.
    pub(crate) fn prepared(size: usize, name: &str) -> Group {
        Group::prepared_by(size, name, |_| {})
    }

    /// Like [`Group::prepared`], with settings of their own.
    pub(crate) fn prepared_by(
        size: usize,
        name: &str,
        mut change: impl FnMut(&mut NodeConfig),
    ) -> Group {
        let mut members: Vec<Member> = (1..=size)
            .map(|i| Member::new(&format!("node{i}"), name))
            .collect();
        for member in &mut members {
            change(&mut member.config);
        }
        let seeds: Vec<String> = members.iter().map(|m| m.config.address.clone()).collect();
        for member in &mut members {
            member.config.seeds.clone_from(&seeds);
        }
        Group { members }
    }

    /// Puts a gate before a member that does not run: the others know no other way to it.
    pub(crate) fn gate(&mut self, at: usize) -> Gate {
        let gate = Gate::to(self.members[at].config.listen.clone());
        let address = std::mem::replace(&mut self.members[at].config.address, gate.address.clone());
        for member in &mut self.members {
            for seed in &mut member.config.seeds {
                if *seed == address {
                    seed.clone_from(&gate.address);
                }
            }
        }
        gate
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| m.node.is_some())
    }

    /// Waits until all running members vote, and every view has all of them.
    #[track_caller]
    pub(crate) fn wait_complete(&self) {
        let mut names: Vec<String> = self.running().map(|m| m.config.name.clone()).collect();
        names.sort();
        for member in self.running() {
            member.wait_voter();
            member
                .host
                .wait("the view of all", |record| record.view_names() == names);
        }
    }

    /// Position of the leader among the members.
    #[track_caller]
    pub(crate) fn leader(&self) -> usize {
        let mut found = None;
        eventually("one leader that the running members follow", || {
            let followed: Vec<Option<MemberId>> =
                self.running().map(|m| m.node().status().leader).collect();
            found = self
                .members
                .iter()
                .position(|m| m.node.is_some() && m.is_leader());
            let leader = found.map(|at| self.members[at].node().identity().0);
            leader.is_some() && followed.iter().all(|l| *l == leader)
        });
        found.unwrap()
    }

    pub(crate) fn follower(&self) -> usize {
        let leader = self.leader();
        (0..self.members.len())
            .find(|at| *at != leader && self.members[*at].node.is_some())
            .unwrap()
    }

    /// Waits until every running member has everything that is committed, and compares.
    #[track_caller]
    pub(crate) fn check_same_history(&self) {
        let last = self
            .running()
            .next()
            .and_then(|m| m.node().read_position(PATIENCE))
            .expect("the group answers");
        for member in self.running() {
            member
                .host
                .wait("delivery of all", |record| record.last() >= last);
        }
        let histories: Vec<Vec<Step>> = self
            .running()
            .map(|m| history(&m.host.lock(), last))
            .collect();
        for (position, step) in histories[0].iter().enumerate() {
            assert_eq!(step.seqno.0, position as i64 + 1, "no gap, no repetition");
        }
        for other in &histories[1..] {
            assert_eq!(histories[0].len(), other.len());
            for (a, b) in histories[0].iter().zip(other) {
                assert_eq!(a, b);
            }
        }
    }
}

/// A delivery, without the parts that may differ between members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) seqno: Seqno,
    pub(crate) depends_on: Option<Seqno>,
    pub(crate) origin: Option<Origin>,
    pub(crate) view: Option<View>,
}

pub(crate) fn history(record: &Record, up_to: Seqno) -> Vec<Step> {
    let steps = record.deliveries.iter().map(|delivery| match delivery {
        Delivery::Action {
            seqno,
            depends_on,
            origin,
            ..
        } => Step {
            seqno: *seqno,
            depends_on: Some(*depends_on),
            origin: Some(*origin),
            view: None,
        },
        Delivery::View(view) => Step {
            seqno: view.seqno,
            depends_on: None,
            origin: None,
            view: Some(view.clone()),
        },
    });
    steps.take_while(|step| step.seqno <= up_to).collect()
}

/// The data delivered under a seqno; `None` if the client's own thread was to finish it.
#[track_caller]
pub(crate) fn data_at(record: &Record, seqno: Seqno) -> Option<Bytes> {
    let found = record.deliveries.iter().find(|d| d.seqno() == seqno);
    match found.expect("it was delivered") {
        Delivery::Action { data, .. } => data.clone(),
        Delivery::View(view) => panic!("{seqno} is view {view:?}"),
    }
}
