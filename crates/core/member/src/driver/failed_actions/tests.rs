//! Questions, answers and decisions about failed actions.

use super::*;

const NOW: Time = Time(1_000);
const TIMEOUT: Duration = Duration::from_secs(5);
const SESSION: SessionId = SessionId(1);
const ERROR: ApplyOutcome = ApplyOutcome(7);

fn decision(seqno: i64, outcome: u64) -> OutcomeDecision {
    OutcomeDecision {
        seqno: Seqno(seqno),
        outcome: ApplyOutcome(outcome),
        answers: Vec::new(),
    }
}

/// Members 1 to `count`, all present.
fn electorate(count: u64) -> Electorate<'static> {
    Electorate {
        members: (1..=count).map(MemberId).collect(),
        session_of: &|_| Some(SESSION),
        awaits_copy: &|_| false,
        timeout: TIMEOUT,
    }
}

fn none() -> Decisions {
    Decisions::default()
}

fn report(state: &mut FailedActions, member: u64, outcome: ApplyOutcome) -> ReportKind {
    state.report(
        &Decisions::default(),
        NOW,
        (MemberId(member), SESSION),
        Seqno(4),
        outcome,
    )
}

#[test]
fn first_error_has_the_others_queried_and_a_majority_decides() {
    let mut state = FailedActions::default();
    let success = ApplyOutcome::SUCCESS;
    assert_eq!(report(&mut state, 2, success), ReportKind::Ignored);
    assert_eq!(report(&mut state, 1, ERROR), ReportKind::FirstError);
    assert_eq!(report(&mut state, 1, ERROR), ReportKind::Answer);
    let present = (1..=3).map(MemberId);
    let silent = state.unanswered(Seqno(4), present);
    assert_eq!(silent, [MemberId(2), MemberId(3)]);
    assert_eq!(state.decide(&none(), NOW, Seqno(4), &electorate(3)), None);
    assert_eq!(report(&mut state, 2, success), ReportKind::Answer);
    assert_eq!(report(&mut state, 3, success), ReportKind::Answer);
    let decision = state
        .decide(&none(), NOW, Seqno(4), &electorate(3))
        .unwrap();
    assert_eq!(decision.outcome, success);
    assert_eq!(decision.answers.len(), 3);
}

#[test]
fn member_that_does_not_know_how_the_action_ended_there_is_not_counted() {
    let mut state = FailedActions::default();
    let unknown = ApplyOutcome::UNKNOWN;
    assert_eq!(report(&mut state, 2, unknown), ReportKind::Ignored);
    assert_eq!(report(&mut state, 1, ERROR), ReportKind::FirstError);
    assert_eq!(report(&mut state, 2, unknown), ReportKind::Answer);
    let decision = state.decide(&none(), NOW, Seqno(4), &electorate(2));
    assert_eq!(decision.unwrap().outcome, ERROR);
    assert_eq!(
        report(&mut state, 3, ApplyOutcome::SUCCESS),
        ReportKind::Answer
    );
    let decision = state.decide(&none(), NOW, Seqno(4), &electorate(3));
    assert_eq!(decision.unwrap().outcome, ApplyOutcome::SUCCESS);
}

#[test]
fn silent_members_are_left_out_after_the_timeout_if_most_have_answered() {
    let late = NOW.plus(TIMEOUT);
    let mut state = FailedActions::default();
    report(&mut state, 1, ERROR);
    assert_eq!(
        state.decide(&none(), late, Seqno(4), &electorate(3)),
        None,
        "one of three"
    );
    report(&mut state, 2, ApplyOutcome::SUCCESS);
    assert_eq!(
        state.decide(&none(), NOW, Seqno(4), &electorate(3)),
        None,
        "too early"
    );
    assert!(
        state
            .decide(&none(), late, Seqno(4), &electorate(3))
            .is_some()
    );
}

/// Its donor waits for the decision: no member would answer, ever.
#[test]
fn member_that_waits_for_a_copy_is_left_out_after_the_timeout() {
    let late = NOW.plus(TIMEOUT);
    let mut state = FailedActions::default();
    report(&mut state, 1, ERROR);
    let mut two = electorate(2);
    assert_eq!(state.decide(&none(), late, Seqno(4), &two), None);
    two.awaits_copy = &|member| member == MemberId(2);
    let early = state.decide(&none(), NOW, Seqno(4), &two);
    assert_eq!(early, None, "its report may be old");
    let decision = state.decide(&none(), late, Seqno(4), &two).unwrap();
    assert_eq!(decision.outcome, ERROR);
}

#[test]
fn question_ends_when_no_member_with_an_error_is_present() {
    let mut state = FailedActions::default();
    report(&mut state, 1, ERROR);
    let mut gone = electorate(3);
    gone.session_of = &|_| None;
    assert_eq!(state.decide(&none(), NOW, Seqno(4), &gone), None);
    assert_eq!(state.open_questions(), []);
}

#[test]
fn query_is_answered_once_the_action_has_ended_here() {
    let mut state = FailedActions::default();
    state.queried(Seqno(7));
    assert_eq!(state.next_query(), Some(Seqno(7)));
    assert_eq!(state.answer(Seqno(7), Seqno(6)), None);
    assert_eq!(state.next_query(), Some(Seqno(7)));
    let success = Some(ApplyOutcome::SUCCESS);
    assert_eq!(state.answer(Seqno(7), Seqno(7)), success);
    assert_eq!(state.next_query(), None);
}

#[test]
fn first_committed_decision_about_an_action_counts() {
    let mut state = FailedActions::default();
    let mut log = Decisions::default();
    log.appended(LogIndex(10), decision(4, 7));
    log.appended(LogIndex(12), decision(4, 0));
    assert!(state.is_decided(&log, Seqno(4)));
    assert_eq!(state.next_committed(&mut log, LogIndex(9)), None);
    assert!(state.is_decided(&log, Seqno(4)), "still there");
    let first = state.next_committed(&mut log, LogIndex(12)).unwrap();
    assert_eq!(first.outcome, ERROR);
    assert_eq!(state.next_committed(&mut log, LogIndex(12)), None);
    assert!(!state.failed_here(Seqno(4), ERROR), "decided already");
}

#[test]
fn decision_that_was_truncated_is_none() {
    let mut state = FailedActions::default();
    let mut log = Decisions::default();
    log.appended(LogIndex(10), decision(4, 7));
    log.truncated(LogIndex(10));
    assert!(!state.is_decided(&log, Seqno(4)));
    assert_eq!(state.next_committed(&mut log, LogIndex(20)), None);
}

#[test]
fn own_error_is_remembered_after_the_decision() {
    let mut state = FailedActions::default();
    let outcome = |state: &FailedActions, seqno| state.outcome(Seqno(seqno), Seqno(6));
    assert_eq!(outcome(&state, 6), Some(ApplyOutcome::SUCCESS));
    assert_eq!(outcome(&state, 7), None);
    assert!(state.failed_here(Seqno(7), ApplyOutcome(3)));
    assert_eq!(outcome(&state, 7), Some(ApplyOutcome(3)));
    assert!(state.settle(&decision(7, 3)));
    assert_eq!(state.own_failure(), None);
    let later = state.outcome(Seqno(7), Seqno(9));
    assert_eq!(later, Some(ApplyOutcome(3)), "an error, though it is past");
}
