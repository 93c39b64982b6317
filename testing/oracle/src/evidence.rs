//! What was seen of a group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A row that a transaction wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowWrite {
    /// Which row.
    pub row: u32,
    /// Its version in the transaction's snapshot: the position of its last write there, zero if none.
    pub seen: i64,
}

/// A transaction as databases hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Its client's number for it; never given twice.
    pub id: u64,
    /// Position of its snapshot.
    pub last_seen: i64,
    /// What it wrote.
    pub rows: Vec<RowWrite>,
    /// Whether it may be refused for a conflict. A statement in total order is not.
    pub certified: bool,
}

/// What is at one position of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// A transaction.
    Transaction(Transaction),
    /// Something of the group's own, in words that are the same everywhere.
    Other(String),
}

/// What a member's database holds in the end, in the order it was applied.
#[derive(Clone, Debug)]
pub struct Database {
    /// Whose it is.
    pub member: String,
    /// Positions and contents.
    pub history: Vec<(i64, Content)>,
}

/// What a client was told of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is committed at this position.
    Committed {
        /// The position.
        position: i64,
    },
    /// It did not happen, and will not.
    Refused,
    /// Nothing: the connection or the group was lost first.
    Unknown,
}

/// A causal read of a row.
#[derive(Clone, Debug)]
pub struct Read {
    /// Who answered.
    pub member: String,
    /// Highest position that any client had been told of before the read began.
    pub floor: i64,
    /// Position of the snapshot that was read.
    pub position: i64,
    /// Which row.
    pub row: u32,
    /// The row's version there.
    pub version: i64,
}

/// Everything that is judged.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// By the transaction's id; each that a client began.
    pub told: BTreeMap<u64, Told>,
    /// All causal reads that were answered.
    pub reads: Vec<Read>,
    /// The databases of all members, once nothing moves any more.
    pub databases: Vec<Database>,
}
