//! A process that the group has taken out while it ran does not come back: an operator removed its
//! member, or another member has its place. A later start may join again (decision 021).

use std::collections::{BTreeMap, BTreeSet};

use synod_consensus::{Config, EntryId, MemberId, SessionId};

use super::{Checked, require};

#[derive(Default)]
pub(crate) struct Removed {
    members: BTreeMap<EntryId, BTreeSet<MemberId>>,
    /// Processes that had joined when a leader took their members out.
    sessions: BTreeMap<MemberId, SessionId>,
}

impl Removed {
    /// A leader made a configuration; `before` is the entry of the one before it in its log.
    /// `joined` knows the process of a member, if it runs and has joined.
    pub(crate) fn made(
        &mut self,
        entry: EntryId,
        config: &Config,
        before: Option<EntryId>,
        joined: impl Fn(MemberId) -> Option<SessionId>,
    ) -> Checked {
        let members: BTreeSet<MemberId> = config.members.keys().copied().collect();
        let former = before.and_then(|before| self.members.get(&before));
        let former = former.unwrap_or(&members).clone();
        for id in former.difference(&members) {
            if let Some(session) = joined(*id) {
                self.sessions.insert(*id, session);
            }
        }
        let mut back = members.difference(&former).copied();
        let back = back.find(|id| {
            let session = self.sessions.get(id);
            session.is_some_and(|session| joined(*id) == Some(*session))
        });
        self.members.insert(entry, members);
        require(
            back.is_none(),
            "a removed process does not come back",
            || format!("{entry} has {back:?} again, whose process runs since before its removal"),
        )
    }
}
