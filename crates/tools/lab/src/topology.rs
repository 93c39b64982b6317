//! Networks to measure on: how far database servers are from each other.
//!
//! A topology has a name, or is read from a file:
//!
//! ```toml
//! servers = 3
//! bandwidth = "1G"                # of every link; a link may have its own
//!
//! [[link]]
//! between = [1, 2]
//! round_trip_ms = 5
//!
//! [[link]]
//! between = [1, 3]
//! round_trip_ms = 80
//! bandwidth = "100M"
//!
//! [[link]]
//! between = [2, 3]
//! round_trip_ms = 80
//! ```
//!
//! Beside every server there is a host for its clients, [`CLIENT_ROUND_TRIP`] away.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::error::{IoContext, LabError, Result};
use crate::hosts::SERVERS_MAX;
use crate::results::{LinkRecord, TopologyRecord};

/// Round trip between a server and the clients beside it, as in one building.
pub const CLIENT_ROUND_TRIP: Duration = Duration::from_micros(100);

/// The names of built-in topologies, with a line about each.
const NAMED: [(&str, &str); 4] = [
    ("same-dc", "three servers in one building: 0.1 ms"),
    ("three-dc", "three servers in three buildings: 1 ms"),
    ("two-region", "two servers 1 ms apart, a third at 30 ms"),
    ("three-region", "two servers 5 ms apart, a third at 30 ms"),
];

/// The distances between servers. Numbers of servers are from 0 here, and from 1 in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Its name: built in, or that of its file.
    pub name: String,
    pub servers: usize,
    links: BTreeMap<(usize, usize), Distance>,
}

/// The link between two servers, the same in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Distance {
    pub round_trip: Duration,
    /// Bits per second; none: not limited.
    pub bandwidth_bits: Option<u64>,
}

impl Topology {
    /// The built-in topology of this name, or the one in the file of this name. `bandwidth_bits`
    /// limits all links, also those of a file.
    pub fn find(name: &str, bandwidth_bits: Option<u64>) -> Result<Topology> {
        let mut topology = match Topology::named(name) {
            Some(topology) => topology,
            None => Topology::read(Path::new(name))?,
        };
        if bandwidth_bits.is_some() {
            for distance in topology.links.values_mut() {
                distance.bandwidth_bits = bandwidth_bits;
            }
        }
        Ok(topology)
    }

    pub fn named(name: &str) -> Option<Topology> {
        let round_trips_us = match name {
            "same-dc" => [100, 100, 100],
            "three-dc" => [1_000, 1_000, 1_000],
            "two-region" => [1_000, 30_000, 30_000],
            "three-region" => [5_000, 30_000, 30_000],
            _ => return None,
        };
        let distance = |us| Distance {
            round_trip: Duration::from_micros(us),
            bandwidth_bits: None,
        };
        let pairs = [(0, 1), (0, 2), (1, 2)].into_iter();
        Some(Topology {
            name: name.to_owned(),
            servers: 3,
            links: pairs.zip(round_trips_us.map(distance)).collect(),
        })
    }

    fn read(path: &Path) -> Result<Topology> {
        let known: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let known = known.join(", ");
                return Err(wrong(path, format!("neither one of {known} nor a file")));
            }
            other => other.context("read", path)?,
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        parse(&name, &text).map_err(|reason| wrong(path, reason))
    }

    /// The link between two servers; between a server and itself there is no distance.
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        let ends = (a.min(b), a.max(b));
        self.links.get(&ends).copied().unwrap_or_default()
    }

    /// The server that is farthest from this one; of equal ones, the last.
    pub fn farthest_from(&self, server: usize) -> usize {
        let others = (0..self.servers).filter(|other| *other != server);
        let farthest = others.max_by_key(|other| self.distance(server, *other).round_trip);
        farthest.unwrap_or(server)
    }

    /// The server nearest to this one; of equal ones, the first.
    pub fn nearest_to(&self, server: usize) -> usize {
        let others = (0..self.servers).filter(|other| *other != server);
        let nearest = others.min_by_key(|other| self.distance(server, *other).round_trip);
        nearest.unwrap_or(server)
    }

    /// Makes the record for the results, with the measured round trips by pair of servers.
    pub fn record(&self, measured: &BTreeMap<(usize, usize), Duration>) -> TopologyRecord {
        let host = |server: usize| format!("db{}", server + 1);
        let links = self.links.iter().map(|((a, b), distance)| LinkRecord {
            from: host(*a),
            to: host(*b),
            round_trip_ms: milliseconds(distance.round_trip),
            measured_round_trip_ms: measured.get(&(*a, *b)).copied().map(milliseconds),
            bandwidth_bits: distance.bandwidth_bits,
        });
        TopologyRecord {
            name: self.name.clone(),
            hosts: (0..self.servers).map(host).collect(),
            links: links.collect(),
            client_round_trip_ms: milliseconds(CLIENT_ROUND_TRIP),
        }
    }

    /// All pairs of servers, the lower number first.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.links.keys().copied()
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Reads a bandwidth, bits per second: `100M`, `1G`, `10G`, or a plain number.
pub fn parse_bandwidth(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("'{text}' is not a bandwidth such as 100M, 1G or 10G (bits per second)");
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let bits = number.checked_mul(factor).filter(|bits| *bits > 0);
    bits.ok_or_else(wrong)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    servers: usize,
    bandwidth: Option<String>,
    link: Vec<FileLink>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    between: [usize; 2],
    round_trip_ms: f64,
    bandwidth: Option<String>,
}

