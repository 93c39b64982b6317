//! The values behind one `SHOW STATUS`, gathered by `gather` and shown by the table in
//! [`variables`](super::variables).
//!
//! Only what is measured has a field here. What Galera shows and this provider does not measure is
//! a constant in the table.

use crate::api::{Gtid, Uuid};
use crate::status::commit_steps::Step;

/// State of this server between start and service, as `wsrep_local_state` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalState {
    /// Not in a primary view.
    #[default]
    Initialized,
    /// In the group, without its data yet.
    Joining,
    /// Receiving a full copy (SST).
    ReceivingStateTransfer,
    /// Has the data and catches up.
    Joined,
    /// Sends a full copy (SST), or is desynced.
    DonorDesynced,
    /// Has everything that was committed; serves clients.
    Synced,
    /// Could not apply what the others did, or was fenced.
    Inconsistent,
}

impl LocalState {
    /// `wsrep_local_state`. Health checks take 4, and only 4, for "send clients here".
    pub fn number(self) -> i64 {
        match self {
            LocalState::Initialized | LocalState::Inconsistent => 0,
            LocalState::Joining | LocalState::ReceivingStateTransfer => 1,
            LocalState::DonorDesynced => 2,
            LocalState::Joined => 3,
            LocalState::Synced => 4,
        }
    }

    /// `wsrep_local_state_comment`.
    pub fn comment(self) -> &'static str {
        match self {
            LocalState::Initialized => "Initialized",
            LocalState::Joining => "Joining",
            LocalState::ReceivingStateTransfer => "Joining: receiving State Transfer",
            LocalState::Joined => "Joined",
            LocalState::DonorDesynced => "Donor/Desynced",
            LocalState::Synced => "Synced",
            LocalState::Inconsistent => "Inconsistent",
        }
    }
}

/// A reason for which this server is out of its group, or its data are not as the others'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    #[default]
    None,
    /// The server has left its group for this reason, and comes back by itself.
    ComesBack(String),
    /// The server has left its group for this reason, and waits for a person.
    WaitsForPerson(String),
    /// Its data lack something, or must not be used: a sentence for each defect.
    Defects(Vec<String>),
}

impl Trouble {
    /// For people, in a line; empty: there is none.
    pub fn text(&self) -> String {
        match self {
            Trouble::None => String::new(),
            Trouble::ComesBack(why) => format!("out of its group, comes back by itself: {why}"),
            Trouble::WaitsForPerson(why) => {
                format!("out of its group, waits for a person: {why}")
            }
            Trouble::Defects(defects) => defects.join(" "),
        }
    }
}

/// Times of actions from proposal to a durable majority, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyStats {
    /// Shortest, in seconds.
    pub min: f64,
    /// Mean, in seconds.
    pub average: f64,
    /// Longest, in seconds.
    pub max: f64,
    /// Standard deviation, in seconds.
    pub deviation: f64,
    /// Number of samples; zero: no action was ordered in the time covered.
    pub samples: u64,
}

impl LatencyStats {
    /// Five numbers with slashes between them, as exporters parse them.
    pub fn text(&self) -> String {
        let LatencyStats {
            min,
            average,
            max,
            deviation,
            samples,
        } = self;
        format!("{min:.6}/{average:.6}/{max:.6}/{deviation:.6}/{samples}")
    }
}

/// Times of a step of a commit, over the present and the last period. Zero: there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Half of them took at most so many microseconds.
    pub p50: u64,
    /// 95 of a hundred did.
    pub p95: u64,
    /// 99 of a hundred did.
    pub p99: u64,
    /// Number of measurements.
    pub samples: u64,
}

impl StepTimes {
    /// Four numbers with slashes between them.
    pub fn text(&self) -> String {
        let StepTimes {
            p50,
            p95,
            p99,
            samples,
        } = self;
        format!("{p50}/{p95}/{p99}/{samples}")
    }
}

/// Values that exist only while connected to the group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStatus {
    /// Version of the messages that the members agreed on.
    pub protocol: i64,
    pub voters: i64,
    /// Desync requests that were not taken back.
    pub desync_count: i64,
    /// Times in which the group orders this server's actions.
    pub latency: LatencyStats,
    /// Whether this member hears a leader with a quorum.
    pub operational: bool,
    /// This session's name in views.
    pub member: Uuid,
    /// The option `gmcast.segment`.
    pub segment: i64,
}

/// The log and the group as consensus sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsensusStatus {
    /// `leader`, `follower`, `candidate` or `learner`; empty: not connected.
    pub role: String,
    /// Present term; zero: none yet.
    pub term: u64,
    /// Highest log index known to be committed.
    pub commit_index: u64,
    /// Name of the leader; empty: none is known.
    pub leader: String,
    /// Size of the log on disk in bytes.
    pub log_size_bytes: u64,
    /// Number of syncs of the log since this server connected.
    pub log_syncs: u64,
    /// Seqno of the first action that is still in the log; -1: none.
    pub log_first_seqno: i64,
    pub voters: u64,
    /// The option `synod.leader_weight`, 0 to 100.
    pub leader_weight: u8,
    /// The option `synod.region`; may be empty.
    pub region: String,
    /// Messages refused because their senders have no right to them.
    pub refused_messages: u64,
    /// Bytes that compression has saved since the node's start.
    pub compression_saved_bytes: u64,
    /// Names of the members to which messages are compressed at the moment, with commas.
    pub compressed_to: String,
}

