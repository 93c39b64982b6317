//! Proposals of this session: on their way to the leader, and back as committed entries. The
//! consensus core's outbox says when a proposal may be sent; payloads, waiters and connections are
//! here. Every proposal ends once: committed, refused, or withdrawn with an unknown result. The
//! pieces of large actions wait here for *credit*: a few chunks of this member are on their way at
//! a time. They get their numbers only then, so small actions that come later go first. Without
//! that, a small action would wait for all chunks before it: in the connection, and in the log.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use synod_consensus::{EntryHeader, EntryKind, MemberId, Origin, Outbox, Term};
use synod_wire::Propose;

use super::connections::{Connections, Link};
use super::deferred::ActionSize;
use crate::client::{WaitPolicy, Waiter};
use crate::driver::{Me, Submission};
use crate::snapshots::Snapshot;

/// Payload bytes on their way to the leader at which sending pauses; the proposal that reaches the
/// bound is sent whole. With it, what waits for one connection stays below the bound at which the
/// transport gives a connection up (128 MiB in the crate `node`).
const SENT_BYTES_MAX: usize = 32 << 20;

/// Most chunks that are on their way at a time, from their number to their commit. More than one
/// keeps a connection busy while acknowledgements travel.
const CHUNKS_MAX: usize = 4;
/// Most bytes of them, unless a single one is larger.
const CHUNK_BYTES_MAX: usize = 8 << 20;

pub(super) struct Submitted {
    pub(super) kind: EntryKind,
    payload: Bytes,
    /// The proposal is on its way to the present leader.
    is_sent: bool,
    pub(super) waiter: Waiter,
    /// Held as long as the proposal is on its way.
    _held: (Option<Arc<Snapshot>>, Option<Box<dyn Any + Send>>),
}

pub(super) struct Outgoing {
    pub(super) to: MemberId,
    /// The connection to send it over; none: there was none yet, and the proposal is repeated when
    /// there is.
    pub(super) connection: Option<u64>,
    pub(super) propose: Propose,
}

/// The component that knows this session's proposals. Invariants: the outbox and `submitted` have
/// the same numbers; `sent_bytes` counts those that are on their way; `chunks` and `chunk_bytes`
/// count the chunks among `submitted`.
pub(in crate::driver) struct LocalProposals {
    me: Me,
    outbox: Outbox,
    term: Term,
    submitted: BTreeMap<u64, Submitted>,
    sent_bytes: usize,
    /// Pieces of large actions that wait for credit, without numbers, in order.
    without_credit: VecDeque<Submitted>,
    chunks: usize,
    chunk_bytes: usize,
    connections: Connections,
}

impl LocalProposals {
    /// At the start; the log begins after an entry of term `base`.
    pub(in crate::driver) fn new(me: Me, base: Term) -> LocalProposals {
        let mut outbox = Outbox::new(me.member, me.session);
        outbox.log_starts_after(base);
        LocalProposals {
            me,
            outbox,
            term: Term(0),
            submitted: BTreeMap::new(),
            sent_bytes: 0,
            without_credit: VecDeque::new(),
            chunks: 0,
            chunk_bytes: 0,
            connections: Connections::default(),
        }
    }

    pub(in crate::driver) fn len(&self) -> usize {
        self.submitted.len() + self.without_credit.len()
    }

    pub(super) fn submit(&mut self, submission: Submission) {
        let Submission {
            kind,
            payload,
            waiter,
            snapshot,
            held,
        } = submission;
        let submitted = Submitted {
            kind,
            payload,
            is_sent: false,
            waiter,
            _held: (snapshot, held),
        };
        match ActionSize::of(submitted.kind, &submitted.payload) {
            ActionSize::Small => self.give_number(submitted),
            ActionSize::Large => self.without_credit.push_back(submitted),
        }
    }

    fn give_number(&mut self, submitted: Submitted) {
        if submitted.kind == EntryKind::Chunk {
            self.chunks += 1;
            self.chunk_bytes += submitted.payload.len();
        }
        self.submitted.insert(self.outbox.submit(), submitted);
    }

