//! The graph of dependencies between transactions, and its cycles.
//!
//! Real time is an order of moments, one for each end of a transaction: so that a transaction is
//! before all that begin later, with few edges.
//!
//! Snapshot isolation allows a cycle only where an anti-dependency follows another. Whether there
//! is a cycle without that is found in linear time: in a graph whose nodes are pairs of a
//! transaction and whether the edge to it was an anti-dependency.

use std::collections::{BTreeMap, VecDeque};

use super::history::{Key, Outcome, Transaction};

/// Reason why a transaction is before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// The other overwrote its write.
    Ww(Key),
    /// The other read its write.
    Wr(Key),
    /// The other overwrote what it read: an anti-dependency.
    Rw(Key),
    /// The other inserted a row that its predicate would have selected, or deleted one.
    RwPredicate(Key),
    /// The other came later in its session.
    Session,
    /// The other began after it had ended, by more than reads may be stale.
    RealTime,
}

impl Link {
    pub(super) fn is_rw(self) -> bool {
        matches!(self, Link::Rw(_) | Link::RwPredicate(_))
    }

    pub(super) fn key(self) -> Option<Key> {
        match self {
            Link::Ww(key) | Link::Wr(key) | Link::Rw(key) | Link::RwPredicate(key) => Some(key),
            Link::Session | Link::RealTime => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    to: usize,
    link: Link,
}

/// A cycle: each transaction with the link to the next, the last one's to the first.
pub(super) type Cycle = Vec<(usize, Link)>;

/// A state, and the number of anti-dependencies on the way to it, as far as that matters.
type Place = (usize, usize);
/// The place before each, and the edge from there.
type Steps = BTreeMap<Place, (Place, Edge)>;

/// Cycles that a search looks for.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// Links that it follows.
    pub(super) follows: fn(Link) -> bool,
    /// One of these is in the cycle.
    pub(super) has: fn(Link) -> bool,
    /// Whether an anti-dependency may follow another.
    pub(super) any_order: bool,
}

impl Search {
    /// Whether it follows an edge of this state.
    fn leads_on(&self, state: usize, edge: &Edge) -> bool {
        let after_rw = state % 2 == 1;
        (self.follows)(edge.link) && !(after_rw && edge.link.is_rw())
    }
}

/// Edges of a component that a search for the smallest cycle begins with, at most.
const STARTS_MAX: usize = 300;

#[derive(Debug)]
pub(super) struct Graph {
    edges: Vec<Vec<Edge>>,
    transactions: usize,
}

impl Graph {
    pub(super) fn new(transactions: usize) -> Graph {
        Graph {
            edges: vec![Vec::new(); transactions],
            transactions,
        }
    }

    pub(super) fn add(&mut self, from: usize, to: usize, link: Link) {
        let edge = Edge { to, link };
        if from != to && !self.edges[from].contains(&edge) {
            self.edges[from].push(edge);
        }
    }

    /// Adds the order of sessions and of real time: a transaction is before those that begin more
    /// than `allowed_us` after its end.
    pub(super) fn add_orders(&mut self, all: &[Transaction], is_in: &[bool], allowed_us: u64) {
        let mut by_begin: Vec<usize> = (0..all.len()).filter(|at| is_in[*at]).collect();
        by_begin.sort_by_key(|at| all[*at].begin_us);
        let mut last: BTreeMap<u32, usize> = BTreeMap::new();
        for at in &by_begin {
            if let Some(before) = last.insert(all[*at].session, *at) {
                self.add(before, *at, Link::Session);
            }
        }
        // One without an answer may take effect later than its end.
        let has_ended = |at: &&usize| all[**at].outcome == Outcome::Committed;
        let mut by_end: Vec<usize> = by_begin.iter().filter(has_ended).copied().collect();
        by_end.sort_by_key(|at| all[*at].end_us);
        let mut moment = None;
        let mut ends = by_end.into_iter().peekable();
        for at in by_begin {
            while let Some(ended) =
                ends.next_if(|end| all[*end].end_us + allowed_us < all[at].begin_us)
            {
                let next = self.edges.len();
                self.edges.push(Vec::new());
                self.add(ended, next, Link::RealTime);
                if let Some(before) = moment.replace(next) {
                    self.add(before, next, Link::RealTime);
                }
            }
            if let Some(moment) = moment {
                self.add(moment, at, Link::RealTime);
            }
        }
    }

