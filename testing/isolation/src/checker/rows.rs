//! Rows that come and go, read by predicates: each is inserted once and deleted at most once.
//!
//! A row that a read lacks was not there yet, or not any more. It was not there yet if only
//! transactions that began after the read's end say that they have deleted it.

use std::collections::{BTreeMap, BTreeSet};

use super::Judge;
use super::anomaly::Kind;
use super::graph::Link;
use super::history::{Key, Operation, Outcome, Value};

impl Judge<'_> {
    pub(super) fn check_rows(&mut self) {
        // The rows of each class that have taken effect, with the transaction that inserted it.
        let mut rows: BTreeMap<Key, Vec<(Value, usize)>> = BTreeMap::new();
        for at in self.members() {
            let all = self.all;
            for operation in &all[at].operations {
                match operation {
                    Operation::Insert(class, row) => {
                        rows.entry(*class).or_default().push((*row, at))
                    }
                    Operation::Delete(class, row) => {
                        let by = self.deleters_in(*row);
                        if by.len() > 1 && by[0] == at {
                            let why = format!("row {row} of {class} was deleted more than once");
                            self.report(Kind::Twice, why, &by);
                        }
                        let inserted = self.writers.get(row).into_iter().flatten();
                        let inserted: Vec<usize> = inserted.map(|(by, _)| *by).collect();
                        for by in inserted.into_iter().filter(|by| self.is_in[*by]) {
                            self.graph.add(by, at, Link::Ww(*class));
                        }
                    }
                    Operation::Append(..)
                    | Operation::Read(..)
                    | Operation::Scan(..)
                    | Operation::Balances { .. } => {}
                }
            }
        }
        for at in self.members() {
            self.check_scans(at, &rows);
        }
    }

    fn deleters_in(&self, row: Value) -> Vec<usize> {
        let all = self.deleters.get(&row).into_iter().flatten();
        all.copied().filter(|by| self.is_in[*by]).collect()
    }

    fn check_scans(&mut self, at: usize, rows: &BTreeMap<Key, Vec<(Value, usize)>>) {
        let all = self.all;
        let mut versions: BTreeMap<Key, BTreeSet<Value>> = BTreeMap::new();
        let (mut inserted, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        for operation in &all[at].operations {
            match operation {
                Operation::Insert(_, row) => drop(inserted.insert(*row)),
                Operation::Delete(_, row) => drop(deleted.insert(*row)),
                Operation::Scan(class, found) => {
                    let seen: BTreeSet<Value> = found.iter().copied().collect();
                    if seen.len() != found.len() {
                        let why = format!("a row of {class} is there twice: {found:?}");
                        self.report(Kind::Twice, why, &[at]);
                    }
                    let mut own = inserted.difference(&deleted);
                    if !own.all(|row| seen.contains(row)) || !deleted.is_disjoint(&seen) {
                        let why = format!("it inserted {inserted:?}, deleted {deleted:?}");
                        self.report(Kind::Internal, why, &[at]);
                    }
                    // As it was without its own changes.
                    let before: BTreeSet<Value> = seen.difference(&inserted).copied().collect();
                    let outside = |set: &BTreeSet<Value>| -> BTreeSet<Value> {
                        set.difference(&deleted).copied().collect()
                    };
                    let earlier = versions.insert(*class, before.clone());
                    if earlier.is_some_and(|earlier| outside(&earlier) != before) {
                        let why = format!("the rows of {class} differ from those read before");
                        self.report(Kind::NonRepeatableRead, why, &[at]);
                    }
                    self.add_scan(at, *class, &before);
                    let none = Vec::new();
                    for (row, by) in rows.get(class).unwrap_or(&none) {
                        if !seen.contains(row) && *by != at {
                            self.add_missing(at, *class, *row, *by);
                        }
                    }
                }
                Operation::Append(..) | Operation::Read(..) | Operation::Balances { .. } => {}
            }
        }
    }

    /// Adds from whom a read got its rows, and who deleted them.
    fn add_scan(&mut self, at: usize, class: Key, seen: &BTreeSet<Value>) {
        for row in seen {
            if let Some(by) = self.writer_of(at, *row, class) {
                self.graph.add(by, at, Link::Wr(class));
            }
            for by in self.deleters_in(*row) {
                self.graph.add(at, by, Link::Rw(class));
                if self.all[at].is_final && self.all[by].outcome == Outcome::Committed {
                    let why =
                        format!("row {row} of {class}, deleted by T{by}, is there at the end");
                    self.report(Kind::LostWrite, why, &[at, by]);
                }
            }
        }
    }

    /// A row that a read lacks, and the transaction that inserted it.
    fn add_missing(&mut self, at: usize, class: Key, row: Value, by: usize) {
        let (reader, writer) = (&self.all[at], &self.all[by]);
        let mut deleters = self.deleters.get(&row).into_iter().flatten();
        // Those that were refused have not deleted it.
        let may_be_gone = deleters.any(|by| {
            let deleter = &self.all[*by];
            deleter.outcome != Outcome::Refused && deleter.begin_us <= reader.end_us
        });
        if may_be_gone || writer.begin_us > reader.end_us {
            return;
        }
        if reader.is_final && writer.outcome == Outcome::Committed {
            let why = format!(
                "row {row} of {class} is not in the last read of node{}",
                reader.node
            );
            self.report(Kind::LostWrite, why, &[by]);
        }
        self.graph.add(at, by, Link::RwPredicate(class));
    }
}
