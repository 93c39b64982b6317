//! Hosts of the servers on a network that can be cut: a network namespace each, joined by a bridge.
//! Only root can make them. They are removed when this is dropped.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use synod_e2e::programs::output_of;
use synod_e2e::{Outcome, Why};
use synod_local_cluster::NodeHost;

const BRIDGE: &str = "synod-iso";

#[derive(Debug)]
pub struct Network {
    nodes: u8,
}

impl Network {
    /// Makes the hosts of so many nodes.
    pub fn create(nodes: u8) -> Outcome<Network> {
        let network = Network { nodes };
        // An earlier run may have been killed.
        network.remove();
        ip(&format!("link add {BRIDGE} type bridge"))?;
        ip(&format!("addr add {}/24 dev {BRIDGE}", address(254)))?;
        ip(&format!("link set {BRIDGE} up"))?;
        for node in 1..=nodes {
            let (space, device) = (namespace(node), format!("{BRIDGE}{node}"));
            ip(&format!("netns add {space}"))?;
            ip(&format!(
                "link add {device} type veth peer name eth0 netns {space}"
            ))?;
            ip(&format!("link set {device} master {BRIDGE} up"))?;
            ip(&format!(
                "-n {space} addr add {}/24 dev eth0",
                address(node)
            ))?;
            ip(&format!("-n {space} link set lo up"))?;
            ip(&format!("-n {space} link set eth0 up"))?;
        }
        Ok(network)
    }

    /// The host of a node, as the cluster's settings name it.
    pub fn host(&self, node: u8) -> NodeHost {
        NodeHost {
            address: IpAddr::V4(address(node)),
            enter: vec![
                "nsenter".into(),
                format!("--net=/run/netns/{}", namespace(node)),
            ],
        }
    }

    /// Drops what a node sends to the others; with `both`, also what they send to it. Clients
    /// reach all. Another node may be cut off already.
    pub fn cut(&self, node: u8, both: bool) -> Outcome {
        self.others(node).try_for_each(|other| {
            route("replace", node, other)?;
            if both {
                route("replace", other, node)
            } else {
                Ok(())
            }
        })
    }

    /// Ends a cut, of whichever kind.
    pub fn join(&self, node: u8) {
        for other in self.others(node) {
            // Only one of them is there after a cut in one direction.
            let _ = route("del", node, other);
            let _ = route("del", other, node);
        }
    }

    fn others(&self, node: u8) -> impl Iterator<Item = u8> + use<> {
        (1..=self.nodes).filter(move |other| *other != node)
    }

    fn remove(&self) {
        for node in 1..=self.nodes {
            // A namespace that is deleted keeps its device for a while.
            let _ = ip(&format!("link del {BRIDGE}{node}"));
            let _ = ip(&format!("netns del {}", namespace(node)));
        }
        let _ = ip(&format!("link del {BRIDGE}"));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.remove();
    }
}

fn address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, 0, node)
}

fn namespace(node: u8) -> String {
    format!("{BRIDGE}-{}-{node}", std::process::id())
}

fn route(how: &str, from: u8, to: u8) -> Outcome {
    ip(&format!(
        "-n {} route {how} blackhole {}/32",
        namespace(from),
        address(to)
    ))
}

fn ip(arguments: &str) -> Outcome {
    let mut command = Command::new("ip");
    let made = output_of(
        command.args(arguments.split(' ')),
        &format!("ip {arguments}"),
    );
    made.map(drop).why("the network of the servers")
}
