//! Actions that fail on one database only, as a server and its provider deal with them.
//!
//! A server rolls a failed action back and moves its engine's position over it. Here both take
//! several steps, between which a member may die. The record of the database is production's
//! ([`DatabaseRecordFile`]), on the simulated disk, and so are the rules about it
//! ([`DatabaseLack`]); the vote is the drivers' own.
//!
//! An action that the database has already fails when it is applied again, if its table has a
//! primary key; every other one has none, and then the database has the row twice.

use std::path::Path;
use std::sync::Arc;

use synod_consensus::{MemberId, Seqno};
use synod_log::files::{Fault as FileFault, FaultKind, Op};
use synod_log::{
    DatabaseLack, DatabaseRecord, DatabaseRecordFile, FaultyFiles, MemoryFiles, shows_other_data,
};
use synod_member::{ApplyOutcome, DecisionSearch, Delivery, Event as Input, OutcomeDecision};
use synod_wire::DataState;

use crate::invariants::same_data;
use crate::member::start::LOG_DIR;
use crate::member::storage::FLUSH_US;
use crate::trace::What;
use crate::world::{Event, GROUP, MS, World};

/// Time between two steps, in microseconds.
const STEP_US: (u64, u64) = (50, 2 * MS);
/// Time between two searches of the log for a decision, in microseconds.
const SEARCH_US: u64 = 50 * MS;
/// The table is full.
const FULL: u32 = 1114;
/// Threads that apply actions; one at a time is let into the order.
const APPLIERS: i64 = 4;
/// The key is there already.
const DUPLICATE: u32 = 1062;
/// Coverage: a start found an action that its database may have or not.
pub(crate) const IN_DOUBT: &str = "failed action in doubt";

/// Why a database does not apply what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    /// The next action fails, once.
    Once,
    /// The data disk is full: every action fails.
    FullDisk {
        /// The record cannot be written, either.
        record_too: bool,
    },
}

/// How far the server and its provider have got with a failed action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureStep {
    /// The server has rolled it back.
    RolledBack,
    /// The record is durable.
    Noted,
    /// The engine's position is beyond the action.
    EngineMoved,
    /// The member has told the leader, and waits for the decision.
    Answered,
    /// The member knows the decision.
    Decided,
    /// The member leaves the group.
    Leaving,
}

/// An action that has failed in this process.
pub(crate) struct FailedAction {
    seqno: Seqno,
    error: u32,
    failures: u32,
    pub(crate) step: FailureStep,
    search: DecisionSearch,
    winner: Option<ApplyOutcome>,
}

/// The record of the database, open in a process.
pub(crate) struct Recorder {
    files: FaultyFiles,
    file: DatabaseRecordFile,
    pub(crate) record: DatabaseRecord,
    lack: DatabaseLack,
}

impl Recorder {
    /// Opens the record of a member as its start does.
    fn open(files: &MemoryFiles, is_full: bool) -> Result<Recorder, String> {
        let files = FaultyFiles::new(Arc::new(files.clone()));
        set_full(&files, is_full);
        let opened = DatabaseRecordFile::open(&files, Path::new(LOG_DIR));
        let (file, mut record) = opened.map_err(|error| error.to_string())?;
        record.group = GROUP;
        Ok(Recorder {
            files,
            file,
            record,
            lack: DatabaseLack::default(),
        })
    }

    /// Whether the changed record is durable.
    fn keep(&mut self, record: DatabaseRecord) -> bool {
        let is_kept = record == self.record || self.file.write(&record).is_ok();
        self.record = record;
        is_kept
    }
}

fn set_full(files: &FaultyFiles, is_full: bool) {
    files.heal();
    if is_full {
        let kind = FaultKind::Always(std::io::ErrorKind::StorageFull);
        let (op, nth) = (Op::Write, 1);
        files.plan(FileFault { op, nth, kind });
    }
}

impl World {
    // --- the record at a start and at its end -----------------------------------------------

