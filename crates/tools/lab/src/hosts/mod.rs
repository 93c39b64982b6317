//! The hosts: network namespaces, one per host, each with one device whose other end is the
//! router's.

pub mod place;
pub mod probe;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{IoContext, LabError, Result};
use crate::router::process::RouterHost;
use crate::tools;

pub const DEVICE: &str = "lab0";

/// Largest packet, bytes, as on networks with jumbo frames: fewer packets, so that the router
/// takes less of the processor from the servers.
const MTU: &str = "9000";

/// Packets that a device holds until the router reads them: more than a connection sends in the
/// time that the router may not get the processor.
const DEVICE_QUEUE: &str = "10000";

const NAMESPACES: &str = "/run/netns";

/// The most database hosts: as many as a cluster on one machine may have nodes.
pub const SERVERS_MAX: usize = synod_local_cluster::NODES_MAX as usize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    /// Its address; the same in every lab, for nothing outside can reach it.
    pub address: Ipv4Addr,
    pub namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    pub servers: Vec<Host>,
    pub clients: Vec<Host>,
}

impl Host {
    fn new(lab: &str, name: String, last_octet: u8) -> Host {
        Host {
            namespace: format!("{}{name}", namespace_prefix(lab)),
            name,
            address: Ipv4Addr::new(10, 77, 0, last_octet),
        }
    }

    pub fn namespace_file(&self) -> PathBuf {
        Path::new(NAMESPACES).join(&self.namespace)
    }

    /// The command that enters the host and then runs what is appended.
    pub fn enter(&self) -> Vec<String> {
        let file = self.namespace_file();
        vec!["nsenter".into(), format!("--net={}", file.display())]
    }

    /// A command for a program on this host. The kernel kills it when this process ends, if the
    /// thread that starts it ends no sooner.
    pub fn command(&self, program: &Path) -> Command {
        let enter = self.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]);
        command
            .args(["setpriv", "--pdeathsig", "KILL"])
            .arg(program);
        command
    }
}

impl Hosts {
    /// The hosts of the lab of this name, with `servers` database servers, at most
    /// [`SERVERS_MAX`].
    pub fn new(lab: &str, servers: usize) -> Hosts {
        let numbers = (1..=SERVERS_MAX.min(servers)).map(|n| n as u8);
        Hosts {
            servers: numbers
                .clone()
                .map(|n| Host::new(lab, format!("db{n}"), n))
                .collect(),
            clients: numbers
                .map(|n| Host::new(lab, format!("client{n}"), 100 + n))
                .collect(),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Host> {
        self.servers.iter().chain(&self.clients)
    }

    pub fn for_router(&self) -> Vec<RouterHost> {
        let host = |host: &Host| RouterHost {
            name: host.name.clone(),
            address: host.address,
            namespace: host.namespace_file(),
        };
        self.all().map(host).collect()
    }

    pub fn create(&self) -> Result<()> {
        for host in self.all() {
            ip(&["netns", "add", &host.namespace])?;
            ip(&["-n", &host.namespace, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    /// Gives the devices, which the router has made, their addresses.
    pub fn connect(&self) -> Result<()> {
        for host in self.all() {
            let address = format!("{}/24", host.address);
            let link = ["-n", &host.namespace, "link", "set", DEVICE];
            ip(&[
                "-n",
                &host.namespace,
                "addr",
                "add",
                &address,
                "dev",
                DEVICE,
            ])?;
            let limits = ["mtu", MTU, "txqueuelen", DEVICE_QUEUE, "up"];
            ip(&[&link[..], &limits[..]].concat())?;
        }
        Ok(())
    }
}

fn namespace_prefix(lab: &str) -> String {
    format!("synod-lab-{lab}-")
}

fn ip(arguments: &[&str]) -> Result<String> {
    tools::output_of(Command::new("ip").args(arguments))
}

/// Runs `work` with this thread in a network namespace, and comes back. Sockets and devices made
/// meanwhile belong to that namespace.
pub fn in_namespace<T>(file: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    use std::os::fd::AsFd;
    let network = Some(LinkNameSpaceType::Network);
    let own = File::open("/proc/thread-self/ns/net")?;
    let other = File::open(file)?;
    move_into_link_name_space(other.as_fd(), network)?;
    let result = work();
    move_into_link_name_space(own.as_fd(), network)?;
    result
}

/// Checks that this process may make namespaces and devices.
pub fn check_machine() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    if !Path::new("/dev/net/tun").exists() {
        return Err(LabError::NoTun);
    }
    for (program, package) in [
        ("ip", "iproute2"),
        ("nsenter", "util-linux"),
        ("setpriv", "util-linux"),
        ("chrt", "util-linux"),
    ] {
        synod_local_cluster::find_program(program, package)?;
    }
    std::fs::create_dir_all(NAMESPACES).context("create", NAMESPACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_a_client_beside_it_and_no_two_share_an_address() {
        let hosts = Hosts::new("mine", 3);
        let names: Vec<&str> = hosts.all().map(|host| host.name.as_str()).collect();
        assert_eq!(
            names,
            ["db1", "db2", "db3", "client1", "client2", "client3"]
        );
        let addresses: std::collections::BTreeSet<_> = hosts.all().map(|h| h.address).collect();
        assert_eq!(addresses.len(), 6);
    }

    #[test]
    fn namespaces_carry_the_name_of_the_lab() {
        let host = &Hosts::new("mine", 1).servers[0];
        assert_eq!(host.namespace, "synod-lab-mine-db1");
        let file = host.namespace_file();
        assert_eq!(file, Path::new("/run/netns/synod-lab-mine-db1"));
    }
}
