//! Leader transfer: handing leadership over (Raft dissertation, section 3.10).
//!
//! The leader stops taking proposals, waits until the target has the whole log, and then orders the
//! target to become a candidate at once. If no other leader appears in time, it takes proposals
//! again.

use crate::commands::LeaderTransferError;
use crate::core::Core;
use crate::effect::RoleName;
use crate::message::Body;
use crate::replication::progress::Peer;
use crate::types::{LogIndex, MemberId, Time};

/// A leader transfer in progress. The leader takes no proposals meanwhile.
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
    ///
    /// # Errors
    ///
    /// [`LeaderTransferError`] if this member does not lead, another leader transfer is in
    /// progress, or the target cannot lead.
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
