//! Outbox of the origin: the proposals of a session, until the result of each is known. It holds
//! numbers; payloads stay with the driver.

use std::collections::BTreeSet;

use crate::types::{EntryHeader, MemberId, SessionId, Term};

/// The proposals of this session whose result is not known yet.
///
/// Rules (Raft dissertation, section 6.3, adapted to origins that are members and see the log):
///
/// 1. A proposal is sent to the leader of term T, tagged T. A leader ignores other tags, so a
///    message of an old term never orders anything in a new one.
/// 2. After a change of term nothing is sent until the first entry of the new term is committed *in
///    this member's own log*. All entries of older terms that survived precede it, and have been
///    reported by [`Outbox::committed`]; all others can never commit (Raft, sections 5.4.2 and
///    5.4.3). What is still outstanding is sent again, in the order of numbers. A log whose base is
///    of the new term has such a commit already: see [`Outbox::log_starts_after`].
/// 3. Within a term the leader recognises numbers (see [`crate::ProposalDedup`]), so sending again
///    after a broken connection orders nothing twice.
/// 4. A refusal counts only in the term the proposal was last sent in: one of an older term may
///    arrive after the proposal was sent to a new leader, which may have appended it.
/// 5. Rule 2 needs a log without holes: see [`Outbox::log_reset`].
///
/// Invariant: outstanding numbers below `unsent_from` were sent in the current term, the others
/// not.
#[derive(Debug)]
pub struct Outbox {
    member: MemberId,
    session: SessionId,
    /// Number of the newest proposal; zero: none.
    last_number: u64,
    outstanding: BTreeSet<u64>,
    /// Lowest number that may not have been sent in the current term.
    unsent_from: u64,
    term: Term,
    leader: Option<MemberId>,
    /// Term of the latest committed entry of the own log.
    committed_term: Term,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendProposal {
    pub to: MemberId,
    pub tag: Term,
    pub number: u64,
}

impl Outbox {
    pub fn new(member: MemberId, session: SessionId) -> Outbox {
        Outbox {
            member,
            session,
            last_number: 0,
            outstanding: BTreeSet::new(),
            unsent_from: 1,
            term: Term(0),
            leader: None,
            committed_term: Term(0),
        }
    }

    pub fn submit(&mut self) -> u64 {
        self.last_number += 1;
        self.outstanding.insert(self.last_number);
        self.last_number
    }

    /// The term, or what is known of its leader, changed. Older terms are ignored.
    pub fn leader_changed(&mut self, term: Term, leader: Option<MemberId>) {
        if term < self.term {
            return;
        }
        if term > self.term {
            self.term = term;
            self.unsent_from = 0;
        }
        self.leader = leader;
    }

    /// The connection to the leader was established again: what was sent in this term may be lost,
    /// so everything outstanding is sent again.
    pub fn reconnected(&mut self) {
        self.unsent_from = 0;
    }

    /// Has to be called for every committed entry, in order. `Some(number)`: that proposal of this
    /// session has its result.
    pub fn committed(&mut self, header: &EntryHeader) -> Option<u64> {
        self.committed_term = self.committed_term.max(header.term);
        let origin = header.origin;
        if origin.member != self.member || origin.session != self.session {
            return None;
        }
        self.outstanding
            .remove(&origin.number)
            .then_some(origin.number)
    }

    /// True if the refusal is the result. False if the proposal is not outstanding, or was last
    /// sent in another term.
    pub fn refused(&mut self, term: Term, number: u64) -> bool {
        let is_current = term == self.term;
        is_current && number < self.unsent_from && self.outstanding.remove(&number)
    }

    /// The proposal is never sent again, and its result may stay unknown.
    pub fn forget(&mut self, number: u64) {
        self.outstanding.remove(&number);
    }

    /// This member's log has a base of this term, at a start or after a reset. The base is
    /// committed, so it counts for rule 2. In a quiet group it may be the last entry for a long
    /// time.
    pub fn log_starts_after(&mut self, base: Term) {
        self.committed_term = self.committed_term.max(base);
    }

    /// This member's log was reset to a base of this term, so that this session has not seen all
    /// committed entries. Nothing outstanding may be sent again, because it may be among them.
    /// Returns the numbers concerned; their results stay unknown to this session.
    pub fn log_reset(&mut self, base: Term) -> Vec<u64> {
        self.log_starts_after(base);
        std::mem::take(&mut self.outstanding).into_iter().collect()
    }

    pub fn oldest_outstanding(&self) -> Option<u64> {
        self.outstanding.first().copied()
    }

