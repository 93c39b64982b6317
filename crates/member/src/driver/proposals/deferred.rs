//! Proposals that wait for room in the leader's log, in the order of their arrival.
//!
//! There is no room while the log is full, the leader's own disk lags, or leadership is
//! transferred.

use std::collections::{HashSet, VecDeque};

use synod_consensus::Origin;
use synod_wire::Propose;

/// A queue that has each proposal once, however often its origin repeats it. So it holds no more
/// than what the origins have on their way, which they bound.
///
/// Invariant: `origins` are those of the proposals in `queue`.
#[derive(Default)]
pub(super) struct Deferred {
    queue: VecDeque<Propose>,
    origins: HashSet<Origin>,
}

impl Deferred {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Adds a proposal at the end. A repetition with a newer tag takes the place of what it
    /// repeats.
    pub(super) fn push(&mut self, propose: Propose) {
        if self.origins.insert(propose.origin) {
            self.queue.push_back(propose);
            return;
        }
        let known = self.queue.iter_mut().find(|p| p.origin == propose.origin);
        if let Some(known) = known.filter(|known| known.tag < propose.tag) {
            *known = propose;
        }
    }

    /// Adds a proposal at the front again.
    pub(super) fn put_back(&mut self, propose: Propose) {
        if self.origins.insert(propose.origin) {
            self.queue.push_front(propose);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Propose> {
        let propose = self.queue.pop_front()?;
        self.origins.remove(&propose.origin);
        Some(propose)
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.origins.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use synod_consensus::{EntryKind, MemberId, SessionId, Term};

    fn propose(tag: u64, number: u64) -> Propose {
        Propose {
            tag: Term(tag),
            origin: Origin {
                member: MemberId(1),
                session: SessionId(2),
                number,
            },
            kind: EntryKind::Action,
            oldest_outstanding: 1,
            payload: Bytes::new(),
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
        let first = deferred.pop().unwrap();
        deferred.put_back(first);
        assert_eq!(drain(&mut deferred), [(1, 1), (1, 2)]);
    }
}
