//! `synod-lab network`: the emulated network by itself.

use clap::Args;

use super::{PlaceArgs, own_program, say};
use crate::error::Result;
use crate::network::Network;
use crate::results::TopologyRecord;
use crate::topology::Topology;

/// Arguments of `synod-lab network`.
#[derive(Debug, Args)]
pub(super) struct NetworkArgs {
    /// same-dc, three-dc, two-region, three-region
    #[arg(long, default_value = "three-dc")]
    topology: String,
    /// JSON output
    #[arg(long)]
    json: bool,
    /// Leave it up until Ctrl-C or the end of standard input; 'ip netns exec' enters its hosts
    #[arg(long)]
    hold: bool,
}

pub(super) fn run(place: &PlaceArgs, arguments: &NetworkArgs) -> Result<u8> {
    let topology = Topology::find(&arguments.topology)?;
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
