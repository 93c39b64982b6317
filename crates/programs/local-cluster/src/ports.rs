//! Ports of a node, and checks that they are free.
//!
//! All are on the loopback address. From the base port B on, node N uses B+N-1 for SQL, B+100+N
//! for the group, B+200+N for full copies (SST) and B+300+N for Galera's incremental transfer.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

use crate::error::{ClusterError, Result};

/// Number of ports from the base on that belong to a cluster.
pub const RANGE: u16 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    pub sql: u16,
    pub group: u16,
    /// Full copies, at the joiner.
    pub sst: u16,
    /// Incremental transfer from a Galera donor, at the joiner.
    pub ist: u16,
}

impl Ports {
    pub fn of(base_port: u16, node: u8) -> Ports {
        let node = u16::from(node);
        Ports {
            sql: base_port + node - 1,
            group: base_port + 100 + node,
            sst: base_port + 200 + node,
            ist: base_port + 300 + node,
        }
    }

    /// Checks that no program listens on any of them. If the node's server `ran_before`, it may
    /// have been killed amid a full copy: its library ends the programs that this left on a port.
    pub fn check_free(&self, node: u8, ran_before: bool) -> Result<()> {
        self.check_not(node, ran_before, is_taken)
    }

    fn check_not(&self, node: u8, ran_before: bool, taken: impl Fn(u16) -> bool) -> Result<()> {
        let uses = [
            (self.sql, "SQL clients"),
            (self.group, "the group"),
            (self.ist, "incremental transfer"),
        ];
        let copies = (!ran_before).then_some((self.sst, "full copies"));
        for (port, purpose) in uses.into_iter().chain(copies) {
            if taken(port) {
                return Err(ClusterError::PortInUse {
                    port,
                    purpose,
                    node,
                });
            }
        }
        Ok(())
    }
}

/// Whether a listener exists. Found out by binding, because connecting would disturb the listener.
fn is_taken(port: u16) -> bool {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => false,
        Err(e) => e.kind() == ErrorKind::AddrInUse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_all_nodes_are_distinct_and_in_range() {
        let mut seen = std::collections::BTreeSet::new();
        for node in 1..=crate::settings::NODES_MAX {
            let p = Ports::of(13306, node);
            for port in [p.sql, p.group, p.sst, p.ist] {
                assert!(seen.insert(port), "port {port} is used twice");
                assert!((13306..13306 + RANGE).contains(&port));
            }
        }
    }

    #[test]
    fn taken_port_is_named() {
        let ports = Ports::of(13306, 2);
        let taken = |port| port == ports.sst;
        let error = ports.check_not(2, false, taken).unwrap_err().to_string();
        assert!(error.contains(&format!("port {}", ports.sst)), "{error}");
        assert!(error.contains("node 2"), "{error}");
        assert!(ports.check_not(2, true, taken).is_ok(), "a copy's leftover");
    }

    #[test]
    fn port_of_a_listener_is_taken() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(is_taken(listener.local_addr().unwrap().port()));
    }
}
