//! Invariants, checked whenever they could be violated: one file per invariant.
//!
//! A check gets the facts from the simulated world. It returns a [`Violation`] that names the rule
//! and the contradiction. No check looks into the code under test.

pub(crate) mod bounds;
pub(crate) mod certified;
pub(crate) mod committed;
pub(crate) mod config_change;
pub(crate) mod durable_first;
pub(crate) mod election;
pub(crate) mod everywhere;
pub(crate) mod history;
pub(crate) mod lag;
pub(crate) mod leader_moves;
pub(crate) mod log_matching;
pub(crate) mod once;
pub(crate) mod payloads;
pub(crate) mod quorum;
pub(crate) mod reads;
pub(crate) mod recovery;
pub(crate) mod removed;
pub(crate) mod repair;
pub(crate) mod retained;
pub(crate) mod same_data;
pub(crate) mod seqno;
pub(crate) mod strangers;
pub(crate) mod versions;
pub(crate) mod voters;
pub(crate) mod writers;

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use synod_consensus::{EntryHeader, LogIndex, MemberId, Term};

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// The facts that contradict it.
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// The result of a check.
pub(crate) type Checked = Result<(), Violation>;

/// A check of one condition; `what` is evaluated only if it does not hold.
pub(crate) fn require(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds {
        return Ok(());
    }
    Err(Violation { rule, what: what() })
}

/// The checks that keep facts for later.
#[derive(Default)]
pub(crate) struct Invariants {
    pub(crate) election: election::Election,
    pub(crate) log_matching: log_matching::LogMatching,
    pub(crate) committed: committed::Committed,
    pub(crate) config_change: config_change::ConfigChanges,
    pub(crate) once: once::Once,
    pub(crate) certified: certified::Certified,
    pub(crate) history: history::History,
    pub(crate) one_writer: writers::OneWriter,
    pub(crate) lags: lag::Lags,
    pub(crate) leader_moves: leader_moves::LeaderMoves,
    pub(crate) payloads: payloads::Payloads,
    pub(crate) quorums: quorum::Quorums,
    pub(crate) reads: reads::Reads,
    pub(crate) removed: removed::Removed,
    pub(crate) repairs: repair::Repairs,
    /// Protocol versions that operators have ordered.
    pub(crate) ordered_versions: BTreeSet<u16>,
}

impl Invariants {
    /// A member commits an entry in a term. Returns whether it is the first to do so.
    pub(crate) fn commit(
        &mut self,
        member: MemberId,
        header: &EntryHeader,
        payload: &Bytes,
        term: Term,
    ) -> (bool, Checked) {
        let (is_first, checked) = self.committed.commit(member, header, term);
        if !is_first {
            return (is_first, checked);
        }
        let leader = self.election.leader_of(header.term);
        let checked = checked
            .and(self.once.committed(header))
            .and(self.one_writer.committed(header, payload, leader))
            .and(self.certified.committed(header, payload, &mut self.history));
        (is_first, checked)
    }

    /// Entries after `kept_to` are lost to a forced primary. All checks forget what is committed;
    /// the caller commits again what is kept.
    pub(crate) fn forget_committed(&mut self, kept_to: LogIndex) {
        let is_lost = self.committed.index() > kept_to;
        self.committed = committed::Committed::default();
        self.once = once::Once::default();
        self.one_writer = writers::OneWriter::default();
        self.lags = lag::Lags::default();
        self.certified.forget_committed();
        self.history.forget_committed(is_lost);
        self.quorums.forget_after(kept_to);
    }
}
