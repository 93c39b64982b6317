//! The slow work, once per [`crate::Tuning::slow_tick`]: watches, reports, views, retention. The
//! order matters: each step uses what those before it have found out. Effects of the consensus core
//! that a step causes are performed after all of them.

use super::Driver;
use super::membership::{correct_own_record, raise_protocol};
use super::purge_policy::discard_unknown;

impl Driver {
    pub(super) fn slow_tick(&mut self) {
        // Before the next step: by its policy a member may continue instead.
        self.leadership
            .watch_quorum_loss(&mut self.ctx, &self.membership);
        // Before anything that clients wait for: those that wait in vain are released first.
        self.watch_primary();
        self.membership.join_without_view(&self.ctx);
        // After the watch on the leader: a member under repair waits for one.
        self.leadership.watch_repair(&mut self.ctx);
        // Before the request to join, which makes more acquaintances.
        self.authorization.rights_tick(&self.ctx, &self.membership);
        // Before the request to join, which a removed member does not send.
        self.membership.watch_removal(&mut self.ctx);
        // Before the report: the leader ignores reports of members that are not present.
        self.membership
            .send_join_if_needed(&self.ctx, &self.leadership, &mut self.authorization);
        let unheard = self.recovery.unheard(&self.ctx, &self.membership);
        self.membership.watch_join(&self.ctx, &unheard);
        // Before the report, whose weight depends on it.
        self.leadership.watch_disk(&mut self.ctx);
        // Before the report, which says how far the database has flushed.
        let (state, applied) = (self.ctx.data_state, self.ctx.links.shared.applied());
        let now = self.ctx.turns.now;
        let oldest_write = self.leadership.disk_watch.oldest_write(now);
        self.purge_policy
            .database_is_at(now, oldest_write, state, applied);
        self.purge_policy
            .readers_are_at(self.ctx.links.shared.readers.slowest());
        // Before the leader's work: its own report is among those that it works with.
        self.send_report();
        self.leadership.watch_regions(&mut self.ctx);
        self.leader_tick();
        // After the leader's work: who is present decides whose outcomes count.
        self.failed_actions
            .failed_actions_tick(&mut self.ctx, &self.membership);
        // After the leader's work, which lets other leavers go before the leader itself.
        self.membership.leave_tick(&mut self.ctx);
        // After the leader's work: what it appended may be committed.
        self.commands
            .commands_tick(&mut self.ctx, &mut self.authorization);
        // After the reports and the status, from which the purge limit follows.
        self.purge_policy
            .retain_log(&mut self.ctx, &self.membership, &mut self.catch_up.fetching);
        // After the watch on the leader: without one, no search is given up.
        self.catch_up.fetching.fetching_tick(&self.ctx);
        // After the watch on the leader: commits wait for no database while there is none.
        self.commit_wait.everywhere_tick(&self.ctx);
        // After the leader's work: its own changes of the configuration come first.
        self.proposals.writers.writers_tick(&mut self.ctx);
        // After the leader's work, which announces the pace.
        self.flow_control.publish_pace(&self.ctx);
        self.flow_control.watch_throttling(&self.ctx);
        self.commit_wait.publish_commit_wait(&self.ctx);
        self.ctx.publish_progress();
        self.membership.publish_presence(&self.ctx);
        // After the watch on the leader: only members without one report.
        self.recovery.recovery_tick(&self.ctx, &self.membership);
        // Last: the steps before may have changed who is in the group.
        self.drop_strangers();
    }

    /// The leader's share of the slow work. Steps that append an entry or change the configuration
    /// are refused while another change is under way; they try again at the next tick.
    fn leader_tick(&mut self) {
        if !self.ctx.core.is_ready_leader() {
            return;
        }
        // First: the steps after it concern the members present.
        let own = self.own_report();
        self.membership.update_view(&mut self.ctx, own);
        self.membership.announce_presence(&self.ctx);
        // Its own record, a new protocol version and leavers share the one change of configuration
        // that may be under way. Its own record comes first, since the version follows from the
        // records; leavers come after them, since a change by a leaver can wait. The votes of dead
        // members can wait longer.
        correct_own_record(&mut self.ctx);
        raise_protocol(&mut self.ctx);
        self.authorization.bind_certificates(&mut self.ctx);
        self.membership.continue_leaves(&mut self.ctx);
        // After the leavers, who wait for it.
        self.membership
            .care_for_voters(&mut self.ctx, &mut self.commands);
        // Partial actions before the status: a discard lets the purge limit rise.
        discard_unknown(&mut self.ctx);
        self.proposals.discard_stale(&mut self.ctx);
        self.purge_policy.discard_action_in_the_way(&mut self.ctx);
        // Weights before the status, so that the leader uses what it is about to send.
        self.leadership
            .weigh_reports(&mut self.ctx, &self.membership);
        // After the regions, which say where writers are.
        self.leadership.watch_writers(&mut self.ctx);
        // After the regions, too.
        self.catch_up
            .feeding
            .choose_feeders(&self.ctx, &self.leadership);
        self.broadcast_status();
        self.catch_up.standstill.watch_standstill(&self.ctx);
        // Last: an action in the way is discarded only one tick after the full log was announced.
        self.purge_policy.announce_full_log(&self.ctx);
    }
}
