//! Status variables: `SHOW STATUS LIKE 'wsrep_%'`.
//!
//! Names, order and types are Galera's, because monitoring parses them; what has no counterpart here is
//! zero or empty. Ours follow under `synod_`, so that nothing clashes. The server adds the `wsrep_`
//! before each name and appends its own variables.

use crate::api::{Gtid, StatValue, StatVar, Uuid};

/// A queue since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueStats {
    /// Entries now.
    pub length: i64,
    /// Most entries.
    pub max: i64,
    /// Fewest entries.
    pub min: i64,
    /// Average entries.
    pub average: f64,
}

/// Where the node stands between starting and serving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalState {
    /// Not in a primary view.
    #[default]
    Initialized,
    /// In the group, without the state yet.
    Joining,
    /// Receiving a full copy.
    ReceivingStateTransfer,
    /// Has the state, catching up.
    Joined,
    /// Sending a full copy, or out of flow control.
    DonorDesynced,
    /// Caught up.
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

/// How long commits take from proposal to a durable majority, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyStats {
    /// Shortest.
    pub min: f64,
    /// Mean.
    pub average: f64,
    /// Longest.
    pub max: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Number of samples.
    pub samples: u64,
}

impl LatencyStats {
    /// Five numbers with slashes between them, as exporters parse them.
    fn text(&self) -> String {
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

/// What is known only while connected to the group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStatus {
    /// Version agreed between peers: shown as replicator and group protocol.
    pub protocol: i64,
    /// Sum over the members (`wsrep_cluster_weight`).
    pub cluster_weight: i64,
    /// Reasons for being desynced now.
    pub desync_count: i64,
    /// Slow peers, by name.
    pub delayed: Vec<String>,
    /// Commit latency.
    pub latency: LatencyStats,
    /// Whether a leader with a majority is heard.
    pub operational: bool,
    /// Own member id in views.
    pub member: Uuid,
    /// Region number (`gmcast.segment`).
    pub segment: i64,
}

/// The log and the group as consensus sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsensusStatus {
    /// `leader`, `follower`, `candidate`, `learner`; empty: not connected.
    pub role: String,
    /// Term.
    pub term: u64,
    /// Highest index known stored on a majority.
    pub commit_index: u64,
    /// Name of the leader; empty if none is known.
    pub leader: String,
    /// Size of the log on disk in bytes.
    pub log_size_bytes: u64,
    /// First action still in the log; -1: none.
    pub log_first_seqno: i64,
    /// Number of voters.
    pub voters: u64,
    /// How much this member should lead, 0 to 100.
    pub leader_weight: u8,
}

/// Counters since start, or since the last reset where Galera resets them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Own write sets ordered.
    pub replicated: i64,
    /// Bytes of those.
    pub replicated_bytes: i64,
    /// Keys in those.
    pub repl_keys: i64,
    /// Bytes of keys.
    pub repl_keys_bytes: i64,
    /// Bytes of row data.
    pub repl_data_bytes: i64,
    /// Other bytes.
    pub repl_other_bytes: i64,
    /// Ordered actions received from others, with views.
    pub received: i64,
    /// Bytes of those.
    pub received_bytes: i64,
    /// Local transactions committed.
    pub local_commits: i64,
    /// Local transactions refused by certification.
    pub local_cert_failures: i64,
    /// Local transactions replayed.
    pub local_replays: i64,
    /// Causal reads.
    pub causal_reads: i64,
    /// Times an applier waited for an earlier seqno.
    pub apply_waits: i64,
}

/// Throttling of writers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowStatus {
    /// Nanoseconds paused.
    pub paused_ns: i64,
    /// Fraction of the time since the last reset.
    pub paused: f64,
    /// Requests sent.
    pub sent: i64,
    /// Requests received.
    pub received: i64,
    /// Paused now.
    pub active: bool,
    /// This node asks for a pause.
    pub requested: bool,
}

