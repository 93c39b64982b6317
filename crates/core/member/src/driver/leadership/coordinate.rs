//! The driver's dealings with leadership: follows changes of role, notices a lost majority, forces
//! a primary, keeps leader weights, and hands over if the disk has stalled or the writers are
//! elsewhere.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use synod_consensus::{
    Append, Body, EntryHeader, EntryId, ForceError, LeaderPreference, LeaderWeight, LogBase,
    LogIndex, MemberId, Message, Role, RoleChange, RoleName, Seqno, Term, Time, WriteOp, Writers,
};
use synod_planted::planted;
use synod_wire::Report;

use super::LeaderPriority;
use super::disk_watch::DiskNews;
use super::elections::Cause;
use super::follow_writers::{FitVoter, Place, WritingPlace};
use super::forced_primary::has_action;
use crate::config::DatabasePosition;
use crate::driver::Driver;
use crate::host::{Election, Level, Topic};
use crate::shared::lock;

/// Longest election timeouts between two attempts to hand over because of a disk.
const HANDOVER_PAUSE: u64 = 4;

impl Driver {
    pub(in crate::driver) fn role_changed(&mut self, change: RoleChange) {
        let leads = change.role == RoleName::Leader;
        self.leadership
            .primary
            .role_changed(self.ctx.turns.now, &change);
        self.proposals
            .local
            .leader_changed(change.term, change.leader);
        self.flow_control.leader_changed(self.ctx.turns.now);
        if leads {
            self.proposals
                .ordering
                .begin_term(change.term, self.ctx.core.last_seqno());
            self.begin_leading();
        } else {
            self.proposals.ordering.stop_leading();
            self.retention.stop_leading();
        }
        if change.leader.is_some() {
            self.watch_primary();
            self.send_join_if_needed();
            self.send_report();
            self.report_to_new_leader();
        }
        if let Some(leader) = change.leader {
            self.doubt_database(leader);
            self.announce_leader(change.term, leader);
        }
    }

    /// Says who leads, and why it is this member now.
    fn announce_leader(&mut self, term: Term, leader: MemberId) {
        let Some(cause) = self.leadership.elections.elected(term, leader) else {
            return;
        };
        let leader = self.ctx.name_of(leader);
        let why = match cause {
            Cause::First => "the first leader that this server hears since its start".to_owned(),
            Cause::HandedOver { by } => {
                format!("{} has handed leadership over", self.ctx.name_of(by))
            }
            Cause::Lost { before } => format!(
                "{} led before, and was silent for an election timeout or had lost its majority",
                self.ctx.name_of(before)
            ),
            Cause::Again => "it led before, and was not heard by a majority meanwhile".to_owned(),
        };
        let text = format!("term {term}: the leader is {leader} ({why})");
        self.ctx.note(Topic::Leadership, Level::Info, text);
        self.ctx.links.host.elected(&Election { term, leader, why });
    }

    fn begin_leading(&mut self) {
        let (now, me) = (self.ctx.turns.now, self.ctx.identity.view_member());
        let suspect = self.ctx.identity.config.suspect;
        let is_forced = self.leadership.forced_primary.take_order();
        let membership = &mut self.membership;
        let view = self.ctx.views.latest_known();
        if is_forced {
            // The others had their time before, or the operator knows better.
            let presence = &mut membership.presence;
            presence.begin_with_live_members(now, view, me, suspect);
        } else {
            membership.presence.begin(now, view, me);
        }
        membership.leave.stay_for_others(now);
        membership.silence.begin();
        self.leadership.follow_writers.begin_leading(now);
        self.commands.begin_leading();
        self.catch_up.feeding.feeders.begin_leading();
        membership.successor = None;
    }

    /// Notices that a leader is heard, or was not for too long.
    pub(in crate::driver) fn watch_primary(&mut self) {
        let (now, patience) = (self.ctx.turns.now, self.group_patience());
        let was_primary = self.ctx.links.shared.is_primary();
        let is_primary = self
            .leadership
            .primary
            .is_primary(now, was_primary, patience);
        if is_primary == was_primary {
            return;
        }
        self.ctx
            .links
            .shared
            .primary
            .store(is_primary, Ordering::Release);
        lock(&self.ctx.links.shared.status).primary = is_primary;
        if is_primary {
            let text = "a leader with a quorum is heard";
            self.ctx.note(Topic::Leadership, Level::Info, text);
        } else {
            let text = format!(
                "no leader for {:?}: this member is not primary until it hears one. Configured \
                 voters: {}. If most of them are lost for good: 'synod recover --plan'",
                self.leadership
                    .primary
                    .leaderless_for(now)
                    .unwrap_or_default(),
                self.voter_names()
            );
            self.ctx.note(Topic::Leadership, Level::Info, text);
            self.withdraw_proposals();
        }
        self.publish_everywhere();
        self.ctx.links.host.primary_changed(is_primary);
    }

