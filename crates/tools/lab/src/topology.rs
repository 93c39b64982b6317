//! Networks to measure on: how far database servers are from each other.
//!
//! Beside every server there is a host for its clients, [`CLIENT_ROUND_TRIP`] away.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{LabError, Result};
use crate::results::{LinkRecord, TopologyRecord};

/// Round trip between a server and the clients beside it, as in one building.
pub const CLIENT_ROUND_TRIP: Duration = Duration::from_micros(100);

/// The names of the topologies, as command lines take them.
const NAMES: &str = "same-dc, three-dc, two-region, three-region";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub name: String,
    pub servers: usize,
    round_trips: BTreeMap<(usize, usize), Duration>,
}

impl Topology {
    pub fn find(name: &str) -> Result<Topology> {
        Topology::named(name).ok_or_else(|| LabError::BadArgument {
            name: "--topology",
            value: name.to_owned(),
            reason: format!("it is none of {NAMES}"),
        })
    }

    pub fn named(name: &str) -> Option<Topology> {
        let round_trips_us = match name {
            "same-dc" => [100, 100, 100],
            "three-dc" => [1_000, 1_000, 1_000],
            "two-region" => [1_000, 30_000, 30_000],
            "three-region" => [5_000, 30_000, 30_000],
            _ => return None,
        };
        let pairs = [(0, 1), (0, 2), (1, 2)].into_iter();
        Some(Topology {
            name: name.to_owned(),
            servers: 3,
            round_trips: pairs
                .zip(round_trips_us.map(Duration::from_micros))
                .collect(),
        })
    }

    /// The round trip between two servers; none between a server and itself.
    pub fn round_trip(&self, a: usize, b: usize) -> Duration {
        let ends = (a.min(b), a.max(b));
        self.round_trips.get(&ends).copied().unwrap_or_default()
    }

    /// The server that is farthest from this one; of equal ones, the last.
    pub fn farthest_from(&self, server: usize) -> usize {
        let others = (0..self.servers).filter(|other| *other != server);
        let farthest = others.max_by_key(|other| self.round_trip(server, *other));
        farthest.unwrap_or(server)
    }

    /// The server nearest to this one; of equal ones, the first.
    pub fn nearest_to(&self, server: usize) -> usize {
        let others = (0..self.servers).filter(|other| *other != server);
        let nearest = others.min_by_key(|other| self.round_trip(server, *other));
        nearest.unwrap_or(server)
    }

    /// Makes the record for the results, with the measured round trips by pair of servers.
    pub fn record(&self, measured: &BTreeMap<(usize, usize), Duration>) -> TopologyRecord {
        let host = |server: usize| format!("db{}", server + 1);
        let links = self
            .round_trips
            .iter()
            .map(|((a, b), round_trip)| LinkRecord {
                from: host(*a),
                to: host(*b),
                round_trip_ms: milliseconds(*round_trip),
                measured_round_trip_ms: measured.get(&(*a, *b)).copied().map(milliseconds),
            });
        TopologyRecord {
            name: self.name.clone(),
            hosts: (0..self.servers).map(host).collect(),
            links: links.collect(),
            client_round_trip_ms: milliseconds(CLIENT_ROUND_TRIP),
        }
    }

    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.round_trips.keys().copied()
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_found_by_their_names_only() {
        for name in NAMES.split(", ") {
            assert_eq!(Topology::find(name).unwrap().name, name);
        }
        let error = Topology::find("four-dc").unwrap_err().to_string();
        assert!(error.contains(NAMES), "{error}");
    }

    #[test]
    fn near_and_far_are_told_apart() {
        let topology = Topology::named("three-region").unwrap();
        assert_eq!(topology.round_trip(1, 0), Duration::from_millis(5));
        assert_eq!((topology.nearest_to(0), topology.farthest_from(0)), (1, 2));
        assert_eq!(topology.round_trip(2, 2), Duration::ZERO);
    }
}
