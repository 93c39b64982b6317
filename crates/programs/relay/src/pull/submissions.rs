//! Parts on their way into the log: submitted in order, and settled in order. A part that is
//! durable on a majority is acknowledged to the upstream, if the upstream has asked for that.
//!
//! A leader orders an action of its own member only if the action has seen everything that
//! preceded the leader's term. Parts that wait for room when the term ends are ruled on again when
//! this relay leads the next one. If some of them were ordered then and others not, the log would
//! have a hole, which no relay could read beyond. So a part says that it has seen one action less
//! than it has: whatever was committed when it was submitted precedes every later term, and each
//! of them refuses it.
//!
//! To state one less needs an action of the pull's own term before its first part: a pull begins
//! with an entry that says where the upstream is, and waits for its result. The result may be known
//! before the node says that the entry is committed, so results count as well as what the node
//! says.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use synod_node::{Action, Class, KeySet, Node, Pending, ProposalResult, Seqno, WaitPolicy};
use synod_upstream::{FilePosition, UpstreamHandle};

use crate::lock;
use crate::pull::control::{Control, Turn};

/// Parts on their way at a time, at most; their bytes are bounded by the node.
const IN_FLIGHT_MAX: usize = 4096;
/// A larger entry is submitted alone.
const ALONE_BYTES: usize = 7 << 20;

struct Submitted {
    pending: Arc<Pending>,
    bytes: usize,
    /// End of the transaction in the upstream's binlog, if this is its last part.
    end: Option<FilePosition>,
}

#[derive(Default)]
struct Flight {
    parts: Mutex<InFlight>,
    changed: Condvar,
}

#[derive(Default)]
struct InFlight {
    count: usize,
    bytes: usize,
    has_failed: bool,
}

/// The way of parts into the log, for one connection to the upstream.
pub(crate) struct Submissions<'a> {
    node: &'a Node,
    control: &'a Control,
    turn: Turn,
    sender: SyncSender<Submitted>,
    flight: Arc<Flight>,
}

/// The other end: what a thread of its own settles.
pub(crate) struct Settling<'a> {
    control: &'a Control,
    receiver: Receiver<Submitted>,
    flight: Arc<Flight>,
}

impl<'a> Submissions<'a> {
    pub(crate) fn begin(
        node: &'a Node,
        control: &'a Control,
        turn: Turn,
    ) -> (Submissions<'a>, Settling<'a>) {
        let (sender, receiver) = sync_channel(IN_FLIGHT_MAX);
        let flight = Arc::new(Flight::default());
        let settling = Settling {
            control,
            receiver,
            flight: flight.clone(),
        };
        let submissions = Submissions {
            node,
            control,
            turn,
            sender,
            flight,
        };
        (submissions, settling)
    }

    /// Submits the entry that begins the pull, and waits until it is in the log; false if it has
    /// not got there.
    pub(crate) fn first(&self, data: Bytes) -> bool {
        let seen = self.node.commit_seqno();
        if !self.control.has(self.turn) {
            return false;
        }
        self.put(data, seen, None);
        self.flight.await_empty();
        !self.flight.has_failed()
    }

    /// Submits a part when it and what is on its way have no more than `bytes_max`, or nothing is;
    /// false once one has not got into the log, or the turn is over.
    pub(crate) fn part(&self, data: Bytes, end: Option<FilePosition>, bytes_max: usize) -> bool {
        // It comes in several pieces then, which others may overtake.
        let is_alone = data.len() > ALONE_BYTES;
        if is_alone {
            self.flight.await_empty();
        }
        let others_max = bytes_max.saturating_sub(data.len());
        self.flight.await_that(|parts| parts.bytes <= others_max);
        let seen = last_seen(self.node.commit_seqno(), self.control.newest_ordered());
        // Asked after that: what is committed in a later term is committed after the end of this
        // turn.
        if self.flight.has_failed() || !self.control.has(self.turn) {
            return false;
        }
        self.put(data, seen, end);
        if is_alone {
            self.flight.await_empty();
        }
        true
    }

    pub(super) fn are_settled(&self) -> bool {
        let parts = lock(&self.flight.parts);
        parts.count == 0 && !parts.has_failed
    }

    fn put(&self, data: Bytes, seen: Seqno, end: Option<FilePosition>) {
        let bytes = data.len();
        self.flight.submitted(bytes);
        let pending = submit(self.node, data, seen);
        // The settling thread takes everything until this end is dropped.
        let submitted = Submitted {
            pending,
            bytes,
            end,
        };
        let is_taken = self.sender.send(submitted).is_ok();
        debug_assert!(is_taken, "the settling thread has ended early");
    }
}

/// Submits an entry that has seen everything up to `seen`. As it names no key, it conflicts with
/// nothing.
pub(crate) fn submit(node: &Node, data: Bytes, seen: Seqno) -> Arc<Pending> {
    let action = Action {
        class: Class::TotalOrder,
        keys: KeySet::new(),
        last_seen: seen.0,
        data,
    };
    // An entry of this pull must not get into the log after the next pull has begun.
    node.submit_with(&action, WaitPolicy::UntilKnown)
}

impl Settling<'_> {
    /// Waits for the results of all parts, in order, until no more are submitted: the body of a
    /// thread. Stops the connection when a part has not got into the log: what follows it would
    /// not count.
    pub(crate) fn run(self, upstream: &UpstreamHandle) {
        for submitted in self.receiver {
            let result = submitted.pending.wait_for_result();
            if let ProposalResult::Ordered { seqno, .. } = result {
                self.control.ordered(seqno);
            }
            let is_ordered = matches!(result, ProposalResult::Ordered { .. });
            // What follows a part that is not in the log does not count.
            let is_durable = is_ordered && !self.flight.has_failed();
            if !is_durable {
                lock(&self.flight.parts).has_failed = true;
                upstream.stop();
            }
            if let Some(end) = submitted.end.filter(|_| is_durable) {
                // The reading thread finds that the connection has ended.
                let _ = upstream.acknowledge(&end);
            }
            self.flight.settled(submitted.bytes);
        }
    }
}

impl Flight {
    fn has_failed(&self) -> bool {
        lock(&self.parts).has_failed
    }

    fn submitted(&self, bytes: usize) {
        let mut parts = lock(&self.parts);
        parts.count += 1;
        parts.bytes += bytes;
    }

    fn settled(&self, bytes: usize) {
        let mut parts = lock(&self.parts);
        parts.count -= 1;
        parts.bytes -= bytes;
        drop(parts);
        self.changed.notify_all();
    }

    fn await_empty(&self) {
        self.await_that(|parts| parts.count == 0);
    }

    fn await_that(&self, is_so: impl Fn(&InFlight) -> bool) {
        let parts = lock(&self.parts);
        drop(self.changed.wait_while(parts, |parts| !is_so(parts)));
    }
}

/// The `last_seen` that a part of a pull states. `committed`: everything up to it is committed, as
/// the node says. `ordered`: this relay's newest entry whose commit is known; at least the entry
/// that begins the pull.
fn last_seen(committed: Seqno, ordered: Seqno) -> Seqno {
    committed.max(ordered).prev()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

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
