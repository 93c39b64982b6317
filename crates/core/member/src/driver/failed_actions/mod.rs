//! Decides which outcome wins when an action has failed on some member.
//!
//! ```text
//!  member with the error             leader                        the other members
//!        |-- OutcomeReport(error) ---->|-- OutcomeQuery(seqno) ------------>|
//!        |                             |<------ OutcomeReport(outcome) -----| once they are there
//!        |                             | no missing answer can change the result
//!        |<------- Decision: an entry of the log, committed --------------->|
//! ```
//!
//! The rule is in decision 010. The leader collects the reports, and forgets them with its
//! leadership: members with an error repeat theirs. The first decision about an action counts. A
//! member that was killed before it noted how the action had ended says so
//! ([`ApplyOutcome::UNKNOWN`]), and is not counted. [`FailedActions`] owns both sides, that of the
//! member and that of the leader.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno, SessionId, Term, Time};
use synod_wire::{OutcomeReport, PeerMessage};

use super::context::Context;
use super::membership::Membership;
use crate::host::{Level, Topic};
use crate::outcome::{ApplyOutcome, InconsistencyPolicy, winning_outcome};
use crate::payload::decision::{MemberOutcome, OutcomeDecision};

/// So many past decisions are remembered: the leader queries while a member waits.
const PAST_MAX: usize = 1024;

/// Invariant: an action that is decided has no question, and is not waited for.
#[derive(Default)]
pub(super) struct FailedActions {
    policy: InconsistencyPolicy,
    /// The action that has failed here, and waits for a decision.
    failed: Option<(Seqno, ApplyOutcome)>,
    /// Actions that failed here with the error that won.
    failed_before: BTreeMap<Seqno, ApplyOutcome>,
    /// Actions that the leader has queried and this member has not answered.
    queried: BTreeSet<Seqno>,
    /// Leader only: actions without a decision.
    questions: BTreeMap<Seqno, Question>,
    decided: BTreeSet<Seqno>,
}

/// Decisions in the log that are not known to be committed.
#[derive(Default)]
pub(super) struct Decisions(VecDeque<(LogIndex, OutcomeDecision)>);

impl Decisions {
    pub(super) fn appended(&mut self, index: LogIndex, decision: OutcomeDecision) {
        self.0.push_back((index, decision));
    }

    pub(super) fn truncated(&mut self, from: LogIndex) {
        while self.0.back().is_some_and(|(at, _)| *at >= from) {
            self.0.pop_back();
        }
    }

    fn next_committed(&mut self, commit: LogIndex) -> Option<OutcomeDecision> {
        self.0.front().filter(|(at, _)| *at <= commit)?;
        self.0.pop_front().map(|(_, decision)| decision)
    }

    fn has(&self, seqno: Seqno) -> bool {
        self.0.iter().any(|(_, decision)| decision.seqno == seqno)
    }
}

struct Question {
    since: Time,
    answers: BTreeMap<MemberId, (SessionId, ApplyOutcome)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportKind {
    /// Nothing: the action is decided, or has not failed anywhere.
    Ignored,
    Answer,
    /// The first error of this action: the other members are to be queried.
    FirstError,
}

/// Members whose answers count, and the time for which the leader waits for them.
pub(super) struct Electorate<'a> {
    pub(super) members: BTreeSet<MemberId>,
    pub(super) session_of: &'a dyn Fn(MemberId) -> Option<SessionId>,
    /// Whether a member has no database that could answer, and waits for a full copy.
    pub(super) awaits_copy: &'a dyn Fn(MemberId) -> bool,
    /// A member that has not answered for so long may be left out.
    pub(super) timeout: Duration,
}

impl FailedActions {
    pub(super) fn set_policy(&mut self, policy: InconsistencyPolicy) {
        self.policy = policy;
    }

    // --- the member --------------------------------------------------------------------------

