//! Whether the log has room for more of the upstream.
//!
//! A registered reader that is away holds the log until that is at its disk bound. Then the pull
//! stops, before the log is full: a full log takes nothing, and so not the order either that gives
//! the reader's place up, nor the note that the reader has caught up. With the policy to drop what
//! is held there is no need for that: a full log is purged.

use synod_node::{CommittedLog, FullLogPolicy};

use super::session::PullError;
use crate::upstream_log::tail::Tail;

/// The room of this relay's log.
#[derive(Clone)]
pub(crate) struct Room {
    pub(crate) log: CommittedLog,
    pub(crate) policy: FullLogPolicy,
    /// Size of the log's files, in bytes.
    pub(crate) segment_bytes: u64,
}

impl Room {
    /// Bytes of parts on their way at a time, at most; but one part always may be. When the pull
    /// stops for a registered reader, they get into the log, which must not be full then. It is
    /// full when it has two segments more than at its bound: one is prepared when the bound is
    /// passed, and half of one makes no more than another one.
    pub(super) fn on_their_way_max(&self, tail: &Tail) -> usize {
        match self.policy {
            FullLogPolicy::Wait if tail.has_registered_readers() => {
                usize::try_from(self.segment_bytes / 2).unwrap_or(usize::MAX)
            }
            FullLogPolicy::Wait | FullLogPolicy::Drop => usize::MAX,
        }
    }

    /// Whether something may be pulled now.
    ///
    /// # Errors
    /// A registered reader holds a log that is at its bound.
    pub(super) fn check(&self, tail: &Tail) -> Result<(), PullError> {
        let waits = match self.policy {
            FullLogPolicy::Wait => self.log.is_tight(),
            FullLogPolicy::Drop => false,
        };
        if !waits {
            return Ok(());
        }
        let before_log = self.log.first_seqno().prev();
        match tail.known().registry.slowest(before_log) {
            Some((server_id, _)) => Err(PullError::Held { server_id }),
            None => Ok(()),
        }
    }
}
