//! One run in three phases: the group forms without faults; in the safety phase faults happen, and
//! no rule may break; in the liveness phase a random majority is healed, and must come to rest
//! within a bound.
//!
//! Panics of the code under test are findings, too: they are reported with the seed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Once};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_consensus::{LeaderPreference, MemberId};
use synod_log::{FaultyFiles, Log, MemoryFiles};
use synod_member::{StartMode, lock};

use crate::expected::{count_answer, count_options};
use crate::invariants::Violation;
use crate::member::disk_model::{DiskModel, LogImage};
use crate::member::start::LOG_DIR;
use crate::member::{ApplierPace, Database, Node};
use crate::options::{Fault, Options, OptionsError};
use crate::profile::Profile;
use crate::report::{Failed, Passed};
use crate::trace::What;
use crate::world::clock::Clock;
use crate::world::{Event, MS, SECOND, World};

/// The options that a seed draws, with those of its profile.
pub fn options_of(seed: u64) -> Options {
    let mut options = Options::draw(&mut SmallRng::seed_from_u64(seed));
    Profile::of(seed).apply(seed, &mut options);
    options.commits_in_regions = seed % 16 == 7 && !options.is_about_time();
    options.has_regions |= options.commits_in_regions;
    options
}

/// Runs one seed with these options; `print` shows every event.
///
/// # Errors
/// If a rule is broken or the code under test panics.
pub fn run(seed: u64, options: Options, print: bool) -> Result<Passed, Box<Failed>> {
    if let Err(error) = options.check() {
        return Err(refused(seed, options, &error));
    }
    keep_panic_texts();
    let mut world = World::new(seed, options, print);
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match result {
        Ok(()) => world.violation.take(),
        Err(_) => Some(Violation {
            rule: "panic",
            what: LAST_PANIC.with_borrow_mut(std::mem::take),
        }),
    };
    match violation {
        None => Ok(world.passed()),
        Some(violation) => Err(Box::new(world.failed(seed, violation))),
    }
}

fn refused(seed: u64, options: Options, error: &OptionsError) -> Box<Failed> {
    Box::new(Failed {
        seed,
        rule: "options".to_owned(),
        what: error.to_string(),
        state: String::new(),
        options: Box::new(options),
        last: Vec::new(),
    })
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    static QUIET: RefCell<bool> = const { RefCell::new(false) };
}

/// While a run is under way in this thread, the text of a panic is kept for its report, and not
/// printed.
fn keep_panic_texts() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.with_borrow(|quiet| *quiet) {
                LAST_PANIC.with_borrow_mut(|last| *last = info.to_string());
            } else {
                usual(info);
            }
        }));
    });
}

impl World {
    fn run(&mut self) {
        QUIET.with_borrow_mut(|quiet| *quiet = true);
        let done = catch_unwind(AssertUnwindSafe(|| self.phases()));
        QUIET.with_borrow_mut(|quiet| *quiet = false);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    }

    fn phases(&mut self) {
        self.form();
        if self.violation.is_some() {
            return;
        }
        self.note(MemberId::NONE, What::Phase { name: "safety" });
        self.weigh_all();
        if self.sets_writers {
            self.set_writers();
        }
        if self.holds_version {
            self.order_version();
        }
        self.schedule(1, Event::ClientWork);
        if self.options.hung_disks {
            self.hang_disks_in_turn();
        }
        if self.options.slow_disks {
            self.slow_all_disks();
        }
        if self.options.lagging_databases {
            self.slow_databases_in_turn();
        }
        if self.options.lost_beside_logger {
            self.lose_each_beside_logger();
        }
        if self.options.replaced_voters {
            self.replace_voters_in_turn();
        }
        if self.options.long_copies {
            self.copy_for_long();
        }
        if self.options.failing_actions {
            self.fail_actions_in_turn();
        }
        self.schedule(1, Event::InjectFault);
        let safety_us = self.options.safety_us;
        self.run_for(safety_us);
        if self.violation.is_some() {
            return;
        }
        self.note(MemberId::NONE, What::Phase { name: "liveness" });
        self.is_liveness_phase = true;
        self.net.healed = true;
        for id in self.up() {
            self.give_regions_up(id);
        }
        self.finish_upgrade();
        let survivors = if self.options.two_histories {
            self.meet_two_histories()
        } else if self.has(Fault::ForcedPrimary) && self.chance(0.5) {
            self.continue_with_forced_primary()
        } else {
            None
        };
        let core = match survivors {
            Some(survivors) => survivors,
            None => self.heal(),
        };
        self.converge(&core);
    }

    // --- the beginning ----------------------------------------------------------------------

