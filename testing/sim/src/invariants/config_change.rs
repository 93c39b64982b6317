//! At most one configuration is uncommitted, and successive ones differ by one voter at most (Raft
//! dissertation, 4.1).
//!
//! The configuration that a forced primary makes is exempt.

use std::collections::{BTreeMap, BTreeSet};

use synod_consensus::{Config, EntryId, LogIndex, MemberId};

use super::versions::Protocol;
use super::{Checked, require};

#[derive(Default)]
pub(crate) struct ConfigChanges {
    voters: BTreeMap<EntryId, BTreeSet<MemberId>>,
    protocols: BTreeMap<EntryId, Protocol>,
}

impl ConfigChanges {
    /// Protocol version stated by this configuration.
    pub(crate) fn protocol(&self, entry: EntryId) -> Option<Protocol> {
        self.protocols.get(&entry).copied()
    }

    /// The voters of a configuration that a leader has made.
    pub(crate) fn voters(&self, entry: EntryId) -> Option<&BTreeSet<MemberId>> {
        self.voters.get(&entry)
    }

    /// A leader made a configuration. `before` is the entry of the one before it in its log; `None`
    /// for the first one. Entries up to `committed` are committed.
    pub(crate) fn made(
        &mut self,
        entry: EntryId,
        config: &Config,
        before: Option<EntryId>,
        committed: LogIndex,
    ) -> Checked {
        self.protocols.insert(entry, Protocol::of(config));
        let voters: BTreeSet<MemberId> = config.voters().collect();
        let Some(before) = before else {
            self.voters.insert(entry, voters);
            return Ok(());
        };
        require(
            before.index <= committed,
            "one uncommitted configuration",
            || format!("{entry} changes the configuration while that of {before} is not committed"),
        )?;
        let altered = match self.voters.get(&before) {
            Some(old) => old.symmetric_difference(&voters).count(),
            None => 0,
        };
        self.voters.insert(entry, voters);
        require(altered <= 1, "one voter changes at a time", || {
            format!("{entry} alters {altered} voters of {before}")
        })
    }
}
