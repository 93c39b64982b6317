//! State of the driver that other threads may see, see [`crate::Shared`].

use synod_consensus::{Role, Seqno};
use synod_wire::Report;

use super::context::Context;
use super::leadership::Leadership;
use super::membership::Membership;
use super::proposals::Proposals;
use crate::host::MemberStatus;
use crate::shared::{DatabaseStatus, lock};

impl Proposals {
    /// The cheap part, after every turn.
    pub(super) fn publish_status(&self, ctx: &Context) {
        let leader = ctx.core.leader();
        let mut status = lock(&ctx.links.shared.status);
        status.term = ctx.core.term();
        status.role = Some(ctx.core.role());
        status.commit_index = ctx.core.commit_index();
        status.last_index = ctx.core.last_id().index;
        status.pending = self.local.len();
        status.cert_keys = ctx.certification.key_count();
        status.leader_weight = ctx.core.leader_preference().weight;
        if status.leader != leader {
            status.leader = leader;
            status.leader_name = leader.map_or_else(String::new, |id| ctx.name_of(id));
        }
    }
}

impl Leadership {
    pub(super) fn publish_members(&self, ctx: &Context) {
        let config = &ctx.core.config().config;
        let view = ctx.views.committed();
        let leader_name = ctx.core.leader().map(|id| ctx.name_of(id));
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
            leader_weight: if *id == ctx.identity.me.member {
                Some(ctx.core.leader_preference().weight)
            } else {
                ctx.core.weight_of(*id)
            },
            region: self.regions.of(*id).cloned(),
            versions: member.versions,
        });
        let mut status = lock(&ctx.links.shared.status);
        status.members = members.collect();
        status.leader_name = leader_name.unwrap_or_default();
        status.voter = config
            .members
            .get(&ctx.identity.me.member)
            .is_some_and(|m| m.role == Role::Voter);
        status.group = ctx.identity.group;
        status.protocol = config.protocol;
        status.protocol_is_held = config.protocol_is_held;
        status.settings = config.settings;
    }

    pub(super) fn publish_view(&self, ctx: &Context) {
        let mut status = lock(&ctx.links.shared.status);
        status.view = ctx.views.committed().clone();
        drop(status);
        self.publish_members(ctx);
    }
}

impl Membership {
    pub(super) fn publish_databases(&mut self, ctx: &Context, reports: &[Report]) {
        for report in reports {
            let readers_at = self.readers_at.entry(report.member).or_default();
            readers_at.clone_from(&report.incoming);
        }
        let databases = reports.iter().map(|report| DatabaseStatus {
            member: report.member,
            state: report.state,
            applied: report.applied,
            flushed: (report.db_flushed != Seqno(0)).then_some(report.db_flushed),
            queue: report.queue,
            log_format: (report.log_format != 0).then_some(report.log_format),
        });
        lock(&ctx.links.shared.status).databases = databases.collect();
    }
}
