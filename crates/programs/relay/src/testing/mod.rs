//! Relays of an upstream in this process, for tests: real nodes and sockets, and logs in memory
//! that can be made unreadable.

use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use synod_log::files::{Fault, FaultKind, Op};
use synod_log::{FaultyFiles, MemoryFiles};
use synod_node::{
    Action, Class, CompressionChoice, DatabasePosition, Delivery, DonorRequest, Host, KeySet,
    Level, Limits, LogOptions, MemberConfig, Node, NodeConfig, OUR_VERSIONS, ProposalResult,
    Remedy, RoleName, Seqno, Setting, StartMode, StateTransferEvent, Timing, View, VoterPolicy,
    WritePermission,
};

use crate::pull::control::Control;
use crate::upstream_log::entry::{Head, Orders};
use crate::upstream_log::history::GtidState;
use crate::upstream_log::registry::Known;
use crate::upstream_log::tail::{End, Tail};

/// No condition takes longer, or the test has failed.
const LIMIT: Duration = Duration::from_secs(30);

static NEXT_SEED: AtomicU64 = AtomicU64::new(1);

/// A relay whose end of the log is followed, and which pulls nothing.
pub(crate) struct TestRelay {
    pub(crate) node: Arc<Node>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) control: Arc<Control>,
    /// Files of the log, which is read from them each time.
    pub(crate) files: FaultyFiles,
    address: String,
    follows: Option<JoinHandle<()>>,
}

impl TestRelay {
    pub(crate) fn begin(name: &str) -> TestRelay {
        TestRelay::start(name, Vec::new(), StartMode::Bootstrap)
    }

    /// Another relay of this one's group, with a vote.
    pub(crate) fn joined_by(&self, name: &str) -> TestRelay {
        let joiner = TestRelay::start(name, vec![self.address.clone()], StartMode::Join);
        eventually("a voter", || joiner.node.status().voter);
        joiner
    }

    fn start(name: &str, seeds: Vec<String>, mode: StartMode) -> TestRelay {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        // A member's identity is drawn from its files' seed.
        let seed = NEXT_SEED.fetch_add(1, Ordering::Relaxed);
        let files = FaultyFiles::new(Arc::new(MemoryFiles::new(seed)));
        let control = Arc::new(Control::default());
        let host = Arc::new(RelayHost(control.clone()));
        let config = config(name, &address, seeds);
        let node = Node::start_on(Arc::new(files.clone()), config, mode, host).unwrap();
        let (tail, log) = (Arc::new(Tail::default()), node.committed_log());
        let follower = tail.clone();
        TestRelay {
            node,
            tail,
            control,
            files,
            address,
            follows: Some(thread::spawn(move || follower.run(&log))),
        }
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.node.status().role == Some(RoleName::Leader)
    }

    /// Each read of the log fails from now on.
    pub(crate) fn break_reads(&self) {
        let (op, kind) = (Op::Read, FaultKind::Always(std::io::ErrorKind::Other));
        self.files.plan(Fault { op, nth: 1, kind });
    }

    /// Gets an order into the log that changes nothing, once this relay leads.
    pub(crate) fn order(&self) -> Seqno {
        let head = Head {
            before: GtidState::default(),
            mysql: None,
            orders: Orders::default(),
            known: Known::default(),
            part: None,
        };
        let action = Action {
            class: Class::TotalOrder,
            keys: KeySet::new(),
            last_seen: self.node.commit_seqno().0,
            data: head.encode(&[]).unwrap(),
        };
        let mut ordered = None;
        eventually("in the log", || {
            match self.node.submit(&action).wait_for_result() {
                ProposalResult::Ordered { seqno, .. } => ordered = Some(seqno),
                // It does not lead yet, or not for long enough.
                ProposalResult::NotProposed | ProposalResult::NotWriter => {}
                result => panic!("{result:?}"),
            }
            ordered.is_some()
        });
        ordered.unwrap()
    }

    #[track_caller]
    pub(crate) fn await_end(&self, what: &str, holds: impl Fn(&End) -> bool) {
        eventually(what, || holds(&self.tail.end()));
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        self.control.stop();
        self.node.stop();
        if let Some(thread) = self.follows.take() {
            // Its panic was printed.
            let _ = thread.join();
        }
    }
}

/// Both ends of a connection.
pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (reader, listener.accept().unwrap().0)
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "not {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn config(name: &str, address: &str, seeds: Vec<String>) -> NodeConfig {
    NodeConfig {
        member: MemberConfig {
            name: name.to_owned(),
            cluster_name: "relays".to_owned(),
            address: address.to_owned(),
            incoming: String::new(),
            timing: Timing::default(),
            limits: Limits::default(),
            suspect: Duration::from_secs(5),
            keeps_log_only: true,
            apply_lag_max: Duration::ZERO,
            certification_span: 1000,
            region: None,
            wants_vote: true,
            voter_policy: VoterPolicy::default(),
            has_data: false,
            database: DatabasePosition::NONE,
            versions: OUR_VERSIONS,
            certificate: None,
        },
        listen: address.to_owned(),
        seeds,
        log_dir: "log".into(),
        log: LogOptions {
            segment_bytes: 1 << 20,
            cache_bytes: 0,
            ..LogOptions::default()
        },
        chunk_bytes: 1 << 20,
        pending_bytes: 1 << 20,
        compression: CompressionChoice::Auto,
        tls: None,
        flush_period: Duration::from_secs(1),
    }
}

/// Tells the control whether this relay leads.
struct RelayHost(Arc<Control>);

impl Host for RelayHost {
    fn setting_name(&self, _setting: Setting) -> &'static str {
        "a setting"
    }
    fn log(&self, _level: Level, _text: &str) {}
    fn deliver(&self, _delivery: Delivery) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
    fn joined(&self, _view: &View) {}
    fn primary_changed(&self, _primary: bool) {}
    fn write_permission(&self, permission: WritePermission) {
        self.0.may_write(permission);
    }
    fn donate(&self, _request: DonorRequest) {}
    fn state_transfer_event(&self, _id: u64, _news: StateTransferEvent) {}
    fn allows(&self, _ip: &str) -> bool {
        true
    }
    fn failed(&self, why: &str, _remedy: Remedy) {
        eprintln!("the node has failed: {why}");
    }
}
