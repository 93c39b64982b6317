//! Packets under way, and when each is due.
//!
//! Every ordered pair of hosts is a link with a delay, and perhaps cut. Time
//! is an argument: nanoseconds since the router began.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

/// Packets that leave this much after they were due count as late, nanoseconds.
const LATE_NS: u64 = 100_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSettings {
    /// Time on the way, nanoseconds.
    pub delay_ns: u64,
    /// Whether all packets are lost.
    pub cut: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    pub packets: u64,
    /// Their bytes, with headers of IP.
    pub bytes: u64,
    /// Packets that were dropped: the link was cut.
    pub dropped: u64,
    /// Packets that left more than 0.1 ms after they were due.
    pub late: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Due {
    pub to: usize,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Link {
    settings: LinkSettings,
    counters: LinkCounters,
    /// Due time of the packet accepted last. Later ones are not due before it, so that a delay that
    /// becomes shorter puts none out of order.
    last_due_ns: u64,
}

/// All links between some hosts, which have numbers from 0.
#[derive(Debug)]
pub struct Network {
    hosts: usize,
    links: Vec<Link>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    accepted: u64,
}

#[derive(Debug)]
struct UnderWay {
    due_ns: u64,
    /// Number of the packet: packets due at the same time leave in the order of their coming.
    number: u64,
    link: usize,
    bytes: Vec<u8>,
}

impl Network {
    pub fn new(hosts: usize) -> Network {
        let links = (0..hosts * hosts).map(|_| Link::default()).collect();
        Network {
            hosts,
            links,
            under_way: BinaryHeap::new(),
            accepted: 0,
        }
    }

    /// Changes one direction of a link. What is under way keeps its time; a cut loses it.
    pub fn set(&mut self, from: usize, to: usize, settings: LinkSettings) {
        self.links[from * self.hosts + to].settings = settings;
    }

    pub fn counters(&self, from: usize, to: usize) -> LinkCounters {
        self.links[from * self.hosts + to].counters
    }

    /// Takes a packet from its sender. Returns false if the packet was dropped.
    pub fn accept(&mut self, now_ns: u64, from: usize, to: usize, bytes: Vec<u8>) -> bool {
        let index = from * self.hosts + to;
        let link = &mut self.links[index];
        let Some(due_ns) = link.due(now_ns) else {
            link.counters.dropped += 1;
            return false;
        };
        let number = self.accepted;
        self.accepted += 1;
        self.under_way.push(Reverse(UnderWay {
            due_ns,
            number,
            link: index,
            bytes,
        }));
        true
    }

    /// Due time of the next packet; none: no packet is under way.
    pub fn next_due(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse(next)| next.due_ns)
    }

    pub fn pop(&mut self, now_ns: u64) -> Option<Due> {
        while self.next_due()? <= now_ns {
            let Reverse(packet) = self.under_way.pop()?;
            let link = &mut self.links[packet.link];
            if link.settings.cut {
                link.counters.dropped += 1;
                continue;
            }
            link.counters.packets += 1;
            link.counters.bytes += packet.bytes.len() as u64;
            link.counters.late += u64::from(now_ns - packet.due_ns > LATE_NS);
            let to = packet.link % self.hosts;
            return Some(Due {
                to,
                bytes: packet.bytes,
            });
        }
        None
    }
}

impl Link {
    /// Due time of a packet that comes now; none: it is dropped.
    fn due(&mut self, now_ns: u64) -> Option<u64> {
        if self.settings.cut {
            return None;
        }
        self.last_due_ns = self.last_due_ns.max(now_ns + self.settings.delay_ns);
        Some(self.last_due_ns)
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &UnderWay) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for UnderWay {}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &UnderWay) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UnderWay {
    fn cmp(&self, other: &UnderWay) -> Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn network(settings: LinkSettings) -> Network {
        let mut network = Network::new(2);
        network.set(0, 1, settings);
        network
    }

    fn delayed(delay_ns: u64) -> LinkSettings {
        LinkSettings {
            delay_ns,
            ..LinkSettings::default()
        }
    }

    /// First bytes of all packets that are due.
    fn due(network: &mut Network, now_ns: u64) -> Vec<u8> {
        std::iter::from_fn(|| network.pop(now_ns))
            .map(|packet| packet.bytes[0])
            .collect()
    }

    #[test]
    fn packet_is_due_after_the_delay_of_its_direction_and_not_before() {
        let mut network = network(delayed(15 * MS));
        network.accept(MS, 0, 1, vec![7]);
        network.accept(MS, 1, 0, vec![8]);
        let back = network.pop(MS).unwrap();
        assert_eq!((back.to, back.bytes), (0, vec![8]));
        assert_eq!(network.next_due(), Some(16 * MS));
        assert_eq!(network.pop(16 * MS - 1), None);
        let there = network.pop(16 * MS).unwrap();
        assert_eq!((there.to, there.bytes), (1, vec![7]));
        assert_eq!(network.next_due(), None);
    }

    #[test]
    fn packets_of_a_link_keep_their_order_when_its_delay_becomes_shorter() {
        let mut network = network(delayed(30 * MS));
        network.accept(0, 0, 1, vec![1]);
        network.set(0, 1, delayed(MS));
        network.accept(MS, 0, 1, vec![2]);
        assert!(due(&mut network, 29 * MS).is_empty());
        assert_eq!(due(&mut network, 30 * MS), [1, 2]);
        network.accept(40 * MS, 0, 1, vec![3]);
        assert_eq!(network.next_due(), Some(41 * MS));
    }

    #[test]
    fn cut_loses_what_is_under_way_and_what_comes_until_it_is_over() {
        let mut network = network(delayed(MS));
        network.accept(0, 0, 1, vec![1]);
        let cut = LinkSettings {
            cut: true,
            ..delayed(MS)
        };
        network.set(0, 1, cut);
        assert!(!network.accept(0, 0, 1, vec![2]));
        assert!(due(&mut network, MS).is_empty());
        network.set(0, 1, delayed(MS));
        network.accept(MS, 0, 1, vec![3]);
        assert_eq!(due(&mut network, 2 * MS), [3]);
        assert_eq!(network.counters(0, 1).dropped, 2);
    }

    #[test]
    fn counters_tell_what_arrived_and_how_much_of_it_late() {
        let mut network = network(delayed(MS));
        network.accept(0, 0, 1, vec![0; 60]);
        network.accept(0, 0, 1, vec![0; 40]);
        network.pop(MS);
        network.pop(MS + 100_001);
        let expected = LinkCounters {
            packets: 2,
            bytes: 100,
            dropped: 0,
            late: 1,
        };
        assert_eq!(network.counters(0, 1), expected);
    }
}
