//! The checker: which anomalies a history has. It knows no server, clock, file or network.
//!
//! - [`history`]: transactions as their clients saw them; [`anomaly`]: names and promises.
//! - `lists`, `rows`: read each answer, find what is wrong in itself, and add dependencies.
//! - `graph`: finds cycles of these.
//!
//! Values are unique, and a list shows the order of its writes: so dependencies follow from reads,
//! and a finding needs no assumption about the server. A transaction without an answer takes part
//! if another one has seen it.

pub mod anomaly;
mod graph;
pub mod history;
mod lists;
mod rows;

use std::collections::HashMap;

use anomaly::{Anomaly, Kind};
use graph::{Cycle, Graph, Link, Search};
use history::{Key, Operation, Outcome, Transaction, Value};

/// The anomalies of a history; of cycles, the smallest in each part of the graph that has one. A
/// read that lacks what was acknowledged up to `allowed_us` before it began is none.
pub fn check(history: &[Transaction], allowed_us: u64) -> Vec<Anomaly> {
    let mut judge = Judge::new(history);
    judge.check_lists();
    judge.check_rows();
    judge.check_balances();
    judge.graph.add_orders(history, &judge.is_in, allowed_us);
    judge.check_cycles();
    judge.found
}

#[derive(Debug)]
struct Judge<'h> {
    all: &'h [Transaction],
    /// Transactions that have taken effect, as far as anyone can tell.
    is_in: Vec<bool>,
    /// The transactions that wrote a value or row, and its key. More than one only for a row that
    /// several have tried to insert.
    writers: HashMap<Value, Vec<(usize, Key)>>,
    /// The transactions that say they have deleted a row.
    deleters: HashMap<Value, Vec<usize>>,
    graph: Graph,
    found: Vec<Anomaly>,
}

impl<'h> Judge<'h> {
    fn new(all: &'h [Transaction]) -> Judge<'h> {
        let mut writers: HashMap<Value, Vec<(usize, Key)>> = HashMap::new();
        let mut deleters: HashMap<Value, Vec<usize>> = HashMap::new();
        let mut seen: HashMap<Value, bool> = HashMap::new();
        for (at, transaction) in all.iter().enumerate() {
            for operation in &transaction.operations {
                match operation {
                    Operation::Append(key, value) | Operation::Insert(key, value) => {
                        writers.entry(*value).or_default().push((at, *key));
                    }
                    Operation::Delete(_, row) => deleters.entry(*row).or_default().push(at),
                    Operation::Read(_, values) | Operation::Scan(_, values) => {
                        // Its own writes tell nothing about its end.
                        let others = values.iter().filter(|v| !writes(transaction, **v));
                        others.for_each(|value| {
                            *seen.entry(*value).or_default() |= transaction.is_final
                        });
                    }
                    Operation::Balances { .. } => {}
                }
            }
        }
        let has_final = all.iter().any(|transaction| transaction.is_final);
        let took_effect = |transaction: &Transaction| match transaction.outcome {
            Outcome::Committed => true,
            Outcome::Refused => false,
            Outcome::Unknown => transaction
                .operations
                .iter()
                .any(|operation| match operation {
                    Operation::Append(_, value) | Operation::Insert(_, value) => {
                        seen.contains_key(value)
                    }
                    // Gone at the end, and no other has deleted it.
                    Operation::Delete(_, row) => {
                        has_final && seen.get(row) == Some(&false) && deleters[row].len() == 1
                    }
                    Operation::Read(..) | Operation::Scan(..) | Operation::Balances { .. } => false,
                }),
        };
        Judge {
            is_in: all.iter().map(took_effect).collect(),
            all,
            writers,
            deleters,
            graph: Graph::new(all.len()),
            found: Vec::new(),
        }
    }

    /// Transactions that have taken effect.
    fn members(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|at| self.is_in[*at]).collect()
    }

    fn report(&mut self, kind: Kind, why: String, shown_by: &[usize]) {
        // The last reads show everything.
        let line = |at: &usize| format!("T{at}: {:.600}", self.all[*at].to_string());
        let transactions = shown_by.iter().map(line);
        let witness = std::iter::once(why).chain(transactions).collect();
        self.found.push(Anomaly { kind, witness });
    }

    /// The writer of a value that a transaction has read; reports one that never was, or whose
    /// writers were all rolled back.
    fn writer_of(&mut self, reader: usize, value: Value, key: Key) -> Option<usize> {
        let writers = self.writers.get(&value).cloned().unwrap_or_default();
        let mut here = writers.iter().filter(|(_, k)| *k == key).map(|(at, _)| *at);
        let Some(first) = here.clone().next() else {
            let why = format!("nothing has written {value} into {key}");
            self.report(Kind::Invented, why, &[reader]);
            return None;
        };
        let writer = here.find(|at| self.is_in[*at] || *at == reader);
        if writer.is_none() {
            let why = format!("T{first}, which wrote {value}, was rolled back");
            self.report(Kind::AbortedRead, why, &[reader, first]);
        }
        writer
    }