    /// Opens the record of the database, which says where the database is. `Err` if the member does
    /// not start now.
    pub(crate) fn open_record(&mut self, id: MemberId) -> Result<Option<Recorder>, ()> {
        let node = self.node(id);
        let mut starts_at = node.database.engine;
        let mut recorder = None;
        if self.options.failing_actions && node.has_data {
            let is_full = node.failing == Some(Failing::FullDisk { record_too: true });
            let Ok(mut opened) = Recorder::open(&node.files, is_full) else {
                self.coverage.count("no start without the record");
                self.restart_later(id);
                return Err(());
            };
            let mut record = opened.record.clone();
            record.forget_outlived(starts_at);
            record.forget_lost(starts_at);
            if record.is_in_doubt(starts_at) {
                self.coverage.count(IN_DOUBT);
                (record.behind, record.unusable) = (None, Some("in doubt".to_owned()));
            }
            if record.needs_copy() {
                self.node_mut(id).database.replace(Seqno(0));
                starts_at = Seqno(0);
                record = DatabaseRecord {
                    group: GROUP,
                    ..DatabaseRecord::default()
                };
            } else if let Some(behind) = record.correction(starts_at) {
                self.coverage.count("engine corrected");
                starts_at = behind.at;
            }
            if !opened.keep(record) {
                self.coverage.count("no start without the record");
                self.restart_later(id);
                return Err(());
            }
            recorder = Some(opened);
        }
        self.node_mut(id).database.starts_at = starts_at;
        Ok(recorder)
    }

    /// The database of this member begins to fail, or has what it needs again.
    pub(crate) fn set_failing(&mut self, id: MemberId, failing: Option<Failing>) {
        let node = self.node_mut(id);
        node.failing = failing;
        let is_full = failing == Some(Failing::FullDisk { record_too: true });
        if let Some(recorder) = node.process.as_mut().and_then(|p| p.recorder.as_ref()) {
            set_full(&recorder.files, is_full);
        }
    }

    /// Makes a changed record durable, or ends the process. False if that has ended.
    fn keep_record(&mut self, id: MemberId, record: DatabaseRecord) -> bool {
        let recorder = self.process(id).recorder.as_mut();
        if recorder.is_none_or(|recorder| recorder.keep(record)) {
            return true;
        }
        self.coverage.count("ended without a record");
        self.note(id, What::Crashed);
        self.end_process(id);
        self.database_after_crash(id);
        self.restart_later(id);
        false
    }

    /// The database is a full copy.
    pub(crate) fn record_copy(&mut self, id: MemberId) {
        if let Some(recorder) = &mut self.process(id).recorder {
            recorder.lack = DatabaseLack::default();
            let group = GROUP;
            let record = DatabaseRecord {
                group,
                ..DatabaseRecord::default()
            };
            self.keep_record(id, record);
        }
    }

    // --- applying ---------------------------------------------------------------------------

    /// Whether a delivery waits behind an action that has failed; then it is kept.
    pub(crate) fn waits_behind_failure(&mut self, id: MemberId, delivery: &Delivery) -> bool {
        let process = self.process(id);
        let waits = process.failed.is_some();
        if waits {
            process.held.push_back(delivery.clone());
        }
        waits
    }

    /// Whether the database cannot apply this; then its server deals with that.
    pub(crate) fn fails_to_apply(&mut self, id: MemberId, delivery: &Delivery) -> bool {
        let Delivery::Action {
            seqno,
            data: Some(_),
            ..
        } = delivery
        else {
            return false;
        };
        if !self.note_beginning(id, *seqno) {
            return true;
        }
        let node = self.node_mut(id);
        let error = match node.failing {
            _ if *seqno <= node.database.applied => {
                let checked = same_data::applies_again(id, *seqno, has_primary_key(*seqno));
                self.judge(checked);
                DUPLICATE
            }
            Some(Failing::Once) => {
                node.failing = None;
                FULL
            }
            Some(Failing::FullDisk { .. }) => FULL,
            None => return false,
        };
        self.coverage.count(match error {
            DUPLICATE => "applied what it has",
            _ => "action failed on one database",
        });
        self.process(id).failed = Some(FailedAction {
            seqno: *seqno,
            error,
            failures: 0,
            step: FailureStep::RolledBack,
            search: DecisionSearch::new(*seqno),
            winner: None,
        });
        self.go_on_with_failure(id);
        true
    }

