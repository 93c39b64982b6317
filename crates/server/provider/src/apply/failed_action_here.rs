//! Failed actions: the group decides which outcome wins, and a server with another outcome leaves.
//! A server on which the action failed has a database that is a prefix of the others', which is on
//! record by then (`position/recorded.rs`): it comes back and applies the action again. If it has
//! done what others could not, or fails again for another reason than want of something, its data
//! differ.
//!
//! A server with an error waits in the order until it knows the decision (`commit_order_leave`,
//! `to_execute_end`). A server without one never waits, and may learn later that the error wins. So
//! each decision is compared with the outcome here when the later of the two is known.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_binlog::write_set::WsFlags;
use synod_node::{
    ApplyOutcome, DecisionSearch, MemberId, OutcomeDecision, Remedy, Seqno, shows_other_data,
};

use super::recorded_lack::{let_database_heal, note_ended};
use super::{error_kinds, table_from_rows};
use crate::api::LogLevel;
use crate::apply::sequencer::Entered;
use crate::boundary;
use crate::connection::departure::Data;
use crate::connection::session::Session;

/// Most errors and decisions that are remembered. They matter until the decision was delivered and
/// its action has ended here.
const PAST_MAX: usize = 1024;

/// Stands for an error without a number: `ER_UNKNOWN_ERROR`.
const UNKNOWN_ERROR: u32 = 1105;

/// Time between two searches of the log for a decision.
const SEARCH_PAUSE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Outcomes {
    /// The first decision about each action.
    decided: BTreeMap<i64, ApplyOutcome>,
    /// Actions that failed here, as they should.
    failed: BTreeMap<i64, ApplyOutcome>,
    /// Actions up to this seqno were applied before this connection.
    begun_at: i64,
    /// The database is a full copy that was taken in this connection.
    is_copy: bool,
    /// The member that gave the copy, if it has said so.
    donor: Option<MemberId>,
}

impl Outcomes {
    /// The database is at `position` when the connection begins.
    pub(crate) fn begin_at(&mut self, position: i64) {
        self.begun_at = position;
    }

    /// The database is a full copy at `position`.
    pub(crate) fn begin_with_copy(&mut self, position: i64, donor: Option<MemberId>) {
        self.begin_at(position);
        self.is_copy = true;
        self.donor = donor;
    }

    fn note(&mut self, decision: &OutcomeDecision) {
        let winner = self.decided.entry(decision.seqno.0);
        winner.or_insert(decision.outcome);
        while self.decided.len() > PAST_MAX {
            self.decided.pop_first();
        }
    }

    fn fail(&mut self, seqno: i64, outcome: ApplyOutcome) {
        self.failed.insert(seqno, outcome);
        while self.failed.len() > PAST_MAX {
            self.failed.pop_first();
        }
    }

    /// The outcome that won, if the decision is known.
    fn winner(&self, seqno: i64) -> Option<ApplyOutcome> {
        self.decided.get(&seqno).copied()
    }

    /// Outcome of an action in this connection.
    fn outcome(&self, seqno: i64) -> ApplyOutcome {
        let failed = self.failed.get(&seqno).copied();
        failed.unwrap_or(ApplyOutcome::SUCCESS)
    }

    /// Compares the decision about an action that has ended here, if there is one, with its
    /// outcome: what winner instead.
    fn compare(&self, seqno: i64) -> Option<ApplyOutcome> {
        let winner = *self.decided.get(&seqno)?;
        (winner != self.outcome(seqno)).then_some(winner)
    }

    /// The first action of this connection, up to `left`, that should have ended another way: and
    /// which.
    fn first_loser(&self, left: i64) -> Option<(i64, ApplyOutcome)> {
        let ended = self.decided.range(..=left);
        let mut ended = ended
            .map(|(seqno, _)| *seqno)
            .filter(|seqno| *seqno > self.begun_at);
        ended.find_map(|seqno| Some((seqno, self.compare(seqno)?)))
    }
}

