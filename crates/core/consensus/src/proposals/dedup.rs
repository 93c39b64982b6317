//! Deduplication of proposals at the leader: recognises those that it has already seen in its term.
//! The driver asks before it certifies a proposal, and reports whether it was appended or refused.
//! Nothing here is durable: a new leader starts empty, and tags keep proposals of older terms away
//! from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_planted::planted;

use crate::types::{MemberId, Origin, SessionId, Term};

/// Most numbers remembered per session above those that its origin has acknowledged.
const NUMBERS_MAX: usize = 65_536;
/// Most live sessions of one member (an old one may end while a new one starts).
const LIVE_SESSIONS_MAX: usize = 4;
/// Most ended sessions of one member that are remembered as ended.
const ENDED_SESSIONS_MAX: usize = 1024;
/// Most members with sessions.
const MEMBERS_MAX: usize = 1024;

/// Recognises a (member, session, number) seen before in this leader's term, so that a proposal
/// sent twice within a term is ordered once. Across terms the tag does that (see
/// [`crate::Outbox`]).
///
/// Gaps are legal. The first number seen in a term is arbitrary, because older ones were committed
/// in an earlier term or given up. Numbers in between may never arrive. So this is a set of recent
/// numbers per session, not a counter. The origin's acknowledgement, "nothing below n is
/// outstanding", raises a floor, and every number below the floor counts as seen. If an origin
/// acknowledges nothing for 65,536 numbers, the floor rises by itself. A number below it is never
/// ordered twice; at worst it is not ordered before the next term.
#[derive(Debug, Default)]
pub struct ProposalDedup {
    term: Term,
    members: BTreeMap<MemberId, MemberSessions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupVerdict {
    /// Not seen in this term: certify it, append or refuse it, and report which.
    New,
    /// Meant for another term's leader, or too many members propose: ignore it. The origin sends it
    /// again after the change of term.
    WrongTerm,
    /// Already in the log, or no longer outstanding at its origin: ignore it.
    AlreadyAppended,
    /// Refused before: send the refusal again.
    AlreadyRefused,
}

#[derive(Debug, Default)]
struct MemberSessions {
    live: VecDeque<(SessionId, SeenNumbers)>,
    /// Oldest first: their numbers all count as seen.
    ended: VecDeque<SessionId>,
}

/// Invariant: all numbers in the sets are at or above `floor`.
#[derive(Debug, Default)]
struct SeenNumbers {
    floor: u64,
    appended: BTreeSet<u64>,
    refused: BTreeSet<u64>,
}

impl ProposalDedup {
    /// A table that accepts nothing before [`ProposalDedup::new_term`].
    pub fn new() -> ProposalDedup {
        ProposalDedup::default()
    }

    /// This member leads a new term: begins without any knowledge of earlier ones.
    pub fn new_term(&mut self, term: Term) {
        self.term = term;
        self.members.clear();
    }

    pub fn check(&mut self, tag: Term, origin: Origin) -> DedupVerdict {
        if synod_planted::is(synod_planted::Bug::ResendWithoutDedup) && tag == self.term {
            return DedupVerdict::New;
        }
        let is_stale = planted!(AcceptStaleProposal, tag != self.term, else false);
        if is_stale || tag == Term(0) || origin.number == 0 {
            return DedupVerdict::WrongTerm;
        }
        let Some(member) = self.members.get(&origin.member) else {
            let full = self.members.len() >= MEMBERS_MAX;
            return if full {
                DedupVerdict::WrongTerm
            } else {
                DedupVerdict::New
            };
        };
        if member.ended.contains(&origin.session) {
            return DedupVerdict::AlreadyAppended;
        }
        match member
            .live
            .iter()
            .find(|(session, _)| *session == origin.session)
        {
            Some((_, seen)) => seen.check(origin.number),
            None => DedupVerdict::New,
        }
    }

    pub fn appended(&mut self, origin: Origin) {
        if let Some(seen) = self.seen(origin.member, origin.session) {
            seen.note(origin.number, false);
        }
    }

    pub fn refused(&mut self, origin: Origin) {
        if let Some(seen) = self.seen(origin.member, origin.session) {
            seen.note(origin.number, true);
        }
    }

    /// The origin has no outstanding number below `oldest_outstanding`.
    pub fn acknowledged(&mut self, member: MemberId, session: SessionId, oldest_outstanding: u64) {
        let known = self.members.get_mut(&member).map(|member| &mut member.live);
        let seen = known.and_then(|live| live.iter_mut().find(|(id, _)| *id == session));
        if let Some((_, seen)) = seen {
            seen.raise_floor(oldest_outstanding);
        }
    }

    fn seen(&mut self, member: MemberId, session: SessionId) -> Option<&mut SeenNumbers> {
        if !self.members.contains_key(&member) && self.members.len() >= MEMBERS_MAX {
            return None;
        }
        self.members.entry(member).or_default().session(session)
    }
}

impl MemberSessions {
    fn session(&mut self, session: SessionId) -> Option<&mut SeenNumbers> {
        if self.ended.contains(&session) {
            return None;
        }
        let position = self.live.iter().position(|(id, _)| *id == session);
        let position = position.unwrap_or_else(|| self.open(session));
        self.live.get_mut(position).map(|(_, seen)| seen)
    }

