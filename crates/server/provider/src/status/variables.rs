//! The table of all status variables: name, value, and the text in `docs/status.md`.
//!
//! A new variable is one row here, and a field of [`StatusInputs`] if its value is new. Names,
//! order and types of the first 56 are Galera's, because monitoring parses them; a variable without
//! a counterpart here is a constant zero. Synod's own follow under `synod_`, so that nothing
//! clashes. The server puts `wsrep_` before each name and appends variables of its own.

use std::time::Duration;

use synod_commands::status::commit_wait;

use super::inputs::{GroupStatus, StatusInputs};
use crate::api::{StatValue, StatVar};

/// A heading of `docs/status.md`, which groups the variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Position of the database, and protocol versions.
    Position,
    /// Traffic of local clients and other members, and its results.
    Traffic,
    Queues,
    /// Throttling of writers, which does not exist here.
    FlowControl,
    Parallelism,
    State,
    /// Values that exist only while connected.
    Group,
    /// The log and its leader.
    Own,
}

impl Section {
    fn title(self) -> &'static str {
        match self {
            Section::Position => "Position and versions",
            Section::Traffic => "Traffic and results",
            Section::Queues => "Queues",
            Section::FlowControl => "Flow control",
            Section::Parallelism => "Certification and parallel apply",
            Section::State => "State of this server",
            Section::Group => "While connected",
            Section::Own => "Synod's own",
        }
    }

    fn note(self) -> &'static str {
        match self {
            Section::Traffic => "Counted since the server's start or the last `FLUSH STATUS`.",
            Section::FlowControl => {
                "There is none as in Galera. A slow server reads its actions from the log later,\n\
                 and the others do not wait for it."
            }
            Section::Group => {
                "These variables exist only while the server is connected to the group."
            }
            Section::Position
            | Section::Queues
            | Section::Parallelism
            | Section::State
            | Section::Own => "",
        }
    }
}

/// The value of a variable that is not measured: what Galera shows when nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Zero {
    Int,
    Double,
    Text(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub enum Reading {
    Int(fn(&StatusInputs) -> i64),
    Double(fn(&StatusInputs) -> f64),
    Text(fn(&StatusInputs) -> String),
    /// A text that exists only while connected.
    Group(fn(&GroupStatus) -> String),
    /// A text that is empty while not connected.
    GroupOrEmpty(fn(&GroupStatus) -> String),
    Constant(Zero),
}

impl Reading {
    /// Type of the value, as `docs/status.md` names it.
    fn kind(&self) -> &'static str {
        match self {
            Reading::Int(_) | Reading::Constant(Zero::Int) => "integer",
            Reading::Double(_) | Reading::Constant(Zero::Double) => "real",
            Reading::Text(_)
            | Reading::Group(_)
            | Reading::GroupOrEmpty(_)
            | Reading::Constant(Zero::Text(_)) => "text",
        }
    }
}

/// Text of a variable that has a value for the sake of its name only.
const NOT_MEASURED: &str = "Always zero or empty: not measured.";

#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Name without `wsrep_`.
    pub name: &'static str,
    pub reading: Reading,
    /// Meaning, unit, and the sense of zero or empty; one or two sentences.
    pub text: &'static str,
}

impl Variable {
    /// The value; `None` if it exists only while connected.
    fn value(&self, inputs: &StatusInputs) -> Option<StatValue> {
        Some(match self.reading {
            Reading::Int(read) => StatValue::Int(read(inputs)),
            Reading::Double(read) => StatValue::Double(read(inputs)),
            Reading::Text(read) => StatValue::Str(read(inputs)),
            Reading::Group(read) => StatValue::Str(read(inputs.group.as_ref()?)),
            Reading::GroupOrEmpty(read) => StatValue::Str(inputs.of_group(String::new(), read)),
            Reading::Constant(Zero::Int) => StatValue::Int(0),
            Reading::Constant(Zero::Double) => StatValue::Double(0.0),
            Reading::Constant(Zero::Text(text)) => StatValue::Str(text.to_owned()),
        })
    }
}

