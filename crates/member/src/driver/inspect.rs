//! A look into a driver, for metrics and checkers.

use synod_consensus::{Core, GroupId, LogIndex, MemberId, Seqno};

use super::Driver;

/// What grows with the load, and is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Payload bytes of newest entries.
    pub entry_cache_bytes: usize,
    /// Proposals that wait for room in this leader's log.
    pub deferred: usize,
    /// Proposals of this member whose outcome is not known.
    pub submitted: usize,
    /// Bytes of the certification index, about.
    pub certification_bytes: usize,
    /// First chunk of any action that is not complete, or not committed: the log keeps it.
    pub partial_actions_from: Option<LogIndex>,
    /// What the log may drop if it has to, as far as this member was told.
    pub purge_limit: LogIndex,
}

impl Driver {
    /// The protocol's state.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The group this member belongs to; `NONE` until it has found one.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// As a leader: members that asked to leave and still vote; they need not be there any more.
    pub fn leavers(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.membership.presence.leavers().keys().copied()
    }

    /// Start of the certification window: a verdict never depends on what was before.
    pub fn certified_from(&self) -> Seqno {
        self.ingest.window_start()
    }

    /// See [`Load`].
    pub fn load(&self) -> Load {
        Load {
            entry_cache_bytes: self.entry_cache.bytes(),
            deferred: self.deferred.len(),
            submitted: self.submitted.len(),
            certification_bytes: self.ingest.memory_bytes(),
            partial_actions_from: self.ingest.partial_actions().first_chunk(),
            purge_limit: self.retention.purge_limit(),
        }
    }
}
