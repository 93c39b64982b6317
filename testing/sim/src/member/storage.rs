//! The machine under a member: opening its log, and the disk's time. What is written and read, and in
//! which order, is production's; here a sync takes virtual time, and may never return.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use synod_consensus::{
    ConfigAt, GroupId, LeaderPreference, LogBase, LogIndex, MemberId, Seqno, SessionId,
};
use synod_log::{Files, LogError, LogOptions, Opened};
use synod_member::{
    DatabasePosition, Driver, DriverLinks, Event as Input, Host, IDLE, Job, MemberConfig,
    OpenError, Shared, Start, StartEntropy, StartMode, Storage, Tuning, open_log,
};

use crate::invariants::{Violation, recovery, repair, retained};
use crate::member::Process;
use crate::member::disk_model::{LogImage, RecoveredLog};
use crate::member::recorded_effects::{EffectObserver, HostSide, RecordedEffects};
use crate::trace::{Text, What};
use crate::world::{Event, GROUP, MS, SECOND, World};

/// Where each member's log is, on its own files.
pub(crate) const LOG_DIR: &str = "log";
/// The wall clock at the world's beginning, as `MemoryFiles` has it.
const WALL_BEGIN_S: u64 = 1_800_000_000;
/// Older than any log's contents may get.
const WALL_AHEAD: Duration = Duration::from_secs(30 * 24 * 3600);

impl World {
    pub(crate) fn log_options(&self) -> LogOptions {
        LogOptions {
            segment_bytes: self.options.segment_bytes,
            cache_bytes: self.options.cache_bytes,
            retain_bytes: self.options.retain_bytes,
            retain_age: Duration::from_secs(7 * 24 * 3600),
            tail_headers_max: self.options.tail_headers_max,
        }
    }

    // --- starting ---------------------------------------------------------------------------

    /// Opens a member's log and starts its process.
    pub(crate) fn start(&mut self, id: MemberId) {
        self.start_as(id, StartMode::Join);
    }

    pub(crate) fn start_as(&mut self, id: MemberId, mode: StartMode) {
        let node = self.node(id);
        if node.is_up() || node.gone {
            return;
        }
        let files = Arc::new(node.faulty.clone());
        let effects = RecordedEffects::new(id, self.wanted_links.clone());
        let opened = match self.open(files, &effects) {
            Ok(opened) => opened,
            Err(error) => return self.refused_to_start(id, &error),
        };
        let found = self.found(id, &opened);
        self.check_found(id, &opened, &found);
        if opened.identity.member != id {
            self.judge(Err(Violation {
                rule: "a log keeps its identity",
                what: format!("{id} comes back as {}", opened.identity.member),
            }));
            return;
        }
        if opened.report.cut.is_some() {
            self.coverage.count("torn tail cut");
        }
        let (last, term) = (found.image.last(), found.image.vote.term);
        self.note(id, What::Started { last, term });
        let node = self.node_mut(id);
        node.disk = node.disk.reopened(found.image);
        self.begin_process(id, mode, opened, effects);
    }

    /// Opens a log as production does.
    pub(crate) fn open(
        &self,
        files: Arc<dyn Files>,
        effects: &Arc<RecordedEffects>,
    ) -> Result<Opened, OpenError> {
        let host: Arc<dyn Host> = effects.clone();
        let knows_others = self.nodes.len() > 1;
        let options = self.log_options();
        open_log(files, Path::new(LOG_DIR), options, knows_others, &host)
    }

    /// What a log amounts to.
    pub(crate) fn found(&self, id: MemberId, opened: &Opened) -> RecoveredLog {
        RecoveredLog {
            image: LogImage::of(&opened.recovered),
            mark: opened.recovered.repair,
            repaired: opened.report.repair.is_some() || self.node(id).disk.repair_torn,
        }
    }

    /// The rules about what a log comes back as.
    fn check_found(&mut self, id: MemberId, opened: &Opened, found: &RecoveredLog) {
        let disk = &self.node(id).disk;
        let needs_repair = disk.needs_repair();
        let checked = match disk.damaged {
            true => repair::after_damage(id, disk, found, true),
            false => recovery::after_crash(id, disk, &found.image),
        };
        self.judge(checked);
        if let Some(repair) = &opened.report.repair {
            self.coverage.count(match repair.known {
                true => "repair begun, promises known",
                false => "repair begun, promises unknown",
            });
        }
        if needs_repair {
            let (matching, payloads) = (&self.checks.log_matching, &self.checks.payloads);
            let checked = repair::kept_is_genuine(id, opened, &found.image, matching, payloads);
            self.judge(checked);
        }
    }

