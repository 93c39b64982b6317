//! Machines that a system of a certificate runs on: the hosts of a lab, or those of others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use synod_local_cluster::ServerUser;

use crate::disk::{DiskChange, PoweredDisk};
use crate::error::Result;
use crate::hosts::Host;
use crate::meters::Group;
use crate::network::Network;
use crate::systems::agent::{Agent, Order};
use crate::systems::kind::MeasuredSystem;
use crate::systems::{Setup, System};
use crate::topology::Topology;

/// Room for a server's files, and for what is written within some minutes; nothing is taken that
/// is not written.
const DISK_BYTES: u64 = 3 << 30;

#[derive(Debug, Clone, Copy)]
pub enum Site<'a> {
    Lab(&'a Network, &'a Topology),
    Remote(&'a [Arc<Agent>]),
}

impl Site<'_> {
    pub(super) fn name(self) -> String {
        match self {
            Site::Lab(_, topology) => topology.name.clone(),
            Site::Remote(agents) => {
                let names = agents.iter().map(|agent| agent.host.name.as_str());
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }

    pub(super) fn machines(self) -> BTreeMap<String, String> {
        let agents: &[Arc<Agent>] = match self {
            Site::Lab(..) => &[],
            Site::Remote(agents) => agents,
        };
        let about = agents
            .iter()
            .map(|agent| (agent.host.name.clone(), agent.about.clone()));
        about.collect()
    }

    pub(super) fn servers(self) -> usize {
        match self {
            Site::Lab(_, topology) => topology.servers,
            Site::Remote(agents) => agents.len(),
        }
    }

    /// A system on disks of its own; those of this machine, too.
    pub(super) fn system(
        self,
        measured: MeasuredSystem,
        setup: &Setup,
    ) -> Result<(System, Vec<PoweredDisk>)> {
        let network = match self {
            Site::Lab(network, _) => network,
            Site::Remote(agents) => {
                let system = System::create_remote(measured, setup, agents, DISK_BYTES)?;
                return Ok((system, Vec::new()));
            }
        };
        let user = ServerUser::find()?;
        let mut disks = Vec::new();
        let mut make_disk = |dir: &Path| {
            disks.push(PoweredDisk::mount(dir, DISK_BYTES)?);
            Ok(user.give(dir)?)
        };
        let system = System::create_in(measured, setup, network.hosts(), &mut make_disk)?;
        Ok((system, disks))
    }

    pub(super) fn group(self, system: &System) -> Group {
        let clients: &[Host] = match self {
            Site::Lab(network, _) => &network.hosts().clients,
            Site::Remote(_) => &[],
        };
        Group::of(system, &self.name(), clients)
    }

    /// Loses all packets from these servers to others, and perhaps those to them.
    pub(super) fn cut(self, hit: &[usize], is_both: bool) -> Result<()> {
        match self {
            Site::Lab(network, _) => {
                let hosts = &network.hosts().servers;
                let links = hit.iter().flat_map(|from| {
                    let others = (0..hosts.len()).filter(move |to| to != from);
                    others.map(move |to| (&hosts[*from], &hosts[to]))
                });
                let back = links.clone().map(|(from, to)| (to, from));
                let back = back.filter(|_| is_both);
                network.cut(&links.chain(back).collect::<Vec<_>>())
            }
            Site::Remote(agents) => {
                let all = agents.iter().map(|agent| IpAddr::V4(agent.host.address));
                let order = Order::Cut(all.collect(), is_both);
                Agent::order_all(&Agent::of(agents, hit), &order)
            }
        }
    }

    pub(super) fn reconnect(self) -> Result<()> {
        match self {
            Site::Lab(network, topology) => network.set(topology),
            Site::Remote(agents) => {
                let all: Vec<&Agent> = agents.iter().map(AsRef::as_ref).collect();
                Agent::order_all(&all, &Order::Reconnect)
            }
        }
    }

    pub(super) fn change_disks(
        self,
        disks: &[PoweredDisk],
        hit: &[usize],
        change: DiskChange,
    ) -> Result<()> {
        match self {
            Site::Lab(..) => {
                let disks: Vec<&PoweredDisk> = hit.iter().map(|at| &disks[*at]).collect();
                PoweredDisk::change(&disks, change)
            }
            Site::Remote(agents) => Agent::order_all(&Agent::of(agents, hit), &Order::Disk(change)),
        }
    }
}
