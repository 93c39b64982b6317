//! Voters that are lost for good and replaced, and orderly shutdowns in any order: the number of
//! voters is kept without an operator (decision 021, P6).
//!
//! Nothing else fails, and the times are short: a voter is dead after seconds, a learner forgotten
//! after half a minute. Every configuration is checked (`invariants/voters.rs`). Here the group
//! must also commit: with any majority of the former voters, whatever was stopped or lost before.

use rand::Rng;
use synod_consensus::{Config, MemberId};
use synod_member::Event as Input;

use crate::invariants::Violation;
use crate::invariants::voters::VoterBounds;
use crate::trace::What;
use crate::world::{SECOND, World};

/// Number of events in a run.
const ROUNDS: usize = 3;
/// An orderly shutdown ends in this time, with the group's consent or without.
const STOP_US: u64 = 10 * SECOND;
/// A majority that runs commits in this time.
const COMMIT_US: u64 = 20 * SECOND;
/// Beyond the time after which a voter is dead: a newcomer has its copy, and votes.
const COPY_US: u64 = 40 * SECOND;

impl World {
    /// Loses, stops and replaces voters, while clients work.
    pub(crate) fn replace_voters_in_turn(&mut self) {
        let Some(config) = self.leaders_config() else {
            return;
        };
        let most = config.voters().count();
        let fewest = match self.options.voter_policy.wanted {
            0 => most - usize::from(most.is_multiple_of(2)),
            wanted => wanted,
        };
        self.voter_bounds = Some(VoterBounds { fewest, most });
        for _ in 0..ROUNDS {
            let lost = match self.draw((0, 2)) {
                0 => self.lose_minority(),
                1 => self.stop_all_and_start_majority(),
                _ => self.stop_one_and_lose_others(),
            };
            self.replace(&lost);
            if self.violation.is_some() {
                return;
            }
        }
        self.expect_lost_to_be_forgotten();
    }

    /// The configuration of the leader, if it is committed. The loss of a minority of one that is
    /// not may be that of half of the voters before.
    fn leaders_config(&self) -> Option<Config> {
        let core = self.core(self.ready_leader()?);
        let latest = core.config();
        (latest.index <= core.commit_index()).then(|| latest.config.clone())
    }

    /// The voters in any order.
    fn shuffled_voters(&mut self) -> Vec<MemberId> {
        let config = self.leaders_config().unwrap_or_default();
        let mut rest: Vec<MemberId> = config.voters().collect();
        let mut voters = Vec::new();
        while !rest.is_empty() {
            let at = self.rng.random_range(0..rest.len());
            voters.push(rest.swap_remove(at));
        }
        voters
    }

    // --- what is lost and stopped; each gives the lost ones ---------------------------------

    /// Machines of a minority are lost at once, their disks with them.
    fn lose_minority(&mut self) -> Vec<MemberId> {
        let mut lost = self.shuffled_voters();
        lost.truncate(lost.len().saturating_sub(1) / 2);
        lost.iter().for_each(|id| self.lose_for_good(*id));
        self.expect_commits("after the loss of a minority");
        lost
    }

    /// All are shut down; a minority is lost, or only comes back late.
    fn stop_all_and_start_majority(&mut self) -> Vec<MemberId> {
        let voters = self.shuffled_voters();
        let at_once = self.chance(0.5);
        for id in &voters {
            self.shut_down(*id);
            if !at_once {
                self.await_end(&[*id]);
            }
        }
        self.await_end(&voters);
        self.coverage.count("all voters were shut down");
        let mut order = voters;
        let last_stopped_is_lost = self.chance(0.5);
        if last_stopped_is_lost {
            order.reverse();
        }
        let minority = order.len().saturating_sub(1) / 2;
        let (absent, majority) = order.split_at(minority);
        let are_lost = self.chance(0.5);
        if are_lost {
            absent.iter().for_each(|id| self.lose_for_good(*id));
        }
        majority.iter().for_each(|id| self.start_again(*id));
        self.expect_commits("after all were shut down and a majority was started");
        if are_lost {
            return absent.to_vec();
        }
        absent.iter().for_each(|id| self.start_again(*id));
        Vec::new()
    }

