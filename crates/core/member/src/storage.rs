//! Storage: writes the jobs of the driver to the log, many jobs to one sync.
//!
//! A node runs it on a thread of its own:
//!
//! ```text
//! loop {
//!     write(job)   for each job that waits, while has_room()
//!     sync()       if needs_sync(); then report the ticket: Event::Persisted
//!     idle()       after IDLE without jobs
//! }
//! ```
//!
//! Jobs that arrive while a sync runs share the next one. Nothing is durable before the sync that
//! follows it. No other part writes the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use synod_consensus::{
    ConfigAt, EntryKind, GroupId, HardState, LogBase, LogIndex, Seqno, WriteTicket,
};
use synod_log::{Entry, LogError, LogFormat, LogReader, LogWriter, RetentionPoint};
use synod_planted::planted;

use crate::consequence::Consequence;
use crate::disk_space::DiskSpaceWatch;
use crate::host::{Host, Level};
use crate::log_growth::{LogGrowthWatch, LogSize};
use crate::setting::Setting;
use crate::shared::Shared;

/// One sync covers at most about this many bytes, so that no write waits long for its sync.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Time without jobs after which [`Storage::idle`] is due.
pub const IDLE: Duration = Duration::from_secs(1);

/// Work for the log. The field `era` counts truncations and resets: a write of an earlier era
/// proves nothing about the log as it is now.
pub enum Job {
    Append {
        ticket: WriteTicket,
        era: u64,
        entries: Vec<Entry>,
    },
    Truncate {
        ticket: WriteTicket,
        era: u64,
        from: LogIndex,
    },
    Vote {
        ticket: WriteTicket,
        vote: HardState,
    },
    Reset {
        ticket: WriteTicket,
        era: u64,
        base: LogBase,
    },
    /// Notes the group that the log belongs to from now on.
    SetGroup(GroupId),
    RaiseFormat(LogFormat),
    Purge(PurgeJob),
}

/// Bounds of a purge: the entries that the log must keep.
#[derive(Clone)]
pub struct PurgeJob {
    /// Nothing at or after this index is purged, unless the log exceeds its disk bound.
    pub(crate) keep_from: LogIndex,
    /// Nor anything after this action, the last one that the slowest other member has; none if
    /// there is no such member.
    pub(crate) keep_after: Option<Seqno>,
    /// Nothing after this index is purged, not even beyond the disk bound. Entries up to it are
    /// committed, and are not lost even if all machines lose power now and a minority its disks.
    pub(crate) purge_limit: LogIndex,
    /// The last action of the database, which has to be compared with an outcome decision that
    /// comes next. None while the database is being replaced.
    pub(crate) compares_after: Option<Seqno>,
    /// The configurations in force at the entries up to `purge_limit`, ascending.
    pub(crate) configs: Vec<ConfigAt>,
}

/// Writes the log: the jobs that arrived during the last sync, and then one sync.
pub struct Storage {
    writer: LogWriter,
    reader: LogReader,
    host: Arc<dyn Host>,
    shared: Arc<Shared>,
    batch_bytes: usize,
    last_ticket: Option<WriteTicket>,
    /// The last batch is not covered by a durable floor yet.
    floor_due: bool,
    last_purge: Option<PurgeJob>,
    purged: Option<LogBase>,
    disk_space: DiskSpaceWatch,
    growth: LogGrowthWatch,
}

impl Storage {
    /// Writes with this writer; `reader` reads the same log.
    pub fn new(
        writer: LogWriter,
        reader: LogReader,
        host: Arc<dyn Host>,
        shared: Arc<Shared>,
    ) -> Storage {
        let storage = Storage {
            writer,
            reader,
            host,
            shared,
            batch_bytes: 0,
            last_ticket: None,
            floor_due: false,
            last_purge: None,
            purged: None,
            disk_space: DiskSpaceWatch::default(),
            growth: LogGrowthWatch::default(),
        };
        storage.note_size();
        storage
    }

    pub fn has_room(&self) -> bool {
        self.batch_bytes < BATCH_BYTES_MAX
    }

    /// Whether anything was written that [`Storage::sync`] would report.
    pub fn needs_sync(&self) -> bool {
        self.last_ticket.is_some()
    }

    /// Does one job. `wall` is the wall clock, for the age of segments. Returns the new base if the
    /// log was purged, for [`crate::Event::Purged`]. Nothing is durable before [`Storage::sync`].
    pub fn write(&mut self, job: Job, wall: SystemTime) -> Result<Option<LogBase>, LogError> {
        self.batch_bytes += job_bytes(&job);
        if let Job::Purge(purge) = job {
            let base = self.purge(&purge, wall)?;
            // The newer of the two.
            let before = self.take_purged();
            return Ok(base.or(before));
        }
        if let Some(ticket) = self.write_record(job)? {
            self.last_ticket = Some(ticket);
        }
        Ok(None)
    }