/// Parallelism: averages over the last actions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parallelism {
    /// Distance between an action and what it depends on.
    pub cert_deps_distance: f64,
    /// Keys in the certification index (0 on members that do not lead).
    pub cert_index_size: i64,
    /// Write sets in flight between snapshot and order.
    pub cert_interval: f64,
    /// Share applied out of order.
    pub apply_oooe: f64,
    /// Share applied before an earlier, slower one.
    pub apply_oool: f64,
    /// Span of seqnos being applied at once.
    pub apply_window: f64,
    /// Span of seqnos being committed at once.
    pub commit_window: f64,
}

/// Everything the status shows.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusInputs {
    /// Group of the local state and last position released.
    pub last_committed: Gtid,
    /// Counters.
    pub counters: Counters,
    /// Proposals not yet sent.
    pub send_queue: QueueStats,
    /// Actions received and not yet applied.
    pub recv_queue: QueueStats,
    /// Lowest seqno from which others can catch up here; -1: none.
    pub cached_downto: i64,
    /// Throttling.
    pub flow: FlowStatus,
    /// Parallelism.
    pub parallelism: Parallelism,
    /// Local state.
    pub state: LocalState,
    /// Transactions with a context.
    pub open_transactions: i64,
    /// Connections with a context.
    pub open_connections: i64,
    /// Where clients connect, for the members of the view in its order.
    pub incoming_addresses: Vec<String>,
    /// Present while connected.
    pub group: Option<GroupStatus>,
    /// Our own.
    pub consensus: ConsensusStatus,
}

impl Default for StatusInputs {
    fn default() -> StatusInputs {
        StatusInputs {
            last_committed: Gtid::UNDEFINED,
            counters: Counters::default(),
            send_queue: QueueStats::default(),
            recv_queue: QueueStats::default(),
            cached_downto: -1,
            flow: FlowStatus::default(),
            parallelism: Parallelism::default(),
            state: LocalState::default(),
            open_transactions: 0,
            open_connections: 0,
            incoming_addresses: Vec::new(),
            group: None,
            consensus: ConsensusStatus {
                log_first_seqno: -1,
                ..ConsensusStatus::default()
            },
        }
    }
}

/// Version of the application protocol with the server.
const PROTOCOL_APPLICATION: i64 = 4;

/// The variables in the order in which they are shown.
pub fn stat_vars(inputs: &StatusInputs) -> Vec<StatVar> {
    let mut vars = Vec::with_capacity(64);
    identity(inputs, &mut vars);
    traffic(&inputs.counters, &mut vars);
    queues(inputs, &mut vars);
    flow(&inputs.flow, &mut vars);
    parallelism(inputs, &mut vars);
    local(inputs, &mut vars);
    if let Some(group) = &inputs.group {
        group_layer(group, &mut vars);
    }
    own(&inputs.consensus, &mut vars);
    vars
}

fn identity(inputs: &StatusInputs, vars: &mut Vec<StatVar>) {
    let protocol = inputs.group.as_ref().map_or(-1, |group| group.protocol);
    let application = if inputs.group.is_some() {
        PROTOCOL_APPLICATION
    } else {
        -1
    };
    vars.extend([
        text("local_state_uuid", inputs.last_committed.group.to_string()),
        int("protocol_version", protocol),
        int("protocol_application", application),
        int("protocol_replicator", protocol),
        int("protocol_GCS", protocol),
        int("last_committed", inputs.last_committed.seqno),
    ]);
}

fn traffic(counters: &Counters, vars: &mut Vec<StatVar>) {
    vars.extend([
        int("replicated", counters.replicated),
        int("replicated_bytes", counters.replicated_bytes),
        int("repl_keys", counters.repl_keys),
        int("repl_keys_bytes", counters.repl_keys_bytes),
        int("repl_data_bytes", counters.repl_data_bytes),
        int("repl_other_bytes", counters.repl_other_bytes),
        int("received", counters.received),
        int("received_bytes", counters.received_bytes),
        int("local_commits", counters.local_commits),
        int("local_cert_failures", counters.local_cert_failures),
        int("local_replays", counters.local_replays),
    ]);
}

