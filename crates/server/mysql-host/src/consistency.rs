//! Consistency levels of sessions, as `group_replication_consistency` names them: the position that
//! a transaction sees at least, and whether its commit waits for the other servers.
//!
//! ```text
//! EVENTUAL                    nothing waits
//! BEFORE_ON_PRIMARY_FAILOVER  at a server that is about to be the writer: all before its time
//! BEFORE                      all that was acknowledged anywhere before the transaction began
//! AFTER                       its commit is acknowledged once all present servers have applied it
//! ```

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use synod_node::{CommitWait, LiveSetting, Seqno, WritePermission};

use crate::clients::Statement;
use crate::host::Member;
use crate::status::Stage;

/// Between two looks whether the statement of a waiting client is killed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Transactions whose level asks for a position that the group does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PositionError {
    #[error("this server takes no part in its group")]
    NoPart,
    #[error("the group has no majority, or its leader is not heard")]
    NotInTime,
    #[error("the statement is killed")]
    Killed,
}

impl Member {
    /// The position that a transaction of level BEFORE sees at least: everything acknowledged by
    /// any server before this call is at or below it.
    pub(crate) fn latest_position(
        &self,
        limit: Duration,
        statement: &dyn Statement,
    ) -> Result<Seqno, PositionError> {
        let end = Instant::now().checked_add(limit);
        loop {
            if self.lock().stage != Stage::Following {
                return Err(PositionError::NoPart);
            }
            if let Some(seqno) = self.node().read_position(LOOK_EVERY) {
                return Ok(seqno);
            }
            if statement.is_killed() {
                return Err(PositionError::Killed);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(PositionError::NotInTime);
            }
        }
    }

    /// The position from which this server takes writes, while it does not yet; none: it is not
    /// about to be the writer.
    pub(crate) fn position_of_new_writer(&self) -> Option<Seqno> {
        let state = self.lock();
        match state.permission {
            WritePermission::Here { after } if state.is_open != Some(true) => Some(after),
            _ => None,
        }
    }

    /// Has the group say how far the other databases are. Actions that are handed over later find
    /// it in force: the node takes both in this order.
    pub(crate) fn ask_for_other_databases(&self) {
        if !self.knows_others.swap(true, Ordering::AcqRel) {
            self.node()
                .set(LiveSetting::CommitWait(CommitWait::Applied));
        }
    }

    /// Waits until all present databases have `seqno`. Ends without that when the statement is
    /// killed, the group loses its majority, or the member stops: the transaction is committed in
    /// any case.
    pub(crate) fn await_others(&self, seqno: Seqno, statement: &dyn Statement) {
        let mut state = self.lock();
        while state.others_applied < seqno && !state.is_stopping && !statement.is_killed() {
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
