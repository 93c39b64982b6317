//! Holdings of the survivors of a lost majority, as one of them knows them.

use serde::{Deserialize, Serialize};

/// Everything that a server knows of the survivors of a lost majority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// Time of the answer, in milliseconds since 1970, by the server's clock.
    pub at_unix_ms: u64,
    pub server: String,
    pub group_id: String,
    /// `wsrep_cluster_name`.
    pub group: String,
    /// Whether the server hears a leader with a quorum: then nothing has to be recovered.
    pub is_primary: bool,
    /// Why the group may run although the server does not hear it, and what to do: sentences. None:
    /// it hears a leader, or all other voters are gone.
    pub unheard: Vec<String>,
    /// All configured members, by name.
    pub members: Vec<Survivor>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survivor {
    /// Its identity, in hexadecimal digits.
    pub id: String,
    pub name: String,
    /// `host:port` at which other members reach it.
    pub address: String,
    /// Whether it is the server that answers.
    pub is_own: bool,
    pub is_voter: bool,
    /// Whether it has a database; a logger has none.
    pub has_database: bool,
    /// Time of its last message, in milliseconds since 1970; none: none since the start of the
    /// server that answers.
    pub heard_unix_ms: Option<u64>,
    /// Holdings; none if it does not answer.
    pub has: Option<Holdings>,
    /// Defects of its data, a sentence each: actions that they lack, or why they must not be used.
    /// Known of the answering server.
    pub defects: Vec<String>,
    /// Whether its data must not be used: it waits for a full copy. Known of the answering server.
    pub is_marked: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holdings {
    /// Term of the last entry of its log.
    pub last_term: u64,
    /// Index of the last entry of its log.
    pub last_index: u64,
    /// The last index that is durable on its disk.
    pub durable_index: u64,
    /// The highest index that it knows to be committed.
    pub commit_index: u64,
    /// The highest index that a leader has stated to be committed.
    pub stated_index: u64,
    /// All that was committed before this time is in its log: milliseconds since 1970, by the clock
    /// of the server that answers. None: not known since its start.
    pub complete_unix_ms: Option<u64>,
    /// The last action in its database; none: not known, or it has none.
    pub applied_seqno: Option<i64>,
    /// Whether its log was damaged, and lacks entries that it has acknowledged.
    pub is_under_repair: bool,
    /// Name of the leader that it hears.
    pub leader: Option<String>,
}
