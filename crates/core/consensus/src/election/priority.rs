//! Leader weights: which member should rather lead.
//!
//! Weights are preferences, never vetoes. They act in two places. A follower *defers*: it becomes a
//! candidate later if a voter of higher weight may become one first. And a leader hands over to a
//! voter of higher weight (`succession`). Votes ignore weights, so nothing here touches safety. A
//! follower defers for a bounded time only, so a group whose preferred members are dead elects
//! another. Neither Raft nor the dissertation has weights.
//!
//! A member without a database (a logger) ranks below all that have one, whatever their weights:
//! see [`Rank`].

use std::collections::BTreeMap;

use crate::core::{Core, State};
use crate::types::{EntryId, MemberId, Time};

/// Most steps that a member of ordinary weight defers, one for each voter of higher weight. More
/// would only prolong the time without a leader.
const STEPS_MAX: u64 = 2;
/// Most steps that a member defers in a silence, one for each voter of equal rank that goes first.
const EQUAL_STEPS_MAX: u64 = 4;
/// Steps that a member of weight zero defers if any voter has a higher weight.
const STEPS_OF_ZERO: u64 = 4;

/// How much a member should lead, compared with the others: 0 to 100, ordinarily 50. A member of
/// weight zero leads only if no voter of higher weight can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderWeight(u8);

impl LeaderWeight {
    pub const MAX: u8 = 100;

    pub fn new(weight: u8) -> Option<LeaderWeight> {
        (weight <= LeaderWeight::MAX).then_some(LeaderWeight(weight))
    }

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

/// A database first, then the weight: a logger that leads costs every client a way to another
/// machine, and its own machine may be a small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) has_data: bool,
    pub(crate) weight: LeaderWeight,
}

impl Rank {
    /// Whether a voter of this rank leads only if no voter of a higher one can.
    pub(crate) fn is_last_choice(self) -> bool {
        !self.has_data || self.weight.get() == 0
    }
}

/// Preference of a member for its own leadership, set by its operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaderPreference {
    pub weight: LeaderWeight,
    /// Whether the member, when it leads, hands over to a voter of higher weight that keeps up. A
    /// leader of weight zero, or without a database, does so anyway.
    pub hands_over: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Priorities {
    pub(crate) own: LeaderPreference,
    /// Weights of the others that are fit to lead, as the driver set them last. This member defers
    /// to no other voter. `None`: not set since the start.
    others: Option<BTreeMap<MemberId, LeaderWeight>>,
}

