//! Faults in the safety phase: what is injected, when, and what gets better again.
//!
//! The fault model is what a correct group survives:
//!
//! * processes and machines: any number of crashes, pauses and power cuts;
//! * network: loss, duplicates, reordering, partitions, slow links;
//! * clocks: drift and jumps by a small share of the protocol's times; clocks that stand still
//!   while a machine is suspended;
//! * disks: full, slow, failing syncs; lost or damaged as far as [`fault_atlas::FaultAtlas`]
//!   allows;
//! * operators: membership, leader transfers, weights, purges, versions (`operators.rs`);
//! * strangers: processes outside the group that speak its protocol (`strangers.rs`);
//! * scenes: faults of several steps at the worst moment for one rule (`scenes.rs`);
//! * at the beginning, sometimes, disks that hang one after the other (`hung_disks.rs`), or
//!   databases that lag (`lagging_databases.rs`), or the loss of each beside a logger
//!   (`lost_beside_logger.rs`), or voters that are replaced (`replaced_voters.rs`),
//!   or full copies that take long (`long_copies.rs`), or disks that are all slow
//!   (`slow_disks.rs`), or actions that fail on one database (`failed_actions.rs`);
//! * at the end, sometimes, the loss of most voters (`quorum_loss.rs`).

mod disk_faults;
mod failed_actions;
pub(crate) mod fault_atlas;
mod hung_disks;
mod lagging_databases;
mod long_copies;
mod lost_beside_logger;
mod operators;
mod quorum_loss;
mod replaced_voters;
pub(crate) mod scenes;
mod slow_disks;
mod stated_floors;
pub(crate) mod strangers;
mod two_histories;
pub(crate) mod versions;

use std::sync::Arc;

use rand::Rng;
use synod_consensus::MemberId;
use synod_log::files::{Fault as FileFault, FaultKind, Op};
use synod_log::{FaultyFiles, MemoryFiles};

use crate::member::recorded_effects::RecordedEffects;
use crate::options::Fault;
use crate::trace::What;
use crate::world::{Event, MS, SECOND, World};

impl World {
    /// Injects one fault, and plans the next.
    pub(crate) fn inject_fault(&mut self) {
        if self.is_liveness_phase {
            return;
        }
        if let Some(length_us) = self.begin_scene() {
            return self.schedule(length_us.max(1), Event::InjectFault);
        }
        let mean_us = self.options.fault_interval_us;
        let after_us = self.draw((1, 2 * mean_us));
        self.schedule(after_us, Event::InjectFault);
        if self.chance(0.25) {
            return self.relieve_fault();
        }
        if self.sets_writers && self.chance(0.3) {
            return self.set_writers();
        }
        if self.holds_version && self.chance(0.2) {
            return self.order_version();
        }
        if self.options.any_orders && self.chance(0.7) {
            return self.order_anything();
        }
        let on: Vec<Fault> = self.options.faults.iter().copied().collect();
        let Some(fault) = self.pick(&on) else { return };
        let all: Vec<MemberId> = self
            .nodes
            .keys()
            .copied()
            .filter(|id| !self.node(*id).gone)
            .collect();
        let up = self.up();
        let (Some(any), Some(live)) = (self.pick(&all), self.pick(&up)) else {
            return;
        };
        self.inject(fault, any, live, (&all, &up));
    }