    /// How long this member waits for a leader before it takes the group for lost: the suspect
    /// timeout, or longer if an ordinary election may last longer. Otherwise clients would get
    /// unknown outcomes whenever a leader fails.
    pub(in crate::driver) fn group_patience(&self) -> Duration {
        let election = Duration::from_micros(self.ctx.core.longest_deferred_election_us());
        self.ctx.identity.config.suspect.max(election)
    }

    fn voter_names(&self) -> String {
        let config = &self.ctx.core.config().config;
        let voters = config.members.values().filter(|m| m.role == Role::Voter);
        let names: Vec<String> = voters
            .map(|m| format!("{} at {}", m.name, m.address))
            .collect();
        names.join(", ")
    }

    // --- without a majority ------------------------------------------------------------------

    /// Makes this member the only voter.
    pub(in crate::driver) fn force_new_primary(&mut self) -> Result<(), ForceError> {
        self.ctx.core.force(self.ctx.turns.now)?;
        self.leadership.forced_primary.ordered();
        self.ctx.note(
            Topic::Leadership,
            Level::Info,
            "continuing without the other voters, as ordered: what they have committed and this \
             member has not seen is lost",
        );
        Ok(())
    }

    /// Follows the quorum loss policy at the moment when this member would stop being primary:
    /// clients that wait for a commit keep waiting, and get it.
    pub(in crate::driver) fn watch_quorum_loss(&mut self) {
        let (now, suspect) = (self.ctx.turns.now, self.ctx.identity.config.suspect);
        let is_lost = self
            .leadership
            .primary
            .has_lost_group(now, self.group_patience());
        let membership = &self.membership;
        if !is_lost || membership.leave.is_under_way() || !membership.join.is_completed() {
            return;
        }
        let voters: Vec<MemberId> = self.ctx.core.config().config.voters().collect();
        let is_connected = |id| membership.presence.is_alive(now, id, suspect / 2);
        let me = self.ctx.identity.me.member;
        let continues = self
            .leadership
            .forced_primary
            .continues(me, &voters, is_connected);
        if continues && self.ctx.core.leader().is_none() {
            self.leadership.primary.wait_again(now);
            if let Err(error) = self.force_new_primary() {
                self.ctx
                    .log(Level::Info, format!("cannot continue alone: {error}"));
            }
        }
    }

    /// Whether this message may be obeyed. A leader that was elected has all that is committed. A
    /// forced primary that began while the majority lived may want committed entries replaced, or
    /// begin its log after the place where the histories part.
    pub(in crate::driver) fn may_obey(&mut self, message: &Message) -> bool {
        let contradicted = match &message.body {
            Body::Append(append) => self.entry_contradicts(append),
            Body::InstallBase { base, .. } => {
                self.contradicts(base.last).then_some(base.last.index)
            }
            _ => None,
        };
        let is_current = message.term >= self.ctx.core.term();
        let Some(index) = contradicted.filter(|_| is_current) else {
            return true;
        };
        let kept = self.ctx.core.seqno_at(index.prev()).unwrap_or_default();
        let last = self.ctx.links.shared.commit_seqno();
        self.ctx.fail(&format!(
            "{} was ordered to continue without a majority, and without what is at {} to {last} \
             here, which is committed, too. There are two histories now. Compare them by hand if \
             that matters; then delete the data of the servers of one, and start those of the \
             other one again",
            self.ctx.name_of(message.from),
            kept.next(),
        ));
        false
    }

    /// Whether another entry is committed here at this index.
    fn contradicts(&self, id: EntryId) -> bool {
        let committed = self.ctx.core.base().last.index..=self.ctx.core.commit_index();
        committed.contains(&id.index) && self.ctx.core.term_at(id.index) != Some(id.term)
    }

