//! Parts on their way into the log: submitted in order, and settled in order. A part that is
//! durable on a majority is acknowledged to the upstream, if the upstream has asked for that.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bytes::Bytes;
use synod_node::{Action, Class, KeySet, Node, Pending, ProposalResult, Seqno, WaitPolicy};
use synod_upstream::{FilePosition, UpstreamHandle};

use super::control::{Control, Turn};
use super::fence;

/// Parts on their way at a time, at most; their bytes are bounded by the node.
const IN_FLIGHT_MAX: usize = 4096;
/// A larger entry is submitted alone.
const ALONE_BYTES: usize = 7 << 20;

/// A part on its way.
struct Submitted {
    pending: Arc<Pending>,
    bytes: usize,
    /// End of the transaction in the upstream's binlog, if this is its last part.
    end: Option<FilePosition>,
}

/// Parts that were submitted and have no result yet.
#[derive(Default)]
struct Flight {
    count: AtomicUsize,
    bytes: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
    has_failed: AtomicBool,
}

/// The way of parts into the log, for one connection to the upstream.
pub(super) struct Submissions<'a> {
    node: &'a Node,
    control: &'a Control,
    /// The turn that the parts are of.
    turn: Turn,
    sender: SyncSender<Submitted>,
    flight: Arc<Flight>,
}

/// The other end: what a thread of its own settles.
pub(super) struct Settling<'a> {
    control: &'a Control,
    receiver: Receiver<Submitted>,
    flight: Arc<Flight>,
}

impl<'a> Submissions<'a> {
    /// The way, and what is to be settled.
    pub(super) fn begin(
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
    pub(super) fn first(&self, data: Bytes) -> bool {
        let seen = self.node.commit_seqno();
        if !self.control.has(self.turn) {
            return false;
        }
        self.put(data, seen, None);
        self.flight.await_empty();
        !self.flight.has_failed()
    }

    /// Submits a part when it and what is on its way have no more than `bytes_max`, or nothing is;
    /// false once one has not got into the log, or the turn is over. `end`: its transaction ends
    /// there.
    pub(super) fn part(&self, data: Bytes, end: Option<FilePosition>, bytes_max: usize) -> bool {
        // It comes in several pieces then, which others may overtake.
        let is_alone = data.len() > ALONE_BYTES;
        if is_alone {
            self.flight.await_empty();
        }
        self.flight
            .await_bytes(bytes_max.saturating_sub(data.len()));
        let seen = fence::last_seen(self.node.commit_seqno(), self.control.newest_ordered());
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

    /// Whether everything that was submitted is in the log.
    pub(super) fn are_settled(&self) -> bool {
        self.flight.count.load(Ordering::Acquire) == 0 && !self.flight.has_failed()
    }

    fn put(&self, data: Bytes, seen: Seqno, end: Option<FilePosition>) {
        let bytes = data.len();
        self.flight.count.fetch_add(1, Ordering::AcqRel);
        self.flight.bytes.fetch_add(bytes, Ordering::AcqRel);
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
pub(super) fn submit(node: &Node, data: Bytes, seen: Seqno) -> Arc<Pending> {
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
    pub(super) fn run(self, upstream: &UpstreamHandle) {
        for submitted in self.receiver {
            let result = submitted.pending.wait_for_result();
            if let ProposalResult::Ordered { seqno, .. } = result {
                self.control.ordered(seqno);
            }
            let is_ordered = matches!(result, ProposalResult::Ordered { .. });
            // What follows a part that is not in the log does not count.
            let is_durable = is_ordered && !self.flight.has_failed();
            if !is_durable {
                self.flight.has_failed.store(true, Ordering::Release);
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
    /// A part has not got into the log.
    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    fn settled(&self, bytes: usize) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        drop(guard);
        self.changed.notify_all();
    }

    fn await_empty(&self) {
        self.await_that(|| self.count.load(Ordering::Acquire) == 0);
    }

    /// Waits until no more than so many bytes are on their way.
    fn await_bytes(&self, bytes: usize) {
        self.await_that(|| self.bytes.load(Ordering::Acquire) <= bytes);
    }

    fn await_that(&self, is_so: impl Fn() -> bool) {
        // Mostly: each part comes here.
        if is_so() {
            return;
        }
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(guard, |()| !is_so()));
    }
}
