//! Disks that are slow on all members at once (P5): a leader that works keeps leading, and an
//! election ends within a few syncs.
//!
//! Each sync takes another time, up to seconds. Nothing else fails but what the scene does: the
//! leader loses its power, twice, and then all members do at once.

use synod_consensus::MemberId;

use crate::invariants::Violation;
use crate::world::{MS, SECOND, World};

/// The shortest and the longest sync, in microseconds.
const SYNC_US: (u64, u64) = (300 * MS, 3 * SECOND);
/// A write waits for the sync under way, and then for its own.
const WRITE_US: u64 = 2 * SYNC_US.1;
/// An election is the candidate's write and then the voters'. As much again is left for the
/// candidates that lose.
const ELECTION_US: u64 = 4 * WRITE_US;
/// A leader is watched for so long.
const LEADS_US: u64 = 10 * WRITE_US;

impl World {
    /// Slows all disks down, while clients work.
    pub(crate) fn slow_all_disks(&mut self) {
        self.slow_syncs_us = Some(SYNC_US);
        self.expect_lasting_leader();
        for _ in 0..2 {
            let leader: Vec<MemberId> = self.leader().into_iter().collect();
            self.lose_leader_and_return(&leader);
        }
        let all = self.up();
        self.lose_leader_and_return(&all);
        self.slow_syncs_us = None;
    }

    /// These members lose their power. The others elect a leader if they are a majority, or else
    /// all do once these are back.
    fn lose_leader_and_return(&mut self, lost: &[MemberId]) {
        if self.violation.is_some() {
            return;
        }
        lost.iter().for_each(|id| self.lose_power(*id));
        if self.up().is_empty() {
            lost.iter().for_each(|id| self.start(*id));
        }
        let timeout_us = 2 * self.options.timing.election_timeout_max_us;
        let began_us = self.now_us;
        let is_elected = self.run_until(timeout_us + ELECTION_US, World::has_ended_elections);
        if !is_elected {
            return self.slow(format!("no leader is elected without {lost:?}"));
        }
        let took_us = self.now_us - began_us;
        self.coverage.count(match took_us / WRITE_US {
            0 | 1 => "elected on slow disks in two writes",
            2 => "elected on slow disks in three writes",
            _ => "elected on slow disks in more writes",
        });
        self.expect_lasting_leader();
        lost.iter().for_each(|id| self.start(*id));
        let reached = self.commit_index();
        let is_back = self.run_until(LEADS_US, |world| {
            let follows = |id: &MemberId| {
                let core = world.core(*id);
                core.leader().is_some() && core.durable_index() >= reached
            };
            lost.iter().all(|id| world.is_up(*id) && follows(id))
        });
        if !is_back {
            self.slow(format!("{lost:?} came back, and do not take part"));
        }
    }

    /// Whether a leader leads the highest term that there is. A candidacy for a higher one began
    /// before there was a leader, waits for its disk, and deposes it.
    fn has_ended_elections(&self) -> bool {
        let terms = self.up().into_iter().map(|id| self.core(id).term());
        let highest = terms.max();
        self.leader()
            .is_some_and(|id| Some(self.core(id).term()) == highest)
    }

    /// The leader leads for a while, and what clients write is committed.
    fn expect_lasting_leader(&mut self) {
        let Some(leader) = self.leader() else {
            return self.slow("no leader although nothing fails".to_owned());
        };
        let term = self.core(leader).term();
        let end_us = self.now_us + LEADS_US;
        while self.now_us < end_us && self.violation.is_none() {
            let before = self.commit_index();
            let replaced = self.run_until(2 * WRITE_US, |world| {
                world.leader() != Some(leader) || world.core(leader).term() != term
            });
            if replaced {
                return self.slow(format!("{leader} leads no more, although it works"));
            }
            if self.commit_index() == before {
                return self.slow(format!("nothing is committed while {leader} leads"));
            }
        }
    }

    fn slow(&mut self, what: String) {
        if self.violation.is_none() {
            let rule = "a group of slow disks has a leader";
            self.violation = Some(Violation { rule, what });
        }
    }
}