    fn failed_here(&mut self, seqno: Seqno, outcome: ApplyOutcome) -> bool {
        let is_open = !self.decided.contains(&seqno);
        if is_open {
            self.failed = Some((seqno, outcome));
        }
        is_open
    }

    /// The undecided action that has failed here, with its error: reported again and again.
    fn own_failure(&self) -> Option<(Seqno, ApplyOutcome)> {
        self.failed
    }

    fn queried(&mut self, seqno: Seqno) {
        self.queried.insert(seqno);
        while self.queried.len() > PAST_MAX {
            self.queried.pop_first();
        }
    }

    fn next_query(&self) -> Option<Seqno> {
        self.queried.first().copied()
    }

    /// The answer to the query about an action, if it has ended here, as all up to `applied` have.
    fn answer(&mut self, seqno: Seqno, applied: Seqno) -> Option<ApplyOutcome> {
        let outcome = self.outcome(seqno, applied)?;
        self.queried.remove(&seqno);
        Some(outcome)
    }

    fn outcome(&self, seqno: Seqno, applied: Seqno) -> Option<ApplyOutcome> {
        let failed = self.failed.filter(|(failed, _)| *failed == seqno);
        let failed = failed.map(|(_, outcome)| outcome);
        let error = failed.or_else(|| self.failed_before.get(&seqno).copied());
        error.or_else(|| (applied >= seqno).then_some(ApplyOutcome::SUCCESS))
    }

    // --- the leader --------------------------------------------------------------------------

    fn leader_changed(&mut self) {
        self.questions.clear();
        self.queried.clear();
    }

    /// This member does not lead, or not yet.
    fn forget_questions(&mut self) {
        self.questions.clear();
    }

    fn open_questions(&self) -> Vec<Seqno> {
        self.questions.keys().copied().collect()
    }

    fn report(
        &mut self,
        decisions: &Decisions,
        now: Time,
        from: (MemberId, SessionId),
        seqno: Seqno,
        outcome: ApplyOutcome,
    ) -> ReportKind {
        let is_first = !self.questions.contains_key(&seqno);
        // A member with an error repeats it: nothing is lost by ignoring a report.
        if self.is_decided(decisions, seqno) || (is_first && !outcome.is_error()) {
            return ReportKind::Ignored;
        }
        let new_question = || Question {
            since: now,
            answers: BTreeMap::new(),
        };
        let question = self.questions.entry(seqno).or_insert_with(new_question);
        question.answers.insert(from.0, (from.1, outcome));
        if is_first {
            ReportKind::FirstError
        } else {
            ReportKind::Answer
        }
    }

    fn unanswered(&self, seqno: Seqno, present: impl Iterator<Item = MemberId>) -> Vec<MemberId> {
        let Some(question) = self.questions.get(&seqno) else {
            return Vec::new();
        };
        present
            .filter(|id| !question.answers.contains_key(id))
            .collect()
    }

    /// The decision about an action, if the answers allow for one.
    fn decide(
        &mut self,
        decisions: &Decisions,
        now: Time,
        seqno: Seqno,
        electorate: &Electorate<'_>,
    ) -> Option<OutcomeDecision> {
        if self.is_decided(decisions, seqno) {
            return None;
        }
        let question = self.questions.get_mut(&seqno)?;
        let session_of = electorate.session_of;
        question
            .answers
            .retain(|member, (session, _)| session_of(*member) == Some(*session));
        let answers = &question.answers;
        if !answers.values().any(|(_, outcome)| outcome.is_error()) {
            // No member with an error is present any more.
            self.questions.remove(&seqno);
            return None;
        }
        let counted = answers
            .iter()
            .filter(|(id, _)| electorate.members.contains(id));
        let outcomes = counted.map(|(_, (_, outcome))| *outcome);
        let outcomes = outcomes.filter(|outcome| *outcome != ApplyOutcome::UNKNOWN);
        let outcomes: Vec<ApplyOutcome> = outcomes.collect();
        let silent = electorate.members.iter();
        let silent: Vec<MemberId> = silent
            .copied()
            .filter(|id| !answers.contains_key(id))
            .collect();
        let awaited = silent.iter().filter(|id| !(electorate.awaits_copy)(**id));
        let is_late = now.since(question.since) >= electorate.timeout;
        let missing = if is_late && outcomes.len() > awaited.count() {
            0
        } else {
            silent.len()
        };
        let outcome = winning_outcome(outcomes.into_iter(), missing, self.policy)?;
        let of_member = |(member, answer): (&MemberId, &(SessionId, ApplyOutcome))| MemberOutcome {
            member: *member,
            session: answer.0,
            outcome: answer.1,
        };
        Some(OutcomeDecision {
            seqno,
            outcome,
            answers: answers.iter().map(of_member).collect(),
        })
    }

