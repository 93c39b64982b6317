//! Notes that the database lacks an action, before its engine claims to have it: see
//! `position/recorded.rs`.

use std::time::{Duration, Instant};

use crate::api::LogLevel;
use crate::apply::sequencer::Entered;
use crate::boundary;
use crate::connection::{Connection, State};

/// Steps in which the period of the engine's flushes is waited for.
const STEPS: u32 = 8;
/// Least period that is taken for true: an engine that always flushes needs time for that, too.
const FLUSH_PERIOD_MIN: Duration = Duration::from_millis(100);

impl Connection {
    /// An action is about to be applied. Costs nothing unless the database lacks one.
    pub(crate) fn note_beginning(&self, seqno: i64) {
        let position = &self.shared.position;
        if position.was_lacking(seqno) {
            position.begins(seqno);
        }
    }

    /// An action is about to leave the calling applier's hands for the order; `entered`: whether it
    /// has got in. If it has failed, its changes are rolled back already, and the server is about
    /// to move its engine's position over it: this is noted first.
    pub(crate) fn note_failing(&self, seqno: i64, entered: Entered) {
        let error = boundary::statement_error().unwrap_or_default();
        match entered {
            Entered::Yes if error == 0 => {}
            Entered::Yes => {
                self.note_failure(seqno, error);
            }
            // Also without an error: fragments that are rolled back have none.
            Entered::Interrupted | Entered::Stopped => self.note_passed_over(seqno),
        }
    }

    /// The action has failed here, in its turn. Durable when it returns; answers how often the
    /// action has failed here.
    pub(crate) fn note_failure(&self, seqno: i64, error: u32) -> u32 {
        self.let_database_heal();
        let position = &self.shared.position;
        position.falls_behind(self.group(), seqno - 1, seqno, error)
    }

    /// The action was not let into the order, and the server moves its engine's position over it
    /// nevertheless.
    pub(crate) fn note_passed_over(&self, seqno: i64) {
        let left = self.sequencer.left();
        if seqno > left {
            let position = &self.shared.position;
            position.falls_behind(self.group(), left, seqno, 0);
        }
    }

    /// An action was applied, or has failed as it should. Costs nothing unless the database lacked
    /// one.
    pub(crate) fn note_ended(&self, seqno: i64, failed_alike: bool) {
        let position = &self.shared.position;
        if position.was_lacking(seqno) && position.heals(seqno, failed_alike) {
            self.log(
                LogLevel::Info,
                format!("the database has action {seqno}, which it lacked"),
            );
            self.forget_once_flushed();
        }
    }

    fn forget_once_flushed(&self) {
        let Some(connection) = self.itself() else {
            return;
        };
        let forget = move || {
            let is_closing = |_: &mut State| connection.is_closing().then_some(());
            connection.let_engine_flush(is_closing);
        };
        match boundary::spawn("synod-healed", forget) {
            Ok(thread) => self.keep_healing(thread),
            // It stays until the next orderly stop.
            Err(error) => self.log(
                LogLevel::Warn,
                format!("cannot start thread synod-healed: {error}"),
            ),
        }
    }

    /// Waits until the engine must have flushed what was applied again, or until the end. A step
    /// in which this process stood still counts once only: its engine stood still, too.
    fn let_engine_flush(&self, is_over: impl Fn(&mut State) -> Option<()>) {
        let position = &self.shared.position;
        let period = self.shared.restart.flush_period().max(FLUSH_PERIOD_MIN);
        let step = period / STEPS;
        while position.awaits_flush() {
            if self
                .wait_for(Some(Instant::now() + step), &is_over)
                .is_some()
            {
                return;
            }
            position.count_run(step, period);
        }
    }

    /// The record has room for one action: what is in the database by now is on its disk first.
    fn let_database_heal(&self) {
        self.let_engine_flush(|_| None);
    }
}
