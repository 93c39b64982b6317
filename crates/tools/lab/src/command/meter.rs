//! `synod-lab delay` and the other meters: the group that they observe, which runs already or is
//! started for them.

use super::PlaceArgs;
use crate::error::{LabError, Result};
use crate::meters::{Group, MeterCommand, interrupt};
use crate::network::Network;
use crate::systems::{System, configuration};
use crate::topology::Topology;

/// Runs a meter, on a group of its own if no servers are named.
pub(super) fn run(place: &PlaceArgs, meter: &MeterCommand) -> Result<u8> {
    if let Some(group) = meter.arguments().running_group()? {
        interrupt::watch_signals()?;
        meter.run(group, None)?;
        return Ok(0);
    }
    let arguments = &meter.arguments().lab;
    let measured = arguments.system;
    if !measured.kind.is_group() {
        return Err(LabError::BadArgument {
            name: "--system",
            value: measured.to_string(),
            reason: "meters observe groups: synod, galera, galera-flush1, galera-flush2".into(),
        });
    }
    let topology = Topology::find(&arguments.topology, arguments.bandwidth)?;
    let lab = place.place()?;
    let setup = arguments.servers.setup(&lab, None)?;
    configuration::check(measured.kind, &setup)?;
    let network = Network::create(place.take()?, topology.servers, &setup.program)?;
    let mut system = System::create(measured, &setup, network.hosts())?;
    system.up()?;
    network.set(&topology)?;
    let group = Group::of(&system, &network, &topology);
    meter.run(group, Some(network.place().data()))?;
    system.down()?;
    Ok(0)
}
