//! When an action fails on some member: which outcome stands.
//!
//! ```text
//!  member with the error          leader                             the others
//!        │── Vote(seqno, error) ────►│── VoteRequest(seqno) ─────────────►│
//!        │                           │◄───────────── Vote(seqno, outcome) ┤ once they have got there
//!        │                           │ nothing still to be heard can change it
//!        │◄──────── Decision: an entry of the log, committed ────────────►│
//! ```
//! Answers are collected by the leader and forgotten with it; the members with an error send theirs
//! again. Only the decision lasts: it is an entry, so that every member hears the same one, whoever
//! leads when it is committed. The first one about an action counts.
//!
//! Whoever has no error to report never waits. The answers that count are those of the members present
//! whose databases follow the group, see [`Presence::electorate`]; who does not answer within
//! `evs.suspect_timeout` is left out if a majority of them has.
//!
//! [`Presence::electorate`]: super::presence::Presence::electorate

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno, SessionId, Term, Time};
use synod_wire::{OutcomeReport, PeerMessage};

use super::Driver;
use crate::host::Level;
use crate::outcome::{ApplyOutcome, InconsistencyPolicy, ruling};
use crate::payload::decision::{MemberOutcome, OutcomeDecision};

/// So many past votes are remembered. One is only asked about while somebody waits for it.
const PAST_MAX: usize = 1024;

/// What this member knows of votes.
#[derive(Default)]
pub(super) struct Voting {
    policy: InconsistencyPolicy,
    /// The action that has failed here, and waits for a decision.
    failed: Option<(Seqno, ApplyOutcome)>,
    /// Actions that failed here, and everywhere.
    failed_before: BTreeMap<Seqno, ApplyOutcome>,
    /// What the leader wants to know and this member does not yet.
    asked: BTreeSet<Seqno>,
    /// As a leader: what is being voted on.
    questions: BTreeMap<Seqno, Question>,
    /// Decisions in the log that are not known to be committed.
    appended: VecDeque<(LogIndex, OutcomeDecision)>,
    /// Actions that were decided about.
    decided: BTreeSet<Seqno>,
}

struct Question {
    since: Time,
    answers: BTreeMap<MemberId, (SessionId, ApplyOutcome)>,
}

impl Voting {
    pub(super) fn appended(&mut self, index: LogIndex, decision: OutcomeDecision) {
        self.appended.push_back((index, decision));
    }

    pub(super) fn truncated(&mut self, from: LogIndex) {
        while self.appended.back().is_some_and(|(at, _)| *at >= from) {
            self.appended.pop_back();
        }
    }

    /// Whether a decision about this action is in the log, as far as this member remembers.
    fn is_decided(&self, seqno: Seqno) -> bool {
        self.decided.contains(&seqno) || self.appended.iter().any(|(_, d)| d.seqno == seqno)
    }

    /// The next decision that is committed.
    fn next_committed(&mut self, commit: LogIndex) -> Option<OutcomeDecision> {
        self.appended.front().filter(|(at, _)| *at <= commit)?;
        self.appended.pop_front().map(|(_, decision)| decision)
    }

    /// Takes note of a committed decision; false if there was one about the same action before.
    fn settle(&mut self, decision: &OutcomeDecision) -> bool {
        let seqno = decision.seqno;
        if !self.decided.insert(seqno) {
            return false;
        }
        self.questions.remove(&seqno);
        self.asked.remove(&seqno);
        if let Some((_, outcome)) = self.failed.take_if(|(failed, _)| *failed == seqno)
            && outcome == decision.outcome
        {
            self.failed_before.insert(seqno, outcome);
        }
        while self.decided.len() > PAST_MAX {
            self.decided.pop_first();
        }
        while self.failed_before.len() > PAST_MAX {
            self.failed_before.pop_first();
        }
        true
    }

    /// How an action ended here, if it has: everything up to `applied` has.
    fn outcome(&self, seqno: Seqno, applied: Seqno) -> Option<ApplyOutcome> {
        let failed = self.failed.filter(|(failed, _)| *failed == seqno);
        let failed = failed.map(|(_, outcome)| outcome);
        let error = failed.or_else(|| self.failed_before.get(&seqno).copied());
        error.or_else(|| (applied >= seqno).then_some(ApplyOutcome::SUCCESS))
    }
}

