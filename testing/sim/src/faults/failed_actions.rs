//! Actions that fail on one database only (decision 041): whenever the member dies then, its
//! database has the action in the end, or is replaced.
//!
//! First an action fails once, and the member dies at each step of the vote about it, or soon after
//! the action was applied again. Then the disk of a database is full for a while: every action
//! fails, and perhaps nothing can be noted.

use synod_consensus::MemberId;

use crate::invariants::require;
use crate::member::ApplierPace;
use crate::member::failed_actions::{Failing, FailureStep, IN_DOUBT};
use crate::member::storage::FLUSH_US;
use crate::trace::What;
use crate::world::{MS, SECOND, World};

/// The member dies once it is there.
const STEPS: [FailureStep; 6] = [
    FailureStep::RolledBack,
    FailureStep::Noted,
    FailureStep::EngineMoved,
    FailureStep::Answered,
    FailureStep::Decided,
    FailureStep::Leaving,
];
/// In this time an action fails, and the group decides.
const FAILS_US: u64 = 20 * SECOND;
/// In this time a member is back and has caught up.
const BACK_US: u64 = 60 * SECOND;
/// For so long a disk is full, in microseconds.
const FULL_US: (u64, u64) = (100 * MS, 5 * SECOND);
/// The name of the rule.
const RULE: &str = "a member with a failed action comes back";

impl World {
    /// Has actions fail on one member at a time, and kills it.
    pub(crate) fn fail_actions_in_turn(&mut self) {
        for step in STEPS {
            self.fail_and_die_at(step);
        }
        self.lose_power_once_left();
        self.fail_and_stand_still();
        self.fail_and_return(0);
        for _ in 0..3 {
            self.fail_and_return(3 * FLUSH_US);
        }
        for record_too in [false, true] {
            self.fill_disk_for_a_while(record_too);
        }
    }

    fn fail_and_die_at(&mut self, step: FailureStep) {
        let Some(member) = self.member_to_fail() else {
            return;
        };
        let copies = self.node(member).database.copies;
        self.set_failing(member, Some(Failing::Once));
        let is_there = self.run_until(FAILS_US, |world| {
            world.failure_step_of(member) == Some(step)
        });
        self.expect(is_there, || format!("{member} does not come to {step:?}"));
        self.coverage.count("died with a failed action");
        self.die(member);
        self.expect_return(member);
        self.expect_no_copy(member, copies);
    }

    /// The member has left the group because of a failed action, and its process has ended. Then
    /// its machine loses its power.
    fn lose_power_once_left(&mut self) {
        let Some(member) = self.member_to_fail() else {
            return;
        };
        let copies = self.node(member).database.copies;
        self.set_failing(member, Some(Failing::Once));
        let has_left = self.run_until(FAILS_US, |world| !world.is_up(member));
        self.expect(has_left, || format!("{member} does not leave"));
        let after_us = self.draw((0, 2 * FLUSH_US));
        self.run_for(after_us);
        if !self.is_up(member) {
            self.coverage.count("power lost after leaving");
            self.note(member, What::PowerCut);
            self.lose_unsynced(member);
            self.database_after_crash(member);
        }
        self.expect_return(member);
        self.expect_no_copy(member, copies);
    }

    /// An action fails and is applied again, and those after it are not, which its engine says to
    /// have. The member dies when the engine has flushed.
    fn fail_and_stand_still(&mut self) {
        let Some(member) = self.member_to_fail() else {
            return;
        };
        self.set_failing(member, Some(Failing::Once));
        let again = "failed action applied again";
        let before = self.coverage.of(again);
        let is_again = self.run_until(BACK_US, |world| world.coverage.of(again) > before);
        self.expect(is_again, || format!("{member} applies nothing again"));
        self.node_mut(member).applies = ApplierPace::StandsStill;
        self.run_for(4 * FLUSH_US);
        self.die(member);
        self.node_mut(member).applies = ApplierPace::Usual;
        self.expect_return(member);
    }

    /// An action fails and is applied again. The member dies at most so long after that.
    fn fail_and_return(&mut self, within_us: u64) {
        let Some(member) = self.member_to_fail() else {
            return;
        };
        self.set_failing(member, Some(Failing::Once));
        let again = "failed action applied again";
        let before = self.coverage.of(again);
        let is_again = self.run_until(BACK_US, |world| world.coverage.of(again) > before);
        self.expect(is_again, || format!("{member} applies nothing again"));
        let after_us = self.draw((0, within_us));
        self.run_for(after_us);
        self.die(member);
        // It may have been killed before it could note that it has the action.
        self.expect_return(member);
    }

    fn fill_disk_for_a_while(&mut self, record_too: bool) {
        let Some(member) = self.member_to_fail() else {
            return;
        };
        let copies = self.node(member).database.copies;
        let doubts = self.coverage.of(IN_DOUBT);
        self.set_failing(member, Some(Failing::FullDisk { record_too }));
        let full_us = self.draw(FULL_US);
        self.run_for(full_us);
        if self.chance(0.5) {
            self.die(member);
        }
        let full_us = self.draw(FULL_US);
        self.run_for(full_us);
        self.set_failing(member, None);
        self.coverage.count("full disk of a database");
        self.expect_return(member);
        if self.coverage.of(IN_DOUBT) == doubts {
            self.expect_no_copy(member, copies);
        }
    }

    /// A member that is up and has caught up; often the leader.
    fn member_to_fail(&mut self) -> Option<MemberId> {
        if self.violation.is_some() {
            return None;
        }
        let is_fit = |world: &World| world.up().len() == world.nodes.len();
        let has_leader = |world: &World| world.ready_leader().is_some();
        self.run_until(BACK_US, |world| is_fit(world) && has_leader(world));
        let leader = self.ready_leader().filter(|_| self.chance(0.3));
        let databases: Vec<MemberId> = self.up();
        leader.or_else(|| self.pick(&databases))
    }

    fn die(&mut self, member: MemberId) {
        match self.chance(0.5) {
            true => self.crash(member),
            false => self.power_cut(member),
        }
    }

    /// The member follows its group again and has everything.
    fn expect_return(&mut self, member: MemberId) {
        let reached = self.last_seqno();
        let is_back = self.run_until(BACK_US, |world| {
            let node = world.node(member);
            let follows = node
                .process
                .as_ref()
                .is_some_and(|process| process.deliverer.is_some() && process.failed.is_none());
            follows && node.database.applied >= reached
        });
        self.expect(is_back, || format!("{member} is not back at {reached}"));
    }

    /// The member needs no full copy for what has happened.
    fn expect_no_copy(&mut self, member: MemberId, copies: u64) {
        let asked = self.node(member).database.copies;
        self.expect(asked == copies, || format!("{member} has asked for a copy"));
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.judge(require(holds, RULE, what));
        }
    }
}