    /// One is shut down, then a minority is lost for good. The first one's return is enough.
    fn stop_one_and_lose_others(&mut self) -> Vec<MemberId> {
        let voters = self.shuffled_voters();
        let Some((stopped, others)) = voters.split_first() else {
            return Vec::new();
        };
        self.shut_down(*stopped);
        self.await_end(&[*stopped]);
        let minority = voters.len().saturating_sub(1) / 2;
        let lost = &others[..minority];
        lost.iter().for_each(|id| self.lose_for_good(*id));
        self.run_for(SECOND);
        self.start_again(*stopped);
        self.expect_commits("after the return of the one that was shut down");
        lost.to_vec()
    }

    fn lose_for_good(&mut self, id: MemberId) {
        self.note(id, What::Wiped);
        self.coverage.count("voter lost for good");
        if self.is_up(id) {
            self.end_process(id);
        }
        self.node_mut(id).gone = true;
    }

    fn shut_down(&mut self, id: MemberId) {
        self.node_mut(id).stays_down = true;
        if !self.is_up(id) {
            return;
        }
        self.note(id, What::Operator { name: "stop" });
        self.process(id).is_leaving = true;
        let done = self.process(id).effects.left();
        self.feed(id, Input::Leave(done));
    }

    fn await_end(&mut self, stopped: &[MemberId]) {
        let ended = self.run_until(STOP_US, |world| stopped.iter().all(|id| !world.is_up(*id)));
        if !ended {
            self.voters_broken(format!("{stopped:?} do not end their shutdown"));
        }
    }

    fn start_again(&mut self, id: MemberId) {
        self.node_mut(id).stays_down = false;
        self.start(id);
    }

    // --- what must follow -------------------------------------------------------------------

    /// A newcomer comes for each one that is lost, under its name or another one. The number of
    /// voters is the former one again.
    fn replace(&mut self, lost: &[MemberId]) {
        // A group that has not noticed a loss takes a newcomer for one more member.
        self.run_for(SECOND);
        for id in lost {
            let same_name = self.chance(0.5);
            let (what, name) = if same_name {
                ("replaced under its name", self.node(*id).name.clone())
            } else {
                (
                    "replaced under another name",
                    format!("new{}", self.nodes.len()),
                )
            };
            self.coverage.count(what);
            self.add_member(name, true, true);
        }
        self.expect_voters(lost);
    }

    fn expect_voters(&mut self, lost: &[MemberId]) {
        let Some(bounds) = self.voter_bounds else {
            return;
        };
        let dead_after = self.options.voter_policy.dead_after;
        // Two that are lost may be taken out one after the other, each by another leader.
        let dead_us = u64::try_from(dead_after.as_micros()).unwrap_or(u64::MAX);
        let limit_us = 2 * dead_us + COPY_US;
        let is_whole = self.run_until(limit_us, |world| {
            world.leaders_config().is_some_and(|config| {
                let all_live = config.voters().all(|id| world.is_up(id));
                all_live && config.voters().count() == bounds.most
            })
        });
        if !is_whole {
            let now: Vec<MemberId> = self.leaders_config().unwrap_or_default().voters().collect();
            self.voters_broken(format!(
                "after the loss of {lost:?} the voters are {now:?}, and not {}",
                bounds.most
            ));
        }
    }

    fn expect_commits(&mut self, when: &str) {
        for _ in 0..2 {
            let before = self.commit_index();
            if !self.run_until(COMMIT_US, |world| world.commit_index() > before) {
                return self.voters_broken(format!("nothing is committed {when}"));
            }
        }
    }

    fn expect_lost_to_be_forgotten(&mut self) {
        let patience = self.options.learner_patience;
        let patience_us = u64::try_from(patience.as_micros()).unwrap_or(u64::MAX);
        let forgotten = self.run_until(patience_us + COMMIT_US, |world| {
            world.leaders_config().is_some_and(|config| {
                let mut members = config.members.keys();
                members.all(|id| !world.node(*id).gone)
            })
        });
        if forgotten {
            self.coverage.count("all lost members are forgotten");
        } else {
            self.voters_broken("lost members are not forgotten".to_owned());
        }
    }

    fn voters_broken(&mut self, what: String) {
        if self.violation.is_none() {
            let rule = "a group keeps its voters without an operator";
            self.violation = Some(Violation { rule, what });
        }
    }
}
