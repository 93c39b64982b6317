//! Databases that lag: a slow minority changes nothing (P5), a slow majority sets the pace (P7).
//!
//! Nothing fails here but the pace of appliers, under a load that only the usual pace can take.
//! First the databases of a minority are slow or stand still, the leader's among them; then those
//! of a majority or of all are slow; then all stand still. After each time they catch up.

use synod_consensus::MemberId;

use crate::invariants::{Checked, lag};
use crate::member::ApplierPace;
use crate::world::{MS, SECOND, World};

/// A slow database needs this long for some actions at a time.
const SLOW_US: (u64, u64) = (20 * MS, 40 * MS);
/// For so long databases are slow.
const SLOW_FOR_US: u64 = 2 * SECOND;
/// The pace settles within this time: the leader measures how fast databases are that were faster.
const SETTLED_AFTER_US: u64 = 3 * SECOND;
/// Time between two looks at what was committed.
const LOOK_US: u64 = 500 * MS;
/// Time between two looks at the lag.
const LAG_LOOK_US: u64 = 10 * MS;
/// In this time a database that is slow no more has caught up.
const CATCH_UP_US: u64 = 20 * SECOND;

/// A database before it became slow.
struct Before {
    id: MemberId,
    epoch: u64,
    copies: u64,
}

impl World {
    /// Makes the databases of a minority, of a majority and of all slow.
    pub(crate) fn slow_databases_in_turn(&mut self) {
        let Some(leader) = self.ready_leader() else {
            return;
        };
        let config = self.core(leader).config().config.clone();
        let voters = config.voters().count();
        let mut databases: Vec<MemberId> = config.voters().collect();
        databases.retain(|id| config.members.get(id).is_some_and(|member| member.has_data));
        databases.sort_by_key(|id| *id != leader);
        let pace = self.pace_of(2 * SECOND);
        let minority = (voters - 1) / 2;
        // Loggers vote, and lag in nothing.
        let majority = (voters / 2 + 1).saturating_sub(voters - databases.len());
        let with_leader = databases[..minority].to_vec();
        let without = databases[databases.len() - minority..].to_vec();
        for slow in [with_leader, without] {
            let slow_us = self.draw(SLOW_US);
            for applies in [ApplierPace::StandsStill, ApplierPace::Slow { us: slow_us }] {
                self.slow_minority(&slow, applies, &databases, pace);
            }
        }
        for count in [minority + 1, databases.len()] {
            self.slow_majority(&databases[..count], &databases, majority.max(1));
        }
        self.standstill(&databases);
    }

    /// The majority keeps its pace.
    fn slow_minority(
        &mut self,
        slow: &[MemberId],
        applies: ApplierPace,
        databases: &[MemberId],
        pace: u64,
    ) {
        let before = self.slow_down(slow, applies);
        // Clients of slow servers wait for rows that these have not finished with.
        let fast = (databases.len() - slow.len()) as u64;
        let at_least = pace * fast * LOOK_US / (databases.len() as u64 * SECOND) * 7 / 10;
        for _ in 0..SLOW_FOR_US / LOOK_US {
            let committed = self.pace_of(LOOK_US) * LOOK_US / SECOND;
            self.judge_lag(lag::pace_is_kept(slow, committed, at_least));
        }
        self.coverage.count("slow minority");
        self.catch_up_again(before);
    }

    /// Clients become as slow as the majority.
    fn slow_majority(&mut self, slow: &[MemberId], databases: &[MemberId], majority: usize) {
        let slow_us = self.draw(SLOW_US);
        let before = self.slow_down(slow, ApplierPace::Slow { us: slow_us });
        self.run_for(SETTLED_AFTER_US);
        // What leaves the databases comes in steps, and a few steps are under way.
        let max_us = 2 * self.options.apply_lag_max_us + 4 * slow_us;
        for _ in 0..SLOW_FOR_US / LAG_LOOK_US {
            self.run_for(LAG_LOOK_US);
            let lags = databases.iter().map(|id| self.lag_us(*id));
            let lag_us = lag::of_best(majority, lags.collect());
            self.judge_lag(lag::is_bounded(lag_us, max_us));
        }
        self.coverage.count("slow majority");
        self.catch_up_again(before);
    }

    /// One action that takes long on all databases does not stop the clients.
    fn standstill(&mut self, databases: &[MemberId]) {
        let before = self.slow_down(databases, ApplierPace::StandsStill);
        for _ in 0..SLOW_FOR_US / LOOK_US {
            let committed = self.pace_of(LOOK_US);
            self.judge_lag(lag::goes_on(databases, committed));
        }
        self.coverage.count("all databases stood still");
        self.catch_up_again(before);
    }

    /// Actions that are committed per second, in this time.
    fn pace_of(&mut self, us: u64) -> u64 {
        let before = self.last_seqno();
        self.run_for(us);
        let committed = u64::try_from(self.last_seqno().0 - before.0).unwrap_or(0);
        committed * SECOND / us
    }

    fn lag_us(&self, id: MemberId) -> u64 {
        let applied = self.node(id).database.applied;
        self.checks.lags.lag_us(self.now_us, applied)
    }

    fn slow_down(&mut self, slow: &[MemberId], applies: ApplierPace) -> Vec<Before> {
        let before = slow.iter().map(|id| {
            let node = self.node(*id);
            let (epoch, copies) = (node.epoch, node.database.copies);
            let id = *id;
            Before { id, epoch, copies }
        });
        let before = before.collect();
        for id in slow {
            self.node_mut(*id).applies = applies;
        }
        before
    }

    /// The databases are as fast as before, and catch up with what is committed now.
    fn catch_up_again(&mut self, before: Vec<Before>) {
        for Before { id, .. } in &before {
            self.node_mut(*id).applies = ApplierPace::Usual;
        }
        let reached = self.last_seqno();
        let has_all = |world: &World, id| world.node(id).database.applied >= reached;
        self.run_until(CATCH_UP_US, |world| {
            before.iter().all(|slow| has_all(world, slow.id))
        });
        for Before { id, epoch, copies } in before {
            let node = self.node(id);
            let runs_on = (node.epoch, node.database.copies) == (epoch, copies);
            let has_all = has_all(self, id);
            self.judge_lag(lag::caught_up(id, runs_on, has_all));
        }
    }

    fn judge_lag(&mut self, checked: Checked) {
        if self.violation.is_none() {
            self.judge(checked);
        }
    }
}
