//! A group that a person steers, for the page of `testing/playground`: members are killed, cut off
//! and slowed down by orders, and no faults happen by themselves. All else is as in other runs: the
//! production code, the clients, and every check.
//!
//! Equal seeds and equal orders at equal times give equal hashes, in whatever steps time passes.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serialize;
use synod_consensus::{Limits, LogIndex, MemberId, Timing};
use synod_member::Client;

use crate::member::effect_checks::role_name;
use crate::options::{Options, Workload};
use crate::world::messages::kind_of;
use crate::world::peers::decode;
use crate::world::{Event, MS, SECOND, World};

/// Entries of each log that are shown.
const SHOWN: u64 = 48;
/// Additional time of each sync of a slow disk, in microseconds.
const SLOW_DISK_US: u64 = 300 * MS;
/// Answers to clients that are not an OK, and change nothing.
const REFUSALS: [&str; 4] = [
    "conflict",
    "snapshot too old",
    "proposal given up",
    "no group to propose to",
];

/// A view of the whole group at one moment. Members are numbers from one; zero: none.
#[derive(Debug, Serialize)]
pub struct Look {
    /// Time since the group was formed, in microseconds.
    pub us: u64,
    /// Hash over all events so far.
    pub hash: String,
    /// The first rule that was broken. Time has stopped then.
    pub broken: Option<String>,
    /// The member that leads and can commit, as far as members that run know.
    pub leader: usize,
    /// Transactions that were answered "committed".
    pub acknowledged: usize,
    /// Acknowledgements of the last second.
    pub per_second: usize,
    /// Time since the last acknowledgement, in microseconds.
    pub silent_us: u64,
    /// Acknowledged transactions that the disks of a majority no longer have.
    pub lost: usize,
    /// Transactions that were refused, most of them because of a conflict.
    pub refused: u64,
    /// Transactions without an answer so far.
    pub waiting: usize,
    /// Transactions whose clients never learn the result: their server died, or it took too long.
    pub unknown: u64,
    /// Index of the first entry that is shown.
    pub first: u64,
    /// Whether each entry shown was acknowledged.
    pub answered: Vec<bool>,
    pub members: Vec<MemberLook>,
    /// Messages under way.
    pub messages: Vec<MessageLook>,
}

/// A member, by its core and by the checkers' account of its disk.
#[derive(Debug, Serialize)]
pub struct MemberLook {
    /// "down", or its role.
    pub role: &'static str,
    pub cut_off: bool,
    pub slow_disk: bool,
    /// A full copy of the database is under way to it.
    pub copying: bool,
    pub term: u64,
    /// The member that it voted for in that term.
    pub voted_for: usize,
    /// The last entry that is purged, then that is known as committed, and that is synced.
    pub base: u64,
    pub committed: u64,
    pub synced: u64,
    /// Last action in the database.
    pub applied: i64,
    /// The term of each entry shown; zero: it is not in the log.
    pub terms: Vec<u64>,
}

/// A message under way.
#[derive(Debug, Serialize)]
pub struct MessageLook {
    /// Number of its arrival, which no other has.
    pub id: u64,
    pub from: usize,
    pub to: usize,
    /// Time of its arrival since the group was formed, in microseconds.
    pub arrives_us: u64,
    pub kind: &'static str,
}

/// A group, from the moment at which it was formed.
pub struct Playground {
    world: World,
    /// In the order of their names.
    members: Vec<MemberId>,
    cut_off: BTreeSet<MemberId>,
    /// The world's time at which the group was formed, in microseconds.
    formed_us: u64,
}

impl Playground {
    /// Forms a group of three to five members.
    pub fn new(seed: u64, members: usize) -> Playground {
        let mut world = World::new(seed, options(members.clamp(3, 5)), false);
        // An option of some seeds, by which commits wait for all databases.
        world.waits_for_all = false;
        world.strangers.is_silent = true;
        world.form();
        let mut members: Vec<MemberId> = world.nodes.keys().copied().collect();
        members.sort_by_key(|id| world.node(*id).name.clone());
        world.schedule(1, Event::ClientWork);
        let formed_us = world.now_us;
        Playground {
            world,
            members,
            cut_off: BTreeSet::new(),
            formed_us,
        }
    }