/// Compares how actions end here with what the group decides.
pub(crate) struct Votes {
    /// Up to which seqno outcomes were decided. Read without a lock by each action that leaves the
    /// order.
    last_decided: AtomicI64,
    /// The first action given to the server by an applier of this connection that moves the
    /// engine's position; `i64::MAX`: none. Between it and that position may be what does not:
    /// views, notes, and tables made from rows.
    first_mover: AtomicI64,
}

impl Default for Votes {
    fn default() -> Votes {
        Votes {
            last_decided: AtomicI64::new(-1),
            first_mover: AtomicI64::new(i64::MAX),
        }
    }
}

pub(crate) struct Failure<'a> {
    pub(crate) text: &'a [u8],
    /// The part of the text that is the same on all servers.
    pub(crate) compared: Cow<'a, [u8]>,
    pub(crate) is_statement: bool,
}

/// Relation of a failure to the other servers' outcomes.
pub(crate) enum Verdict {
    Alike,
    Outvoted {
        winner: ApplyOutcome,
        failures: u32,
    },
    /// The group's decision cannot be known, for this reason.
    Unknown(&'static str),
    /// The order has ended before the action's turn, and the group is not asked about it.
    PassedOver,
}

impl Votes {
    /// Events of this action for the server: an applier is about to give them to it. A table that
    /// may have been made from rows before a kill is made again.
    pub(crate) fn given(
        &self,
        session: &Session,
        seqno: i64,
        flags: WsFlags,
        events: Bytes,
    ) -> Bytes {
        // Later ones cost a load.
        if seqno >= self.first_mover.load(Ordering::Relaxed) {
            return events;
        }
        if !table_from_rows::is_made(flags, &events) {
            self.first_mover.fetch_min(seqno, Ordering::SeqCst);
            return events;
        }
        match session.state().outcomes.is_copy {
            true => events,
            false => table_from_rows::replacing(flags, &events).unwrap_or(events),
        }
    }

    /// An action has failed here, within the order. Waits for the group's decision; whether the
    /// database is now as the others'. If it is not, this server leaves.
    pub(crate) fn confirm_failure(
        &self,
        session: &Session,
        seqno: i64,
        failure: &Failure<'_>,
    ) -> bool {
        let text = error_text(failure.text);
        // Now: what comes next may change it.
        let error = boundary::statement_error_text().unwrap_or_else(|| text.clone());
        match self.judge_failure(session, seqno, &failure.compared) {
            Verdict::Alike => return true,
            Verdict::PassedOver => return false,
            Verdict::Outvoted { winner, failures } => {
                let is_first = failures <= 1 && winner.is_success();
                if is_first && self.was_executed_before(session, seqno, failure) {
                    let line = format!(
                        "statement {seqno} fails here ({text}), because it was executed before \
                         this server was killed or lost power: its effect is there"
                    );
                    session.log(LogLevel::Warn, line);
                    return true;
                }
                leave_as_failed(
                    session,
                    seqno,
                    failures,
                    &format!("{text}, {winner} wins"),
                    &error,
                );
            }
            Verdict::Unknown(why) => self.leave_undecided(session, seqno, failure.text, why),
        }
        session.sequencer.abort();
        false
    }

    /// Whether this is the statement in which the server was killed. The server makes a statement
    /// durable before it moves its engine's position, so it may execute the first one after that
    /// position for the second time. No later one: each flushes what came before.
    fn was_executed_before(&self, session: &Session, seqno: i64, failure: &Failure<'_>) -> bool {
        failure.is_statement
            && self.first_mover.load(Ordering::SeqCst) == seqno
            && !session.state().outcomes.is_copy
            && !session.server.position.was_stopped_in_order()
            && error_kinds::says_that_it_is_done(&error_text(&failure.compared))
    }

