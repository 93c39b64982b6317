//! The slow work, once per [`crate::Tuning::slow_tick`]: watches, reports, views, retention.
//!
//! The order matters: each step uses what those before it have found out. Effects of the consensus
//! core that a step causes are performed after all of them.

use super::Driver;
use super::own_log::RepairNews;
use crate::host::{Level, Remedy, Topic};
use synod_log::LogError;

impl Driver {
    pub(super) fn slow_tick(&mut self) {
        // Before the next step: by its policy a member may continue instead of ceasing to be
        // primary.
        self.watch_quorum_loss();
        // Before anything that clients wait for: those that wait in vain are released first.
        self.watch_primary();
        self.join_without_view();
        // After the watch on the leader: a member under repair waits for one.
        self.watch_repair();
        // Before the request to join, which makes more acquaintances.
        self.rights_tick();
        // Before the request to join, which a removed member does not send.
        self.watch_removal();
        // Before the report: the leader ignores reports of members that are not present.
        self.send_join_if_needed();
        self.watch_join();
        // Before the report, whose weight depends on it.
        self.watch_disk();
        // Before the report, which says how far the database has flushed.
        let (state, applied) = (self.ctx.data_state, self.ctx.links.shared.applied());
        let now = self.ctx.turns.now;
        let oldest_write = self.leadership.disk_watch.oldest_write(now);
        self.retention
            .database_is_at(now, oldest_write, state, applied);
        self.retention
            .readers_are_at(self.ctx.links.shared.readers.slowest());
        // Before the leader's work: its own report is among those that it works with.
        self.send_report();
        self.leader_tick();
        // After the leader's work: who is present decides whose outcomes count.
        self.inconsistency_tick();
        // After the leader's work, which lets other leavers go before the leader itself.
        self.leave_tick();
        // After the leader's work: what it appended may be committed.
        self.commands_tick();
        // After the reports and the status, from which the purge limit follows.
        self.retain_log();
        // After the watch on the leader: without one, no search is given up.
        self.fetching_tick();
        // After the watch on the leader: commits wait for no database while there is none.
        self.everywhere_tick();
        // After the leader's work: its own changes of the configuration come first.
        self.writers_tick();
        // After the leader's work, which announces the pace.
        self.publish_pace();
        self.watch_throttling();
        self.publish_commit_wait();
        self.publish_progress();
        self.publish_presence();
        // After the watch on the leader: only members without one report.
        self.recovery_tick();
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
        self.update_view();
        self.announce_presence();
        // Its own record, a new protocol version and leavers share the one change of configuration
        // that may be under way. Its own record comes first, since the version follows from the
        // records; leavers come after them, since a change by a leaver can wait. The votes of dead
        // members can wait longer.
        self.correct_own_record();
        self.raise_protocol();
        self.bind_certificates();
        self.continue_leaves();
        // After the leavers, who wait for it.
        self.care_for_voters();
        // Partial actions before the status: a discard lets the purge limit rise.
        self.discard_unknown();
        self.discard_stale();
        self.discard_action_in_the_way();
        // Weights before the status, so that the leader uses what it is about to send.
        self.weigh_reports();
        // After the weights and regions, which decide where to.
        self.follow_writers();
        // After the regions, too.
        self.choose_feeders();
        self.broadcast_status();
        self.watch_standstill();
        // Last: an action in the way is discarded only one tick after the full log was announced.
        self.announce_full_log();
    }

    fn watch_repair(&mut self) {
        let now = self.ctx.turns.now;
        let is_alone = self
            .leadership
            .primary
            .has_lost_group(now, self.group_patience());
        let until = self.ctx.core.repairing_until();
        match self.ctx.own_log.repair.news(now, until, is_alone) {
            None => {}
            Some(RepairNews::Repaired) => {
                self.ctx
                    .note(Topic::Log, Level::Info, "this member's log is repaired");
            }
            Some(RepairNews::Waiting(until)) => {
                let text = format!(
                    "this member's log was damaged and lacks entries that may have been \
                     acknowledged, up to {until}. It waits for a leader that has them; none is \
                     known, so the group is not primary as long as too few members with whole \
                     logs are running. 'When logs are damaged' in \
                     docs/operating/shutdown-and-recovery.md says what can be done"
                );
                self.ctx.note(Topic::Log, Level::Error, text);
            }
        }
    }

    /// A damaged record was read. It is neither served nor delivered; the next start repairs it.
    pub(super) fn log_damaged(&mut self, error: &LogError) {
        let damage = error.damage().unwrap_or_else(|| error.to_string());
        let why = format!(
            "its log is damaged: {damage}. Restart it: it then gets what is lost from the other \
             members"
        );
        // The only voter of a group would not start.
        let me = self.ctx.identity.me.member;
        let remedy = if self.ctx.core.config().config.voters().any(|id| id != me) {
            Remedy::Restart
        } else {
            Remedy::Operator
        };
        self.ctx.stop_for(&why, remedy);
    }
}
