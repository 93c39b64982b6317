//! Who should rather lead: weights that members give themselves.
//!
//! A preference, never a veto. A member stands for election later if a heavier one may stand (it
//! *gives precedence*), and a leader may hand over to a heavier one. Votes know nothing of weights, so
//! nothing here touches safety; and a member gives precedence for a bounded time only, so a group whose
//! preferred members are dead elects another. Neither Raft nor the dissertation has this; a handover is
//! the dissertation's leadership transfer (section 3.10).

use std::collections::BTreeMap;

use crate::core::{Core, State};
use crate::types::{LogIndex, MemberId, Time};

/// Time for this many heavier voters is given, one step each; how they rank among themselves beyond that
/// makes no difference.
const STEPS_MAX: u64 = 2;
/// Steps that a member of weight zero gives, whoever is heavier.
const STEPS_OF_ZERO: u64 = 4;
/// Doublings of the patience before a handover.
const DOUBLINGS_MAX: u32 = 5;
/// A handover is forgotten after this many times the patience it led to.
const CALM_PATIENCES: u64 = 8;

/// How much a member should lead, compared with the others: 0 to 100. With zero it leads only if nobody
/// heavier can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderWeight(u8);

impl LeaderWeight {
    /// The largest.
    pub const MAX: u8 = 100;

    /// `None` if it is above [`LeaderWeight::MAX`].
    pub fn new(weight: u8) -> Option<LeaderWeight> {
        (weight <= LeaderWeight::MAX).then_some(LeaderWeight(weight))
    }

    /// As a number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for LeaderWeight {
    fn default() -> LeaderWeight {
        LeaderWeight(50)
    }
}

impl std::fmt::Display for LeaderWeight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a member wants for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaderPreference {
    /// Its weight.
    pub weight: LeaderWeight,
    /// Whether it hands over, when it leads, to a heavier voter that keeps up. A leader of weight zero
    /// does so anyway.
    pub hands_over: bool,
}

/// What a member knows of weights.
#[derive(Debug, Default)]
pub(crate) struct Preferences {
    own: LeaderPreference,
    /// Of others that are fit to lead, as told last. Whoever is not here is not waited for. `None`: nothing
    /// was told since the start.
    others: Option<BTreeMap<MemberId, LeaderWeight>>,
    /// The latest handover for the sake of a weight, and how often the patience doubled by then.
    handed_over: Option<(Time, u32)>,
    /// How many there were.
    handovers: u64,
}

/// A follower's way to its candidacy. Over when a leader is heard or a vote given.
#[derive(Debug, Default)]
pub(crate) struct Precedence {
    /// The leader is not just silent: the connection to it broke, which others saw, too.
    pub(crate) is_hinted: bool,
    given: Option<Given>,
}

/// Its own time has come, and it gives heavier ones some more.
#[derive(Clone, Copy, Debug)]
struct Given {
    since: Time,
    /// The leader that is not heard any more: nobody waits for it.
    lost: Option<MemberId>,
}

/// A leader's look at heavier voters.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// Since when each has kept up at every look.
    keeps_up_since: BTreeMap<MemberId, Time>,
    /// What was committed at the latest look, and when the next is due.
    looked: Option<(LogIndex, Time)>,
}

impl Core {
    /// What this member wants for itself, from now on.
    pub fn set_leader_preference(&mut self, preference: LeaderPreference) {
        self.preferences.own = preference;
        self.weights_changed();
    }

    /// What this member wants for itself.
    pub fn leader_preference(&self) -> LeaderPreference {
        self.preferences.own
    }

    /// The weights of the other members, those that are fit to lead: no time is given to anybody else,
    /// and nothing handed over. Soft knowledge: it may be late and incomplete.
    /// Answers whether they have changed.
    pub fn set_leader_weights(&mut self, others: BTreeMap<MemberId, LeaderWeight>) -> bool {
        let others = Some(others);
        let changed = self.preferences.others != others;
        if changed {
            self.preferences.others = others;
            self.weights_changed();
        }
        changed
    }

    /// The connection to a member broke: it will hardly stand. Its weight counts again when it is told
    /// again.
    pub(crate) fn forget_weight(&mut self, member: MemberId) {
        let others = self.preferences.others.as_mut();
        if others.is_some_and(|others| others.remove(&member).is_some()) {
            self.weights_changed();
        }
    }

    /// Whoever is giving precedence thinks again, at the next tick.
    fn weights_changed(&mut self) {
        if self.precedence.given.is_some() {
            self.election_at = self.election_at.map(|at| at.min(self.now));
        }
    }

    // --- standing ---------------------------------------------------------------------------

    /// A follower whose time to stand has come lets heavier voters stand first, for a while: no less than
    /// the time within which they stand, at most two of them after each other. Answers whether to wait.
    pub(crate) fn gives_precedence(&mut self) -> bool {
        if !matches!(self.state, State::Follower) {
            return false;
        }
        let lost = self
            .precedence
            .given
            .map_or(self.leader, |given| given.lost);
        let wait_us = self.precedence_us(lost);
        if wait_us == 0 {
            return false;
        }
        let since = match self.precedence.given {
            Some(given) => given.since,
            None => {
                let since = self.now;
                self.precedence.given = Some(Given { since, lost });
                self.leader = None;
                self.publish_role();
                since
            }
        };
        let until = since.plus_us(wait_us);
        let waits = self.now < until;
        if waits {
            self.election_at = Some(until);
        }
        waits
    }

