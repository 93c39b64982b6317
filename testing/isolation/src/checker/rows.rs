//! Rows that come and go, read by predicates: each is inserted once and deleted at most once.
//!
//! A row that a read lacks was not there yet, or not any more. It was not there yet if only
//! transactions that began after the read's end say that they have deleted it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::Judge;
use super::anomaly::Kind;
use super::graph::Link;
use super::history::{Key, Operation, Outcome, Value};

impl Judge<'_> {
    pub(super) fn check_rows(&mut self) {
        let mut inserts = Vec::new();
        for at in self.members() {
            let all = self.all;
            for operation in &all[at].operations {
                match operation {
                    Operation::Insert(class, row) => inserts.push(Insert {
                        begin_us: all[at].begin_us,
                        gone_us: self.gone_us(*row),
                        class: *class,
                        row: *row,
                        by: at,
                    }),
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
        let mut standing = Standing::new(inserts);
        let mut by_end = self.members();
        by_end.sort_by_key(|at| self.all[*at].end_us);
        for at in by_end {
            standing.advance(self.all[at].end_us);
            self.check_scans(at, &standing);
        }
    }

    /// Time from which a row may be gone: transactions that were refused have not deleted it.
    fn gone_us(&self, row: Value) -> u64 {
        let deleters = self.deleters.get(&row).into_iter().flatten();
        let deleters = deleters.map(|by| &self.all[*by]);
        let begins = deleters.filter(|by| by.outcome != Outcome::Refused);
        begins.map(|by| by.begin_us).min().unwrap_or(u64::MAX)
    }

    fn deleters_in(&self, row: Value) -> Vec<usize> {
        let all = self.deleters.get(&row).into_iter().flatten();
        all.copied().filter(|by| self.is_in[*by]).collect()
    }

    fn check_scans(&mut self, at: usize, standing: &Standing) {
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
                    for (row, by) in standing.of(*class) {
                        if !seen.contains(&row) && by != at {
                            self.add_missing(at, *class, row, by);
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

    /// A row that a read lacks although none had begun to delete it, and who inserted it.
    fn add_missing(&mut self, at: usize, class: Key, row: Value, by: usize) {
        let (reader, writer) = (&self.all[at], &self.all[by]);
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

/// A row, who inserted it, and the time between which and `gone_us` a read may lack it only because
/// it was not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Insert {
    begin_us: u64,
    gone_us: u64,
    class: Key,
    row: Value,
    by: usize,
}

/// Rows whose insert had begun at a moment, and no delete. Moments only go forward, so that rows
/// that came and went for hours cost nothing for each read.
#[derive(Debug)]
struct Standing {
    /// Not begun; the next one is the last.
    later: Vec<Insert>,
    ends: BinaryHeap<Reverse<(u64, Key, Value, usize)>>,
    rows: BTreeMap<Key, BTreeSet<(Value, usize)>>,
}

impl Standing {
    fn new(mut inserts: Vec<Insert>) -> Standing {
        inserts.sort_by_key(|insert| Reverse(insert.begin_us));
        Standing {
            later: inserts,
            ends: BinaryHeap::new(),
            rows: BTreeMap::new(),
        }
    }

    fn advance(&mut self, now_us: u64) {
        while let Some(insert) = self.later.pop_if(|insert| insert.begin_us <= now_us) {
            let of_class = self.rows.entry(insert.class).or_default();
            of_class.insert((insert.row, insert.by));
            let end = (insert.gone_us, insert.class, insert.row, insert.by);
            self.ends.push(Reverse(end));
        }
        while let Some(Reverse((gone_us, class, row, by))) = self.ends.peek().copied() {
            if gone_us > now_us {
                return;
            }
            self.ends.pop();
            if let Some(of_class) = self.rows.get_mut(&class) {
                of_class.remove(&(row, by));
            }
        }
    }

    fn of(&self, class: Key) -> impl Iterator<Item = (Value, usize)> {
        self.rows.get(&class).into_iter().flatten().copied()
    }
}
