//! `synod-lab regions`: commit latency of clients of each region, and of a lone writer of another
//! region before and after the leader has moved there.
//!
//! The round trips of the topology dominate all figures, so a busy machine changes little.

use std::time::{Duration, Instant};

use clap::Args;
use mysql::prelude::Queryable;
use serde::Serialize;

use super::meter::group;
use super::{PlaceArgs, say, servers};
use crate::error::{LabError, Result};
use crate::meters::{Group, Server};
use crate::network::Network;
use crate::statistics::Distribution;
use crate::systems::kind::{MeasuredSystem, SystemKind};
use crate::systems::{System, configuration};
use crate::topology::Topology;

/// The leader stays for half a minute, and follows nearly all writes of ten seconds.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(180);

/// Arguments of `synod-lab regions`.
#[derive(Debug, Args)]
pub(super) struct RegionsArgs {
    /// A topology that names the regions of its servers: five-in-three, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "five-in-three")]
    topology: String,
    /// Commits for each figure
    #[arg(long, value_name = "N", default_value_t = 50)]
    commits: u32,
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
    /// Client of the leader.
    at_leader: Commits,
    /// Client of the writing region, while the leader stays.
    elsewhere: Commits,
    /// Client of the writing region, after the leader has followed.
    followed: Commits,
    /// Time from the command to follow writers until another server led.
    followed_after_s: f64,
    /// Name of the server that leads then.
    leader_in_the_end: String,
}

/// Latency of commits, each after the one before.
#[derive(Debug, Serialize)]
struct Commits {
    /// The server whose client committed.
    server: String,
    region: String,
    /// Time from the statement to its OK.
    latency: Distribution,
}

/// Starts a group, measures it, prints the figures.
pub(super) fn run(place: &PlaceArgs, arguments: &RegionsArgs) -> Result<u8> {
    let topology = Topology::find(&arguments.topology, None)?;
    let writer = elsewhere(&topology)?;
    let lab = place.place()?;
    let mut setup = arguments.servers.setup(&lab)?;
    setup.regions.clone_from(&topology.regions);
    configuration::check(SystemKind::Synod, &setup)?;
    let network = Network::create(place.take()?, topology.servers, &setup.program)?;
    let synod = MeasuredSystem {
        kind: SystemKind::Synod,
        encrypted: false,
    };
    let mut system = System::create(synod, &setup, network.hosts())?;
    system.up()?;
    network.set(&topology)?;
    let group = group(&system, &network, &topology);
    let findings = measure(&system, &group, &topology, writer, arguments.commits)?;
    system.down()?;
    if arguments.json {
        say(&serde_json::to_string_pretty(&findings).unwrap_or_default());
    } else {
        say(&text(&findings));
    }
    Ok(0)
}

/// The first server of another region than the first one's, which leads at first.
fn elsewhere(topology: &Topology) -> Result<usize> {
    let regions = &topology.regions;
    let other = regions.iter().position(|region| *region != regions[0]);
    other.ok_or_else(|| LabError::BadArgument {
        name: "--topology",
        value: topology.name.clone(),
        reason: "its servers must be in two regions at least: region = ['a', 'b', ...]".into(),
    })
}

fn measure(
    system: &System,
    group: &Group,
    topology: &Topology,
    writer: usize,
    commits: u32,
) -> Result<Findings> {
    let create = "CREATE TABLE sbtest.regions (id INT PRIMARY KEY, n BIGINT NOT NULL);
                  INSERT INTO sbtest.regions SELECT seq, 0 FROM sbtest.seq_1_to_9";
    system.query(0, create)?;
    group.await_agreement(&group.servers[0], FOLLOW_TIMEOUT)?;
    // The lab prefers its first server as the leader; here all are alike.
    set_option(group, "synod.leader_weight=50")?;
    let at = |server: usize| -> Result<Commits> {
        let latency = commit(&group.servers[server], server, commits)?;
        let (server, region) = (&group.servers[server].name, &topology.regions[server]);
        Ok(Commits {
            server: server.clone(),
            region: region.clone(),
            latency: Distribution::of(&latency),
        })
    };
    let (at_leader, before) = (at(0)?, at(writer)?);
    set_option(group, "synod.leader=follow-writers")?;
    let begin = Instant::now();
    while system.role(writer) != "leader" {
        if begin.elapsed() > FOLLOW_TIMEOUT {
            return Err(LabError::Timeout {
                what: format!("leadership to follow the writer on {}", before.server),
                seconds: FOLLOW_TIMEOUT.as_secs(),
                now: system.role(writer),
            });
        }
        commit(&group.servers[writer], writer, 5)?;
    }
    let followed_after_s = begin.elapsed().as_secs_f64();
    Ok(Findings {
        topology: topology.name.clone(),
        at_leader,
        elsewhere: before,
        followed: at(writer)?,
        followed_after_s,
        leader_in_the_end: group.servers[group.leader()].name.clone(),
    })
}

/// Sets an option on all servers.
fn set_option(group: &Group, option: &str) -> Result<()> {
    let set = format!("SET GLOBAL wsrep_provider_options = '{option}'");
    for server in &group.servers {
        server.execute(&[&set])?;
    }
    Ok(())
}

/// Commits one after the other, each a change of one row; gives how long each took, milliseconds.
fn commit(server: &Server, place: usize, commits: u32) -> Result<Vec<f64>> {
    let mut connection = server.connect()?;
    let row = place + 1;
    let update = format!("UPDATE sbtest.regions SET n = n + 1 WHERE id = {row}");
    let mut times = Vec::new();
    for _ in 0..commits {
        let begin = Instant::now();
        let done = connection.query_drop(&update);
        done.map_err(|error| server.refused(&update, error))?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}

fn text(findings: &Findings) -> String {
    let line = |what: &str, commits: &Commits| {
        let Commits {
            server,
            region,
            latency,
        } = commits;
        format!(
            "{what:<34} {server} ({region}): p50 {:.1} ms, p95 {:.1} ms of {} commits",
            latency.p50_ms, latency.p95_ms, latency.count
        )
    };
    [
        line("client of the leader", &findings.at_leader),
        line("lone writer of another region", &findings.elsewhere),
        line("the same, after the leader followed", &findings.followed),
        format!(
            "the leader followed after {:.0} s, to {}",
            findings.followed_after_s, findings.leader_in_the_end
        ),
    ]
    .join("\n")
}
