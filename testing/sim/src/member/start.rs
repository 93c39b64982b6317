//! Starting and ending a member: its log is opened as production does, and a process begins on it.
//!
//! What a log comes back with is checked against the disk model first. A log that does not open is
//! a violation, unless a fault of the disk explains it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use synod_consensus::{GroupId, LeaderPreference, MemberId, Seqno, SessionId, Timing};
use synod_log::{Files, LogOptions, Opened};
use synod_member::{
    CommitWait, DatabasePosition, Driver, DriverLinks, Event as Input, FullLogPolicy, Host,
    LeaderPlacement, LiveSetting, MemberConfig, OpenError, Shared, Start, StartEntropy, StartMode,
    Storage, Tuning, open_log,
};

use crate::expected::waits;
use crate::invariants::{Violation, recovery, repair};
use crate::member::disk_model::{LogImage, RecoveredLog};
use crate::member::failed_actions::Recorder;
use crate::member::recorded_effects::{EffectObserver, HostSide, RecordedEffects};
use crate::member::storage::FLUSH_US;
use crate::member::{Process, ProcessParts};
use crate::trace::{Text, What};
use crate::world::{Event, GROUP, SECOND, World};

/// Directory of a member's log, within its own files.
pub(crate) const LOG_DIR: &str = "log";

/// A disk that does not finish a write in so many heartbeat intervals has stalled.
pub(crate) const DISK_PATIENCE_HEARTBEATS: u64 = 10;

impl World {
    /// The options of a log that keeps this much.
    pub(crate) fn log_options(&self, retain_bytes: u64) -> LogOptions {
        LogOptions {
            segment_bytes: self.options.segment_bytes,
            cache_bytes: self.options.cache_bytes,
            retain_bytes,
            free_percent_min: 25,
            // A wall clock that is ahead makes a log at most a day older.
            retain_age: Duration::from_secs(12 * 3600),
            tail_headers_max: self.options.tail_headers_max,
        }
    }

    /// Opens the log of a member and starts its process, to join its group.
    pub(crate) fn start(&mut self, id: MemberId) {
        self.start_as(id, StartMode::Join);
    }

    /// Opens the log of a member and starts its process. A running or lost member stays as it is.
    pub(crate) fn start_as(&mut self, id: MemberId, mode: StartMode) {
        let node = self.node(id);
        if node.is_up() || node.gone {
            return;
        }
        let files = Arc::new(node.faulty.clone());
        let effects = RecordedEffects::new(id, self.wanted_links.clone());
        let Ok(recorder) = self.open_record(id) else {
            return;
        };
        let opened = match self.open(files, &effects) {
            Ok(opened) => opened,
            Err(error) => return self.refused_to_start(id, &error),
        };
        let found = self.recovered_log(id, &opened);
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
        self.begin_process(id, mode, opened, effects, recorder);
    }

    /// Opens a log as production does.
    pub(crate) fn open(
        &self,
        files: Arc<dyn Files>,
        effects: &Arc<RecordedEffects>,
    ) -> Result<Opened, OpenError> {
        let host: Arc<dyn Host> = effects.clone();
        let knows_others = self.nodes.len() > 1;
        let node = self.nodes.get(&effects.me());
        let retain_bytes = node.map_or(self.options.retain_bytes, |node| node.retain_bytes);
        let options = self.log_options(retain_bytes);
        open_log(files, Path::new(LOG_DIR), options, knows_others, &host)
    }

    /// Contents of an opened log.
    pub(crate) fn recovered_log(&self, id: MemberId, opened: &Opened) -> RecoveredLog {
        RecoveredLog {
            image: LogImage::of(&opened.recovered),
            mark: opened.recovered.repair,
            repaired: opened.report.repair.is_some() || self.node(id).disk.repair_torn,
        }
    }

    /// The rules about what a log comes back with.
    fn check_found(&mut self, id: MemberId, opened: &Opened, found: &RecoveredLog) {
        let disk = &self.node(id).disk;
        let needs_repair = disk.needs_repair();
        let checked = if disk.damaged {
            repair::after_damage(id, disk, found, true)
        } else {
            recovery::after_crash(id, disk, &found.image)
        };
        self.judge(checked);
        if let Some(repair) = &opened.report.repair {
            self.coverage.count(if repair.known {
                "repair begun, promises known"
            } else {
                "repair begun, promises unknown"
            });
        }
        if needs_repair {
            let (matching, payloads) = (&self.checks.log_matching, &self.checks.payloads);
            let checked = repair::kept_is_genuine(id, opened, &found.image, matching, payloads);
            self.judge(checked);
        }
    }

