//! Prevents a pull's entries from being ordered in a later term.
//!
//! A leader orders an action of its own member only if the action has seen everything that
//! preceded the leader's term. Parts that wait for room when the term ends are ruled on again when
//! this relay leads the next one. If some of them were ordered then and others not, the log would
//! have a hole, which no relay could read beyond. So a part says that it has seen one action less
//! than it has: whatever was committed when it was submitted precedes every later term, and each
//! of them refuses it.
//!
//! That needs an action of the pull's own term before its first part: a pull begins with an entry
//! that says where the upstream is, and waits for its result. The result may be known before the
//! node says that the entry is committed, so results count as well as what the node says.

use synod_node::Seqno;

/// The `last_seen` that a part of a pull states. `committed`: everything up to it is committed, as
/// the node says. `ordered`: this relay's newest entry whose commit is known; at least the entry
/// that begins the pull.
pub(super) fn last_seen(committed: Seqno, ordered: Seqno) -> Seqno {
    committed.max(ordered).prev()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Events around a relay that pulls.
    #[derive(Clone, Debug)]
    enum Step {
        /// A part comes from the upstream, and is submitted.
        Submit,
        /// There is room for the first part that waits.
        Order,
        /// One more action is committed, and its result is known.
        Commit,
        /// The node says what is committed.
        Say,
        /// Another term of this relay begins. So many actions that are not committed survive.
        Elect(i64),
    }

    /// The parts in the log, by their numbers, after these steps of one pull.
    fn pulled(steps: &[Step], last_seen: fn(Seqno, Seqno) -> Seqno) -> Vec<u64> {
        // The pull's first entry is action 6, in a term after action 5. Its result is known.
        let (mut after, mut committed, mut last) = (5, 6, 6);
        let mut said = 5;
        let (mut waiting, mut log) = (VecDeque::new(), Vec::new());
        let (mut submitted, mut is_over) = (0, false);
        for step in steps {
            match step {
                // The puller looks at its turn before it submits.
                Step::Submit if !is_over => {
                    let seen = last_seen(Seqno(said), Seqno(committed));
                    waiting.push_back((submitted, seen));
                    submitted += 1;
                }
                Step::Submit => {}
                Step::Order => {
                    // The rule of `synod-member` for writers.
                    let taken = waiting.pop_front().filter(|(_, seen)| seen.0 >= after);
                    if let Some((part, _)) = taken {
                        last += 1;
                        log.push(part);
                    }
                }
                Step::Commit => committed = last.min(committed + 1),
                Step::Say => said = committed,
                Step::Elect(survive) => {
                    let lost = (last - committed - survive).max(0);
                    last -= lost;
                    log.truncate(log.len() - lost as usize);
                    after = last;
                    is_over = true;
                }
            }
        }
        log
    }

    #[test]
    fn parts_that_wait_when_a_term_ends_are_refused_all_alike() {
        use Step::{Commit, Elect, Order, Submit};
        let steps = [
            Submit,
            Order,
            Submit,
            Commit,
            Submit,
            Elect(0),
            Order,
            Order,
        ];
        assert_eq!(pulled(&steps, last_seen), [0]);
        // The hole that there would be.
        assert_eq!(pulled(&steps, |_, ordered| ordered), [0, 2]);
    }

    #[test]
    fn result_of_the_first_entry_counts_before_the_node_says_that_it_is_committed() {
        use Step::{Order, Say, Submit};
        let steps = [Submit, Say, Submit, Order, Order];
        assert_eq!(pulled(&steps, last_seen), [0, 1]);
        // The hole that there would be.
        assert_eq!(pulled(&steps, |said, _| said.prev()), [1]);
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Submit),
            4 => Just(Step::Order),
            3 => Just(Step::Commit),
            2 => Just(Step::Say),
            1 => (0_i64..3).prop_map(Step::Elect),
        ]
    }

    proptest! {
        #[test]
        fn log_has_no_hole(steps in proptest::collection::vec(any_step(), 0..60)) {
            let log = pulled(&steps, last_seen);
            prop_assert_eq!(log.clone(), (0..log.len() as u64).collect::<Vec<u64>>());
        }
    }
}