    /// The first entry that an append names and that contradicts what is committed here. The one
    /// before its entries is in the sender's log, too.
    fn entry_contradicts(&self, append: &Append) -> Option<LogIndex> {
        let entries = append.entries.iter().map(EntryHeader::id);
        let mut named = std::iter::once(append.prev).chain(entries);
        named
            .find(|id| self.contradicts(*id))
            .map(|other| other.index)
    }

    /// Whether this may be written to the log. Not if the log would lose the proof that the
    /// database follows another history. Only a forced primary can ask for that: a leader that was
    /// elected has all that is committed (Raft, section 5.4.3). So its followers truncate nothing
    /// that was ever applied, and begin their logs again only after what they have applied.
    pub(in crate::driver) fn may_write(&mut self, op: &WriteOp) -> bool {
        match op {
            WriteOp::Truncate { from } => self.may_truncate(*from),
            WriteOp::Reset(base) => self.may_reset(base),
            WriteOp::Append(_) | WriteOp::Vote(_) => true,
        }
    }

    fn may_truncate(&mut self, from: LogIndex) -> bool {
        let kept = self.ctx.core.seqno_at(from.prev());
        let kept = kept.or_else(|| {
            let entry = self.ctx.links.reader.summary(from.prev());
            entry.map(|entry| entry.seqno)
        });
        let applied = self.database_seqno();
        let is_applied = kept.is_some_and(|kept| applied > kept);
        if !planted!(UndoApplied, is_applied, else false) {
            return true;
        }
        self.may_lose(from, kept.unwrap_or_default().next(), applied)
    }

    /// The core asks for a reset only if this log does not hold the base.
    fn may_reset(&mut self, base: &LogBase) -> bool {
        let applied = self.database_seqno();
        let at = self.ctx.links.reader.seek_database(applied);
        let Some(at) = at.ok().filter(|at| *at > LogIndex(0)) else {
            // This log never had what the database has: it proves nothing.
            return true;
        };
        let is_other = base.last.index <= at || base.seqno < applied;
        if planted!(ForgetOtherHistory, is_other, else false) {
            let reader = &self.ctx.links.reader;
            let (first, seqno) = (reader.first_index(), reader.first_seqno_available());
            return self.may_lose(first, seqno, applied);
        }
        if base.seqno == applied && !self.membership.join.is_completed() {
            // The next action may be of either history.
            self.ctx.log(
                Level::Info,
                format!(
                    "the group's log begins at {applied}, where this member's database is, and \
                     nothing shows that both have the same past: the database has to be copied \
                     again"
                ),
            );
            self.ctx
                .links
                .shared
                .database_diverged
                .store(true, Ordering::Release);
        }
        true
    }

    /// The group has another history: what this log has from `index` on, and the database up to
    /// `applied`, may be lost. True if nothing has to be compared, because there are only views.
    fn may_lose(&mut self, index: LogIndex, first: Seqno, applied: Seqno) -> bool {
        let entry = |index| self.ctx.links.reader.summary(index);
        if has_action(index, applied, entry) {
            self.stop_with_lost_actions(first, applied);
        } else if self.membership.join.is_completed() {
            let again = self.begins_again();
            self.ctx.fail(&format!(
                "the group was ordered to continue without a majority, and without the views in \
                 which this member was alone. Start it again: {again}"
            ));
        } else {
            let again = self.begins_again();
            self.ctx.log(
                Level::Info,
                format!(
                    "the group was ordered to continue without the views {first} to {applied} in \
                     which this member was alone: {again}"
                ),
            );
            let diverged = &self.ctx.links.shared.database_diverged;
            diverged.store(true, Ordering::Release);
            return true;
        }
        false
    }

    /// Whether the database fits a view that has this session for the first time. Each view comes
    /// after all that was ever committed before it, unless a forced primary lost that.
    pub(in crate::driver) fn may_join(&mut self, view: Seqno) -> bool {
        let applied = self.database_seqno();
        let fits = applied < view;
        if !fits {
            self.stop_with_lost_actions(view, applied);
        }
        fits
    }

