//! The driver's dealings with [`super::Retention`]: collects the facts, gives the log its bounds,
//! and has the leader discard partial actions that would keep logs from being purged.

use synod_consensus::{ConfigAt, EntryKind, LogIndex};
use synod_wire::DataState;

use super::{CertifiedLog, Needs};
use crate::driver::Driver;
use crate::host::{Level, Topic};
use crate::payload::discard::Discard;
use crate::setting::Setting;
use crate::storage::{Job, PurgeJob};

impl Driver {
    pub(in crate::driver) fn certified_log(&self) -> CertifiedLog {
        let (start, start_seqno) = self.ctx.certification.start();
        CertifiedLog {
            start,
            start_seqno,
            discard: self.ctx.certification.partial_actions().last_bulk_discard(),
            first_partial_chunk: self.ctx.certification.partial_actions().first_chunk(),
            committed: self.ctx.own_log.committed(),
            written: self.ctx.links.reader.last_index(),
        }
    }

    /// Gives the log its bounds: what it keeps, and up to where it may be purged.
    pub(in crate::driver) fn retain_log(&mut self) {
        if !self
            .retention
            .is_due(self.ctx.turns.now, self.ctx.links.shared.is_log_full())
        {
            return;
        }
        let (log, needs) = (self.certified_log(), self.needs());
        let keep_from = self.retention.keep_from(&log, &needs);
        let base = self.ctx.core.base();
        let (base, seqno) = (base.last.index, base.seqno);
        self.retention.purged(base, seqno);
        let purge_limit = self.purge_limit().min(self.ctx.own_log.committed());
        if purge_limit > base {
            let purge = PurgeJob {
                keep_from,
                keep_after: self.retention.keep_after(self.ctx.core.is_leader()),
                purge_limit,
                compares_after: self.has_database().then(|| self.ctx.links.shared.applied()),
                configs: self.configs_up_to(purge_limit),
            };
            self.ctx.links.disk.write(Job::Purge(purge));
        }
    }

    /// Whether the database is one that follows the log, and is not being replaced.
    fn has_database(&self) -> bool {
        let state = self.ctx.data_state;
        let follows = !matches!(state, DataState::Joining | DataState::Error);
        follows
            && self.ctx.identity.config.has_data
            && !self.ctx.links.shared.is_database_diverged()
    }

    fn needs(&mut self) -> Needs {
        let fetched_from = self
            .catch_up
            .fetching
            .serving
            .needed_from(self.ctx.turns.now);
        let shared = &self.ctx.links.shared;
        let delivered = shared.delivered_index();
        let committed_seqno = shared.commit_seqno();
        let applied = shared.applied();
        let followers = self.ctx.core.progress();
        let present = followers.filter(|progress| self.is_alive(progress.member));
        Needs {
            delivered,
            committed_seqno,
            applied,
            least_match: present.map(|progress| progress.match_index).min(),
            fetched_from,
        }
    }

    /// The purge limit, brought up to date if this member leads.
    pub(in crate::driver) fn purge_limit(&mut self) -> LogIndex {
        if self.ctx.core.is_leader() {
            let log = self.certified_log();
            let (config, reader) = (&self.ctx.core.config().config, &self.ctx.links.reader);
            let is_full = self.ctx.links.shared.is_log_full();
            let search = |seqno| reader.seek_seqno(seqno);
            if let Err(error) = self
                .retention
                .compute_purge_limit(config, &log, is_full, search)
            {
                self.log_damaged(&error);
            }
        }
        self.retention.purge_limit()
    }

    /// Every configuration that was in force at some entry up to `index`, ascending.
    fn configs_up_to(&self, index: LogIndex) -> Vec<ConfigAt> {
        let mut configs = Vec::new();
        let mut at = Some(index);
        while let Some(config) = at.and_then(|index| self.ctx.core.config_at(index)) {
            configs.push(config.clone());
            at = (config.index > self.ctx.core.base().last.index).then(|| config.index.prev());
        }
        configs.reverse();
        configs
    }