    /// Notes that an action is about to be applied which the database lacks; false if the process
    /// has ended.
    fn note_beginning(&mut self, id: MemberId, seqno: Seqno) -> bool {
        let Some(recorder) = &self.process(id).recorder else {
            return true;
        };
        let mut record = recorder.record.clone();
        recorder.lack.begins(&mut record, seqno);
        self.keep_record(id, record)
    }

    /// An action was applied. Perhaps the database lacked it.
    pub(crate) fn applied_after_all(&mut self, id: MemberId, seqno: Seqno) {
        let Some(recorder) = &mut self.process(id).recorder else {
            return;
        };
        let mut record = recorder.record.clone();
        let lacked = record.first_lacking().is_some_and(|first| first == seqno);
        let must_last = recorder.lack.ended(&mut record, seqno, false);
        self.coverage
            .count_if(lacked, "failed action applied again");
        if self.keep_record(id, record) && must_last {
            let (node, epoch) = (id, self.node(id).epoch);
            self.schedule(2 * FLUSH_US, Event::EngineFlushed { node, epoch });
        }
    }

    /// The engine has flushed what the database had lacked.
    pub(crate) fn engine_flushed(&mut self, id: MemberId) {
        if let Some(recorder) = &mut self.process(id).recorder {
            let mut record = recorder.record.clone();
            recorder.lack.flushed(&mut record);
            self.keep_record(id, record);
        }
    }

    // --- the steps of a failure -------------------------------------------------------------

    /// How far this member has got with an action that has failed.
    pub(crate) fn failure_step_of(&self, id: MemberId) -> Option<FailureStep> {
        let process = self.node(id).process.as_ref()?;
        Some(process.failed.as_ref()?.step)
    }

    fn go_on_with_failure(&mut self, id: MemberId) {
        let after_us = match self.failure_step_of(id) {
            Some(FailureStep::Answered) => SEARCH_US,
            _ => self.draw(STEP_US),
        };
        let (node, epoch) = (id, self.node(id).epoch);
        self.schedule(after_us, Event::FailureStep { node, epoch });
    }

    /// The next step of a member with an action that has failed.
    pub(crate) fn next_failure_step(&mut self, id: MemberId) {
        let Some(failed) = &self.process(id).failed else {
            return;
        };
        let (seqno, error) = (failed.seqno, failed.error);
        let next = match failed.step {
            FailureStep::RolledBack => {
                if self.awaits_flush(id) {
                    return self.go_on_with_failure(id);
                }
                if !self.note_failure(id, seqno, error) {
                    return;
                }
                FailureStep::Noted
            }
            FailureStep::Noted => {
                let now_us = self.now_us;
                self.node_mut(id).database.move_engine(now_us, seqno);
                FailureStep::EngineMoved
            }
            FailureStep::EngineMoved => FailureStep::Answered,
            FailureStep::Answered => return self.search_decision(id),
            FailureStep::Decided => {
                if !self.pass_over(id) {
                    return;
                }
                FailureStep::Leaving
            }
            FailureStep::Leaving => return,
        };
        if let Some(failed) = &mut self.process(id).failed {
            failed.step = next;
        }
        match next {
            FailureStep::Answered => {
                if !self.note_given_up(id) {
                    return;
                }
                let outcome = outcome_of(error);
                self.feed(id, Input::ActionFailed { seqno, outcome });
            }
            FailureStep::Leaving => return self.leave_as_failed(id),
            _ => {}
        }
        if self.is_up(id) {
            self.go_on_with_failure(id);
        }
    }

