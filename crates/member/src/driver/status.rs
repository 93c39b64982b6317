//! What others may see of the driver's state.

use std::sync::atomic::Ordering;

use synod_consensus::{LogIndex, MemberId, Role, Seqno};
use synod_wire::Report;

use super::Driver;
use crate::certification::CertificationState;
use crate::host::{Level, MemberStatus};
use crate::shared::lock;

impl Driver {
    pub(super) fn name_of(&self, member: MemberId) -> String {
        let configured = self.core.config().config.members.get(&member);
        configured.map_or_else(|| format!("member {member}"), |m| m.name.clone())
    }

    /// The cheap part, after every turn.
    pub(super) fn publish_status(&mut self) {
        let leader = self.core.leader();
        let mut status = lock(&self.links.shared.status);
        status.term = self.core.term();
        status.role = Some(self.core.role());
        status.commit_index = self.core.commit_index();
        status.last_index = self.core.last_id().index;
        status.pending = self.submitted.len();
        status.cert_keys = self.ingest.key_count();
        status.leader_weight = self.core.leader_preference().weight;
        if status.leader != leader {
            status.leader = leader;
            status.leader_name = leader.map_or_else(String::new, |id| self.name_of(id));
        }
    }

    /// After a change of configuration.
    pub(super) fn publish_members(&mut self) {
        let config = &self.core.config().config;
        let view = self.membership.views.committed();
        let leader_name = self.core.leader().map(|id| self.name_of(id));
        let members = config.members.iter().map(|(id, member)| MemberStatus {
            member: *id,
            session: view
                .members
                .iter()
                .find(|m| m.member == *id)
                .map(|m| m.session),
            name: member.name.clone(),
            address: member.address.clone(),
            voter: member.role == Role::Voter,
            leader_weight: match *id == self.me.member {
                true => Some(self.core.leader_preference().weight),
                false => self.core.weight_of(*id),
            },
        });
        let mut status = lock(&self.links.shared.status);
        status.members = members.collect();
        status.leader_name = leader_name.unwrap_or_default();
        status.voter = config
            .members
            .get(&self.me.member)
            .is_some_and(|m| m.role == Role::Voter);
        status.group = self.group;
        status.protocol = config.protocol;
    }

    pub(super) fn publish_view(&mut self) {
        let mut status = lock(&self.links.shared.status);
        status.view = self.membership.views.committed().clone();
        drop(status);
        self.publish_members();
    }

    pub(super) fn own_report(&self) -> Report {
        let applied = self.links.shared.applied();
        let on_their_way = self.links.shared.snapshots.oldest();
        let seen_by_all = on_their_way.map_or(applied, |seen| seen.min(applied));
        let committed = self.links.shared.commit_seqno.load(Ordering::Acquire);
        Report {
            member: self.me.member,
            session: self.me.session,
            state: self.state_transfers.data_state(),
            applied,
            seen: seen_by_all,
            db_flushed: self.retention.db_flushed(),
            incoming: self.config.incoming.clone(),
            queue: u32::try_from(committed.saturating_sub(applied.0).max(0)).unwrap_or(u32::MAX),
            weight: self.core.leader_preference().weight,
            wants_vote: self.config.wants_vote,
        }
    }

    /// Notices that a leader is heard, or was not for too long.
    pub(super) fn watch_primary(&mut self) {
        let primary = match self.leaderless_since {
            None => true,
            Some(since) => {
                self.links.shared.is_primary() && self.now.since(since) < self.config.suspect
            }
        };
        if primary == self.links.shared.is_primary() {
            return;
        }
        self.links.shared.primary.store(primary, Ordering::Release);
        lock(&self.links.shared.status).primary = primary;
        if primary {
            self.log(Level::Info, "a leader with a quorum is heard");
        } else {
            let text = format!(
                "no leader for {:?}: this member is not primary until it hears one. Configured \
                 voters: {}",
                self.leaderless_since
                    .map(|since| self.now.since(since))
                    .unwrap_or_default(),
                self.voter_names()
            );
            self.log(Level::Info, text);
            self.abandon_submissions();
        }
        self.links.host.primary_changed(primary);
    }

    fn voter_names(&self) -> String {
        let config = &self.core.config().config;
        let voters = config.members.values().filter(|m| m.role == Role::Voter);
        let names: Vec<String> = voters
            .map(|m| format!("{} at {}", m.name, m.address))
            .collect();
        names.join(", ")
    }

    pub(super) fn new_ingestor(&self, index: LogIndex, seqno: Seqno) -> CertificationState {
        CertificationState::new(index, seqno, self.config.cert_limits())
    }
}
