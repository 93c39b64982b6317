//! The rules, one file each: order, answers, updates, reads.
//!
//! The databases must agree first. The other rules judge the one history that all of them have.

mod answers;
mod order;
mod reads;

mod updates;

use std::collections::BTreeMap;
use std::fmt;

use crate::oracle::evidence::{Content, Evidence, Transaction};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Name of the rule.
    pub(crate) rule: &'static str,
    /// The facts that contradict it.
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Returns all violations in the evidence. If the databases differ, only the differences are
/// reported.
pub(crate) fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut found = order::check(&evidence.databases);
    if found.is_empty() {
        let history = History::of(evidence);
        found.extend(answers::check(&evidence.answers, &history));
        found.extend(updates::check(&history));
        found.extend(reads::check(&evidence.reads, &history));
    }
    found
}

/// The history that all databases share.
struct History<'a> {
    transactions: Vec<(i64, &'a Transaction)>,
    /// Positions of the writes to each row, ascending.
    writes: BTreeMap<u32, Vec<i64>>,
    /// Position of the last content.
    end: i64,
}

impl<'a> History<'a> {
    fn of(evidence: &'a Evidence) -> History<'a> {
        let contents = evidence.databases.first().map_or(&[][..], |d| &d.history);
        let mut history = History {
            transactions: Vec::new(),
            writes: BTreeMap::new(),
            end: contents.last().map_or(0, |(position, _)| *position),
        };
        for (position, content) in contents {
            let Content::Transaction(transaction) = content else {
                continue;
            };
            history.transactions.push((*position, transaction));
            for write in &transaction.rows {
                history.writes.entry(write.row).or_default().push(*position);
            }
        }
        history
    }

    /// Position of the last write to a row at or before `position`; zero if there is none.
    fn version(&self, row: u32, position: i64) -> i64 {
        let writes = self.writes.get(&row).map_or(&[][..], Vec::as_slice);
        let after = writes.partition_point(|write| *write <= position);
        after.checked_sub(1).map_or(0, |last| writes[last])
    }
}

#[cfg(test)]
mod tests;
