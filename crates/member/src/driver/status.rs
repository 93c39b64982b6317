//! What other threads may see of the driver's state, see [`crate::Shared`].

use synod_consensus::{MemberId, Role};

use super::Driver;
use crate::host::MemberStatus;
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
        status.pending = self.proposals.len();
        status.cert_keys = self.ordering.certification.key_count();
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
            leader_weight: if *id == self.identity.me.member {
                Some(self.core.leader_preference().weight)
            } else {
                self.core.weight_of(*id)
            },
        });
        let mut status = lock(&self.links.shared.status);
        status.members = members.collect();
        status.leader_name = leader_name.unwrap_or_default();
        status.voter = config
            .members
            .get(&self.identity.me.member)
            .is_some_and(|m| m.role == Role::Voter);
        status.group = self.identity.group;
        status.protocol = config.protocol;
    }

    pub(super) fn publish_view(&mut self) {
        let mut status = lock(&self.links.shared.status);
        status.view = self.membership.views.committed().clone();
        drop(status);
        self.publish_members();
    }
}
