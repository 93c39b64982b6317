//! A look into a driver, for metrics and checkers.

use synod_consensus::{Core, GroupId, LogIndex, MemberId, Seqno};

use super::Driver;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Payload bytes of newest entries.
    pub entry_cache_bytes: usize,
    /// Proposals that wait for room in this leader's log.
    pub deferred: usize,
    pub submitted: usize,
    pub certification_bytes: usize,
    /// First chunk of any action that is partial or not committed: the log keeps it.
    pub partial_actions_from: Option<LogIndex>,
    /// Up to where the log may be purged if it is full, as far as this member knows.
    pub purge_limit: LogIndex,
}

impl Driver {
    pub fn core(&self) -> &Core {
        &self.ctx.core
    }

    /// The group this member belongs to; `NONE` until it has found one.
    pub fn group(&self) -> GroupId {
        self.ctx.identity.group
    }

    /// Whether this process takes part in its group, or did so before.
    pub fn has_joined(&self) -> bool {
        self.membership.join.has_joined()
    }

    /// Leader only: members that asked to leave and still vote; they may have gone already.
    pub fn leavers(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.membership.presence.leavers().keys().copied()
    }

    /// Start of the certification window: a verdict never depends on earlier actions.
    pub fn certified_from(&self) -> Seqno {
        self.ctx.certification.window_start()
    }

    /// Databases that commits of this member's clients do not wait for, because they were too slow.
    pub fn excluded_databases(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.commit_wait.excluded()
    }

    /// Members of which a message has come, or that have a grace period as the leader knows.
    pub fn heard_members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.membership.presence.heard_members()
    }

    pub fn refused_messages(&self) -> u64 {
        self.authorization.refused.count()
    }

    /// The member that has sent entries last, of those that this member's log lacks. None: nothing
    /// was fetched, or no member has any.
    pub fn fetches_from(&self) -> Option<MemberId> {
        self.catch_up.fetching.search.source()
    }

    pub fn load(&self) -> Load {
        Load {
            entry_cache_bytes: self.ctx.own_log.cached_bytes(),
            deferred: self.proposals.ordering.waiting(),
            submitted: self.proposals.local.len(),
            certification_bytes: self.ctx.certification.memory_bytes(),
            partial_actions_from: self.ctx.certification.partial_actions().first_chunk(),
            purge_limit: self.purge_policy.known_purge_limit(),
        }
    }
}