    /// Injects one fault; `any` is a member, and `live` one that is up.
    fn inject(
        &mut self,
        fault: Fault,
        any: MemberId,
        live: MemberId,
        (all, up): (&[MemberId], &[MemberId]),
    ) {
        match fault {
            // These are in every message, sync or clock.
            Fault::Loss
            | Fault::Duplicates
            | Fault::Reordering
            | Fault::SlowLinks
            | Fault::Bandwidth
            | Fault::SlowApply
            | Fault::Drift
            // This one happens at the end of the safety phase.
            | Fault::ForcedPrimary => {}
            Fault::Partition => self.partition(all),
            Fault::OneWay => self.block_one_way(any, all),
            Fault::Resets => self.reset_connection(live, up),
            Fault::Crash => {
                self.hit(live, fault);
                self.crash(live);
            }
            Fault::PowerCut => {
                self.hit(live, fault);
                self.power_cut(live);
            }
            Fault::Blackout => self.black_out(live, up),
            Fault::Pause => self.pause(live),
            Fault::Suspend => self.suspend(live),
            Fault::Wipe => self.wipe(any),
            Fault::SlowDisk => self.slow_down_disk(live),
            Fault::BitRot => self.rot_somewhere(),
            Fault::RotWhileRunning => self.rot(live, fault),
            Fault::MisdirectedWrite => self.misdirect_write(any),
            Fault::NoSpace | Fault::FailedSync => self.break_disk(live, fault),
            Fault::TornRecovery => self.tear_recovery(any),
            Fault::Jumps => self.jump(live),
            Fault::Members => self.change_members(),
            Fault::LeaderTransfer => self.transfer_leadership(),
            Fault::Purge => self.purge(live),
            Fault::Leave => self.leave(live),
            Fault::Weights => self.weigh(live),
            Fault::Versions => self.change_version(),
        }
    }

    /// Some fault ends.
    fn relieve_fault(&mut self) {
        match self.rng.random_range(0..4) {
            0 => {
                if let Some((a, b)) = self.net.unblock_one(&mut self.rng) {
                    self.reconnect(a, b);
                }
            }
            1 => self.heal_network(),
            2 => {
                for id in self.up() {
                    self.node_mut(id).slow_disk = 0;
                }
            }
            _ => {
                let down: Vec<MemberId> = self
                    .nodes
                    .iter()
                    .filter(|(_, n)| !n.is_up() && !n.gone)
                    .map(|(id, _)| *id)
                    .collect();
                if let Some(id) = self.pick(&down) {
                    self.start(id);
                }
            }
        }
    }

    // --- processes and machines -------------------------------------------------------------

    /// Plans the next start of a member.
    pub(crate) fn restart_later(&mut self, id: MemberId) {
        let epoch = self.node(id).epoch;
        let range = if self.chance(0.5) {
            (0, 50 * MS)
        } else {
            (50 * MS, 3 * SECOND)
        };
        let after_us = self.draw(range);
        self.schedule(after_us, Event::Start { node: id, epoch });
    }

    /// The process ends; the machine stays up.
    pub(crate) fn crash(&mut self, id: MemberId) {
        if self.is_up(id) {
            self.kill(id);
            self.restart_later(id);
        }
    }

    /// A process that runs ends, and stays down.
    pub(crate) fn kill(&mut self, id: MemberId) {
        if self.is_up(id) {
            self.note(id, What::Crashed);
            self.tear_sync(id);
            self.end_process(id);
            self.database_after_crash(id);
        }
    }

    /// The machine loses its power.
    pub(crate) fn power_cut(&mut self, id: MemberId) {
        if self.is_up(id) {
            self.lose_power(id);
            self.restart_later(id);
        }
    }

    /// A machine that runs loses its power, and stays down.
    pub(crate) fn lose_power(&mut self, id: MemberId) {
        if self.is_up(id) {
            self.note(id, What::PowerCut);
            self.tear_sync(id);
            self.end_process(id);
            self.lose_unsynced(id);
            self.database_after_crash(id);
        }
    }

    /// All machines lose their power, in some of the cases.
    fn black_out(&mut self, first: MemberId, up: &[MemberId]) {
        if self.chance(0.15) {
            self.hit(first, Fault::Blackout);
            for id in up {
                self.power_cut(*id);
            }
        }
    }

