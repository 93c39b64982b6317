//! Reasons for elections of leaders, as far as this member has seen them, for operators. A leader
//! that hands leadership over orders the next one to be a candidate, who says so in its requests
//! for votes (Raft dissertation, section 3.10). Without that, a voter has heard nothing from the
//! leader for an election timeout, or the leader has lost its quorum and stepped down: which of the
//! two, only they know.

use synod_consensus::{Body, MemberId, Message, Term};

#[derive(Default)]
pub(in crate::driver) struct Elections {
    last: Option<(Term, MemberId)>,
    ordered: Option<Term>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Cause {
    First,
    HandedOver {
        by: MemberId,
    },
    Lost {
        before: MemberId,
    },
    /// The same member as before: it was cut off, or restarted, for a while.
    Again,
}

impl Elections {
    pub(in crate::driver) fn heard(&mut self, message: &Message) {
        let term = match message.body {
            Body::TimeoutNow => message.term.next(),
            Body::Vote { transfer: true, .. } => message.term,
            _ => return,
        };
        self.ordered = self.ordered.max(Some(term));
    }

    /// This member follows a leader, or leads. None if it knew that.
    pub(super) fn elected(&mut self, term: Term, leader: MemberId) -> Option<Cause> {
        let before = self.last.replace((term, leader));
        match before {
            None => Some(Cause::First),
            Some((last, _)) if last == term => None,
            Some((_, by)) if self.ordered == Some(term) => Some(Cause::HandedOver { by }),
            Some((_, before)) if before == leader => Some(Cause::Again),
            Some((_, before)) => Some(Cause::Lost { before }),
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_consensus::EntryId;

    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);

    fn message(term: u64, body: Body) -> Message {
        Message::new(A, B, Term(term), body)
    }

    fn vote(transfer: bool) -> Body {
        let last = EntryId::default();
        Body::Vote { last, transfer }
    }

    #[test]
    fn each_election_is_told_once_with_what_was_seen_of_it() {
        let mut elections = Elections::default();
        assert_eq!(elections.elected(Term(1), A), Some(Cause::First));
        assert_eq!(elections.elected(Term(1), A), None);
        elections.heard(&message(2, vote(false)));
        let lost = Some(Cause::Lost { before: A });
        assert_eq!(elections.elected(Term(2), B), lost);
        assert_eq!(elections.elected(Term(4), B), Some(Cause::Again));
    }

    #[test]
    fn ordered_election_is_known_to_the_candidate_and_to_its_voters() {
        let handed_over = Some(Cause::HandedOver { by: A });
        for order in [message(1, Body::TimeoutNow), message(2, vote(true))] {
            let mut elections = Elections::default();
            elections.elected(Term(1), A);
            elections.heard(&order);
            assert_eq!(elections.elected(Term(2), B), handed_over);
        }
    }

    #[test]
    fn order_of_an_election_that_failed_explains_no_other() {
        let mut elections = Elections::default();
        elections.elected(Term(1), A);
        elections.heard(&message(2, vote(true)));
        let lost = Some(Cause::Lost { before: A });
        assert_eq!(elections.elected(Term(3), B), lost);
    }
}
