//! Runs the checker, and reports the outcome.
//!
//! A check is a proof within its bounds if every state was visited, nothing was violated, and every
//! state that should be reached was.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::group::{Group, Step};
use crate::state::State;

/// Outcome of a check.
#[derive(Debug)]
pub struct Outcome {
    /// Different states visited.
    pub states: usize,
    /// Steps performed, including those that led to a state visited before.
    pub steps: usize,
    /// States on the longest of the ways followed; breadth first, of the shortest ways.
    pub depth: usize,
    pub time: Duration,
    /// Whether every reachable state was visited.
    pub exhausted: bool,
    /// Properties that were violated, with the way there.
    pub violated: BTreeMap<&'static str, Way>,
    /// Properties for which the state wanted was found.
    pub seen: Vec<&'static str>,
    /// Properties for which no state wanted was found.
    pub unseen: Vec<&'static str>,
}

/// A way from the initial state: each state with the step that was taken in it (none in the last).
pub type Way = Vec<(State, Option<Step>)>;

impl Outcome {
    /// Whether every state was visited, nothing was violated, and everything wanted was seen.
    pub fn is_proof(&self) -> bool {
        self.exhausted && self.violated.is_empty() && self.unseen.is_empty()
    }
}

/// In which order states are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// Nearest first: finds the shortest way to a violation, and needs much memory.
    Breadth,
    /// Needs little memory. `Outcome::depth` is then the longest way that was followed.
    Depth,
}

/// Limits of the search.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Threads of the checker.
    pub threads: usize,
    /// Give up after about so many steps.
    pub steps_max: Option<usize>,
    /// Continue until this property is violated, even if others are violated before. `None`: until
    /// any is.
    pub until: Option<&'static str>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            threads: 1,
            steps_max: None,
            until: None,
        }
    }
}

/// Checks all properties in all states until one is violated, all states were visited, or a limit
/// is reached.
pub fn check(group: Group, order: Order, limits: &Limits) -> Outcome {
    let start = Instant::now();
    let until = match limits.until {
        Some(name) => HasDiscoveries::AllOf([name].into()),
        None => HasDiscoveries::AnyFailures,
    };
    let mut builder = group.checker().threads(limits.threads).finish_when(until);
    if let Some(steps_max) = limits.steps_max {
        builder = builder.target_state_count(steps_max);
    }
    let mut outcome = match order {
        Order::Breadth => outcome(&builder.spawn_bfs().join()),
        Order::Depth => outcome(&builder.spawn_dfs().join()),
    };
    outcome.time = start.elapsed();
    // The checker ends early for these two reasons only.
    let limited = limits
        .steps_max
        .is_some_and(|steps_max| outcome.steps >= steps_max);
    outcome.exhausted = outcome.violated.is_empty() && !limited;
    outcome
}

fn outcome(checker: &impl Checker<Group>) -> Outcome {
    let found = checker.discoveries();
    let mut outcome = Outcome {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        time: Duration::ZERO,
        exhausted: false,
        violated: BTreeMap::new(),
        seen: Vec::new(),
        unseen: Vec::new(),
    };
    for property in checker.model().properties() {
        let name = property.name;
        let path = found.get(name).cloned();
        match (property.expectation, path) {
            (Expectation::Sometimes, Some(_)) => outcome.seen.push(name),
            (Expectation::Sometimes, None) => outcome.unseen.push(name),
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                outcome.violated.insert(name, path.into_vec());
            }
            (Expectation::Always | Expectation::Eventually, None) => {}
        }
    }
    outcome
}
