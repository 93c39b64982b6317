//! The rules about an action that the database lacks although its engine may say that it has it:
//! when the record says so, what a start makes of it, and when it is forgotten.
//!
//! Here are no files and no clocks: who follows the rules has a changed record made durable before
//! anything depends on it, and knows when the engine has flushed.
//!
//! ```text
//!  action N fails ─► record: behind at N-1 ─► engine's position: N ─► vote ─┬─► it failed alike:
//!                                              │ killed                     │   forgotten
//!                                              ▼                            └─► others succeeded:
//!                        next start: from N-1  ◄───────────────────────────── leave, restart
//!                                     │
//!        record: N is applied again ◄─┘─► N is applied ─► the engine has flushed: forgotten
//! ```
//! Between the last two the engine says N with the action and without it. A start that finds the
//! record then takes a full copy: applied once more, N could be in the database twice.

use synod_consensus::Seqno;
use synod_planted::planted;

use crate::database_record::{Behind, DatabaseRecord, SETTLED_MAX};

#[derive(Debug, Default)]
pub struct DatabaseLack {
    counted: Option<Seqno>,
    /// Before that failure nothing was lacking: no position in the engine is wrong yet.
    is_fresh: bool,
    /// Applied after all; the engine may not have flushed it.
    has_healed: bool,
    /// Something was applied again, and the engine may not have flushed it.
    awaits_flush: bool,
    /// The order has ended, and the engine's position goes beyond it.
    is_over: bool,
}

impl DatabaseLack {
    /// The engine's position is about to move to `engine_says`, or has done so, although the
    /// database is at `at`. `error`: the action after it has failed with it; zero: it was not let
    /// in. Answers how often the action has failed here.
    pub fn falls_behind(
        &mut self,
        record: &mut DatabaseRecord,
        at: Seqno,
        engine_says: Seqno,
        error: u32,
    ) -> u32 {
        let known = record.behind;
        let mut behind = known.unwrap_or(Behind {
            at,
            engine_says,
            error,
            failures: 0,
            applied_again_after: None,
        });
        if behind.at != at && self.has_healed {
            // The older one is in the database by now.
            behind.at = at;
            (behind.error, behind.failures) = (error, 0);
        } else {
            behind.at = behind.at.min(at);
        }
        behind.engine_says = behind.engine_says.max(engine_says);
        let lacking = Some(after(at));
        let is_new = self.counted != lacking;
        if error != 0 && (is_new || behind.failures == 0) {
            behind.error = error;
            behind.failures += 1;
        }
        if is_new && error != 0 {
            *self = DatabaseLack {
                counted: lacking,
                is_fresh: known.is_none(),
                awaits_flush: self.awaits_flush,
                ..DatabaseLack::default()
            };
        }
        self.has_healed = false;
        self.is_over |= error == 0;
        record.behind = Some(behind);
        // How it has ended is known by that.
        record.executing.take_if(|statement| statement.seqno > at);
        behind.failures
    }

    /// The database may lack an action that is about to be applied, while its engine may say that
    /// it has it: a later start cannot tell whether it was.
    pub fn begins(&self, record: &mut DatabaseRecord, seqno: Seqno) {
        let is_first_try = self.counted.is_none() && !self.is_over;
        if let Some(behind) = record.behind.as_mut().filter(|_| is_first_try)
            && behind.at < seqno
        {
            let after = behind.applied_again_after.unwrap_or(behind.at);
            behind.applied_again_after = Some(after);
        }
    }

    pub fn gives_up(&self, record: &mut DatabaseRecord) {
        if let Some(behind) = record.behind.as_mut().filter(|_| !self.awaits_flush) {
            behind.applied_again_after = None;
        }
    }

