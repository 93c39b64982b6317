//! How old this member's database can be at most (promise P4 with a bound).
//!
//! An answered question for the group's position proves that everything acknowledged before the
//! question was put is at or below it. So a database that has applied up to there is at most as old
//! as the question is now, by this member's own clock: no two clocks are compared, and an answer
//! that was long on its way proves less. Only a leader that a majority has confirmed after the
//! question answers. The driver hands over answers; threads of the host ask.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use synod_consensus::{Seqno, Time};

use crate::shared::lock;

/// Most answers that are kept while the database has not applied up to them.
const ANSWERS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Freshness(Mutex<State>);

#[derive(Default)]
struct State {
    /// Invariant: ascending by both, times of questions and positions.
    answers: VecDeque<(Time, Seqno)>,
    asked: Time,
}

impl Freshness {
    /// A question that was put at `asked`, or later, is answered.
    pub(crate) fn answered(&self, asked: Time, position: Seqno) {
        let answers = &mut lock(&self.0).answers;
        if answers
            .iter()
            .any(|(at, seqno)| *at >= asked && *seqno <= position)
        {
            return;
        }
        answers.retain(|(at, seqno)| *at > asked || *seqno < position);
        let place = answers.partition_point(|(at, _)| *at < asked);
        answers.insert(place, (asked, position));
        if answers.len() > ANSWERS_MAX {
            // Every other one: the first, which may be reached, and the newest stay.
            let mut number = 0;
            answers.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// Greatest age at `now` of a database with everything up to `applied`; none: not known.
    pub(crate) fn age(&self, now: Time, applied: Seqno) -> Option<Duration> {
        let answers = &mut lock(&self.0).answers;
        let reached = answers.partition_point(|(_, seqno)| *seqno <= applied);
        answers.drain(..reached.saturating_sub(1));
        let (asked, _) = answers.front().filter(|_| reached > 0)?;
        Some(now.since(*asked))
    }

    /// Whether the last question that this has allowed was at least `every` ago; then one is
    /// allowed, to one caller.
    pub(crate) fn is_due(&self, now: Time, every: Duration) -> bool {
        let state = &mut *lock(&self.0);
        let newest = state.answers.back().map_or(Time(0), |(asked, _)| *asked);
        let is_due = now.since(state.asked.max(newest)) >= every;
        if is_due {
            state.asked = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age_ms(freshness: &Freshness, now_ms: u64, applied: i64) -> Option<u64> {
        let age = freshness.age(Time(now_ms * 1000), Seqno(applied));
        age.map(|age| age.as_millis() as u64)
    }

    fn answered(freshness: &Freshness, asked_ms: u64, position: i64) {
        freshness.answered(Time(asked_ms * 1000), Seqno(position));
    }

    #[test]
    fn age_counts_from_the_newest_question_whose_answer_is_applied() {
        let freshness = Freshness::default();
        assert_eq!(age_ms(&freshness, 5, 100), None, "nothing was asked");
        answered(&freshness, 10, 7);
        answered(&freshness, 20, 9);
        assert_eq!(age_ms(&freshness, 25, 6), None, "nothing is reached");
        assert_eq!(age_ms(&freshness, 25, 8), Some(15));
        assert_eq!(age_ms(&freshness, 25, 9), Some(5));
        assert_eq!(age_ms(&freshness, 95, 9), Some(75));
        assert_eq!(age_ms(&freshness, 95, 8), None, "another database");
    }

    #[test]
    fn answers_come_in_any_order() {
        let freshness = Freshness::default();
        answered(&freshness, 20, 5);
        answered(&freshness, 10, 6);
        answered(&freshness, 15, 4);
        answered(&freshness, 30, 5);
        assert_eq!(age_ms(&freshness, 30, 4), Some(15));
        assert_eq!(age_ms(&freshness, 30, 5), Some(0));
        answered(&freshness, 30, 5);
        answered(&freshness, 40, 3);
        assert_eq!(age_ms(&freshness, 40, 3), Some(0));
    }

    #[test]
    fn database_far_behind_leaves_a_bounded_number_of_answers() {
        let freshness = Freshness::default();
        for at in 1..=100_000 {
            answered(&freshness, at, at.cast_signed());
        }
        assert!(lock(&freshness.0).answers.len() <= ANSWERS_MAX);
        let reached = age_ms(&freshness, 100_000, 100_000);
        assert!(reached.is_some_and(|age| age <= 1), "{reached:?}");
        let half = age_ms(&freshness, 100_000, 100_000);
        assert_eq!(half, reached);
    }

    #[test]
    fn one_caller_asks_in_each_period() {
        let freshness = Freshness::default();
        let every = Duration::from_millis(25);
        let due = |now_ms: u64| freshness.is_due(Time(now_ms * 1000), every);
        assert_eq!(
            [due(25), due(25), due(49), due(50)],
            [true, false, false, true]
        );
        answered(&freshness, 60, 1);
        assert_eq!([due(84), due(85)], [false, true]);
    }
}