    /// An action has failed here, within the order. Notes it, and waits for the group's decision.
    /// `compared` is what of the server's text is the same on all servers.
    pub(crate) fn judge_failure(&self, session: &Session, seqno: i64, compared: &[u8]) -> Verdict {
        if session.sequencer.is_aborted_before(seqno) {
            note_passed_over(session, seqno);
            return Verdict::PassedOver;
        }
        let own = ApplyOutcome::of_error(compared);
        let number = match error_kinds::number(&error_text(compared)) {
            0 => UNKNOWN_ERROR,
            number => number,
        };
        // Before anybody hears of it.
        let failures = note_failure(session, seqno, number);
        session.server.position.gives_up();
        match wait_for_decision(session, seqno, own) {
            Ok(winner) if winner == own => {
                session.update(|state| state.outcomes.fail(seqno, own));
                let text = error_text(compared);
                let line = format!("action {seqno} failed as it did on other servers: {text}");
                session.log(LogLevel::Info, line);
                Verdict::Alike
            }
            Ok(winner) => Verdict::Outvoted { winner, failures },
            Err(why) => Verdict::Unknown(why),
        }
    }

    /// An action has failed here, and what the group decides cannot be known. The next start
    /// applies it again.
    pub(crate) fn leave_undecided(&self, session: &Session, seqno: i64, error: &[u8], why: &str) {
        let text = error_text(error);
        let why = format!("action {seqno} failed to apply: {text}, {why}");
        if session.is_leaving_by_request() {
            session.log(
                LogLevel::Info,
                format!("{why}. The next start applies it again"),
            );
        } else {
            session.leave(&why, Data::Good, Remedy::Restart);
        }
    }

    /// The server did not apply an action, and has not asked the group about it.
    pub(crate) fn leave_as_unapplied(&self, session: &Session, seqno: i64, why: &str) {
        let number = boundary::statement_error().filter(|number| *number != 0);
        let number = number.unwrap_or(UNKNOWN_ERROR);
        let failures = note_failure(session, seqno, number);
        session.server.position.gives_up();
        // Otherwise the group was asked about it, or was to be: the server passes the answer on.
        if !session.is_closing() {
            let error = boundary::statement_error_text();
            let error = error.unwrap_or_else(|| format!("Error_code: {number}"));
            leave_as_failed(session, seqno, failures, &format!("{why}, {error}"), &error);
        }
        session.sequencer.abort();
    }

    pub(crate) fn note_decision(&self, session: &Session, decision: &OutcomeDecision) {
        session.update(|state| state.outcomes.note(decision));
        let seqno = decision.seqno.0;
        self.last_decided.fetch_max(seqno, Ordering::SeqCst);
    }

    /// A decision in its place in the log: nothing that comes after it was delivered yet. If its
    /// action has ended here, it is compared now, otherwise by [`Votes::check_outcome`].
    pub(crate) fn compare_decision(&self, session: &Session, decision: &OutcomeDecision) {
        let seqno = decision.seqno.0;
        if session.state().outcomes.begun_at >= seqno {
            return compare_earlier(session, decision);
        }
        self.note_decision(session, decision);
        if session.sequencer.left() >= seqno {
            compare(session, seqno);
        }
    }

    /// Some decisions may have been purged from the log before they came to their places. Those
    /// that were reported to this connection are compared now, if their actions have ended here.
    pub(crate) fn compare_all_decisions(&self, session: &Session) {
        // Before the state is locked: the order's lock is never taken under it.
        let left = session.sequencer.left();
        let loser = session.state().outcomes.first_loser(left);
        if let Some((seqno, winner)) = loser {
            leave_as_loser(session, seqno, winner);
        }
    }

    /// Lets the next seqno have its turn. False if this one was never let in: the database must not
    /// be taken for having it.
    pub(crate) fn leave_order(&self, session: &Session, seqno: i64) -> bool {
        // First: the next one may move the engine's position.
        session.server.position.executed(seqno);
        let has_left = session.sequencer.leave(seqno);
        match has_left {
            true => {
                self.check_outcome(session, seqno);
                note_ended(session, seqno, has_failed_alike(session, seqno));
            }
            false => note_passed_over(session, seqno),
        }
        has_left
    }

