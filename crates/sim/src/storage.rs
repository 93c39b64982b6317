//! The simulated log thread: gathers what came in while the last sync ran, writes it, syncs once, and
//! reports, as the node's `storage.rs` does. The log is the real one, on files in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use synod_certify::CertLimits;
use synod_consensus::{
    Core, CoreParams, EntryKind, Intake, LogIndex, MemberId, Outbox, Seqno, SessionId, Time,
    WriteTicket,
};
use synod_log::{Log, LogError, LogOptions, LogReader, Opened};

use crate::image::{Image, Ledger};
use crate::ingest::Ingestor;
use crate::invariants::{Violation, recovery};
use crate::member::{Job, Process, Readable, Staged};
use crate::planted::Planted;
use crate::trace::What;
use crate::world::{Event, MS, SECOND, World};

/// Where each member's log is, on its own files.
pub(crate) const LOG_DIR: &str = "log";

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

    pub(crate) fn cert_limits(&self) -> CertLimits {
        CertLimits {
            span_max: self.options.span_max,
            ..CertLimits::default()
        }
    }

    pub(crate) fn new_ingestor(
        &self,
        index: LogIndex,
        seqno: Seqno,
        limits: CertLimits,
    ) -> Ingestor {
        let mut ingest = Ingestor::new(index, seqno, limits);
        ingest.generous = self.planted(Planted::WindowOffByOne);
        ingest.keeps_cut = self.planted(Planted::NoCertificationRollback);
        ingest
    }

    // --- starting ---------------------------------------------------------------------------

    /// Opens a member's log and starts its process.
    pub(crate) fn start(&mut self, id: MemberId) {
        let node = self.node(id);
        if node.is_up() || node.gone {
            return;
        }
        let dir = Path::new(LOG_DIR);
        let files = Arc::new(node.faulty.clone());
        let mut opened = match Log::open(files, dir, self.log_options()) {
            Ok(opened) => opened,
            Err(error) => return self.refused_to_start(id, &error),
        };
        let found = Image::of(&opened.recovered);
        let checked = recovery::after_crash(id, &self.node(id).ledger, &found);
        self.judge(checked);
        if opened.identity.member != id && !self.planted(Planted::KeepIdentity) {
            self.judge(Err(Violation {
                rule: "a log keeps its identity",
                what: format!("{id} comes back as {}", opened.identity.member),
            }));
        }
        if opened.report.cut.is_some() {
            self.coverage.count("torn tail cut");
        }
        if self.planted(Planted::ForgetVote) {
            opened.recovered.vote.voted_for = None;
        }
        let (last, term) = (found.last(), found.vote.term);
        self.note(id, What::Started { last, term });
        self.node_mut(id).ledger = Ledger::recovered(found);
        self.begin_process(id, opened);
    }

    /// A log that does not open: to be tried again if that may help.
    fn refused_to_start(&mut self, id: MemberId, error: &LogError) {
        let why = error.to_string();
        if !self.node(id).disk_fault {
            self.judge(Err(Violation {
                rule: "a log opens after a crash",
                what: format!("{id}: {why}"),
            }));
            return;
        }
        self.note(id, What::Refused { why });
        let epoch = self.node(id).epoch;
        let after_us = self.draw((SECOND / 2, 2 * SECOND));
        self.schedule(after_us, Event::Start { node: id, epoch });
        self.free_disk(id);
    }

    fn begin_process(&mut self, id: MemberId, opened: Opened) {
        self.next_session += 1;
        let session = SessionId(self.next_session);
        let seed = rand::Rng::random(&mut self.rng);
        let (local, limits) = (self.local(id), self.cert_limits());
        let params = CoreParams {
            id,
            timing: self.options.timing.clone(),
            limits: self.options.limits.clone(),
            seed,
        };
        // The planted bug lets the promise of a restarted voter be over before it begins.
        let begin = match self.planted(Planted::NoPromiseAfterRestart) {
            true => Time(local.0.saturating_sub(self.options.timing.promise_us)),
            false => local,
        };
        let core = Core::new(params, opened.recovered, begin);
        let ingest = self.warm_ingestor(&core, &opened.reader, limits);
        let config = core.config();
        let voters = vec![(config.index, config.config.voters().collect())];
        let now_us = self.now_us;
        let last = opened.reader.last_index();
        let base = core.base().clone();
        let mut outbox = Outbox::new(id, session);
        outbox.log_starts_after(base.last.term);
        let process = Process {
            session,
            outbox,
            intake: Intake::new(),
            ingest,
            staged: Staged::default(),
            deferred: Default::default(),
            arriving: Default::default(),
            submitted: Default::default(),
            views: crate::joining::views_in(&opened.reader),
            presence: Default::default(),
            slowest_applied: None,
            last_committed: core.commit_index(),
            commit_seqno: base.seqno,
            readable: Readable {
                committed: core.commit_index(),
                written: last,
                era: 0,
            },
            writer: opened.writer,
            reader: opened.reader,
            jobs: Default::default(),
            syncing: None,
            last_write_us: now_us,
            floor_due: false,
            deliver_next: None,
            delivered: base.last.index,
            flushed: base.last.index,
            applying: false,
            lock_epoch: 1,
            locks: Default::default(),
            attached: Default::default(),
            next_chunked: 1,
            tick_at_us: None,
            turn_planned: false,
            voters,
            core,
        };
        let node = self.node_mut(id);
        node.epoch += 1;
        node.database.copying = false;
        node.process = Some(Box::new(process));
        let epoch = node.epoch;
        self.schedule(MS, Event::SlowTick { node: id, epoch });
        self.perform(id);
        for other in self.up().into_iter().filter(|other| *other != id) {
            self.reconnect(id, other);
        }
    }

    /// Certification state as far as the end of the log tells it.
    fn warm_ingestor(&mut self, core: &Core, reader: &LogReader, limits: CertLimits) -> Ingestor {
        let (base, last) = (core.base(), core.last_id().index);
        let warm = last.0.saturating_sub(self.options.warm_entries);
        let start = LogIndex(warm.max(base.last.index.0));
        let seqno = match start == base.last.index {
            true => base.seqno,
            false => reader
                .header(start)
                .map_or(core.last_seqno(), |header| header.seqno),
        };
        let cold = self.planted(Planted::ColdCertification);
        let mut ingest = self.new_ingestor(start, seqno, limits);
        let mut next = start.next();
        while next <= last {
            let Ok(entries) = reader.read(next, last, 64 << 10) else {
                return self.new_ingestor(last, core.last_seqno(), limits);
            };
            for entry in entries {
                next = entry.header.index.next();
                let mut payload = entry.payload;
                if cold && entry.header.kind == EntryKind::Action {
                    payload = without_keys(payload);
                }
                ingest.appended(&entry.header, &payload, self.now_us);
            }
        }
        ingest
    }

    // --- writing ----------------------------------------------------------------------------

    /// Takes what is waiting, unless a sync is under way.
    pub(crate) fn pump_disk(&mut self, id: MemberId) {
        if self.process(id).syncing.is_some() || self.process(id).jobs.is_empty() {
            return;
        }
        let mut last_ticket = None;
        loop {
            let is_retain = matches!(self.process(id).jobs.front(), Some(Job::Retain { .. }));
            if is_retain && last_ticket.is_some() {
                break;
            }
            let Some(job) = self.process(id).jobs.pop_front() else {
                break;
            };
            match self.write_job(id, job) {
                Ok(ticket) => last_ticket = ticket.or(last_ticket),
                Err(error) => return self.storage_failed(id, &error),
            }
        }
        let Some(ticket) = last_ticket else {
            return;
        };
        let sync_us = self.options.sync_us;
        let slow = self.node(id).slow_disk;
        let after_us = self.draw(sync_us) + slow;
        let (node, epoch) = (id, self.node(id).epoch);
        self.process(id).syncing = Some(ticket);
        self.schedule(after_us, Event::Synced { node, epoch });
        if self.planted(Planted::AckBeforeSync) {
            let local = self.local(id);
            self.process(id).core.persisted(local, ticket);
            self.perform_core_effects(id);
        }
    }

    fn write_job(&mut self, id: MemberId, job: Job) -> Result<Option<WriteTicket>, LogError> {
        let process = self.process(id);
        match job {
            Job::Append {
                ticket,
                era,
                entries,
            } => {
                process.writer.append(&entries)?;
                if let Some(last) = entries.last() {
                    process.readable.written(era, last.header.index);
                }
                Ok(Some(ticket))
            }
            Job::Truncate { ticket, era, from } => {
                process.writer.truncate(from)?;
                process.readable.written(era, from.prev());
                Ok(Some(ticket))
            }
            Job::Vote { ticket, vote } => {
                process.writer.save_vote(vote)?;
                Ok(Some(ticket))
            }
            Job::Reset { ticket, era, base } => {
                let index = base.last.index;
                process.writer.reset(base)?;
                process.readable.written(era, index);
                Ok(Some(ticket))
            }
            Job::Nothing { ticket } => Ok(Some(ticket)),
            Job::Retain {
                keep_from,
                keep_after,
                committed,
                configs,
                force,
            } => {
                let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
                let slowest = keep_after
                    .filter(|seqno| *seqno > 0)
                    .and_then(|seqno| process.reader.seek_seqno(Seqno(seqno)).ok());
                let keep_from = slowest.map_or(keep_from, |index| index.min(keep_from));
                let point = process.writer.retention_point(keep_from, now);
                let up_to = match (point, force) {
                    (Some(point), false) => point.up_to.min(committed),
                    (None, false) => return Ok(None),
                    (_, true) => keep_from.min(committed),
                };
                let config_at = |index: LogIndex| {
                    configs
                        .iter()
                        .rev()
                        .find(|config| config.index <= index)
                        .cloned()
                };
                let base = process.writer.purge(up_to, &config_at)?;
                if let Some(base) = base {
                    let last = base.last;
                    process.core.purged(base);
                    self.node_mut(id).ledger.purged(last);
                    self.coverage.count("log purged");
                    self.note(id, What::Purged { index: last.index });
                }
                Ok(None)
            }
        }
    }

    /// The sync under way returns.
    pub(crate) fn synced(&mut self, id: MemberId) {
        let Some(ticket) = self.process(id).syncing.take() else {
            return;
        };
        if let Err(error) = self.process(id).writer.sync() {
            if self.planted(Planted::IgnoreFailedSync) {
                let local = self.local(id);
                self.process(id).core.persisted(local, ticket);
                return self.settle(id);
            }
            return self.storage_failed(id, &error);
        }
        let now_us = self.now_us;
        let node = self.node_mut(id);
        node.ledger.synced(ticket);
        let last = node.ledger.durable.last().index;
        self.note(
            id,
            What::Synced {
                ticket: ticket.0,
                last,
            },
        );
        let local = self.local(id);
        self.remember_voters(id);
        let process = self.process(id);
        (process.floor_due, process.last_write_us) = (true, now_us);
        process.core.persisted(local, ticket);
        self.trim_staged(id);
        self.pump_disk(id);
        if self.is_up(id) {
            self.settle(id);
        }
    }

    /// After a while without writes, the last batch is covered by a floor.
    pub(crate) fn idle_floor(&mut self, id: MemberId) {
        let now_us = self.now_us;
        let process = self.process(id);
        let idle = process.syncing.is_none()
            && process.jobs.is_empty()
            && process.floor_due
            && now_us > process.last_write_us + SECOND;
        if !idle {
            return;
        }
        process.floor_due = false;
        match process.writer.write_floor() {
            Ok(()) => self.node_mut(id).ledger.floor_stated(),
            Err(error) => self.storage_failed(id, &error),
        }
    }

    /// The log does not work any more: the member stops, and says why.
    fn storage_failed(&mut self, id: MemberId, error: &LogError) {
        let why = error.to_string();
        if !self.node(id).disk_fault {
            self.judge(Err(Violation {
                rule: "a log works on a good disk",
                what: format!("{id}: {why}"),
            }));
            return;
        }
        self.note(id, What::Fenced { why });
        self.coverage.count("member fenced");
        // After a failed sync the page cache may show what the disk does not have.
        self.node(id).files.lose_unsynced_silently();
        self.end_process(id);
        let epoch = self.node(id).epoch;
        let after_us = self.draw((100 * MS, 2 * SECOND));
        self.schedule(after_us, Event::Start { node: id, epoch });
        self.free_disk(id);
    }

    /// The operator frees space, or the disk works again, after a while or never.
    pub(crate) fn free_disk(&mut self, id: MemberId) {
        if self.calm || self.chance(0.7) {
            self.node(id).faulty.heal();
            // A write that failed half-way may have left anything it was writing.
        }
    }

    /// A process ends; what it had not synced stays in the page cache.
    pub(crate) fn end_process(&mut self, id: MemberId) {
        let node = self.node_mut(id);
        node.epoch += 1;
        node.paused_until_us = 0;
        let Some(process) = node.process.take() else {
            return;
        };
        let lost: Vec<u64> = process.submitted.values().map(|s| s.transaction).collect();
        drop(process);
        for transaction in lost {
            self.unknown(transaction);
        }
        self.checks.reads.forget(id);
        for other in self.up() {
            if self.chance(0.9) {
                self.with_core(other, |core, now| core.peer_disconnected(now, id));
            }
        }
    }
}

/// An action that claims to touch nothing.
fn without_keys(payload: bytes::Bytes) -> bytes::Bytes {
    match crate::action::Piece::decode(payload.clone()) {
        Ok(mut piece) => {
            piece.keys = synod_certify::KeySet::new().encode().into();
            piece.chunked = 0;
            piece.encode()
        }
        Err(_) => payload,
    }
}
