//! When an action fails here: the group decides which outcome stands, and whoever has another one
//! leaves.
//!
//! A server with an error waits in the order until it knows (`commit_order_leave`,
//! `to_execute_end`); one without never waits, and may learn later that it should have had one. So
//! each decision is compared with what happened here, whichever of the two comes last.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use synod_node::{ApplyOutcome, DecisionSearch, OutcomeDecision, Seqno};

use crate::api::{Gtid, LogLevel};
use crate::connection::Connection;

/// So many errors and decisions are remembered. They matter until the decision was delivered and its
/// action has ended here.
const PAST_MAX: usize = 1024;

/// How long a decision is waited for before the log is searched for it again.
const SEARCH_PAUSE: Duration = Duration::from_millis(500);

/// What has failed here, and what was decided.
#[derive(Default)]
pub(crate) struct Votes {
    /// The first decision about each action.
    decided: BTreeMap<i64, ApplyOutcome>,
    /// Actions that failed here, as they should.
    failed: BTreeMap<i64, ApplyOutcome>,
    /// What happened up to here happened to the database before this connection.
    begun_at: i64,
}

impl Votes {
    /// The database is at `position` when the connection begins.
    pub(crate) fn begin_at(&mut self, position: i64) {
        self.begun_at = position;
    }

    fn note(&mut self, decision: &OutcomeDecision) {
        let stands = self.decided.entry(decision.seqno.0);
        stands.or_insert(decision.outcome);
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

    /// How an action has ended in this connection.
    fn outcome(&self, seqno: i64) -> ApplyOutcome {
        let failed = self.failed.get(&seqno).copied();
        failed.unwrap_or(ApplyOutcome::SUCCESS)
    }

    /// Compares the decision about an action that has ended here, if there is one, with its outcome:
    /// what stands instead.
    fn compare(&self, seqno: i64) -> Option<ApplyOutcome> {
        let stands = *self.decided.get(&seqno)?;
        (stands != self.outcome(seqno)).then_some(stands)
    }

    /// The first action of this connection, up to `left`, that should have ended another way: and which.
    fn first_outvoted(&self, left: i64) -> Option<(i64, ApplyOutcome)> {
        let ended = self.decided.range(..=left);
        let mut ended = ended
            .map(|(seqno, _)| *seqno)
            .filter(|seqno| *seqno > self.begun_at);
        ended.find_map(|seqno| Some((seqno, self.compare(seqno)?)))
    }
}

/// How this server gets to know whose outcome stands.
enum Verdict {
    Stands(ApplyOutcome),
    /// It does not, for this reason.
    Unknown(&'static str),
}

impl Connection {
    /// An action has failed here, within the order. Waits for the group's decision; whether the server
    /// may go on. If not, it is on its way out of the group.
    pub(crate) fn may_go_on_after(&self, seqno: i64, error: &[u8]) -> bool {
        let own = ApplyOutcome::of_error(error);
        let text = error_text(error);
        let why = match self.verdict_on(seqno, own) {
            Verdict::Stands(outcome) if outcome == own => {
                self.update(|state| state.votes.fail(seqno, own));
                let line = format!("action {seqno} failed as it did on other servers: {text}");
                self.log(LogLevel::Info, line);
                return true;
            }
            // In words that operators' tools know from Galera.
            Verdict::Stands(outcome) => format!(
                "Inconsistent by consensus on {}: it failed to apply here: {text}, {outcome} stands",
                self.gtid(seqno)
            ),
            Verdict::Unknown(why) => format!("action {seqno} failed to apply: {text}, {why}"),
        };
        self.inconsistent(&why);
        false
    }

    fn verdict_on(&self, seqno: i64, own: ApplyOutcome) -> Verdict {
        let Some(node) = self.node() else {
            return Verdict::Unknown("there is no group to ask");
        };
        node.report_failure(Seqno(seqno), own);
        // The others may have had this action, and their vote, before this connection.
        let mut search = DecisionSearch::new(Seqno(seqno));
        loop {
            match node.continue_search(&mut search) {
                Ok(Some(decision)) => return Verdict::Stands(decision.outcome),
                Ok(None) => {}
                // It may have been told of, and dropped from the log since.
                Err(_) => return self.told_of(seqno),
            }
            let heard = self.wait_for(Some(Instant::now() + SEARCH_PAUSE), |state| {
                let stands = state.votes.decided.get(&seqno);
                match stands {
                    Some(stands) => Some(Verdict::Stands(*stands)),
                    None if self.is_closing() => Some(Verdict::Unknown(
                        "this server left before the group decided",
                    )),
                    None => None,
                }
            });
            if let Some(verdict) = heard {
                return verdict;
            }
        }
    }

    fn told_of(&self, seqno: i64) -> Verdict {
        let unknown = Verdict::Unknown("what the group decided cannot be read");
        let stands = self.state().votes.decided.get(&seqno).copied();
        stands.map_or(unknown, Verdict::Stands)
    }