    /// An action has left the order. Costs nothing unless something was decided that this server
    /// has not come to yet.
    pub(crate) fn check_outcome(&self, session: &Session, seqno: i64) {
        if seqno <= self.last_decided.load(Ordering::SeqCst) {
            compare(session, seqno);
        }
    }
}

/// An action has failed here that others have applied. It was rolled back, and the database is
/// as it was before: the server comes back and applies it again. If it fails again, and not for
/// want of something, the data differ.
fn leave_as_failed(session: &Session, seqno: i64, failures: u32, what: &str, error: &str) {
    let gtid = session.gtid(seqno);
    let is_lack = error_kinds::is_lack_of_resources(error);
    if shows_other_data(failures, is_lack) {
        // In words that operators' tools know from Galera.
        return session.leave_as_inconsistent(&format!(
            "Inconsistent by consensus on {gtid}: it failed to apply here {failures} times: \
             {what}"
        ));
    }
    let next = match is_lack {
        true => {
            "This server lacks something that the others have (disk, memory, descriptors or \
             locks). It leaves the group, comes back by itself and tries again, until the \
             cause is gone: see to that"
        }
        false => {
            "This server leaves the group, comes back by itself and applies it again: if that \
             fails, too, its data differ from the other servers'"
        }
    };
    let why = format!(
        "{gtid} failed to apply here, and not on the other servers: {what}. Nothing of it is \
        in \
         the database. {next}"
    );
    session.leave(&why, Data::Good, Remedy::Restart);
    session.sequencer.abort();
}

/// Whether the action has failed in this connection, as it should.
fn has_failed_alike(session: &Session, seqno: i64) -> bool {
    session.server.position.was_lacking(seqno)
        && !session.state().outcomes.outcome(seqno).is_success()
}

/// The outcome that wins; or why that cannot be known.
fn wait_for_decision(
    session: &Session,
    seqno: i64,
    own: ApplyOutcome,
) -> Result<ApplyOutcome, &'static str> {
    let node = session.node().ok_or("there is no group to ask")?;
    // The other members may have decided about this action before this connection. What is decided
    // is not reported: a new leader would not know of it, and decide again.
    let mut search = DecisionSearch::new(Seqno(seqno));
    let mut has_reported = false;
    loop {
        match node.continue_search(&mut search) {
            Ok(Some(decision)) => return Ok(decision.outcome),
            Ok(None) => {}
            // It may have been reported, and purged from the log since.
            Err(_) => return noted_decision(session, seqno),
        }
        if !has_reported {
            node.report_failure(Seqno(seqno), own);
            has_reported = true;
        }
        let heard = session.wait_for(Some(Instant::now() + SEARCH_PAUSE), |state| {
            match state.outcomes.winner(seqno) {
                Some(winner) => Some(Ok(winner)),
                None if session.is_closing() => {
                    Some(Err("this server left before the group decided"))
                }
                None => None,
            }
        });
        if let Some(decision) = heard {
            return decision;
        }
    }
}

fn noted_decision(session: &Session, seqno: i64) -> Result<ApplyOutcome, &'static str> {
    let winner = session.state().outcomes.winner(seqno);
    winner.ok_or("what the group decided cannot be read")
}

/// The database had the action before this connection: only the decision itself, or the member's
/// record, says how it ended here. If neither does, the database is not trusted; nor if the action
/// failed here and the database is said to have it, unless the record says that it was applied
/// after all.
fn compare_earlier(session: &Session, decision: &OutcomeDecision) {
    let Some(node) = session.node() else {
        return;
    };
    // The first decision counts. Another one may follow if a leader that knows of none was asked,
    // and lacks the answer of a member that was not there any more.
    let mut search = DecisionSearch::new(decision.seqno);
    let first = node.continue_search(&mut search).ok().flatten();
    let decision = first.as_ref().unwrap_or(decision);
    let (is_copy, donor) = {
        let outcomes = &session.state().outcomes;
        (outcomes.is_copy, outcomes.donor)
    };
    if is_copy {
        return compare_copy(session, decision, donor);
    }
    let member = node.identity().0;
    let mut answers = decision.answers.iter();
    let own = answers.find(|answer| answer.member == member);
    let own = own.filter(|answer| answer.outcome != ApplyOutcome::UNKNOWN);
    if session.server.position.is_end_unknown(decision.seqno.0) {
        return leave_if_in_doubt(session, decision, "this server", Data::Outdated);
    }
    let has_failed = own.is_some_and(|answer| !answer.outcome.is_success());
    let differs = match decision.outcome.is_success() {
        true => has_failed && !session.server.position.has_settled(decision.seqno.0),
        // The others may have decided before this server was heard.
        false => match own {
            Some(own) => own.outcome != decision.outcome,
            None => !session.server.position.has_settled(decision.seqno.0),
        },
    };
    if differs && has_failed {
        session.leave_as_inconsistent(&format!(
            "{} failed here and {} wins, but the database is said to have it",
            session.gtid(decision.seqno.0),
            decision.outcome
        ));
    } else if differs {
        leave_as_loser(session, decision.seqno.0, decision.outcome);
    }
}