impl Priorities {
    /// Whether the driver has set the others' weights since the start.
    pub(crate) fn are_known(&self) -> bool {
        self.others.is_some()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Deference {
    /// Whether the connection to the leader broke, so that all members become candidates soon.
    /// False: the leader is only silent.
    pub(crate) is_hinted: bool,
    /// The delay in progress, once the member's own election timeout has passed.
    delay: Option<Delay>,
}

#[derive(Clone, Copy, Debug)]
struct Delay {
    since: Time,
    is_silent: bool,
    /// The leader that is not heard any more; this member does not defer to it.
    lost_leader: Option<MemberId>,
}

impl Core {
    pub fn set_leader_preference(&mut self, preference: LeaderPreference) {
        self.priorities.own = preference;
        self.weights_changed();
    }

    pub fn leader_preference(&self) -> LeaderPreference {
        self.priorities.own
    }

    /// Sets the weights of the other members that are fit to lead. This member defers to no others,
    /// and hands over to no others. The weights are soft knowledge: they may be late and
    /// incomplete. Returns whether they have changed.
    pub fn set_leader_weights(&mut self, others: BTreeMap<MemberId, LeaderWeight>) -> bool {
        let others = Some(others);
        let changed = self.priorities.others != others;
        if changed {
            self.priorities.others = others;
            self.weights_changed();
        }
        changed
    }

    /// The connection to a member broke, so it will hardly become a candidate. Its weight counts
    /// again when the driver sets it again.
    pub(crate) fn forget_weight(&mut self, member: MemberId) {
        let others = self.priorities.others.as_mut();
        if others.is_some_and(|others| others.remove(&member).is_some()) {
            self.weights_changed();
        }
    }

    /// A voter asks for votes that it cannot get: its log ends at `last`, before this member's. It
    /// needs no deference until the driver sets its weight again.
    pub(crate) fn stop_deferring_to(&mut self, candidate: MemberId, last: EntryId) {
        if last < self.log.last() && !self.is_promised() {
            self.forget_weight(candidate);
        }
    }

    fn weights_changed(&mut self) {
        if self.deference.delay.is_some() {
            self.election_at = self.election_at.map(|at| at.min(self.now));
        }
    }

    /// Delays this candidacy by up to two steps (four for a member of weight zero, or without a
    /// database) while a voter of higher rank may become a candidate. A step is the time within
    /// which all voters do that defer to none. Returns whether to wait.
    pub(crate) fn defer_to_higher_priority(&mut self) -> bool {
        if !matches!(self.state, State::Follower) {
            return false;
        }
        let delay = self.deference.delay;
        let lost_leader = delay.map_or(self.leader, |delay| delay.lost_leader);
        let is_silent = delay.map_or_else(|| self.is_silent(), |delay| delay.is_silent);
        let delay_us = self.deference_us(lost_leader, is_silent);
        if delay_us == 0 {
            return false;
        }
        let since = match delay {
            Some(delay) => delay.since,
            None => {
                let since = self.now;
                self.deference.delay = Some(Delay {
                    since,
                    is_silent,
                    lost_leader,
                });
                self.leader = None;
                self.publish_role();
                since
            }
        };
        let until = since.plus_us(delay_us);
        let waits = self.now < until;
        if waits {
            self.election_at = Some(until);
        }
        waits
    }

    /// How long to defer to voters of higher rank other than the lost leader; zero: not at all.
    fn deference_us(&self, lost_leader: Option<MemberId>, is_silent: bool) -> u64 {
        let own = self.own_rank();
        let config = &self.log.config().config;
        let others = || config.voters().filter(|id| Some(*id) != lost_leader);
        let ordinary = Rank {
            has_data: true,
            weight: LeaderWeight::default(),
        };
        let steps = match &self.priorities.others {
            // Right after a start, suppose that the others have a database and ordinary weight.
            None => u64::from(own < ordinary && config.voters().any(|id| id != self.id)),
            Some(_) => {
                // All notice a silence at the same time: equal ones stand one after the other.
                let goes_first = |id| is_silent && id < self.id && self.rank_of(id) == Some(own);
                let first = others().filter(|id| goes_first(*id)).count() as u64;
                let is_heavier = |id: &MemberId| self.rank_of(*id) > Some(own);
                let steps = match others().filter(is_heavier).count() as u64 {
                    0 => 0,
                    _ if own.is_last_choice() => STEPS_OF_ZERO,
                    heavier => heavier.min(STEPS_MAX),
                };
                steps + first.min(EQUAL_STEPS_MAX)
            }
        };
        // All voters that defer to none become candidates within one step of each other. After a
        // hint that is one heartbeat interval at random, and up to three more if the first pre-vote
        // was too early. In a silence it is one at random, and one between two heartbeats.
        let step_us = if self.deference.is_hinted {
            5 * self.timing.heartbeat_us
        } else if is_silent {
            3 * self.timing.heartbeat_us
        } else {
            self.timing.election_timeout_max_us - self.timing.election_timeout_min_us
        };
        steps * step_us
    }

    /// How long an election may take although nothing but the leader has failed, counted from when
    /// this member no longer hears the leader: another voter may notice that later, may defer as
    /// long as its weight demands, and may have to try twice. Zero if no voter defers. Voters
    /// without a database do not count: they defer to a fit one only, which is a candidate at once,
    /// or has asked for their votes in vain (`stop_deferring_to`).
    pub fn longest_deferred_election_us(&self) -> u64 {
        let ranks = self.log.config().config.voters().filter_map(|id| {
            let is_own = id == self.id;
            is_own.then(|| self.own_rank()).or_else(|| self.rank_of(id))
        });
        let ranks: Vec<Rank> = ranks.filter(|rank| rank.has_data).collect();
        let (lowest, highest) = (ranks.iter().min(), ranks.iter().max());
        let steps = match lowest {
            _ if lowest == highest => return 0,
            Some(rank) if rank.is_last_choice() => STEPS_OF_ZERO,
            _ => STEPS_MAX,
        };
        let (shortest, longest) = (
            self.timing.election_timeout_min_us,
            self.timing.election_timeout_max_us,
        );
        (1 + steps) * (longest - shortest) + longest
    }

    pub fn weight_of(&self, member: MemberId) -> Option<LeaderWeight> {
        let others = self.priorities.others.as_ref()?;
        others.get(&member).copied().filter(|_| member != self.id)
    }

    pub(crate) fn own_rank(&self) -> Rank {
        self.rank(self.id, self.priorities.own.weight)
    }

    pub(crate) fn rank_of(&self, member: MemberId) -> Option<Rank> {
        Some(self.rank(member, self.weight_of(member)?))
    }

    /// A member that is not configured is not known to lack a database.
    fn rank(&self, member: MemberId, weight: LeaderWeight) -> Rank {
        let known = self.log.config().config.members.get(&member);
        Rank {
            has_data: known.is_none_or(|member| member.has_data),
            weight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_0_to_100_and_50_by_default() {
        assert_eq!(LeaderWeight::new(0).map(LeaderWeight::get), Some(0));
        assert_eq!(LeaderWeight::new(100).map(LeaderWeight::get), Some(100));
        assert_eq!(LeaderWeight::new(101), None);
        assert_eq!(LeaderWeight::default().get(), 50);
    }
}