    /// One member founds the group and the others join it, without faults.
    pub(crate) fn form(&mut self) {
        let (healed, faults) = (true, std::mem::take(&mut self.options.faults));
        self.net.healed = healed;
        let Options {
            voters,
            loggers,
            learners,
            ..
        } = self.options;
        self.options.faults = faults
            .iter()
            .copied()
            .filter(|f| matches!(f, Fault::Drift | Fault::Versions))
            .collect();
        let founder = self.add_founder();
        for n in 1..voters + loggers + learners {
            let (has_data, wants_vote) = match n {
                n if n < voters => (true, true),
                n if n < voters + loggers => (false, true),
                _ => (true, false),
            };
            self.add_member(format!("node{}", n + 1), has_data, wants_vote);
        }
        let voting = voters + loggers;
        let formed = self.run_until(120 * SECOND, |world| {
            world.is_up(founder)
                && world.core(founder).is_ready_leader()
                && world.core(founder).config().config.voters().count() == voting
                && world.core(founder).config().config.members.len() == voters + loggers + learners
                && world.core(founder).config().index <= world.core(founder).commit_index()
        });
        let formed = formed && (!self.options.commits_in_regions || self.ask_for_regions(founder));
        self.options.faults = faults;
        self.net.healed = false;
        if !formed {
            self.stuck("the group does not form", &[founder].into());
        }
    }

    fn add_founder(&mut self) -> MemberId {
        let founder = self.new_node("node1".to_owned(), true, true);
        self.start_as(founder, StartMode::Bootstrap);
        founder
    }

    /// A new member starts and asks to join.
    pub(crate) fn add_member(&mut self, name: String, has_data: bool, wants_vote: bool) {
        let id = self.new_node(name, has_data, wants_vote);
        self.start(id);
    }

    pub(crate) fn new_node(&mut self, name: String, has_data: bool, wants_vote: bool) -> MemberId {
        let seed = self.rng.random();
        let files = MemoryFiles::new(seed);
        if self.options.disk_bytes > 0 {
            files.set_size(self.options.disk_bytes);
        }
        let faulty = FaultyFiles::new(Arc::new(files.clone()));
        let dir = Path::new(LOG_DIR);
        let made = Log::open(
            Arc::new(faulty.clone()),
            dir,
            self.log_options(self.options.retain_bytes),
        );
        let opened = made.expect("a blank disk without faults takes a log");
        let id = opened.identity.member;
        let disk = DiskModel::recovered(LogImage::of(&opened.recovered));
        drop(opened);
        let (clock, versions) = (self.draw_clock(), self.draw_versions());
        let node = Node {
            name,
            has_data,
            retain_bytes: self.options.retain_bytes,
            wants_vote,
            versions,
            clock,
            files,
            faulty,
            disk,
            process: None,
            epoch: 0,
            timing: self.options.timing.clone(),
            paused_until_us: 0,
            gone: false,
            stays_down: false,
            database: Database::default(),
            slow_disk: 0,
            applies: ApplierPace::Usual,
            failing: None,
            disk_fault: false,
            damage_met: None,
            preference: LeaderPreference::default(),
            wall_ahead: false,
            log_allowed: 0,
        };
        self.nodes.insert(id, node);
        id
    }

    fn draw_clock(&mut self) -> Clock {
        let spare_ppm = i64::from(self.options.clock_drift_ppm) / 5;
        let rate_ppm = if self.options.has(Fault::Drift) {
            self.rng.random_range(-spare_ppm..=spare_ppm)
        } else {
            0
        };
        let offset_us = self.rng.random_range(0..1000 * SECOND);
        Clock::new(offset_us, rate_ppm)
    }

    // --- the end ----------------------------------------------------------------------------

    /// All faults end within a random core; the other members stay as they are, unreachable.
    fn heal(&mut self) -> BTreeSet<MemberId> {
        if self.has(Fault::Leave) {
            // No shutdown continues: it could demote a voter that the core needs.
            for id in self.up() {
                self.end_process(id);
            }
        }
        let core = self.draw_core();
        self.net.unblock_all();
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        for outside in all.iter().filter(|id| !core.contains(id)) {
            for inside in &core {
                self.net.block(*outside, *inside);
                self.net.block(*inside, *outside);
                // Frames under way are lost, too: one could bring a configuration with more voters.
                self.disconnect(*inside, *outside);
            }
        }
        for id in &core {
            let now_us = self.now_us;
            let node = self.node_mut(*id);
            node.faulty.heal();
            node.end_pause(now_us);
            node.slow_disk = 0;
            node.applies = ApplierPace::Usual;
            self.start(*id);
        }
        for a in &core {
            for b in core.iter().filter(|b| *b > a) {
                self.reconnect(*a, *b);
            }
        }
        core
    }