    // --- the log -----------------------------------------------------------------------------

    /// The next decision that is committed and the first about its action.
    fn next_committed(
        &mut self,
        decisions: &mut Decisions,
        commit: LogIndex,
    ) -> Option<OutcomeDecision> {
        while let Some(decision) = decisions.next_committed(commit) {
            if self.settle(&decision) {
                return Some(decision);
            }
        }
        None
    }

    /// Whether a decision about this action is in the log, as far as this member remembers.
    fn is_decided(&self, decisions: &Decisions, seqno: Seqno) -> bool {
        self.decided.contains(&seqno) || decisions.has(seqno)
    }

    /// Takes note of a committed decision; false if there was one about the same action before.
    fn settle(&mut self, decision: &OutcomeDecision) -> bool {
        let seqno = decision.seqno;
        if !self.decided.insert(seqno) {
            return false;
        }
        self.questions.remove(&seqno);
        self.queried.remove(&seqno);
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
}

impl FailedActions {
    pub(super) fn action_failed(
        &mut self,
        ctx: &mut Context,
        membership: &Membership,
        seqno: Seqno,
        outcome: ApplyOutcome,
    ) {
        if self.failed_here(seqno, outcome) {
            self.report_own_failure(ctx, membership);
        }
    }

    fn report_own_failure(&mut self, ctx: &mut Context, membership: &Membership) {
        if let Some((seqno, outcome)) = self.own_failure() {
            self.report_outcome(ctx, membership, seqno, outcome);
        }
    }

    fn report_outcome(
        &mut self,
        ctx: &mut Context,
        membership: &Membership,
        seqno: Seqno,
        outcome: ApplyOutcome,
    ) {
        let Some(leader) = ctx.core.leader() else {
            return;
        };
        let report = OutcomeReport {
            session: ctx.identity.me.session,
            seqno,
            outcome: outcome.0,
        };
        if leader == ctx.identity.me.member {
            self.handle_outcome_report(ctx, membership, leader, report);
        } else {
            ctx.send(leader, PeerMessage::OutcomeReport(report));
        }
    }

    pub(super) fn handle_outcome_report(
        &mut self,
        ctx: &mut Context,
        membership: &Membership,
        from: MemberId,
        report: OutcomeReport,
    ) {
        let OutcomeReport {
            session,
            seqno,
            outcome,
        } = report;
        let is_present = membership.presence.session_of(from) == Some(session);
        let is_known = seqno > Seqno(0) && seqno <= ctx.links.shared.commit_seqno();
        if !ctx.core.is_ready_leader() || !is_present || !is_known {
            return;
        }
        let outcome = ApplyOutcome(outcome);
        let reported = self.report(
            &ctx.decisions,
            ctx.turns.now,
            (from, session),
            seqno,
            outcome,
        );
        if reported == ReportKind::Ignored {
            return;
        }
        if reported == ReportKind::FirstError {
            let name = ctx.name_of(from);
            let text = format!("action {seqno} failed on {name} ({outcome}): asking the others");
            ctx.note(Topic::Consistency, Level::Info, text);
            self.query_outcomes(ctx, membership, seqno);
        }
        self.decide_outcome(ctx, membership, seqno);
    }

