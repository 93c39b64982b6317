//! `synod-lab up`: one system on an emulated network, to look at and to measure by hand.

use std::path::Path;

use clap::Args;

use super::{PlaceArgs, own_program, say, servers};
use crate::error::Result;
use crate::network::Network;
use crate::systems::kind::MeasuredSystem;
use crate::systems::{PASSWORD, System, USER, configuration};
use crate::topology::{Topology, parse_bandwidth};

/// Arguments of `synod-lab up`.
#[derive(Debug, Args)]
pub(super) struct UpArgs {
    /// A system, as 'bench --help' lists them
    #[arg(long, default_value = "synod")]
    system: MeasuredSystem,
    /// same-dc, three-dc, two-region, three-region, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "same-dc")]
    topology: String,
    /// Limit every link between hosts: 100M, 1G, 10G bits per second
    #[arg(long, value_parser = parse_bandwidth)]
    bandwidth: Option<u64>,
    #[command(flatten)]
    servers: servers::ServerArgs,
}

/// Starts the system, says how to reach it, and holds it until Ctrl-C.
pub(super) fn run(place: &PlaceArgs, arguments: &UpArgs) -> Result<u8> {
    let topology = Topology::find(&arguments.topology, arguments.bandwidth)?;
    let lab = place.place()?;
    let setup = arguments.servers.setup(&lab, None)?;
    configuration::check(arguments.system.kind, &setup)?;
    let network = Network::create(place.take()?, topology.servers, &own_program()?)?;
    let mut system = System::create(arguments.system, &setup, network.hosts())?;
    system.up()?;
    network.set(&topology)?;
    say(&text(&network, &system, &setup.program));
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    system.down()?;
    Ok(0)
}

/// Addresses of the servers, and commands that connect to them.
fn text(network: &Network, system: &System, program: &Path) -> String {
    let mut text = String::from("servers:\n");
    let mut addresses = Vec::new();
    for (server, host) in system.hosts().iter().enumerate() {
        let (address, port) = system.address(server);
        let role = system.role(server);
        text += &format!("  {} {address}:{port} {role}\n", host.name);
        addresses.push(format!("{}={address}:{port}", host.name));
    }
    let client = &network.hosts().clients[0].namespace;
    let (address, port) = system.address(0);
    let (program, addresses) = (program.display(), addresses.join(","));
    text += &format!(
        "account: {USER}, password {PASSWORD}; for instance\n\
         \x20 ip netns exec {client} mariadb -h{address} -P{port} -u{USER} -p{PASSWORD}\n\
         \x20 ip netns exec {client} {program} lab delay --servers {addresses} --user {USER} \
         --password {PASSWORD}\n\
         it is up until Ctrl-C, or the end of its standard input"
    );
    text
}