    fn awaits_flush(&mut self, id: MemberId) -> bool {
        let recorder = self.process(id).recorder.as_ref();
        recorder.is_some_and(|recorder| recorder.lack.awaits_flush())
    }

    /// Notes that the database is about to be before its engine's position; false if the process
    /// has ended.
    fn note_failure(&mut self, id: MemberId, seqno: Seqno, error: u32) -> bool {
        let Some(recorder) = &mut self.process(id).recorder else {
            return true;
        };
        let mut record = recorder.record.clone();
        let lack = &mut recorder.lack;
        let failures = lack.falls_behind(&mut record, seqno.prev(), seqno, error);
        if let Some(failed) = &mut self.process(id).failed {
            failed.failures = failures;
        }
        self.keep_record(id, record)
    }

    /// Actions that other appliers have executed are not let into the order, and the engine's
    /// position moves over them; false if the process has ended.
    fn pass_over(&mut self, id: MemberId) -> bool {
        let process = self.process(id);
        let (Some(failed), Some(recorder)) = (&process.failed, &mut process.recorder) else {
            return true;
        };
        let last = Seqno(failed.seqno.0 + APPLIERS - 1).min(process.shared.commit_seqno());
        if last <= failed.seqno {
            return true;
        }
        let mut record = recorder.record.clone();
        let at = failed.seqno.prev();
        recorder.lack.falls_behind(&mut record, at, last, 0);
        if !self.keep_record(id, record) {
            return false;
        }
        self.coverage.count("passed over");
        let now_us = self.now_us;
        self.node_mut(id).database.move_engine(now_us, last);
        true
    }

    /// Notes that nothing of the action is in the database; false if the process has ended.
    fn note_given_up(&mut self, id: MemberId) -> bool {
        let Some(recorder) = &self.process(id).recorder else {
            return true;
        };
        let mut record = recorder.record.clone();
        recorder.lack.gives_up(&mut record);
        self.keep_record(id, record)
    }

    /// Looks for the decision in the log, where it may have been before this process.
    fn search_decision(&mut self, id: MemberId) {
        let process = self.process(id);
        let end = process.shared.readable();
        let Some(failed) = &mut process.failed else {
            return;
        };
        match failed.search.read_on(&process.reader, end) {
            Ok(Some(decision)) => self.outcome_decided(id, &decision),
            // Until the driver reports it.
            Ok(None) | Err(_) => self.go_on_with_failure(id),
        }
    }

    /// A decision is committed.
    pub(crate) fn outcome_decided(&mut self, id: MemberId, decision: &OutcomeDecision) {
        let Some(failed) = &mut self.process(id).failed else {
            return;
        };
        if failed.seqno != decision.seqno || failed.step != FailureStep::Answered {
            return;
        }
        failed.winner = Some(decision.outcome);
        failed.step = FailureStep::Decided;
        let checked = same_data::failure_is_outvoted(id, decision);
        self.judge(checked);
        self.go_on_with_failure(id);
    }

    /// Others have applied what has failed here: the member leaves, and comes back.
    fn leave_as_failed(&mut self, id: MemberId) {
        let Some(failed) = &self.process(id).failed else {
            return;
        };
        if shows_other_data(failed.failures, failed.error == FULL) {
            self.coverage.count("marked as other data");
            if let Some(recorder) = &self.process(id).recorder {
                let mut record = recorder.record.clone();
                record.unusable = Some("its data differ".to_owned());
                if !self.keep_record(id, record) {
                    return;
                }
            }
            self.feed(id, Input::DataState(DataState::Error));
        }
        if self.is_up(id) {
            self.process(id).is_leaving = true;
            let done = self.process(id).effects.left();
            self.feed(id, Input::Leave(done));
        }
    }
}

/// Whether the table that this action writes to has a primary key.
fn has_primary_key(seqno: Seqno) -> bool {
    seqno.0 % 2 == 0
}

fn outcome_of(error: u32) -> ApplyOutcome {
    ApplyOutcome::of_error(format!("Error_code: {error}").as_bytes())
}
