//! The end of what the database lacks: the record of it is kept until the engine has flushed.

use std::time::{Duration, Instant};

use crate::api::LogLevel;
use crate::connection::session::{Session, State};

/// Steps in which the period of the engine's flushes is waited for.
const STEPS: u32 = 8;
/// Least period that is taken for true: an engine that always flushes needs time for that, too.
const FLUSH_PERIOD_MIN: Duration = Duration::from_millis(100);

/// An action was applied, or has failed as it should. Costs nothing unless one was lacking.
pub(crate) fn note_ended(session: &Session, seqno: i64, failed_alike: bool) {
    let position = &session.server.position;
    if position.was_lacking(seqno) && position.heals(seqno, failed_alike) {
        session.log(
            LogLevel::Info,
            format!("the database has action {seqno}, which it lacked"),
        );
        forget_once_flushed(session);
    }
}

fn forget_once_flushed(session: &Session) {
    let forget = |session: &Session| {
        let_engine_flush(session, |_| session.is_closing().then_some(()));
    };
    if let Err(error) = session.start_thread("synod-healed", forget) {
        // The record stays until the next orderly stop.
        session.log(LogLevel::Warn, error);
    }
}

/// Waits until the engine must have flushed what was applied again, or until the end. A step
/// in which this process stood still counts once only: its engine stood still, too.
fn let_engine_flush(session: &Session, is_over: impl Fn(&mut State) -> Option<()>) {
    let position = &session.server.position;
    let period = session.server.restart.flush_period().max(FLUSH_PERIOD_MIN);
    let step = period / STEPS;
    while position.awaits_flush() {
        if session
            .wait_for(Some(Instant::now() + step), &is_over)
            .is_some()
        {
            return;
        }
        position.count_run(step, period);
    }
}

/// The record has room for one action: what is in the database by now is on its disk first.
pub(super) fn let_database_heal(session: &Session) {
    let_engine_flush(session, |_| None);
}
