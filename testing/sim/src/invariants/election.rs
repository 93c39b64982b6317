//! At most one leader per term (Raft, 5.2), which has everything committed in earlier terms (5.4.3),
//! and no other leader while a lease is valid.

use std::collections::BTreeMap;

use synod_consensus::{EntryHeader, EntryId, MemberId, Term};

use super::{Checked, require};

#[derive(Default)]
pub(crate) struct Election {
    leaders: BTreeMap<Term, MemberId>,
}

impl Election {
    /// Somebody takes `leader` for the leader of a term.
    pub(crate) fn leader(&mut self, term: Term, leader: MemberId) -> Checked {
        let known = *self.leaders.entry(term).or_insert(leader);
        require(known == leader, "one leader per term", || {
            format!("{known} and {leader} lead term {term}")
        })
    }

    /// Who leads, or led, a term.
    pub(crate) fn leader_of(&self, term: Term) -> Option<MemberId> {
        self.leaders.get(&term).copied()
    }

    /// A new leader's log against the entries committed so far, each with the term it was committed in.
    pub(crate) fn complete(
        term: Term,
        committed: &[(EntryHeader, Term)],
        has: impl Fn(EntryId) -> bool,
    ) -> Checked {
        // By log matching, whoever has the last of them has all.
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

    /// The member with this term holds a valid lease; `newest` is the term of the newest leader.
    pub(crate) fn lease(member: MemberId, term: Term, newest: Term) -> Checked {
        require(newest <= term, "no other leader during a lease", || {
            format!("{member} has a lease in term {term}, but term {newest} has a leader")
        })
    }
}
