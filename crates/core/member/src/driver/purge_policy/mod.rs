//! Purge policy: one component, [`PurgePolicy`], answers how far this member's log may be purged.
//!
//! Three things keep entries in the log, each with a part of its own:
//!
//! - This member's database has not flushed them ([`flush_estimate`]), or a follower that is
//!   present has not acknowledged them. A full log is purged regardless of this, since the entries
//!   can be had elsewhere ...
//! - ... unless too few databases in the group have flushed them ([`redundancy`]). The
//!   [`purge_limit`] is the index up to which that is settled: computed by the leader, announced to
//!   all.
//! - They are chunks of an action that is to be kept ([`chunk_starts`]), or of a partial action.
//!
//! The log itself keeps what its configured size allows; what this component answers are bounds
//! ([`crate::PurgeJob`]). The driver asks every [`crate::Tuning::retention_period`], and at each
//! slow tick while the log is full, because clients wait then.

mod awake_time;
mod chunk_starts;
mod flush_estimate;
mod full_log_policy;
mod purge_limit;
mod redundancy;

use std::time::Duration;

use synod_consensus::{Config, ConfigAt, LogIndex, Seqno, Time};
use synod_log::LogError;
use synod_wire::{DataState, Report};

use super::catch_up::Fetching;
use super::context::Context;
use super::membership::Membership;
use crate::consequence::Consequence;
use crate::host::{Level, Topic};
use crate::payload::discard::{Discard, PartialActionId};
use crate::setting::Setting;
use crate::storage::{Job, PurgeJob};
use crate::tuning::Tuning;
use awake_time::AwakeTime;
use chunk_starts::ChunkStarts;
use flush_estimate::FlushEstimate;
use purge_limit::PurgeLimit;
use redundancy::Redundancy;

pub use full_log_policy::FullLogPolicy;

/// Samples of the reported estimate within one margin.
const REPORTED_SAMPLES: u32 = 8;

#[derive(Clone, Copy)]
pub(super) struct CertifiedLog {
    /// Everything after this entry was seen; partial actions that began before it are not known.
    pub(super) start: LogIndex,
    pub(super) start_seqno: Seqno,
    /// The last entry that discarded all partial actions begun by some index, and that index.
    pub(super) discard: Option<(LogIndex, LogIndex)>,
    pub(super) first_partial_chunk: Option<LogIndex>,
    pub(super) committed: LogIndex,
    pub(super) written: LogIndex,
}

