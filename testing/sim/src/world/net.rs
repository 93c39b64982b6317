//! The network between the members: whether a message arrives, and when.
//!
//! Connections have numbers. A frame that was sent over an earlier connection does not arrive, as
//! with TCP. Blocked directions lose everything; loss, duplicates, reordering, delay and bandwidth
//! are options of the run.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::rngs::SmallRng;
use synod_consensus::{GroupId, MemberId};

use crate::options::{Fault, Options};

/// Bytes of a frame besides its content, roughly.
const FRAME_BYTES: u64 = 60;

/// One direction between two members.
#[derive(Debug, Default)]
struct Link {
    /// Time at which all that was sent so far has left the sender, in microseconds.
    busy_until_us: u64,
    /// Time at which all that was sent so far has arrived, in microseconds.
    last_arrival_us: u64,
    /// Factor on the delay, if slow links are on.
    slow: u64,
}

/// The connection between two members. Pairs have the lower id first.
#[derive(Debug, Default)]
struct Connection {
    /// Counts how often it was made or broken.
    number: u64,
    is_up: bool,
    /// The groups they were in when it was made.
    groups: (GroupId, GroupId),
}

/// Arrival time of a message, in microseconds; `None`: never. `second` is that of a duplicate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) first: Option<u64>,
    pub(crate) second: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    blocked: BTreeSet<(MemberId, MemberId)>,
    links: BTreeMap<(MemberId, MemberId), Link>,
    connections: BTreeMap<(MemberId, MemberId), Connection>,
    /// Additional delay of messages from these members, in microseconds.
    late: BTreeMap<MemberId, u64>,
    /// Whether loss, duplicates and slowness have ended.
    pub(crate) healed: bool,
}

fn pair(a: MemberId, b: MemberId) -> (MemberId, MemberId) {
    (a.min(b), a.max(b))
}

impl Network {
    /// Sends a message of `bytes` now; `way` is (from, to).
    pub(crate) fn carry(
        &mut self,
        rng: &mut SmallRng,
        options: &Options,
        now_us: u64,
        way: (MemberId, MemberId),
        bytes: u64,
    ) -> Arrivals {
        let has = |fault| !self.healed && options.has(fault);
        if self.blocked.contains(&way) || (has(Fault::Loss) && rng.random_bool(options.loss)) {
            return Arrivals::default();
        }
        let (reorder, slow_links) = (has(Fault::Reordering), has(Fault::SlowLinks));
        let (bandwidth, duplicates) = (has(Fault::Bandwidth), has(Fault::Duplicates));
        let link = self.links.entry(way).or_insert_with(|| Link {
            slow: if rng.random_bool(0.2) {
                rng.random_range(2..10)
            } else {
                1
            },
            ..Link::default()
        });
        let (min, max) = options.delay_us;
        let mut delay = rng.random_range(min..=max);
        if slow_links {
            delay *= link.slow;
        }
        if !self.healed {
            delay += self.late.get(&way.0).copied().unwrap_or(0);
        }
        let mut left = now_us;
        if bandwidth {
            let takes = (bytes + FRAME_BYTES) * 1_000_000 / options.bytes_per_s;
            left = now_us.max(link.busy_until_us) + takes;
            link.busy_until_us = left;
        }
        let mut first = left + delay;
        if !reorder {
            first = first.max(link.last_arrival_us);
            link.last_arrival_us = first;
        }
        let doubled = duplicates && rng.random_bool(options.duplicates);
        let second = doubled.then(|| first + rng.random_range(0..=20 * max));
        Arrivals {
            first: Some(first),
            second,
        }
    }

    /// Time that the link needs to send what is queued, in microseconds.
    pub(crate) fn backlog_us(&self, now_us: u64, way: (MemberId, MemberId)) -> u64 {
        let link = self.links.get(&way);
        link.map_or(0, |link| link.busy_until_us.saturating_sub(now_us))
    }

    /// The number of the connection between two members; what was sent over an earlier one does not
    /// arrive.
    pub(crate) fn connection(&self, a: MemberId, b: MemberId) -> u64 {
        self.connections.get(&pair(a, b)).map_or(0, |c| c.number)
    }

    pub(crate) fn is_connected(&self, a: MemberId, b: MemberId) -> bool {
        self.connections.get(&pair(a, b)).is_some_and(|c| c.is_up)
    }

    /// The group `of` was in when it connected to `to`.
    pub(crate) fn group(&self, of: MemberId, to: MemberId) -> GroupId {
        let groups = self.connections.get(&pair(of, to)).map(|c| c.groups);
        groups.map_or(
            GroupId::NONE,
            |(low, high)| if of < to { low } else { high },
        )
    }

    pub(crate) fn connected_to(&self, id: MemberId) -> Vec<MemberId> {
        let up = self.connections.iter().filter(|(_, c)| c.is_up);
        up.filter_map(|((a, b), _)| match id {
            id if id == *a => Some(*b),
            id if id == *b => Some(*a),
            _ => None,
        })
        .collect()
    }

    /// Two members connect; `groups` are those that they are in. Returns the connection's number.
    pub(crate) fn connect(&mut self, a: MemberId, b: MemberId, groups: (GroupId, GroupId)) -> u64 {
        let groups = if a < b { groups } else { (groups.1, groups.0) };
        let connection = self.connections.entry(pair(a, b)).or_default();
        connection.number += 1;
        (connection.is_up, connection.groups) = (true, groups);
        connection.number
    }

    /// The connection breaks, and frames under way are lost. False if there was no connection.
    pub(crate) fn disconnect(&mut self, a: MemberId, b: MemberId) -> bool {
        for way in [(a, b), (b, a)] {
            if let Some(link) = self.links.get_mut(&way) {
                (link.busy_until_us, link.last_arrival_us) = (0, 0);
            }
        }
        let Some(connection) = self.connections.get_mut(&pair(a, b)) else {
            return false;
        };
        // Frames that were sent before the other end noticed are lost, too.
        connection.number += 1;
        std::mem::take(&mut connection.is_up)
    }

    pub(crate) fn block(&mut self, from: MemberId, to: MemberId) {
        self.blocked.insert((from, to));
    }

    /// Messages of this member take `us` longer from now on.
    pub(crate) fn delay(&mut self, member: MemberId, us: u64) {
        self.late.insert(member, us);
    }

    pub(crate) fn is_blocked(&self, from: MemberId, to: MemberId) -> bool {
        self.blocked.contains(&(from, to))
    }

    /// Unblocks all directions. Returns the pairs that were blocked.
    pub(crate) fn unblock_all(&mut self) -> Vec<(MemberId, MemberId)> {
        let mut pairs: Vec<_> = std::mem::take(&mut self.blocked)
            .into_iter()
            .map(|(a, b)| pair(a, b))
            .collect();
        pairs.dedup();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Unblocks one direction, drawn at random, and returns it.
    pub(crate) fn unblock_one(&mut self, rng: &mut SmallRng) -> Option<(MemberId, MemberId)> {
        if self.blocked.is_empty() {
            return None;
        }
        let way = *self
            .blocked
            .iter()
            .nth(rng.random_range(0..self.blocked.len()))?;
        self.blocked.remove(&way);
        Some(way)
    }
}