    /// Gives numbers to pieces of large actions, as far as the credit reaches. An action that has a
    /// result already is not continued: without its last piece it is never ordered.
    fn spend_credit(&mut self) {
        while let Some(next) = self.without_credit.front() {
            let bytes = self.chunk_bytes + next.payload.len();
            let has_credit = self.chunks < CHUNKS_MAX && bytes <= CHUNK_BYTES_MAX;
            let is_over = next.waiter.is_decided();
            if next.kind == EntryKind::Chunk && !is_over && self.chunks > 0 && !has_credit {
                return;
            }
            let next = self.without_credit.pop_front();
            if let Some(next) = next.filter(|_| !is_over) {
                self.give_number(next);
            }
        }
    }

    pub(super) fn next_send(&mut self) -> Option<Outgoing> {
        self.spend_credit();
        loop {
            if self.sent_bytes >= SENT_BYTES_MAX {
                return None;
            }
            let send = self.outbox.poll_send()?;
            let number = send.number;
            let Some(submitted) = self.submitted.get_mut(&number) else {
                self.outbox.forget(number);
                continue;
            };
            if !std::mem::replace(&mut submitted.is_sent, true) {
                self.sent_bytes += submitted.payload.len();
            }
            let propose = Propose {
                tag: send.tag,
                origin: Origin::new(self.me.member, self.me.session, number),
                kind: submitted.kind,
                oldest_outstanding: self.outbox.oldest_outstanding().unwrap_or(number),
                payload: submitted.payload.clone(),
            };
            return Some(Outgoing {
                to: send.to,
                connection: self.connections.to(send.to).map(|link| link.connection),
                propose,
            });
        }
    }

    /// The payload of an entry that the leader sent without it: if it is a proposal of this session
    /// that has no result yet. The header says which bytes they are; other bytes are refused.
    pub(in crate::driver) fn payload_of(&self, header: &EntryHeader) -> Option<Bytes> {
        let Origin {
            member,
            session,
            number,
        } = header.origin;
        if (member, session) != (self.me.member, self.me.session) {
            return None;
        }
        let submitted = self.submitted.get(&number)?;
        let payload = &submitted.payload;
        let is_it = submitted.kind == header.kind
            && payload.len() == header.payload_len as usize
            && crc32c::crc32c(payload) == header.payload_crc;
        is_it.then(|| payload.clone())
    }

    pub(in crate::driver) fn link_up(&mut self, member: MemberId, link: Link) {
        self.connections.up(member, link);
    }

    pub(super) fn link_to(&self, member: MemberId) -> Option<Link> {
        self.connections.to(member)
    }

    pub(in crate::driver) fn retain_links(&mut self, keep: impl Fn(MemberId) -> bool) {
        self.connections.retain(keep);
    }

    /// Proposals or refusals may be lost: everything without a result is sent again.
    pub(super) fn repeat(&mut self) {
        self.outbox.reconnected();
        self.nothing_is_sent();
    }

    fn nothing_is_sent(&mut self) {
        self.sent_bytes = 0;
        for submitted in self.submitted.values_mut() {
            submitted.is_sent = false;
        }
    }

    pub(in crate::driver) fn leader_changed(&mut self, term: Term, leader: Option<MemberId>) {
        self.outbox.leader_changed(term, leader);
        if term > self.term {
            self.term = term;
            self.nothing_is_sent();
        }
    }

    /// The leader of `term` has refused a proposal; answers the proposal if that is its end.
    pub(super) fn refused(&mut self, term: Term, number: u64) -> Option<Submitted> {
        if self.outbox.refused(term, number) {
            self.end(number)
        } else {
            None
        }
    }

    /// An entry is committed; answers the proposal that it was, if it was one of this session.
    pub(super) fn committed(&mut self, header: &EntryHeader) -> Option<Submitted> {
        let number = self.outbox.committed(header)?;
        self.end(number)
    }

    /// The log was reset after an entry of this term: it skips entries that this member has not
    /// seen. Any proposal may be among them, so none is sent again: all are withdrawn.
    #[must_use = "their clients wait"]
    pub(super) fn log_reset(&mut self, base: Term) -> Vec<Submitted> {
        let numbers = self.outbox.log_reset(base);
        let mut withdrawn = self.take(&numbers);
        withdrawn.extend(self.without_credit.drain(..));
        withdrawn
    }

