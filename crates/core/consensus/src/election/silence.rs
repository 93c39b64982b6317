//! Silence of a leader: when a follower that hears nothing from it becomes a candidate.
//!
//! A leader that is dead, hung or cut off must be replaced soon. A leader whose machine stands
//! still for a moment should stay: an election costs its clients more than the wait. Silence alone
//! does not tell the two apart, but the leader's process may show that it runs: it answers pings
//! by another thread than the one that sends heartbeats. So a follower waits for
//! [`Timing::silence_us`](crate::Timing::silence_us) since the last message or sign of life, and
//! for a whole election timeout at the most, whatever the signs are.
//!
//! The wait is by rank, not by chance: all followers notice the silence within two heartbeats of
//! each other, and then the first by rank and number stands, the others defer to it
//! (`priority`). A member that stood still itself first reads what has come meanwhile.
//!
//! Nothing here touches safety: votes ignore it. Neither Raft nor the dissertation has it; its
//! randomised timeouts (section 9.3) are what is left when the leader still shows life.

use crate::core::{Core, State};
use crate::types::{MemberId, Time};

#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// When this member heard the leader, or lost it.
    since: Time,
    /// End of the election timeout that began then. Signs of life do not prolong it.
    patience_until: Time,
    /// The last sign of life that came when heartbeats were overdue.
    alive_at: Option<Time>,
    stood_still: bool,
}

impl Core {
    /// Begins with the election timer: `election_at` is the end of the election timeout.
    pub(crate) fn begin_silence(&mut self) {
        self.silence = Silence {
            since: self.now,
            patience_until: self.election_at.unwrap_or(self.now),
            ..Silence::default()
        };
        // Right after a start no member knows who goes first: chance decides.
        if self.leader.is_some() && self.priorities.are_known() {
            self.expect_a_sign();
        }
    }

    /// Sets the time for a candidacy if nothing is heard from now on.
    fn expect_a_sign(&mut self) {
        let silence_us = self.timing.silence_us();
        self.election_in(silence_us, silence_us + self.timing.heartbeat_us);
        let patience_until = self.silence.patience_until;
        self.election_at = self.election_at.map(|at| at.min(patience_until));
    }

    /// The process of a member has answered a ping. Only the leader's answer counts, as long as the
    /// connection to it has not broken and this member waits for it.
    pub fn note_alive(&mut self, now: Time, member: MemberId) {
        self.observe(now);
        let waits = matches!(self.state, State::Follower) && !self.deference.is_hinted;
        if self.leader != Some(member) || !waits || !self.priorities.are_known() {
            return;
        }
        if self.now.since_us(self.silence.since) >= self.timing.promise_us {
            self.silence.alive_at = Some(self.now);
        }
        self.expect_a_sign();
    }

    /// Whether the leader's process has answered although its heartbeats are overdue: for so long
    /// this member helps no other one to replace it.
    pub(crate) fn leader_shows_life(&self) -> bool {
        let silence = &self.silence;
        let is_fresh = |at: Time| self.now.since_us(at) < self.timing.silence_us();
        silence.alive_at.is_some_and(is_fresh)
            && self.now < silence.patience_until
            && self.leader.is_some()
    }

    /// Delays the candidacy that is due, once, if it is so late that this member stood still
    /// itself: what the leader has sent meanwhile may not be read yet. Returns whether it waits.
    pub(crate) fn waits_after_standstill(&mut self) -> bool {
        let late_us = self.election_at.map_or(0, |at| self.now.since_us(at));
        let waits = matches!(self.state, State::Follower)
            && self.leader.is_some()
            && !self.silence.stood_still
            && late_us > self.timing.heartbeat_us;
        if waits {
            self.silence.stood_still = true;
            self.election_at = Some(self.now.plus_us(2 * self.timing.heartbeat_us));
        }
        waits
    }

    /// Whether the candidacy that is due is due to silence, and so with all followers at once.
    pub(crate) fn is_silent(&self) -> bool {
        self.now < self.silence.patience_until && !self.deference.is_hinted
    }
}
