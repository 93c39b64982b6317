//! State of the driver that other threads may see, see [`crate::Shared`].

use synod_consensus::{LogIndex, Role, Seqno};
use synod_wire::Report;

use super::Driver;
use crate::host::MemberStatus;
use crate::shared::{DatabaseStatus, lock};

impl Driver {
    /// The cheap part, after every turn.
    pub(super) fn publish_status(&mut self) {
        let leader = self.ctx.core.leader();
        let mut status = lock(&self.ctx.links.shared.status);
        status.term = self.ctx.core.term();
        status.role = Some(self.ctx.core.role());
        status.commit_index = self.ctx.core.commit_index();
        status.last_index = self.ctx.core.last_id().index;
        status.pending = self.proposals.local.len();
        status.cert_keys = self.ctx.certification.key_count();
        status.leader_weight = self.ctx.core.leader_preference().weight;
        if status.leader != leader {
            status.leader = leader;
            status.leader_name = leader.map_or_else(String::new, |id| self.ctx.name_of(id));
        }
    }

    /// After a change of configuration.
    pub(super) fn publish_members(&mut self) {
        let config = &self.ctx.core.config().config;
        let view = self.ctx.views.committed();
        let leader_name = self.ctx.core.leader().map(|id| self.ctx.name_of(id));
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
            has_data: member.has_data,
            leader_weight: if *id == self.ctx.identity.me.member {
                Some(self.ctx.core.leader_preference().weight)
            } else {
                self.ctx.core.weight_of(*id)
            },
            region: self.leadership.regions.of(*id).cloned(),
            versions: member.versions,
        });
        let mut status = lock(&self.ctx.links.shared.status);
        status.members = members.collect();
        status.leader_name = leader_name.unwrap_or_default();
        status.voter = config
            .members
            .get(&self.ctx.identity.me.member)
            .is_some_and(|m| m.role == Role::Voter);
        status.group = self.ctx.identity.group;
        status.protocol = config.protocol;
        status.protocol_is_held = config.protocol_is_held;
        status.writers = config.writers;
    }

    /// The databases, as the leader's status says.
    pub(super) fn publish_databases(&mut self, reports: &[Report]) {
        self.membership.attendance.reported(reports);
        let databases = reports.iter().map(|report| DatabaseStatus {
            member: report.member,
            state: report.state,
            applied: report.applied,
            flushed: (report.db_flushed != Seqno(0)).then_some(report.db_flushed),
            queue: report.queue,
            log_format: (report.log_format != 0).then_some(report.log_format),
        });
        lock(&self.ctx.links.shared.status).databases = databases.collect();
    }

    /// Publishes how far the logs of others are durable, as a leader knows it, and in which format
    /// the own log is written. After each slow tick.
    pub(super) fn publish_progress(&self) {
        let leads = self.ctx.core.is_leader();
        let progress = self.ctx.core.progress().filter(|_| leads);
        let known = progress.filter(|progress| progress.match_index != LogIndex(0));
        let elsewhere = known.map(|progress| (progress.member, progress.match_index));
        let mut status = lock(&self.ctx.links.shared.status);
        status.durable_elsewhere = elsewhere.collect();
        status.log_format = self.ctx.links.reader.format().number();
        if status.leader.is_none() {
            status.databases.clear();
        }
    }

    pub(super) fn publish_view(&mut self) {
        let mut status = lock(&self.ctx.links.shared.status);
        status.view = self.ctx.views.committed().clone();
        drop(status);
        self.publish_members();
    }
}
