//! The rule at the order, where the group takes the leader's writes only.
//!
//! A leader orders a write if it is its own, and if its database had everything at the time that
//! preceded the leader's term. So of two writes of different members the later one has seen the
//! earlier one: they never conflict. Whether an entry obeys the rule follows from the log alone:
//! from its term, its origin, its snapshot position, and the configuration in force there.
//!
//! Not every action is a write. The rollback of a streamed transaction has to come from its origin,
//! also if that has ceased to be the writer: the others hold rows of the transaction until then. It
//! has no keys, and never conflicts.

use synod_certify::Class;
use synod_consensus::{EntryKind, MemberId, Seqno, Writers};
use synod_planted::planted;
use synod_wire::Propose;

use crate::payload::action::ActionPiece;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum WriterRule {
    Any,
    Only { leader: MemberId, after: Seqno },
}

impl WriterRule {
    /// The rule of a leader, in a group with this setting. Its term begins after action `after`.
    pub(in crate::driver) fn of(writers: Writers, leader: MemberId, after: Seqno) -> WriterRule {
        match writers {
            Writers::Any => WriterRule::Any,
            Writers::Leader => WriterRule::Only { leader, after },
        }
    }

    /// Whether a proposal may be ordered, as far as its origin is concerned.
    pub(in crate::driver) fn admits(self, propose: &Propose) -> bool {
        let WriterRule::Only { leader, after } = self else {
            return true;
        };
        let is_own = propose.origin.member == leader;
        let is_own = planted!(WriteElsewhere, is_own, else true);
        if propose.kind == EntryKind::Chunk {
            return is_own;
        }
        let Ok(piece) = ActionPiece::decode(propose.payload.clone()) else {
            // Certification says what is wrong with it.
            return true;
        };
        let has_seen = piece.last_seen >= after.0;
        let has_seen = planted!(WriteBeforeApplied, has_seen, else true);
        piece.class == Class::Barrier || is_own && has_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_consensus::{Origin, SessionId, Term};

    const LEADER: MemberId = MemberId(1);
    const OTHER: MemberId = MemberId(2);
    const AFTER: Seqno = Seqno(10);

    fn propose(member: MemberId, kind: EntryKind, payload: Bytes) -> Propose {
        Propose {
            tag: Term(3),
            origin: Origin::new(member, SessionId(1), 1),
            kind,
            oldest_outstanding: 1,
            payload,
        }
    }

    fn action(member: MemberId, class: Class, last_seen: i64) -> Propose {
        let piece = ActionPiece {
            class,
            epoch: 0,
            last_seen,
            action_no: 0,
            chunks: 0,
            keys: Bytes::new(),
            data: Bytes::new(),
        };
        propose(member, EntryKind::Action, piece.encode())
    }

    #[test]
    fn leader_orders_its_own_writes_that_have_seen_what_preceded_its_term() {
        let rule = WriterRule::of(Writers::Leader, LEADER, AFTER);
        let write = Class::WriteSet { pa_unsafe: true };
        for class in [write, Class::TotalOrder] {
            assert!(rule.admits(&action(LEADER, class, 10)));
            assert!(!rule.admits(&action(LEADER, class, 9)), "too early");
            assert!(!rule.admits(&action(OTHER, class, 10)), "a former writer");
        }
        let chunk = |member| propose(member, EntryKind::Chunk, Bytes::new());
        assert!(rule.admits(&chunk(LEADER)));
        assert!(!rule.admits(&chunk(OTHER)));
    }

    #[test]
    fn rollbacks_are_ordered_of_every_member() {
        let rule = WriterRule::of(Writers::Leader, LEADER, AFTER);
        assert!(rule.admits(&action(OTHER, Class::Barrier, 0)));
    }

    #[test]
    fn all_members_write_unless_the_setting_says_otherwise() {
        let rule = WriterRule::of(Writers::Any, LEADER, AFTER);
        assert!(rule.admits(&action(OTHER, Class::TotalOrder, 0)));
        assert!(rule.admits(&propose(OTHER, EntryKind::Chunk, Bytes::new())));
    }
}