/// Lag of databases, and the pace at which the leader takes writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaceInputs {
    /// For how long this database has lacked a committed action, in milliseconds.
    pub lag_ms: u64,
    /// Actions per second that are admitted; negative: all are.
    pub rate: f64,
    /// Why not all are; empty: all are.
    pub reason: String,
    /// The databases as the leader knows them.
    pub lags: String,
    /// Nanoseconds in which writes of the group waited, since this server's start.
    pub paused_ns: u64,
    /// Share of the time since `FLUSH STATUS` in which writes of the group waited, 0 to 1.
    pub paused: f64,
    /// Number of waits that began because of this database.
    pub sent: u64,
    /// Number of waits that began.
    pub received: u64,
    /// Whether writes are slowed down now.
    pub active: bool,
    /// Whether this database is the one that they wait for.
    pub requested: bool,
}

/// Waits of local commits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitWaitInputs {
    /// `durable` or `applied`; empty: not connected.
    pub in_force: &'static str,
    /// Names of the members that are not waited for because they were too slow, with commas.
    pub excluded: String,
    /// Number of exclusions of a member.
    pub exclusions: u64,
}

/// Permission to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritersInputs {
    /// `any` or `leader`; empty: not connected.
    pub writers: &'static str,
    /// Name of the only server that takes writes; empty: all do, or none is known.
    pub writer: String,
    /// Client address of the writer; empty with the name.
    pub writer_address: String,
    /// Whether this server takes writes.
    pub here: bool,
}

/// Counters since the server's start, or since the last `FLUSH STATUS`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Own actions that were submitted.
    pub replicated: i64,
    /// Bytes of the own actions, with their keys.
    pub replicated_bytes: i64,
    /// Keys of the own write sets.
    pub repl_keys: i64,
    /// Bytes of the keys.
    pub repl_keys_bytes: i64,
    /// Bytes of row data.
    pub repl_data_bytes: i64,
    /// Bytes that are neither keys nor row data.
    pub repl_other_bytes: i64,
    /// Actions and views received, without this server's own actions.
    pub received: i64,
    /// Bytes of the actions received.
    pub received_bytes: i64,
    pub local_commits: i64,
    /// Local transactions refused by certification.
    pub local_cert_failures: i64,
    /// Writes of local clients refused, because another server is the writer.
    pub writes_refused: i64,
    pub local_replays: i64,
    /// Reads that waited for the group's position.
    pub causal_reads: i64,
}

/// Everything that the status shows.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusInputs {
    /// Group of the database, and the highest seqno released with all before it.
    pub last_committed: Gtid,
    pub counters: Counters,
    /// Times of the steps of a commit, by [`Step`].
    pub steps: [StepTimes; Step::COUNT],
    /// Local actions that are submitted and whose result is not known.
    pub send_queue: i64,
    /// Committed actions that are not released here.
    pub recv_queue: i64,
    /// First seqno that a joiner can get from this member's log; -1: none.
    pub cached_downto: i64,
    /// Average distance between an action's seqno and the last one it depends on.
    pub deps_distance: f64,
    /// Keys in this member's certification index.
    pub cert_index_size: i64,
    /// State of this server in the group.
    pub state: LocalState,
    /// An obstacle of this server.
    pub trouble: Trouble,
    /// Local transactions that the provider knows.
    pub open_transactions: i64,
    /// Client addresses of the members, in the view's order.
    pub incoming_addresses: Vec<String>,
    pub group: Option<GroupStatus>,
    /// The log and the group.
    pub consensus: ConsensusStatus,
    pub pace: PaceInputs,
    pub commit_wait: CommitWaitInputs,
    pub writers: WritersInputs,
}

impl Default for StatusInputs {
    fn default() -> StatusInputs {
        StatusInputs {
            last_committed: Gtid::UNDEFINED,
            counters: Counters::default(),
            steps: Default::default(),
            send_queue: 0,
            recv_queue: 0,
            cached_downto: -1,
            deps_distance: 0.0,
            cert_index_size: 0,
            state: LocalState::default(),
            trouble: Trouble::default(),
            open_transactions: 0,
            incoming_addresses: Vec::new(),
            group: None,
            consensus: ConsensusStatus {
                log_first_seqno: -1,
                ..ConsensusStatus::default()
            },
            pace: PaceInputs {
                rate: -1.0,
                ..PaceInputs::default()
            },
            commit_wait: CommitWaitInputs::default(),
            writers: WritersInputs::default(),
        }
    }
}
