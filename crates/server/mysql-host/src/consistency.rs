//! Consistency levels of sessions, as `group_replication_consistency` names them: the position that
//! a transaction sees at least, and whether its commit waits for the other servers.
//!
//! ```text
//! EVENTUAL                    nothing waits
//! BEFORE_ON_PRIMARY_FAILOVER  at a server that is about to be the writer: all before its time
//! BEFORE                      all that was acknowledged anywhere before the transaction began
//! AFTER                       as BEFORE_ON_PRIMARY_FAILOVER, and its commit is acknowledged once
//!                             all present servers have applied it
//! ```
//! A server that takes no part in its group answers none of the last two: it may lack what others
//! have been told.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use synod_node::{CommitWait, DataState, LiveSetting, Seqno, WritePermission};

use crate::clients::Statement;
use crate::host::Member;
use crate::status::Stage;

/// Between two looks whether the statement of a waiting client is killed.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A leader is permitted to write long before, or has lost its group again.
const PERMISSION_FOLLOWS: Duration = Duration::from_secs(2);

/// Transactions whose level asks for a position that the group does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PositionError {
    #[error(
        "this server takes no part in its group, or does not have yet what that had committed when \
         it joined"
    )]
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
            self.must_take_part()?;
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

    /// Whether transactions may rely on what this server shows.
    pub(crate) fn must_take_part(&self) -> Result<(), PositionError> {
        let state = self.lock();
        let takes_part = state.stage == Stage::Following && state.data == DataState::Synced;
        takes_part.then_some(()).ok_or(PositionError::NoPart)
    }

    /// The position from which this server takes writes, while it does not yet; none: it is not
    /// about to be the writer.
    pub(crate) fn position_of_new_writer(
        &self,
        statement: &dyn Statement,
    ) -> Result<Option<Seqno>, PositionError> {
        let mut state = self.lock();
        loop {
            match state.permission {
                WritePermission::Here { after } if state.is_open != Some(true) => {
                    return Ok(Some(after));
                }
                // Tools show it as the primary already.
                WritePermission::Elsewhere { .. }
                    if state
                        .elected
                        .is_some_and(|at| at.elapsed() < PERMISSION_FOLLOWS)
                        && !state.is_stopping => {}
                WritePermission::Here { .. }
                | WritePermission::Elsewhere { .. }
                | WritePermission::Everywhere => return Ok(None),
            }
            if statement.is_killed() {
                return Err(PositionError::Killed);
            }
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
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
