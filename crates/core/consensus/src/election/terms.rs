//! Limits on the terms in messages: which a message may name, and which this member adopts.
//!
//! A term that was adopted is on disk for ever, and elections only go up. If a message could bring
//! any term, one with the last term would leave the group without elections, also after a restart
//! of all members. So every message leaves room above the term that it brings:
//!
//! - up to [`NEAR_TERMS`] above the own term: as elections raise it;
//! - further, up to [`LEAP_TERMS`] above the own term and up to [`LEAP_MAX`]: a *leap*. A forced
//!   primary makes one ([`crate::Core::force`]), and so does a repaired log of which the promises
//!   are lost;
//! - as far as [`LEADER_LEAP_MAX`], if a leader says so (an append, a heartbeat, or a base): a
//!   member that was down while others were forced again and again follows at once.
//!
//! Leaps are rare, so a member makes at most one within the shortest election timeout. A peer that
//! names ever higher terms would have to do so for months, and a leader that a member has to follow
//! repeats itself.
//!
//! Raft (section 5.1) adopts any higher term. A message that is refused here counts as lost.

use crate::core::Core;
use crate::message::{Body, Message};
use crate::types::Term;

/// Terms above the own one that are no leap. More than elections come to while a member is away for
/// a moment; a member that was away for longer makes a leap.
const NEAR_TERMS: u64 = 1 << 10;

/// The farthest leap that any message may bring: as far as 32 forced primaries in a row.
const LEAP_TERMS: u64 = 1 << 40;

/// No leap leads to a higher term: as many terms again are left for elections.
const LEAP_MAX: Term = Term(1 << 62);

/// The highest term to which a leader may bring a member in one leap. Millions of forced primaries
/// are needed to get there, and there is room for millions more.
const LEADER_LEAP_MAX: Term = Term(1 << 60);

/// No message may name a higher term.
const TERM_MAX: Term = Term(u64::MAX / 2);

impl Core {
    /// Whether a message may name its term. A pre-vote and the consent to one do not raise the term
    /// of the member that receives them.
    pub(crate) fn may_name_term(&self, message: &Message) -> bool {
        let term = message.term;
        if term == Term(0) || term > TERM_MAX {
            return false;
        }
        match message.body {
            Body::PreVote { .. } | Body::PreVoteReply { granted: true } => true,
            _ if !self.is_leap(term) => true,
            Body::Append(_) | Body::Heartbeat { .. } | Body::InstallBase { .. }
                if term <= LEADER_LEAP_MAX =>
            {
                self.may_leap()
            }
            _ => {
                let farthest = self.hard.term.0.saturating_add(LEAP_TERMS);
                term <= LEAP_MAX && term.0 <= farthest && self.may_leap()
            }
        }
    }

    fn is_leap(&self, term: Term) -> bool {
        term.0 > self.hard.term.0.saturating_add(NEAR_TERMS)
    }

    fn may_leap(&self) -> bool {
        self.now >= self.next_leap_at
    }

    /// The member is about to adopt this term.
    pub(crate) fn note_leap(&mut self, term: Term) {
        if self.is_leap(term) {
            self.next_leap_at = self.now.plus_us(self.timing.election_timeout_min_us);
        }
    }
}
