//! The rules that hold after every turn of a member: repairs, versions, and bounds.
//!
//! A bound says how much of something a member may hold: log, caches, queues, ranges to be read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;

use synod_consensus::{LogIndex, MemberId};
use synod_member::ReadForPeer;

use crate::invariants::bounds::{Held, within};
use crate::invariants::{Violation, repair, require, versions};
use crate::options::Options;
use crate::world::{SECOND, World};

impl World {
    /// The rules that hold after every turn of a member.
    pub(crate) fn check_member(&mut self, id: MemberId) {
        let core = self.core(id);
        let written = &self.node(id).disk.written;
        let agree = core.last_id() == written.last();
        if !agree {
            let (core, disk) = (core.last_id(), written.last());
            self.judge(Err(Violation {
                rule: "core and log agree",
                what: format!("{id}: the core's log ends at {core}, what was written at {disk}"),
            }));
        }
        let held = self.held(id);
        self.judge(within(id, &held));
        self.check_repair(id);
        let spoken = self.node(id).versions;
        let checked = versions::runs(id, &self.core(id).config().config, spoken);
        self.judge(checked);
    }

    /// A member under repair does not lead; a member whose repair is complete has what it lost.
    fn check_repair(&mut self, id: MemberId) {
        if self.node(id).disk.unrepaired.is_none() {
            return;
        }
        let core = self.core(id);
        if core.repairing_until().is_some() {
            let checked = require(!core.is_leader(), "no leader under repair", || {
                format!("{id} leads in term {}", core.term())
            });
            return self.judge(checked);
        }
        let committed = &self.checks.committed;
        let checked = repair::is_whole(id, &self.node(id).disk, |index| {
            committed.get(index).map(synod_consensus::EntryHeader::id)
        });
        self.judge(checked);
        self.coverage.count("repair complete");
        self.node_mut(id).disk.unrepaired = None;
    }

    /// Since when a member can have known its purge limit, in microseconds. Only a leader states
    /// it. A leader that has just started does not know yet what databases have on their disks. It
    /// accepts no more than its own log can hold; the log of a follower may be full sooner.
    fn may_purge_since(&mut self, id: MemberId) -> u64 {
        let now_us = self.now_us;
        let leader = self.leader();
        let states =
            leader.filter(|leader| self.process(*leader).driver.load().purge_limit > LogIndex(0));
        self.purge_limit_since_us = states.map(|_| self.purge_limit_since_us.unwrap_or(now_us));
        let since_us = self.process(id).since_us;
        if leader == Some(id) {
            since_us
        } else {
            since_us.max(self.purge_limit_since_us.unwrap_or(now_us))
        }
    }

    /// Most bytes that a log may have now. A log that was allowed to grow above its bound is not
    /// shorter at once, but it must not grow further.
    fn log_bytes_max(&mut self, id: MemberId) -> u64 {
        let may_purge = self.now_us.saturating_sub(self.may_purge_since(id)) > SECOND;
        // A leader with a slow disk notices later than others that logs are full.
        let unwritten = self.leader().map_or(0, |leader| {
            let process = self.process(leader);
            if process.driver.core().durable_index() < process.committed {
                process.driver.load().entry_cache_bytes as u64
            } else {
                0
            }
        });
        let Options {
            retain_bytes,
            segment_bytes,
            disk_bytes,
            ..
        } = self.options;
        // Above the bound: what was under way when the log was full.
        let under_way = 20 * segment_bytes;
        let bound = (2 * retain_bytes).max(disk_bytes / 4 * 3) + under_way;
        let found = self.process(id).shared.status().log_bytes;
        let allowed = &mut self.node_mut(id).log_allowed;
        if !may_purge || found <= bound + unwritten {
            *allowed = found;
            return u64::MAX;
        }
        *allowed = found.min(*allowed);
        if *allowed > bound {
            *allowed + under_way
        } else {
            bound
        }
    }

    /// Everything that grows with the load, with its bound. A payload has at most 4 KiB here.
    fn held(&mut self, id: MemberId) -> Vec<Held> {
        let cached_max = self.options.entry_cache_bytes as u64;
        let running = self.nodes.values().filter_map(|node| node.process.as_ref());
        let outstanding: usize = running.map(|p| p.driver.load().submitted).sum();
        let log_max = self.log_bytes_max(id);
        // The ranges of a window, a probe, and one long range.
        let ranges_max = self.options.limits.inflight_messages_max as u64 + 2;
        let process = self.process(id);
        let log_bytes = process.shared.status().log_bytes as usize;
        let is_full = process.shared.is_log_full();
        let (ranges, twice) = ranges_held(&process.catch_ups);
        let (core, load) = (process.driver.core(), process.driver.load());
        let last = core.last_id().index;
        let kept_from = process.committed.min(core.durable_index()).min(last);
        let kept = last.0 - kept_from.0;
        let held = |what, found: usize, max: u64| Held {
            what,
            found: found as u64,
            max,
        };
        let all = vec![
            held(
                "bytes in the entry cache",
                load.entry_cache_bytes,
                cached_max + (kept + 1) * 4096,
            ),
            // Proposals of processes that have ended stay until the next term.
            held(
                "deferred proposals",
                load.deferred,
                outstanding as u64 + 2048,
            ),
            held("certification bytes", load.certification_bytes, 64 << 20),
            held(
                "answers that found no room",
                core.counters().waiting_overflow as usize,
                0,
            ),
            held("log bytes", log_bytes, log_max),
            held("ranges queued for one member", ranges, ranges_max),
            held("ranges queued twice", twice, 0),
        ];
        if is_full {
            self.coverage.count("log full");
        }
        all
    }

    /// Whether the readable part of the log has changed since the last call.
    pub(crate) fn has_moved(&mut self, id: MemberId) -> bool {
        self.process(id).effects.moved.load(Ordering::Relaxed)
    }
}

/// Most ranges queued for one member, and how many ranges repeat another one.
fn ranges_held(requests: &VecDeque<ReadForPeer>) -> (usize, usize) {
    let mut of_member: BTreeMap<MemberId, usize> = BTreeMap::new();
    let mut different = BTreeSet::new();
    let mut fetches = BTreeSet::new();
    for request in requests {
        let ReadForPeer::OldEntries(request) = request else {
            // One for each member that fetches.
            fetches.insert(request.to());
            continue;
        };
        let range = request.range();
        *of_member.entry(range.to).or_default() += 1;
        different.insert((range.to, range.term, range.first, range.last));
    }
    let most = of_member.values().copied().max().unwrap_or(0);
    (most, requests.len() - fetches.len() - different.len())
}
