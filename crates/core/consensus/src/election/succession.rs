//! The voter that should lead, and why; and the transfer of leadership to it (Raft dissertation,
//! section 3.10).
//!
//! A leader looks at the other voters once per `promise_us`. [`Core::preferred_leader`] says which
//! of them should lead instead. Reasons, the strongest first:
//!
//! - [`Reason::Ordered`]: an operator orders it, or the leader leaves.
//!   To the one ordered, or the best successor. At once.
//! - [`Reason::StalledDisk`]: the leader's disk has stalled, and a majority of the others has
//!   written what it has not. To the best successor that has shown a quick disk.
//!   Held for: nothing. Rest: four longest election timeouts.
//! - [`Reason::Rank`]: a voter ranks above the leader, which hands over by its operator's wish, at
//!   weight zero, or without a database. To the highest rank.
//!   Held for: two longest election timeouts, or one shortest if the leader has no database.
//! - [`Reason::Writers`]: nearly all writes come from its place, and it ranks no lower than the
//!   leader. To the highest rank, then the most writes. Held for: [`WritingPlace::trial_us`].
//!   Rest: [`WritingPlace::pause_us`], also after the leader's election.
//!
//! *Held for* is the *trial time*: at every look for so long, the reason has held and the voter has
//! kept up. *Rest* is the time after the latest handover that this member has begun, for whatever
//! reason. An order needs neither, and no reason acts while a transfer is under way.
//!
//! Leadership is not played back and forth:
//! - A voter may be good until it leads, and then lose leadership at once. So each handover doubles
//!   the trial times of the next one, at most five times (32-fold). A group that has made no
//!   handover for eight of the latest trial times counts as calm, and they are the first again.
//! - The writers draw leadership to no voter of lower rank, nor of weight zero, and rank only to a
//!   higher one. A higher rank is the stronger reason.
//! - Where all disks are slow, an election takes many syncs, and its winner is no better: so only a
//!   quicker disk gets leadership from a stalled one.

use std::collections::BTreeMap;

use synod_planted::planted;

use super::priority::Rank;
use crate::commands::LeaderTransferError;
use crate::core::{Core, State};
use crate::effect::RoleName;
use crate::message::Body;
use crate::replication::progress::Peer;
use crate::types::{LogIndex, MemberId, Time};

/// Most doublings of the trial time.
const DOUBLINGS_MAX: u32 = 5;
/// After this many trial times without a handover the group counts as calm.
const CALM_TRIALS: u64 = 8;
/// Longest election timeouts between two handovers because of a disk: the leader takes no proposals
/// during one.
const DISK_REST: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Ordered,
    StalledDisk,
    Rank,
    Writers,
}

/// The voter that should lead instead of this leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferred {
    pub member: MemberId,
    pub because: Reason,
}

/// This member's disk does not finish its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledDisk {
    /// When the oldest write under way was handed to the disk.
    pub since: Time,
    /// A voter that has acknowledged an entry within this time of its appending, after `since`, has
    /// a quicker disk.
    pub quick_us: u64,
}

