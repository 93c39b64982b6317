//! Full copies that take longer than the log of their receiver reaches: what is missing is fetched,
//! not copied again (decision 032).
//!
//! A learner with a small log gets a copy while clients write, and its log is purged beyond the
//! copy's position. The others' logs have everything. The member that sends the learner what it
//! lacks is killed, one member at a time. The learner must catch up with the one copy.

use synod_consensus::MemberId;

use crate::invariants::require;
use crate::world::{SECOND, World};

/// Number of learners, one after the other.
const LEARNERS: usize = 2;
/// Retention of a learner's log, in bytes.
const RETAIN_BYTES: u64 = 64 << 10;
/// A learner has its copy in this time, and begins to fetch.
const BEGIN_US: u64 = 20 * SECOND;
/// Limit for catching up.
const CATCH_UP_US: u64 = 60 * SECOND;
/// The name of the rule.
const RULE: &str = "what is missing after a long copy is fetched";
/// Number of kills of a member that sends entries.
const KILLS: usize = 3;

impl World {
    /// Adds learners whose copies take long, and kills who helps them.
    pub(crate) fn copy_for_long(&mut self) {
        for number in 1..=LEARNERS {
            let learner = self.new_node(format!("learner{number}"), true, false);
            self.node_mut(learner).retain_bytes = RETAIN_BYTES;
            self.start(learner);
            let begun = self.run_until(BEGIN_US, |world| world.source_of(learner).is_some());
            if !begun {
                self.expect_caught_up(learner);
                continue;
            }
            self.coverage.count("long copy with a gap");
            let before = self.copies_of(learner);
            for _ in 0..KILLS {
                self.kill_source_of(learner);
            }
            self.expect_caught_up(learner);
            self.expect_no_further_copy(learner, before);
            if self.violation.is_some() {
                return;
            }
        }
    }

    /// The member from which this one fetches now.
    fn source_of(&self, learner: MemberId) -> Option<MemberId> {
        let process = self.node(learner).process.as_ref()?;
        process.driver.fetches_from()
    }

    fn kill_source_of(&mut self, learner: MemberId) {
        let after_us = self.draw((1, SECOND / 50));
        self.run_for(after_us);
        let Some(source) = self.source_of(learner) else {
            return;
        };
        self.coverage.count("killed while it sent entries");
        if self.chance(0.5) {
            self.crash(source);
        } else {
            self.power_cut(source);
        }
        // One at a time: a majority remains.
        self.run_until(CATCH_UP_US, |world| world.is_up(source));
    }

    fn expect_caught_up(&mut self, learner: MemberId) {
        let reached = self.last_seqno();
        let has_all = self.run_until(CATCH_UP_US, |world| {
            world.node(learner).database.applied >= reached
        });
        if self.violation.is_some() {
            return;
        }
        let applied = self.node(learner).database.applied;
        let checked = require(has_all, RULE, || {
            format!("{learner} is at {applied} of {reached}")
        });
        self.judge(checked);
    }

    /// The process of the learner, and how often it has asked for a copy.
    fn copies_of(&self, learner: MemberId) -> (u64, u64) {
        let node = self.node(learner);
        (node.epoch, node.database.copies)
    }

    fn expect_no_further_copy(&mut self, learner: MemberId, before: (u64, u64)) {
        let after = self.copies_of(learner);
        if self.violation.is_none() {
            let checked = require(after == before, RULE, || {
                format!("{learner} has started again, or copied again: {before:?}, then {after:?}")
            });
            self.judge(checked);
        }
    }
}
