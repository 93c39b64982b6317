//! The member's record of its database: its meaning at a start, and when it is written.
//!
//! A server whose applier fails rolls the action back, moves its engine's position over it, and
//! only then tells the provider. So the engine's position proves nothing about an action that has
//! failed, and the record is written first, where the server lets it be known in time. The rules
//! are [`DatabaseLack`]'s.
//!
//! A record that cannot be written ends the process: nothing may continue as if it was there.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use synod_node::{
    Behind, DatabaseLack, DatabasePosition, DatabaseRecord, DatabaseRecordError, DoubtfulStreams,
    ExecutingStatement, GroupId, MemberId, STREAMS_MAX, Seqno, SessionId,
};

use super::grastate::SavedPosition;
use super::{Known, PositionKeeper, UNKNOWN};
use crate::api::{Gtid, LogLevel};

/// This process's knowledge of the action that the database lacks.
#[derive(Default)]
pub(super) struct Healing {
    lack: DatabaseLack,
    /// Since the action was applied after all: time that this process has run, and when it was
    /// counted last.
    run: Option<(Duration, Instant)>,
}

/// The first action that the database lacks, although its engine may not know; `i64::MAX`: none.
pub(super) fn first_lacking(record: &DatabaseRecord) -> i64 {
    record.first_lacking().map_or(i64::MAX, |seqno| seqno.0)
}

/// The statement that is being executed; `i64::MAX`: none.
pub(super) fn executing(record: &DatabaseRecord) -> i64 {
    let statement = record.executing;
    statement.map_or(i64::MAX, |statement| statement.seqno.0)
}

/// The database's position, if its engine says that it is at `position`; and a line for the error
/// log if the two differ.
pub(super) fn corrected(
    position: DatabasePosition,
    record: &DatabaseRecord,
) -> (DatabasePosition, Option<String>) {
    let is_group = record.group == position.group;
    let correction = record.correction(position.seqno).filter(|_| is_group);
    let Some(Behind { at, error, .. }) = correction else {
        return (position, None);
    };
    let lacking = at.0 + 1;
    let why = match error {
        0 => String::new(),
        error => format!(" (error {error})"),
    };
    let notice = format!(
        "the database is at {at}, although its engine says {}: action {lacking} was not \
        applied{why}, \
         and is applied again",
        position.seqno
    );
    let seqno = at;
    (DatabasePosition { seqno, ..position }, Some(notice))
}

/// Compares the record with the position at a start: by the engine, or else by the last stop in
/// order. Leaves out what is over; has the data replaced if they may have an action that was
/// applied again, or not.
pub(super) fn compare(record: &mut DatabaseRecord, start: Gtid, saved: Option<SavedPosition>) {
    let saved = saved.map_or(Gtid::UNDEFINED, |saved| Gtid::new(saved.group, saved.seqno));
    let is_engine = start.is_defined();
    let Gtid { group, seqno } = if is_engine { start } else { saved };
    if record.group != group {
        return;
    }
    let position = Seqno(seqno);
    record.forget_outlived(position);
    if is_engine {
        record.forget_lost(position);
    }
    record.forget_known_end(position, boot());
    // After its failure a statement may be executed once more, with the position beyond it.
    let is_executed_again = record.executing.is_some() && record.correction(position).is_some();
    let is_in_doubt = record.is_in_doubt(position) || is_executed_again;
    if let Some(behind) = record.behind.take_if(|_| is_in_doubt) {
        let after = behind.applied_again_after.unwrap_or(behind.at);
        record.unusable = Some(format!(
            "the server was killed, or lost its power, before its engine had flushed action {}, \
             which had failed and was applied again: the data may have it or not",
            after.0 + 1
        ));
    }
}

/// The present run of the operating system, if that can be told.
fn boot() -> Option<u32> {
    static BOOT: OnceLock<Option<u32>> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        u32::from_str_radix(id.get(..8)?, 16).ok()
    })
}

pub(super) fn why_not_used(record: &DatabaseRecord) -> String {
    let why = match &record.unusable {
        Some(why) => why.as_str(),
        None => "they were being replaced by a full copy, which did not end",
    };
    format!(
        "the data of this server are not used: {why}. A full copy (SST) will be asked for. If no \
         other server has data, 'synod copy --accept' shows what these may lack, and has them used"
    )
}

impl PositionKeeper {
    /// The server is about to move its engine's position to `engine_says`, or has done so, although
    /// the database is at `at`. `error`: the action after it has failed with it; zero: it was not
    /// let in. Durable when it returns; answers how often the action has failed here.
    pub(crate) fn falls_behind(
        &self,
        group: GroupId,
        at: i64,
        engine_says: i64,
        error: u32,
    ) -> u32 {
        let mut current = self.lock();
        let mut record = record_of(&current, group);
        let healing = &mut current.healing;
        let (at, engine_says) = (Seqno(at), Seqno(engine_says));
        let failures = healing
            .lack
            .falls_behind(&mut record, at, engine_says, error);
        self.keep_changes(&mut current, record);
        failures
    }

