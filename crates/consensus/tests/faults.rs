//! Whole groups under random faults: nothing may be wrong, and after healing everything must end.

mod harness;

use harness::{MS, Options, SECOND, Sim, id, member};
use rand::Rng;
use synod_consensus::{ConfigChange, Limits, LogIndex, MemberId, Timing};

const SEEDS: u64 = 400;

#[test]
fn random_faults() {
    let (first, count) = match std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => (seed, 1),
        None => {
            let count = std::env::var("SEEDS")
                .ok()
                .and_then(|count| count.parse().ok());
            (1, count.unwrap_or(SEEDS))
        }
    };
    let mut total = Totals::default();
    for seed in first..first + count {
        let result = std::panic::catch_unwind(|| run(seed));
        match result {
            Ok(totals) => total.add(&totals),
            Err(panic) => {
                eprintln!("failed with SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    eprintln!("{count} seeds: {total:?}");
    if count >= SEEDS {
        // The test would be worth nothing if the faults prevented all work.
        assert!(total.committed > 100 * count, "{total:?}");
        assert!(
            total.resolved > 30 * count && total.reads > 10 * count,
            "{total:?}"
        );
        assert!(
            total.terms > 3 * count && total.resets > count / 10,
            "{total:?}"
        );
    }
}

#[derive(Debug, Default)]
struct Totals {
    committed: u64,
    resolved: u64,
    reads: u64,
    terms: u64,
    resets: u64,
    leases: u64,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.committed += other.committed;
        self.resolved += other.resolved;
        self.reads += other.reads;
        self.terms += other.terms;
        self.resets += other.resets;
        self.leases += other.leases;
    }
}

/// Which faults are on in this run (swarm testing: never all of them in every run).
struct Faults {
    crash: bool,
    partition: bool,
    one_way: bool,
    slow_disk: bool,
    members: bool,
    burn: bool,
    purge: bool,
    transfer: bool,
}

struct World {
    sim: Sim,
    faults: Faults,
    next_member: u64,
    /// Burnt member and who shall replace it.
    replacement: Option<(MemberId, MemberId)>,
    down: Vec<MemberId>,
}

fn run(seed: u64) -> Totals {
    let mut world = World::new(seed);
    let end = world.sim.now + 8 * SECOND;
    while world.sim.now < end {
        let pause = world.sim.rng.random_range(MS..60 * MS);
        world.sim.run_for(pause);
        world.act();
    }
    world.heal();
    world.finish()
}

fn draw_options(sim: &mut Sim) {
    let rng = &mut sim.rng;
    let lossy = rng.random_bool(0.5);
    let slow = rng.random_bool(0.3);
    let limits = Limits {
        inflight_messages_max: rng.random_range(1..20),
        inflight_bytes_max: rng.random_range(1000..100_000),
        append_bytes_max: rng.random_range(500..20_000),
        uncommitted_bytes_max: rng.random_range(5_000..1_000_000),
        tail_headers_max: rng.random_range(1..100),
    };
    sim.options = Options {
        loss: if lossy {
            rng.random_range(0.0..0.15)
        } else {
            0.0
        },
        duplicates: if lossy {
            rng.random_range(0.0..0.1)
        } else {
            0.0
        },
        delay_us: if slow { (MS, 80 * MS) } else { (200, 2 * MS) },
        sync_us: if rng.random_bool(0.3) {
            (MS, 120 * MS)
        } else {
            (500, 5 * MS)
        },
        drift_ppm: if rng.random_bool(0.5) { 9_900 } else { 0 },
        refusals: 0.05,
        hints: rng.random_bool(0.7),
        limits,
        // A drift of 100% leaves no lease, so that reads need rounds.
        timing: if rng.random_bool(0.4) {
            Timing {
                clock_drift_ppm: 1_000_000,
                ..Timing::default()
            }
        } else {
            Timing::default()
        },
        recovered_headers: rng.random_range(1..60),
        ..Options::default()
    };
}

impl World {
    fn new(seed: u64) -> World {
        // Options are drawn from the seed before the group exists, but it forms in good weather.
        let mut sim = Sim::new(seed, Options::default());
        draw_options(&mut sim);
        let weather = sim.options.clone();
        let calm = Options {
            drift_ppm: weather.drift_ppm,
            limits: weather.limits.clone(),
            timing: weather.timing.clone(),
            recovered_headers: weather.recovered_headers,
            ..Options::default()
        };
        let voters = [1, 2, 3, 3, 3, 4, 5][sim.rng.random_range(0..7)];
        let rng = sim.rng.clone();
        let mut sim = Sim::group(seed, voters, calm);
        sim.rng = rng;
        sim.options = weather;
        let mut on = |p: f64| sim.rng.random_bool(p);
        let faults = Faults {
            crash: on(0.7),
            partition: on(0.5),
            one_way: on(0.4),
            slow_disk: on(0.4),
            members: on(0.5),
            burn: on(0.3),
            purge: on(0.7),
            transfer: on(0.4),
        };
        World {
            sim,
            faults,
            next_member: 100,
            replacement: None,
            down: Vec::new(),
        }
    }

    fn any_up(&mut self) -> Option<MemberId> {
        let up = self.sim.up();
        if up.is_empty() {
            None
        } else {
            Some(up[self.sim.rng.random_range(0..up.len())])
        }
    }

    fn act(&mut self) {
        self.continue_replacement();
        let on = |flag: bool, yes: bool| flag && yes;
        match self.sim.rng.random_range(0..100) {
            0..=44 => self.work(),
            45..=54 => self.read(),
            55..=62 => {
                if on(self.faults.crash, true) {
                    self.crash();
                }
            }
            63..=74 => self.restart(),
            75..=76 if self.faults.partition => self.partition(),
            77..=78 if self.faults.partition => self.isolate_leader(),
            79..=81 if self.faults.one_way => self.block_one_way(),
            82..=84 => self.sim.heal_network(),
            85 if self.sim.rng.random_bool(0.3) => self.swap_leaders(),
            85 => self.bounce(),
            86..=87 if self.faults.slow_disk => {
                if let Some(node) = self.any_up() {
                    let held = self.sim.rng.random_bool(0.5);
                    self.sim.hold_disk(node, held);
                }
            }
            88..=92 if self.faults.members => self.change_members(),
            93 if self.faults.burn => self.burn(),
            94..=96 if self.faults.purge => self.purge(),
            97..=98 if self.faults.transfer => self.transfer(),
            _ => self.reconnect(),
        }
    }

    fn work(&mut self) {
        for _ in 0..self.sim.rng.random_range(1..12) {
            if let Some(node) = self.any_up() {
                self.sim.submit(node);
            }
        }
    }

    fn read(&mut self) {
        if let Some(node) = self.any_up() {
            self.sim.read(node);
        }
    }

    fn crash(&mut self) {
        if let Some(node) = self.any_up() {
            self.sim.crash(node);
            self.down.push(node);
        }
    }

    fn restart(&mut self) {
        if self.down.is_empty() {
            return;
        }
        let node = self
            .down
            .remove(self.sim.rng.random_range(0..self.down.len()));
        self.sim.start(node);
    }

    fn partition(&mut self) {
        let all: Vec<MemberId> = self.sim.nodes.keys().copied().collect();
        let part: Vec<MemberId> = all
            .into_iter()
            .filter(|_| self.sim.rng.random_bool(0.4))
            .collect();
        self.sim.isolate(&part);
    }

    /// The leader loses some of its connections, which the others notice at once; then one of them
    /// restarts, perhaps. Whoever promised something must keep it.
    fn isolate_leader(&mut self) {
        let Some(leader) = self.any_leader() else {
            return;
        };
        let others: Vec<MemberId> = self.sim.up().into_iter().filter(|n| *n != leader).collect();
        for other in others {
            if self.sim.rng.random_bool(0.7) {
                self.sim.blocked.insert((leader, other));
                self.sim.blocked.insert((other, leader));
            }
            if self.sim.rng.random_bool(0.8) {
                self.sim
                    .with(other, |core, now| core.peer_disconnected(now, leader));
            }
        }
        if self.sim.rng.random_bool(0.5) {
            self.bounce();
        }
    }

    /// A deposed leader comes back with a long useless log at the moment its successor dies.
    fn swap_leaders(&mut self) {
        let Some(old) = self.sim.ready_leader() else {
            return;
        };
        self.sim.isolate(&[old]);
        for _ in 0..30 {
            self.sim.submit(old);
        }
        self.sim.run_until(8 * SECOND, |sim| {
            sim.ready_leader().is_some_and(|new| new != old)
        });
        self.sim.heal_network();
        match self.sim.ready_leader() {
            Some(new) if new != old => {
                self.sim.crash(new);
                self.down.push(new);
            }
            _ => {}
        }
    }

    /// A quick restart.
    fn bounce(&mut self) {
        if let Some(node) = self.any_up() {
            self.sim.crash(node);
            let pause = self.sim.rng.random_range(0..20 * MS);
            self.sim.run_for(pause);
            self.sim.start(node);
        }
    }

    fn block_one_way(&mut self) {
        let all: Vec<MemberId> = self.sim.nodes.keys().copied().collect();
        let mut draw = || all[self.sim.rng.random_range(0..all.len())];
        let pair = (draw(), draw());
        self.sim.blocked.insert(pair);
    }

    fn reconnect(&mut self) {
        if let Some(node) = self.any_up() {
            self.sim.node_mut(node).outbox.reconnected();
        }
    }

    /// Any leader, also a deposed one that does not know it.
    fn any_leader(&mut self) -> Option<MemberId> {
        let leaders: Vec<MemberId> = self
            .sim
            .up()
            .into_iter()
            .filter(|n| self.sim.core(*n).is_leader())
            .collect();
        if leaders.is_empty() {
            return None;
        }
        Some(leaders[self.sim.rng.random_range(0..leaders.len())])
    }

    fn change_members(&mut self) {
        let Some(leader) = self.any_leader() else {
            return;
        };
        let config = self.sim.core(leader).config().config.clone();
        let members: Vec<MemberId> = config.members.keys().copied().collect();
        let some = members[self.sim.rng.random_range(0..members.len())];
        let change = match self.sim.rng.random_range(0..6) {
            0 | 1 if members.len() < 6 => {
                let joiner = self.new_member();
                self.sim
                    .with(leader, |core, _| core.set_eligible(joiner, true));
                ConfigChange::AddLearner {
                    id: joiner,
                    member: member(joiner.0),
                }
            }
            2 if self.survives_without(leader, some) => ConfigChange::Demote(some),
            3 if self.survives_without(leader, some) && members.len() > 3 => {
                ConfigChange::Remove(some)
            }
            4 => ConfigChange::Promote(some),
            _ => {
                // Whoever leads promotes whoever is there.
                for member in members {
                    if !self.sim.node(member).gone {
                        self.sim
                            .with(leader, |core, _| core.set_eligible(member, true));
                    }
                }
                return;
            }
        };
        if matches!(change, ConfigChange::Promote(member) if self.sim.node(member).gone) {
            return;
        }
        // Refusals are fine.
        let _ = self
            .sim
            .with(leader, |core, now| core.change_config(now, change));
    }

    fn new_member(&mut self) -> MemberId {
        self.next_member += 1;
        let joiner = id(self.next_member);
        self.sim.add_node(joiner);
        joiner
    }

    /// Whether the voters that are not burnt stay a majority without this member.
    fn survives_without(&self, leader: MemberId, without: MemberId) -> bool {
        let config = &self.sim.core(leader).config().config;
        let rest: Vec<MemberId> = config.voters().filter(|id| *id != without).collect();
        let alive = rest.iter().filter(|id| !self.sim.node(**id).gone).count();
        alive > rest.len() / 2 && rest.len() >= 2
    }

    /// A disk is lost for ever. Never more than one at a time, in a settled group of three or more.
    fn burn(&mut self) {
        let Some(leader) = self.sim.ready_leader() else {
            return;
        };
        let core = self.sim.core(leader);
        let config = core.config();
        let settled = config.index <= core.commit_index()
            && config.config.voters().count() >= 3
            && self.replacement.is_none()
            && config
                .config
                .members
                .keys()
                .all(|id| !self.sim.node(*id).gone);
        if !settled {
            return;
        }
        let voters: Vec<MemberId> = config.config.voters().filter(|id| *id != leader).collect();
        let victim = voters[self.sim.rng.random_range(0..voters.len())];
        self.sim.burn(victim);
        self.down.retain(|id| *id != victim);
        let successor = self.new_member();
        self.replacement = Some((victim, successor));
    }

    fn continue_replacement(&mut self) {
        let Some((old, new)) = self.replacement else {
            return;
        };
        let Some(leader) = self.sim.ready_leader() else {
            return;
        };
        let core = self.sim.core(leader);
        let config = &core.config().config;
        if config.members.contains_key(&new) && core.config().index <= core.commit_index() {
            self.replacement = None;
            return;
        }
        let change = if config.members.contains_key(&old) {
            ConfigChange::Replace {
                old,
                id: new,
                member: member(new.0),
            }
        } else {
            ConfigChange::AddLearner {
                id: new,
                member: member(new.0),
            }
        };
        let _ = self.sim.with(leader, |core, now| {
            core.set_eligible(new, true);
            core.change_config(now, change)
        });
    }

    fn purge(&mut self) {
        let Some(node) = self.any_up() else { return };
        let core = self.sim.core(node);
        let (base, commit) = (core.base().last.index.0, core.commit_index().0);
        if commit <= base {
            return;
        }
        let index = LogIndex(self.sim.rng.random_range(base + 1..=commit));
        if self.sim.rng.random_bool(0.3) {
            if let Some(base) = self.sim.base_at(node, index) {
                for member in self.sim.up() {
                    self.sim
                        .with(node, |core, _| core.set_install_base(member, base.clone()));
                }
            }
        } else {
            self.sim.purge(node, index);
        }
    }

    fn transfer(&mut self) {
        let Some(leader) = self.any_leader() else {
            return;
        };
        let _ = self
            .sim
            .with(leader, |core, now| core.transfer_leadership(now, None));
    }

    // --- the end ----------------------------------------------------------------------------

    fn heal(&mut self) {
        self.sim.options.loss = 0.0;
        self.sim.options.duplicates = 0.0;
        self.sim.heal_network();
        while !self.down.is_empty() {
            self.restart();
        }
        for node in self.sim.up() {
            self.sim.hold_disk(node, false);
        }
    }

    fn finish(mut self) -> Totals {
        let done = |world: &World| {
            let sim = &world.sim;
            let Some(leader) = sim.ready_leader() else {
                return false;
            };
            let members = &sim.core(leader).config().config.members;
            let outstanding = |id: &MemberId| {
                let node = sim.node(*id);
                !node.gone && node.outbox.oldest_outstanding().is_some()
            };
            world.replacement.is_none()
                && sim.is_level()
                && !members.keys().any(outstanding)
                && members
                    .keys()
                    .all(|id| sim.node(*id).gone || sim.core(*id).leader().is_some())
        };
        let limit = self.sim.now + 60 * SECOND;
        while !done(&self) {
            assert!(
                self.sim.now < limit,
                "does not come to rest:\n{}",
                self.sim.describe()
            );
            self.sim.run_for(200 * MS);
            self.continue_replacement();
            for node in self.sim.up() {
                self.sim.node_mut(node).outbox.reconnected();
            }
        }
        self.read_everywhere();
        Totals {
            committed: self.sim.oracle.commit_index().0,
            resolved: self.sim.resolved,
            reads: self.sim.reads_done,
            terms: self
                .sim
                .oracle
                .committed
                .last()
                .map_or(0, |(header, _)| header.term.0),
            resets: self.sim.resets,
            leases: self.sim.lease_reads_possible,
        }
    }

    fn read_everywhere(&mut self) {
        let leader = self.sim.leader().expect("at rest");
        let mut members: Vec<MemberId> = self
            .sim
            .core(leader)
            .config()
            .config
            .members
            .keys()
            .copied()
            .collect();
        members.retain(|id| !self.sim.node(*id).gone);
        let reads: Vec<u64> = members
            .into_iter()
            .map(|member| self.sim.read(member))
            .collect();
        self.sim.expect("answers to reads", 5 * SECOND, |sim| {
            reads.iter().all(|read| sim.is_read_done(*read))
        });
    }
}
