//! The rules for a member whose log was damaged and has lost its end.
//!
//! Source: the problem and its name are those of Alagappan et al., "Protocol-Aware Recovery for
//! Consensus-Based Storage" (FAST 2018). A node that removes a damaged entry and continues (the
//! approach they call "truncate") can help to elect a leader that lacks a committed entry. Their
//! local storage layer keeps the identity of an entry apart from its data, so that the node still
//! knows which entries it has acknowledged. Here the *mark* serves: the last entry that the log
//! held, or may have held.
//!
//! Rules, until the member's own durable log reaches the mark in the order of elections (term, then
//! index):
//!
//! 1. The member does not become a candidate: it could not serve what it has lost.
//! 2. It grants votes and pre-votes only to candidates whose log reaches the mark, too. A member
//!    with its log whole gives the same vote (Raft, section 5.4.1 looks only at the last entry).
//!    This rule also lets a group continue of which a majority is damaged, as long as one member
//!    has everything.
//! 3. It takes entries and acknowledges what its disk holds, like every member: an acknowledgement
//!    is true. Entries that it acknowledged before and lost may still be counted as its own; rule 2
//!    makes that harmless.
//!
//! Why the repair may end at the mark. Let *e* be a committed entry that this member acknowledged,
//! in the log of the leader of term *U*, before the damage. The lost log ended at the mark or
//! before it, and held *e* (a committed entry is never truncated), so *e* is not above the mark.
//! The member's term never decreases (where the vote record is lost, the log layer puts a term out
//! of reach in its place). So the member has since followed only leaders of terms at or above *U*,
//! and their logs have *e* (by leader completeness; for *U* itself because its leader appended
//! *e*). When the member's log ends at *m*, at or above the mark, such a leader has sent *m*, and
//! everything before *m* is the same as in that leader's log (log matching). Suppose that *e* came
//! after *m* in that log. Then the term of *e* would be at least that of *m*. But *e* is not above
//! *m*, so their terms are equal and the index of *e* is not higher: a contradiction. Hence the
//! member holds *e* again.
//!
//! Why a leader need not know who is under repair when it changes the voters. The leader counts on
//! a member that has answered it in its term. So that member's mark is of an earlier term, or an
//! entry of this leader's own log. The new configuration is an entry of this leader's term, after
//! all those. A candidate whose log contains the new configuration also reaches the mark, so it
//! gets the vote. A candidate that lacks it counts votes by the old configuration. Damage that a
//! member has not found yet is no different from damage that comes later.

use synod_planted::planted;

use crate::core::Core;
use crate::types::EntryId;

impl Core {
    /// The entry that a log under repair has to reach to count as whole. `None`: it is.
    pub fn repairing_until(&self) -> Option<EntryId> {
        self.repair
    }

    /// Whether a candidate's log is at least as complete as this member's is (by the last *entry*;
    /// Raft, section 5.4.1), and as it was before the damage.
    pub(crate) fn is_up_to_date(&self, candidate: EntryId) -> bool {
        let mark = planted!(
            VoteUnderRepair,
            self.repair.unwrap_or_default(),
            else EntryId::default()
        );
        planted!(
            VoteForShorterLog,
            candidate >= self.log.last().max(mark),
            else true
        )
    }

    pub(crate) fn check_repaired(&mut self) {
        let index = self.durability.index();
        let Some(term) = self.log.term_at(index) else {
            return;
        };
        self.repair = self.repair.filter(|until| EntryId { term, index } < *until);
    }
}
