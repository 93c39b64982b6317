//! Evidence about a group from outside: the answers to clients, the reads, the databases.
//!
//! Positions are seqnos, counted from one; zero means "none".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A row that a transaction wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowWrite {
    /// Number of the row.
    pub(crate) row: u32,
    /// The row's version in the transaction's snapshot: the position of its last write there; zero
    /// if there is none.
    pub(crate) seen: i64,
}

/// A transaction as databases hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Transaction {
    /// The number that its client gave it; never given twice.
    pub(crate) id: u64,
    /// Position of its snapshot.
    pub(crate) last_seen: i64,
    /// The rows that it wrote.
    pub(crate) rows: Vec<RowWrite>,
    /// Whether it may be refused for a conflict. A statement in total order is not.
    pub(crate) certified: bool,
}

/// Content of one position of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    Transaction(Transaction),
    /// An entry of the group itself, such as a view, as a text that is the same on all members.
    Other(String),
}

/// Contents of a member's database at the end, in the order of applying.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    /// Name of the member.
    pub(crate) member: String,
    pub(crate) history: Vec<(i64, Content)>,
}

/// The answer that a client got for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAnswer {
    /// The transaction is committed.
    Committed { position: i64 },
    /// The transaction did not happen, and never will.
    Refused,
    /// No answer: the connection or the group was lost first.
    Unknown,
}

/// A causal read of a row.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// Name of the member that answered.
    pub(crate) member: String,
    /// Highest position that had been acknowledged to any client before the read began.
    pub(crate) floor: i64,
    /// Position of the snapshot that was read.
    pub(crate) position: i64,
    /// Number of the row.
    pub(crate) row: u32,
    /// The row's version there.
    pub(crate) version: i64,
}

/// Everything that the rules judge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// The answer for each transaction that a client began, by the transaction's id.
    pub(crate) answers: BTreeMap<u64, ClientAnswer>,
    /// All causal reads that were answered.
    pub(crate) reads: Vec<Read>,
    /// The databases of all members, at the end of all work.
    pub(crate) databases: Vec<Database>,
}
