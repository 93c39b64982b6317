//! Outcome decisions: the entries that say which outcome of an action wins.
//!
//! ```text
//! version u8 | seqno i64 | outcome u64 | count u16 | count x answer
//! answer: member u64 | session u64 | outcome u64
//! ```
//! All numbers are little-endian. Answers ascend by member; a member without an answer is not
//! listed.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_consensus::{EntryKind, LogIndex, MemberId, Seqno, SessionId};
use synod_log::{LogError, LogReader};

use crate::outcome::ApplyOutcome;
use crate::payload::action::PayloadError;
use crate::payload::version::Versions;

const VERSIONS: Versions = Versions::new("decision", 1..=1);
const HEADER_BYTES: usize = 1 + 8 + 8 + 2;
const ANSWER_BYTES: usize = 24;
const READ_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberOutcome {
    pub member: MemberId,
    pub session: SessionId,
    pub outcome: ApplyOutcome,
}

/// The decision which outcome of an action wins. The first decision about an action in the log
/// counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeDecision {
    pub seqno: Seqno,
    /// The winning outcome. Members with another one are inconsistent, and leave.
    pub outcome: ApplyOutcome,
    /// The answers that the decision was made on, ascending by member.
    pub answers: Vec<MemberOutcome>,
}

impl OutcomeDecision {
    pub(crate) fn encode(&self) -> Bytes {
        let bytes = HEADER_BYTES + ANSWER_BYTES * self.answers.len();
        let mut out = BytesMut::with_capacity(bytes);
        out.put_u8(VERSIONS.newest());
        out.put_i64_le(self.seqno.0);
        out.put_u64_le(self.outcome.0);
        let count = u16::try_from(self.answers.len()).expect("bounded by the group's size");
        out.put_u16_le(count);
        for answer in &self.answers {
            out.put_u64_le(answer.member.0);
            out.put_u64_le(answer.session.0);
            out.put_u64_le(answer.outcome.0);
        }
        out.freeze()
    }

    pub fn decode(mut payload: Bytes) -> Result<OutcomeDecision, PayloadError> {
        let bad = |why: String| PayloadError {
            what: "decision",
            why,
        };
        if payload.len() < HEADER_BYTES {
            return Err(bad(format!("{} bytes are too few", payload.len())));
        }
        VERSIONS.check(payload.get_u8())?;
        let seqno = Seqno(payload.get_i64_le());
        let outcome = ApplyOutcome(payload.get_u64_le());
        let count = usize::from(payload.get_u16_le());
        if payload.len() != count * ANSWER_BYTES {
            return Err(bad(format!("{} bytes for {count} answers", payload.len())));
        }
        let answers = (0..count)
            .map(|_| MemberOutcome {
                member: MemberId(payload.get_u64_le()),
                session: SessionId(payload.get_u64_le()),
                outcome: ApplyOutcome(payload.get_u64_le()),
            })
            .collect();
        Ok(OutcomeDecision {
            seqno,
            outcome,
            answers,
        })
    }
}

/// Searches the log after an action for the decision about it: for a member that lags, where the
/// decision may have been made before its session began.
#[derive(Debug)]
pub struct DecisionSearch {
    seqno: Seqno,
    /// The index to continue at; none before the action was found.
    next: Option<LogIndex>,
}

impl DecisionSearch {
    pub fn new(seqno: Seqno) -> DecisionSearch {
        DecisionSearch { seqno, next: None }
    }

    /// Continues the search up to `end`. Returns the decision if it is there.
    pub fn read_on(
        &mut self,
        reader: &LogReader,
        end: LogIndex,
    ) -> Result<Option<OutcomeDecision>, LogError> {
        let mut next = match self.next {
            Some(next) => next,
            None => match reader.seek_seqno(self.seqno) {
                Ok(index) => index.next(),
                // An action can be applied here before it is in this member's log: it is committed
                // once it is durable on a quorum.
                Err(LogError::SeqnoNotFound { .. }) => return Ok(None),
                // It was fetched. What follows it may have been, too: delivery passes that.
                Err(LogError::SeqnoPurged { .. }) => reader.first_index(),
                Err(error) => return Err(error),
            },
        };
        while next <= end {
            let entries = reader.read(next, end, READ_BYTES)?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                next = entry.header.index.next();
                if entry.header.kind != EntryKind::Decision {
                    continue;
                }
                // A malformed decision is reported by its delivery.
                let decision = OutcomeDecision::decode(entry.payload).ok();
                if let Some(found) = decision.filter(|found| found.seqno == self.seqno) {
                    return Ok(Some(found));
                }
            }
            self.next = Some(next);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::tests::Fixture;
    use synod_consensus::{EntryId, LogBase, Term};

    fn decision() -> OutcomeDecision {
        let answer = |id, outcome| MemberOutcome {
            member: MemberId(id),
            session: SessionId(id + 10),
            outcome: ApplyOutcome(outcome),
        };
        OutcomeDecision {
            seqno: Seqno(42),
            outcome: ApplyOutcome(7),
            answers: vec![answer(1, 7), answer(2, 0)],
        }
    }

    #[test]
    fn decision_survives_encoding_and_nothing_shorter_does() {
        let payload = decision().encode();
        assert_eq!(
            OutcomeDecision::decode(payload.clone()).unwrap(),
            decision()
        );
        for len in 0..payload.len() {
            assert!(
                OutcomeDecision::decode(payload.slice(..len)).is_err(),
                "{len}"
            );
        }
        let longer = [&payload[..], &[0]].concat();
        assert!(OutcomeDecision::decode(longer.into()).is_err());
    }

    #[test]
    fn search_waits_for_an_action_that_the_log_does_not_have_yet() {
        let mut log = Fixture::new(LogBase {
            last: EntryId::new(Term(1), LogIndex(9)),
            seqno: Seqno(41),
            ..LogBase::default()
        });
        let mut search = DecisionSearch::new(Seqno(42));
        let mut look = |log: &Fixture, end| search.read_on(&log.reader, LogIndex(end)).unwrap();
        assert_eq!(look(&log, 9), None);
        log.append(EntryKind::Action, Bytes::from_static(b"x"));
        assert_eq!(look(&log, 10), None);
        log.append(EntryKind::Decision, decision().encode());
        assert_eq!(look(&log, 11), Some(decision()));
    }
}