    /// An action was applied, or has failed as it should: the database has one more of those that
    /// it lacked, or all. True if the record waits for the engine's flush of it.
    pub fn ended(
        &mut self,
        record: &mut DatabaseRecord,
        seqno: Seqno,
        has_failed_alike: bool,
    ) -> bool {
        let Some(behind) = record.behind.filter(|behind| behind.at < seqno) else {
            return false;
        };
        if self.has_healed {
            return false;
        }
        if self.is_over {
            // What was inside the order may finish; what follows it does not get in.
            record.behind = Some(Behind {
                at: seqno,
                ..behind
            });
            return false;
        }
        if seqno < behind.engine_says {
            // The engine may say that it has what follows, too: its position need not go back with
            // an action that is applied again.
            advance(record, seqno);
            self.awaits_flush = true;
            return true;
        }
        let is_true_now = match has_failed_alike {
            // The engine's position is what it should be.
            true => true,
            // The engine's position moved with the action itself.
            false => planted!(ForgetUnflushed, self.is_fresh, else true),
        };
        if is_true_now && !self.awaits_flush {
            self.forget(record);
            return false;
        }
        self.awaits_flush = true;
        self.has_healed = true;
        true
    }

    /// Whether the database has what it lacked, and the engine may not have flushed that.
    #[must_use]
    pub fn has_healed(&self) -> bool {
        self.has_healed
    }

    /// Whether something was applied again that the engine may not have flushed. The record has
    /// room for one action: a later one that fails is noted after that.
    #[must_use]
    pub fn awaits_flush(&self) -> bool {
        self.awaits_flush
    }

    /// The engine has flushed all that was applied. If the database has what it lacked, the record
    /// need not say more.
    pub fn flushed(&mut self, record: &mut DatabaseRecord) {
        if self.has_healed {
            self.forget(record);
        } else if std::mem::take(&mut self.awaits_flush) {
            self.gives_up(record);
            // The next one may be in the midst of it.
            let next = record.first_lacking();
            next.into_iter()
                .for_each(|seqno| self.begins(record, seqno));
        }
    }

    /// The engine has flushed all that was applied, and no action is being applied.
    pub fn closed(&mut self, record: &mut DatabaseRecord) {
        self.flushed(record);
        self.gives_up(record);
    }

    fn forget(&mut self, record: &mut DatabaseRecord) {
        *self = DatabaseLack::default();
        record.settle();
    }
}

/// Whether an action that has failed here so often, and not on the other servers, shows that the
/// data differ. The first failure does not: the database is a prefix of the others'. A lack of
/// disk, memory or the like never does.
#[must_use]
pub fn shows_other_data(failures: u32, is_lack_of_resources: bool) -> bool {
    failures > 1 && !is_lack_of_resources
}

impl DatabaseRecord {
    /// The first action that the database lacks, although its engine may not know.
    #[must_use]
    pub fn first_lacking(&self) -> Option<Seqno> {
        self.behind.map(|behind| after(behind.at))
    }

    /// Why the database is not where its engine says, which is `engine`: it is at [`Behind::at`].
    #[must_use]
    pub fn correction(&self, engine: Seqno) -> Option<Behind> {
        // Higher than the record knows: it continued since by what it has applied, or it is a copy.
        let is_wrong = |behind: &Behind| engine > behind.at && engine <= behind.engine_says;
        let correction = self.behind.filter(is_wrong);
        planted!(BelieveEngine, correction, else None)
    }

    /// Whether an engine that says `engine` may have the actions that were applied again, or not:
    /// only a full copy helps.
    #[must_use]
    pub fn is_in_doubt(&self, engine: Seqno) -> bool {
        let is_in_doubt = self.behind.is_some_and(|behind| {
            let after = behind.applied_again_after.unwrap_or(Seqno(i64::MAX));
            engine > after && engine <= behind.engine_says
        });
        planted!(ApplyTwice, is_in_doubt, else false)
    }

    /// Leaves out the statement that was being executed, unless its end is unknown: an
    /// engine that says `engine` may have moved its position over it because it failed, or because
    /// it was executed. `boot`: the present run of the operating system.
    pub fn forget_known_end(&mut self, engine: Seqno, boot: Option<u32>) {
        self.executing
            .take_if(|statement| statement.seqno != engine || Some(statement.boot) != boot);
    }

    /// Leaves out that the database is behind, if its engine is beyond every position that may be
    /// wrong: what was lacking has been applied since. A later failure must not lead back to before
    /// it.
    pub fn forget_outlived(&mut self, engine: Seqno) {
        if self
            .behind
            .is_some_and(|behind| engine > behind.engine_says)
        {
            self.settle();
        }
    }

