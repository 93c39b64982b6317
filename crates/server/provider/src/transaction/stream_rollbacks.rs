//! Rollbacks of streamed transactions on all members: what happens to the fragments that the others
//! have when a client gives up its transaction.
//!
//! - The client rolls back, or its fragment is aborted: the server calls `rollback` under locks of
//!   its own. So the rollback is queued, and a thread of this connection orders it.
//! - The server leaves, or dies: it orders nothing. The next view is without this session, and
//!   every server rolls back the streamed transactions of sessions that are not in the view.
//!
//! The thread lives as long as the connection.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use synod_binlog::write_set::{Note, WriteSet};
use synod_node::{Pending, ProposalResult};
use wsrep_sys as sys;

use crate::api::{Status, WsFlags};
use crate::boundary;
use crate::connection::Connection;

/// A streamed transaction that ends without a commit.
#[derive(Clone, Debug)]
pub(crate) struct StreamRollback {
    trx: u64,
    /// Its last fragment, if its client did not wait for it.
    fragment: Option<Arc<Pending>>,
}

impl StreamRollback {
    /// All its fragments are known to be ordered, or refused.
    pub(crate) fn of(trx: u64) -> StreamRollback {
        StreamRollback {
            trx,
            fragment: None,
        }
    }

    /// The result of its last fragment is not known yet.
    pub(crate) fn after(trx: u64, fragment: Arc<Pending>) -> StreamRollback {
        StreamRollback {
            trx,
            fragment: Some(fragment),
        }
    }
}

/// Rollbacks that wait to be ordered, oldest first.
#[derive(Default)]
pub(crate) struct RollbackQueue {
    /// The first one is being ordered.
    waiting: VecDeque<StreamRollback>,
    /// Rollbacks that were ordered.
    done: u64,
}

impl RollbackQueue {
    /// Adds a rollback, unless one of the same transaction waits that does as much.
    fn add(&mut self, rollback: StreamRollback) {
        let mut waiting = self.waiting.iter();
        match waiting.find(|known| known.trx == rollback.trx) {
            // The one with a fragment in flight comes first, so nothing is lost.
            Some(known) if known.fragment.is_some() || rollback.fragment.is_none() => {}
            _ => self.waiting.push_back(rollback),
        }
    }

    fn first(&self) -> Option<StreamRollback> {
        self.waiting.front().cloned()
    }

    fn finish_first(&mut self) {
        self.waiting.pop_front();
        self.done += 1;
    }

    /// Total number once all that wait are ordered.
    fn total(&self) -> u64 {
        self.done + self.waiting.len() as u64
    }
}

impl Connection {
    /// Has all members roll back a streamed transaction of this session. Returns at once. Refused
    /// when this server leaves: the others see that in the next view.
    pub(crate) fn roll_back_stream(&self, rollback: StreamRollback) -> Status {
        if self.is_closing() {
            return Status::ConnFail;
        }
        self.update(|state| state.rollbacks.add(rollback));
        Status::Ok
    }

    /// Waits until the rollbacks asked for so far are ordered; false on the deadline, or if this
    /// server leaves or has lost the group.
    pub(crate) fn wait_streams_rolled_back(&self, deadline: Option<Instant>) -> bool {
        let mut wanted = None;
        let ended = self.wait_for(deadline, |state| {
            let wanted = *wanted.get_or_insert(state.rollbacks.total());
            let hopeless = !self.is_primary();
            (hopeless || state.rollbacks.done >= wanted).then_some(!hopeless)
        });
        ended.unwrap_or(false)
    }

    pub(crate) fn start_stream_rollbacks(self: &Arc<Connection>) -> io::Result<()> {
        let connection = self.clone();
        let thread = boundary::spawn("synod-streams", move || connection.roll_back_streams())?;
        self.keep_rollbacks(thread);
        Ok(())
    }

    fn roll_back_streams(&self) {
        loop {
            let next = self.wait_for(None, |state| {
                let next = state.rollbacks.first();
                (self.is_closing() || next.is_some()).then_some(next)
            });
            let Some(rollback) = next.flatten().filter(|_| !self.is_closing()) else {
                return;
            };
            if let Some(fragment) = &rollback.fragment {
                self.pass_fragment(fragment);
            }
            // The other members may have earlier fragments, even if that one was refused.
            self.order_rollback(rollback.trx);
            self.update(|state| state.rollbacks.finish_first());
        }
    }

    /// Waits for the result of a fragment that its client gave up: a rollback must come after it.
    fn pass_fragment(&self, fragment: &Pending) {
        if let ProposalResult::Ordered { seqno, .. } = fragment.wait_for_result() {
            self.sequencer.skip(seqno.0);
        }
    }

    fn order_rollback(&self, trx: u64) {
        let data = WriteSet {
            flags: WsFlags::ROLLBACK | WsFlags::PA_UNSAFE,
            note: Note::None,
            trx,
            conn: sys::WSREP_UNDEFINED_CONN_ID,
            data: Bytes::new(),
        }
        .encode();
        let ordered = self.order_alone(&data, || !self.is_closing());
        // If it was ordered and the answer was lost, a second one finds nothing to do.
        if let Some(seqno) = ordered {
            self.adopt(seqno, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollback_after_a_fragment_is_not_replaced_by_a_plain_one() {
        let mut queue = RollbackQueue::default();
        let fragment = Arc::new(Pending::default());
        queue.add(StreamRollback::after(7, fragment.clone()));
        queue.add(StreamRollback::of(7));
        assert_eq!(queue.total(), 1);
        assert!(queue.first().unwrap().fragment.is_some());
        queue.add(StreamRollback::of(8));
        queue.add(StreamRollback::after(8, fragment));
        assert_eq!(queue.total(), 3, "the fragment must pass, too");
    }

    #[test]
    fn total_counts_what_was_ordered_and_what_waits() {
        let mut queue = RollbackQueue::default();
        queue.add(StreamRollback::of(1));
        queue.add(StreamRollback::of(2));
        queue.finish_first();
        assert_eq!((queue.done, queue.total()), (1, 2));
        assert_eq!(queue.first().unwrap().trx, 2);
    }
}
