//! A member whose log was damaged and has lost its end.
//!
//! Source: the problem and its name are those of Alagappan et al., "Protocol-Aware Recovery for
//! Consensus-Based Storage" (FAST 2018): a node that just cuts off a damaged entry and goes on (the
//! approach they call "truncate") can elect a leader that lacks a committed one. In their local storage
//! layer the identity of an entry is kept apart from its data, so that the node still knows what it has
//! to answer for. So here: the *mark* is the last entry that the log held, or may have held.
//!
//! Rules, until the own durable log reaches the mark in the order of elections (term, then index):
//!
//! 1. The member does not stand: it could not serve what it has lost.
//! 2. It grants votes and pre-votes only to candidates whose log reaches the mark, too. That is the vote
//!    it would have given with its log whole (Raft, section 5.4.1 looks at nothing but the last entry).
//!    It is also what lets a group go on in which a majority is damaged, as long as one
//!    member has everything.
//! 3. It takes entries and acknowledges what its disk holds, as ever: an acknowledgement is true. What it
//!    acknowledged before and lost may still be counted, and rule 2 is why that does no harm.
//!
//! Why the repair may end there. Let *e* be a committed entry that this member acknowledged, in the log
//! of the leader of term *U*, before the damage. The lost log ended at the mark or before, and held *e*
//! (a committed entry is never cut), so *e* is not above the mark. The member's term never goes
//! back (a lost vote record is made up for by a term out of reach, see `synod-log`), so it has since
//! followed leaders of terms at or above *U* only, whose logs have *e* (leader completeness; for *U*
//! itself because its leader appended *e*). When its log ends at *m*, at or above the mark, that was sent by such
//! a leader, and everything before it is the same as in that leader's log (log matching). Were *e*
//! behind *m* there, its term would be at least *m*'s; but *e* is not above *m*: so their terms are equal
//! and the index of *e* is not higher, which contradicts. Hence the member holds *e* again.
//!
//! Why a leader need not know who is under repair when it changes the voters. It counts on a member that has
//! answered it in its term, so that member's mark is of an earlier term, or an entry of this leader's own log. The
//! new configuration is an entry of this leader's term, after all that. A candidate that has it reaches the
//! mark and gets the vote; one that has it not does not go by it. Damage that its member has not met yet is
//! no different from damage that comes later.

use crate::core::Core;
use crate::types::EntryId;

impl Core {
    /// The entry that this member's log has to reach again before it counts as whole; `None` if it does.
    /// See the module.
    pub fn repairing_until(&self) -> Option<EntryId> {
        self.repair
    }

    /// Whether a candidate's log is at least as complete as ours (by the last *entry*; Raft, 5.4.1), or as
    /// ours was before it was damaged.
    pub(crate) fn is_up_to_date(&self, candidate: EntryId) -> bool {
        let mark = match synod_planted::is(synod_planted::Bug::VoteUnderRepair) {
            true => EntryId::default(),
            false => self.repair.unwrap_or_default(),
        };
        candidate >= self.log.last().max(mark)
            || synod_planted::is(synod_planted::Bug::VoteForShorterLog)
    }

    /// Ends the repair if the durable log has got far enough.
    pub(crate) fn check_repaired(&mut self) {
        let index = self.durability.index();
        let Some(term) = self.log.term_at(index) else {
            return;
        };
        self.repair = self.repair.filter(|until| EntryId { term, index } < *until);
    }
}