/// A place other than the leader's, from which nearly all writes come now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritingPlace {
    /// The members of that place, and how much each has written.
    pub writes: BTreeMap<MemberId, u64>,
    /// For how long this has to hold before leadership moves there.
    pub trial_us: u64,
    /// For how long a member leads at least before leadership moves there.
    pub pause_us: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Succession {
    pub(crate) stalled_disk: Option<StalledDisk>,
    writing: Option<WritingPlace>,
    /// The latest handover, and how often the trial time had doubled then, its own doubling
    /// included.
    latest: Option<(Time, u32)>,
    handovers: BTreeMap<Reason, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Trials {
    /// Voters that should lead and have kept up at every look, why, and the first of these looks.
    wanted: BTreeMap<MemberId, (Reason, Time)>,
    /// Commit index at the latest look, and when the next look is due. `None`: no look yet.
    latest_look: Option<(LogIndex, Time)>,
}

impl Core {
    /// While the disk finishes no writes, the member is no candidate: its vote for itself would not
    /// be durable, and it would follow no leader.
    pub fn set_stalled_disk(&mut self, stalled: Option<StalledDisk>) {
        self.succession.stalled_disk = stalled;
    }

    /// Leader only: the place that nearly all writes come from, if leadership should follow them.
    pub fn set_writing_place(&mut self, place: Option<WritingPlace>) {
        self.succession.writing = place;
    }

    pub fn handovers(&self, because: Reason) -> u64 {
        let count = self.succession.handovers.get(&because);
        count.copied().unwrap_or_default()
    }

    /// Looks at the voters once per `promise_us`, when called often enough.
    pub(crate) fn consider_handover(&mut self) {
        if !self.look_at_voters() {
            return;
        }
        let Some(preferred) = self.preferred_leader() else {
            return;
        };
        // A change of the configuration comes first. A stalled disk delays it.
        let may_wait = preferred.because != Reason::StalledDisk;
        if may_wait && self.may_change_config().is_err() {
            return;
        }
        let Preferred { member, because } = preferred;
        if self.begin_transfer(Some(member), because).is_ok() {
            self.note_handover(because);
        }
    }

    /// Looks which voters should lead and keep up, if a look is due and is not the first.
    fn look_at_voters(&mut self) -> bool {
        let (now, commit) = (self.now, self.commit);
        let next_look = now.plus_us(self.timing.promise_us);
        let reasons = self.reasons_of_voters();
        let State::Leader(leading) = &mut self.state else {
            return false;
        };
        let trials = &mut leading.trials;
        let latest_look = trials.latest_look;
        if latest_look.is_some_and(|(_, next)| now < next) {
            return false;
        }
        trials.latest_look = Some((commit, next_look));
        let Some((committed_before, _)) = latest_look else {
            return false;
        };
        let keeps_up = |id: &MemberId| {
            leading.peers.get(id).is_some_and(|peer| {
                let is_heard = peer
                    .last_heard
                    .is_some_and(|at| now.since_us(at) < self.timing.promise_us);
                is_heard && peer.match_index >= committed_before
            })
        };
        let before = std::mem::take(&mut trials.wanted);
        let wanted = reasons.into_iter().filter(|(id, _)| keeps_up(id));
        trials.wanted = wanted
            .map(|(id, because)| {
                let held = before.get(&id).filter(|(reason, _)| *reason == because);
                (id, (because, held.map_or(now, |(_, since)| *since)))
            })
            .collect();
        true
    }

    /// Voters that should lead instead of this leader if they kept up, and why.
    fn reasons_of_voters(&self) -> BTreeMap<MemberId, Reason> {
        let own = self.own_rank();
        let is_last_choice = own.is_last_choice();
        let must = planted!(KeepLoggerLeading, is_last_choice, else own.weight.get() == 0);
        let hands_over = self.priorities.own.hands_over || must;
        let writing = self.succession.writing.as_ref();
        let is_writer = |id| writing.is_some_and(|place| place.writes.contains_key(&id));
        let reason = |id, rank: Rank| {
            let may_follow = rank >= own && rank.has_data && rank.weight.get() > 0;
            match (hands_over && rank > own, may_follow && is_writer(id)) {
                (true, _) => Some(Reason::Rank),
                (false, true) => Some(Reason::Writers),
                (false, false) => None,
            }
        };
        let voters = self.log.config().config.voters();
        voters
            .filter_map(|id| Some((id, reason(id, self.rank_of(id)?)?)))
            .collect()
    }

    fn preferred_leader(&self) -> Option<Preferred> {
        let reasons = [Reason::StalledDisk, Reason::Rank, Reason::Writers];
        reasons.into_iter().find_map(|because| {
            let member = match because {
                _ if !self.has_rested(because) => None,
                Reason::StalledDisk => self.successor_with_quick_disk(),
                _ => self.successor_after_trial(because),
            };
            member.map(|member| Preferred { member, because })
        })
    }

    /// Needs a majority of the others that has written what this leader's stalled disk has not.
    fn successor_with_quick_disk(&self) -> Option<MemberId> {
        let StalledDisk { since, quick_us } = self.succession.stalled_disk?;
        let is_behind = self.durability.index() < self.commit;
        if !planted!(KeepStalledLeader, is_behind, else false) {
            return None;
        }
        let quick_us = planted!(HandOverToSlow, quick_us, else u64::MAX);
        self.best_successor_of(|peer| peer.writes_within(quick_us, self.now, since))
    }

    fn successor_after_trial(&self, because: Reason) -> Option<MemberId> {
        let (leading, trial_us) = (self.leading()?, self.trial_us(because));
        let writing = self.succession.writing.as_ref();
        let ready = leading.trials.wanted.iter().filter(|(_, (reason, since))| {
            *reason == because && self.now.since_us(*since) >= trial_us
        });
        let best = ready.filter_map(|(id, _)| {
            let writes = writing.and_then(|place| place.writes.get(id));
            let log_end = leading.peers.get(id)?.match_index;
            Some((self.rank_of(*id)?, writes, log_end, *id))
        });
        best.max().map(|(_, _, _, id)| id)
    }

    fn has_rested(&self, because: Reason) -> bool {
        let latest = self.succession.latest.map(|(at, _)| at);
        let is_over = |since: Option<Time>, rest_us| {
            since.is_none_or(|since| self.now.since_us(since) >= rest_us)
        };
        match because {
            Reason::Ordered | Reason::Rank => true,
            Reason::StalledDisk => is_over(latest, DISK_REST * self.timing.election_timeout_max_us),
            Reason::Writers => {
                let elected = self.leading().map(|leading| leading.since);
                let pause_us = self.succession.writing.as_ref().map_or(0, |p| p.pause_us);
                let has_paused = is_over(latest.max(elected), pause_us);
                planted!(FollowAtOnce, has_paused, else true)
            }
        }
    }

    /// How long a voter has to be wanted for this reason, and to keep up, before it leads.
    fn trial_us(&self, because: Reason) -> u64 {
        let first = match because {
            Reason::Writers => self.succession.writing.as_ref().map_or(0, |p| p.trial_us),
            _ => self.first_trial_us(),
        };
        first << self.recent_doublings()
    }

    fn first_trial_us(&self) -> u64 {
        match self.own_rank().has_data {
            true => 2 * self.timing.election_timeout_max_us,
            false => self.timing.election_timeout_min_us,
        }
    }

    /// How often the trial time has doubled since the group was calm.
    fn recent_doublings(&self) -> u32 {
        let recent = self.succession.latest.filter(|(at, doublings)| {
            self.now.since_us(*at) < CALM_TRIALS * (self.first_trial_us() << *doublings)
        });
        recent.map_or(0, |(_, doublings)| doublings)
    }

    fn note_handover(&mut self, because: Reason) {
        let doublings = (self.recent_doublings() + 1).min(DOUBLINGS_MAX);
        self.succession.latest = Some((self.now, doublings));
        *self.succession.handovers.entry(because).or_default() += 1;
        if let Some(leading) = self.leading_mut() {
            // If the leader transfer fails, every voter has to keep up for a whole trial time
            // again.
            leading.trials = Trials::default();
        }
    }
}

/// A leader transfer in progress (Raft dissertation, section 3.10). The leader stops taking
/// proposals, waits until the target has the whole log, and then orders the target to become a
/// candidate at once. If no other leader appears in time, it takes proposals again.
#[derive(Debug)]
pub(crate) struct LeaderTransfer {
    preferred: Preferred,
    /// When the leader gives up and takes proposals again.
    pub(crate) deadline: Time,
    ordered: bool,
}

impl Core {
    /// Hands leadership, as ordered, to `to`, or without one to the best successor, and returns the
    /// target. The leader takes no proposals until that has happened, or until the shortest
    /// election timeout has passed.
    pub fn transfer_leadership(
        &mut self,
        now: Time,
        to: Option<MemberId>,
    ) -> Result<MemberId, LeaderTransferError> {
        self.observe(now);
        self.begin_transfer(to, Reason::Ordered)
    }

    fn begin_transfer(
        &mut self,
        to: Option<MemberId>,
        because: Reason,
    ) -> Result<MemberId, LeaderTransferError> {
        let leader = self.leader;
        let Some(leading) = self.leading() else {
            return Err(LeaderTransferError::NotLeader { leader });
        };
        if let Some(transfer) = &leading.leader_transfer {
            let to = transfer.preferred.member;
            return Err(LeaderTransferError::InProgress { to });
        }
        let member = match to {
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
                preferred: Preferred { member, because },
                deadline,
                ordered: false,
            });
        }
        self.advance_leader_transfer();
        Ok(member)
    }

    /// The leader transfer in progress: its target, and why that should lead.
    pub fn leader_transfer(&self) -> Option<Preferred> {
        let transfer = self.leading()?.leader_transfer.as_ref()?;
        Some(transfer.preferred)
    }

    /// Best successor among the other voters that have answered lately: one with a database that
    /// keeps up; then the one of the highest rank that has everything committed, or else the one
    /// with the most complete log. A logger often has an entry more than a server.
    pub(crate) fn best_successor(&self) -> Option<MemberId> {
        self.best_successor_of(|_| true)
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
            .get(&leader_transfer.preferred.member)
            .map_or(LogIndex(0), |peer| peer.match_index);
        if leader_transfer.ordered || matched < last {
            return;
        }
        leader_transfer.ordered = true;
        leading.has_ordered_election = true;
        let to = leader_transfer.preferred.member;
        self.send(to, Body::TimeoutNow);
    }

    pub(crate) fn tick_leader_transfer(&mut self) {
        let now = self.now;
        let Some(leading) = self.leading_mut() else {
            return;
        };
        leading
            .leader_transfer
            .take_if(|leader_transfer| leader_transfer.deadline <= now);
    }

    /// Makes a candidate without a pre-vote, which that leader's promises would refuse.
    pub(crate) fn handle_timeout_now(&mut self, from: MemberId) {
        let expected = self.leader == Some(from) && self.role() == RoleName::Follower;
        if expected && self.may_stand() && self.succession.stalled_disk.is_none() {
            self.campaign(true);
        }
    }
}