fn queues(inputs: &StatusInputs, vars: &mut Vec<StatVar>) {
    let (send, recv) = (&inputs.send_queue, &inputs.recv_queue);
    vars.extend([
        int("local_send_queue", send.length),
        int("local_send_queue_max", send.max),
        int("local_send_queue_min", send.min),
        double("local_send_queue_avg", send.average),
        int("local_recv_queue", recv.length),
        int("local_recv_queue_max", recv.max),
        int("local_recv_queue_min", recv.min),
        double("local_recv_queue_avg", recv.average),
        int("local_cached_downto", inputs.cached_downto),
    ]);
}

fn flow(flow: &FlowStatus, vars: &mut Vec<StatVar>) {
    vars.extend([
        int("flow_control_paused_ns", flow.paused_ns),
        double("flow_control_paused", flow.paused),
        int("flow_control_sent", flow.sent),
        int("flow_control_recv", flow.received),
        text("flow_control_active", flow.active.to_string()),
        text("flow_control_requested", flow.requested.to_string()),
    ]);
}

fn parallelism(inputs: &StatusInputs, vars: &mut Vec<StatVar>) {
    let shares = &inputs.parallelism;
    vars.extend([
        double("cert_deps_distance", shares.cert_deps_distance),
        int("cert_index_size", shares.cert_index_size),
        double("cert_interval", shares.cert_interval),
        double("apply_oooe", shares.apply_oooe),
        double("apply_oool", shares.apply_oool),
        double("apply_window", shares.apply_window),
        int("apply_waits", inputs.counters.apply_waits),
        // Commits are always in order.
        double("commit_oooe", 0.0),
        double("commit_oool", 0.0),
        double("commit_window", shares.commit_window),
    ]);
}

fn local(inputs: &StatusInputs, vars: &mut Vec<StatVar>) {
    vars.extend([
        int("local_state", inputs.state.number()),
        text("local_state_comment", inputs.state.comment().to_owned()),
        int("causal_reads", inputs.counters.causal_reads),
        int("open_transactions", inputs.open_transactions),
        int("open_connections", inputs.open_connections),
        text("incoming_addresses", inputs.incoming_addresses.join(",")),
    ]);
}

fn group_layer(group: &GroupStatus, vars: &mut Vec<StatVar>) {
    let state = if group.operational {
        "OPERATIONAL"
    } else {
        "GATHER"
    };
    vars.extend([
        text("cluster_weight", group.cluster_weight.to_string()),
        text("desync_count", group.desync_count.to_string()),
        text("evs_delayed", group.delayed.join(",")),
        text("evs_evict_list", String::new()),
        text("evs_repl_latency", group.latency.text()),
        text("evs_state", state.to_owned()),
        text("gcomm_uuid", group.member.to_string()),
        text("gmcast_segment", group.segment.to_string()),
    ]);
}