    /// A process that is syncing may end in the middle of a write.
    fn tear_sync(&mut self, id: MemberId) {
        if self.process(id).syncing_since.is_none() || !self.chance(0.7) {
            return;
        }
        let nth = self.draw((1, 4));
        let kind = if self.chance(0.2) {
            // A write that stops short; nothing works after it.
            FaultKind::Short(self.rng.random_range(1..200))
        } else {
            FaultKind::Always(std::io::ErrorKind::Other)
        };
        let node = self.node(id);
        node.faulty.plan(FileFault {
            op: Op::Change,
            nth,
            kind,
        });
        if matches!(kind, FaultKind::Short(_)) {
            let kind = FaultKind::Always(std::io::ErrorKind::Other);
            node.faulty.plan(FileFault {
                op: Op::Sync,
                nth: 1,
                kind,
            });
        }
        self.coverage.count("torn write");
        if let Ok(Some(ticket)) = self.process(id).storage.sync() {
            // The sync was complete before the fault.
            self.node_mut(id).disk.synced(ticket);
        }
        self.node(id).faulty.heal();
    }

    fn lose_unsynced(&mut self, id: MemberId) {
        // Zero loses everything, the highest number nothing; other seeds choose sector by sector.
        let seed = match self.rng.random_range(0..6) {
            0 => 0,
            1 => u64::MAX,
            _ => self.rng.random(),
        };
        let files = self.node(id).files.crash(seed);
        self.set_files(id, files);
    }

    /// Gives a member other files, on a disk without faults.
    pub(crate) fn set_files(&mut self, id: MemberId, files: MemoryFiles) {
        let node = self.node_mut(id);
        node.faulty = FaultyFiles::new(Arc::new(files.clone()));
        node.files = files;
        node.disk_fault = false;
    }

    fn pause(&mut self, id: MemberId) {
        self.hit(id, Fault::Pause);
        let until_us = self.draw_pause();
        self.pause_until(id, until_us);
        if self.chance(0.5) {
            self.answer_pings_until(id, until_us);
        }
    }

    /// The driver stands still, but the threads that answer pings run.
    fn answer_pings_until(&mut self, id: MemberId, until_us: u64) {
        let period_us = 2 * self.options.timing.heartbeat_us;
        let others: Vec<MemberId> = self.nodes.keys().copied().filter(|to| *to != id).collect();
        for at_us in (self.now_us..until_us).step_by(period_us as usize) {
            for to in &others {
                self.schedule_at(at_us, Event::Pong { of: id, to: *to });
            }
        }
    }

    /// The machine stands still with all its clocks, as a virtual machine that is paused does.
    fn suspend(&mut self, id: MemberId) {
        self.hit(id, Fault::Suspend);
        let (now_us, until_us) = (self.now_us, self.draw_pause());
        let clock = &mut self.node_mut(id).clock;
        clock.stall(now_us, until_us - now_us);
        self.settle(id);
        self.pause_until(id, until_us);
    }

    /// Time at which a pause that begins now is over.
    fn draw_pause(&mut self) -> u64 {
        let timing = &self.options.timing;
        let longest = 2 * timing.election_timeout_max_us;
        self.now_us + self.rng.random_range(timing.heartbeat_us..=longest)
    }

    /// The process stands still, and its database with it.
    pub(crate) fn pause_until(&mut self, id: MemberId, until_us: u64) {
        self.flush_databases();
        let now_us = self.now_us;
        let node = self.node_mut(id);
        // Pauses may overlap: the longer one counts.
        let longer_us = until_us.saturating_sub(node.paused_until_us.max(now_us));
        node.database.stand_still(longer_us);
        node.paused_until_us = node.paused_until_us.max(until_us);
        self.note(id, What::Paused { until_us });
    }

    /// A clock jumps or stalls, seldom and by little: rules about times have this much to spare.
    fn jump(&mut self, id: MemberId) {
        let timing = &self.options.timing;
        let spare_us = timing.promise_us * u64::from(self.options.clock_drift_ppm) / 1_000_000;
        let by_us = self.rng.random_range(0..=spare_us / 5);
        let now_us = self.now_us;
        if self
            .coverage
            .last_jump_us
            .is_some_and(|at| now_us < at + 4 * self.options.timing.promise_us)
        {
            return;
        }
        self.coverage.last_jump_us = Some(now_us);
        self.hit(id, Fault::Jumps);
        let stall = self.chance(0.5);
        let clock = &mut self.node_mut(id).clock;
        if stall {
            clock.stall(now_us, by_us);
        } else {
            clock.jump(now_us, by_us);
        }
        self.settle(id);
    }