    /// The next proposal to send, if one may be sent now.
    pub fn poll_send(&mut self) -> Option<SendProposal> {
        let to = self.leader?;
        if self.committed_term != self.term {
            return None;
        }
        let number = *self.outstanding.range(self.unsent_from..).next()?;
        self.unsent_from = number + 1;
        Some(SendProposal {
            to,
            tag: self.term,
            number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{EntryKind, LogIndex, Origin, Seqno};

    const ME: MemberId = MemberId(1);
    const LEADER: MemberId = MemberId(2);

    fn outbox() -> Outbox {
        Outbox::new(ME, SessionId(5))
    }

    fn entry(term: u64, member: MemberId, number: u64) -> EntryHeader {
        EntryHeader {
            origin: Origin::new(member, SessionId(5), number),
            depends_on: Seqno(0),
            ..EntryHeader::bare(Term(term), LogIndex(1), Seqno(0), EntryKind::Action)
        }
    }

    fn drain(outbox: &mut Outbox) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| outbox.poll_send())
            .map(|s| (s.tag.0, s.number))
            .collect()
    }

    #[test]
    fn waits_for_the_first_commit_of_the_term() {
        let mut outbox = outbox();
        outbox.submit();
        outbox.leader_changed(Term(1), Some(LEADER));
        assert_eq!(drain(&mut outbox), []);
        assert_eq!(outbox.committed(&entry(1, LEADER, 0)), None);
        assert_eq!(drain(&mut outbox), [(1, 1)]);
        outbox.submit();
        assert_eq!(drain(&mut outbox), [(1, 2)]);
    }

    #[test]
    fn log_that_starts_in_the_term_need_not_wait_for_another_commit() {
        let mut started = outbox();
        started.log_starts_after(Term(2));
        let mut reset = outbox();
        reset.leader_changed(Term(2), Some(LEADER));
        reset.submit();
        assert_eq!(reset.log_reset(Term(2)), [1]);
        for (mut outbox, number) in [(started, 1), (reset, 2)] {
            outbox.leader_changed(Term(2), Some(LEADER));
            outbox.submit();
            assert_eq!(drain(&mut outbox), [(2, number)]);
            outbox.leader_changed(Term(3), Some(LEADER));
            assert_eq!(drain(&mut outbox), [], "no commit of term 3 yet");
        }
    }

    #[test]
    fn new_term_sends_again_only_what_did_not_survive() {
        let mut outbox = outbox();
        outbox.leader_changed(Term(1), Some(LEADER));
        outbox.committed(&entry(1, LEADER, 0));
        (0..3).for_each(|_| {
            outbox.submit();
        });
        assert_eq!(drain(&mut outbox), [(1, 1), (1, 2), (1, 3)]);
        outbox.leader_changed(Term(2), None);
        outbox.leader_changed(Term(2), Some(ME));
        assert_eq!(outbox.committed(&entry(1, ME, 2)), Some(2));
        assert_eq!(drain(&mut outbox), []);
        assert_eq!(outbox.committed(&entry(2, ME, 0)), None);
        assert_eq!(drain(&mut outbox), [(2, 1), (2, 3)]);
    }

    #[test]
    fn refusal_of_an_older_term_resolves_nothing() {
        let mut outbox = outbox();
        outbox.leader_changed(Term(1), Some(LEADER));
        outbox.committed(&entry(1, LEADER, 0));
        let number = outbox.submit();
        drain(&mut outbox);
        outbox.leader_changed(Term(2), Some(LEADER));
        assert!(!outbox.refused(Term(1), number));
        assert!(!outbox.refused(Term(2), number), "not sent in term 2 yet");
        outbox.committed(&entry(2, LEADER, 0));
        drain(&mut outbox);
        assert!(outbox.refused(Term(2), number));
        assert!(!outbox.refused(Term(2), number));
        assert_eq!(outbox.oldest_outstanding(), None);
    }

    #[test]
    fn reconnecting_sends_again_and_forgetting_does_not() {
        let mut outbox = outbox();
        outbox.leader_changed(Term(1), Some(LEADER));
        outbox.committed(&entry(1, LEADER, 0));
        (0..3).for_each(|_| {
            outbox.submit();
        });
        drain(&mut outbox);
        outbox.forget(2);
        outbox.reconnected();
        assert_eq!(drain(&mut outbox), [(1, 1), (1, 3)]);
        assert_eq!(outbox.oldest_outstanding(), Some(1));
    }

    #[test]
    fn sends_nothing_to_a_leader_known_to_be_deposed() {
        let mut outbox = outbox();
        outbox.leader_changed(Term(1), Some(LEADER));
        outbox.committed(&entry(2, ME, 0));
        outbox.submit();
        assert_eq!(drain(&mut outbox), []);
        outbox.leader_changed(Term(2), Some(ME));
        assert_eq!(drain(&mut outbox), [(2, 1)]);
    }
}
