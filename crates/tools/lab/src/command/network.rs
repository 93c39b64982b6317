//! `synod-lab network` and `synod-lab link`: the emulated network by itself.

use clap::Args;

use super::{PlaceArgs, own_program, say};
use crate::error::{LabError, Result};
use crate::network::Network;
use crate::results::TopologyRecord;
use crate::router::control::LinkChange;
use crate::router::handle;
use crate::router::queue::LinkSettings;
use crate::topology::{Topology, parse_bandwidth};

/// Arguments of `synod-lab network`.
#[derive(Debug, Args)]
pub(super) struct NetworkArgs {
    /// same-dc, three-dc, two-region, three-region, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "three-dc")]
    topology: String,
    /// Limit every link: 100M, 1G, 10G bits per second
    #[arg(long, value_parser = parse_bandwidth)]
    bandwidth: Option<u64>,
    /// JSON output
    #[arg(long)]
    json: bool,
    /// Leave it up until Ctrl-C or the end of standard input; 'ip netns exec' enters its hosts
    #[arg(long)]
    hold: bool,
}

/// Arguments of `synod-lab link`.
#[derive(Debug, Args)]
pub(super) struct LinkArgs {
    /// One end: db1, client1, ...
    from: String,
    /// The other end
    to: String,
    /// Round trip, milliseconds; half of it in each direction
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    round_trip_ms: f64,
    /// Bits per second in each direction: 100M, 1G, 10G
    #[arg(long, value_parser = parse_bandwidth)]
    bandwidth: Option<u64>,
    /// Lose all packets
    #[arg(long)]
    cut: bool,
    /// Only from the first end to the second
    #[arg(long)]
    one_way: bool,
}

pub(super) fn run(place: &PlaceArgs, arguments: &NetworkArgs) -> Result<u8> {
    let topology = Topology::find(&arguments.topology, arguments.bandwidth)?;
    let network = Network::create(place.take()?, topology.servers, &own_program()?)?;
    network.set(&topology)?;
    let record = topology.record(&network.measure(&topology)?);
    let client_ms = network.measure_client()?.as_secs_f64() * 1000.0;
    if arguments.json {
        let text = serde_json::to_string_pretty(&record).unwrap_or_default();
        say(&text);
    } else {
        say(&table(&record, client_ms));
    }
    if arguments.hold {
        say(&hosts(&network));
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    }
    Ok(0)
}

fn table(record: &TopologyRecord, client_ms: f64) -> String {
    let mut text = format!("{}\n\nlink              set    measured\n", record.name);
    let mut row = |link: &str, set: f64, measured: f64| {
        text += &format!("{link:<12} {set:>5.2} ms {measured:>8.2} ms\n");
    };
    for link in &record.links {
        let measured = link.measured_round_trip_ms.unwrap_or_default();
        let name = format!("{}-{}", link.from, link.to);
        row(&name, link.round_trip_ms, measured);
    }
    row("client1-db1", record.client_round_trip_ms, client_ms);
    text
}

fn hosts(network: &Network) -> String {
    let line = |host: &crate::hosts::Host| {
        let (name, address, namespace) = (&host.name, host.address, &host.namespace);
        format!("  {name:<8} {address}  ip netns exec {namespace} ...\n")
    };
    let lines: String = network.hosts().all().map(line).collect();
    format!("\nhosts:\n{lines}it is up until Ctrl-C")
}

pub(super) fn change_link(place: &PlaceArgs, arguments: &LinkArgs) -> Result<u8> {
    let delay_ns = arguments.round_trip_ms * 1_000_000.0 / 2.0;
    if !(0.0..=5e9).contains(&delay_ns) {
        return Err(LabError::BadArgument {
            name: "--round-trip-ms",
            value: arguments.round_trip_ms.to_string(),
            reason: "it must be from 0 to 10000".into(),
        });
    }
    let settings = LinkSettings {
        delay_ns: delay_ns as u64,
        bandwidth_bits: arguments.bandwidth,
        cut: arguments.cut,
    };
    let change = |from: &str, to: &str| LinkChange {
        from: from.to_owned(),
        to: to.to_owned(),
        settings,
    };
    let mut changes = vec![change(&arguments.from, &arguments.to)];
    if !arguments.one_way {
        changes.push(change(&arguments.to, &arguments.from));
    }
    handle::set(&place.place()?.router_socket(), changes)?;
    Ok(0)
}
