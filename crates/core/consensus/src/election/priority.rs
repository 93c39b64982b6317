//! Leader weights: which member should rather lead; and the transfer of leadership to it.
//!
//! Weights are preferences, never vetoes. They act in two places. A follower *defers*: it becomes a
//! candidate later if a voter of higher weight may become one first. And a leader *hands over*: it
//! begins a leader transfer to a voter of higher weight that keeps up. Votes ignore weights, so
//! nothing here touches safety. A follower defers for a bounded time only, so a group whose
//! preferred members are dead elects another. Neither Raft nor the dissertation has weights; the
//! handover is the dissertation's leadership transfer (section 3.10).
//!
//! A member without a database (a logger) ranks below all that have one, whatever their weights:
//! see [`Rank`].
//!
//! # How long a voter has to keep up before the leader hands over
//!
//! The *trial time* is two longest election timeouts at first. A voter may be good until it leads,
//! and then lose leadership at once, so that the group would hand over again and again. Therefore
//! each handover doubles the trial time of the next one, at most five times (32-fold). A group that
//! has made no handover for eight of the latest trial times counts as calm, and the trial time
//! starts again at two timeouts. A leader without a database hands over sooner: its first trial
//! time is the shortest election timeout.

use std::collections::BTreeMap;

use synod_planted::planted;

use crate::commands::LeaderTransferError;
use crate::core::{Core, State};
use crate::effect::RoleName;
use crate::message::Body;
use crate::replication::progress::Peer;
use crate::types::{EntryId, LogIndex, MemberId, Time};

/// Most steps that a member of ordinary weight defers, one for each voter of higher weight. More
/// would only prolong the time without a leader.
const STEPS_MAX: u64 = 2;
/// Steps that a member of weight zero defers if any voter has a higher weight.
const STEPS_OF_ZERO: u64 = 4;
/// Most doublings of the trial time.
const DOUBLINGS_MAX: u32 = 5;
/// After this many trial times without a handover the group counts as calm.
const CALM_TRIALS: u64 = 8;

/// How much a member should lead, compared with the others: 0 to 100, ordinarily 50. A member of
/// weight zero leads only if no voter of higher weight can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderWeight(u8);

impl LeaderWeight {
    /// The largest weight.
    pub const MAX: u8 = 100;

    /// A weight of this number; `None` if it is above [`LeaderWeight::MAX`].
    pub fn new(weight: u8) -> Option<LeaderWeight> {
        (weight <= LeaderWeight::MAX).then_some(LeaderWeight(weight))
    }

    /// The weight as a number, 0 to 100.
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

/// How much a voter is preferred: by whether it has a database, then by its weight. What a logger
/// leads costs every client a way to another machine, and its own machine may be a small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    has_data: bool,
    weight: LeaderWeight,
}

impl Rank {
    /// Whether a voter of this rank leads only if no voter of a higher one can.
    fn is_last_choice(self) -> bool {
        !self.has_data || self.weight.get() == 0
    }
}

/// Preference of a member for its own leadership, set by its operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaderPreference {
    /// The member's weight.
    pub weight: LeaderWeight,
    /// Whether the member, when it leads, hands over to a voter of higher weight that keeps up. A
    /// leader of weight zero, or without a database, does so anyway.
    pub hands_over: bool,
}

/// Leader weights that a member knows, and the handovers that it has begun.
#[derive(Debug, Default)]
pub(crate) struct Priorities {
    own: LeaderPreference,
    /// Weights of the others that are fit to lead, as the driver set them last. This member defers
    /// to no other voter. `None`: not set since the start.
    others: Option<BTreeMap<MemberId, LeaderWeight>>,
    /// When this member last handed over because of a weight, and how often the trial time had
    /// doubled then, that handover's doubling included.
    latest_handover: Option<(Time, u32)>,
    /// Handovers because of a weight since the start.
    handovers: u64,
}

/// The delay of a follower's candidacy. Ends when a leader is heard or a vote is given.
#[derive(Debug, Default)]
pub(crate) struct Deference {
    /// Whether the connection to the leader broke, so that all members become candidates soon.
    /// False: the leader is only silent.
    pub(crate) is_hinted: bool,
    /// The delay in progress, once the member's own election timeout has passed.
    delay: Option<Delay>,
}

