//! Elections on slow disks: how long members wait for the votes of a term.
//!
//! A vote leaves when it is durable, and disks may take seconds for that. A term is lost for
//! nothing if a candidate, or a member that has voted for it, stands in the next one before the
//! votes have arrived: where all disks are slow, each term would be. Therefore:
//!
//! - while a member's own vote is not durable, it waits, and its *window* begins when the vote is;
//! - in its window a candidate asks for no further votes, and neither a candidate nor a member
//!   that has voted consents to a later candidacy;
//! - after its window a candidate asks whether it would be elected in the next term, and still
//!   takes the votes of its own;
//! - the window is longer than a promise by the time that the own vote took to be written, and
//!   doubles with each round that the candidate has lost since there was a leader.
//!
//! Raft (section 5.2) has candidates wait for one election timeout. Only the length of a wait is
//! decided here, never who may vote for whom.

use crate::core::{Core, State};
use crate::params::Timing;
use crate::types::Time;

/// No window begins later than this many longest election timeouts after the vote.
const LONGEST_TIMEOUTS_MAX: u64 = 2;

/// A member's latest vote, and the rounds that it has lost.
#[derive(Debug, Default)]
pub(crate) struct VoteRound {
    /// When term and vote were handed to the disk.
    written_at: Time,
    /// End of the time in which the member that this one has voted for may be elected.
    awaits_until: Time,
    /// Candidacies without a result since a leader was heard.
    lost: u32,
}

impl VoteRound {
    pub(crate) fn vote_written(&mut self, now: Time) {
        self.written_at = now;
    }

    pub(super) fn lost(&mut self) {
        self.lost += 1;
    }

    pub(super) fn decided(&mut self) {
        (self.awaits_until, self.lost) = (Time(0), 0);
    }

    /// The shortest window of a vote that has become durable just now.
    fn window_us(&self, now: Time, timing: &Timing) -> u64 {
        let first_us = timing.promise_us + now.since_us(self.written_at);
        let longest_us = LONGEST_TIMEOUTS_MAX * timing.election_timeout_max_us;
        let doubled_us = first_us
            .checked_shl(self.lost.min(16))
            .unwrap_or(longest_us);
        doubled_us.min(longest_us)
    }
}

impl Core {
    /// Whether a vote of this member, for itself or for another one, may still elect a leader. A
    /// later candidacy would take that vote's term away.
    pub(super) fn awaits_elected(&self) -> bool {
        let has_voted = self.hard.voted_for.is_some();
        let is_under_way = has_voted && !self.durability.covers(self.vote_ticket);
        let in_window = matches!(self.state, State::Candidate { consents: None, .. });
        is_under_way || in_window || self.now < self.vote_round.awaits_until
    }

    /// Term and vote are durable, so the vote has left.
    pub(crate) fn vote_durable(&mut self) {
        if self.hard.voted_for.is_none() || self.leader.is_some() {
            return;
        }
        let window_us = self.vote_round.window_us(self.now, &self.timing);
        match &self.state {
            State::Candidate { .. } => {
                self.election_in(window_us, 2 * window_us);
                self.count_votes();
            }
            State::Follower => {
                self.vote_round.awaits_until = self.now.plus_us(window_us);
                let timing = &self.timing;
                let shortest_us = timing.election_timeout_min_us.max(window_us);
                let longest_us = timing.election_timeout_max_us.max(2 * window_us);
                self.election_in(shortest_us, longest_us);
            }
            State::PreCandidate { .. } | State::Leader(_) => {}
        }
    }
}
