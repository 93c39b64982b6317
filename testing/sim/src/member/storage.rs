//! The disk's time. Production code decides what is written and read, and in which order; here a
//! sync takes virtual time, and may never return.
//!
//! A write that fails, and damage that a read meets, stop the member. Without a planned fault of
//! this disk that is a violation.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use synod_consensus::{LogBase, MemberId};
use synod_log::LogError;
use synod_member::{Event as Input, Host, IDLE, Job};

use crate::invariants::Violation;
use crate::trace::What;
use crate::world::{Event, MS, World};

/// The wall clock at the world's beginning, as `MemoryFiles` has it.
const WALL_BEGIN_S: u64 = 1_800_000_000;
/// Older than the contents of any log may become.
const WALL_AHEAD: Duration = Duration::from_secs(30 * 24 * 3600);
/// Databases flush what they applied within this time.
pub(crate) const FLUSH_US: u64 = 150 * MS;

impl World {
    fn wall(&self, id: MemberId) -> SystemTime {
        let now = Duration::from_secs(WALL_BEGIN_S) + Duration::from_micros(self.now_us);
        let ahead = if self.node(id).wall_ahead {
            WALL_AHEAD
        } else {
            Duration::ZERO
        };
        UNIX_EPOCH + now + ahead
    }

    /// Writes the queued jobs and begins a sync, unless a sync is under way.
    pub(crate) fn write_queued_jobs(&mut self, id: MemberId) {
        if self.process(id).syncing_since.is_some() || self.process(id).jobs.is_empty() {
            return;
        }
        let wall = self.wall(id);
        loop {
            let process = self.process(id);
            let is_retain = matches!(process.jobs.front(), Some(Job::Purge(_)));
            if is_retain && process.storage.needs_sync() {
                // A purge syncs by itself, which the disk model would not notice.
                break;
            }
            if !process.storage.has_room() {
                break;
            }
            let Some(job) = process.jobs.pop_front() else {
                break;
            };
            let bytes = process.shared.status().log_bytes;
            match process.storage.write(job, wall) {
                Ok(None) => {}
                Ok(Some(base)) => {
                    self.check_own_database(id, &base, bytes);
                    self.purged(id, base);
                }
                Err(error) => return self.log_failed(id, error),
            }
            if !self.is_up(id) {
                return;
            }
            if is_retain {
                self.node_mut(id).wall_ahead = false;
            }
        }
        if !self.process(id).storage.needs_sync() {
            return;
        }
        let sync_us = self.slow_syncs_us.unwrap_or(self.options.sync_us);
        let after_us = self.draw(sync_us) + self.node(id).slow_disk;
        let (node, epoch) = (id, self.node(id).epoch);
        let now = self.local(id);
        let process = self.process(id);
        (process.syncing_since, process.batches) = (Some(now), process.batches + 1);
        self.schedule(after_us, Event::Synced { node, epoch });
    }

    /// A purge has changed the log's base.
    fn purged(&mut self, id: MemberId, base: LogBase) {
        let last = base.last;
        self.check_redundancy(id, &base);
        self.node_mut(id).disk.purged(last);
        self.coverage.count("log purged");
        self.note(id, What::Purged { index: last.index });
        self.check_retained(id);
        self.feed_without_turn(id, Input::Purged(base));
    }

    /// The sync under way has returned.
    pub(crate) fn synced(&mut self, id: MemberId) {
        let process = self.process(id);
        let sync_began = process.syncing_since.take().expect("a sync is under way");
        let batch = process.batches;
        let synced = process.storage.sync();
        if let Some(base) = process.storage.take_purged() {
            self.coverage.count("log purged on a full disk");
            self.purged(id, base);
        }
        let ticket = match synced {
            Ok(ticket) => ticket,
            Err(error) => return self.log_failed(id, error),
        };
        let Some(ticket) = ticket else { return };
        let node = self.node_mut(id);
        node.disk.synced(ticket);
        let last = node.disk.durable.last().index;
        let ticket_number = ticket.0;
        self.note(
            id,
            What::Synced {
                ticket: ticket_number,
                last,
            },
        );
        let (node, epoch) = (id, self.node(id).epoch);
        let idle_us = IDLE.as_micros() as u64;
        self.schedule(idle_us, Event::Idle { node, epoch, batch });
        self.feed_without_turn(id, Input::Persisted { ticket, sync_began });
        if self.is_up(id) {
            self.write_queued_jobs(id);
        }
        if self.is_up(id) {
            self.settle(id);
        }
    }

    /// Nothing was written for a while: the log states a floor above the last batch.
    pub(crate) fn idle(&mut self, id: MemberId, batch: u64) {
        let process = self.process(id);
        if process.syncing_since.is_some() || !process.jobs.is_empty() || process.batches != batch {
            return;
        }
        match process.storage.idle() {
            Ok(true) => self.node_mut(id).disk.floor_stated(),
            Ok(false) => {}
            Err(error) => self.log_failed(id, error),
        }
    }

    /// Plans to read the next range for a lagging member. One range is read at a time.
    pub(crate) fn read_next(&mut self, id: MemberId) {
        let (node, epoch) = (id, self.node(id).epoch);
        let after_us = self.draw((10, 500));
        self.schedule(after_us, Event::CatchUp { node, epoch });
    }

    /// A range was read; it is sent.
    pub(crate) fn catch_up(&mut self, id: MemberId) {
        let process = self.process(id);
        let Some(request) = process.catch_ups.pop_front() else {
            return;
        };
        if !process.catch_ups.is_empty() {
            self.read_next(id);
        }
        let process = self.process(id);
        let host: Arc<dyn Host> = process.effects.clone();
        match request.answer(&process.reader, &host) {
            Ok(Some(message)) => self.send(id, request.to(), &message),
            Ok(None) => {}
            Err(damage) => self.log_failed(id, damage),
        }
        self.perform_effects(id);
    }

    /// The log does not work any more. The member must stop, and say why.
    pub(crate) fn log_failed(&mut self, id: MemberId, error: LogError) {
        let why = error.to_string();
        let damage = error.damage();
        let node = self.node(id);
        let expected = match damage {
            Some(_) => node.disk.damaged,
            None => node.disk_fault,
        };
        if !expected {
            self.judge(Err(Violation {
                rule: "a log works on a good disk",
                what: format!("{id}: {why}"),
            }));
            return;
        }
        match damage {
            Some(damage) => {
                self.coverage.count("damage met while running");
                self.node_mut(id).damage_met = Some(damage);
            }
            None => {
                self.coverage.count("member fenced");
                // After a failed sync the page cache may show what the disk does not hold.
                self.node(id).files.lose_unsynced_silently();
                self.free_disk(id);
            }
        }
        self.feed_without_turn(id, Input::log_failed(error));
        if self.is_up(id) {
            self.judge(Err(Violation {
                rule: "a member without a log stops",
                what: format!("{id} still runs although {why}"),
            }));
        }
    }

    /// The operator frees space, or the disk works again; sometimes neither happens.
    pub(crate) fn free_disk(&mut self, id: MemberId) {
        if self.is_liveness_phase || self.chance(0.7) {
            // A write that failed half-way may have left part of its bytes.
            self.node(id).faulty.heal();
        }
    }

    /// Databases flush by themselves, whether their servers run or not.
    pub(crate) fn flush_databases(&mut self) {
        let before_us = self.now_us.saturating_sub(FLUSH_US);
        for node in self.nodes.values_mut() {
            node.database.flush_before(before_us);
        }
    }
}