    // --- network ----------------------------------------------------------------------------

    fn block_one_way(&mut self, from: MemberId, all: &[MemberId]) {
        if let Some(to) = self.pick(all).filter(|to| *to != from) {
            self.hit(from, Fault::OneWay);
            self.net.block(from, to);
        }
    }

    fn reset_connection(&mut self, one: MemberId, up: &[MemberId]) {
        if let Some(other) = self.pick(up).filter(|other| *other != one) {
            self.hit(one, Fault::Resets);
            self.reconnect(one, other);
        }
    }

    fn partition(&mut self, all: &[MemberId]) {
        let leader = self.leader();
        let mut part: Vec<MemberId> = all
            .iter()
            .copied()
            .filter(|_| self.rng.random_bool(0.4))
            .collect();
        if self.chance(0.4) {
            part = leader.into_iter().collect();
        }
        let Some(first) = part.first() else { return };
        self.hit(*first, Fault::Partition);
        for a in &part {
            for b in all.iter().filter(|b| !part.contains(b)) {
                self.net.block(*a, *b);
                self.net.block(*b, *a);
                if self.chance(0.5) {
                    self.reconnect(*a, *b);
                }
            }
        }
    }

    // --- disks ------------------------------------------------------------------------------

    fn slow_down_disk(&mut self, id: MemberId) {
        self.hit(id, Fault::SlowDisk);
        let slow_us = self.draw((MS, SECOND));
        self.node_mut(id).slow_disk = slow_us;
    }

    fn break_disk(&mut self, id: MemberId, fault: Fault) {
        if self.node(id).disk_fault {
            return;
        }
        self.hit(id, fault);
        let nth = self.draw((1, 6));
        if fault == Fault::FailedSync {
            return self.fail_sync(id, nth);
        }
        let (op, kind) = (
            Op::Write,
            FaultKind::Always(std::io::ErrorKind::StorageFull),
        );
        let node = self.node_mut(id);
        node.disk_fault = true;
        node.faulty.plan(FileFault { op, nth, kind });
    }

    /// The `nth` sync of this member's disk from now on will fail.
    pub(crate) fn fail_sync(&mut self, id: MemberId, nth: u64) {
        let (op, kind) = (Op::Sync, FaultKind::Once(std::io::ErrorKind::Other));
        let node = self.node_mut(id);
        node.disk_fault = true;
        node.faulty.plan(FileFault { op, nth, kind });
    }

    /// The power fails while a log is being opened.
    fn tear_recovery(&mut self, id: MemberId) {
        let node = self.node(id);
        if node.is_up() || node.disk_fault {
            return;
        }
        self.hit(id, Fault::TornRecovery);
        let nth = self.draw((1, 8));
        let kind = FaultKind::Always(std::io::ErrorKind::Other);
        let node = self.node(id);
        node.faulty.plan(FileFault {
            op: Op::Change,
            nth,
            kind,
        });
        let damaged = node.disk.damaged;
        let files = Arc::new(node.faulty.clone());
        let effects = RecordedEffects::new(id, self.wanted_links.clone());
        drop(self.open(files, &effects));
        if damaged {
            self.coverage.count("torn repair");
            self.node_mut(id).disk.repair_torn = true;
        }
        self.lose_unsynced(id);
    }

    /// A disk is lost; its member comes back with a new one, under the same name.
    fn wipe(&mut self, id: MemberId) {
        if self.node(id).gone || !self.may_lose_disk(id) {
            return;
        }
        self.hit(id, Fault::Wipe);
        self.replace_disk(id);
    }

    /// A disk is lost for good. Its member comes back with a new disk and under the same name.
    pub(crate) fn replace_disk(&mut self, id: MemberId) {
        if self.is_up(id) {
            self.end_process(id);
        }
        self.note(id, What::Wiped);
        let node = self.node_mut(id);
        node.gone = true;
        let (name, has_data, wants_vote) = (node.name.clone(), node.has_data, node.wants_vote);
        self.add_member(name, has_data, wants_vote);
    }
}
