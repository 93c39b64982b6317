//! Handing leadership over (Raft dissertation, section 3.10).

use crate::commands::LeaderTransferError;
use crate::core::Core;
use crate::effect::RoleName;
use crate::message::Body;
use crate::types::{LogIndex, MemberId, Time};

/// A transfer under way. The leader takes no proposals meanwhile.
#[derive(Debug)]
pub(crate) struct Transfer {
    to: MemberId,
    /// When it is given up.
    pub(crate) deadline: Time,
    asked: bool,
}

impl Core {
    /// Hands leadership to `to`, or to the voter with the most complete log. No proposals are taken
    /// until it is done or given up, after the shortest election timeout. Returns the target.
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
        if let Some(transfer) = &leading.transfer {
            return Err(LeaderTransferError::InProgress { to: transfer.to });
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
            leading.transfer = Some(Transfer {
                to,
                deadline,
                asked: false,
            });
        }
        self.transfer_step();
        Ok(to)
    }

    /// To whom leadership is being handed over.
    pub fn leader_transfer_target(&self) -> Option<MemberId> {
        Some(self.leading()?.transfer.as_ref()?.to)
    }

    /// The other voter with the most complete log among those heard from lately; the heaviest of those
    /// that have everything committed.
    pub(crate) fn best_successor(&self) -> Option<MemberId> {
        let leading = self.leading()?;
        let lately = |heard: Option<Time>| {
            heard.is_some_and(|at| self.now.since_us(at) < self.timing.election_timeout_min_us)
        };
        let candidates = self.log.config().config.voters().filter_map(|id| {
            let peer = leading
                .peers
                .get(&id)
                .filter(|peer| lately(peer.last_heard))?;
            let has_all = peer.match_index >= self.commit;
            let weight = self.weight_of(id).filter(|_| has_all);
            Some((weight, peer.match_index, id))
        });
        candidates.max().map(|(_, _, id)| id)
    }

    /// Asks the target to stand once its log is complete. From then on it may win in spite of all
    /// promises, at any time its request may arrive: the lease is given up for the rest of the term.
    pub(crate) fn transfer_step(&mut self) {
        let last = self.log.last().index;
        let Some(leading) = self.leading_mut() else {
            return;
        };
        let Some(transfer) = &mut leading.transfer else {
            return;
        };
        let matched = leading
            .peers
            .get(&transfer.to)
            .map_or(LogIndex(0), |peer| peer.match_index);
        if transfer.asked || matched < last {
            return;
        }
        transfer.asked = true;
        leading.lease_given_up = true;
        let to = transfer.to;
        self.send(to, Body::TimeoutNow);
    }

    pub(crate) fn tick_transfer(&mut self) {
        let now = self.now;
        let Some(leading) = self.leading_mut() else {
            return;
        };
        if leading
            .transfer
            .as_ref()
            .is_some_and(|transfer| transfer.deadline <= now)
        {
            leading.transfer = None;
        }
    }

    /// The leader of this term asks us to stand. Without pre-vote: it is known to live.
    pub(crate) fn handle_timeout_now(&mut self, from: MemberId) {
        let expected = self.leader == Some(from) && self.role() == RoleName::Follower;
        if expected && self.may_stand() {
            self.campaign(true);
        }
    }
}
