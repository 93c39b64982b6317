//! The anomalies, by their names in the literature, and which of them a promise excludes.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// G0: writes of two transactions in both orders.
    DirtyWrite,
    /// G1a: a read of what was rolled back.
    AbortedRead,
    /// G1b: a read of what its writer had overwritten before it committed.
    IntermediateRead,
    /// G1c: transactions that read from each other, in a circle.
    CircularFlow,
    /// G-single: a transaction sees a part of another's effects, or of what that depends on.
    ReadSkew,
    /// G-single of one key: it overwrites a change that it has not seen.
    LostUpdate,
    /// G-nonadjacent: readers see writes in different orders.
    LongFork,
    /// G2-item: each of two overwrites what the other has read.
    WriteSkew,
    /// G2: the same with predicates.
    PredicateWriteSkew,
    /// A read lacks what was acknowledged before it began.
    StaleRead,
    /// A read lacks an earlier write of its session.
    ReadYourWrites,
    /// A read lacks what an earlier read of its session has shown.
    NonMonotonicRead,
    /// Writes of a session in another order than its own.
    SessionOrder,
    /// A transaction saw some effects of another, and a later read of it lacks others.
    NotAtomicView,
    /// Two reads of a key or predicate in one transaction differ.
    NonRepeatableRead,
    /// A transaction does not see what it has written itself.
    Internal,
    /// Two reads of a list, neither of which is the beginning of the other.
    IncompatibleOrder,
    /// An acknowledged write that is gone at the end.
    LostWrite,
    /// A write that took effect twice.
    Twice,
    /// A value that no client has written.
    Invented,
    /// Balances that do not add up.
    WrongTotal,
}

impl Kind {
    /// Its short name, with that of the literature.
    pub fn name(self) -> &'static str {
        match self {
            Kind::DirtyWrite => "dirty write (G0)",
            Kind::AbortedRead => "aborted read (G1a)",
            Kind::IntermediateRead => "intermediate read (G1b)",
            Kind::CircularFlow => "circular information flow (G1c)",
            Kind::ReadSkew => "read skew (G-single)",
            Kind::LostUpdate => "lost update (G-single)",
            Kind::LongFork => "long fork (G-nonadjacent)",
            Kind::WriteSkew => "write skew (G2-item)",
            Kind::PredicateWriteSkew => "write skew by predicates (G2)",
            Kind::StaleRead => "stale read",
            Kind::ReadYourWrites => "own write not read",
            Kind::NonMonotonicRead => "non-monotonic read",
            Kind::SessionOrder => "session out of order",
            Kind::NotAtomicView => "view not atomic",
            Kind::NonRepeatableRead => "non-repeatable read",
            Kind::Internal => "internal inconsistency",
            Kind::IncompatibleOrder => "incompatible order",
            Kind::LostWrite => "lost write",
            Kind::Twice => "write taken twice",
            Kind::Invented => "invented value",
            Kind::WrongTotal => "wrong total",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An anomaly with the transactions that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    pub kind: Kind,
    /// One line for each transaction or reason.
    pub witness: Vec<String>,
}

/// Isolation of single transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    ReadCommitted,
    /// Snapshot isolation, where the first committer wins.
    Snapshot,
}

/// Promise of a run to its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    pub level: Level,
    /// A read shows what was acknowledged before it began, by any server.
    pub real_time: bool,
}

impl Promise {
    /// Whether the promise excludes it.
    pub fn excludes(self, kind: Kind) -> bool {
        match kind {
            Kind::DirtyWrite
            | Kind::AbortedRead
            | Kind::IntermediateRead
            | Kind::CircularFlow
            | Kind::NotAtomicView
            | Kind::Internal
            | Kind::IncompatibleOrder
            | Kind::LostWrite
            | Kind::Twice
            | Kind::Invented => true,
            Kind::ReadSkew
            | Kind::LostUpdate
            | Kind::LongFork
            | Kind::NonRepeatableRead
            | Kind::WrongTotal
            // Without snapshots, a cycle may go through one that reads at several times.
            | Kind::ReadYourWrites
            | Kind::NonMonotonicRead
            | Kind::SessionOrder => self.level == Level::Snapshot,
            Kind::StaleRead => self.real_time && self.level == Level::Snapshot,
            Kind::WriteSkew | Kind::PredicateWriteSkew => false,
        }
    }
}