    /// An action that the database lacks is about to be applied: a start after a kill cannot tell
    /// whether it was.
    pub(crate) fn begins(&self, seqno: i64) {
        let mut current = self.lock();
        let mut record = current.record.clone();
        current.healing.lack.begins(&mut record, Seqno(seqno));
        self.keep_changes(&mut current, record);
    }

    /// A statement in total order is about to be executed. A start after a kill learns by that
    /// whether it knows how the statement ended.
    pub(crate) fn executes(&self, group: GroupId, seqno: i64) {
        let Some(boot) = boot() else {
            return;
        };
        let mut current = self.lock();
        let mut record = record_of(&current, group);
        let seqno = Seqno(seqno);
        record.executing = Some(ExecutingStatement { seqno, boot });
        self.keep_over_kills(&mut current, record);
    }

    /// The statement was executed, or has failed as it should. Costs nothing for other actions.
    pub(crate) fn executed(&self, seqno: i64) {
        if self.executing.load(Ordering::Acquire) == seqno {
            let mut current = self.lock();
            let mut record = current.record.clone();
            record.executing = None;
            self.keep_over_kills(&mut current, record);
        }
    }

    /// Whether the end of this statement, the last one before the start, is unknown: the engine has
    /// it, and the server was killed before it noted whether it had failed.
    pub(crate) fn is_end_unknown(&self, seqno: i64) -> bool {
        self.unknown_end.load(Ordering::Acquire) == seqno
    }

    /// The server has given up the action that failed: nothing of it is in the database.
    pub(crate) fn gives_up(&self) {
        let mut current = self.lock();
        let mut record = current.record.clone();
        current.healing.lack.gives_up(&mut record);
        self.keep_changes(&mut current, record);
    }

    /// Whether this action ends a time in which the database was behind its engine's position.
    pub(crate) fn was_lacking(&self, seqno: i64) -> bool {
        seqno >= self.first_lacking.load(Ordering::Acquire)
    }

    /// The action was applied, or has failed as it should. True if the engine's flush has to be
    /// waited for, and nothing waits for it yet.
    pub(crate) fn heals(&self, seqno: i64, failed_alike: bool) -> bool {
        let mut current = self.lock();
        let mut record = current.record.clone();
        let lack = &mut current.healing.lack;
        let must_last = lack.ended(&mut record, Seqno(seqno), failed_alike);
        let is_awaited = current.healing.run.is_some();
        if must_last {
            current.healing.run = Some((Duration::ZERO, Instant::now()));
        }
        self.keep_changes(&mut current, record);
        must_last && !is_awaited
    }

    /// Whether something was applied again that the engine has not flushed.
    pub(crate) fn awaits_flush(&self) -> bool {
        self.lock().healing.run.is_some()
    }

    /// Counts the time that this process has run, in steps: if it stood still, its engine did, too.
    /// Once the engine must have flushed what the database had lacked, the record says so.
    pub(crate) fn count_run(&self, step: Duration, flush_period: Duration) {
        let mut current = self.lock();
        let Some((run, counted)) = &mut current.healing.run else {
            return;
        };
        *run += counted.elapsed().min(step);
        *counted = Instant::now();
        // Twice: the flush that had begun before does not count.
        if *run >= 2 * flush_period {
            let mut record = current.record.clone();
            current.healing.lack.flushed(&mut record);
            current.healing.run = None;
            self.keep_changes(&mut current, record);
        }
    }

    pub(super) fn engine_has_closed(&self, current: &mut Known) {
        let mut record = current.record.clone();
        current.healing.lack.closed(&mut record);
        current.healing.run = None;
        self.keep_changes(current, record);
    }

    /// Whether this action is one of the latest that failed here, and have ended since as on the
    /// other servers.
    pub(crate) fn has_settled(&self, seqno: i64) -> bool {
        self.lock().record.settled.contains(&Seqno(seqno))
    }

    /// Each defect that the database has now, in a sentence for operators.
    pub(crate) fn defects(&self) -> Vec<String> {
        let current = self.lock();
        let mut record = current.record.clone();
        // The record is kept for a loss of power; the database has all.
        record.behind.take_if(|_| current.healing.lack.has_healed());
        record.defects()
    }

    pub(crate) fn record(&self) -> DatabaseRecord {
        self.lock().record.clone()
    }

