//! The leader's side of proposals: each is appended, refused, or waits for room. Every member keeps
//! the certification state in step with its log, so that it can order at once when it is elected.
//! The proposals that a leader has seen, and those that wait, are forgotten with its term.

use std::time::Duration;

use synod_certify::Verdict;
use synod_consensus::{
    DedupVerdict, EntryKind, MemberId, Origin, ProposalDedup, Seqno, Term, Time,
};
use synod_log::PAYLOAD_BYTES_MAX;
use synod_wire::{ProposalRefusal, Propose};

use super::deferred::Deferred;
use crate::certification::{CertificationState, CertifyError};
use crate::driver::writers::WriterRule;
use crate::payload::action::PayloadError;
use crate::payload::discard::PartialActionId;

#[derive(Debug)]
pub(super) enum ProposalAnswer {
    /// Nothing: it was appended already, or is meant for the leader of another term.
    Ignore,
    Wait,
    /// The proposal is refused, again if it was before.
    Refuse(ProposalRefusal),
    /// The proposal is refused because partial actions would take too much memory on every member.
    TooMuch(String),
    /// The proposal is refused because this program cannot read it, or no log takes it.
    Malformed(PayloadError),
    Append {
        depends_on: Seqno,
    },
}

pub(in crate::driver) struct Ordering {
    dedup: ProposalDedup,
    deferred: Deferred,
    term_after: Seqno,
    /// A partial action that was not continued for so long is discarded.
    partial_action_timeout: Duration,
}

impl Ordering {
    pub(in crate::driver) fn new(partial_action_timeout: Duration) -> Ordering {
        Ordering {
            dedup: ProposalDedup::default(),
            deferred: Deferred::default(),
            term_after: Seqno(0),
            partial_action_timeout,
        }
    }

    /// This member leads from now on, in this term, which begins after the action `after`.
    pub(in crate::driver) fn begin_term(&mut self, term: Term, after: Seqno) {
        self.dedup.new_term(term);
        self.term_after = after;
    }

    /// The last action before the term that this member leads, or has led last.
    pub(in crate::driver) fn term_after(&self) -> Seqno {
        self.term_after
    }

    /// This member does not lead: the origins will send again what waits here.
    pub(in crate::driver) fn stop_leading(&mut self) {
        self.deferred.clear();
    }

    /// A proposal of member `from` arrived. Answers it if it is ruled on now: not if others wait.
    pub(super) fn arrived(
        &mut self,
        from: MemberId,
        propose: Propose,
    ) -> Result<Option<Propose>, NotAProposal> {
        let origin = propose.origin;
        let is_proposal = matches!(propose.kind, EntryKind::Action | EntryKind::Chunk);
        if origin.member != from || !is_proposal {
            return Err(NotAProposal);
        }
        self.dedup
            .acknowledged(origin.member, origin.session, propose.oldest_outstanding);
        if self.deferred.is_empty() {
            return Ok(Some(propose));
        }
        self.deferred.push(propose);
        Ok(None)
    }

    pub(in crate::driver) fn waiting(&self) -> usize {
        self.deferred.len()
    }

    pub(super) fn next_waiting(&mut self) -> Option<Propose> {
        self.deferred.pop()
    }

    /// There is no room for this proposal: it is the next to be ruled on.
    pub(super) fn put_back(&mut self, propose: Propose) {
        self.deferred.put_back(propose);
    }

    /// Rules on a proposal. `writers` is the rule in force where it would be ordered.
    pub(super) fn answer(
        &mut self,
        certification: &CertificationState,
        propose: &Propose,
        has_room: bool,
        writers: WriterRule,
    ) -> ProposalAnswer {
        match self.dedup.check(propose.tag, propose.origin) {
            DedupVerdict::New => {}
            DedupVerdict::WrongTerm | DedupVerdict::AlreadyAppended => {
                return ProposalAnswer::Ignore;
            }
            DedupVerdict::AlreadyRefused if !writers.admits(propose) => {
                return ProposalAnswer::Refuse(ProposalRefusal::NotWriter);
            }
            DedupVerdict::AlreadyRefused => {
                let with = Seqno::UNDEFINED;
                return ProposalAnswer::Refuse(ProposalRefusal::Conflict { with });
            }
        }
        if !writers.admits(propose) {
            // At once: no room would help.
            self.dedup.refused(propose.origin);
            return ProposalAnswer::Refuse(ProposalRefusal::NotWriter);
        }
        if !has_room {
            return ProposalAnswer::Wait;
        }
        let answer = certify(certification, propose);
        if matches!(
            answer,
            ProposalAnswer::Refuse(_) | ProposalAnswer::TooMuch(_) | ProposalAnswer::Malformed(_)
        ) {
            self.dedup.refused(propose.origin);
        }
        answer
    }

    pub(super) fn appended(&mut self, origin: Origin) {
        self.dedup.appended(origin);
    }

    pub(in crate::driver) fn stale_actions(
        &self,
        certification: &CertificationState,
        now: Time,
    ) -> Vec<PartialActionId> {
        certification
            .partial_actions()
            .stale(now, self.partial_action_timeout)
    }
}

