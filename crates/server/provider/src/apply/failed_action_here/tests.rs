//! Outcomes here beside decisions of the group.

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
    let mut outcomes = Outcomes::default();
    assert_eq!(outcomes.compare(5), None, "nothing was decided");
    outcomes.note(&decision(5, 0));
    assert_eq!(outcomes.compare(5), None);
    outcomes.note(&decision(6, 9));
    assert_eq!(outcomes.compare(6), Some(ApplyOutcome(9)), "not so here");
    outcomes.fail(7, ApplyOutcome(9));
    outcomes.note(&decision(7, 9));
    assert_eq!(outcomes.compare(7), None);
}

#[test]
fn decisions_that_were_never_delivered_are_found_once_their_actions_have_ended() {
    let mut outcomes = Outcomes::default();
    outcomes.begin_at(3);
    for (seqno, outcome) in [(2, 9), (4, 0), (5, 9), (6, 9)] {
        outcomes.note(&decision(seqno, outcome));
    }
    outcomes.fail(5, ApplyOutcome(9));
    assert_eq!(outcomes.first_loser(5), None, "6 has not ended");
    assert_eq!(outcomes.first_loser(6), Some((6, ApplyOutcome(9))));
}

#[test]
fn first_decision_counts() {
    let mut outcomes = Outcomes::default();
    outcomes.note(&decision(5, 0));
    assert_eq!(outcomes.compare(5), None);
    outcomes.note(&decision(5, 9));
    assert_eq!(outcomes.compare(5), None);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut outcomes = Outcomes::default();
    for seqno in 0..2 * PAST_MAX as i64 {
        outcomes.fail(seqno, ApplyOutcome(9));
        outcomes.note(&decision(seqno, 9));
    }
    assert_eq!(
        (outcomes.failed.len(), outcomes.decided.len()),
        (PAST_MAX, PAST_MAX)
    );
    assert!(outcomes.failed.contains_key(&(2 * PAST_MAX as i64 - 1)));
}

#[test]
fn error_texts_lose_their_padding() {
    assert_eq!(error_text(b" Error_code: 1060;\0"), "Error_code: 1060");
    assert_eq!(error_text(b"\0\0"), "");
}