    fn query_outcomes(&mut self, ctx: &mut Context, membership: &Membership, seqno: Seqno) {
        let term = ctx.core.term();
        let present = membership.presence.members();
        let present = present.iter().map(|present| present.member);
        for member in self.unanswered(seqno, present) {
            if member == ctx.identity.me.member {
                self.handle_outcome_query(ctx, membership, member, term, seqno);
            } else {
                ctx.send(member, PeerMessage::OutcomeQuery { term, seqno });
            }
        }
    }

    pub(super) fn handle_outcome_query(
        &mut self,
        ctx: &mut Context,
        membership: &Membership,
        from: MemberId,
        term: Term,
        seqno: Seqno,
    ) {
        if term == ctx.core.term() && ctx.core.leader() == Some(from) {
            self.queried(seqno);
            self.answer_outcome_queries(ctx, membership);
        }
    }

    /// Answers the queries about actions that have ended here. The host will wake the driver
    /// ([`crate::Event::Applied`]) when the first of the others ends.
    pub(super) fn answer_outcome_queries(&mut self, ctx: &mut Context, membership: &Membership) {
        while let Some(seqno) = self.next_query() {
            // Before the position is read: the host must not get past it unnoticed.
            ctx.links.shared.call_when_applied(seqno);
            let applied = ctx.links.shared.applied();
            let Some(mut outcome) = self.answer(seqno, applied) else {
                return;
            };
            if outcome.is_success() && ctx.links.host.is_end_unknown(seqno) {
                outcome = ApplyOutcome::UNKNOWN;
            }
            self.report_outcome(ctx, membership, seqno, outcome);
        }
    }

    fn decide_outcome(&mut self, ctx: &mut Context, membership: &Membership, seqno: Seqno) {
        let presence = &membership.presence;
        let electorate = Electorate {
            members: presence.electorate(&ctx.core.config().config),
            session_of: &|member| presence.session_of(member),
            awaits_copy: &|member| presence.awaits_copy(member),
            timeout: ctx.identity.config.suspect,
        };
        let decision = self.decide(&ctx.decisions, ctx.turns.now, seqno, &electorate);
        if let Some(decision) = decision {
            // If it is refused, the next tick tries again.
            let _ = ctx.append_own(EntryKind::Decision, &decision.encode());
        }
    }

    /// Repeats what may have been lost, and decides without members that have been silent for too
    /// long.
    pub(super) fn failed_actions_tick(&mut self, ctx: &mut Context, membership: &Membership) {
        self.answer_outcome_queries(ctx, membership);
        self.report_own_failure(ctx, membership);
        if !ctx.core.is_ready_leader() {
            self.forget_questions();
            return;
        }
        for seqno in self.open_questions() {
            self.query_outcomes(ctx, membership, seqno);
            self.decide_outcome(ctx, membership, seqno);
        }
    }

    pub(super) fn report_to_new_leader(&mut self, ctx: &mut Context, membership: &Membership) {
        self.leader_changed();
        self.report_own_failure(ctx, membership);
    }

    pub(super) fn decisions_committed(&mut self, ctx: &mut Context) {
        while let Some(decision) = self.next_committed(&mut ctx.decisions, ctx.own_log.committed())
        {
            let text = decision_text(ctx, &decision);
            ctx.note(Topic::Consistency, Level::Info, text);
            ctx.links.host.outcome_decided(&decision);
        }
    }
}

fn decision_text(ctx: &Context, decision: &OutcomeDecision) -> String {
    let answers = decision.answers.iter();
    let answers: Vec<String> = answers
        .map(|answer| format!("{}: {}", ctx.name_of(answer.member), answer.outcome))
        .collect();
    format!(
        "action {}: {} wins ({})",
        decision.seqno,
        decision.outcome,
        answers.join(", ")
    )
}

#[cfg(test)]
mod tests;