    /// Leader only: informs the operator why clients wait, and when that is over.
    pub(in crate::driver) fn announce_full_log(&mut self) {
        let is_full = self.ctx.links.shared.is_log_full();
        let name = |setting| self.ctx.links.host.setting_name(setting);
        let (retain_size, log_full) = (name(Setting::LogRetainSize), name(Setting::LogFull));
        let config = &self.ctx.core.config().config;
        let in_relay_group = self.ctx.identity.config.in_relay_group;
        if self.retention.drop_to_announce(config, is_full) {
            let text = match in_relay_group {
                true => format!(
                    "the log is full: as {log_full} says, it is purged of what connected readers \
                     need. They are told which GTIDs they have lost"
                ),
                false => format!(
                    "the log is full, and too few databases have flushed its actions (a majority \
                     of them must have): as {log_full} says, it is purged of what one database \
                     has. Until others have caught up, acknowledged commits are lost with that \
                     disk"
                ),
            };
            self.ctx.note(Topic::Log, Level::Warning, text);
        }
        // Relays say up to where none of their readers needs the log, and hold the newest
        // transaction in the same way: what it is that holds the log is not known here.
        let holds = match in_relay_group {
            true => {
                "it cannot be purged at once (readers need what is in it, or all of it was written \
                 within seconds, or its newest transaction is as large as the log may be): \
                 nothing new is taken until it is purged"
            }
            false => {
                "too few databases have flushed its actions (a majority of them must have): \
                 nothing new is taken until they have"
            }
        };
        match self.retention.fullness_to_announce(is_full) {
            Some(true) => self.ctx.note(
                Topic::Log,
                Level::Warning,
                format!(
                    "the log is larger than twice {retain_size}, its disk has no more room to \
                     spare, and {holds}. With {log_full}=drop the log is purged nevertheless"
                ),
            ),
            Some(false) => self
                .ctx
                .note(Topic::Log, Level::Info, "the log has room again"),
            None => {}
        }
    }

    /// Leader only: discards partial actions that began before this member's knowledge of the log
    /// does. It would refuse their next chunks, and cannot say how long logs have to keep them.
    pub(in crate::driver) fn discard_unknown(&mut self) {
        let log = self.certified_log();
        let begun_by = log.discard.map_or(LogIndex(0), |(_, begun_by)| begun_by);
        if begun_by < log.start {
            let start = log.start;
            let why = format!("discarding all partial actions that began by entry {start}, if any");
            self.discard(&Discard::BegunBy(start), Level::Info, why);
        }
    }

    /// Leader only: discards partial actions that were not continued for a long time.
    pub(in crate::driver) fn discard_stale(&mut self) {
        for id in self
            .proposals
            .ordering
            .stale_actions(&self.ctx.certification, self.ctx.turns.now)
        {
            let why = format!(
                "discarding a partial action of member {}: no more of it came",
                id.member
            );
            self.discard(&Discard::Action(id), Level::Info, why);
        }
    }

    /// Leader only: discards the partial action that keeps a full log from being purged, if one
    /// does.
    pub(in crate::driver) fn discard_action_in_the_way(&mut self) {
        let config = &self.ctx.core.config().config;
        let is_full = self.ctx.links.shared.is_log_full();
        let oldest = self.ctx.certification.partial_actions().oldest();
        let Some(id) = self.retention.action_in_the_way(config, is_full, oldest) else {
            return;
        };
        let why = format!(
            "discarding a partial action of member {}: the log is larger than twice {}, and \
             cannot be purged before that action ends",
            id.member,
            self.ctx.links.host.setting_name(Setting::LogRetainSize),
        );
        self.discard(&Discard::Action(id), Level::Warning, why);
    }

    fn discard(&mut self, what: &Discard, level: Level, why: String) {
        // Refused when there is no room, or while leadership is transferred: the next tick tries
        // again.
        if self.append_own(EntryKind::Discard, &what.encode()) {
            self.ctx.log(level, why);
        }
    }
}
