//! `synod-lab feeding`: bytes that cross the link to a region of learners if one of them feeds the
//! others, and if the leader sends each of them everything.
//!
//! The same writes go to two groups, one after the other. In the first the servers name their
//! regions; in the second they name none, which is the only way to switch feeding off. The router
//! counts the bytes, with the headers of IP.

use std::time::Duration;

use clap::Args;
use mysql::prelude::Queryable;
use serde::Serialize;

use super::meter::group;
use super::{PlaceArgs, say, servers};
use crate::error::{LabError, Result};
use crate::meters::{Group, Server};
use crate::network::Network;
use crate::systems::kind::{MeasuredSystem, SystemKind};
use crate::systems::{Setup, System, configuration};
use crate::topology::Topology;

/// Time limit for the learners to apply what was committed.
const APPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// Commits before the bytes are counted: the leader has chosen who feeds whom by then.
const FIRST_COMMITS: u32 = 200;

/// Arguments of `synod-lab feeding`.
#[derive(Debug, Args)]
pub(super) struct FeedingArgs {
    /// A topology that names the regions of its servers: five-in-three, or a file
    ///
    /// The first server leads. The largest of the other regions gets learners.
    #[arg(long, value_name = "NAME|FILE", default_value = "five-in-three")]
    topology: String,
    /// Commits, one after the other
    #[arg(long, value_name = "N", default_value_t = 2000)]
    commits: u32,
    /// Bytes of each commit, random, so that they cannot be compressed; 1024 at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    bytes: u32,
    /// JSON output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    servers: servers::ServerArgs,
}

/// Results of the measurement.
#[derive(Debug, Serialize)]
struct Findings {
    topology: String,
    region: String,
    /// All servers of the region.
    learners: Vec<String>,
    /// Bytes that the client wrote, without the overhead of the log.
    written_bytes: u64,
    with_feeding: Crossed,
    without_feeding: Crossed,
    /// Bytes that cross to the region with feeding, as a share of those without.
    share: f64,
}

/// Bytes between the learners' region and the servers elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Crossed {
    to_region_bytes: u64,
    from_region_bytes: u64,
}

/// Measures both groups, prints the figures.
pub(super) fn run(place: &PlaceArgs, arguments: &FeedingArgs) -> Result<u8> {
    let topology = Topology::find(&arguments.topology, None)?;
    let learners = learners_of(&topology)?;
    let lab = place.place()?;
    let mut setup = arguments.servers.setup(&lab)?;
    setup.learners.clone_from(&learners);
    configuration::check(SystemKind::Synod, &setup)?;
    let network = Network::create(place.take()?, topology.servers, &setup.program)?;
    let without_feeding = Setup {
        data: setup.data.join("without-feeding"),
        ..setup.clone()
    };
    let with_feeding = Setup {
        data: setup.data.join("with-feeding"),
        regions: topology.regions.clone(),
        ..setup
    };
    let with_feeding = measure(&with_feeding, &network, &topology, arguments)?;
    let without_feeding = measure(&without_feeding, &network, &topology, arguments)?;
    let name = |server: &usize| network.hosts().servers[*server].name.clone();
    let share = with_feeding.to_region_bytes as f64 / without_feeding.to_region_bytes.max(1) as f64;
    let findings = Findings {
        topology: topology.name.clone(),
        region: topology.regions[learners[0]].clone(),
        learners: learners.iter().map(name).collect(),
        written_bytes: u64::from(arguments.commits) * u64::from(arguments.bytes),
        with_feeding,
        without_feeding,
        share,
    };
    if arguments.json {
        say(&serde_json::to_string_pretty(&findings).unwrap_or_default());
    } else {
        say(&text(&findings));
    }
    Ok(0)
}

