//! What goes wrong, and what operators do, in the first phase of a run.
//!
//! The fault model is what a correct group survives: any number of crashes and power cuts, any network,
//! clocks within their bound, and lost or damaged disks of one member at a time (an atlas: a good copy
//! of everything committed stays on a majority).

mod disk_faults;
mod quorum_loss;
pub(crate) mod scenes;
mod versions;

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::Rng;
use synod_consensus::{ConfigChange, LeaderPreference, LeaderWeight, MemberId, Role};
use synod_log::files::{Fault as FileFault, FaultKind, Op};
use synod_log::{FaultyFiles, MemoryFiles};
use synod_member::{ConfigRequest, Event as Input, LeaderTransferRequest};

use crate::member::Node;
use crate::member::recorded_effects::RecordedEffects;
use crate::options::Fault;
use crate::trace::What;
use crate::world::{Event, MS, SECOND, World};

impl World {
    /// One trouble, and so on.
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
        match fault {
            // These are in every message, sync or clock.
            Fault::Loss
            | Fault::Duplicates
            | Fault::Reordering
            | Fault::SlowLinks
            | Fault::Bandwidth
            | Fault::SlowApply
            | Fault::Drift
            // This is at the end.
            | Fault::Forced => {}
            Fault::Partition => self.partition(&all),
            Fault::OneWay => {
                if let Some(other) = self.pick(&all).filter(|other| *other != any) {
                    self.hit(any, fault);
                    self.net.block(any, other);
                }
            }
            Fault::Resets => {
                if let Some(other) = self.pick(&up).filter(|other| *other != live) {
                    self.hit(live, fault);
                    self.reconnect(live, other);
                }
            }
            Fault::Crash => {
                self.hit(live, fault);
                self.crash(live);
            }
            Fault::PowerCut => {
                self.hit(live, fault);
                self.power_cut(live);
            }
            Fault::Blackout => {
                if self.chance(0.15) {
                    self.hit(live, fault);
                    for id in up {
                        self.power_cut(id);
                    }
                }
            }
            Fault::Pause => self.pause(live),
            Fault::Wipe => self.wipe(any),
            Fault::SlowDisk => {
                self.hit(live, fault);
                let slow_us = self.draw((MS, SECOND));
                self.node_mut(live).slow_disk = slow_us;
            }
            Fault::BitRot => self.rot_somewhere(),
            Fault::RotWhileRunning => self.rot(live, fault),
            Fault::MisdirectedWrite => self.misdirect_write(any),
            Fault::NoSpace => self.break_disk(live, fault),
            Fault::FailedSync => self.break_disk(live, fault),
            Fault::TornRecovery => self.tear_recovery(any),
            Fault::Jumps => self.jump(live),
            Fault::Members => self.change_members(),
            Fault::Transfer => self.transfer(),
            Fault::Purge => self.purge(live),
            Fault::Leave => self.leave(live),
            Fault::Weights => self.weigh(live),
            Fault::Versions => self.change_version(),
        }
    }

    /// Something gets better.
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

    /// The process ends; the machine goes on.
    pub(crate) fn crash(&mut self, id: MemberId) {
        if !self.is_up(id) {
            return;
        }
        self.note(id, What::Crashed);
        self.tear_sync(id);
        self.end_process(id);
        self.database_after_crash(id);
        self.restart_later(id);
    }

    /// The machine loses its power.
    pub(crate) fn power_cut(&mut self, id: MemberId) {
        if !self.is_up(id) {
            return;
        }
        self.note(id, What::PowerCut);
        self.tear_sync(id);
        self.end_process(id);
        self.lose_unsynced(id);
        self.database_after_crash(id);
        self.restart_later(id);
    }

    /// The end comes in the middle of a write, perhaps.
    fn tear_sync(&mut self, id: MemberId) {
        if !self.process(id).is_syncing || !self.chance(0.7) {
            return;
        }
        let nth = self.draw((1, 4));
        let kind = FaultKind::Always(std::io::ErrorKind::Interrupted);
        let kind = match self.chance(0.2) {
            // A write that stops short, and then nothing.
            true => FaultKind::Short(self.rng.random_range(1..200)),
            false => match kind {
                FaultKind::Always(_) => FaultKind::Always(std::io::ErrorKind::Other),
                other => other,
            },
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
            // It was quicker than the fault.
            self.node_mut(id).disk.synced(ticket);
        }
        self.node(id).faulty.heal();
    }

    fn lose_unsynced(&mut self, id: MemberId) {
        // Zero loses everything, the highest number nothing; others choose sector by sector.
        let seed = match self.rng.random_range(0..6) {
            0 => 0,
            1 => u64::MAX,
            _ => self.rng.random(),
        };
        let files = self.node(id).files.crash(seed);
        self.set_files(id, files);
    }

    pub(crate) fn set_files(&mut self, id: MemberId, files: MemoryFiles) {
        let node = self.node_mut(id);
        node.faulty = FaultyFiles::new(Arc::new(files.clone()));
        node.files = files;
        node.disk_fault = false;
    }

    fn pause(&mut self, id: MemberId) {
        self.hit(id, Fault::Pause);
        let timing = &self.options.timing;
        let longest = 2 * timing.election_timeout_max_us;
        let until_us = self.now_us + self.rng.random_range(timing.heartbeat_us..=longest);
        self.node_mut(id).paused_until_us = until_us;
        self.note(id, What::Paused { until_us });
    }

    /// Clocks may be wrong by less than the bound: with the drift, both ends of a lease together stay
    /// below four fifths of what the lease is shortened by.
    fn jump(&mut self, id: MemberId) {
        let timing = &self.options.timing;
        let spare_us =
            timing.promise_us * u64::from(timing.clock_drift_ppm.min(100_000)) / 1_000_000;
        let by_us = self.rng.random_range(0..=spare_us / 5);
        let now_us = self.now_us;
        // Not twice within a lease.
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
        match stall {
            true => clock.stall(now_us, by_us),
            false => clock.jump(now_us, by_us),
        }
        self.settle(id);
    }

    // --- network ----------------------------------------------------------------------------

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

    /// A sync of this member's disk will fail, this many after now.
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

    // --- operators --------------------------------------------------------------------------

    /// Any leader, also a deposed one that does not know it.
    fn any_leader(&mut self) -> Option<MemberId> {
        let leaders: Vec<MemberId> = self
            .up()
            .into_iter()
            .filter(|id| self.core(*id).is_leader())
            .collect();
        self.pick(&leaders)
    }

    fn change_members(&mut self) {
        let Some(leader) = self.any_leader() else {
            return;
        };
        let config = self.core(leader).config().config.clone();
        let members: Vec<MemberId> = config.members.keys().copied().collect();
        let Some(some) = self.pick(&members) else {
            return;
        };
        let choice = self.rng.random_range(0..5);
        let change = match choice {
            0 if self.nodes.values().filter(|n| !n.gone).count() < 9 => {
                let name = format!("added{}", self.nodes.len());
                let (has_data, wants_vote) = (self.chance(0.7), self.chance(0.6));
                self.hit(leader, Fault::Members);
                self.note(leader, What::Operator { name: "add" });
                return self.add_member(name, has_data, wants_vote);
            }
            1 if self.survives_without(&config, some) => ConfigChange::Demote(some),
            2 if self.survives_without(&config, some) && members.len() > 3 => {
                ConfigChange::Remove(some)
            }
            3 if config
                .members
                .get(&some)
                .is_some_and(|m| m.role == Role::Learner)
                && !self.node(some).gone
                && self.keeps_intact_majority_with(&config, some) =>
            {
                ConfigChange::Promote(some)
            }
            _ => return,
        };
        self.hit(leader, Fault::Members);
        let removes = matches!(change, ConfigChange::Remove(_));
        self.note(
            leader,
            What::Operator {
                name: if removes { "remove" } else { "change" },
            },
        );
        // Refusals are fine.
        let reply = Box::new(drop);
        self.feed(leader, Input::ChangeConfig(ConfigRequest { change, reply }));
        let gone = |world: &World| {
            let config = &world.core(leader).config().config;
            !config.members.contains_key(&some)
        };
        if removes && self.is_up(leader) && self.is_up(some) && gone(self) {
            // The operator stops it. When it is started again, it asks to be let in.
            self.end_process(some);
            self.restart_later(some);
        }
    }

    /// An operator stops a member in good order.
    fn leave(&mut self, id: MemberId) {
        let config = match self.ready_leader() {
            Some(leader) => self.core(leader).config().config.clone(),
            None => return,
        };
        if !self.survives_without(&config, id) {
            return;
        }
        self.hit(id, Fault::Leave);
        self.process(id).is_leaving = true;
        let done = self.process(id).effects.left();
        self.feed(id, Input::Leave(done));
    }

    /// Whether no disk of the other voters is lost or damaged, and they stay a majority of whoever may vote.
    fn survives_without(&self, config: &synod_consensus::Config, without: MemberId) -> bool {
        let rest: BTreeSet<MemberId> = config.voters().filter(|id| *id != without).collect();
        let is_good = |node: &Node| !node.gone && !node.disk.needs_repair();
        let all_good = rest.iter().all(|id| is_good(self.node(*id)));
        rest.len() >= 2 && all_good && self.keeps_intact_majority(&rest, None)
    }

    /// Whether the voters with whole logs stay a majority with this member: where a disk is lost already, one more
    /// voter with a damaged log is one too many.
    fn keeps_intact_majority_with(&self, config: &synod_consensus::Config, with: MemberId) -> bool {
        let voters: BTreeSet<MemberId> = config.voters().chain([with]).collect();
        self.keeps_intact_majority(&voters, None)
    }

    fn transfer(&mut self) {
        let Some(leader) = self.any_leader() else {
            return;
        };
        self.hit(leader, Fault::Transfer);
        self.transfer_from(leader);
    }

    /// An operator orders a leader transfer, to the voter with the most complete log.
    pub(crate) fn transfer_from(&mut self, leader: MemberId) {
        // Refusals are fine.
        let (to, reply) = (None, Box::new(drop));
        let request = LeaderTransferRequest { to, reply };
        self.feed(leader, Input::TransferLeadership(request));
    }

    /// An operator gives a member another weight; it keeps it over restarts.
    fn weigh(&mut self, id: MemberId) {
        let preference = self.draw_preference();
        self.hit(id, Fault::Weights);
        self.node_mut(id).preference = preference;
        self.feed(id, Input::LeaderPreference(preference));
    }

    /// Operators have set up the members with weights.
    pub(crate) fn weigh_all(&mut self) {
        if self.options.has(Fault::Weights) {
            for id in self.up() {
                self.weigh(id);
            }
        }
    }

    fn draw_preference(&mut self) -> LeaderPreference {
        let weight = self.pick(&[0, 1, 50, 51, 100]).and_then(LeaderWeight::new);
        LeaderPreference {
            weight: weight.unwrap_or_default(),
            hands_over: self.chance(0.6),
        }
    }

    /// The wall clock tells that all of the log is old: at the next look, whatever is not needed goes.
    fn purge(&mut self, id: MemberId) {
        self.hit(id, Fault::Purge);
        self.node_mut(id).wall_ahead = true;
    }
}
