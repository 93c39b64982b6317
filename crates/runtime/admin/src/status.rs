//! The group and a server, as that server knows them.
//!
//! What a server does not know is none, `null` on the line: nothing is guessed. Times are in the
//! unit that a field's name ends in.

use serde::{Deserialize, Serialize};

use crate::conflict::Conflicts;

/// Everything that a server knows of the group and itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Time of the answer, in milliseconds since 1970, by the server's clock.
    pub at_unix_ms: u64,
    pub server: Server,
    /// The group; none while the server is not connected to one.
    pub group: Option<Group>,
    /// Why the server hears no leader although its group may run, and what to do: sentences. None:
    /// it hears one, or all other voters are gone.
    pub unheard: Vec<String>,
    pub members: Vec<Member>,
    pub log: Log,
    pub queues: Queues,
    /// At which pace writes are taken.
    pub flow_control: FlowControl,
    pub commit_wait: CommitWait,
    /// Times of the steps of a commit on this server.
    pub commit_steps: Vec<CommitStep>,
    /// Times of this server's clients from the commit to the OK.
    pub commits: TimeCounts,
    /// Upper bounds of the buckets of all [`TimeCounts`], ascending, in microseconds.
    pub time_bounds_us: Vec<u64>,
    /// Counters since the start, or since `FLUSH STATUS`.
    pub counters: Counters,
    /// Transactions of this server that were refused.
    pub conflicts: Conflicts,
    /// The last election that this server saw; none since its start.
    pub last_election: Option<Election>,
}

impl Status {
    /// Whether it takes part in a group that commits at the moment.
    pub fn is_in_service(&self) -> bool {
        let group = self.group.as_ref();
        group.is_some_and(|group| group.is_primary && group.can_commit)
    }

    pub fn own(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.is_own)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Version of its library.
    pub program: String,
    pub pid: u32,
    pub name: String,
    /// `wsrep_local_state_comment`: `Synced`, `Joined`, ...
    pub state: String,
    /// Why it is out of its group, or what is known to be wrong with its data; none: nothing.
    pub trouble: Option<String>,
    /// The last action committed in its database, with all before it; none: not known.
    pub committed_seqno: Option<i64>,
    /// Whether clients are served: it hears a leader with a quorum, and is synced.
    pub is_ready: bool,
    /// Whether its database is MySQL: writes are refused by other errors than MariaDB's.
    pub is_mysql: bool,
    /// Whether its clients may write: it serves them, and is the writer if there is only one.
    pub takes_writes: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    pub id: String,
    /// `wsrep_cluster_name`.
    pub name: String,
    /// Whether this server hears a leader with a quorum.
    pub is_primary: bool,
    pub term: u64,
    /// Name of the leader; none: none is known.
    pub leader: Option<String>,
    pub voters: u64,
    pub voters_present: u64,
    /// Number of voters that answer and may fail while the rest still commits.
    pub tolerates: u64,
    /// Whether something can be committed now, as far as this server knows: it hears a leader, and
    /// a majority of the voters answers.
    pub can_commit: bool,
    /// The missing voters, and how many more may fail, in words; see [`crate::outlook`].
    pub outlook: String,
    /// Protocol version between members; none while it is not known.
    pub protocol: Option<u16>,
    /// Whether that version stays until an operator raises it; otherwise it rises by itself.
    pub protocol_is_held: Option<bool>,
    pub view: u64,
    /// The last committed action that this server knows.
    pub commit_seqno: i64,
    /// The highest log index that this server knows to be committed.
    pub commit_index: u64,
    /// Whether only the leader takes writes (`synod.writers=leader`).
    pub has_one_writer: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Its identity, in hexadecimal digits.
    pub id: String,
    pub name: String,
    /// `host:port` at which other members reach it.
    pub address: String,
    /// `host:port` at which clients reach it.
    pub client_address: Option<String>,
    /// Whether it is the server that answers.
    pub is_own: bool,
    pub is_voter: bool,
    /// `database`; without one, `relay` if readers have an address there, `logger`, or `unknown`.
    pub kind: String,
    /// Whether the leader has heard it within `evs.suspect_timeout`, and it has not left, whatever
    /// its kind. A server that hears no leader says whom it has heard itself.
    pub is_present: bool,
    /// Whether nothing has come from it for a second although it is present: it may be gone.
    pub is_silent: bool,
    /// For how long nothing has come from it; none: nothing has since this server's start.
    pub silent_ms: Option<u64>,
    /// `leader`, `follower`, `candidate`, `learner`; `logger` and `relay` have no database.
    pub role: String,
    pub region: Option<String>,
    /// State of its database: `Synced`, `Joined`, `Donor`, `Joining`, `Disconnected`, `Error`.
    pub state: Option<String>,
    pub weight: Option<u8>,
    pub term: Option<u64>,
    pub log_index: Option<u64>,
    /// The last index that is durable on its disk. Of others only the leader knows it.
    pub durable_index: Option<u64>,
    /// The last action in its database, with all before it.
    pub applied_seqno: Option<i64>,
    /// The last action that its database has flushed, by estimate.
    pub flushed_seqno: Option<i64>,
    /// Committed actions that its database lacks.
    pub lag_actions: Option<u64>,
    /// For how long it has lacked one.
    pub lag_ms: Option<u64>,
    /// Delivered actions that are not applied yet.
    pub apply_queue: Option<u64>,
    /// The oldest protocol version that it speaks.
    pub oldest_protocol: Option<u16>,
    pub newest_protocol: Option<u16>,
    pub log_format: Option<u32>,
    /// Time from a ping of the server that answers to this member's answer, smoothed, in
    /// microseconds.
    pub round_trip_us: Option<u64>,
    /// By how many microseconds its clock is ahead of that of the server that answers; negative:
    /// behind.
    pub clock_ahead_us: Option<i64>,
    /// By how many microseconds that may be wrong.
    pub clock_error_us: Option<u64>,
    /// Version of its library; known of the server that answers.
    pub program: Option<String>,
}