/// The servers of the largest region that the first server is not in; of equal ones, the first.
fn learners_of(topology: &Topology) -> Result<Vec<usize>> {
    let regions = &topology.regions;
    let servers_in = |region: &String| -> Vec<usize> {
        let places = regions.iter().enumerate();
        let inside = places.filter(|(_, other)| *other == region);
        inside.map(|(place, _)| place).collect()
    };
    let mut largest: Vec<usize> = Vec::new();
    for region in regions.iter().filter(|region| **region != regions[0]) {
        let servers = servers_in(region);
        if servers.len() > largest.len() {
            largest = servers;
        }
    }
    if largest.len() < 2 {
        return Err(LabError::BadArgument {
            name: "--topology",
            value: topology.name.clone(),
            reason: "two servers at least must be in a region without the first one: \
                     region = ['a', 'b', 'b']"
                .into(),
        });
    }
    Ok(largest)
}

/// Starts a group, has it write, counts the bytes, stops it.
fn measure(
    setup: &Setup,
    network: &Network,
    topology: &Topology,
    arguments: &FeedingArgs,
) -> Result<Crossed> {
    let synod = MeasuredSystem {
        kind: SystemKind::Synod,
        encrypted: false,
    };
    network.clear()?;
    let mut system = System::create(synod, setup, network.hosts())?;
    system.up()?;
    network.set(topology)?;
    let create = "CREATE TABLE sbtest.feeding (id SERIAL, v BLOB NOT NULL)";
    system.query(0, create)?;
    let group = group(&system, network, topology);
    let write = |commits| write(&group, commits, arguments.bytes);
    write(FIRST_COMMITS)?;
    let before = crossed(network, &setup.learners)?;
    write(arguments.commits)?;
    let after = crossed(network, &setup.learners)?;
    system.down()?;
    Ok(Crossed {
        to_region_bytes: after.to_region_bytes - before.to_region_bytes,
        from_region_bytes: after.from_region_bytes - before.from_region_bytes,
    })
}

/// Commits on the first server, and waits until all servers have that.
fn write(group: &Group, commits: u32, bytes: u32) -> Result<()> {
    let leader: &Server = &group.servers[0];
    let mut connection = leader.connect()?;
    let insert = format!("INSERT INTO sbtest.feeding (v) VALUES (RANDOM_BYTES({bytes}))");
    for _ in 0..commits {
        let done = connection.query_drop(&insert);
        done.map_err(|error| leader.refused(&insert, error))?;
    }
    group.await_agreement(leader, APPLY_TIMEOUT)?;
    Ok(())
}

/// Traffic between these servers and all others since the network began.
fn crossed(network: &Network, inside: &[usize]) -> Result<Crossed> {
    let servers = &network.hosts().servers;
    let is_inside = |name: &str| {
        let place = servers.iter().position(|host| host.name == name)?;
        Some(inside.contains(&place))
    };
    let mut crossed = Crossed::default();
    for (link, counters) in network.router().read()?.links {
        match (is_inside(&link.from), is_inside(&link.to)) {
            (Some(false), Some(true)) => crossed.to_region_bytes += counters.bytes,
            (Some(true), Some(false)) => crossed.from_region_bytes += counters.bytes,
            // Within one side, or a client's.
            _ => {}
        }
    }
    Ok(crossed)
}

fn text(findings: &Findings) -> String {
    let megabytes = |bytes: u64| format!("{:.2} MB", bytes as f64 / 1e6);
    let line = |what: &str, crossed: &Crossed| {
        let to = megabytes(crossed.to_region_bytes);
        let from = megabytes(crossed.from_region_bytes);
        format!("{what:<16} {to} to {}, {from} back", findings.region)
    };
    [
        format!(
            "learners in {}: {}; {} committed on db1",
            findings.region,
            findings.learners.join(", "),
            megabytes(findings.written_bytes)
        ),
        line("with feeding", &findings.with_feeding),
        line("without feeding", &findings.without_feeding),
        format!(
            "with feeding {:.0} % of the bytes cross",
            100.0 * findings.share
        ),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_region_without_the_leader_gets_the_learners() {
        let topology = Topology::named("five-in-three").unwrap();
        assert_eq!(learners_of(&topology).unwrap(), [2, 3]);
    }

    #[test]
    fn topology_without_two_servers_in_a_far_region_is_refused() {
        for name in ["same-dc", "two-region"] {
            let topology = Topology::named(name).unwrap();
            let error = learners_of(&topology).unwrap_err().to_string();
            assert!(error.contains("two servers at least"), "{error}");
        }
    }
}
