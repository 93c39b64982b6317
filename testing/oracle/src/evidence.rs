//! Evidence about a group from outside: the answers to clients, the reads, the databases.
//!
//! Positions are seqnos, counted from one; zero means "none".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A row that a transaction wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowWrite {
    /// Number of the row.
    pub row: u32,
    /// The row's version in the transaction's snapshot: the position of its last write there; zero
    /// if there is none.
    pub seen: i64,
}

/// A transaction as databases hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// The number that its client gave it; never given twice.
    pub id: u64,
    /// Position of its snapshot.
    pub last_seen: i64,
    /// The rows that it wrote.
    pub rows: Vec<RowWrite>,
    /// Whether it may be refused for a conflict. A statement in total order is not.
    pub certified: bool,
}

/// Content of one position of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    Transaction(Transaction),
    /// An entry of the group itself, such as a view, as a text that is the same on all members.
    Other(String),
}

/// Contents of a member's database at the end, in the order of applying.
#[derive(Clone, Debug)]
pub struct Database {
    /// Name of the member.
    pub member: String,
    pub history: Vec<(i64, Content)>,
}

/// The answer that a client got for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAnswer {
    /// The transaction is committed.
    Committed { position: i64 },
    /// The transaction did not happen, and never will.
    Refused,
    /// No answer: the connection or the group was lost first.
    Unknown,
}

/// A causal read of a row.
#[derive(Clone, Debug)]
pub struct Read {
    /// Name of the member that answered.
    pub member: String,
    /// Highest position that had been acknowledged to any client before the read began.
    pub floor: i64,
    /// Position of the snapshot that was read.
    pub position: i64,
    /// Number of the row.
    pub row: u32,
    /// The row's version there.
    pub version: i64,
}

/// Everything that the rules judge.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The answer for each transaction that a client began, by the transaction's id.
    pub answers: BTreeMap<u64, ClientAnswer>,
    /// All causal reads that were answered.
    pub reads: Vec<Read>,
    /// The databases of all members, at the end of all work.
    pub databases: Vec<Database>,
}
