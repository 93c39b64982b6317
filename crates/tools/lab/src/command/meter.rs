//! `synod-lab delay` and the other meters: the group that is started for them.

use super::PlaceArgs;
use crate::error::{LabError, Result};
use crate::meters::{Group, MeterCommand};
use crate::network::Network;
use crate::systems::{System, configuration};
use crate::topology::Topology;

pub(super) fn run(place: &PlaceArgs, meter: &MeterCommand) -> Result<u8> {
    let arguments = meter.arguments();
    let measured = arguments.system;
    if !measured.kind.is_group() {
        return Err(LabError::BadArgument {
            name: "--system",
            value: measured.to_string(),
            reason: "meters observe groups: synod, galera, galera-flush1, galera-flush2".into(),
        });
    }
    let topology = Topology::find(&arguments.topology)?;
    let lab = place.place()?;
    let setup = arguments.servers.setup(&lab, None)?;
    configuration::check(measured.kind, &setup)?;
    let network = Network::create(place.take()?, topology.servers, &setup.program)?;
    let mut system = System::create(measured, &setup, network.hosts())?;
    system.up()?;
    network.set(&topology)?;
    let group = Group::of(&system, &topology.name, &network.hosts().clients);
    meter.run(&group, network.place().data())?;
    system.down()?;
    Ok(0)
}