impl Driver {
    /// How successes and errors are counted while this member leads.
    pub(super) fn set_inconsistency_policy(&mut self, policy: InconsistencyPolicy) {
        self.voting.policy = policy;
    }

    /// An action has failed here, and the host waits for [`crate::Host::outcome_decided`].
    pub(super) fn action_failed(&mut self, seqno: Seqno, outcome: ApplyOutcome) {
        if !self.voting.decided.contains(&seqno) {
            self.voting.failed = Some((seqno, outcome));
            self.send_own_vote();
        }
    }

    /// Says again what has failed here, until it is decided.
    fn send_own_vote(&mut self) {
        if let Some((seqno, outcome)) = self.voting.failed {
            self.send_vote(seqno, outcome);
        }
    }

    fn send_vote(&mut self, seqno: Seqno, outcome: ApplyOutcome) {
        let Some(leader) = self.core.leader() else {
            return;
        };
        let vote = OutcomeReport {
            session: self.me.session,
            seqno,
            outcome: outcome.0,
        };
        if leader == self.me.member {
            self.handle_vote(leader, vote);
        } else {
            self.send(leader, PeerMessage::OutcomeReport(vote));
        }
    }

    /// A member tells the leader how an action ended there.
    pub(super) fn handle_vote(&mut self, from: MemberId, vote: OutcomeReport) {
        let OutcomeReport {
            session,
            seqno,
            outcome,
        } = vote;
        let present = self.presence.get(from);
        let is_present = present.is_some_and(|present| present.session == session);
        let is_known = seqno > Seqno(0) && seqno <= self.links.shared.commit_seqno();
        let is_open = !self.voting.is_decided(seqno);
        // Whoever has an error says so again.
        if !self.core.is_ready_leader() || !is_present || !is_known || !is_open {
            return;
        }
        let outcome = ApplyOutcome(outcome);
        let is_new = !self.voting.questions.contains_key(&seqno);
        if is_new && outcome.is_success() {
            return;
        }
        let since = self.now;
        let question = self
            .voting
            .questions
            .entry(seqno)
            .or_insert_with(|| Question {
                since,
                answers: BTreeMap::new(),
            });
        question.answers.insert(from, (session, outcome));
        if is_new {
            let name = self.name_of(from);
            let text = format!("action {seqno} failed on {name} ({outcome}): asking the others");
            self.log(Level::Info, text);
            self.ask(seqno);
        }
        self.decide(seqno);
    }

    /// Asks whoever has not answered yet.
    fn ask(&mut self, seqno: Seqno) {
        let Some(question) = self.voting.questions.get(&seqno) else {
            return;
        };
        let term = self.core.term();
        let members = self.presence.members();
        let silent = members.iter().map(|present| present.member);
        let silent: Vec<MemberId> = silent
            .filter(|id| !question.answers.contains_key(id))
            .collect();
        for member in silent {
            if member == self.me.member {
                self.handle_vote_request(member, term, seqno);
            } else {
                self.send(member, PeerMessage::OutcomeQuery { term, seqno });
            }
        }
    }

    /// The leader asks how an action ended here.
    pub(super) fn handle_vote_request(&mut self, from: MemberId, term: Term, seqno: Seqno) {
        if term == self.core.term() && self.core.leader() == Some(from) {
            self.voting.asked.insert(seqno);
            while self.voting.asked.len() > PAST_MAX {
                self.voting.asked.pop_first();
            }
            self.answer_questions();
        }
    }

    /// Answers what can be answered, and sees to it that the rest will be when it can.
    pub(super) fn answer_questions(&mut self) {
        while let Some(seqno) = self.voting.asked.first().copied() {
            self.links.shared.call_when_applied(seqno);
            let applied = self.links.shared.applied();
            let Some(outcome) = self.voting.outcome(seqno, applied) else {
                return;
            };
            self.voting.asked.remove(&seqno);
            self.send_vote(seqno, outcome);
        }
    }

