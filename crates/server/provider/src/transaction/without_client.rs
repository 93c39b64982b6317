//! Actions that no client waits for: a thread of the connection has them ordered.

use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_node::{Action, Class, KeySet, ProposalResult};

use crate::connection::Connection;

/// Time from an action that was refused or lost to the next attempt.
const RETRY: Duration = Duration::from_millis(200);

impl Connection {
    /// Has the group order an action that is never refused, and alone; its seqno. Waits for a
    /// primary, and tries again until it succeeds: the action may be ordered more than once. None
    /// if `may_order` says no before an attempt, or the connection closes.
    pub(super) fn order_alone(&self, data: &Bytes, may_order: impl Fn() -> bool) -> Option<i64> {
        loop {
            self.wait_for(None, |_| {
                (self.is_closing() || self.is_primary()).then_some(())
            });
            let node = self.node().filter(|_| may_order())?;
            let action = Action {
                class: Class::Barrier,
                keys: KeySet::new(),
                last_seen: self.sequencer.released(),
                data: data.clone(),
            };
            if let ProposalResult::Ordered { seqno, .. } = node.submit(&action).wait_for_result() {
                return Some(seqno.0);
            }
            if self.is_closing() {
                return None;
            }
            let again = Instant::now() + RETRY;
            self.wait_for(Some(again), |_| self.is_closing().then_some(()));
        }
    }
}