    /// The data must not be used again, for this reason: only a full copy (SST) helps.
    pub(crate) fn unusable(&self, group: GroupId, why: &str) {
        let mut current = self.lock();
        current.position = DatabasePosition::new(GroupId::NONE, UNKNOWN);
        let is_saved = self.save(&current);
        let mut record = record_of(&current, group);
        record.unusable.get_or_insert_with(|| why.to_owned());
        if let Err(error) = self.record_file.write(&record) {
            match is_saved {
                true => self.callbacks.log(LogLevel::Error, &error.to_string()),
                false => self.end_process(&error.to_string()),
            }
        }
        current.record = record;
    }

    /// A full copy is asked for: from now on its script may replace the data at any time.
    pub(crate) fn copy_is_asked_for(&self, group: GroupId) {
        let mut current = self.lock();
        let mut record = record_of(&current, group);
        record.is_copying = true;
        self.keep(&mut current, record);
    }

    /// No donor gives the copy that was asked for: the data are what they were.
    pub(crate) fn copy_is_refused(&self) {
        let mut current = self.lock();
        let mut record = current.record.clone();
        record.is_copying = false;
        self.keep(&mut current, record);
    }

    pub(crate) fn copy_is_given(&self) {
        self.changing(GroupId::NONE);
    }

    /// The database is a full copy of the group's, on the disk, and begins to change.
    pub(crate) fn copied(&self, group: GroupId) {
        // First: without the record, half-way, the file still says that only a copy helps.
        {
            let mut current = self.lock();
            current.healing = Healing::default();
            self.unknown_end.store(i64::MAX, Ordering::Release);
            self.keep(
                &mut current,
                DatabaseRecord {
                    group,
                    ..DatabaseRecord::default()
                },
            );
        }
        self.changing(group);
    }

    /// The commit of a streamed transaction was given up here, and may be in the log. False if so
    /// many are known that this one cannot be noted.
    pub(crate) fn stream_is_doubtful(
        &self,
        group: GroupId,
        (member, session): (MemberId, SessionId),
        transaction: u64,
    ) -> bool {
        let mut current = self.lock();
        let mut record = record_of(&current, group);
        let streams = record.doubtful.get_or_insert_with(|| DoubtfulStreams {
            member,
            session,
            transactions: Vec::new(),
        });
        let is_full = streams.transactions.len() >= STREAMS_MAX;
        if is_full || (streams.member, streams.session) != (member, session) {
            return false;
        }
        streams.transactions.push(transaction);
        self.keep(&mut current, record);
        true
    }

    /// Whether the server was stopped in order before this start: nothing that it did was lost.
    pub(crate) fn was_stopped_in_order(&self) -> bool {
        self.was_stopped_in_order
    }

    /// The fate of all streamed transactions of earlier sessions is known.
    pub(crate) fn no_stream_is_doubtful_before(&self, session: SessionId) {
        let mut current = self.lock();
        let streams = current.record.doubtful.as_ref();
        if streams.is_some_and(|streams| streams.session != session) {
            let mut record = current.record.clone();
            record.doubtful = None;
            self.keep(&mut current, record);
        }
    }

    fn keep_changes(&self, current: &mut Known, record: DatabaseRecord) {
        if record != current.record {
            self.keep(current, record);
        }
    }

    fn keep(&self, current: &mut Known, record: DatabaseRecord) {
        let written = self.record_file.write(&record);
        self.kept(current, record, written);
    }

    fn keep_over_kills(&self, current: &mut Known, record: DatabaseRecord) {
        let written = self.record_file.write_unsynced(&record);
        self.kept(current, record, written);
    }

    fn kept(
        &self,
        current: &mut Known,
        record: DatabaseRecord,
        written: Result<(), DatabaseRecordError>,
    ) {
        if let Err(error) = written {
            self.end_process(&error.to_string());
        }
        self.first_lacking
            .store(first_lacking(&record), Ordering::Release);
        self.executing.store(executing(&record), Ordering::Release);
        current.record = record;
    }

    /// Without the record, a later start would trust a wrong position.
    fn end_process(&self, why: &str) -> ! {
        let text = format!(
            "this server ends at once, since it cannot note what its database lacks: {why}. Repair \
             that disk, and start it again"
        );
        self.callbacks.log(LogLevel::Error, &text);
        self.callbacks.flush_log();
        std::process::abort()
    }
}

fn record_of(current: &Known, group: GroupId) -> DatabaseRecord {
    let record = &current.record;
    if record.group == group {
        return record.clone();
    }
    DatabaseRecord {
        group,
        unusable: record.unusable.clone(),
        is_copying: record.is_copying,
        ..DatabaseRecord::default()
    }
}

#[cfg(test)]
mod tests;
