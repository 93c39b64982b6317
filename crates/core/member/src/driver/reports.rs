//! Reports of members to the leader, and the leader's status for all. The facts go to many
//! components: presence, certification, retention, leader priority.

use std::sync::atomic::Ordering;

use synod_consensus::{MemberId, Seqno};
use synod_wire::{PeerMessage, Report, StatusBroadcast};

use super::Driver;

impl Driver {
    pub(super) fn own_report(&self) -> Report {
        let shared = &self.ctx.links.shared;
        let applied = shared.applied();
        let on_their_way = shared.snapshots.oldest();
        let seen_by_all = on_their_way.map_or(applied, |seen| seen.min(applied));
        let committed = shared.commit_seqno.load(Ordering::Acquire);
        let (me, config) = (self.ctx.identity.me, &self.ctx.identity.config);
        Report {
            member: me.member,
            session: me.session,
            state: self.ctx.data_state,
            applied,
            seen: seen_by_all,
            db_flushed: self.retention.db_flushed(),
            incoming: config.incoming.clone(),
            queue: u32::try_from(committed.saturating_sub(applied.0).max(0)).unwrap_or(u32::MAX),
            weight: self.reported_weight(),
            wants_vote: config.wants_vote,
            log_format: self.ctx.links.reader.format().number(),
            region: config.region.clone(),
        }
    }

    /// Reports this member's database to the leader.
    pub(super) fn send_report(&mut self) {
        let Some(leader) = self.ctx.core.leader() else {
            return;
        };
        let report = self.own_report();
        if leader == self.ctx.identity.me.member {
            self.membership.presence.report(report);
        } else {
            self.ctx.send(leader, PeerMessage::Report(report));
            self.repeat_position();
        }
    }

    pub(super) fn handle_report(&mut self, from: MemberId, report: Report) {
        let is_present = self.membership.presence.session_of(from) == Some(report.session);
        if !self.ctx.core.is_leader() || report.member != from || !is_present {
            return;
        }
        self.membership.presence.report(report);
        if !self.ctx.core.config().config.is_voter(from) {
            self.let_learners_vote();
        }
    }

    /// Leader only: sends all members its status. Not before each present member has reported:
    /// one that has just come may lag far behind, and its write sets need the history.
    pub(super) fn broadcast_status(&mut self) {
        let presence = &self.membership.presence;
        if !presence.all_reported() {
            return;
        }
        let members: Vec<Report> = presence.reports().cloned().collect();
        self.advance_window(&members);
        let config = &self.ctx.core.config().config;
        self.retention.note_reports(config, &members);
        let (term, purge_limit) = (self.ctx.core.term(), self.purge_limit());
        let others: Vec<MemberId> = self
            .ctx
            .core
            .config()
            .config
            .members
            .keys()
            .copied()
            .collect();
        let me = self.ctx.identity.me.member;
        for member in others.into_iter().filter(|id| *id != me) {
            let status = StatusBroadcast {
                term,
                members: members.clone(),
                purge_limit,
                commit: self.ctx.core.commit_index(),
            };
            self.ctx.send(member, PeerMessage::Status(status));
        }
        self.publish_databases(&members);
        self.announce_pace();
    }

    /// The leader's status.
    pub(super) fn handle_status(&mut self, from: MemberId, status: StatusBroadcast) {
        if status.term != self.ctx.core.term() || self.ctx.core.leader() != Some(from) {
            return;
        }
        self.leader_states_commit(status.commit);
        let (reports, limit) = (&status.members, status.purge_limit);
        self.advance_window(reports);
        let (config, last) = (
            &self.ctx.core.config().config,
            self.ctx.core.last_id().index,
        );
        self.retention.note_status(config, reports, limit, last);
        self.weigh_status(reports);
        self.publish_databases(reports);
    }

    /// History that every present member has applied can no longer conflict with anything.
    fn advance_window(&mut self, reports: &[Report]) {
        let low_water: Option<Seqno> = reports.iter().map(|r| r.seen).min();
        if let Some(low_water) = low_water {
            self.ctx.certification.advance_window(low_water);
        }
    }
}