    /// Makes the writes durable. Returns the ticket to report, if there is one, for
    /// [`crate::Event::Persisted`].
    pub fn sync(&mut self) -> Result<Option<WriteTicket>, LogError> {
        self.batch_bytes = 0;
        let Some(ticket) = self.last_ticket.take() else {
            return Ok(None);
        };
        self.sync_with_room()?;
        self.floor_due = true;
        self.note_size();
        self.note_syncs();
        Ok(Some(ticket))
    }

    /// The base of the log, if a full disk has made a sync purge it; for [`crate::Event::Purged`].
    pub fn take_purged(&mut self) -> Option<LogBase> {
        self.purged.take()
    }

    /// Syncs. If the disk has no room for a new segment, purges what may be purged, and tries
    /// again.
    fn sync_with_room(&mut self) -> Result<(), LogError> {
        loop {
            match self.writer.sync() {
                Err(error) if self.writer.needs_space() => {
                    if !self.make_room()? {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    /// Purges what no other member is known to need, or else what may be lost at all; whether the
    /// log has become smaller.
    fn make_room(&mut self) -> Result<bool, LogError> {
        let Some(purge) = self.last_purge.clone() else {
            return Ok(false);
        };
        let before = self.writer.size_bytes();
        let limit = purge.purge_limit;
        for up_to in [self.keep_from(&purge).prev().min(limit), limit] {
            let config_at = |index| config_in_force(&purge.configs, index);
            let up_to = self.before_next_decision(&purge, up_to);
            if let Some(base) = self.writer.purge_for_space(up_to, &config_at)? {
                self.purged = Some(base);
            }
            let freed = before.saturating_sub(self.writer.size_bytes());
            if freed > 0 {
                self.note_size();
                self.log_made_room(freed, up_to);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn log_made_room(&self, freed: u64, up_to: LogIndex) {
        let lacking = self.host.consequence(Consequence::PurgedEarly);
        let text = format!(
            "the disk of the log is full: entries up to {up_to} were purged early, which freed \
             {freed} bytes. {lacking}. Free some space, or this member stops when there is nothing \
             left to purge"
        );
        self.host.log(Level::Warning, &text);
    }

    /// After [`IDLE`] without jobs: covers the last batch by a durable floor, unless it is covered.
    /// Returns whether it did.
    pub fn idle(&mut self) -> Result<bool, LogError> {
        if !std::mem::take(&mut self.floor_due) {
            return Ok(false);
        }
        self.writer.write_floor()?;
        self.note_syncs();
        Ok(true)
    }

    pub fn finish(&mut self) -> Result<(), LogError> {
        self.sync_with_room()
    }

    fn warn_of_leftover(&self) {
        if let Some(error) = self.writer.leftover() {
            let text = format!(
                "a purged segment of the log is still on the disk: {error}. The log does not need \
                 it, and its next purge tries again. See who may remove files in the log's \
                 directory"
            );
            self.host.log(Level::Warning, &text);
        }
    }

    fn note_size(&self) {
        let bytes = self.writer.size_bytes();
        self.shared.log_bytes.store(bytes, Ordering::Release);
        let full = self.writer.is_full();
        self.shared.log_full.store(full, Ordering::Release);
        let tight = self.writer.is_tight();
        self.shared.log_tight.store(tight, Ordering::Release);
    }

    fn note_syncs(&self) {
        let syncs = self.writer.sync_count();
        self.shared.log_syncs.store(syncs, Ordering::Relaxed);
    }

    fn write_record(&mut self, job: Job) -> Result<Option<WriteTicket>, LogError> {
        match job {
            Job::Append {
                ticket,
                era,
                entries,
            } => {
                self.writer.append(&entries)?;
                if let Some(last) = entries.last() {
                    self.shared.log_written(era, last.header.index);
                }
                Ok(Some(ticket))
            }
            Job::Truncate { ticket, era, from } => {
                planted!(LoseTruncate, self.writer.truncate(from)?, else {});
                self.shared.log_written(era, from.prev());
                Ok(Some(ticket))
            }
            Job::Vote { ticket, vote } => {
                planted!(SkipVote, self.writer.save_vote(vote)?, else {});
                Ok(Some(ticket))
            }
            Job::Reset { ticket, era, base } => {
                let index = base.last.index;
                self.writer.reset(base)?;
                self.shared.log_written(era, index);
                Ok(Some(ticket))
            }
            Job::SetGroup(group) => {
                self.writer.set_group(group)?;
                Ok(None)
            }
            Job::RaiseFormat(format) => {
                self.writer.raise_format(format)?;
                Ok(None)
            }
            Job::Purge(_) => Ok(None),
        }
    }

    fn purge(&mut self, purge: &PurgeJob, wall: SystemTime) -> Result<Option<LogBase>, LogError> {
        self.last_purge = Some(purge.clone());
        self.warn_of_leftover();
        if let Some(text) = self.disk_space.warning(self.writer.space()) {
            self.host.log(Level::Warning, &text);
        }
        self.watch_growth(wall);
        if self.purge_point(purge.keep_from, wall).is_none() {
            return Ok(None);
        }
        self.sync_with_room()?;
        let keep_from = self.keep_from(purge);
        let Some(point) = self.purge_point(keep_from, wall) else {
            return Ok(None);
        };
        let up_to = self.before_next_decision(purge, point.up_to.min(purge.purge_limit));
        let config_at = |index| config_in_force(&purge.configs, index);
        let base = self.writer.purge(up_to, &config_at)?;
        let Some(base) = base else { return Ok(None) };
        self.note_size();
        let purged = base.last.index;
        if point.forced && purged >= keep_from {
            let setting = self.host.setting_name(Setting::LogRetainSize);
            let min_free = self.host.setting_name(Setting::LogMinFree);
            let lagging = self.host.consequence(Consequence::PurgedAtBound);
            let text = format!(
                "the log has reached its disk bound (twice {setting}, or what leaves {min_free} of \
                 the disk free): entries up to {purged} were purged, although those from \
                 {keep_from} on {lagging}. If this happens often, raise {setting}"
            );
            self.host.log(Level::Warning, &text);
        }
        Ok(Some(base))
    }

    /// Warns when half of the room is used that the log has for members that need it.
    fn watch_growth(&mut self, wall: SystemTime) {
        let size = LogSize {
            bytes: self.writer.size_bytes(),
            target: self.writer.retain_bytes(),
            bound: self.writer.disk_bound(),
        };
        let Some(growth) = self.growth.warning(wall, size) else {
            return;
        };
        let when = growth.time_left.map_or(String::new(), |left| {
            format!(", in {} minutes at the present rate", left.as_secs() / 60)
        });
        let log_full = self.host.setting_name(Setting::LogFull);
        let words = |consequence| self.host.consequence(consequence);
        let (kept_for, lost, needed) = (
            words(Consequence::KeptFor),
            words(Consequence::WillReachBound),
            words(Consequence::HeldAtBound),
        );
        let text = format!(
            "the log is kept for {kept_for}: {} bytes, {} percent of the room that it has for \
             that. At {} bytes{when}, {lost}; if {needed}, {log_full} decides",
            size.bytes, growth.percent, size.bound,
        );
        self.host.log(Level::Warning, &text);
    }

    /// Lowers `up_to` below an outcome decision that comes right after what the database has, if it
    /// is not delivered yet: this member would not notice that it is inconsistent. Delivery gets
    /// there at once, because no action comes before it.
    fn before_next_decision(&self, purge: &PurgeJob, up_to: LogIndex) -> LogIndex {
        let Some(after) = purge.compares_after else {
            return up_to;
        };
        let Ok(applied) = self.reader.seek_database(after) else {
            return up_to;
        };
        let mut last = applied.max(self.shared.delivered_index());
        while last < up_to
            && let Some(next) = self.reader.summary(last.next())
            && next.seqno <= after
        {
            if next.kind == EntryKind::Decision {
                return last;
            }
            last = last.next();
        }
        up_to
    }

    /// How far sizes and ages ask for a purge, or the host.
    fn purge_point(&self, keep_from: LogIndex, wall: SystemTime) -> Option<RetentionPoint> {
        let by_size = self.writer.retention_point(keep_from, wall);
        let wanted = self.wanted_point(keep_from);
        let points = by_size.into_iter().chain(wanted);
        points.max_by_key(|point| point.up_to)
    }

    /// How far the host asks for a purge, of what is not needed.
    fn wanted_point(&self, keep_from: LogIndex) -> Option<RetentionPoint> {
        let wanted = self.shared.purge_wanted()?;
        // There is none if the action was purged already, or has not come yet.
        let next = self.reader.seek_seqno(wanted.next()).ok()?;
        let up_to = next.min(keep_from).prev();
        let is_there = up_to >= self.reader.first_index();
        let forced = false;
        is_there.then_some(RetentionPoint { up_to, forced })
    }

    /// Lowers `keep_from` to what the slowest other member lacks, if the log still has that.
    fn keep_from(&self, purge: &PurgeJob) -> LogIndex {
        let slowest = purge
            .keep_after
            .filter(|seqno| *seqno > Seqno(0))
            .and_then(|seqno| self.reader.seek_seqno(seqno).ok());
        slowest.map_or(purge.keep_from, |index| index.min(purge.keep_from))
    }
}

fn config_in_force(configs: &[ConfigAt], index: LogIndex) -> Option<ConfigAt> {
    configs.iter().rev().find(|c| c.index <= index).cloned()
}

fn job_bytes(job: &Job) -> usize {
    match job {
        Job::Append { entries, .. } => entries.iter().map(|e| e.payload.len() + 128).sum(),
        Job::Truncate { .. }
        | Job::Vote { .. }
        | Job::Reset { .. }
        | Job::SetGroup(_)
        | Job::RaiseFormat(_)
        | Job::Purge(_) => 128,
    }
}

#[cfg(test)]
mod tests;
