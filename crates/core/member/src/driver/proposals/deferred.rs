//! Proposals that wait at the leader, and whose turn it is. They wait while the log is full, the
//! leader's own disk lags, or leadership is transferred. Each member has two flows here: its small
//! actions, and the pieces of its large ones. The flows take turns by bytes (deficit round robin:
//! Shreedhar and Varghese, 1995). So the large actions of one member hold up neither the others nor
//! its own small ones, and no flow waits for ever. Within a flow the order of arrival holds: the
//! pieces of an action must stay in order.

use std::collections::{BTreeMap, HashSet, VecDeque};

use synod_consensus::{EntryKind, MemberId, Origin};
use synod_wire::Propose;

use crate::payload::action::ActionPiece;

/// Cost of a proposal beside its payload, in bytes: an empty one is not free.
const PROPOSAL_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ActionSize {
    Small,
    /// The proposal is a chunk, or the last piece after chunks.
    Large,
}

impl ActionSize {
    pub(super) fn of(kind: EntryKind, payload: &bytes::Bytes) -> ActionSize {
        let is_last_of_several =
            || ActionPiece::decode(payload.clone()).is_ok_and(|piece| piece.action_no != 0);
        if kind == EntryKind::Chunk || is_last_of_several() {
            ActionSize::Large
        } else {
            ActionSize::Small
        }
    }

    /// Bytes that a flow may send more at each of its turns: a few small actions, since the others
    /// wait meanwhile. A chunk takes many turns.
    fn quantum(self) -> usize {
        match self {
            ActionSize::Small => 8 << 10,
            ActionSize::Large => 4 << 10,
        }
    }
}

type FlowKey = (MemberId, ActionSize);

#[derive(Default)]
struct Flow {
    queue: VecDeque<Propose>,
    /// Bytes that may be sent before the turn passes on.
    deficit: usize,
}

/// A queue that has each proposal once, however often its origin repeats it. So it holds no more
/// than what the origins have on their way, which they bound. Invariants: `origins` are those of
/// the proposals in `flows`; `turns` names each flow once, and no flow is empty.
#[derive(Default)]
pub(super) struct Deferred {
    flows: BTreeMap<FlowKey, Flow>,
    turns: VecDeque<FlowKey>,
    origins: HashSet<Origin>,
}

impl Deferred {
    pub(super) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.origins.len()
    }

    /// Adds a proposal at the end of its flow. A repetition with a newer tag takes the place of
    /// what it repeats.
    pub(super) fn push(&mut self, propose: Propose) {
        let key = key_of(&propose);
        if self.origins.insert(propose.origin) {
            self.flow(key).queue.push_back(propose);
            return;
        }
        let mut queued = self.flows.values_mut().flat_map(|flow| &mut flow.queue);
        let known = queued.find(|known| known.origin == propose.origin);
        if let Some(known) = known.filter(|known| known.tag < propose.tag) {
            *known = propose;
        }
    }

    /// Adds the proposal that came last out of the queue again: it is the next one.
    pub(super) fn put_back(&mut self, propose: Propose) {
        if !self.origins.insert(propose.origin) {
            return;
        }
        let key = key_of(&propose);
        let cost = cost_of(&propose);
        let flow = self.flow(key);
        flow.deficit += cost;
        flow.queue.push_front(propose);
        self.turns.retain(|other| *other != key);
        self.turns.push_front(key);
    }

    pub(super) fn pop(&mut self) -> Option<Propose> {
        loop {
            let key = *self.turns.front()?;
            let flow = self.flows.get_mut(&key)?;
            let cost = flow.queue.front().map_or(0, cost_of);
            if flow.deficit < cost {
                flow.deficit += key.1.quantum();
                self.turns.rotate_left(1);
                continue;
            }
            flow.deficit -= cost;
            let propose = flow.queue.pop_front()?;
            if flow.queue.is_empty() {
                self.flows.remove(&key);
                self.turns.pop_front();
            }
            self.origins.remove(&propose.origin);
            return Some(propose);
        }
    }

    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.turns.clear();
        self.origins.clear();
    }

    fn flow(&mut self, key: FlowKey) -> &mut Flow {
        let turns = &mut self.turns;
        self.flows.entry(key).or_insert_with(|| {
            turns.push_back(key);
            Flow::default()
        })
    }
}

fn key_of(propose: &Propose) -> FlowKey {
    let size = ActionSize::of(propose.kind, &propose.payload);
    (propose.origin.member, size)
}