fn own(status: &ConsensusStatus, vars: &mut Vec<StatVar>) {
    vars.extend([
        text("synod_role", status.role.clone()),
        int("synod_term", signed(status.term)),
        int("synod_commit_index", signed(status.commit_index)),
        text("synod_leader", status.leader.clone()),
        int("synod_log_size_bytes", signed(status.log_size_bytes)),
        int("synod_log_first_seqno", status.log_first_seqno),
        int("synod_voters", signed(status.voters)),
        int("synod_leader_weight", i64::from(status.leader_weight)),
    ]);
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn int(name: &'static str, value: i64) -> StatVar {
    StatVar {
        name: name.into(),
        value: StatValue::Int(value),
    }
}

fn double(name: &'static str, value: f64) -> StatVar {
    StatVar {
        name: name.into(),
        value: StatValue::Double(value),
    }
}

fn text(name: &'static str, value: String) -> StatVar {
    StatVar {
        name: name.into(),
        value: StatValue::Str(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Galera's names with their types: S text, I integer, D real.
    const FIXED: &str = "local_state_uuid:S protocol_version:I protocol_application:I \
        protocol_replicator:I protocol_GCS:I last_committed:I replicated:I replicated_bytes:I \
        repl_keys:I repl_keys_bytes:I repl_data_bytes:I repl_other_bytes:I received:I \
        received_bytes:I local_commits:I local_cert_failures:I local_replays:I \
        local_send_queue:I local_send_queue_max:I local_send_queue_min:I local_send_queue_avg:D \
        local_recv_queue:I local_recv_queue_max:I local_recv_queue_min:I local_recv_queue_avg:D \
        local_cached_downto:I flow_control_paused_ns:I flow_control_paused:D \
        flow_control_sent:I flow_control_recv:I flow_control_active:S flow_control_requested:S \
        cert_deps_distance:D cert_index_size:I cert_interval:D apply_oooe:D apply_oool:D \
        apply_window:D apply_waits:I commit_oooe:D commit_oool:D commit_window:D local_state:I \
        local_state_comment:S causal_reads:I open_transactions:I open_connections:I \
        incoming_addresses:S";
    const GROUP: &str = "cluster_weight:S desync_count:S evs_delayed:S evs_evict_list:S \
        evs_repl_latency:S evs_state:S gcomm_uuid:S gmcast_segment:S";

    fn names(vars: &[StatVar]) -> Vec<String> {
        let letter = |value: &StatValue| match value {
            StatValue::Str(_) => 'S',
            StatValue::Int(_) => 'I',
            StatValue::Double(_) => 'D',
        };
        vars.iter()
            .map(|var| format!("{}:{}", var.name, letter(&var.value)))
            .collect()
    }

    fn value(vars: &[StatVar], name: &str) -> StatValue {
        vars.iter()
            .find(|var| var.name == name)
            .unwrap()
            .value
            .clone()
    }

    fn connected() -> StatusInputs {
        StatusInputs {
            group: Some(GroupStatus::default()),
            ..StatusInputs::default()
        }
    }

    #[test]
    fn disconnected_node_shows_galeras_48_names_in_order_then_ours() {
        let vars = stat_vars(&StatusInputs::default());
        let fixed: Vec<&str> = FIXED.split_whitespace().collect();
        assert_eq!(fixed.len(), 48);
        assert_eq!(names(&vars)[..48], fixed);
        assert!(vars[48..].iter().all(|var| var.name.starts_with("synod_")));
    }

    #[test]
    fn connected_node_shows_eight_more() {
        let vars = stat_vars(&connected());
        let group: Vec<&str> = GROUP.split_whitespace().collect();
        assert_eq!(names(&vars)[48..56], group);
        assert!(vars[56..].iter().all(|var| var.name.starts_with("synod_")));
    }

    #[test]
    fn names_are_unique() {
        let vars = stat_vars(&connected());
        let distinct: std::collections::BTreeSet<_> = vars.iter().map(|var| &var.name).collect();
        assert_eq!(distinct.len(), vars.len());
    }

    #[test]
    fn disconnected_node_has_no_protocol_and_no_position() {
        let vars = stat_vars(&StatusInputs::default());
        for name in ["protocol_version", "protocol_application", "last_committed"] {
            assert_eq!(value(&vars, name), StatValue::Int(-1), "{name}");
        }
        let zero = "00000000-0000-0000-0000-000000000000".to_owned();
        assert_eq!(value(&vars, "local_state_uuid"), StatValue::Str(zero));
    }

    #[test]
    fn only_a_synced_node_has_local_state_4() {
        use LocalState::*;
        for state in [
            Initialized,
            Joining,
            ReceivingStateTransfer,
            Joined,
            DonorDesynced,
            Inconsistent,
        ] {
            assert_ne!(state.number(), 4, "{state:?}");
        }
        assert_eq!((Synced.number(), Synced.comment()), (4, "Synced"));
    }

    #[test]
    fn latency_has_five_numbers() {
        let latency = LatencyStats {
            min: 0.0001,
            average: 0.5,
            max: 1.0,
            deviation: 0.25,
            samples: 9,
        };
        assert_eq!(latency.text(), "0.000100/0.500000/1.000000/0.250000/9");
    }

    #[test]
    fn incoming_addresses_keep_the_order_of_the_view() {
        let inputs = StatusInputs {
            incoming_addresses: vec!["b:2".to_owned(), "a:1".to_owned()],
            ..StatusInputs::default()
        };
        let shown = value(&stat_vars(&inputs), "incoming_addresses");
        assert_eq!(shown, StatValue::Str("b:2,a:1".to_owned()));
    }
}