    /// The group is lost: withdraws the proposals that are not to wait for it. The others are sent
    /// again once there is a leader. A proposal that is withdrawn may still be ordered.
    #[must_use = "their clients wait"]
    pub(super) fn group_lost(&mut self) -> Vec<Submitted> {
        let ends =
            |submitted: &Submitted| submitted.waiter.patience() == WaitPolicy::UntilGroupLost;
        let numbered = self.submitted.iter().filter(|(_, s)| ends(s));
        let numbers: Vec<u64> = numbered.map(|(number, _)| *number).collect();
        for number in &numbers {
            self.outbox.forget(*number);
        }
        let mut withdrawn = self.take(&numbers);
        let waiting = std::mem::take(&mut self.without_credit);
        let (ending, staying): (Vec<_>, Vec<_>) = waiting.into_iter().partition(ends);
        withdrawn.extend(ending);
        self.without_credit = staying.into();
        withdrawn
    }

    fn take(&mut self, numbers: &[u64]) -> Vec<Submitted> {
        numbers.iter().filter_map(|n| self.end(*n)).collect()
    }

    fn end(&mut self, number: u64) -> Option<Submitted> {
        let submitted = self.submitted.remove(&number)?;
        if submitted.is_sent {
            self.sent_bytes -= submitted.payload.len();
        }
        if submitted.kind == EntryKind::Chunk {
            self.chunks -= 1;
            self.chunk_bytes -= submitted.payload.len();
        }
        Some(submitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::client::{Client, ProposalResult};
    use crate::snapshots::Snapshots;
    use synod_consensus::{LogIndex, Seqno, SessionId};

    const ME: Me = Me {
        member: MemberId(1),
        session: SessionId(5),
    };
    const LEADER: MemberId = MemberId(2);
    const TERM: Term = Term(3);

    struct Waiting(WaitPolicy);

    impl Client for Waiting {
        fn patience(&self) -> WaitPolicy {
            self.0
        }
        fn is_decided(&self) -> bool {
            false
        }
        fn decide(&self, _result: ProposalResult) -> bool {
            true
        }
    }

    struct Decided;

    impl Client for Decided {
        fn is_decided(&self) -> bool {
            true
        }
        fn decide(&self, _result: ProposalResult) -> bool {
            false
        }
    }

    fn submission(policy: WaitPolicy) -> Submission {
        Submission {
            kind: EntryKind::Action,
            payload: Bytes::from_static(b"payload"),
            waiter: Waiter::new(Arc::new(Waiting(policy))),
            snapshot: Some(Arc::new(Snapshots::default()).hold(Seqno(0))),
            held: None,
        }
    }

    /// Entry 1 of this term, or the proposal with this number.
    fn entry(number: u64) -> EntryHeader {
        EntryHeader {
            origin: Origin::new(ME.member, ME.session, number),
            depends_on: Seqno(0),
            ..EntryHeader::bare(TERM, LogIndex(1), Seqno(1), EntryKind::Action)
        }
    }

    /// With two proposals, the first of which ends with the group; the leader is known.
    fn two_proposals() -> LocalProposals {
        let mut proposals = LocalProposals::new(ME, TERM);
        proposals.submit(submission(WaitPolicy::UntilGroupLost));
        proposals.submit(submission(WaitPolicy::UntilKnown));
        proposals.leader_changed(TERM, Some(LEADER));
        proposals
    }

    fn sent(proposals: &mut LocalProposals) -> Vec<(u64, Option<u64>)> {
        std::iter::from_fn(|| proposals.next_send())
            .map(|outgoing| (outgoing.propose.origin.number, outgoing.connection))
            .collect()
    }

    #[test]
    fn proposals_go_to_the_leader_once_per_connection() {
        let mut proposals = two_proposals();
        assert_eq!(sent(&mut proposals), [(1, None), (2, None)]);
        assert_eq!(sent(&mut proposals), []);
        let link = Link {
            connection: 8,
            session: SessionId(1),
        };
        proposals.link_up(LEADER, link);
        proposals.repeat();
        assert_eq!(sent(&mut proposals), [(1, Some(8)), (2, Some(8))]);
    }

    #[test]
    fn large_proposals_are_sent_a_few_at_a_time() {
        let mut proposals = LocalProposals::new(ME, TERM);
        let chunk = Bytes::from(vec![0; SENT_BYTES_MAX / 2]);
        for _ in 0..4 {
            proposals.submit(Submission {
                payload: chunk.clone(),
                ..submission(WaitPolicy::UntilKnown)
            });
        }
        proposals.leader_changed(TERM, Some(LEADER));
        assert_eq!(sent(&mut proposals), [(1, None), (2, None)]);
        assert!(proposals.committed(&entry(1)).is_some());
        assert_eq!(sent(&mut proposals), [(3, None)]);
        proposals.repeat();
        assert_eq!(sent(&mut proposals), [(2, None), (3, None)]);
        assert!(proposals.refused(TERM, 2).is_some());
        assert!(proposals.committed(&entry(3)).is_some());
        assert_eq!(sent(&mut proposals), [(4, None)]);
        assert!(proposals.committed(&entry(4)).is_some());
        assert_eq!(proposals.sent_bytes, 0);
    }

    #[test]
    fn small_proposals_overtake_the_chunks_of_a_large_action() {
        let mut proposals = LocalProposals::new(ME, TERM);
        let chunk = Bytes::from(vec![0; 1 << 20]);
        for _ in 0..128 {
            proposals.submit(Submission {
                kind: EntryKind::Chunk,
                payload: chunk.clone(),
                ..submission(WaitPolicy::UntilGroupLost)
            });
        }
        proposals.leader_changed(TERM, Some(LEADER));
        let kinds = |proposals: &mut LocalProposals| -> Vec<EntryKind> {
            std::iter::from_fn(|| proposals.next_send())
                .map(|outgoing| outgoing.propose.kind)
                .collect()
        };
        assert_eq!(kinds(&mut proposals), [EntryKind::Chunk; CHUNKS_MAX]);
        proposals.submit(submission(WaitPolicy::UntilGroupLost));
        assert_eq!(kinds(&mut proposals), [EntryKind::Action]);
        assert!(proposals.committed(&entry(1)).is_some());
        assert_eq!(kinds(&mut proposals), [EntryKind::Chunk]);
        assert_eq!(proposals.len(), 128);
        assert_eq!(proposals.group_lost().len(), 128);
        assert_eq!((proposals.chunks, proposals.chunk_bytes), (0, 0));
        assert_eq!(proposals.len(), 0);
    }

    #[test]
    fn action_that_has_a_result_is_not_continued() {
        let mut proposals = LocalProposals::new(ME, TERM);
        proposals.leader_changed(TERM, Some(LEADER));
        let decided = Waiter::new(Arc::new(Decided));
        proposals.submit(Submission {
            kind: EntryKind::Chunk,
            waiter: decided,
            ..submission(WaitPolicy::UntilKnown)
        });
        assert_eq!(sent(&mut proposals), []);
        assert_eq!(proposals.len(), 0);
    }

    #[test]
    fn payload_is_known_until_the_result_and_only_by_all_that_the_header_says() {
        let mut proposals = two_proposals();
        let payload = Bytes::from_static(b"payload");
        let header = EntryHeader {
            payload_len: 7,
            payload_crc: crc32c::crc32c(&payload),
            ..entry(1)
        };
        assert_eq!(proposals.payload_of(&header), Some(payload));
        let chunk = EntryHeader {
            kind: EntryKind::Chunk,
            ..header
        };
        let damaged = EntryHeader {
            payload_crc: 0,
            ..header
        };
        let of_another_session = EntryHeader {
            origin: Origin {
                session: SessionId(6),
                ..header.origin
            },
            ..header
        };
        for other in [chunk, damaged, of_another_session] {
            assert_eq!(proposals.payload_of(&other), None);
        }
        assert!(proposals.committed(&header).is_some());
        assert_eq!(proposals.payload_of(&header), None);
    }

    #[test]
    fn proposal_ends_with_its_commit_or_refusal() {
        let mut proposals = two_proposals();
        sent(&mut proposals);
        assert!(proposals.committed(&entry(9)).is_none(), "not outstanding");
        assert!(proposals.committed(&entry(1)).is_some());
        assert!(proposals.refused(Term(2), 2).is_none(), "an older leader");
        assert!(proposals.refused(TERM, 2).is_some());
        assert_eq!(proposals.len(), 0);
    }

    #[test]
    fn proposals_are_withdrawn_with_the_group_or_the_log() {
        let mut proposals = two_proposals();
        assert_eq!(proposals.group_lost().len(), 1);
        assert_eq!(sent(&mut proposals), [(2, None)]);
        assert_eq!(proposals.log_reset(TERM).len(), 1);
        assert_eq!(proposals.len(), 0);
    }
}
