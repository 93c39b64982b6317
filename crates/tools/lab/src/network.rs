//! A lab's network: hosts, the router between them, and the topology that is set.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::error::{IoContext, Result};
use crate::hosts::place::OwnPlace;
use crate::hosts::{Host, Hosts, probe};
use crate::router::control::LinkChange;
use crate::router::handle::Router;
use crate::router::queue::LinkSettings;
use crate::topology::{CLIENT_ROUND_TRIP, Topology};

const PROBES: usize = 200;

/// The most that is taken off a one-way delay for the time that devices and the router need
/// themselves. If the machine is so busy that more was measured, that is not what they need.
const OWN_DELAY_MAX: Duration = Duration::from_micros(40);

#[derive(Debug)]
pub struct Network {
    hosts: Hosts,
    router: Router,
    /// One-way delay of the network when the router is told to delay nothing.
    own_delay: Duration,
    place: OwnPlace, // the last field: dropped when the router has ended
}

impl Network {
    /// Makes the hosts and connects them, without delays. `program` is `synod`.
    pub fn create(place: OwnPlace, servers: usize, program: &Path) -> Result<Network> {
        let hosts = Hosts::new(place.name(), servers);
        hosts.create()?;
        let router = Router::start(program, &place.router_socket(), &hosts.for_router())?;
        hosts.connect()?;
        let mut network = Network {
            hosts,
            router,
            own_delay: Duration::ZERO,
            place,
        };
        if let [client, ..] = network.hosts.clients.as_slice() {
            let server = &network.hosts.servers[0];
            network.own_delay = network.probe(client, server)? / 2;
        }
        Ok(network)
    }

    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub fn router(&self) -> &Router {
        &self.router
    }

    pub fn place(&self) -> &OwnPlace {
        &self.place
    }

    pub fn set(&self, topology: &Topology) -> Result<()> {
        self.router
            .set(changes(&self.hosts, topology, self.own_delay))
    }

    /// Loses all packets from the first host of each pair to the second, until the next [`set`].
    ///
    /// [`set`]: Network::set
    pub fn cut(&self, pairs: &[(&Host, &Host)]) -> Result<()> {
        let cut = |(from, to): &(&Host, &Host)| LinkChange {
            from: from.name.clone(),
            to: to.name.clone(),
            settings: LinkSettings {
                cut: true,
                ..LinkSettings::default()
            },
        };
        self.router.set(pairs.iter().map(cut).collect())
    }

    pub fn clear(&self) -> Result<()> {
        let near = |(from, to): (&Host, &Host)| LinkChange {
            from: from.name.clone(),
            to: to.name.clone(),
            settings: LinkSettings::default(),
        };
        self.router.set(pairs(&self.hosts).map(near).collect())
    }

    pub fn measure(&self, topology: &Topology) -> Result<BTreeMap<(usize, usize), Duration>> {
        let servers = &self.hosts.servers;
        topology
            .pairs()
            .map(|(a, b)| Ok(((a, b), self.probe(&servers[a], &servers[b])?)))
            .collect()
    }

    pub fn measure_client(&self) -> Result<Duration> {
        self.probe(&self.hosts.clients[0], &self.hosts.servers[0])
    }

    fn probe(&self, from: &Host, to: &Host) -> Result<Duration> {
        let what = format!("{}-{}", from.name, to.name);
        probe::round_trip(from, to, PROBES).context("measure the link", what)
    }
}

fn pairs(hosts: &Hosts) -> impl Iterator<Item = (&Host, &Host)> {
    let all = || hosts.all();
    let pairs = all().flat_map(move |from| all().map(move |to| (from, to)));
    pairs.filter(|(from, to)| from.name != to.name)
}

/// The settings of every direction of every link. Of the delays, `own` is taken off, which the
/// network takes by itself.
fn changes(hosts: &Hosts, topology: &Topology, own: Duration) -> Vec<LinkChange> {
    let own = own.min(OWN_DELAY_MAX);
    pairs(hosts)
        .map(|(from, to)| {
            let (a, b) = (standing_at(hosts, from), standing_at(hosts, to));
            let clients = u32::from(a.is_client) + u32::from(b.is_client);
            let round_trip = topology.round_trip(a.server, b.server) + CLIENT_ROUND_TRIP * clients;
            let delay = (round_trip / 2).saturating_sub(own);
            LinkChange {
                from: from.name.clone(),
                to: to.name.clone(),
                settings: LinkSettings {
                    delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
                    cut: false,
                },
            }
        })
        .collect()
}

/// Position of a host: a server, or the clients beside a server.
struct Standing {
    server: usize,
    is_client: bool,
}

fn standing_at(hosts: &Hosts, host: &Host) -> Standing {
    let place = |all: &[Host]| all.iter().position(|one| one.name == host.name);
    let client = place(&hosts.clients);
    Standing {
        server: client.or(place(&hosts.servers)).unwrap_or_default(),
        is_client: client.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay_us(from: &str, to: &str, own_us: u64) -> u64 {
        let hosts = Hosts::new("x", 3);
        let topology = Topology::named("two-region").unwrap();
        let all = changes(&hosts, &topology, Duration::from_micros(own_us));
        let change = all.iter().find(|c| c.from == from && c.to == to).unwrap();
        change.settings.delay_ns / 1000
    }

    #[test]
    fn delay_is_half_the_round_trip_with_the_way_from_the_clients() {
        assert_eq!(delay_us("db1", "db2", 0), 500);
        assert_eq!(delay_us("db3", "db1", 0), 15_000);
        assert_eq!(delay_us("client1", "db1", 0), 50);
        assert_eq!(delay_us("db3", "client1", 0), 15_050);
    }

    #[test]
    fn what_the_network_takes_by_itself_is_taken_off_up_to_a_bound() {
        assert_eq!(delay_us("db1", "db2", 20), 480);
        assert_eq!(delay_us("client1", "db1", 20), 30);
        assert_eq!(
            delay_us("db1", "db2", 4000),
            460,
            "measured while the machine was busy"
        );
    }
}