    /// One live session too many means that the oldest has ended long ago.
    fn open(&mut self, session: SessionId) -> usize {
        if self.live.len() >= LIVE_SESSIONS_MAX {
            self.ended.extend(self.live.pop_front().map(|(id, _)| id));
            if self.ended.len() > ENDED_SESSIONS_MAX {
                self.ended.pop_front();
            }
        }
        self.live.push_back((session, SeenNumbers::default()));
        self.live.len() - 1
    }
}

impl SeenNumbers {
    fn check(&self, number: u64) -> DedupVerdict {
        if self.refused.contains(&number) {
            DedupVerdict::AlreadyRefused
        } else if number < self.floor || self.appended.contains(&number) {
            DedupVerdict::AlreadyAppended
        } else {
            DedupVerdict::New
        }
    }

    fn note(&mut self, number: u64, refused: bool) {
        if number < self.floor {
            return;
        }
        let set = if refused {
            &mut self.refused
        } else {
            &mut self.appended
        };
        set.insert(number);
        if self.appended.len() + self.refused.len() > NUMBERS_MAX {
            let lowest = [self.appended.first(), self.refused.first()]
                .into_iter()
                .flatten()
                .min();
            let above_lowest = lowest.map_or(self.floor, |number| number.saturating_add(1));
            self.raise_floor(above_lowest);
        }
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        self.appended = self.appended.split_off(&floor);
        self.refused = self.refused.split_off(&floor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Term = Term(3);

    fn origin(session: u64, number: u64) -> Origin {
        Origin::new(MemberId(1), SessionId(session), number)
    }

    fn dedup() -> ProposalDedup {
        let mut dedup = ProposalDedup::new();
        dedup.new_term(TERM);
        dedup
    }

    #[test]
    fn proposals_of_other_terms_are_ignored() {
        let mut dedup = ProposalDedup::new();
        assert_eq!(dedup.check(Term(0), origin(1, 1)), DedupVerdict::WrongTerm);
        dedup.new_term(TERM);
        assert_eq!(dedup.check(Term(2), origin(1, 1)), DedupVerdict::WrongTerm);
        assert_eq!(dedup.check(Term(4), origin(1, 1)), DedupVerdict::WrongTerm);
        assert_eq!(dedup.check(TERM, origin(1, 1)), DedupVerdict::New);
    }

    #[test]
    fn numbers_are_recognised_whatever_the_gaps() {
        let mut dedup = dedup();
        dedup.appended(origin(1, 17));
        dedup.refused(origin(1, 20));
        assert_eq!(
            dedup.check(TERM, origin(1, 17)),
            DedupVerdict::AlreadyAppended
        );
        assert_eq!(
            dedup.check(TERM, origin(1, 20)),
            DedupVerdict::AlreadyRefused
        );
        assert_eq!(dedup.check(TERM, origin(1, 18)), DedupVerdict::New);
        assert_eq!(dedup.check(TERM, origin(1, 5)), DedupVerdict::New);
        assert_eq!(dedup.check(TERM, origin(2, 17)), DedupVerdict::New);
    }

    #[test]
    fn below_the_acknowledged_mark_everything_counts_as_seen() {
        let mut dedup = dedup();
        dedup.appended(origin(1, 4));
        dedup.acknowledged(MemberId(1), SessionId(1), 10);
        assert_eq!(
            dedup.check(TERM, origin(1, 9)),
            DedupVerdict::AlreadyAppended
        );
        assert_eq!(dedup.check(TERM, origin(1, 10)), DedupVerdict::New);
        dedup.acknowledged(MemberId(1), SessionId(1), 2);
        assert_eq!(
            dedup.check(TERM, origin(1, 9)),
            DedupVerdict::AlreadyAppended
        );
    }

    #[test]
    fn new_term_starts_empty() {
        let mut dedup = dedup();
        dedup.appended(origin(1, 4));
        dedup.new_term(Term(9));
        assert_eq!(dedup.check(Term(9), origin(1, 4)), DedupVerdict::New);
    }

    #[test]
    fn memory_is_bounded() {
        let mut dedup = dedup();
        for number in 1..=NUMBERS_MAX as u64 + 10 {
            dedup.appended(origin(1, number));
        }
        let seen = &dedup.members[&MemberId(1)].live[0].1;
        assert_eq!(seen.appended.len(), NUMBERS_MAX);
        assert_eq!(
            dedup.check(TERM, origin(1, 3)),
            DedupVerdict::AlreadyAppended
        );

        for session in 2..2 + LIVE_SESSIONS_MAX as u64 {
            dedup.appended(origin(session, 1));
        }
        assert_eq!(dedup.members[&MemberId(1)].live.len(), LIVE_SESSIONS_MAX);
        assert_eq!(
            dedup.check(TERM, origin(1, 999_999_999)),
            DedupVerdict::AlreadyAppended
        );
    }
}