    /// A log does not open. If a fault of the disk explains that, the start is tried again later.
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
        let database = match node.database.starts_at {
            Seqno(0) => DatabasePosition::new(GroupId::NONE, Seqno::UNDEFINED),
            seqno => DatabasePosition::new(GROUP, seqno),
        };
        MemberConfig {
            name: node.name.clone(),
            cluster_name: "simulation".to_owned(),
            address: node.name.clone(),
            incoming: String::new(),
            certificate: None,
            has_data: node.has_data,
            region: self.options.region(id),
            wants_vote: node.wants_vote,
            voter_policy: self.options.voter_policy,
            timing: node.timing.clone(),
            limits: self.options.limits.clone(),
            suspect: self.options.suspect(),
            keeps_log_only: false,
            apply_lag_max: self.options.apply_lag_max(),
            certification_span: self.options.span_max,
            database,
            versions: node.versions,
        }
    }

    /// The timing that an operator gives a process. Members' promises differ.
    fn draw_timing(&mut self) -> Timing {
        let mut timing = self.options.timing.clone();
        timing.promise_us = self.draw((timing.promise_us / 2, timing.promise_us));
        timing
    }

    fn tuning(&self, id: MemberId) -> Tuning {
        // Members differ in how they keep the keys of large actions: verdicts must not.
        let run_above = if id.0.is_multiple_of(2) { 12 } else { 30 };
        let options = &self.options;
        Tuning {
            learner_patience: options.learner_patience,
            entry_cache_bytes: options.entry_cache_bytes,
            warm_entries: options.warm_entries,
            join_backlog: 20,
            catch_up_bytes: options.catch_up_bytes,
            slow_tick: Duration::from_micros(options.timing.heartbeat_us * 5 / 2),
            retention_period: Duration::from_micros(options.timing.heartbeat_us * 15),
            // Clocks of members may run at twice the speed.
            local_flush_margin: Duration::from_micros(3 * FLUSH_US),
            reported_flush_margin: Duration::from_micros(3 * FLUSH_US),
            disk_patience: Duration::from_micros(
                options.timing.heartbeat_us * DISK_PATIENCE_HEARTBEATS,
            ),
            writers_sample: Duration::from_micros(options.timing.heartbeat_us * 2),
            writers_trial: Duration::from_micros(options.timing.heartbeat_us * 5),
            leader_pause: Duration::from_micros(options.leader_pause_us()),
            partial_action_timeout: Duration::from_micros(options.timing.heartbeat_us * 50),
            run_above,
        }
    }

    fn begin_process(
        &mut self,
        id: MemberId,
        mode: StartMode,
        mut opened: Opened,
        effects: Arc<RecordedEffects>,
        recorder: Option<Recorder>,
    ) {
        self.next_session += 1;
        let session = SessionId(self.next_session);
        let entropy = StartEntropy {
            session,
            seed: rand::Rng::random(&mut self.rng),
            group: GROUP,
        };
        self.node_mut(id).timing = self.draw_timing();
        let local = self.local(id);
        let host: Arc<dyn Host> = effects.clone();
        let (config, tuning) = (self.member_config(id), self.tuning(id));
        let start = Start::new(config, tuning, mode, entropy, &mut opened, &host, local);
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
        let mut driver = Driver::new(start, links, local);
        if self.options.drops_full_logs {
            driver.handle(
                local,
                Input::Set(LiveSetting::FullLogPolicy(FullLogPolicy::Drop)),
            );
        }
        let storage = Storage::new(writer, reader.clone(), host, shared.clone());
        let parts = ProcessParts {
            session,
            driver,
            storage,
            reader,
            shared,
            effects,
            committed,
            recorder,
        };
        let process = Process::new(parts, self.now_us);
        let node = self.node_mut(id);
        node.epoch += 1;
        node.database.copying = false;
        node.process = Some(Box::new(process));
        self.begin_turns(id);
    }

    /// The first events of a process: it begins, looks for its group, and connects.
    fn begin_turns(&mut self, id: MemberId) {
        let (node, epoch) = (id, self.node(id).epoch);
        self.schedule(1, Event::Seek { node, epoch });
        self.drive(id, Driver::begin);
        self.settle(id);
        self.start_logger(id);
        let preference = self.node(id).preference;
        if preference != LeaderPreference::default() {
            self.feed(id, Input::Set(LiveSetting::LeaderPreference(preference)));
        }
        if self.options.following_writers {
            self.feed(
                id,
                Input::Set(LiveSetting::LeaderPlacement(LeaderPlacement::FollowWriters)),
            );
        }
        if self.is_liveness_phase {
            self.give_regions_up(id);
        }
        let wait = match self.waits_for_all {
            true => CommitWait::Applied,
            false => CommitWait::Durable,
        };
        waits::count(&mut self.coverage, &wait);
        if self.waits_for_all {
            self.feed(id, Input::Set(LiveSetting::CommitWait(wait)));
        }
        for other in self.up().into_iter().filter(|other| *other != id) {
            self.reconnect(id, other);
        }
    }

    /// A process ends. What it had not synced stays in the page cache.
    pub(crate) fn end_process(&mut self, id: MemberId) {
        let peers = self.net.connected_to(id);
        for other in &peers {
            self.net.disconnect(id, *other);
        }
        self.wanted_links.forget(id);
        let now_us = self.now_us;
        let node = self.node_mut(id);
        node.epoch += 1;
        node.end_pause(now_us);
        let Some(process) = node.process.take() else {
            return;
        };
        let session = process.session;
        drop(process);
        self.forget_clients(id, session);
        self.checks.reads.forget(id);
        // Most others notice; some notice only when the member is back.
        for other in peers {
            if self.chance(0.9) {
                self.feed(other, Input::LinkDown { member: id });
            }
        }
    }
}