fn certify(certification: &CertificationState, propose: &Propose) -> ProposalAnswer {
    let (origin, payload) = (&propose.origin, &propose.payload);
    if payload.len() > PAYLOAD_BYTES_MAX as usize {
        // Every log would refuse it, and every member would stop.
        return ProposalAnswer::Malformed(PayloadError::too_large(payload.len()));
    }
    let verdict = if propose.kind == EntryKind::Chunk {
        let checked = certification.check_chunk(origin, payload);
        checked.map(|()| Verdict::Pass {
            depends_on: Seqno::UNDEFINED.0,
        })
    } else {
        certification.certify(origin, payload)
    };
    match verdict {
        Ok(Verdict::Pass { depends_on }) => ProposalAnswer::Append {
            depends_on: Seqno(depends_on),
        },
        Ok(Verdict::Conflict { with }) => {
            ProposalAnswer::Refuse(ProposalRefusal::Conflict { with: Seqno(with) })
        }
        Ok(Verdict::TooOld { .. }) => ProposalAnswer::Refuse(ProposalRefusal::TooOld),
        Err(CertifyError::ChunksUnknown) => ProposalAnswer::Refuse(ProposalRefusal::GivenUp),
        Err(CertifyError::Doomed { with }) => {
            ProposalAnswer::Refuse(ProposalRefusal::Conflict { with })
        }
        Err(CertifyError::TooMuch(why)) => ProposalAnswer::TooMuch(why),
        Err(CertifyError::Malformed(error)) => ProposalAnswer::Malformed(error),
    }
}

/// A message that is not a proposal of its sender.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAProposal;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_certify::CertLimits;
    use synod_consensus::{LogIndex, SessionId};

    const FROM: MemberId = MemberId(2);
    const TERM: Term = Term(3);

    fn certification() -> CertificationState {
        CertificationState::new(LogIndex(0), Seqno(0), CertLimits::default())
    }

    fn ordering() -> Ordering {
        let mut ordering = Ordering::new(Duration::from_secs(60));
        ordering.begin_term(TERM, Seqno(0));
        ordering
    }

    fn propose(number: u64) -> Propose {
        Propose {
            tag: TERM,
            origin: Origin::new(FROM, SessionId(1), number),
            kind: EntryKind::Action,
            oldest_outstanding: 1,
            payload: Bytes::from_static(b"not an action"),
        }
    }

    #[test]
    fn proposal_must_be_of_its_sender() {
        let mut ordering = ordering();
        assert!(matches!(
            ordering.arrived(MemberId(9), propose(1)),
            Err(NotAProposal)
        ));
        let view = Propose {
            kind: EntryKind::View,
            ..propose(1)
        };
        assert!(matches!(ordering.arrived(FROM, view), Err(NotAProposal)));
    }

    #[test]
    fn proposals_wait_in_order_while_there_is_no_room() {
        let mut ordering = ordering();
        let first = ordering.arrived(FROM, propose(1)).unwrap().unwrap();
        assert!(matches!(
            ordering.answer(&certification(), &first, false, WriterRule::Any),
            ProposalAnswer::Wait
        ));
        ordering.put_back(first);
        assert!(ordering.arrived(FROM, propose(2)).unwrap().is_none());
        assert_eq!(ordering.waiting(), 2);
        assert_eq!(ordering.next_waiting().unwrap().origin.number, 1);
        ordering.stop_leading();
        assert_eq!(ordering.waiting(), 0);
    }

    #[test]
    fn proposal_that_no_log_would_take_is_refused() {
        let mut ordering = ordering();
        let payload = vec![1; PAYLOAD_BYTES_MAX as usize + 1];
        let too_large = Propose {
            kind: EntryKind::Chunk,
            payload: payload.into(),
            ..propose(1)
        };
        let ProposalAnswer::Malformed(error) =
            ordering.answer(&certification(), &too_large, true, WriterRule::Any)
        else {
            panic!("no log takes it");
        };
        assert!(error.to_string().contains("67108865"), "{error}");
    }

    #[test]
    fn write_of_another_member_than_the_writer_is_refused_each_time_it_comes() {
        let mut ordering = ordering();
        let writer = WriterRule::Only {
            leader: MemberId(1),
            after: Seqno(0),
        };
        let chunk = Propose {
            kind: EntryKind::Chunk,
            ..propose(1)
        };
        for has_room in [false, true] {
            assert!(matches!(
                ordering.answer(&certification(), &chunk, has_room, writer),
                ProposalAnswer::Refuse(ProposalRefusal::NotWriter)
            ));
        }
        assert!(matches!(
            ordering.answer(&certification(), &chunk, true, WriterRule::Any),
            ProposalAnswer::Refuse(ProposalRefusal::Conflict { .. })
        ));
    }

    #[test]
    fn proposal_that_was_refused_or_appended_is_not_certified_again() {
        let mut ordering = ordering();
        assert!(matches!(
            ordering.answer(&certification(), &propose(1), true, WriterRule::Any),
            ProposalAnswer::Malformed(_)
        ));
        assert!(matches!(
            ordering.answer(&certification(), &propose(1), true, WriterRule::Any),
            ProposalAnswer::Refuse(_)
        ));
        ordering.appended(propose(2).origin);
        assert!(matches!(
            ordering.answer(&certification(), &propose(2), true, WriterRule::Any),
            ProposalAnswer::Ignore
        ));
        let late = Propose {
            tag: Term(2),
            ..propose(3)
        };
        assert!(
            matches!(
                ordering.answer(&certification(), &late, true, WriterRule::Any),
                ProposalAnswer::Ignore
            ),
            "another term"
        );
    }
}