/// A copy has what its donor has. If an error wins, and no answer of the donor says that it had it
/// as well, another copy is taken: a donor that differs leaves by then.
fn compare_copy(session: &Session, decision: &OutcomeDecision, donor: Option<MemberId>) {
    let mut answers = decision.answers.iter();
    let answer = answers.find(|answer| Some(answer.member) == donor);
    if answer.is_none_or(|answer| answer.outcome != decision.outcome) {
        leave_if_in_doubt(
            session,
            decision,
            "the donor of this server's copy",
            Data::Differ,
        );
    }
}

/// The action's end on `whom`, whose data this server has, is unknown: they are those of the
/// group if it was applied.
fn leave_if_in_doubt(session: &Session, decision: &OutcomeDecision, whom: &str, data: Data) {
    if !decision.outcome.is_success() {
        let gtid = session.gtid(decision.seqno.0);
        let why = format!(
            "{} wins for {gtid}, and whether {whom} had it is not known: the next start of this server \
             takes a full copy (SST)",
            decision.outcome
        );
        session.leave(&why, data, Remedy::Restart);
    }
}

fn compare(session: &Session, seqno: i64) {
    let winner = session.state().outcomes.compare(seqno);
    if let Some(outcome) = winner {
        leave_as_loser(session, seqno, outcome);
    }
}

/// Leaves after applying an action that the group rejected, in words that operators' tools know
/// from Galera.
fn leave_as_loser(session: &Session, seqno: i64, winner: ApplyOutcome) {
    let gtid = session.gtid(seqno);
    let why = format!(
        "Vote 0 (success) on {gtid} is inconsistent with group. Leaving cluster. {winner} wins"
    );
    session.leave(&why, Data::Differ, Remedy::Operator);
}

pub(crate) fn error_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_matches([' ', '\0', ';']).to_owned()
}

/// An action is about to be applied. Costs nothing unless the database lacks one.
pub(crate) fn note_beginning(session: &Session, seqno: i64) {
    let position = &session.server.position;
    if position.was_lacking(seqno) {
        position.begins(seqno);
    }
}

/// An action is about to leave the calling applier's hands for the order; `entered`: whether it
/// has got in. If it has failed, its changes are rolled back already, and the server is about
/// to move its engine's position over it: this is noted first.
pub(crate) fn note_failing(session: &Session, seqno: i64, entered: Entered) {
    let error = boundary::statement_error().unwrap_or_default();
    match entered {
        Entered::Yes if error == 0 => {}
        Entered::Yes => {
            note_failure(session, seqno, error);
        }
        // Also without an error: fragments that are rolled back have none.
        Entered::Interrupted | Entered::Stopped => note_passed_over(session, seqno),
    }
}

/// The action has failed here, in its turn. Durable when it returns; answers how often the
/// action has failed here.
fn note_failure(session: &Session, seqno: i64, error: u32) -> u32 {
    let_database_heal(session);
    let position = &session.server.position;
    position.falls_behind(session.group(), seqno - 1, seqno, error)
}

/// The action was not let into the order, and the server moves its engine's position over it
/// nevertheless.
fn note_passed_over(session: &Session, seqno: i64) {
    let left = session.sequencer.left();
    if seqno > left {
        let position = &session.server.position;
        position.falls_behind(session.group(), left, seqno, 0);
    }
}

#[cfg(test)]
mod tests;