    /// A random set of members that can elect a leader and has a copy of everything
    /// ([`World::suffices`]); sometimes all members.
    fn draw_core(&mut self) -> BTreeSet<MemberId> {
        // All members start, so that the configurations on their disks are known.
        let all: Vec<MemberId> = self
            .nodes
            .iter()
            .filter(|(_, n)| !n.gone)
            .map(|(id, _)| *id)
            .collect();
        for id in &all {
            self.node(*id).faulty.heal();
            // A start shows what damage has done.
            if self.is_up(*id) && self.node(*id).disk.damaged {
                self.end_process(*id);
            }
            self.start(*id);
        }
        let mut core: BTreeSet<MemberId> = BTreeSet::new();
        let mut rest = all;
        while !self.suffices(&core) && !rest.is_empty() {
            let at = self.rng.random_range(0..rest.len());
            core.insert(rest.swap_remove(at));
        }
        // Sometimes all members.
        if self.chance(0.4) {
            core.extend(rest);
        }
        core
    }

    /// Whether a core can come to rest: all are up, it can elect a leader, and it has a copy of
    /// everything.
    fn suffices(&self, core: &BTreeSet<MemberId>) -> bool {
        let with_data = core
            .iter()
            .any(|id| self.node(*id).has_data && !self.node(*id).database.copying);
        let up = core.iter().all(|id| self.is_up(*id));
        up && with_data && self.can_elect(core) && self.newest_copy_inside(core)
    }

    /// Whether a member of the core gets the votes of a majority, in every configuration that some
    /// member of the core with an undamaged log takes to be in force. A member under repair does
    /// not stand, and votes only for members that have everything that it has lost.
    fn can_elect(&self, core: &BTreeSet<MemberId>) -> bool {
        let is_whole = |id: &MemberId| self.core(*id).repairing_until().is_none();
        let whole = || core.iter().copied().filter(is_whole);
        let is_voter = |id: &MemberId| self.core(*id).config().config.is_voter(*id);
        let best = whole().filter(is_voter).map(|id| self.core(id).last_id());
        let Some(best) = best.max() else {
            return false;
        };
        let supports = |id: &MemberId| {
            let reaches = |until| until <= best;
            core.contains(id) && self.core(*id).repairing_until().is_none_or(reaches)
        };
        let has_quorum = |id: MemberId| {
            let config = &self.core(id).config().config;
            let voters: Vec<MemberId> = config.voters().collect();
            let supporters = voters.iter().filter(|voter| supports(voter)).count();
            // A member outside the core may still be promoted, and then does not answer.
            let may_come = |(id, node): &(&MemberId, &Node)| {
                node.wants_vote && !node.gone && !core.contains(id) && !voters.contains(id)
            };
            supporters > (voters.len() + self.nodes.iter().filter(may_come).count()) / 2
        };
        let with_config = |id: &MemberId| self.core(*id).config().config.voters().next().is_some();
        whole().filter(with_config).all(has_quorum)
    }

    /// A database of the core holds everything that a log of the core has purged.
    fn newest_copy_inside(&self, core: &BTreeSet<MemberId>) -> bool {
        let bases = || {
            let bases = core.iter().map(|id| self.core(*id).base().last.index);
            bases.map(|base| self.last_incomplete_action(base))
        };
        let (oldest_base, newest_base) = (bases().min(), bases().max());
        let databases = core.iter().filter(|id| self.node(**id).has_data);
        let newest = databases.map(|id| self.node(*id).database.applied).max();
        oldest_base <= newest && newest_base <= newest
    }

    /// The core must come to rest, take a write and a read at each member, and come to rest again.
    fn converge(&mut self, core: &BTreeSet<MemberId>) {
        let liveness_us = self.options.liveness_us;
        let members = core.clone();
        let settled = self.run_until(liveness_us, |world| world.is_settled(&members));
        if self.violation.is_some() {
            return;
        }
        if !settled {
            return self.stuck("the healed core does not come to rest", core);
        }
        // Every member of the group can still write and read.
        for id in self.present(core) {
            if self.node(id).has_data {
                self.submit(id);
            }
            self.read(id);
        }
        let settled = self.run_until(liveness_us, |world| world.is_settled(&members));
        if !settled && self.violation.is_none() {
            self.stuck("the healed core does not work", core);
        }
    }

    /// Members of the core that its leader's configuration has.
    fn present(&self, core: &BTreeSet<MemberId>) -> Vec<MemberId> {
        let Some(leader) = self.leader_of(core) else {
            return Vec::new();
        };
        let members = &self.core(leader).config().config.members;
        let present = core.iter().copied().filter(|id| members.contains_key(id));
        present.collect()
    }