    /// A log that does not open: to be tried again if that may help.
    fn refused_to_start(&mut self, id: MemberId, error: &OpenError) {
        let why = error.to_string();
        if !self.node(id).disk_fault {
            self.judge(Err(Violation {
                rule: "a log opens after a crash",
                what: format!("{id}: {why}"),
            }));
            return;
        }
        self.note(id, What::Refused { why: Text(why) });
        let disk = &mut self.node_mut(id).disk;
        disk.repair_torn |= disk.damaged;
        let epoch = self.node(id).epoch;
        let after_us = self.draw((SECOND / 2, 2 * SECOND));
        self.schedule(after_us, Event::Start { node: id, epoch });
        self.free_disk(id);
    }

    fn member_config(&self, id: MemberId) -> MemberConfig {
        let node = self.node(id);
        let database = match node.database.applied {
            Seqno(0) => DatabasePosition {
                group: GroupId::NONE,
                seqno: Seqno::UNDEFINED,
            },
            seqno => DatabasePosition {
                group: GROUP,
                seqno,
            },
        };
        MemberConfig {
            name: node.name.clone(),
            cluster_name: "simulation".to_owned(),
            address: node.name.clone(),
            incoming: String::new(),
            has_data: node.has_data,
            wants_vote: node.wants_vote,
            timing: self.options.timing.clone(),
            limits: self.options.limits.clone(),
            suspect: self.options.suspect(),
            certification_span: self.options.span_max,
            database,
            versions: node.versions,
        }
    }

    fn tuning(&self) -> Tuning {
        let options = &self.options;
        Tuning {
            entry_cache_bytes: options.entry_cache_bytes,
            warm_entries: options.warm_entries,
            join_backlog: 20,
            catch_up_bytes: options.catch_up_bytes,
            slow_tick: Duration::from_micros(options.timing.heartbeat_us * 5 / 2),
            retention_period: Duration::from_micros(options.timing.heartbeat_us * 15),
            // Clocks may run at twice the speed.
            local_flush_margin: Duration::from_micros(3 * FLUSH_US),
            reported_flush_margin: Duration::from_micros(3 * FLUSH_US),
            partial_action_timeout: Duration::from_micros(options.timing.heartbeat_us * 50),
        }
    }

    fn begin_process(
        &mut self,
        id: MemberId,
        mode: StartMode,
        mut opened: Opened,
        effects: Arc<RecordedEffects>,
    ) {
        self.next_session += 1;
        let session = SessionId(self.next_session);
        let drawn = StartEntropy {
            session,
            seed: rand::Rng::random(&mut self.rng),
            group: GROUP,
        };
        let local = self.local(id);
        let host: Arc<dyn Host> = effects.clone();
        let (config, tuning) = (self.member_config(id), self.tuning());
        let start = Start::new(config, tuning, mode, drawn, &mut opened, &host, local);
        let start = match start {
            Ok(start) => start,
            Err(error) => {
                return self.judge(Err(Violation {
                    rule: "a member starts with its own log",
                    what: format!("{id}: {error}"),
                }));
            }
        };
        let (reader, writer) = (opened.reader, opened.writer);
        let (written, applied) = (reader.last_index(), start.database().seqno);
        let committed = reader.first_index().prev();
        let shared = Arc::new(Shared::new(written, applied, effects.on_move()));
        let links = DriverLinks {
            peers: Box::new(HostSide(effects.clone())),
            disk: Box::new(HostSide(effects.clone())),
            host: host.clone(),
            shared: shared.clone(),
            reader: reader.clone(),
            observer: Some(Box::new(EffectObserver {
                effects: effects.clone(),
                committed,
            })),
        };
        let driver = Driver::new(start, links, local);
        let storage = Storage::new(writer, reader.clone(), host, shared.clone());
        let config = driver.core().config();
        let voters = vec![(config.index, config.config.voters().collect())];
        let windows = vec![driver.certified_from()];
        let process = Process {
            session,
            driver,
            storage,
            deliverer: None,
            reader,
            shared,
            since_us: self.now_us,
            effects,
            jobs: Default::default(),
            catch_ups: Default::default(),
            is_syncing: false,
            batches: 0,
            is_applying: false,
            is_seeking: true,
            is_leaving: false,
            committed,
            asked: None,
            locks: Default::default(),
            attached: Default::default(),
            next_number: 0,
            tick_at_us: None,
            turn_planned: false,
            voters,
            windows,
        };
        let node = self.node_mut(id);
        node.epoch += 1;
        node.database.copying = false;
        node.process = Some(Box::new(process));
        let (node, epoch) = (id, self.node(id).epoch);
        self.schedule(1, Event::Seek { node, epoch });
        self.drive(id, Driver::begin);
        self.settle(id);
        self.start_logger(id);
        let preference = self.node(id).preference;
        if preference != LeaderPreference::default() {
            self.feed(id, Input::LeaderPreference(preference));
        }
        for other in self.up().into_iter().filter(|other| *other != id) {
            self.reconnect(id, other);
        }
    }

