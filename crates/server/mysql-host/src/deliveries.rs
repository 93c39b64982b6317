//! Deliveries on their way from the node to the thread that feeds the channel.
//!
//! The thread takes all that wait at once, and is woken when the first comes: a wake-up costs as
//! much as what is done for a small transaction. Threads that wait for other things are not woken.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use synod_node::{DataChunk, Delivery};

/// Further ones wait, with so many bytes here. The thread has as many that it has taken.
const BYTES_MAX: usize = 16 << 20;

pub(crate) enum Delivered {
    Chunk(DataChunk),
    Last(Delivery),
}

#[derive(Default)]
pub(crate) struct Deliveries {
    waiting: Mutex<Waiting>,
    came: Condvar,
    left: Condvar,
}

#[derive(Default)]
struct Waiting {
    all: VecDeque<Delivered>,
    bytes: usize,
    has_ended: bool,
}

impl Waiting {
    fn takes_now(&self) -> bool {
        !self.has_ended && self.bytes < BYTES_MAX
    }
}

impl Deliveries {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether [`Deliveries::push`] returns at once, and true.
    pub(crate) fn takes_now(&self) -> bool {
        self.lock().takes_now()
    }

    /// Waits for room; `Break`: deliveries have ended.
    pub(crate) fn push(&self, delivered: Delivered) -> ControlFlow<()> {
        let bytes = match &delivered {
            Delivered::Chunk(chunk) => chunk.data.len(),
            Delivered::Last(Delivery::Action { data, .. }) => {
                data.as_ref().map_or(0, bytes::Bytes::len)
            }
            Delivered::Last(Delivery::View(_)) => 0,
        };
        let must_wait = |waiting: &mut Waiting| !waiting.has_ended && !waiting.takes_now();
        let waited = self.left.wait_while(self.lock(), must_wait);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        if waiting.has_ended {
            return ControlFlow::Break(());
        }
        waiting.all.push_back(delivered);
        waiting.bytes += bytes;
        let is_first = waiting.all.len() == 1;
        drop(waiting);
        if is_first {
            self.came.notify_one();
        }
        ControlFlow::Continue(())
    }

    /// Waits for some, and takes all; none: they have ended.
    pub(crate) fn take(&self) -> Option<VecDeque<Delivered>> {
        let must_wait = |waiting: &mut Waiting| !waiting.has_ended && waiting.all.is_empty();
        let waited = self.came.wait_while(self.lock(), must_wait);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        if waiting.has_ended {
            return None;
        }
        if !waiting.takes_now() {
            self.left.notify_one();
        }
        waiting.bytes = 0;
        Some(std::mem::take(&mut waiting.all))
    }

    pub(crate) fn end(&self) {
        self.lock().has_ended = true;
        self.came.notify_all();
        self.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use synod_node::{Origin, Seqno};

    use super::*;

    fn action(seqno: i64, bytes: usize) -> Delivered {
        Delivered::Last(Delivery::Action {
            seqno: Seqno(seqno),
            depends_on: Seqno(seqno - 1),
            origin: Origin::default(),
            data: Some(vec![0; bytes].into()),
        })
    }

    fn chunk(seqno: i64, bytes: usize) -> Delivered {
        Delivered::Chunk(DataChunk {
            seqno: Seqno(seqno),
            depends_on: Seqno(seqno - 1),
            action_bytes: bytes,
            data: vec![0; bytes].into(),
        })
    }

    fn seqnos(taken: &VecDeque<Delivered>) -> Vec<i64> {
        let seqno = |delivered: &Delivered| match delivered {
            Delivered::Chunk(chunk) => chunk.seqno.0,
            Delivered::Last(delivery) => delivery.seqno().0,
        };
        taken.iter().map(seqno).collect()
    }

    #[test]
    fn all_that_wait_are_taken_in_their_order_and_make_room() {
        let deliveries = Arc::new(Deliveries::default());
        assert!(deliveries.push(action(1, 10)).is_continue());
        assert!(deliveries.takes_now());
        assert!(deliveries.push(chunk(2, BYTES_MAX)).is_continue());
        assert!(!deliveries.takes_now());
        let pushes = deliveries.clone();
        let third = thread::spawn(move || pushes.push(action(3, 10)));
        assert_eq!(seqnos(&deliveries.take().unwrap()), [1, 2]);
        assert!(third.join().unwrap().is_continue());
        assert_eq!(seqnos(&deliveries.take().unwrap()), [3]);
    }

    #[test]
    fn end_ends_the_waits_of_both_sides() {
        let deliveries = Arc::new(Deliveries::default());
        let takes = deliveries.clone();
        let taker = thread::spawn(move || takes.take().is_none());
        deliveries.end();
        assert!(taker.join().unwrap());
        assert!(!deliveries.takes_now());
        assert!(deliveries.push(action(1, 10)).is_break());
    }
}