    /// Leaves out the wrong positions, if the engine, which was asked, has lost them: it is not
    /// beyond the database. Failures stay counted.
    pub fn forget_lost(&mut self, engine: Seqno) {
        // Beyond that, what was applied again may be lost, and the position be a wrong one.
        let sure = |behind: &Behind| behind.applied_again_after.unwrap_or(behind.at);
        let Some(behind) = self.behind.as_mut().filter(|b| engine <= sure(b)) else {
            return;
        };
        behind.engine_says = behind.at;
        behind.applied_again_after = None;
        if behind.failures == 0 {
            self.behind = None;
        }
    }

    fn settle(&mut self) {
        let Some(behind) = self.behind.take().filter(|behind| behind.failures > 0) else {
            return;
        };
        let seqno = after(behind.at);
        self.settled.retain(|known| *known != seqno);
        self.settled.push(seqno);
        self.settled.sort_unstable();
        let surplus = self.settled.len().saturating_sub(SETTLED_MAX);
        self.settled.drain(..surplus);
    }
}

/// The database has the first action that it lacked. The next one has not failed.
fn advance(record: &mut DatabaseRecord, to: Seqno) {
    let behind = record.behind;
    record.settle();
    record.behind = behind.map(|behind| Behind {
        at: to,
        error: 0,
        failures: 0,
        ..behind
    });
}

