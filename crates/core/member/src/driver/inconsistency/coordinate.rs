//! The driver's dealings with [`super::Inconsistency`]: checks who reports, sends reports and
//! queries, and appends the decision.

use synod_consensus::{EntryKind, MemberId, Seqno, Term};
use synod_wire::{OutcomeReport, PeerMessage};

use super::{Electorate, ReportKind};
use crate::driver::Driver;
use crate::host::{Level, Topic};
use crate::outcome::ApplyOutcome;
use crate::payload::decision::OutcomeDecision;

impl Driver {
    /// An action has failed here, and the host waits for [`crate::Host::outcome_decided`].
    pub(in crate::driver) fn action_failed(&mut self, seqno: Seqno, outcome: ApplyOutcome) {
        if self.inconsistency.action_failed(seqno, outcome) {
            self.report_own_failure();
        }
    }

    fn report_own_failure(&mut self) {
        if let Some((seqno, outcome)) = self.inconsistency.own_failure() {
            self.report_outcome(seqno, outcome);
        }
    }

    fn report_outcome(&mut self, seqno: Seqno, outcome: ApplyOutcome) {
        let Some(leader) = self.ctx.core.leader() else {
            return;
        };
        let report = OutcomeReport {
            session: self.ctx.identity.me.session,
            seqno,
            outcome: outcome.0,
        };
        if leader == self.ctx.identity.me.member {
            self.handle_outcome_report(leader, report);
        } else {
            self.ctx.send(leader, PeerMessage::OutcomeReport(report));
        }
    }

    /// Leader only: a member reports how an action ended there.
    pub(in crate::driver) fn handle_outcome_report(
        &mut self,
        from: MemberId,
        report: OutcomeReport,
    ) {
        let OutcomeReport {
            session,
            seqno,
            outcome,
        } = report;
        let is_present = self.membership.presence.session_of(from) == Some(session);
        let is_known = seqno > Seqno(0) && seqno <= self.ctx.links.shared.commit_seqno();
        if !self.ctx.core.is_ready_leader() || !is_present || !is_known {
            return;
        }
        let outcome = ApplyOutcome(outcome);
        let reported = self.inconsistency.report(
            &self.ctx.decisions,
            self.ctx.turns.now,
            (from, session),
            seqno,
            outcome,
        );
        if reported == ReportKind::Ignored {
            return;
        }
        if reported == ReportKind::FirstError {
            let name = self.ctx.name_of(from);
            let text = format!("action {seqno} failed on {name} ({outcome}): asking the others");
            self.ctx.note(Topic::Consistency, Level::Info, text);
            self.query_outcomes(seqno);
        }
        self.decide_outcome(seqno);
    }

    /// Queries the present members that have not answered.
    fn query_outcomes(&mut self, seqno: Seqno) {
        let term = self.ctx.core.term();
        let present = self.membership.presence.members();
        let present = present.iter().map(|present| present.member);
        for member in self.inconsistency.unanswered(seqno, present) {
            if member == self.ctx.identity.me.member {
                self.handle_outcome_query(member, term, seqno);
            } else {
                self.ctx
                    .send(member, PeerMessage::OutcomeQuery { term, seqno });
            }
        }
    }

    /// The leader queries how an action ended here.
    pub(in crate::driver) fn handle_outcome_query(
        &mut self,
        from: MemberId,
        term: Term,
        seqno: Seqno,
    ) {
        if term == self.ctx.core.term() && self.ctx.core.leader() == Some(from) {
            self.inconsistency.queried(seqno);
            self.answer_outcome_queries();
        }
    }

    /// Answers the queries about actions that have ended here. The host will wake the driver
    /// ([`crate::Event::Applied`]) when the first of the others ends.
    pub(in crate::driver) fn answer_outcome_queries(&mut self) {
        while let Some(seqno) = self.inconsistency.next_query() {
            // Before the position is read: the host must not get past it unnoticed.
            self.ctx.links.shared.call_when_applied(seqno);
            let applied = self.ctx.links.shared.applied();
            let Some(outcome) = self.inconsistency.answer(seqno, applied) else {
                return;
            };
            self.report_outcome(seqno, outcome);
        }
    }

    /// Appends the decision about an action if the answers allow for one.
    fn decide_outcome(&mut self, seqno: Seqno) {
        let presence = &self.membership.presence;
        let electorate = Electorate {
            members: presence.electorate(&self.ctx.core.config().config),
            session_of: &|member| presence.session_of(member),
            timeout: self.ctx.identity.config.suspect,
        };
        let decision =
            self.inconsistency
                .decide(&self.ctx.decisions, self.ctx.turns.now, seqno, &electorate);
        if let Some(decision) = decision {
            // If it is refused, the next tick tries again.
            let _ = self.append_own(EntryKind::Decision, &decision.encode());
        }
    }

    /// Repeats what may have been lost, and decides without members that have been silent for too
    /// long.
    pub(in crate::driver) fn inconsistency_tick(&mut self) {
        self.answer_outcome_queries();
        self.report_own_failure();
        if !self.ctx.core.is_ready_leader() {
            self.inconsistency.forget_questions();
            return;
        }
        for seqno in self.inconsistency.open_questions() {
            self.query_outcomes(seqno);
            self.decide_outcome(seqno);
        }
    }

    /// There is a leader, perhaps another one.
    pub(in crate::driver) fn report_to_new_leader(&mut self) {
        self.inconsistency.leader_changed();
        self.report_own_failure();
    }

    /// Informs the host of decisions that are committed now.
    pub(in crate::driver) fn decisions_committed(&mut self) {
        while let Some(decision) = self
            .inconsistency
            .next_committed(&mut self.ctx.decisions, self.ctx.own_log.committed())
        {
            let text = self.decision_text(&decision);
            self.ctx.note(Topic::Consistency, Level::Info, text);
            self.ctx.links.host.outcome_decided(&decision);
        }
    }

    fn decision_text(&self, decision: &OutcomeDecision) -> String {
        let answers = decision.answers.iter();
        let answers: Vec<String> = answers
            .map(|answer| format!("{}: {}", self.ctx.name_of(answer.member), answer.outcome))
            .collect();
        format!(
            "action {}: {} wins ({})",
            decision.seqno,
            decision.outcome,
            answers.join(", ")
        )
    }
}
