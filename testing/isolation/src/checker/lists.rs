//! Lists: each shows the order of its writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Judge;
use super::anomaly::Kind;
use super::graph::Link;
use super::history::{Key, Operation, Outcome, Value};

/// The values of each key in the order of their writes: the longest list that was read.
type Orders = BTreeMap<Key, Vec<Value>>;

impl Judge<'_> {
    pub(super) fn check_lists(&mut self) {
        let orders = self.orders();
        let mut writers: HashMap<Value, usize> = HashMap::new();
        for (key, order) in &orders {
            self.add_order(*key, order, &mut writers);
        }
        for at in self.members() {
            self.check_reads(at, &orders, &writers);
        }
        self.check_lost_appends();
    }

    fn orders(&mut self) -> Orders {
        let mut longest: BTreeMap<Key, (usize, &[Value])> = BTreeMap::new();
        let mut reads: Vec<(usize, Key, &[Value])> = Vec::new();
        for (at, transaction) in self
            .all
            .iter()
            .enumerate()
            .filter(|(at, _)| self.is_in[*at])
        {
            for operation in &transaction.operations {
                if let Operation::Read(key, values) = operation {
                    reads.push((at, *key, values));
                    let longest = longest.entry(*key).or_insert((at, values));
                    if longest.1.len() < values.len() {
                        *longest = (at, values);
                    }
                }
            }
        }
        let mut reported = BTreeSet::new();
        for (at, key, values) in reads {
            let (by, order) = longest[&key];
            if !order.starts_with(values) && reported.insert(key) {
                let why = format!("key {key}: {values:?} is not the beginning of {order:?}");
                self.report(Kind::IncompatibleOrder, why, &[at, by]);
            }
        }
        let orders = longest.into_iter();
        orders
            .map(|(key, (_, order))| (key, order.to_vec()))
            .collect()
    }

    /// Adds who overwrote whom; collects the writers.
    fn add_order(&mut self, key: Key, order: &[Value], writers: &mut HashMap<Value, usize>) {
        let reader = |judge: &Self| {
            let has = |o: &Operation| matches!(o, Operation::Read(k, v) if *k == key && v == order);
            let mut all = (0..judge.all.len()).filter(|at| judge.is_in[*at]);
            all.find(|at| judge.all[*at].operations.iter().any(has))
        };
        let Some(reader) = reader(self) else { return };
        let mut before = None;
        for value in order {
            let Some(writer) = self.writer_of(reader, *value, key) else {
                continue;
            };
            if writers.insert(*value, writer).is_some() {
                let why = format!("{value} is in the list of {key} twice: {order:?}");
                self.report(Kind::Twice, why, &[writer]);
                continue;
            }
            if let Some(before) = before.replace(writer) {
                self.graph.add(before, writer, Link::Ww(key));
            }
        }
    }

    fn check_reads(&mut self, at: usize, orders: &Orders, writers: &HashMap<Value, usize>) {
        let all = self.all;
        let mut own: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
        let mut versions: BTreeMap<Key, &[Value]> = BTreeMap::new();
        // Transactions whose effects it has seen.
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        for operation in &all[at].operations {
            match operation {
                Operation::Append(key, value) => own.entry(*key).or_default().push(*value),
                Operation::Read(key, values) => {
                    let own = own.get(key).map_or(&[][..], Vec::as_slice);
                    let Some(version) = values.strip_suffix(own) else {
                        let why = format!("key {key}: {values:?} does not end with its {own:?}");
                        self.report(Kind::Internal, why, &[at]);
                        continue;
                    };
                    if version.iter().any(|value| writers.get(value) == Some(&at)) {
                        let why = format!("key {key}: {values:?} has values that it writes later");
                        self.report(Kind::Internal, why, &[at]);
                        continue;
                    }
                    let before = versions.insert(*key, version);
                    if before.is_some_and(|before| before != version) {
                        let why = format!("key {key} was {before:?}, then {version:?}");
                        self.report(Kind::NonRepeatableRead, why, &[at]);
                    }
                    self.check_view(at, *key, version, &seen);
                    seen.extend(version.iter().filter_map(|value| writers.get(value)));
                    self.add_read(at, *key, version, &orders[key], writers);
                }
                Operation::Insert(..)
                | Operation::Delete(..)
                | Operation::Scan(..)
                | Operation::Balances { .. } => {}
            }
        }
    }

    /// Whether a read lacks an effect of a transaction that an earlier one has seen.
    fn check_view(&mut self, at: usize, key: Key, version: &[Value], seen: &BTreeSet<usize>) {
        for writer in seen {
            let mut written = self.all[*writer].appended(key);
            if let Some(value) = written.find(|value| !version.contains(value)) {
                let why = format!("T{at} has seen T{writer}, then key {key} without its {value}");
                self.report(Kind::NotAtomicView, why, &[at, *writer]);
                return;
            }
        }
    }

    /// Adds from whom it read, and who overwrote what it read.
    fn add_read(
        &mut self,
        at: usize,
        key: Key,
        version: &[Value],
        order: &[Value],
        writers: &HashMap<Value, usize>,
    ) {
        if let Some((last, writer)) = version.last().and_then(|v| Some((v, *writers.get(v)?))) {
            let final_value = self.all[writer].appended(key).last();
            if final_value != Some(*last) {
                let why = format!("key {key}: T{writer} appended {final_value:?} after {last}");
                self.report(Kind::IntermediateRead, why, &[at, writer]);
            }
            self.graph.add(writer, at, Link::Wr(key));
        }
        let next = order.get(version.len());
        if let Some(overwriter) = next.and_then(|value| writers.get(value)) {
            self.graph.add(at, *overwriter, Link::Rw(key));
        }
    }

    fn check_lost_appends(&mut self) {
        let all = self.all;
        for (last, transaction) in all.iter().enumerate().filter(|(_, t)| t.is_final) {
            let reads = transaction.operations.iter().filter_map(|o| match o {
                Operation::Read(key, values) => Some((*key, values.iter().copied().collect())),
                Operation::Append(..)
                | Operation::Insert(..)
                | Operation::Delete(..)
                | Operation::Scan(..)
                | Operation::Balances { .. } => None,
            });
            let read: BTreeMap<Key, BTreeSet<Value>> = reads.collect();
            for (at, transaction) in all.iter().enumerate() {
                for operation in &transaction.operations {
                    if let Operation::Append(key, value) = operation
                        && transaction.outcome == Outcome::Committed
                        && read.get(key).is_some_and(|values| !values.contains(value))
                    {
                        let why = format!(
                            "{value} of key {key} is not in the last read of node{}",
                            all[last].node
                        );
                        self.report(Kind::LostWrite, why, &[at]);
                    }
                }
            }
        }
    }
}