    /// Takes note of a decision, for whoever waits for it.
    pub(crate) fn note_decision(&self, decision: &OutcomeDecision) {
        self.update(|state| state.votes.note(decision));
        let seqno = decision.seqno.0;
        self.last_decided.fetch_max(seqno, Ordering::SeqCst);
    }

    /// A decision in its place in the log: nothing that comes after it was delivered yet. If its action
    /// has ended here, it is compared now, otherwise by [`Connection::ended`].
    pub(crate) fn compare_decision(&self, decision: &OutcomeDecision) {
        let seqno = decision.seqno.0;
        if self.state().votes.begun_at >= seqno {
            return self.compare_before(decision);
        }
        self.note_decision(decision);
        if self.sequencer.left() >= seqno {
            self.compare(seqno);
        }
    }

    /// Some decisions may have been dropped from the log before they came to their places. Those that this
    /// connection was told of are compared now, if their actions have ended here.
    pub(crate) fn compare_all_decisions(&self) {
        // Before the state is locked: nobody takes the order's lock with that in hand.
        let left = self.sequencer.left();
        let outvoted = self.state().votes.first_outvoted(left);
        if let Some((seqno, stands)) = outvoted {
            self.outvoted(seqno, stands);
        }
    }

    /// The database had the action before this connection: only the decision itself tells how it ended
    /// here. If it does not, the database is not trusted.
    fn compare_before(&self, decision: &OutcomeDecision) {
        let Some(node) = self.node().filter(|_| !decision.outcome.is_success()) else {
            return;
        };
        let member = node.identity().0;
        let mut answers = decision.answers.iter();
        let own = answers.find(|answer| answer.member == member);
        if own.is_none_or(|answer| answer.outcome != decision.outcome) {
            self.outvoted(decision.seqno.0, decision.outcome);
        }
    }

    /// An action has left the order. Costs nothing unless something was decided that this server has
    /// not come to yet.
    pub(crate) fn ended(&self, seqno: i64) {
        if seqno <= self.last_decided.load(Ordering::SeqCst) {
            self.compare(seqno);
        }
    }

    fn compare(&self, seqno: i64) {
        let stands = self.state().votes.compare(seqno);
        if let Some(outcome) = stands {
            self.outvoted(seqno, outcome);
        }
    }

    /// It was applied here, and should not have been. In words that operators' tools know from Galera.
    fn outvoted(&self, seqno: i64, stands: ApplyOutcome) {
        let gtid = self.gtid(seqno);
        self.leave_as_inconsistent(&format!(
            "Vote 0 (success) on {gtid} is inconsistent with group. Leaving cluster. {stands} stands"
        ));
    }

    fn gtid(&self, seqno: i64) -> Gtid {
        Gtid {
            group: self.group(),
            seqno,
        }
    }
}

/// What the server says about a failure, as a line.
fn error_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_matches([' ', '\0', ';']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(seqno: i64, outcome: u64) -> OutcomeDecision {
        OutcomeDecision {
            seqno: Seqno(seqno),
            outcome: ApplyOutcome(outcome),
            answers: Vec::new(),
        }
    }

    #[test]
    fn decisions_are_compared_with_what_happened_here() {
        let mut votes = Votes::default();
        assert_eq!(votes.compare(5), None, "nothing was decided");
        votes.note(&decision(5, 0));
        assert_eq!(votes.compare(5), None);
        votes.note(&decision(6, 9));
        assert_eq!(votes.compare(6), Some(ApplyOutcome(9)), "not so here");
        votes.fail(7, ApplyOutcome(9));
        votes.note(&decision(7, 9));
        assert_eq!(votes.compare(7), None);
    }

    #[test]
    fn decisions_that_were_never_delivered_are_found_once_their_actions_have_ended() {
        let mut votes = Votes::default();
        votes.begin_at(3);
        for (seqno, outcome) in [(2, 9), (4, 0), (5, 9), (6, 9)] {
            votes.note(&decision(seqno, outcome));
        }
        votes.fail(5, ApplyOutcome(9));
        assert_eq!(votes.first_outvoted(5), None, "6 has not ended");
        assert_eq!(votes.first_outvoted(6), Some((6, ApplyOutcome(9))));
    }

    #[test]
    fn first_decision_counts() {
        let mut votes = Votes::default();
        votes.note(&decision(5, 0));
        assert_eq!(votes.compare(5), None);
        votes.note(&decision(5, 9));
        assert_eq!(votes.compare(5), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut votes = Votes::default();
        for seqno in 0..2 * PAST_MAX as i64 {
            votes.fail(seqno, ApplyOutcome(9));
            votes.note(&decision(seqno, 9));
        }
        assert_eq!(
            (votes.failed.len(), votes.decided.len()),
            (PAST_MAX, PAST_MAX)
        );
        assert!(votes.failed.contains_key(&(2 * PAST_MAX as i64 - 1)));
    }

    #[test]
    fn error_texts_lose_their_padding() {
        assert_eq!(error_text(b" Error_code: 1060;\0"), "Error_code: 1060");
        assert_eq!(error_text(b"\0\0"), "");
    }
}
