//! Plan of a bench: the measurements and their order.

use std::fmt;
use std::str::FromStr;

use super::workload::{Sizes, Workload};
use crate::systems::kind::MeasuredSystem;
use crate::topology::Topology;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub command: String,
    pub systems: Vec<MeasuredSystem>,
    /// The networks; at least one, all with equally many servers.
    pub topologies: Vec<Topology>,
    pub workloads: Vec<Workload>,
    pub threads: Vec<u32>,
    /// Measured time of each measurement, seconds.
    pub seconds: u32,
    /// Load before that, not counted, seconds.
    pub warm_up_seconds: u32,
    pub repetitions: u32,
    pub write_to: WriteTo,
    pub sizes: Sizes,
}

/// One turn of one system: all numbers of clients, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<'a> {
    /// The how-many-th time, from 1.
    pub repetition: u32,
    pub topology: &'a Topology,
    pub workload: Workload,
    pub system: MeasuredSystem,
}

impl Plan {
    /// The turns in their order. Systems alternate fastest: the compared is measured within
    /// minutes.
    pub fn turns(&self) -> Vec<Turn<'_>> {
        let mut turns = Vec::new();
        for repetition in 1..=self.repetitions {
            for topology in &self.topologies {
                for workload in self.workloads.iter().copied() {
                    for system in self.systems.iter().copied() {
                        turns.push(Turn {
                            repetition,
                            topology,
                            workload,
                            system,
                        });
                    }
                }
            }
        }
        turns
    }
}

/// Servers that clients write to. The first server leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteTo {
    /// The leader, by clients beside it.
    Leader,
    /// The follower nearest to the leader, by clients beside that follower.
    Follower,
    /// The follower farthest from the leader, by clients beside that follower.
    Far,
    /// Each server by clients beside it.
    All,
}

pub const WRITE_TO_NAMES: &str = "leader, follower, far, all";

impl WriteTo {
    /// The servers that clients write to, numbered from 0.
    pub fn servers(self, topology: &Topology) -> Vec<usize> {
        match self {
            WriteTo::Leader => vec![0],
            WriteTo::Follower => vec![topology.nearest_to(0)],
            WriteTo::Far => vec![topology.farthest_from(0)],
            WriteTo::All => (0..topology.servers).collect(),
        }
    }

    pub fn is_possible(self, system: MeasuredSystem) -> bool {
        system.kind.is_group() || self == WriteTo::Leader
    }
}

impl fmt::Display for WriteTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteTo::Leader => "leader",
            WriteTo::Follower => "follower",
            WriteTo::Far => "far",
            WriteTo::All => "all",
        })
    }
}

impl FromStr for WriteTo {
    type Err = String;

    fn from_str(text: &str) -> Result<WriteTo, String> {
        let all = [
            WriteTo::Leader,
            WriteTo::Follower,
            WriteTo::Far,
            WriteTo::All,
        ];
        let named = all.into_iter().find(|one| one.to_string() == text);
        named.ok_or_else(|| format!("'{text}' is none of {WRITE_TO_NAMES}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_alternate_within_each_repetition() {
        let systems = ["synod", "synod-tls"].map(|name| name.parse().unwrap());
        let plan = Plan {
            command: String::new(),
            systems: systems.to_vec(),
            topologies: vec![Topology::named("same-dc").unwrap()],
            workloads: vec!["oltp_write_only".parse().unwrap()],
            threads: vec![1],
            seconds: 1,
            warm_up_seconds: 0,
            repetitions: 2,
            write_to: WriteTo::Leader,
            sizes: Sizes::default(),
        };
        let turns = plan.turns();
        let names: Vec<String> = turns.iter().map(|turn| turn.system.to_string()).collect();
        assert_eq!(names, ["synod", "synod-tls", "synod", "synod-tls"]);
        let repetitions: Vec<u32> = turns.iter().map(|turn| turn.repetition).collect();
        assert_eq!(repetitions, [1, 1, 2, 2]);
    }

    #[test]
    fn written_servers_follow_from_the_distances() {
        let topology = Topology::named("two-region").unwrap();
        assert_eq!(WriteTo::Follower.servers(&topology), [1]);
        assert_eq!(WriteTo::Far.servers(&topology), [2]);
        assert_eq!(WriteTo::All.servers(&topology), [0, 1, 2]);
        assert!(!WriteTo::Far.is_possible("async".parse().unwrap()));
    }

    #[test]
    fn every_name_is_understood() {
        for name in WRITE_TO_NAMES.split(", ") {
            assert_eq!(name.parse::<WriteTo>().unwrap().to_string(), name);
        }
    }
}