    /// How long to wait for heavier voters, the lost leader not counted.
    fn precedence_us(&self, lost: Option<MemberId>) -> u64 {
        let own = self.preferences.own.weight;
        let mut voters = self.log.config().config.voters();
        let steps = match &self.preferences.others {
            // After a start others are supposed to be ordinary.
            None => u64::from(own < LeaderWeight::default() && voters.any(|id| id != self.id)),
            Some(_) => {
                let is_waited_for = |id| Some(id) != lost && self.weight_of(id) > Some(own);
                match voters.filter(|id| is_waited_for(*id)).count() as u64 {
                    0 => 0,
                    _ if own.get() == 0 => STEPS_OF_ZERO,
                    heavier => heavier.min(STEPS_MAX),
                }
            }
        };
        // Within so much of each other stand all those who wait for nobody. (After a hint: one heartbeat
        // interval at random, and up to three until they ask again if the first time was too early.)
        let step_us = match self.precedence.is_hinted {
            true => 5 * self.timing.heartbeat_us,
            false => self.timing.election_timeout_max_us - self.timing.election_timeout_min_us,
        };
        steps * step_us
    }

    /// What was told last of another member that is fit to lead.
    pub fn weight_of(&self, member: MemberId) -> Option<LeaderWeight> {
        let others = self.preferences.others.as_ref()?;
        others.get(&member).copied().filter(|_| member != self.id)
    }

    // --- handing over -----------------------------------------------------------------------

    /// How often this member has begun to hand over for the sake of a weight since its start.
    pub fn preferred_transfers(&self) -> u64 {
        self.preferences.handovers
    }

    /// Hands over to the heaviest voter that has kept up for some time, if this leader should. Looks once
    /// in a promise's time, when called often enough.
    pub(crate) fn consider_handover(&mut self) {
        let (now, commit) = (self.now, self.commit);
        let next_look = now.plus_us(self.timing.promise_us);
        let wanted = self.preferred_voters();
        let State::Leader(leading) = &mut self.state else {
            return;
        };
        let succession = &mut leading.succession;
        let looked = succession.looked;
        if looked.is_some_and(|(_, next)| now < next) {
            return;
        }
        succession.looked = Some((commit, next_look));
        let Some((committed_before, _)) = looked else {
            return;
        };
        let peers = &leading.peers;
        let keeps_up = |id: &MemberId| {
            peers.get(id).is_some_and(|peer| {
                let is_heard = peer
                    .last_heard
                    .is_some_and(|at| now.since_us(at) < self.timing.promise_us);
                is_heard && peer.match_index >= committed_before
            })
        };
        let since = &mut succession.keeps_up_since;
        since.retain(|id, _| wanted.contains_key(id) && keeps_up(id));
        for id in wanted.keys().filter(|id| keeps_up(id)) {
            since.entry(*id).or_insert(now);
        }
        self.hand_over_to_one_of(&wanted);
    }

    /// Voters that this leader hands over to.
    fn preferred_voters(&self) -> BTreeMap<MemberId, LeaderWeight> {
        let LeaderPreference { weight, hands_over } = self.preferences.own;
        if !hands_over && weight.get() > 0 {
            return BTreeMap::new();
        }
        let voters = self.log.config().config.voters();
        voters
            .filter_map(|id| Some((id, self.weight_of(id).filter(|other| *other > weight)?)))
            .collect()
    }

    fn hand_over_to_one_of(&mut self, wanted: &BTreeMap<MemberId, LeaderWeight>) {
        let (now, patience_us) = (self.now, self.handover_patience_us());
        // Not during a change of the configuration, or a transfer.
        if self.may_change_config().is_err() {
            return;
        }
        let Some(leading) = self.leading() else {
            return;
        };
        let since = &leading.succession.keeps_up_since;
        let ready = since
            .iter()
            .filter(|(_, since)| now.since_us(**since) >= patience_us);
        let chosen = ready
            .filter_map(|(id, _)| Some((*wanted.get(id)?, leading.peers.get(id)?.match_index, *id)))
            .max();
        let Some((_, _, to)) = chosen else {
            return;
        };
        if self.transfer_leadership(now, Some(to)).is_ok() {
            self.note_handover();
        }
    }

    /// How long a heavier voter has to keep up: two election timeouts, and more after each handover
    /// that was followed by another soon, so that a voter that is good only until it leads does not
    /// keep the group busy.
    fn handover_patience_us(&self) -> u64 {
        self.patience_after(self.recent_doublings())
    }

    fn patience_after(&self, doublings: u32) -> u64 {
        (2 * self.timing.election_timeout_max_us) << doublings
    }

    fn recent_doublings(&self) -> u32 {
        let recent = self.preferences.handed_over.filter(|(at, doublings)| {
            self.now.since_us(*at) < CALM_PATIENCES * self.patience_after(*doublings)
        });
        recent.map_or(0, |(_, doublings)| doublings)
    }

    fn note_handover(&mut self) {
        let doublings = (self.recent_doublings() + 1).min(DOUBLINGS_MAX);
        self.preferences.handed_over = Some((self.now, doublings));
        self.preferences.handovers += 1;
        if let Some(leading) = self.leading_mut() {
            // If it comes to nothing, everybody begins anew.
            leading.succession = Succession::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_0_to_100_and_50_unless_said() {
        assert_eq!(LeaderWeight::new(0).map(LeaderWeight::get), Some(0));
        assert_eq!(LeaderWeight::new(100).map(LeaderWeight::get), Some(100));
        assert_eq!(LeaderWeight::new(101), None);
        assert_eq!(LeaderWeight::default().get(), 50);
    }
}