    fn check_balances(&mut self) {
        for at in self.members() {
            let all = self.all;
            for operation in &all[at].operations {
                let Operation::Balances {
                    balances,
                    total,
                    booked,
                } = operation
                else {
                    continue;
                };
                let sum: i64 = balances.iter().sum();
                let why = if sum != *total {
                    format!("the balances add up to {sum}, not {total}")
                } else if balances.iter().any(|balance| *balance < 0) {
                    "an account is overdrawn".to_owned()
                } else if !booked.is_empty() && booked != balances {
                    "the balances are not those of the bookings".to_owned()
                } else {
                    continue;
                };
                self.report(Kind::WrongTotal, why, &[at]);
            }
        }
    }

    fn check_cycles(&mut self) {
        type Follows = fn(Link) -> bool;
        let is_ww: Follows = |link| matches!(link, Link::Ww(_));
        let is_wr: Follows = |link| matches!(link, Link::Wr(_));
        let is_data: Follows = |link| link.key().is_some();
        let steps: [(Follows, Follows, bool); 6] = [
            (is_ww, is_ww, false),
            (|l| matches!(l, Link::Ww(_) | Link::Wr(_)), is_wr, false),
            (is_data, Link::is_rw, false),
            (is_data, Link::is_rw, true),
            (|l| l != Link::RealTime, |l| l == Link::Session, false),
            (|l| l != Link::Session, |l| l == Link::RealTime, false),
        ];
        for (follows, has, any_order) in steps {
            let search = Search {
                follows,
                has,
                any_order,
            };
            for cycle in self.graph.cycles(search) {
                let kind = self.kind_of(&cycle);
                // Found before, in the step that knows no other order.
                let is_skew = matches!(kind, Kind::WriteSkew | Kind::PredicateWriteSkew);
                if any_order && !is_skew {
                    continue;
                }
                let links: Vec<String> = (0..cycle.len())
                    .map(|at| {
                        let (from, link) = cycle[at];
                        let (to, _) = cycle[(at + 1) % cycle.len()];
                        format!("T{from} -{}-> T{to}", words(link))
                    })
                    .collect();
                let nodes: Vec<usize> = cycle.iter().map(|(at, _)| *at).collect();
                self.report(kind, links.join(", "), &nodes);
            }
        }
    }

    fn kind_of(&self, cycle: &Cycle) -> Kind {
        let has = |wanted: fn(Link) -> bool| cycle.iter().any(|(_, link)| wanted(*link));
        let next = |at: usize| cycle[(at + 1) % cycle.len()];
        let mut rw = (0..cycle.len()).filter(|at| cycle[*at].1.is_rw());
        let is_adjacent = rw.clone().any(|at| next(at).1.is_rw());
        let first_rw = rw.next();
        let more_rw = rw.next().is_some();
        if has(|link| link == Link::RealTime) {
            return Kind::StaleRead;
        }
        if has(|link| link == Link::Session) {
            let session = |at: usize| self.all[at].session;
            return match first_rw {
                Some(at) if session(cycle[at].0) == session(next(at).0) => Kind::ReadYourWrites,
                Some(_) => Kind::NonMonotonicRead,
                None => Kind::SessionOrder,
            };
        }
        if is_adjacent {
            let by_predicate = has(|link| matches!(link, Link::RwPredicate(_)));
            return if by_predicate {
                Kind::PredicateWriteSkew
            } else {
                Kind::WriteSkew
            };
        }
        let key = cycle[0].1.key();
        let one_key = cycle.iter().all(|(_, link)| link.key() == key);
        let reads = has(|link| matches!(link, Link::Wr(_)));
        match first_rw {
            Some(_) if more_rw => Kind::LongFork,
            Some(_) if one_key && !reads => Kind::LostUpdate,
            Some(_) => Kind::ReadSkew,
            None if reads => Kind::CircularFlow,
            None => Kind::DirtyWrite,
        }
    }
}

fn writes(transaction: &Transaction, value: Value) -> bool {
    transaction
        .operations
        .iter()
        .any(|operation| match operation {
            Operation::Append(_, own) | Operation::Insert(_, own) => *own == value,
            Operation::Read(..)
            | Operation::Delete(..)
            | Operation::Scan(..)
            | Operation::Balances { .. } => false,
        })
}

fn words(link: Link) -> String {
    match link {
        Link::Ww(key) => format!("overwritten {key}"),
        Link::Wr(key) => format!("read {key}"),
        Link::Rw(key) => format!("did not see {key}"),
        Link::RwPredicate(class) => format!("did not see row of {class}"),
        Link::Session => "session".to_owned(),
        Link::RealTime => "ended before".to_owned(),
    }
}