/// A follower's election timeout has passed, and it defers.
#[derive(Clone, Copy, Debug)]
struct Delay {
    /// When the election timeout passed.
    since: Time,
    /// The leader that is not heard any more; this member does not defer to it.
    lost_leader: Option<MemberId>,
}

/// A leader's observation of voters of higher weight.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// Time since which each of them has kept up at every look.
    keeps_up_since: BTreeMap<MemberId, Time>,
    /// Commit index at the latest look, and when the next look is due. `None`: no look yet.
    latest_look: Option<(LogIndex, Time)>,
}

impl Core {
    /// Sets this member's leader preference.
    pub fn set_leader_preference(&mut self, preference: LeaderPreference) {
        self.priorities.own = preference;
        self.weights_changed();
    }

    /// This member's disk does not finish its writes, or does again. Meanwhile the member is no
    /// candidate: its vote for itself would not be durable, and it would follow no leader.
    pub fn set_disk_stalled(&mut self, stalled: bool) {
        self.disk_stalled = stalled;
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

    /// A delay in progress is computed again at the next tick.
    fn weights_changed(&mut self) {
        if self.deference.delay.is_some() {
            self.election_at = self.election_at.map(|at| at.min(self.now));
        }
    }

    // --- deferring --------------------------------------------------------------------------

    /// Delays this candidacy by up to two steps (four for a member of weight zero, or without a
    /// database) while a voter of higher rank may become a candidate. A step is the time within
    /// which all voters do that defer to none. Returns whether to wait.
    pub(crate) fn defer_to_higher_priority(&mut self) -> bool {
        if !matches!(self.state, State::Follower) {
            return false;
        }
        let delay = self.deference.delay;
        let lost_leader = delay.map_or(self.leader, |delay| delay.lost_leader);
        let delay_us = self.deference_us(lost_leader);
        if delay_us == 0 {
            return false;
        }
        let since = match delay {
            Some(delay) => delay.since,
            None => {
                let since = self.now;
                self.deference.delay = Some(Delay { since, lost_leader });
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
    fn deference_us(&self, lost_leader: Option<MemberId>) -> u64 {
        let own = self.own_rank();
        let mut voters = self.log.config().config.voters();
        let ordinary = Rank {
            has_data: true,
            weight: LeaderWeight::default(),
        };
        let steps = match &self.priorities.others {
            // Right after a start, suppose that the others have a database and ordinary weight.
            None => u64::from(own < ordinary && voters.any(|id| id != self.id)),
            Some(_) => {
                let is_preferred = |id| Some(id) != lost_leader && self.rank_of(id) > Some(own);
                match voters.filter(|id| is_preferred(*id)).count() as u64 {
                    0 => 0,
                    _ if own.is_last_choice() => STEPS_OF_ZERO,
                    heavier => heavier.min(STEPS_MAX),
                }
            }
        };
        // All voters that defer to none become candidates within one step of each other. After a
        // hint that is one heartbeat interval at random, and up to three more if the first pre-vote
        // was too early.
        let step_us = if self.deference.is_hinted {
            5 * self.timing.heartbeat_us
        } else {
            self.timing.election_timeout_max_us - self.timing.election_timeout_min_us
        };
        steps * step_us
    }

    /// How long an election may take although nothing but the leader has failed, counted from when
    /// this member no longer hears the leader: another voter may notice that later, may defer as
    /// long as its weight demands, and may have to try twice. Zero if no voter defers.
    ///
    /// Voters without a database do not count: they defer to a fit one only, which is a candidate
    /// at once, or has asked for their votes in vain (`stop_deferring_to`).
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

    /// The weight of another member that is fit to lead, as set last.
    pub fn weight_of(&self, member: MemberId) -> Option<LeaderWeight> {
        let others = self.priorities.others.as_ref()?;
        others.get(&member).copied().filter(|_| member != self.id)
    }

    fn own_rank(&self) -> Rank {
        self.rank(self.id, self.priorities.own.weight)
    }

    /// The rank of another member that is fit to lead.
    fn rank_of(&self, member: MemberId) -> Option<Rank> {
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

    // --- handing over -----------------------------------------------------------------------

    /// How many handovers because of a weight this member has begun since its start.
    pub fn preferred_transfers(&self) -> u64 {
        self.priorities.handovers
    }

    /// Hands over to the voter of the highest rank that has kept up for the trial time, if this
    /// leader should. Looks at the voters once per `promise_us`, when called often enough.
    pub(crate) fn consider_handover(&mut self) {
        let (now, commit) = (self.now, self.commit);
        let next_look = now.plus_us(self.timing.promise_us);
        let wanted = self.preferred_voters();
        let State::Leader(leading) = &mut self.state else {
            return;
        };
        let succession = &mut leading.succession;
        let latest_look = succession.latest_look;
        if latest_look.is_some_and(|(_, next)| now < next) {
            return;
        }
        succession.latest_look = Some((commit, next_look));
        let Some((committed_before, _)) = latest_look else {
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

    /// Voters of higher rank that this leader would hand over to.
    fn preferred_voters(&self) -> BTreeMap<MemberId, Rank> {
        let own = self.own_rank();
        let is_last_choice = own.is_last_choice();
        let must = planted!(KeepLoggerLeading, is_last_choice, else own.weight.get() == 0);
        if !self.priorities.own.hands_over && !must {
            return BTreeMap::new();
        }
        let voters = self.log.config().config.voters();
        voters
            .filter_map(|id| Some((id, self.rank_of(id).filter(|other| *other > own)?)))
            .collect()
    }

    fn hand_over_to_one_of(&mut self, wanted: &BTreeMap<MemberId, Rank>) {
        let (now, trial_us) = (self.now, self.trial_us(self.recent_doublings()));
        // Not during a change of the configuration or a leader transfer.
        if self.may_change_config().is_err() {
            return;
        }
        let Some(leading) = self.leading() else {
            return;
        };
        let since = &leading.succession.keeps_up_since;
        let ready = since
            .iter()
            .filter(|(_, since)| now.since_us(**since) >= trial_us);
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

    /// How long a voter of higher rank has to keep up, after so many doublings (section "trial
    /// time" of the module's documentation).
    fn trial_us(&self, doublings: u32) -> u64 {
        let first = match self.own_rank().has_data {
            true => 2 * self.timing.election_timeout_max_us,
            false => self.timing.election_timeout_min_us,
        };
        first << doublings
    }

    /// How often the trial time has doubled since the group was calm.
    fn recent_doublings(&self) -> u32 {
        let recent = self.priorities.latest_handover.filter(|(at, doublings)| {
            self.now.since_us(*at) < CALM_TRIALS * self.trial_us(*doublings)
        });
        recent.map_or(0, |(_, doublings)| doublings)
    }

    fn note_handover(&mut self) {
        let doublings = (self.recent_doublings() + 1).min(DOUBLINGS_MAX);
        self.priorities.latest_handover = Some((self.now, doublings));
        self.priorities.handovers += 1;
        if let Some(leading) = self.leading_mut() {
            // If the leader transfer fails, every voter has to keep up for a whole trial time
            // again.
            leading.succession = Succession::default();
        }
    }
}

/// A leader transfer in progress (Raft dissertation, section 3.10). The leader stops taking
/// proposals, waits until the target has the whole log, and then orders the target to become a
/// candidate at once. If no other leader appears in time, it takes proposals again.
#[derive(Debug)]
pub(crate) struct LeaderTransfer {
    /// The target.
    to: MemberId,
    /// When the leader gives up and takes proposals again.
    pub(crate) deadline: Time,
    /// Whether the target was ordered to become a candidate.
    ordered: bool,
}

impl Core {
    /// Hands leadership to `to`, or without one to the best successor, and returns the target. The
    /// leader takes no proposals until that has happened, or until the shortest election timeout
    /// has passed.
    pub fn transfer_leadership(
        &mut self,
        now: Time,
        to: Option<MemberId>,
    ) -> Result<MemberId, LeaderTransferError> {
        self.observe(now);
        let leader = self.leader;
        let Some(leading) = self.leading() else {
            return Err(LeaderTransferError::NotLeader { leader });
        };
        if let Some(leader_transfer) = &leading.leader_transfer {
            let to = leader_transfer.to;
            return Err(LeaderTransferError::InProgress { to });
        }
        let to = match to {
            Some(to) if to == self.id => return Err(LeaderTransferError::AlreadyLeader { to }),
            Some(to) if !self.log.config().config.is_voter(to) => {
                return Err(LeaderTransferError::NotVoter { to });
            }
            Some(to) => to,
            None => self
                .best_successor()
                .ok_or(LeaderTransferError::NoCandidate)?,
        };
        let deadline = self.now.plus_us(self.timing.election_timeout_min_us);
        if let Some(leading) = self.leading_mut() {
            leading.leader_transfer = Some(LeaderTransfer {
                to,
                deadline,
                ordered: false,
            });
        }
        self.advance_leader_transfer();
        Ok(to)
    }

    /// The target of the leader transfer in progress; `None`: there is none.
    pub fn leader_transfer_target(&self) -> Option<MemberId> {
        Some(self.leading()?.leader_transfer.as_ref()?.to)
    }

    /// Best successor among the other voters that have answered lately: one with a database that
    /// keeps up; then the one of the highest rank that has everything committed, or else the one
    /// with the most complete log. A logger often has an entry more than a server.
    pub(crate) fn best_successor(&self) -> Option<MemberId> {
        self.best_successor_of(|_| true)
    }

    /// Best successor, at the leader, among voters that have shown a quick disk after `since`. Such
    /// a voter has acknowledged an entry within `within_us` of its appending, and no later one
    /// waits for longer.
    pub fn successor_with_quick_disk(
        &mut self,
        now: Time,
        since: Time,
        within_us: u64,
    ) -> Option<MemberId> {
        self.observe(now);
        self.best_successor_of(|peer| peer.writes_within(within_us, self.now, since))
    }

    fn best_successor_of(&self, is_fit: impl Fn(&Peer) -> bool) -> Option<MemberId> {
        let leading = self.leading()?;
        let lately = |heard: Option<Time>| {
            heard.is_some_and(|at| self.now.since_us(at) < self.timing.election_timeout_min_us)
        };
        let candidates = self.log.config().config.voters().filter_map(|id| {
            let peer = leading
                .peers
                .get(&id)
                .filter(|peer| lately(peer.last_heard) && is_fit(peer))?;
            let has_all = peer.match_index >= self.commit;
            let keeps_up = has_all || lately(peer.acknowledged_at());
            let rank = self.rank_of(id);
            let serves = keeps_up && rank.is_some_and(|rank| rank.has_data);
            Some((serves, rank.filter(|_| has_all), peer.match_index, id))
        });
        candidates.max().map(|(_, _, _, id)| id)
    }

    /// Orders the target to become a candidate once its log is complete. From then on the target
    /// may win in spite of all promises, whenever its requests arrive.
    pub(crate) fn advance_leader_transfer(&mut self) {
        let last = self.log.last().index;
        let Some(leading) = self.leading_mut() else {
            return;
        };
        let Some(leader_transfer) = &mut leading.leader_transfer else {
            return;
        };
        let matched = leading
            .peers
            .get(&leader_transfer.to)
            .map_or(LogIndex(0), |peer| peer.match_index);
        if leader_transfer.ordered || matched < last {
            return;
        }
        leader_transfer.ordered = true;
        leading.has_ordered_election = true;
        let to = leader_transfer.to;
        self.send(to, Body::TimeoutNow);
    }

    /// Gives a leader transfer up when its time is over.
    pub(crate) fn tick_leader_transfer(&mut self) {
        let now = self.now;
        let Some(leading) = self.leading_mut() else {
            return;
        };
        leading
            .leader_transfer
            .take_if(|leader_transfer| leader_transfer.deadline <= now);
    }

    /// The leader of this term orders this member to become a candidate. Without a pre-vote, which
    /// that leader's promises would refuse.
    pub(crate) fn handle_timeout_now(&mut self, from: MemberId) {
        let expected = self.leader == Some(from) && self.role() == RoleName::Follower;
        if expected && self.may_stand() && !self.disk_stalled {
            self.campaign(true);
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
