//! A feeder's orders for entries that have not come yet: an order may overtake them, since a leader
//! serves its followers one after the other.

use std::collections::VecDeque;

use synod_wire::FeedOrder;

/// Orders that wait at most. What is dropped, the leader sends again itself.
const WAITING_MAX: usize = 256;

#[derive(Default)]
pub(super) struct FeedOrders(VecDeque<FeedOrder>);

impl FeedOrders {
    pub(super) fn wait(&mut self, order: FeedOrder) {
        if self.0.len() == WAITING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(order);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self) -> VecDeque<FeedOrder> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{EntryId, LogIndex, MemberId, Term, Time};

    fn order(commit: u64) -> FeedOrder {
        FeedOrder {
            learner: MemberId(1),
            term: Term(1),
            prev: EntryId::default(),
            last: EntryId::default(),
            may_shorten: false,
            commit: LogIndex(commit),
            sent_at: Time(0),
        }
    }

    #[test]
    fn newest_orders_are_kept() {
        let mut orders = FeedOrders::default();
        assert!(orders.is_empty());
        let most = WAITING_MAX as u64;
        (0..most + 3).for_each(|commit| orders.wait(order(commit)));
        let kept: Vec<u64> = orders.take().iter().map(|order| order.commit.0).collect();
        assert_eq!(kept, (3..most + 3).collect::<Vec<_>>());
        assert!(orders.is_empty());
    }
}