fn parse(name: &str, text: &str) -> std::result::Result<Topology, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let servers = file.servers;
    if !(1..=SERVERS_MAX).contains(&servers) {
        return Err(format!(
            "servers = {servers}: there can be 1 to {SERVERS_MAX}"
        ));
    }
    let mut links = BTreeMap::new();
    for link in &file.link {
        let [a, b] = link.between;
        let is_known = |server| (1..=servers).contains(&server);
        if a == b || !is_known(a) || !is_known(b) {
            return Err(format!(
                "between = [{a}, {b}]: there are servers 1 to {servers}"
            ));
        }
        let bandwidth = link.bandwidth.as_ref().or(file.bandwidth.as_ref());
        let distance = Distance {
            round_trip: parse_round_trip(link.round_trip_ms)?,
            bandwidth_bits: bandwidth.map(|text| parse_bandwidth(text)).transpose()?,
        };
        if links
            .insert((a.min(b) - 1, a.max(b) - 1), distance)
            .is_some()
        {
            return Err(format!("between = [{a}, {b}] is there twice"));
        }
    }
    for a in 0..servers {
        for b in a + 1..servers {
            if !links.contains_key(&(a, b)) {
                return Err(format!("no link between {} and {}", a + 1, b + 1));
            }
        }
    }
    let name = name.to_owned();
    Ok(Topology {
        name,
        servers,
        links,
    })
}

/// A round trip of at most ten seconds.
fn parse_round_trip(ms: f64) -> std::result::Result<Duration, String> {
    let seconds = Duration::try_from_secs_f64(ms / 1000.0).ok();
    seconds
        .filter(|time| *time <= Duration::from_secs(10))
        .ok_or_else(|| format!("round_trip_ms = {ms}: it must be from 0 to 10000"))
}

fn wrong(path: &Path, reason: String) -> LabError {
    LabError::BadArgument {
        name: "--topology",
        value: path.display().to_string(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn every_name_that_help_lists_exists() {
        for (name, _) in NAMED {
            assert_eq!(Topology::named(name).unwrap().name, name);
        }
    }

    #[test]
    fn near_and_far_are_told_apart() {
        let topology = Topology::named("three-region").unwrap();
        assert_eq!(topology.distance(1, 0).round_trip, ms(5));
        assert_eq!((topology.nearest_to(0), topology.farthest_from(0)), (1, 2));
        assert_eq!(topology.distance(2, 2), Distance::default());
    }

    #[test]
    fn bandwidth_of_the_command_line_limits_all_links() {
        let topology = Topology::find("two-region", Some(100_000_000)).unwrap();
        let limited = |(a, b)| topology.distance(a, b).bandwidth_bits == Some(100_000_000);
        assert!(topology.pairs().all(limited));
    }

    #[test]
    fn bandwidths_have_units() {
        assert_eq!(parse_bandwidth("100M"), Ok(100_000_000));
        assert_eq!(parse_bandwidth("10G"), Ok(10_000_000_000));
        assert_eq!(parse_bandwidth("64000"), Ok(64_000));
        for text in ["", "0", "G", "1 G", "-1M", "1.5G", "99999999999999999G"] {
            assert!(parse_bandwidth(text).is_err(), "{text}");
        }
    }

    #[test]
    fn file_says_distances_and_bandwidths() {
        let text = "servers = 2\nbandwidth = '1G'\n\
                    [[link]]\nbetween = [2, 1]\nround_trip_ms = 0.25\n";
        let topology = parse("mine", text).unwrap();
        let distance = topology.distance(0, 1);
        assert_eq!(distance.round_trip, Duration::from_micros(250));
        assert_eq!(distance.bandwidth_bits, Some(1_000_000_000));
    }

    #[test]
    fn files_that_leave_something_open_are_refused_in_words() {
        let link = |a, b| format!("[[link]]\nbetween = [{a}, {b}]\nround_trip_ms = 1\n");
        for (text, reason) in [
            (
                format!("servers = 3\n{}{}", link(1, 2), link(1, 3)),
                "no link between 2 and 3",
            ),
            (
                format!("servers = 2\n{}{}", link(1, 2), link(2, 1)),
                "twice",
            ),
            (format!("servers = 2\n{}", link(1, 3)), "servers 1 to 2"),
            ("servers = 0\nlink = []".into(), "there can be 1 to 9"),
            (format!("servers = 2\nspeed = 1\n{}", link(1, 2)), "speed"),
            (
                "servers = 2\n[[link]]\nbetween = [1, 2]\nround_trip_ms = -1".into(),
                "0 to 10000",
            ),
        ] {
            let error = parse("mine", &text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn name_that_is_neither_built_in_nor_a_file_is_refused_with_the_names() {
        let error = Topology::find("same-building", None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("same-dc, three-dc"), "{error}");
    }
}
