//! At most one leader per term (Raft, 5.2). It has everything committed in earlier terms (Raft,
//! 5.4.3).

use std::collections::BTreeMap;

use synod_consensus::{EntryHeader, EntryId, MemberId, Term};

use super::{Checked, require};

#[derive(Default)]
pub(crate) struct Election {
    leaders: BTreeMap<Term, MemberId>,
}

impl Election {
    /// A member takes `leader` for the leader of a term.
    pub(crate) fn leader(&mut self, term: Term, leader: MemberId) -> Checked {
        let known = *self.leaders.entry(term).or_insert(leader);
        require(known == leader, "one leader per term", || {
            format!("{known} and {leader} lead term {term}")
        })
    }

    /// The leader of a term, if it has or had one.
    pub(crate) fn leader_of(&self, term: Term) -> Option<MemberId> {
        self.leaders.get(&term).copied()
    }

    /// A new leader's log against the entries committed so far, each with the term it was committed
    /// in.
    pub(crate) fn complete(
        term: Term,
        committed: &[(EntryHeader, Term)],
        has: impl Fn(EntryId) -> bool,
    ) -> Checked {
        // By log matching, a log that has the last of them has all of them.
        let earlier = committed.iter().rev().find(|(_, by)| *by < term);
        let missing = earlier
            .map(|(header, _)| header.id())
            .filter(|id| !has(*id));
        require(
            missing.is_none(),
            "a leader has everything committed",
            || format!("the leader of term {term} lacks {missing:?}"),
        )
    }
}