    /// Lets time pass; none passes once a rule is broken.
    pub fn run(&mut self, us: u64) {
        self.world.run_for(us);
    }

    /// Follows an order about a member; zero: about all. False: there is no such order.
    ///
    /// `k` kills the process (SIGKILL), `p` cuts the power of the machine, `s` starts it; `c` lets
    /// no message of the member pass in either direction, which no member is told, `r` reconnects
    /// it; `d` makes its disk slow, `u` fast again; `w` lets all clients write, `q` only read.
    pub fn follow(&mut self, order: char, number: usize) -> bool {
        let about: Vec<MemberId> = match number.checked_sub(1) {
            None => self.members.clone(),
            Some(at) => self.members.get(at).copied().into_iter().collect(),
        };
        about.into_iter().all(|id| self.follow_one(order, id))
    }

    fn follow_one(&mut self, order: char, id: MemberId) -> bool {
        let world = &mut self.world;
        match order {
            'k' => world.kill(id),
            'p' => world.lose_power(id),
            's' => world.start(id),
            'c' => {
                self.cut_off.insert(id);
                self.block();
            }
            'r' => {
                self.cut_off.remove(&id);
                let pairs = world.net.unblock_all();
                self.block();
                for (a, b) in pairs {
                    if !self.world.net.is_blocked(a, b) {
                        self.world.reconnect(a, b);
                    }
                }
            }
            'd' => world.node_mut(id).slow_disk = SLOW_DISK_US,
            'u' => world.node_mut(id).slow_disk = 0,
            'w' => world.quiet_until_us = 0,
            'q' => world.quiet_until_us = u64::MAX,
            _ => return false,
        }
        true
    }

    fn block(&mut self) {
        for a in &self.cut_off {
            for b in self.members.iter().filter(|b| *b != a) {
                self.world.net.block(*a, *b);
                self.world.net.block(*b, *a);
            }
        }
    }

    /// The group now.
    pub fn look(&self) -> Look {
        let world = &self.world;
        let nodes = world.nodes.values();
        let last = nodes.map(|node| node.disk.written.last().index.0).max();
        let first = (last.unwrap_or(0) + 1).saturating_sub(SHOWN).max(1);
        let mut answered = vec![false; SHOWN as usize];
        let recent = world.acknowledged.iter().rev().take(2 * answered.len());
        for (_, entry) in recent {
            let at = entry.index.0.checked_sub(first);
            if let Some(shown) = at.and_then(|at| answered.get_mut(at as usize)) {
                *shown = true;
            }
        }
        let since_us = world.now_us.saturating_sub(SECOND);
        let all = &world.acknowledged;
        let latest_us = all.last().map_or(self.formed_us, |(us, _)| *us);
        let before = all.partition_point(|(us, _)| *us <= since_us);
        let refused: u64 = REFUSALS.iter().map(|name| world.coverage.of(name)).sum();
        let open = world.transactions.values();
        let waiting = open.filter(|known| !known.caller.is_decided()).count();
        let known = all.len() as u64 + refused + waiting as u64;
        let members = self.members.iter().map(|id| self.member(*id, first));
        Look {
            us: world.now_us - self.formed_us,
            hash: format!("{:016x}", world.trace.hash()),
            broken: world.violation.as_ref().map(ToString::to_string),
            leader: self.number(world.ready_leader()),
            acknowledged: all.len(),
            per_second: all.len() - before,
            silent_us: world.now_us.saturating_sub(latest_us),
            lost: self.lost(),
            refused,
            waiting,
            unknown: world.coverage.of("transaction").saturating_sub(known),
            first,
            answered,
            members: members.collect(),
            messages: self.messages(),
        }
    }

