//! Rollbacks of streamed transactions: asked for under locks of the server, so they are done by a
//! thread of their own. It lives as long as the connection.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_node::{Action, Class, KeySet, Pending, ProposalResult};
use wsrep_sys as sys;

use crate::api::{Status, WsFlags};
use crate::boundary;
use crate::connection::Connection;
use crate::transaction::write_set::WriteSet;

/// A rollback that was refused or lost is proposed again after so long.
const RETRY: Duration = Duration::from_millis(200);

/// A streamed transaction that is over without a commit.
#[derive(Clone, Debug)]
pub(crate) struct StreamEnd {
    trx: u64,
    /// Its last fragment, if its client did not wait for it.
    fragment: Option<Arc<Pending>>,
}

impl StreamEnd {
    /// All its fragments are known to be ordered, or refused.
    pub(crate) fn of(trx: u64) -> StreamEnd {
        StreamEnd {
            trx,
            fragment: None,
        }
    }

    /// The fate of its last fragment is not known yet.
    pub(crate) fn after(trx: u64, fragment: Arc<Pending>) -> StreamEnd {
        StreamEnd {
            trx,
            fragment: Some(fragment),
        }
    }
}

impl Connection {
    /// Has all members roll back a streamed transaction of this session. Returns at once. Refused
    /// when this server leaves: the others see that in the next view.
    pub(crate) fn end_stream(&self, end: StreamEnd) -> Status {
        if self.is_closing() {
            return Status::ConnFail;
        }
        self.update(|state| {
            let known = state
                .stream_ends
                .iter_mut()
                .find(|known| known.trx == end.trx);
            match known {
                // The one with a fragment in flight comes first, so nothing is lost.
                Some(known) if known.fragment.is_some() || end.fragment.is_none() => {}
                _ => state.stream_ends.push_back(end),
            }
        });
        Status::Ok
    }

    /// Waits until the rollbacks asked for so far are ordered; false on the deadline, or if this
    /// server leaves or has lost the group.
    pub(crate) fn wait_streams_ended(&self, deadline: Option<Instant>) -> bool {
        let mut wanted = None;
        let ended = self.wait_for(deadline, |state| {
            let asked_for = state.stream_ends_done + state.stream_ends.len() as u64;
            let wanted = *wanted.get_or_insert(asked_for);
            let hopeless = !self.is_primary();
            (hopeless || state.stream_ends_done >= wanted).then_some(!hopeless)
        });
        ended.unwrap_or(false)
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn start_stream_ends(self: &Arc<Connection>) -> io::Result<()> {
        let connection = self.clone();
        let thread = boundary::spawn("synod-streams", move || connection.end_streams())?;
        let mut slot = self
            .stream_ender
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *slot = Some(thread);
        Ok(())
    }

    fn end_streams(&self) {
        loop {
            let next = self.wait_for(None, |state| {
                let next = state.stream_ends.front().cloned();
                (self.is_closing() || next.is_some()).then_some(next)
            });
            let Some(end) = next.flatten().filter(|_| !self.is_closing()) else {
                return;
            };
            if let Some(fragment) = &end.fragment {
                self.pass_fragment(fragment);
            }
            // Earlier fragments may be with the others whatever became of that one.
            self.order_rollback(end.trx);
            self.update(|state| {
                state.stream_ends.pop_front();
                state.stream_ends_done += 1;
            });
        }
    }

    /// Waits for the fate of a fragment that its client gave up: a rollback must come after it.
    fn pass_fragment(&self, fragment: &Pending) {
        if let ProposalResult::Ordered { seqno, .. } = fragment.wait_for_result() {
            self.sequencer.skip(seqno.0);
        }
    }

    fn order_rollback(&self, trx: u64) {
        let data = WriteSet {
            flags: WsFlags::ROLLBACK | WsFlags::PA_UNSAFE,
            trx,
            conn: sys::WSREP_UNDEFINED_CONN_ID,
            data: Bytes::new(),
        }
        .encode();
        loop {
            self.wait_for(None, |_| {
                (self.is_closing() || self.is_primary()).then_some(())
            });
            let Some(node) = self.node().filter(|_| !self.is_closing()) else {
                return;
            };
            let action = Action {
                // Never refused, and alone.
                class: Class::Barrier,
                keys: KeySet::new(),
                last_seen: self.sequencer.released(),
                data: data.clone(),
            };
            if let ProposalResult::Ordered { seqno, .. } = node.submit(&action).wait_for_result() {
                return self.adopt(seqno.0, data);
            }
            // If it was ordered unknown to us, a second one finds nothing to do.
            let again = Instant::now() + RETRY;
            self.wait_for(Some(again), |_| self.is_closing().then_some(()));
        }
    }
}