/// The action after this one, also where a damaged number is the last there is.
fn after(seqno: Seqno) -> Seqno {
    Seqno(seqno.0.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database_record::ExecutingStatement;

    const ERROR: u32 = 1114;

    fn fails(lack: &mut DatabaseLack, record: &mut DatabaseRecord, seqno: i64) -> u32 {
        lack.falls_behind(record, Seqno(seqno - 1), Seqno(seqno), ERROR)
    }

    fn correction(record: &DatabaseRecord, engine: i64) -> Option<i64> {
        record.correction(Seqno(engine)).map(|behind| behind.at.0)
    }

    #[test]
    fn engine_is_believed_outside_the_positions_that_may_be_wrong() {
        let mut record = DatabaseRecord::default();
        assert_eq!(correction(&record, 42), None);
        fails(&mut DatabaseLack::default(), &mut record, 42);
        assert_eq!(correction(&record, 42), Some(41));
        assert_eq!(correction(&record, 41), None, "the move was not flushed");
        assert_eq!(correction(&record, 43), None);
        record.forget_outlived(Seqno(42));
        assert_eq!(record.first_lacking(), Some(Seqno(42)));
        record.forget_outlived(Seqno(43));
        assert_eq!(record.first_lacking(), None);
        assert_eq!(record.settled, [Seqno(42)]);
    }

    #[test]
    fn second_failure_may_come_before_the_first_lack_is_forgotten() {
        let (mut record, mut lack) = (DatabaseRecord::default(), DatabaseLack::default());
        fails(&mut lack, &mut record, 42);
        let mut lack = DatabaseLack::default();
        assert!(lack.ended(&mut record, Seqno(42), false) && lack.has_healed());
        assert_eq!(fails(&mut lack, &mut record, 44), 1, "another action");
        assert!(!lack.has_healed());
        assert_eq!(correction(&record, 44), Some(43), "42 and 43 are there");
    }

    #[test]
    fn latest_actions_that_have_ended_as_elsewhere_are_known() {
        let mut record = DatabaseRecord::default();
        for seqno in (42..80).chain([79]) {
            let mut lack = DatabaseLack::default();
            fails(&mut lack, &mut record, seqno);
            assert!(!lack.ended(&mut record, Seqno(seqno), true));
        }
        let known: Vec<Seqno> = (48..80).map(Seqno).collect();
        assert_eq!(record.settled, known);
    }

    #[test]
    fn engine_is_not_believed_about_what_follows_an_action_that_was_applied_again() {
        let mut record = DatabaseRecord::default();
        let mut lack = DatabaseLack::default();
        fails(&mut lack, &mut record, 42);
        // Its neighbours wait for their turns, and are not let in.
        lack.falls_behind(&mut record, Seqno(41), Seqno(45), 0);
        let mut lack = DatabaseLack::default();
        lack.begins(&mut record, Seqno(42));
        assert!(lack.ended(&mut record, Seqno(42), false));
        lack.flushed(&mut record);
        assert_eq!(correction(&record, 45), Some(42));
        assert_eq!(record.settled, [Seqno(42)]);
        assert!(
            record.is_in_doubt(Seqno(45)),
            "43 may be in the midst of it"
        );
        for seqno in 43..=45 {
            lack.begins(&mut record, Seqno(seqno));
            assert!(record.is_in_doubt(Seqno(45)));
            assert!(lack.ended(&mut record, Seqno(seqno), false));
        }
        assert!(!lack.ended(&mut record, Seqno(46), false), "it waits");
        lack.flushed(&mut record);
        assert_eq!((record.behind, record.settled), (None, vec![Seqno(42)]));
    }

    #[test]
    fn action_after_one_that_was_applied_again_has_failures_of_its_own() {
        let mut record = DatabaseRecord::default();
        let mut lack = DatabaseLack::default();
        fails(&mut lack, &mut record, 42);
        lack.falls_behind(&mut record, Seqno(41), Seqno(45), 0);
        let mut lack = DatabaseLack::default();
        lack.begins(&mut record, Seqno(42));
        assert!(lack.ended(&mut record, Seqno(42), false));
        assert_eq!(fails(&mut lack, &mut record, 43), 1);
        assert!(record.is_in_doubt(Seqno(45)), "42 may not be flushed");
        lack.flushed(&mut record);
        assert_eq!(correction(&record, 45), Some(42));
    }

    #[test]
    fn wrong_position_that_the_engine_has_lost_is_no_reason_for_a_copy() {
        let mut record = DatabaseRecord::default();
        let mut lack = DatabaseLack::default();
        lack.falls_behind(&mut record, Seqno(41), Seqno(45), 0);
        record.forget_lost(Seqno(42));
        assert_eq!(correction(&record, 42), Some(41));
        record.forget_lost(Seqno(41));
        assert_eq!(record, DatabaseRecord::default());
        fails(&mut lack, &mut record, 42);
        record.forget_lost(Seqno(40));
        let mut lack = DatabaseLack::default();
        lack.begins(&mut record, Seqno(42));
        assert!(!record.is_in_doubt(Seqno(42)));
        assert_eq!(fails(&mut lack, &mut record, 42), 2);
    }

    #[test]
    fn wrong_position_may_be_that_of_an_action_that_was_applied_again() {
        let mut record = DatabaseRecord::default();
        let mut lack = DatabaseLack::default();
        fails(&mut lack, &mut record, 42);
        lack.falls_behind(&mut record, Seqno(41), Seqno(45), 0);
        let mut lack = DatabaseLack::default();
        lack.begins(&mut record, Seqno(42));
        lack.ended(&mut record, Seqno(42), false);
        // What was applied again is lost, and so are the positions after the failed one.
        record.forget_lost(Seqno(42));
        assert!(record.is_in_doubt(Seqno(42)));
        record.forget_lost(Seqno(41));
        assert!(!record.is_in_doubt(Seqno(41)));
    }

    #[test]
    fn end_of_a_statement_is_unknown_after_a_kill_between_its_position_and_its_note() {
        let statement = ExecutingStatement {
            seqno: Seqno(42),
            boot: 7,
        };
        let executing = || DatabaseRecord {
            executing: Some(statement),
            ..DatabaseRecord::default()
        };
        let (same, other) = (Some(7), Some(8));
        let is_unknown = |mut record: DatabaseRecord, engine, boot| {
            record.forget_known_end(Seqno(engine), boot);
            record.executing.is_some()
        };
        assert!(is_unknown(executing(), 42, same));
        assert!(!is_unknown(executing(), 41, same), "it is applied again");
        assert!(!is_unknown(executing(), 43, same), "it has left the order");
        assert!(!is_unknown(executing(), 42, other));
        assert!(!is_unknown(executing(), 42, None));
        let mut record = executing();
        fails(&mut DatabaseLack::default(), &mut record, 42);
        assert!(!is_unknown(record, 42, same), "it has failed");
    }

    #[test]
    fn want_of_something_never_shows_other_data() {
        assert!(!shows_other_data(1, false));
        assert!(shows_other_data(2, false));
        assert!(!shows_other_data(9, true));
    }
}
