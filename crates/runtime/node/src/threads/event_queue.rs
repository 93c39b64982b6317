//! The queue of events: what must not wait for data is taken first.
//!
//! A vote or an acknowledgement that waited behind megabytes of entries would be as late as if it
//! had come by their connection. So there are two queues. Events of one queue keep their order;
//! nothing relies on the order of events in different ones, as nothing relies on the order of
//! messages on different lanes.

use std::collections::VecDeque;

/// Events of each queue that are taken for one turn.
const TAKEN_MAX: usize = 512;

/// An event that knows its queue.
pub(crate) trait Queued {
    /// Whether it goes before what does not.
    fn goes_first(&self) -> bool;
}

/// Events that no turn has handled yet.
#[derive(Debug)]
pub(super) struct EventQueue<E> {
    first: VecDeque<E>,
    rest: VecDeque<E>,
}

impl<E: Queued> EventQueue<E> {
    pub(super) fn new() -> EventQueue<E> {
        EventQueue {
            first: VecDeque::new(),
            rest: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, event: E) {
        if event.goes_first() {
            self.first.push_back(event);
        } else {
            self.rest.push_back(event);
        }
    }

    /// Events for a turn: of each queue some, so that neither ever waits for the other to end.
    pub(super) fn take(&mut self) -> VecDeque<E> {
        let mut taken = take_some(&mut self.first);
        taken.append(&mut take_some(&mut self.rest));
        taken
    }

    /// Puts back the end of what was taken, none of which goes first.
    pub(super) fn put_back(&mut self, mut left: VecDeque<E>) {
        left.append(&mut self.rest);
        self.rest = left;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    /// The next event, for tests.
    #[cfg(test)]
    pub(super) fn pop(&mut self) -> Option<E> {
        self.first.pop_front().or_else(|| self.rest.pop_front())
    }
}

fn take_some<E>(queue: &mut VecDeque<E>) -> VecDeque<E> {
    if queue.len() <= TAKEN_MAX {
        std::mem::take(queue)
    } else {
        queue.drain(..TAKEN_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queued for i32 {
        fn goes_first(&self) -> bool {
            *self < 0
        }
    }

    #[test]
    fn each_queue_keeps_its_order_and_neither_starves_the_other() {
        let mut queue = EventQueue::new();
        let many = 3 * TAKEN_MAX as i32;
        for count in 1..=many {
            queue.push(count);
            queue.push(-count);
        }
        let mut taken = Vec::new();
        while !queue.is_empty() {
            let turn = queue.take();
            assert!(turn.iter().any(|event| *event > 0) && turn[0] < 0);
            taken.extend(turn);
        }
        let rest: Vec<i32> = taken.iter().copied().filter(|event| *event > 0).collect();
        let first: Vec<i32> = taken
            .iter()
            .map(|event| -event)
            .filter(|e| *e > 0)
            .collect();
        let in_order: Vec<i32> = (1..=many).collect();
        assert_eq!((&rest, &first), (&in_order, &in_order));
    }

    #[test]
    fn what_is_put_back_comes_before_what_was_queued_meanwhile() {
        let mut queue = EventQueue::new();
        (1..=3).for_each(|event| queue.push(event));
        let mut taken = queue.take();
        assert_eq!(taken.pop_front(), Some(1));
        queue.push(4);
        queue.push(-1);
        queue.put_back(taken);
        assert_eq!(queue.take(), [-1, 2, 3, 4]);
    }
}
