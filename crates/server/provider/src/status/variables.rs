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

    /// Introduction to the section; may be empty.
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

/// A variable that has a value for the sake of its name only.
const fn unmeasured(name: &'static str, zero: Zero) -> Variable {
    Variable {
        name,
        reading: Reading::Constant(zero),
        text: NOT_MEASURED,
    }
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

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// All variables by their sections, in the order in which they are shown.
pub const VARIABLES: [(Section, &[Variable]); 8] = [
    (
        Section::Position,
        &[
            Variable {
                name: "local_state_uuid",
                reading: Reading::Text(|s| s.last_committed.group.to_string()),
                text: "UUID of the history that the database belongs to. All zeros: no group, or \
                     the data must not be used.",
            },
            Variable {
                name: "protocol_version",
                reading: Reading::Int(protocol),
                text: "Version of the messages that the members agreed on; -1 while not connected.",
            },
            Variable {
                name: "protocol_application",
                reading: Reading::Int(|s| {
                    if s.group.is_some() {
                        PROTOCOL_APPLICATION
                    } else {
                        -1
                    }
                }),
                text: "Version of the server's write sets, always 4; -1 while not connected.",
            },
            Variable {
                name: "protocol_replicator",
                reading: Reading::Int(protocol),
                text: "Same as `wsrep_protocol_version`.",
            },
            Variable {
                name: "protocol_GCS",
                reading: Reading::Int(protocol),
                text: "Same as `wsrep_protocol_version`.",
            },
            Variable {
                name: "last_committed",
                reading: Reading::Int(|s| s.last_committed.seqno),
                text: "Highest seqno that is committed here with all before it; -1: no position.",
            },
        ],
    ),
    (
        Section::Traffic,
        &[
            Variable {
                name: "replicated",
                reading: Reading::Int(|s| s.counters.replicated),
                text: "Actions of local clients sent to the group: write sets, fragments and TOI \
                     statements.",
            },
            Variable {
                name: "replicated_bytes",
                reading: Reading::Int(|s| s.counters.replicated_bytes),
                text: "Bytes of these actions.",
            },
            Variable {
                name: "repl_keys",
                reading: Reading::Int(|s| s.counters.repl_keys),
                text: "Certification keys in the local write sets.",
            },
            Variable {
                name: "repl_keys_bytes",
                reading: Reading::Int(|s| s.counters.repl_keys_bytes),
                text: "Bytes of these keys.",
            },
            Variable {
                name: "repl_data_bytes",
                reading: Reading::Int(|s| s.counters.repl_data_bytes),
                text: "Bytes of row events in the local write sets.",
            },
            Variable {
                name: "repl_other_bytes",
                reading: Reading::Int(|s| s.counters.repl_other_bytes),
                text: "Bytes that are neither keys nor row events.",
            },
            Variable {
                name: "received",
                reading: Reading::Int(|s| s.counters.received),
                text: "Actions of other members and views received in order.",
            },
            Variable {
                name: "received_bytes",
                reading: Reading::Int(|s| s.counters.received_bytes),
                text: "Bytes of the actions received.",
            },
            Variable {
                name: "local_commits",
                reading: Reading::Int(|s| s.counters.local_commits),
                text: "Local transactions committed.",
            },
            Variable {
                name: "local_cert_failures",
                reading: Reading::Int(|s| s.counters.local_cert_failures),
                text: "Local transactions refused by certification; their clients got a deadlock \
                     error.",
            },
            Variable {
                name: "local_replays",
                reading: Reading::Int(|s| s.counters.local_replays),
                text: "Local transactions applied again in their place after a BF abort, unnoticed \
                     by clients.",
            },
        ],
    ),
    (
        Section::Queues,
        &[
            Variable {
                name: "local_send_queue",
                reading: Reading::Int(|s| s.send_queue),
                text: "Local actions whose result is not known yet. It grows when the network or a \
                     majority's disks are slow.",
            },
            unmeasured("local_send_queue_max", Zero::Int),
            unmeasured("local_send_queue_min", Zero::Int),
            unmeasured("local_send_queue_avg", Zero::Double),
            Variable {
                name: "local_recv_queue",
                reading: Reading::Int(|s| s.recv_queue),
                text: "Committed actions that are not finished on this server. ProxySQL compares \
                     it with `max_transactions_behind`.",
            },
            unmeasured("local_recv_queue_max", Zero::Int),
            unmeasured("local_recv_queue_min", Zero::Int),
            unmeasured("local_recv_queue_avg", Zero::Double),
            Variable {
                name: "local_cached_downto",
                reading: Reading::Int(|s| s.cached_downto),
                text: "First seqno in this member's log; -1: none. A joiner whose database is \
                     older needs a full copy (SST).",
            },
        ],
    ),
    (
        Section::FlowControl,
        &[
            Variable {
                name: "flow_control_paused_ns",
                reading: Reading::Int(|s| {
                    s.of_node(|n| micros(n.pace.paused).saturating_mul(1000))
                }),
                text: "Nanoseconds since the start in which writes of any member were slowed down \
                     because the databases of a majority lag (`synod.max_apply_lag`, \
                     `wsrep_synod_admission_rate`).",
            },
            Variable {
                name: "flow_control_paused",
                reading: Reading::Double(|s| s.of_group(0.0, |g| g.paused)),
                text: "The same as a share of the time since the last `FLUSH STATUS`, 0 to 1.",
            },
            Variable {
                name: "flow_control_sent",
                reading: Reading::Int(|s| s.of_node(|n| n.pace.caused)),
                text: "How often writes began to wait because of this server's database.",
            },
            Variable {
                name: "flow_control_recv",
                reading: Reading::Int(|s| s.of_node(|n| n.pace.pauses)),
                text: "How often writes began to wait because of any database.",
            },
            Variable {
                name: "flow_control_active",
                reading: Reading::Text(|s| {
                    s.of_group(false, |g| g.flow_control().is_active)
                        .to_string()
                }),
                text: "`true` while the leader takes writes at the pace of the databases.",
            },
            Variable {
                name: "flow_control_requested",
                reading: Reading::Text(|s| {
                    s.of_group(false, GroupStatus::is_waited_for).to_string()
                }),
                text: "`true` while this server's database is the one that writes wait for.",
            },
        ],
    ),
    (
        Section::Parallelism,
        &[
            Variable {
                name: "cert_deps_distance",
                reading: Reading::Double(|s| s.deps_distance),
                text: "Average distance from an applied action to the last one it depends on, \
                     since the last `FLUSH STATUS`. More appliers than this bring nothing.",
            },
            Variable {
                name: "cert_index_size",
                reading: Reading::Int(|s| s.cert_index_size),
                text: "Keys in this member's certification index.",
            },
            unmeasured("cert_interval", Zero::Double),
            unmeasured("apply_oooe", Zero::Double),
            unmeasured("apply_oool", Zero::Double),
            unmeasured("apply_window", Zero::Double),
            unmeasured("apply_waits", Zero::Int),
            Variable {
                name: "commit_oooe",
                reading: Reading::Constant(Zero::Double),
                text: "Always 0: commits are always in order.",
            },
            Variable {
                name: "commit_oool",
                reading: Reading::Constant(Zero::Double),
                text: "Always 0: commits are always in order.",
            },
            unmeasured("commit_window", Zero::Double),
        ],
    ),
    (
        Section::State,
        &[
            Variable {
                name: "local_state",
                reading: Reading::Int(|s| s.state.number()),
                text: "0 Initialized or Inconsistent, 1 Joining, 2 Donor/Desynced, 3 Joined, 4 \
                     Synced. Only a server in state 4 should get clients.",
            },
            Variable {
                name: "local_state_comment",
                reading: Reading::Text(|s| s.state.comment().to_owned()),
                text: "The same as a word. `Inconsistent`: this server has left the group, because \
                     its data may differ.",
            },
            Variable {
                name: "causal_reads",
                reading: Reading::Int(|s| s.counters.causal_reads),
                text: "Reads that waited for the group's position (`wsrep_sync_wait`), since the \
                     last `FLUSH STATUS`.",
            },
            Variable {
                name: "open_transactions",
                reading: Reading::Int(|s| s.open_transactions),
                text: "Local transactions that have changed something and are not finished.",
            },
            unmeasured("open_connections", Zero::Int),
            Variable {
                name: "incoming_addresses",
                reading: Reading::Text(|s| s.incoming_addresses.join(",")),
                text: "Where clients connect, for the members of the view, with commas; the same \
                     order on all members.",
            },
        ],
    ),
    (
        Section::Group,
        &[
            Variable {
                name: "cluster_weight",
                reading: Reading::Group(|g| g.voters().to_string()),
                text: "Number of voters. Votes are never weighted.",
            },
            Variable {
                name: "desync_count",
                reading: Reading::Group(|g| g.desync_count.to_string()),
                text: "How many requests (`wsrep_desync`, RSU) keep this server desynced; 0: none.",
            },
            unmeasured("evs_delayed", Zero::Text("")),
            Variable {
                name: "evs_evict_list",
                reading: Reading::Constant(Zero::Text("")),
                text: "Always empty: members are not evicted by a list.",
            },
            Variable {
                name: "evs_repl_latency",
                reading: Reading::Group(|g| g.latency.text()),
                text: "Time until the group has ordered a local action: \
                     minimum/average/maximum/deviation in seconds, samples; over the present and \
                     the last `evs.stats_report_period`.",
            },
            Variable {
                name: "evs_state",
                reading: Reading::Group(|g| {
                    if g.node.primary {
                        "OPERATIONAL"
                    } else {
                        "GATHER"
                    }
                    .to_owned()
                }),
                text: "`OPERATIONAL` while this member hears a leader with a quorum, else \
                     `GATHER`.",
            },
            Variable {
                name: "gcomm_uuid",
                reading: Reading::Group(|g| g.member.to_string()),
                text: "Name of this session in views. It is new at each connect.",
            },
            Variable {
                name: "gmcast_segment",
                reading: Reading::Group(|g| g.segment.to_string()),
                text: "The option `gmcast.segment`.",
            },
        ],
    ),
    (
        Section::Own,
        &[
            Variable {
                name: "synod_trouble",
                reading: Reading::Text(|s| s.trouble.text()),
                text: "Why this server is out of its group, and whether it comes back by itself; \
                     or why its data must not be used. Empty: nothing.",
            },
            Variable {
                name: "synod_role",
                reading: Reading::GroupOrEmpty(|g| g.role().to_owned()),
                text: "`leader`, `follower`, `candidate` or `learner`; empty while not connected.",
            },
            Variable {
                name: "synod_term",
                reading: Reading::Int(|s| s.of_node(|n| n.term.0)),
                text: "Present term; it grows with each election.",
            },
            Variable {
                name: "synod_commit_index",
                reading: Reading::Int(|s| s.of_node(|n| n.commit_index.0)),
                text: "Highest log index that this member knows to be committed.",
            },
            Variable {
                name: "synod_leader",
                reading: Reading::GroupOrEmpty(|g| g.node.leader_name.clone()),
                text: "Name of the leader; empty: none is known, no write can be committed.",
            },
            Variable {
                name: "synod_log_size_bytes",
                reading: Reading::Int(|s| s.of_node(|n| n.log_bytes)),
                text: "Size of the log on disk (`synod.log_retain_size`).",
            },
            Variable {
                name: "synod_log_syncs",
                reading: Reading::Int(|s| s.of_node(|n| n.log_syncs)),
                text: "Syncs of the log since this server connected.",
            },
            Variable {
                name: "synod_log_first_seqno",
                reading: Reading::Int(|s| s.of_group(-1, |g| g.node.first_seqno.0)),
                text: "Seqno of the first action that is still in the log; -1: none.",
            },
            Variable {
                name: "synod_voters",
                reading: Reading::Int(|s| s.of_group(0, GroupStatus::voters)),
                text: "Number of voters; more than half make a quorum.",
            },
            Variable {
                name: "synod_leader_weight",
                reading: Reading::Int(|s| s.of_node(|n| n.leader_weight.get().into())),
                text: "This member's `synod.leader_weight`, 0 to 100.",
            },
            Variable {
                name: "synod_region",
                reading: Reading::GroupOrEmpty(GroupStatus::region),
                text: "This member's `synod.region`; empty: none is named.",
            },
            Variable {
                name: "synod_writers",
                reading: Reading::GroupOrEmpty(|g| g.node.writers.to_string()),
                text: "Whose writes the group takes (`synod.writers`); empty while not connected.",
            },
            Variable {
                name: "synod_writer",
                reading: Reading::GroupOrEmpty(|g| g.writer().map_or_else(String::new, |w| w.name)),
                text: "Name of the only server that takes writes; empty: all do, or there is no \
                     leader.",
            },
            Variable {
                name: "synod_writer_address",
                reading: Reading::GroupOrEmpty(|g| {
                    g.writer().map_or_else(String::new, |w| w.incoming)
                }),
                text: "Where clients reach that server; empty: all take writes, or it is not \
                     known.",
            },
            Variable {
                name: "synod_takes_writes",
                reading: Reading::Int(|s| s.of_group(false, |g| g.takes_writes).into()),
                text: "1 if this server takes writes now; 0 if another one is the writer, if it \
                     has still to apply what the one before wrote, or without a group.",
            },
            Variable {
                name: "synod_writes_refused",
                reading: Reading::Int(|s| s.counters.writes_refused),
                text: "Clients' statements and commits refused because another server is the \
                     writer, since the last `FLUSH STATUS`.",
            },
            Variable {
                name: "synod_apply_lag_ms",
                reading: Reading::Int(|s| s.of_node(|n| micros(n.pace.own_lag) / 1000)),
                text: "For how many milliseconds this server's database has lacked a committed \
                     action: reads without `wsrep_sync_wait` may be this old.",
            },
            Variable {
                name: "synod_apply_lags",
                reading: Reading::GroupOrEmpty(GroupStatus::lags),
                text: "The databases as the leader knows them, with commas: name, actions that it \
                     lacks, lag in milliseconds.",
            },
            Variable {
                name: "synod_admission_rate",
                reading: Reading::Double(|s| {
                    let rate = |g: &GroupStatus| g.flow_control().rate_per_second;
                    s.of_group(None, rate).unwrap_or(-1.0)
                }),
                text: "Writes per second that the leader takes; -1: all of them.",
            },
            Variable {
                name: "synod_admission_reason",
                reading: Reading::GroupOrEmpty(GroupStatus::admission_reason),
                text: "Why the leader does not take all writes at once; empty: it does.",
            },
            Variable {
                name: "synod_refused_messages",
                reading: Reading::Int(|s| s.of_node(|n| n.refused_messages)),
                text: "Messages refused since the start, because their senders have no right to \
                     them ([rights.md](rights.md)). If it grows, the error log names the senders.",
            },
            Variable {
                name: "synod_compressed_to",
                reading: Reading::GroupOrEmpty(GroupStatus::compressed_to),
                text: "Members to which messages are compressed now (`synod.compression`), with \
                     commas.",
            },
            Variable {
                name: "synod_compression_saved_bytes",
                reading: Reading::Int(|s| s.of_group(0, GroupStatus::compression_saved_bytes)),
                text: "Bytes that compression has kept off the network since this server \
                     connected.",
            },
            Variable {
                name: "synod_commit_wait",
                reading: Reading::GroupOrEmpty(|g| commit_wait(&g.node).in_force),
                text: "What commits on this server wait for now: `durable` or `applied`. It \
                     differs from `synod.commit_wait` while a member's program is too old.",
            },
            Variable {
                name: "synod_commit_wait_excluded",
                reading: Reading::GroupOrEmpty(|g| g.node.commit_wait.excluded.join(",")),
                text: "Synced servers that commits do not wait for, with commas: they lacked one \
                     for `evs.suspect_timeout` and have not caught up.",
            },
            Variable {
                name: "synod_commit_wait_exclusions",
                reading: Reading::Int(|s| s.of_node(|n| n.commit_wait.exclusions)),
                text: "How often a server was excluded so, since this server connected.",
            },
        ],
    ),
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