    /// Counts acknowledged entries that the disks of a majority no longer have. What all logs have
    /// purged is in all databases.
    fn lost(&self) -> usize {
        let disks = self.members.iter().map(|id| &self.world.node(*id).disk);
        let purged = disks.map(|disk| disk.durable.base.index).min();
        let kept = |index: LogIndex| Some(index) > purged;
        let all = self.world.acknowledged.iter().map(|(_, entry)| *entry);
        let is_lost = |entry| self.world.check_held(entry).is_err();
        all.filter(|entry| kept(entry.index) && is_lost(*entry))
            .count()
    }

    fn member(&self, id: MemberId, first: u64) -> MemberLook {
        let node = self.world.node(id);
        let core = node.process.as_ref().map(|process| process.driver.core());
        // Of what a dead process had not synced, a page cache may keep any part.
        let (written, synced) = (&node.disk.written, &node.disk.durable);
        let log = if node.is_up() { written } else { synced };
        let shown = (first..first + SHOWN).map(LogIndex);
        let term = |index| log.id_at(index).map_or(0, |entry| entry.term.0);
        MemberLook {
            role: core.map_or("down", |core| role_name(core.role())),
            cut_off: self.cut_off.contains(&id),
            slow_disk: node.slow_disk > 0,
            copying: node.is_up() && node.database.copying,
            term: log.vote.term.0,
            voted_for: self.number(log.vote.voted_for),
            base: log.base.index.0,
            committed: core.map_or(0, |core| core.commit_index().0),
            synced: synced.last().index.0,
            applied: node.database.applied.0,
            terms: shown.map(term).collect(),
        }
    }

    fn messages(&self) -> Vec<MessageLook> {
        let planned = self.world.planned().filter_map(|((at_us, id), event)| {
            let Event::Arrives {
                from,
                to,
                connection,
                frame,
                ..
            } = event
            else {
                return None;
            };
            // Of a connection that broke, nothing arrives.
            if self.world.net.connection(*from, *to) != *connection {
                return None;
            }
            Some(MessageLook {
                id: *id,
                from: self.number(Some(*from)),
                to: self.number(Some(*to)),
                arrives_us: at_us.saturating_sub(self.formed_us),
                kind: kind_of(&decode(frame).ok()?).name,
            })
        });
        planned.collect()
    }

    fn number(&self, id: Option<MemberId>) -> usize {
        let at = self.members.iter().position(|member| Some(*member) == id);
        at.map_or(0, |at| at + 1)
    }
}

/// Options of a small group with the times that a group has by default, messages that take 10 ms,
/// and few clients: a person can follow that. Options that are not named here are off, or are
/// about faults.
fn options(voters: usize) -> Options {
    Options {
        voters,
        loggers: 0,
        learners: 0,
        has_regions: false,
        commits_in_regions: false,
        timing: Timing::default(),
        limits: Limits::default(),
        segment_bytes: 64 << 10,
        cache_bytes: 256 << 10,
        retain_bytes: 1 << 20,
        drops_full_logs: false,
        tail_headers_max: 4096,
        warm_entries: 10_000,
        span_max: 100_000,
        catch_up_bytes: 64 << 10,
        entry_cache_bytes: 1 << 20,
        chunk_bytes: 1 << 20,
        workload: Workload {
            period_us: 60 * MS,
            rows: 400,
            rows_per_action: 2,
            total_order: 0.0,
            pa_unsafe: 0.0,
            reads: 0.1,
            timeout_us: 20 * SECOND,
            hesitant: (0.0, 1),
            filler: (0.3, 200),
        },
        faults: BTreeSet::new(),
        delay_us: (8 * MS, 12 * MS),
        sync_us: (2 * MS, 6 * MS),
        apply_lag_max_us: 0,
        gather: 0.0,
        ..Options::draw(&mut SmallRng::seed_from_u64(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::disk_model::DiskModel;

    #[test]
    fn entry_that_only_a_minority_still_has_counts_as_lost() {
        let mut group = Playground::new(1, 3);
        group.run(3 * SECOND);
        assert!(group.look().acknowledged > 20);
        assert_eq!(group.look().lost, 0);
        for (at, id) in group.members.clone().into_iter().enumerate().take(2) {
            group.world.node_mut(id).disk = DiskModel::default();
            assert_eq!(group.look().lost > 20, at == 1, "without {}", at + 1);
        }
    }
}