impl CertifiedLog {
    /// Whether every partial action is known: either the whole log is, or what began before was
    /// discarded.
    fn knows_partial_actions(&self) -> bool {
        let is_discarded = |(entry, begun_by): (LogIndex, LogIndex)| {
            begun_by >= self.start && entry <= self.committed
        };
        self.start == LogIndex(0) || self.discard.is_some_and(is_discarded)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Needs {
    pub(super) delivered: LogIndex,
    pub(super) committed_seqno: Seqno,
    pub(super) applied: Seqno,
    /// Leader only: the least that a present follower has acknowledged.
    pub(super) least_match: Option<LogIndex>,
    /// The first entry that another member fetches from this log.
    pub(super) fetched_from: Option<LogIndex>,
}

pub(super) struct PurgePolicy {
    period: Duration,
    next: Time,
    /// Ages what the database has applied.
    awake: AwakeTime,
    /// How far this member's own database no longer needs the log.
    local_flushed: FlushEstimate<LogIndex>,
    reported_flushed: FlushEstimate<Seqno>,
    /// The action that the slowest held reader of this member's log has passed; none: there is no
    /// such reader.
    readers_at: Option<Seqno>,
    redundancy: Redundancy,
    chunk_starts: ChunkStarts,
    limit: PurgeLimit,
    /// Last action that the slowest present member has applied, as the leader has announced it.
    slowest_applied: Option<Seqno>,
    full_log_policy: FullLogPolicy,
    /// Leader only: the operator was informed that the log is full.
    full_is_announced: bool,
    /// Leader only: the operator was informed that less is kept than a minority could take.
    drop_is_announced: bool,
}

impl PurgePolicy {
    pub(super) fn new(tuning: &Tuning, now: Time, keeps_log_only: bool) -> PurgePolicy {
        let reported = tuning.reported_flush_margin;
        PurgePolicy {
            period: tuning.retention_period,
            next: now,
            awake: AwakeTime::new(now, tuning.slow_tick),
            local_flushed: FlushEstimate::new(tuning.local_flush_margin, Duration::ZERO),
            reported_flushed: FlushEstimate::new(reported, reported / REPORTED_SAMPLES),
            readers_at: None,
            redundancy: Redundancy::new(keeps_log_only),
            chunk_starts: ChunkStarts::default(),
            limit: PurgeLimit::default(),
            slowest_applied: None,
            full_log_policy: FullLogPolicy::default(),
            full_is_announced: false,
            drop_is_announced: false,
        }
    }

    pub(super) fn database_is_at(
        &mut self,
        now: Time,
        oldest_write: Duration,
        state: DataState,
        applied: Seqno,
    ) {
        self.awake.observe(now, oldest_write);
        if state.is_whole() {
            let awake = self.awake.now();
            self.reported_flushed.note(awake, applied, applied, applied);
        } else {
            // There is no database yet, or a copy replaces it.
            self.reported_flushed.reset();
        }
    }

    pub(super) fn readers_are_at(&mut self, passed: Option<Seqno>) {
        self.readers_at = passed;
    }

    pub(super) fn note_reports(&mut self, config: &Config, reports: &[Report]) {
        self.redundancy.note(config, reports);
    }

    /// The leader's status. This member's log ends with `last`.
    pub(super) fn note_status(
        &mut self,
        config: &Config,
        reports: &[Report],
        limit: LogIndex,
        last: LogIndex,
    ) {
        self.slowest_applied = reports.iter().map(|r| r.applied).min();
        self.redundancy.note(config, reports);
        self.limit.announced(limit, last);
    }

    pub(super) fn chunks_committed(&mut self, seqno: Seqno, first_chunk: LogIndex) {
        self.chunk_starts.committed(seqno, first_chunk);
    }

    pub(super) fn log_truncated(&mut self, last: LogIndex) {
        self.limit.log_ends(last);
    }

    pub(super) fn log_reset(&mut self) {
        self.limit.log_ends(LogIndex(0));
        self.chunk_starts = ChunkStarts::default();
    }

    pub(super) fn stop_leading(&mut self) {
        self.full_is_announced = false;
        self.drop_is_announced = false;
    }

    pub(super) fn set_full_log_policy(&mut self, policy: FullLogPolicy) {
        self.full_log_policy = policy;
        self.drop_is_announced = false;
    }

    /// Whether the log is to be looked at now. If so, the next look is a period later; a full log
    /// is looked at whenever this is asked.
    fn is_due(&mut self, now: Time, is_full: bool) -> bool {
        let is_due = self.next <= now || is_full;
        if is_due {
            self.next = now.plus(self.period);
        }
        is_due
    }

    /// Last action that this member's database has flushed, by estimate, as it reports to the
    /// group. Zero: unknown. A member without a database reports what none of its held readers
    /// needs.
    pub(super) fn db_flushed(&self) -> Seqno {
        let flushed = self.reported_flushed.flushed();
        self.readers_at
            .map_or(flushed, |passed| passed.min(flushed))
    }

    fn keep_from(&mut self, log: &CertifiedLog, needs: &Needs) -> LogIndex {
        let (delivered, seqno) = (needs.delivered, needs.committed_seqno);
        self.local_flushed
            .note(self.awake.now(), delivered, seqno, needs.applied);
        let mut keep_from = self.local_flushed.flushed().min(log.committed);
        if let Some(least) = needs.least_match {
            keep_from = keep_from.min(least);
        }
        if let Some(fetched) = needs.fetched_from {
            keep_from = keep_from.min(fetched.prev());
        }
        // Delivery may have begun after the first chunks of an action that the database does not
        // have yet; it does not know of them then.
        let chunk = match self.db_flushed() {
            Seqno(0) => log.first_partial_chunk,
            flushed => self.first_chunk_after(log, flushed),
        };
        chunk.map_or(keep_from, |chunk| keep_from.min(chunk.prev()))
    }

    /// The log was purged up to `base`, which is at `seqno`.
    fn purged(&mut self, base: LogIndex, seqno: Seqno) {
        self.chunk_starts.purged(base, seqno);
    }

    /// No entry after this action is purged, unless the log is full. The slowest held reader has
    /// passed it; and, for a follower, the slowest present member has applied up to there. A leader
    /// knows how far the members' logs are, and needs no such bound.
    fn keep_after(&self, leads: bool) -> Option<Seqno> {
        let applied = self.slowest_applied.filter(|_| !leads);
        applied.into_iter().chain(self.readers_at).min()
    }

    /// Up to where the log may be purged if it is full, as far as this member knows.
    pub(super) fn known_purge_limit(&self) -> LogIndex {
        self.limit.index()
    }

    /// Leader only: computes the purge limit of a log that is full or not. `search` finds an
    /// action's entry in the log.
    fn compute_purge_limit(
        &mut self,
        config: &Config,
        log: &CertifiedLog,
        is_full: bool,
        search: impl FnOnce(Seqno) -> Result<LogIndex, LogError>,
    ) -> Result<(), LogError> {
        let flushed = self.flushed(config, is_full);
        let chunk = self.first_chunk_after(log, flushed);
        self.limit.compute(log, flushed, chunk, search)
    }

    /// Up to where the databases have flushed that must have, before a log that is full or not is
    /// purged.
    fn flushed(&self, config: &Config, is_full: bool) -> Seqno {
        let policy = match is_full {
            true => self.full_log_policy,
            false => FullLogPolicy::Wait,
        };
        self.redundancy.flushed(config, policy)
    }

    /// First chunk of any action that comes after `seqno` or is partial.
    pub(super) fn first_chunk_after(&self, log: &CertifiedLog, seqno: Seqno) -> Option<LogIndex> {
        let partial = log.first_partial_chunk;
        let partial = synod_planted::planted!(DropUnfinished, partial, else None);
        let committed = self.chunk_starts.first_after(seqno);
        partial.into_iter().chain(committed).min()
    }

    /// Leader only: whether the log has become full (`true`) or has room again (`false`) since
    /// the operator was last informed.
    fn fullness_to_announce(&mut self, is_full: bool) -> Option<bool> {
        let was_full = std::mem::replace(&mut self.full_is_announced, is_full);
        (is_full != was_full).then_some(is_full)
    }

    /// Leader of a full log only: whether it is purged of actions that too few databases have, and
    /// the operator is not informed of that yet.
    fn drop_to_announce(&mut self, config: &Config, is_full: bool) -> bool {
        let enough = self.redundancy.flushed(config, FullLogPolicy::Wait);
        let drops = is_full && self.flushed(config, is_full) > enough;
        drops && !std::mem::replace(&mut self.drop_is_announced, true)
    }

    /// Leader only: the oldest partial action (`oldest`, with the last action ordered before it),
    /// if the log is full, has been for a tick, and cannot be purged because of this action: enough
    /// databases have flushed everything before it. Clients would wait in vain for an origin that
    /// is dead, or for an action that is larger than the log.
    fn action_in_the_way(
        &self,
        config: &Config,
        is_full: bool,
        oldest: Option<(PartialActionId, Seqno)>,
    ) -> Option<PartialActionId> {
        if !self.full_is_announced || !is_full {
            return None;
        }
        let flushed = self.flushed(config, is_full);
        let (id, _) = oldest.filter(|(_, before)| *before <= flushed)?;
        Some(id)
    }
}

impl PurgePolicy {
    pub(super) fn retain_log(
        &mut self,
        ctx: &mut Context,
        membership: &Membership,
        fetching: &mut Fetching,
    ) {
        if !self.is_due(ctx.turns.now, ctx.links.shared.is_log_full()) {
            return;
        }
        let (log, needs) = (ctx.certified_log(), needs(ctx, membership, fetching));
        let keep_from = self.keep_from(&log, &needs);
        let base = ctx.core.base();
        let (base, seqno) = (base.last.index, base.seqno);
        self.purged(base, seqno);
        let purge_limit = self.purge_limit(ctx).min(ctx.own_log.committed());
        if purge_limit > base {
            let purge = PurgeJob {
                keep_from,
                keep_after: self.keep_after(ctx.core.is_leader()),
                purge_limit,
                compares_after: ctx.has_database().then(|| ctx.links.shared.applied()),
                configs: configs_up_to(ctx, purge_limit),
            };
            ctx.links.disk.write(Job::Purge(purge));
        }
    }

    pub(super) fn purge_limit(&mut self, ctx: &mut Context) -> LogIndex {
        if ctx.core.is_leader() {
            let log = ctx.certified_log();
            let (config, reader) = (&ctx.core.config().config, &ctx.links.reader);
            let is_full = ctx.links.shared.is_log_full();
            let search = |seqno| reader.seek_seqno(seqno);
            if let Err(error) = self.compute_purge_limit(config, &log, is_full, search) {
                ctx.log_damaged(&error);
            }
        }
        self.known_purge_limit()
    }

    pub(super) fn announce_full_log(&mut self, ctx: &Context) {
        let is_full = ctx.links.shared.is_log_full();
        let name = |setting| ctx.links.host.setting_name(setting);
        let (retain_size, log_full) = (name(Setting::LogRetainSize), name(Setting::LogFull));
        let config = &ctx.core.config().config;
        let words = |consequence| ctx.links.host.consequence(consequence);
        if self.drop_to_announce(config, is_full) {
            let purged = words(Consequence::FullAndPurged);
            let text = format!("the log is full: as {log_full} says, {purged}");
            ctx.note(Topic::Log, Level::Warning, text);
        }
        let holds = words(Consequence::FullAndHeld);
        match self.fullness_to_announce(is_full) {
            Some(true) => ctx.note(
                Topic::Log,
                Level::Warning,
                format!(
                    "the log is larger than twice {retain_size}, its disk has no more room to \
                     spare, and {holds}. With {log_full}=drop the log is purged nevertheless"
                ),
            ),
            Some(false) => ctx.note(Topic::Log, Level::Info, "the log has room again"),
            None => {}
        }
    }

    /// Leader only: discards the partial action that keeps a full log from being purged, if one
    /// does.
    pub(super) fn discard_action_in_the_way(&self, ctx: &mut Context) {
        let config = &ctx.core.config().config;
        let is_full = ctx.links.shared.is_log_full();
        let oldest = ctx.certification.partial_actions().oldest();
        let Some(id) = self.action_in_the_way(config, is_full, oldest) else {
            return;
        };
        let why = format!(
            "discarding a partial action of member {}: the log is larger than twice {}, and \
             cannot be purged before that action ends",
            id.member,
            ctx.links.host.setting_name(Setting::LogRetainSize),
        );
        ctx.discard(&Discard::Action(id), Level::Warning, why);
    }
}

fn needs(ctx: &Context, membership: &Membership, fetching: &mut Fetching) -> Needs {
    let fetched_from = fetching.serving.needed_from(ctx.turns.now);
    let shared = &ctx.links.shared;
    let delivered = shared.delivered_index();
    let committed_seqno = shared.commit_seqno();
    let applied = shared.applied();
    let followers = ctx.core.progress();
    let present = followers.filter(|progress| membership.is_alive(ctx, progress.member));
    Needs {
        delivered,
        committed_seqno,
        applied,
        least_match: present.map(|progress| progress.match_index).min(),
        fetched_from,
    }
}

/// Every configuration that was in force at some entry up to `index`, ascending.
fn configs_up_to(ctx: &Context, index: LogIndex) -> Vec<ConfigAt> {
    let mut configs = Vec::new();
    let mut at = Some(index);
    while let Some(config) = at.and_then(|index| ctx.core.config_at(index)) {
        configs.push(config.clone());
        at = (config.index > ctx.core.base().last.index).then(|| config.index.prev());
    }
    configs.reverse();
    configs
}

/// Leader only: discards partial actions that began before this member's knowledge of the log
/// does. It would refuse their next chunks, and cannot say how long logs have to keep them.
pub(super) fn discard_unknown(ctx: &mut Context) {
    let log = ctx.certified_log();
    let begun_by = log.discard.map_or(LogIndex(0), |(_, begun_by)| begun_by);
    if begun_by < log.start {
        let start = log.start;
        let why = format!("discarding all partial actions that began by entry {start}, if any");
        ctx.discard(&Discard::BegunBy(start), Level::Info, why);
    }
}

#[cfg(test)]
mod tests;