    // --- writing ----------------------------------------------------------------------------

    fn wall(&self, id: MemberId) -> SystemTime {
        let now = Duration::from_secs(WALL_BEGIN_S) + Duration::from_micros(self.now_us);
        let ahead = match self.node(id).wall_ahead {
            true => WALL_AHEAD,
            false => Duration::ZERO,
        };
        UNIX_EPOCH + now + ahead
    }

    /// Takes what is waiting, unless a sync is under way.
    pub(crate) fn write_queued_jobs(&mut self, id: MemberId) {
        if self.process(id).is_syncing || self.process(id).jobs.is_empty() {
            return;
        }
        let wall = self.wall(id);
        loop {
            let process = self.process(id);
            let is_retain = matches!(process.jobs.front(), Some(Job::Retain(_)));
            if is_retain && process.storage.needs_sync() {
                // Dropping syncs by itself, which the ledger would not notice.
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
                    let last = base.last;
                    self.check_own_database(id, &base, bytes);
                    self.check_redundancy(id, &base);
                    self.node_mut(id).disk.purged(last);
                    self.coverage.count("log purged");
                    self.note(id, What::Purged { index: last.index });
                    self.check_retained(id);
                    self.feed_without_turn(id, Input::Purged(base));
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
        let sync_us = self.options.sync_us;
        let after_us = self.draw(sync_us) + self.node(id).slow_disk;
        let (node, epoch) = (id, self.node(id).epoch);
        let process = self.process(id);
        (process.is_syncing, process.batches) = (true, process.batches + 1);
        self.schedule(after_us, Event::Synced { node, epoch });
    }

    /// What the own database has not on its disk is dropped only if the log is too large, `bytes`.
    fn check_own_database(&mut self, id: MemberId, base: &LogBase, bytes: u64) {
        self.flush_databases();
        let node = self.node(id);
        let before = self.last_incomplete_action(node.disk.written.base.index);
        let durable = node.database.durable;
        let needs = node.has_data && !node.database.copying && durable >= before;
        if needs && bytes <= 2 * self.options.retain_bytes {
            let checked = retained::own(id, self.last_incomplete_action(base.last.index), durable);
            self.judge(checked);
        }
    }

    /// What was dropped is in enough databases for any minority to burn.
    fn check_redundancy(&mut self, id: MemberId, base: &LogBase) {
        self.flush_databases();
        let gone = self.last_incomplete_action(base.last.index);
        let spread = |at: &ConfigAt| {
            let databases = at.config.members.iter().filter(|(_, m)| m.has_data);
            let voters = databases.filter(|(id, _)| at.config.is_voter(**id));
            let had = voters.map(|(id, _)| self.nodes.get(id).map_or(Seqno(0), |n| n.database.had));
            retained::spread(id, gone, at.config.voters().count(), had.collect())
        };
        let core = self.core(id);
        let own = core.config();
        // It may have changed since this was decided; by a leader, whose configuration may not be here yet.
        let before = core.config_at(own.index.prev());
        let up = self.up().into_iter();
        let elsewhere = up.flat_map(|other| {
            let core = self.core(other);
            let now = core.config();
            [Some(now), core.config_at(now.index.prev())]
        });
        let newer = elsewhere.flatten().filter(|at| at.index > own.index);
        let checked = spread(own).or_else(|violation| {
            let mut others = before.into_iter().chain(newer);
            if others.any(|at| spread(at).is_ok()) {
                Ok(())
            } else {
                Err(violation)
            }
        });
        self.judge(checked);
    }

    /// The last action that a log which begins after `base` has not whole.
    pub(crate) fn last_incomplete_action(&self, base: LogIndex) -> Seqno {
        let before = self.checks.committed.get(base).map(|header| header.seqno);
        let broken = self.checks.certified.last_broken(base);
        before.max(broken).unwrap_or(Seqno(0))
    }

    /// What was dropped is not gone for good.
    fn check_retained(&mut self, id: MemberId) {
        self.flush_databases();
        let present = || self.nodes.values().filter(|node| !node.gone);
        let logs = present().map(|node| self.last_incomplete_action(node.disk.written.base.index));
        let whole = present().filter(|node| node.has_data && !node.database.copying);
        let databases = whole.map(|node| node.database.durable);
        let checked = retained::purged(id, logs, databases);
        self.judge(checked);
    }

    /// The sync under way returns.
    pub(crate) fn synced(&mut self, id: MemberId) {
        let process = self.process(id);
        process.is_syncing = false;
        let batch = process.batches;
        let ticket = match process.storage.sync() {
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
        self.feed_without_turn(id, Input::Persisted(ticket));
        if self.is_up(id) {
            self.write_queued_jobs(id);
        }
        if self.is_up(id) {
            self.settle(id);
        }
    }

    /// After a while without writes, the last batch is covered by a floor.
    pub(crate) fn idle(&mut self, id: MemberId, batch: u64) {
        let process = self.process(id);
        if process.is_syncing || !process.jobs.is_empty() || process.batches != batch {
            return;
        }
        match process.storage.idle() {
            Ok(true) => self.node_mut(id).disk.floor_stated(),
            Ok(false) => {}
            Err(error) => self.log_failed(id, error),
        }
    }

    /// The next range to be read for a member far behind: one after the other.
    pub(crate) fn read_next(&mut self, id: MemberId) {
        let (node, epoch) = (id, self.node(id).epoch);
        let after_us = self.draw((10, 500));
        self.schedule(after_us, Event::CatchUp { node, epoch });
    }

    /// The range is read.
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

    /// The log does not work any more: the member stops, and says why.
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
                // After a failed sync the page cache may show what the disk does not have.
                self.node(id).files.lose_unsynced_silently();
                self.free_disk(id);
            }
        }
        self.feed_without_turn(id, Input::log_failed(error));
        if self.is_up(id) {
            self.judge(Err(Violation {
                rule: "a member without a log stops",
                what: format!("{id} goes on although {why}"),
            }));
        }
    }