fn cost_of(propose: &Propose) -> usize {
    propose.payload.len() + PROPOSAL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_consensus::{SessionId, Term};

    fn propose(tag: u64, number: u64) -> Propose {
        of_member(1, tag, number, EntryKind::Action, Bytes::new())
    }

    fn of_member(member: u64, tag: u64, number: u64, kind: EntryKind, payload: Bytes) -> Propose {
        Propose {
            tag: Term(tag),
            origin: Origin::new(MemberId(member), SessionId(2), number),
            kind,
            oldest_outstanding: 1,
            payload,
        }
    }

    fn drain(deferred: &mut Deferred) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| deferred.pop())
            .map(|p| (p.tag.0, p.origin.number))
            .collect()
    }

    #[test]
    fn repetition_is_held_once_and_keeps_its_place() {
        let mut deferred = Deferred::default();
        for (tag, number) in [(1, 1), (1, 2), (1, 1), (2, 1)] {
            deferred.push(propose(tag, number));
        }
        assert_eq!(deferred.len(), 2);
        assert_eq!(drain(&mut deferred), [(2, 1), (1, 2)]);
        assert!(deferred.is_empty());
    }

    #[test]
    fn proposal_that_is_put_back_comes_next() {
        let mut deferred = Deferred::default();
        deferred.push(propose(1, 1));
        deferred.push(propose(1, 2));
        deferred.push(of_member(5, 1, 3, EntryKind::Action, Bytes::new()));
        let first = deferred.pop().unwrap();
        deferred.put_back(first);
        assert_eq!(drain(&mut deferred), [(1, 1), (1, 2), (1, 3)]);
    }

    /// 128 MiB of one member's chunks wait, then come a small action of that member, and ten of
    /// another.
    #[test]
    fn small_actions_do_not_wait_behind_the_chunks_of_a_large_one() {
        let mut deferred = Deferred::default();
        let chunk = Bytes::from(vec![0; 1 << 20]);
        for number in 1..=128 {
            deferred.push(of_member(1, 1, number, EntryKind::Chunk, chunk.clone()));
        }
        let small = Bytes::from(vec![9; 2000]);
        deferred.push(of_member(1, 1, 200, EntryKind::Action, small.clone()));
        for number in 1..=10 {
            deferred.push(of_member(2, 1, number, EntryKind::Action, small.clone()));
        }
        let order: Vec<Propose> = std::iter::from_fn(|| deferred.pop()).collect();
        let last_small = order.iter().rposition(|p| p.kind == EntryKind::Action);
        let before = order[..last_small.unwrap()].iter();
        let chunks_before = before.filter(|p| p.kind == EntryKind::Chunk).count();
        assert!(chunks_before <= 1, "{chunks_before} chunks first");
        let chunks = order.iter().filter(|p| p.kind == EntryKind::Chunk);
        let numbers: Vec<u64> = chunks.map(|p| p.origin.number).collect();
        assert!(numbers.is_sorted() && numbers.len() == 128);
    }

    #[test]
    fn chunks_come_through_although_small_actions_never_end() {
        let mut deferred = Deferred::default();
        let chunk = Bytes::from(vec![0; 1 << 20]);
        for number in 1..=3 {
            deferred.push(of_member(1, 1, number, EntryKind::Chunk, chunk.clone()));
        }
        let small = Bytes::from(vec![9; 10_000]);
        let (mut chunks, mut small_bytes) = (0, 0);
        for number in 1.. {
            // There is always another small one of each of three members.
            for member in 1..=3 {
                let kind = EntryKind::Action;
                deferred.push(of_member(member, 1, 100 + number, kind, small.clone()));
            }
            for _ in 0..3 {
                match deferred.pop().unwrap().kind {
                    EntryKind::Chunk => chunks += 1,
                    _ => small_bytes += small.len(),
                }
            }
            if chunks == 3 {
                break;
            }
            assert!(small_bytes < 50 << 20, "{chunks} chunks so far");
        }
    }

    #[test]
    fn member_whose_flow_never_ends_does_not_keep_its_turn() {
        let mut deferred = Deferred::default();
        let mut number = 0;
        let mut push = |deferred: &mut Deferred, member| {
            number += 1;
            let kind = EntryKind::Action;
            deferred.push(of_member(
                member,
                1,
                number,
                kind,
                Bytes::from(vec![1; 100]),
            ));
        };
        (0..50).for_each(|_| push(&mut deferred, 1));
        push(&mut deferred, 2);
        let passed = (1..).find(|_| {
            push(&mut deferred, 1);
            deferred.pop().unwrap().origin.member == MemberId(2)
        });
        assert!(passed.is_some_and(|passed| passed < 30), "{passed:?}");
    }

    #[test]
    fn members_share_by_bytes_and_not_by_proposals() {
        let mut deferred = Deferred::default();
        let (large, small) = (Bytes::from(vec![1; 100_000]), Bytes::from(vec![1; 10_000]));
        for number in 1..=1000 {
            let kind = EntryKind::Action;
            deferred.push(of_member(1, 1, number, kind, large.clone()));
            deferred.push(of_member(2, 1, number, kind, small.clone()));
        }
        let mut sent = [0, 0];
        for _ in 0..550 {
            let propose = deferred.pop().unwrap();
            sent[propose.origin.member.0 as usize - 1] += propose.payload.len();
        }
        let [first, second] = sent;
        assert!(first < second * 2 && second < first * 2, "{sent:?}");
    }
}