    /// How this member gets the group's history in place of its own, for texts.
    fn begins_again(&self) -> &'static str {
        match self.ctx.identity.config.in_relay_group {
            true => "its log begins again",
            false => "its database has to be copied again",
        }
    }

    fn stop_with_lost_actions(&mut self, first: Seqno, last: Seqno) {
        let (place, remedy) = match self.ctx.identity.config.in_relay_group {
            true => ("log", "move its synod-*.log files away"),
            false => ("database", "delete this member's data"),
        };
        self.ctx.fail(&format!(
            "the group was ordered to continue without a majority, and without actions from \
             {first} to {last} that are in this member's {place}. Compare them by hand if they \
             matter; then {remedy} and start it again"
        ));
    }

    /// The last action in the database, whether this member has joined or not.
    pub(in crate::driver) fn database_seqno(&self) -> Seqno {
        let database = self.database();
        let at_start = if database.group == self.ctx.identity.group {
            database.seqno
        } else {
            Seqno(0)
        };
        if self.membership.join.is_completed() {
            self.ctx.links.shared.applied().max(at_start)
        } else {
            at_start
        }
    }

    /// Position of the database at the start, unless that position has lost its meaning.
    pub(in crate::driver) fn database(&self) -> DatabasePosition {
        self.ctx
            .links
            .shared
            .position_of(self.ctx.identity.config.database)
    }

    // --- a disk that has stalled -------------------------------------------------------------

    /// Looks whether this member's disk keeps up. If it does not, this member is no candidate, and
    /// hands leadership over if it leads.
    pub(in crate::driver) fn watch_disk(&mut self) {
        let now = self.ctx.turns.now;
        match self.leadership.disk_watch.look(now) {
            Some(DiskNews::Stalled(oldest)) => {
                self.ctx.core.set_disk_stalled(true);
                let text = format!(
                    "a write of this member's log has not finished for {:.1} s: its disk hangs or \
                     is overloaded. Until it has, this member acknowledges nothing and is no \
                     candidate. If it leads, it hands leadership over to a member with a quicker \
                     disk; the others keep serving. If this lasts or comes again, check that disk \
                     (dmesg, iostat), or move the log",
                    oldest.as_secs_f64()
                );
                self.ctx.note(Topic::Log, Level::Warning, text);
            }
            Some(DiskNews::Recovered) => {
                self.ctx.core.set_disk_stalled(false);
                let text = "the disk of this member's log answers again";
                self.ctx.note(Topic::Log, Level::Info, text);
            }
            None => {}
        }
        if self.leadership.disk_watch.is_stalled() {
            self.hand_over_for_disk();
        }
    }

    /// Hands leadership over, if a majority of the others has written what this member has not, and
    /// one of them has shown a quicker disk meanwhile. Where all disks are slow, an election takes
    /// many syncs, and its winner is no better.
    fn hand_over_for_disk(&mut self) {
        let (durable, commit) = (self.ctx.core.durable_index(), self.ctx.core.commit_index());
        let is_behind = self.ctx.core.is_leader() && durable < commit;
        if !planted!(KeepStalledLeader, is_behind, else false)
            || self.ctx.core.leader_transfer_target().is_some()
        {
            return;
        }
        let now = self.ctx.turns.now;
        let Some(to) = self.successor_for_disk(now) else {
            return;
        };
        let longest_us = self.ctx.identity.config.timing.election_timeout_max_us;
        let pause = Duration::from_micros(HANDOVER_PAUSE * longest_us);
        if self.leadership.disk_watch.takes_turn(now, pause) {
            // Refused if that voter cannot take over; tried again after the pause.
            let _ = self.ctx.core.transfer_leadership(now, Some(to));
        }
    }

    fn successor_for_disk(&mut self, now: Time) -> Option<MemberId> {
        let since = self.leadership.disk_watch.oldest_since()?;
        let quick_us = self.leadership.disk_watch.quick().as_micros() as u64;
        let within_us = planted!(HandOverToSlow, quick_us, else u64::MAX);
        self.ctx
            .core
            .successor_with_quick_disk(now, since, within_us)
    }

    /// The weight that this member reports: zero while its disk has stalled.
    pub(in crate::driver) fn reported_weight(&self) -> LeaderWeight {
        let own = self.ctx.core.leader_preference().weight;
        let none = LeaderWeight::new(0).filter(|_| self.leadership.disk_watch.is_stalled());
        none.unwrap_or(own)
    }

    // --- who should lead ---------------------------------------------------------------------

    /// This member's own preference.
    pub(in crate::driver) fn set_leader_preference(&mut self, preference: LeaderPreference) {
        if preference != self.ctx.core.leader_preference() {
            self.ctx.core.set_leader_preference(preference);
            self.publish_members();
            self.send_report();
        }
    }

    pub(in crate::driver) fn set_leader_handover(&mut self, hands_over: bool) {
        self.set_leader_preference(LeaderPreference {
            hands_over,
            ..self.ctx.core.leader_preference()
        });
    }

    /// Leader only: takes weights and regions from the members' reports.
    pub(in crate::driver) fn weigh_reports(&mut self) {
        let config = &self.ctx.core.config().config;
        let reports = || self.membership.presence.reports();
        let moved = self.leadership.regions.note(config, reports());
        let weights = LeaderPriority::weights(config, reports());
        self.set_leader_weights(weights, moved);
    }

    /// Follower only: takes weights and regions from the leader's status.
    pub(in crate::driver) fn weigh_status(&mut self, members: &[Report]) {
        let config = &self.ctx.core.config().config;
        let moved = self.leadership.regions.note(config, members.iter());
        let weights = LeaderPriority::weights(config, members.iter());
        self.set_leader_weights(weights, moved);
    }

    /// `moved`: a member has reported another region.
    fn set_leader_weights(&mut self, weights: BTreeMap<MemberId, LeaderWeight>, moved: bool) {
        let weighed = self.ctx.core.set_leader_weights(weights);
        if weighed || moved {
            self.publish_members();
        }
    }

    /// Leader only: moves leadership to where nearly all writes come from, if that is elsewhere
    /// and an operator wants it.
    pub(in crate::driver) fn follow_writers(&mut self) {
        let (now, me) = (self.ctx.turns.now, self.ctx.identity.me.member);
        let config = self.ctx.core.config();
        let is_committed = config.index <= self.ctx.core.commit_index();
        if config.config.writers == Writers::Leader {
            // Whatever others have written before is no reason any more.
            return self.leadership.follow_writers.forget(now);
        }
        let regions = &self.leadership.regions;
        let place_of = |id| Place::of(id, regions.of(id));
        let committed = self.ctx.core.commit_index();
        let follow = &mut self.leadership.follow_writers;
        let found = follow.look(now, committed, &place_of(me), place_of);
        // A change of the configuration has precedence.
        let Some(found) = found.filter(|_| is_committed) else {
            return;
        };
        let own_weight = self.ctx.core.leader_preference().weight;
        let voters = self.fit_voters(found.committed_before);
        let Some(to) = found.choose(own_weight, voters, place_of) else {
            return;
        };
        if self.ctx.core.transfer_leadership(now, Some(to)).is_ok() {
            let reason = self.writing_reason(&found);
            self.leadership.follow_writers.moves_to(now, to, reason);
        }
    }

    /// Voters with a database that could lead now: their logs have reached `committed`.
    fn fit_voters(&self, committed: LogIndex) -> impl Iterator<Item = FitVoter> + '_ {
        let (core, answering) = (&self.ctx.core, self.answering());
        core.progress().filter_map(move |progress| {
            let member = core.config().config.members.get(&progress.member)?;
            let is_voter = member.role == Role::Voter && member.has_data;
            let answers = answering.contains(&progress.member);
            let is_fit = is_voter && answers && progress.match_index >= committed;
            is_fit.then_some(FitVoter {
                member: progress.member,
                weight: core.weight_of(progress.member)?,
                log_end: progress.match_index,
            })
        })
    }

    fn writing_reason(&self, found: &WritingPlace) -> String {
        let place = match &found.place {
            Place::Region(region) => format!("region {region}"),
            Place::Member(member) => self.ctx.name_of(*member),
        };
        format!(
            ", because {} % of the transactions come from {place}",
            found.percent
        )
    }

    /// Logs once that leadership is being transferred, and to which member.
    pub(in crate::driver) fn announce_leader_transfer(&mut self) {
        let target = self.ctx.core.leader_transfer_target();
        let Some(to) = self.leadership.leader_priority.transfer_to_announce(target) else {
            return;
        };
        let name = self.ctx.name_of(to);
        let own = self.ctx.core.leader_preference().weight;
        let heavier = self.ctx.core.weight_of(to).filter(|weight| *weight > own);
        let weights = heavier.map_or_else(String::new, |weight| {
            format!(", whose weight is {weight}; that of this member is {own}")
        });
        let disk = if self.leadership.disk_watch.is_stalled() {
            ", because the disk of this member's log has stalled"
        } else {
            ""
        };
        let writers = self
            .leadership
            .follow_writers
            .take_reason(to)
            .unwrap_or_default();
        let text = format!("handing leadership over to {name}{weights}{disk}{writers}");
        self.ctx.note(Topic::Leadership, Level::Info, text);
    }
}