impl Member {
    /// Whether it is there, as far as anybody can know at the moment.
    pub fn answers(&self) -> bool {
        self.is_present && !self.is_silent
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    pub dir: String,
    /// Its size on disk.
    pub bytes: u64,
    /// Number of syncs since the server connected.
    pub syncs: u64,
    pub last_index: u64,
    pub durable_index: u64,
    /// The oldest action in it.
    pub first_seqno: Option<i64>,
    /// Time at which its oldest file was begun, in milliseconds since 1970.
    pub begins_unix_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queues {
    /// Actions of its clients that have no result yet.
    pub pending_actions: u64,
    /// Committed actions that its database lacks.
    pub apply_actions: u64,
    /// Local transactions that the library knows.
    pub open_transactions: u64,
    pub certification_keys: u64,
}

/// At which pace the leader takes writes, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowControl {
    /// Whether writes are slowed down now.
    pub is_active: bool,
    /// Actions per second that are taken; none: all.
    pub rate_per_second: Option<f64>,
    /// The member that writes wait for, if they do.
    pub slowest: Option<String>,
    pub slowest_lag_ms: Option<u64>,
    /// Time in which writes of the group waited, since this server connected.
    pub paused_ms: u64,
    /// Number of times that they began to wait.
    pub pauses: u64,
    /// The same, for this server's database only.
    pub caused: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitWait {
    /// `durable`, or `applied` on all servers; empty: not connected.
    pub in_force: String,
    /// Members that are not waited for, because they were too slow.
    pub excluded: Vec<String>,
    /// Number of exclusions of a member.
    pub exclusions: u64,
}

/// Times of a step of a commit. Quantiles and samples are of the present and the last period of
/// `evs.stats_report_period`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitStep {
    /// `queue`, `order`, `fsync`, `quorum`, ...
    pub step: String,
    /// Half of them took at most so long.
    pub p50_us: u64,
    /// 95 of a hundred did.
    pub p95_us: u64,
    /// 99 of a hundred did.
    pub p99_us: u64,
    /// Number of measurements.
    pub samples: u64,
    /// All times since the server's start.
    pub times: TimeCounts,
}

/// Histogram of times since the server's start. `FLUSH STATUS` does not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeCounts {
    /// Number of times at most as long as each of [`Status::time_bounds_us`] and longer than the
    /// one before it; at the end, those longer than all. Empty: unknown.
    pub counts: Vec<u64>,
    /// Their sum, in microseconds.
    pub sum_us: u64,
}

impl TimeCounts {
    /// Number of times.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub local_commits: u64,
    /// Local transactions refused by certification.
    pub local_refused: u64,
    pub local_replays: u64,
    /// Statements and commits of clients and events refused because another server is the writer.
    pub writes_refused: u64,
    pub replicated_actions: u64,
    /// Bytes of the own actions, with their keys.
    pub replicated_bytes: u64,
    /// Actions and views received from others.
    pub received_actions: u64,
    pub received_bytes: u64,
    /// Reads that waited for the group's position.
    pub causal_reads: u64,
    /// Messages refused because their senders have no right to them.
    pub refused_messages: u64,
    pub compression_saved_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Election {
    /// Time at which this server first heard the leader, in milliseconds since 1970.
    pub at_unix_ms: u64,
    pub term: u64,
    pub leader: String,
    /// Why, in a sentence.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields may be added on either side without a new protocol version.
    #[test]
    fn missing_fields_are_not_known_and_unknown_ones_are_ignored() {
        let text = r#"{"server":{"name":"db1","hat":"red"},"members":[{"name":"db1"}],"moon":1}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        assert_eq!(status.server.name, "db1");
        assert_eq!(status.members[0].applied_seqno, None);
        assert_eq!(status.group, None);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let member = serde_json::to_value(Member::default()).unwrap();
        for field in [
            "region",
            "state",
            "silent_ms",
            "term",
            "durable_index",
            "lag_ms",
            "round_trip_us",
            "clock_ahead_us",
            "clock_error_us",
        ] {
            assert!(member[field].is_null(), "{field}");
        }
    }
}