    /// The operator frees space, or the disk works again, after a while or never.
    pub(crate) fn free_disk(&mut self, id: MemberId) {
        if self.is_liveness_phase || self.chance(0.7) {
            // A write that failed half-way may have left anything it was writing.
            self.node(id).faulty.heal();
        }
    }

    /// A process ends; what it had not synced stays in the page cache.
    pub(crate) fn end_process(&mut self, id: MemberId) {
        let peers = self.net.connected_to(id);
        for other in &peers {
            self.net.disconnect(id, *other);
        }
        self.wanted_links.forget(id);
        let node = self.node_mut(id);
        node.epoch += 1;
        node.paused_until_us = 0;
        let Some(process) = node.process.take() else {
            return;
        };
        let session = process.session;
        drop(process);
        self.clients_of_the_dead(id, session);
        self.checks.reads.forget(id);
        // The others notice, or not before the member is back.
        for other in peers {
            if self.chance(0.9) {
                self.feed(other, Input::LinkDown { member: id });
            }
        }
    }

    /// Databases flush by themselves, whatever their servers do.
    pub(crate) fn flush_databases(&mut self) {
        let before_us = self.now_us.saturating_sub(FLUSH_US);
        for node in self.nodes.values_mut() {
            node.database.flush_before(before_us);
        }
    }
}

/// Databases flush what they applied within this time.
pub(crate) const FLUSH_US: u64 = 150 * MS;