    /// Appends the decision about an action if the answers allow for one.
    fn decide(&mut self, seqno: Seqno) {
        if self.voting.is_decided(seqno) {
            return;
        }
        let asked = self.presence.electorate(&self.core.config().config);
        let Some(question) = self.voting.questions.get_mut(&seqno) else {
            return;
        };
        let presence = &self.presence;
        question.answers.retain(|member, (session, _)| {
            let present = presence.get(*member);
            present.is_some_and(|present| present.session == *session)
        });
        let answers = &question.answers;
        if answers.values().all(|(_, outcome)| outcome.is_success()) {
            // Whoever had an error is gone.
            self.voting.questions.remove(&seqno);
            return;
        }
        let counted = answers.iter().filter(|(id, _)| asked.contains(id));
        let outcomes: Vec<ApplyOutcome> = counted.map(|(_, (_, outcome))| *outcome).collect();
        let silent = asked.len() - outcomes.len();
        let is_late = self.now.since(question.since) >= self.config.suspect;
        let missing = match is_late && outcomes.len() > silent {
            true => 0,
            false => silent,
        };
        let Some(outcome) = ruling(outcomes.into_iter(), missing, self.voting.policy) else {
            return;
        };
        let answers = answers
            .iter()
            .map(|(member, (session, outcome))| MemberOutcome {
                member: *member,
                session: *session,
                outcome: *outcome,
            });
        let decision = OutcomeDecision {
            seqno,
            outcome,
            answers: answers.collect(),
        };
        // If refused, the next tick tries again.
        let _ = self.append_own(EntryKind::Decision, &decision.encode());
    }

    /// Repeats what may have been lost, and leaves out who has been silent for too long.
    pub(super) fn vote_tick(&mut self) {
        self.answer_questions();
        self.send_own_vote();
        if !self.core.is_ready_leader() {
            self.voting.questions.clear();
            return;
        }
        let open: Vec<Seqno> = self.voting.questions.keys().copied().collect();
        for seqno in open {
            self.ask(seqno);
            self.decide(seqno);
        }
    }

    /// There is a leader, perhaps another one: it knows nothing of votes.
    pub(super) fn vote_anew(&mut self) {
        self.voting.questions.clear();
        self.voting.asked.clear();
        self.send_own_vote();
    }

    /// Tells the host of decisions that are committed now.
    pub(super) fn decisions_committed(&mut self) {
        while let Some(decision) = self.voting.next_committed(self.last_committed) {
            if self.voting.settle(&decision) {
                self.log(Level::Info, self.decision_text(&decision));
                self.links.host.outcome_decided(&decision);
            }
        }
    }

    fn decision_text(&self, decision: &OutcomeDecision) -> String {
        let answers = decision.answers.iter();
        let answers: Vec<String> = answers
            .map(|answer| format!("{}: {}", self.name_of(answer.member), answer.outcome))
            .collect();
        format!(
            "action {}: {} stands ({})",
            decision.seqno,
            decision.outcome,
            answers.join(", ")
        )
    }
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
    fn decision_is_passed_on_once_it_is_committed_and_the_first_one_counts() {
        let mut voting = Voting::default();
        voting.appended(LogIndex(10), decision(4, 7));
        voting.appended(LogIndex(12), decision(4, 0));
        assert!(voting.is_decided(Seqno(4)));
        assert_eq!(voting.next_committed(LogIndex(9)), None);
        assert!(voting.is_decided(Seqno(4)), "still there");
        let first = voting.next_committed(LogIndex(12)).unwrap();
        assert_eq!(first.outcome, ApplyOutcome(7));
        assert!(voting.settle(&first));
        let second = voting.next_committed(LogIndex(12)).unwrap();
        assert!(!voting.settle(&second));
    }

    #[test]
    fn decision_that_was_cut_off_is_none() {
        let mut voting = Voting::default();
        voting.appended(LogIndex(10), decision(4, 7));
        voting.truncated(LogIndex(10));
        assert!(!voting.is_decided(Seqno(4)));
        assert_eq!(voting.next_committed(LogIndex(20)), None);
    }

    #[test]
    fn own_outcome_is_known_once_the_action_has_ended_here() {
        let mut voting = Voting::default();
        let outcome = |voting: &Voting, seqno| voting.outcome(Seqno(seqno), Seqno(6));
        assert_eq!(outcome(&voting, 6), Some(ApplyOutcome::SUCCESS));
        assert_eq!(outcome(&voting, 7), None);
        voting.failed = Some((Seqno(7), ApplyOutcome(3)));
        assert_eq!(outcome(&voting, 7), Some(ApplyOutcome(3)));
        assert!(voting.settle(&decision(7, 3)));
        assert_eq!(voting.failed, None);
        let later = voting.outcome(Seqno(7), Seqno(9));
        assert_eq!(later, Some(ApplyOutcome(3)), "an error, though it is past");
    }
}