    /// The smallest such cycle of each part of the graph that has one; with few anti-dependencies
    /// rather than many, where the search names both.
    pub(super) fn cycles(&self, search: Search) -> Vec<Cycle> {
        let (parts, count) = self.components(search);
        let mut starts: Vec<Vec<(usize, Edge)>> = vec![Vec::new(); count];
        for from in 0..self.edges.len() {
            for edge in self.edges[from].iter().filter(|e| (search.has)(e.link)) {
                let to = self.state(search, edge);
                let may_precede = !edge.link.is_rw() || search.any_order;
                // The edge is in a cycle if a state of its begin is in the same part.
                let froms = [2 * from, 2 * from + usize::from(may_precede)];
                if froms.iter().any(|state| parts[*state] == parts[to]) {
                    starts[parts[to]].push((from, *edge));
                }
            }
        }
        let mut found = Vec::new();
        for (part, starts) in starts.iter().enumerate().filter(|(_, s)| !s.is_empty()) {
            let within = |state: usize| parts[state] == part;
            let tried = &starts[..starts.len().min(STARTS_MAX)];
            let fewest = |rw_max| {
                let mut best: Option<Cycle> = None;
                for (first, edge) in tried {
                    let longest = best.as_ref().map_or(usize::MAX, |best| best.len() - 1);
                    let cycle = self.shortest(search, *first, *edge, rw_max, longest, &within);
                    best = cycle.or(best);
                }
                best
            };
            found.extend(fewest(1).or_else(|| fewest(usize::MAX)));
        }
        found
    }

    fn state(&self, search: Search, edge: &Edge) -> usize {
        2 * edge.to + usize::from(edge.link.is_rw() && !search.any_order)
    }

    fn next(&self, search: Search, state: usize) -> impl Iterator<Item = &Edge> {
        let edges = self.edges[state / 2].iter();
        edges.filter(move |edge| search.leads_on(state, edge))
    }

    /// The strongly connected component of each state (Tarjan's algorithm, without recursion), and
    /// how many there are.
    fn components(&self, search: Search) -> (Vec<usize>, usize) {
        const NONE: usize = usize::MAX;
        let states = 2 * self.edges.len();
        let (mut index, mut low) = (vec![NONE; states], vec![0; states]);
        let (mut part, mut count, mut clock) = (vec![NONE; states], 0, 0);
        let mut stack = Vec::new();
        for root in 0..states {
            if index[root] != NONE {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some((state, done)) = work.pop() {
                if index[state] == NONE {
                    (index[state], low[state]) = (clock, clock);
                    clock += 1;
                    stack.push(state);
                }
                // From where the last look ended: a popular row has thousands of edges.
                let edges = self.edges[state / 2].iter().enumerate().skip(done);
                let mut edges = edges.filter(|(_, edge)| search.leads_on(state, edge));
                match edges.next() {
                    Some((at, edge)) => {
                        work.push((state, at + 1));
                        let to = self.state(search, edge);
                        if index[to] == NONE {
                            work.push((to, 0));
                        } else if part[to] == NONE {
                            low[state] = low[state].min(index[to]);
                        }
                    }
                    None => {
                        if low[state] == index[state] {
                            while let Some(top) = stack.pop() {
                                part[top] = count;
                                if top == state {
                                    break;
                                }
                            }
                            count += 1;
                        }
                        if let Some((above, _)) = work.last() {
                            low[*above] = low[*above].min(low[state]);
                        }
                    }
                }
            }
        }
        (part, count)
    }

    /// The smallest cycle that begins with this edge and has at most so many anti-dependencies (1:
    /// one at most), and at most `longest` transactions. Moments take no room in it.
    fn shortest(
        &self,
        search: Search,
        first: usize,
        edge: Edge,
        rw_max: usize,
        longest: usize,
        within: &dyn Fn(usize) -> bool,
    ) -> Option<Cycle> {
        let room = |node: usize| usize::from(node < self.transactions);
        let start = (
            self.state(search, &edge),
            usize::from(edge.link.is_rw()).min(rw_max),
        );
        let mut from = Steps::new();
        let mut open = VecDeque::from([(start, room(first) + room(edge.to))]);
        // In the order of their lengths.
        while let Some((place, length)) = open.pop_front().filter(|(_, n)| *n <= longest) {
            for next in self.next(search, place.0) {
                let rw = place.1 + usize::from(next.link.is_rw());
                if rw > rw_max {
                    continue;
                }
                if next.to == first {
                    if next.link.is_rw() && edge.link.is_rw() && !search.any_order {
                        continue;
                    }
                    return Some(self.cycle(first, edge, place, *next, start, &from));
                }
                // Only a bound of one needs the count.
                let to = (self.state(search, next), if rw_max == 1 { rw } else { 0 });
                if to == start || !within(to.0) || from.contains_key(&to) {
                    continue;
                }
                from.insert(to, (place, *next));
                let length = length + room(next.to);
                if next.to >= self.transactions {
                    open.push_front((to, length));
                } else {
                    open.push_back((to, length));
                }
            }
        }
        None
    }

    fn cycle(
        &self,
        first: usize,
        edge: Edge,
        mut place: Place,
        closing: Edge,
        start: Place,
        from: &Steps,
    ) -> Cycle {
        let mut back = vec![(place.0 / 2, closing.link)];
        while place != start {
            let (before, edge) = from[&place];
            back.push((before.0 / 2, edge.link));
            place = before;
        }
        back.push((first, edge.link));
        back.reverse();
        // Moments stand between two real-time links, which are one.
        back.retain(|(node, _)| *node < self.transactions);
        back
    }
}