/// Variables, one a row: kind of reading, name, value, text.
macro_rules! rows {
    ($($kind:ident $name:literal = $read:expr, $text:expr;)*) => {
        &[$(Variable { name: $name, reading: Reading::$kind($read), text: $text }),*]
    };
}

pub fn stat_vars(inputs: &StatusInputs) -> Vec<StatVar> {
    let is_shown = |section| section != Section::Group || inputs.group.is_some();
    let sections = VARIABLES.iter().filter(|(section, _)| is_shown(*section));
    let variables = sections.flat_map(|(_, variables)| *variables);
    let shown = variables.filter_map(|variable| {
        Some(StatVar {
            name: variable.name.into(),
            value: variable.value(inputs)?,
        })
    });
    shown.collect()
}

/// Version of the application protocol with the server.
const PROTOCOL_APPLICATION: i64 = 4;

fn protocol(inputs: &StatusInputs) -> i64 {
    inputs.of_group(-1, |group| group.node.protocol.into())
}

fn admission_rate(inputs: &StatusInputs) -> f64 {
    let rate = |group: &GroupStatus| group.flow_control().rate_per_second;
    inputs.of_group(None, rate).unwrap_or(-1.0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// All variables by their sections, in the order in which they are shown.
#[rustfmt::skip]
pub const VARIABLES: [(Section, &[Variable]); 8] = [
    (Section::Position, rows! {
        Text "local_state_uuid" = |s| s.last_committed.group.to_string(),
            "UUID of the history that the database belongs to. All zeros: no group, or the data \
             must not be used.";
        Int "protocol_version" = protocol,
            "Version of the messages that the members agreed on; -1 while not connected.";
        Int "protocol_application" = |s| s.of_group(-1, |_| PROTOCOL_APPLICATION),
            "Version of the server's write sets, always 4; -1 while not connected.";
        Int "protocol_replicator" = protocol,
            "Same as `wsrep_protocol_version`.";
        Int "protocol_GCS" = protocol,
            "Same as `wsrep_protocol_version`.";
        Int "last_committed" = |s| s.last_committed.seqno,
            "Highest seqno that is committed here with all before it; -1: no position.";
    }),
    (Section::Traffic, rows! {
        Int "replicated" = |s| s.counters.replicated,
            "Actions of local clients sent to the group: write sets, fragments and TOI \
             statements.";
        Int "replicated_bytes" = |s| s.counters.replicated_bytes,
            "Bytes of these actions.";
        Int "repl_keys" = |s| s.counters.repl_keys,
            "Certification keys in the local write sets.";
        Int "repl_keys_bytes" = |s| s.counters.repl_keys_bytes,
            "Bytes of these keys.";
        Int "repl_data_bytes" = |s| s.counters.repl_data_bytes,
            "Bytes of row events in the local write sets.";
        Int "repl_other_bytes" = |s| s.counters.repl_other_bytes(),
            "Bytes that are neither keys nor row events.";
        Int "received" = |s| s.counters.received,
            "Actions of other members and views received in order.";
        Int "received_bytes" = |s| s.counters.received_bytes,
            "Bytes of the actions received.";
        Int "local_commits" = |s| s.counters.local_commits,
            "Local transactions committed.";
        Int "local_cert_failures" = |s| s.counters.local_cert_failures,
            "Local transactions refused by certification; their clients got a deadlock error.";
        Int "local_replays" = |s| s.counters.local_replays,
            "Local transactions applied again in their place after a BF abort, unnoticed by \
             clients.";
    }),
    (Section::Queues, rows! {
        Int "local_send_queue" = |s| s.send_queue,
            "Local actions whose result is not known yet. It grows when the network or a \
             majority's disks are slow.";
        Constant "local_send_queue_max" = Zero::Int, NOT_MEASURED;
        Constant "local_send_queue_min" = Zero::Int, NOT_MEASURED;
        Constant "local_send_queue_avg" = Zero::Double, NOT_MEASURED;
        Int "local_recv_queue" = |s| s.recv_queue,
            "Committed actions that are not finished on this server. ProxySQL compares it with \
             `max_transactions_behind`.";
        Constant "local_recv_queue_max" = Zero::Int, NOT_MEASURED;
        Constant "local_recv_queue_min" = Zero::Int, NOT_MEASURED;
        Constant "local_recv_queue_avg" = Zero::Double, NOT_MEASURED;
        Int "local_cached_downto" = |s| s.cached_downto,
            "First seqno in this member's log; -1: none. A joiner whose database is older needs a \
             full copy (SST).";
    }),
    (Section::FlowControl, rows! {
        Int "flow_control_paused_ns" =
            |s| s.of_node(|n| micros(n.pace.paused).saturating_mul(1000)),
            "Nanoseconds since the start in which writes of any member were slowed down because \
             the databases of a majority lag (`synod.max_apply_lag`, \
             `wsrep_synod_admission_rate`).";
        Double "flow_control_paused" = |s| s.of_group(0.0, |g| g.paused),
            "The same as a share of the time since the last `FLUSH STATUS`, 0 to 1.";
        Int "flow_control_sent" = |s| s.of_node(|n| n.pace.caused),
            "How often writes began to wait because of this server's database.";
        Int "flow_control_recv" = |s| s.of_node(|n| n.pace.pauses),
            "How often writes began to wait because of any database.";
        Text "flow_control_active" =
            |s| s.of_group(false, |g| g.flow_control().is_active).to_string(),
            "`true` while the leader takes writes at the pace of the databases.";
        Text "flow_control_requested" =
            |s| s.of_group(false, GroupStatus::is_waited_for).to_string(),
            "`true` while this server's database is the one that writes wait for.";
    }),
    (Section::Parallelism, rows! {
        Double "cert_deps_distance" = |s| s.deps_distance,
            "Average distance from an applied action to the last one it depends on, since the last \
             `FLUSH STATUS`. More appliers than this bring nothing.";
        Int "cert_index_size" = |s| s.cert_index_size,
            "Keys in this member's certification index.";
        Constant "cert_interval" = Zero::Double, NOT_MEASURED;
        Constant "apply_oooe" = Zero::Double, NOT_MEASURED;
        Constant "apply_oool" = Zero::Double, NOT_MEASURED;
        Constant "apply_window" = Zero::Double, NOT_MEASURED;
        Constant "apply_waits" = Zero::Int, NOT_MEASURED;
        Constant "commit_oooe" = Zero::Double,
            "Always 0: commits are always in order.";
        Constant "commit_oool" = Zero::Double,
            "Always 0: commits are always in order.";
        Constant "commit_window" = Zero::Double, NOT_MEASURED;
    }),
    (Section::State, rows! {
        Int "local_state" = |s| s.state.number(),
            "0 Initialized or Inconsistent, 1 Joining, 2 Donor/Desynced, 3 Joined, 4 Synced. Only \
             a server in state 4 should get clients.";
        Text "local_state_comment" = |s| s.state.comment().to_owned(),
            "The same as a word. `Inconsistent`: this server has left the group, because its data \
             may differ.";
        Int "causal_reads" = |s| s.counters.causal_reads,
            "Reads that waited for the group's position (`wsrep_sync_wait`), since the last `FLUSH \
             STATUS`.";
        Int "open_transactions" = |s| s.open_transactions,
            "Local transactions that have changed something and are not finished.";
        Constant "open_connections" = Zero::Int, NOT_MEASURED;
        Text "incoming_addresses" = |s| s.incoming_addresses.join(","),
            "Where clients connect, for the members of the view, with commas; the same order on \
             all members.";
    }),
    (Section::Group, rows! {
        Group "cluster_weight" = |g| g.voters().to_string(),
            "Number of voters. Votes are never weighted.";
        Group "desync_count" = |g| g.desync_count.to_string(),
            "How many requests (`wsrep_desync`, RSU) keep this server desynced; 0: none.";
        Constant "evs_delayed" = Zero::Text(""), NOT_MEASURED;
        Constant "evs_evict_list" = Zero::Text(""),
            "Always empty: members are not evicted by a list.";
        Group "evs_repl_latency" = |g| g.latency.text(),
            "Time until the group has ordered a local action: minimum/average/maximum/deviation in \
             seconds, samples; over the present and the last `evs.stats_report_period`.";
        Group "evs_state" = |g| if g.node.primary { "OPERATIONAL" } else { "GATHER" }.to_owned(),
            "`OPERATIONAL` while this member hears a leader with a quorum, else `GATHER`.";
        Group "gcomm_uuid" = |g| g.member.to_string(),
            "Name of this session in views. It is new at each connect.";
        Group "gmcast_segment" = |g| g.segment.to_string(),
            "The option `gmcast.segment`.";
    }),
    (Section::Own, rows! {
        Text "synod_trouble" = |s| s.trouble.text(),
            "Why this server is out of its group, and whether it comes back by itself; or why its \
             data must not be used. Empty: nothing.";
        GroupOrEmpty "synod_role" = |g| g.role().to_owned(),
            "`leader`, `follower`, `candidate` or `learner`; empty while not connected.";
        Int "synod_term" = |s| s.of_node(|n| n.term.0),
            "Present term; it grows with each election.";
        Int "synod_commit_index" = |s| s.of_node(|n| n.commit_index.0),
            "Highest log index that this member knows to be committed.";
        GroupOrEmpty "synod_leader" = |g| g.node.leader_name.clone(),
            "Name of the leader; empty: none is known, no write can be committed.";
        Int "synod_log_size_bytes" = |s| s.of_node(|n| n.log_bytes),
            "Size of the log on disk (`synod.log_retain_size`).";
        Int "synod_log_syncs" = |s| s.of_node(|n| n.log_syncs),
            "Syncs of the log since this server connected.";
        Int "synod_log_first_seqno" = |s| s.of_group(-1, |g| g.node.first_seqno.0),
            "Seqno of the first action that is still in the log; -1: none.";
        Int "synod_voters" = |s| s.of_group(0, GroupStatus::voters),
            "Number of voters; more than half make a quorum.";
        Int "synod_leader_weight" = |s| s.of_node(|n| n.leader_weight.get().into()),
            "This member's `synod.leader_weight`, 0 to 100.";
        GroupOrEmpty "synod_region" = GroupStatus::region,
            "This member's `synod.region`; empty: none is named.";
        Int "synod_commit_regions" =
            |s| s.of_group(0, |g| i64::from(g.node.settings.commit_regions.get())),
            "The group's `synod.commit_regions`; 0 while not connected.";
        GroupOrEmpty "synod_commit_regions_trouble" =
            |g| g.node.commit_regions_trouble.clone(),
            "On the leader, why commits wait for a region, or are in fewer. Empty: nothing.";
        GroupOrEmpty "synod_writers" = |g| g.node.settings.writers.to_string(),
            "Whose writes the group takes (`synod.writers`); empty while not connected.";
        GroupOrEmpty "synod_writer" = |g| g.writer().map_or_else(String::new, |w| w.name),
            "Name of the only server that takes writes; empty: all do, or there is no leader.";
        GroupOrEmpty "synod_writer_address" =
            |g| g.writer().map_or_else(String::new, |w| w.incoming),
            "Where clients reach that server; empty: all take writes, or it is not known.";
        Int "synod_takes_writes" = |s| s.of_group(false, |g| g.takes_writes).into(),
            "1 if this server takes writes now; 0 if another one is the writer, if it has still to \
             apply what the one before wrote, or without a group.";
        Int "synod_writes_refused" = |s| s.counters.writes_refused,
            "Clients' statements and commits refused because another server is the writer, since \
             the last `FLUSH STATUS`.";
        Int "synod_apply_lag_ms" = |s| s.of_node(|n| micros(n.pace.own_lag) / 1000),
            "For how many milliseconds this server's database has lacked a committed action: reads \
             without `wsrep_sync_wait` may be this old.";
        Int "synod_staleness_ms" = |s| s.staleness_ms,
            "Milliseconds before which this server provably lacks nothing acknowledged, for \
             `synod.max_staleness`; -1: no causal read has asked.";
        GroupOrEmpty "synod_apply_lags" = GroupStatus::lags,
            "The databases as the leader knows them, with commas: name, actions that it lacks, lag \
             in milliseconds.";
        Double "synod_admission_rate" = admission_rate,
            "Writes per second that the leader takes; -1: all of them.";
        GroupOrEmpty "synod_admission_reason" = GroupStatus::admission_reason,
            "Why the leader does not take all writes at once; empty: it does.";
        Int "synod_refused_messages" = |s| s.of_node(|n| n.refused_messages),
            "Messages refused since the start, because their senders have no right to them \
             ([rights.md](rights.md)). If it grows, the error log names the senders.";
        GroupOrEmpty "synod_compressed_to" = GroupStatus::compressed_to,
            "Members to which messages are compressed now (`synod.compression`), with commas.";
        Int "synod_compression_saved_bytes" =
            |s| s.of_group(0, GroupStatus::compression_saved_bytes),
            "Bytes that compression has kept off the network since this server connected.";
        GroupOrEmpty "synod_commit_wait" = |g| commit_wait(&g.node).in_force,
            "What commits on this server wait for now: `durable` or `applied`. It differs from \
             `synod.commit_wait` while a member's program is too old.";
        GroupOrEmpty "synod_commit_wait_excluded" = |g| g.node.commit_wait.excluded.join(","),
            "Synced servers that commits do not wait for, with commas: they lacked one for \
             `evs.suspect_timeout` and have not caught up.";
        Int "synod_commit_wait_exclusions" = |s| s.of_node(|n| n.commit_wait.exclusions),
            "How often a server was excluded so, since this server connected.";
    }),
];

/// Tables of `docs/status.md`, so that document and program agree: a test writes them into the
/// document, and fails when they differ.
pub fn markdown_tables() -> String {
    VARIABLES
        .map(|(section, variables)| table(section, variables))
        .join("\n")
}

fn table(section: Section, variables: &[Variable]) -> String {
    let mut out = format!("## {}\n\n", section.title());
    if !section.note().is_empty() {
        out.push_str(&format!("{}\n\n", section.note()));
    }
    out.push_str("| Variable | Type | Meaning |\n|---|---|---|\n");
    let (unmeasured, measured): (Vec<&Variable>, Vec<&Variable>) =
        variables.iter().partition(|v| v.text == NOT_MEASURED);
    for variable in measured {
        let (name, kind) = (variable.name, variable.reading.kind());
        out.push_str(&format!(
            "| `wsrep_{name}` | {kind} | {} |\n",
            variable.text
        ));
    }
    if !unmeasured.is_empty() {
        out.push_str("\nAlways zero or empty:\n\n");
    }
    for variable in unmeasured {
        out.push_str(&format!("- `wsrep_{}`\n", variable.name));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::inputs::{LatencyStats, LocalState};
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
    fn every_variable_has_a_text_of_at_most_two_sentences() {
        for Variable { name, text, .. } in VARIABLES.iter().flat_map(|(_, variables)| *variables) {
            let sentences = text.matches(". ").count() + 1;
            assert!(text.ends_with('.') && sentences <= 2, "{name}: {text}");
        }
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
