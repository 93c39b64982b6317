//! What must never happen, checked whenever it could: one file per invariant.
//!
//! Each check is told the facts by the simulated world and answers with a [`Violation`] that names
//! the rule and what contradicts it. None of them looks into the code under test.

pub(crate) mod bounds;
pub(crate) mod certified;
pub(crate) mod committed;
pub(crate) mod config_change;
pub(crate) mod durable_first;
pub(crate) mod election;
pub(crate) mod history;
pub(crate) mod log_matching;
pub(crate) mod once;
pub(crate) mod payloads;
pub(crate) mod quorum;
pub(crate) mod reads;
pub(crate) mod recovery;
pub(crate) mod repair;
pub(crate) mod retained;
pub(crate) mod seqno;

use std::fmt;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// What contradicts it.
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// The answer of a check.
pub(crate) type Checked = Result<(), Violation>;

/// `what` is evaluated only if the rule is broken.
pub(crate) fn require(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds {
        return Ok(());
    }
    Err(Violation { rule, what: what() })
}

/// The checks that remember something.
#[derive(Default)]
pub(crate) struct Invariants {
    pub(crate) election: election::Election,
    pub(crate) log_matching: log_matching::LogMatching,
    pub(crate) committed: committed::Committed,
    pub(crate) config_change: config_change::ConfigChanges,
    pub(crate) once: once::Once,
    pub(crate) certified: certified::Certified,
    pub(crate) history: history::History,
    pub(crate) payloads: payloads::Payloads,
    pub(crate) quorums: quorum::Quorums,
    pub(crate) reads: reads::Reads,
    pub(crate) repairs: repair::Repairs,
}