    fn leader_of(&self, core: &BTreeSet<MemberId>) -> Option<MemberId> {
        let leaders = core
            .iter()
            .copied()
            .filter(|id| self.is_up(*id) && self.core(*id).is_leader());
        leaders.max_by_key(|id| self.core(*id).term())
    }

    /// Whether all members of the core that the group has hold, and have applied, the same.
    pub(crate) fn is_settled(&self, core: &BTreeSet<MemberId>) -> bool {
        let Some(leader) = self
            .leader_of(core)
            .filter(|id| self.core(*id).is_ready_leader())
        else {
            return false;
        };
        let (last, config) = (
            self.core(leader).last_id().index,
            self.core(leader).config(),
        );
        let last_seqno = self.last_seqno();
        config.index <= self.core(leader).commit_index()
            && config.config.due_protocol().is_none()
            && core
                .iter()
                .filter(|id| config.config.members.contains_key(id))
                .all(|id| {
                    let Some(process) = self.node(*id).process.as_ref() else {
                        return false;
                    };
                    let (node, core) = (self.node(*id), process.driver.core());
                    core.commit_index() == last
                        && core.durable_index() == last
                        && core.leader() == Some(leader)
                        && core.repairing_until().is_none()
                        && (!node.has_data || node.database.applied == last_seqno)
                        && !self.has_pending_proposals(*id)
                        && !self.checks.reads.is_open(*id)
                })
    }

    /// The core does not come to rest in time.
    fn stuck(&mut self, what: &str, core: &BTreeSet<MemberId>) {
        if self.violation.is_none() {
            let what = format!("{what}: {core:?}");
            let rule = "a healed majority comes to rest";
            self.violation = Some(Violation { rule, what });
        }
    }

    fn passed(mut self) -> Passed {
        count_options(&mut self.coverage, &self.options);
        for answer in lock(&self.answers).iter() {
            count_answer(&mut self.coverage, answer);
        }
        Passed {
            trace_hash: self.trace.hash(),
            events: self.trace.count(),
            committed: self.checks.committed.index().0,
            simulated_us: self.now_us,
            coverage: self.coverage,
        }
    }

    fn failed(&self, seed: u64, violation: Violation) -> Failed {
        Failed {
            seed,
            rule: violation.rule.to_owned(),
            what: violation.what,
            state: self.describe(),
            options: Box::new(self.options.clone()),
            last: self.trace.last().cloned().collect(),
        }
    }

    fn describe(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (id, node) in &self.nodes {
            let Node { name, gone, .. } = node;
            let applied = node.database.applied;
            // Writing to a string cannot fail.
            let _ = write!(text, "{id} {name} gone {gone} applied {applied}: ");
            let Some(process) = &node.process else {
                let _ = writeln!(text, "down");
                continue;
            };
            let core = process.driver.core();
            let voters: Vec<MemberId> = core.config().config.voters().collect();
            let _ = writeln!(
                text,
                "{:?} term {} leader {:?} commit {} last {} durable {} base {} config {} \
                 {voters:?} load {:?} delivers {} copying {} {:?}",
                core.role(),
                core.term(),
                core.leader(),
                core.commit_index(),
                core.last_id(),
                core.durable_index(),
                core.base().last,
                core.config().index,
                process.driver.load(),
                process.deliverer.is_some(),
                node.database.copying,
                core.counters(),
            );
            for progress in core.progress() {
                let _ = writeln!(text, "    {progress:?}");
            }
        }
        let _ = writeln!(text, "at {} ms", self.now_us / MS);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::storage::FLUSH_US;
    use synod_consensus::Seqno;

    #[test]
    fn databases_flush_again_when_their_pauses_are_cut_short() {
        let mut world = World::new(1, options_of(1), false);
        world.form();
        let (now_us, last) = (world.now_us, Seqno(1_000_000));
        for id in world.up() {
            world.node_mut(id).database.apply(now_us, last);
            world.pause_until(id, now_us + 10 * SECOND);
        }
        world.now_us += SECOND;
        let core = world.heal();
        let are_flushed = |world: &mut World, at_us| {
            world.now_us = at_us;
            world.flush_databases();
            let flushed = |id| world.node(id).database.durable == last;
            core.iter()
                .map(|id| flushed(*id))
                .collect::<BTreeSet<bool>>()
        };
        let healed_us = world.now_us;
        let early = are_flushed(&mut world, healed_us + FLUSH_US / 2);
        assert_eq!(early, [false].into(), "nothing is flushed during a pause");
        let late = are_flushed(&mut world, healed_us + 2 * FLUSH_US);
        assert_eq!(late, [true].into());
    }
}
