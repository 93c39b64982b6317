//! A history: transactions as their clients saw them.
//!
//! Each appended value and each inserted row has a number of its own in the whole history, so that
//! a read names the transactions whose writes it shows.

/// Key of a list, or class of rows that a predicate selects.
pub type Key = u32;
/// An element of a list, or a row.
pub type Value = u64;

/// A statement of a transaction, with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Appends a value to the list of a key.
    Append(Key, Value),
    /// Reads the list of a key.
    Read(Key, Vec<Value>),
    /// Inserts a row into a class.
    Insert(Key, Value),
    /// Deletes a row of a class; recorded only if there was one.
    Delete(Key, Value),
    /// Reads all rows of a class by a predicate.
    Scan(Key, Vec<Value>),
    /// Reads the balances of all accounts, whose sum never changes.
    Balances {
        balances: Vec<i64>,
        total: i64,
        /// The balances that the bookings add up to; empty if they were not read.
        booked: Vec<i64>,
    },
}

/// End of a transaction for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Rolled back, or its COMMIT was never sent: it has no effect, at any time.
    Refused,
    /// No clear answer to its COMMIT.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The node that it ran on.
    pub node: u8,
    /// The session whose order is promised: a connection, or a client with causal reads.
    pub session: u32,
    /// Time before its first statement was sent, on the one clock of all clients.
    pub begin_us: u64,
    /// Time at which the answer to its COMMIT was there.
    pub end_us: u64,
    pub outcome: Outcome,
    /// Whether it ran after all others had ended, and must see every acknowledged write.
    pub is_final: bool,
    pub operations: Vec<Operation>,
}

impl Transaction {
    /// The values that it appends to a key, in this order.
    pub(super) fn appended(&self, key: Key) -> impl Iterator<Item = Value> + '_ {
        self.operations.iter().filter_map(move |o| match o {
            Operation::Append(k, value) if *k == key => Some(*value),
            Operation::Append(..)
            | Operation::Read(..)
            | Operation::Insert(..)
            | Operation::Delete(..)
            | Operation::Scan(..)
            | Operation::Balances { .. } => None,
        })
    }
}

impl std::fmt::Display for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (begin, end) = (self.begin_us, self.end_us);
        let (node, session, outcome) = (self.node, self.session, self.outcome);
        write!(
            f,
            "node{node} session {session}, {begin}..{end} us, {outcome:?}:"
        )?;
        for (at, operation) in self.operations.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match operation {
                Operation::Append(key, value) => write!(f, "{comma} append {key} {value}")?,
                Operation::Read(key, values) => write!(f, "{comma} read {key} {values:?}")?,
                Operation::Insert(class, row) => write!(f, "{comma} insert {class} {row}")?,
                Operation::Delete(class, row) => write!(f, "{comma} delete {class} {row}")?,
                Operation::Scan(class, rows) => write!(f, "{comma} scan {class} {rows:?}")?,
                Operation::Balances {
                    balances, booked, ..
                } => {
                    write!(f, "{comma} balances {balances:?} booked {booked:?}")?;
                }
            }
        }
        Ok(())
    }
}
