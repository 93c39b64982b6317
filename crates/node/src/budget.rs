//! A bound in bytes on what is under way between threads.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes that may be taken and must be given back.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    total: usize,
    state: Mutex<BudgetState>,
    freed: Condvar,
}

#[derive(Debug)]
struct BudgetState {
    used: usize,
    closed: bool,
}

impl ByteBudget {
    /// A budget of `total` bytes.
    pub(crate) fn new(total: usize) -> ByteBudget {
        ByteBudget {
            total,
            state: Mutex::new(BudgetState {
                used: 0,
                closed: false,
            }),
            freed: Condvar::new(),
        }
    }

    /// Waits until `bytes` are free and takes them. One taker may exceed the total when nothing else
    /// is taken, so that a single large item passes. False: the budget was closed.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        self.take_below(bytes, self.total)
    }

    /// As [`ByteBudget::take`], but leaves the other half of the budget to others.
    pub(crate) fn take_from_half(&self, bytes: usize) -> bool {
        self.take_below(bytes, self.total / 2)
    }

    fn take_below(&self, bytes: usize, bound: usize) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.closed && state.used > 0 && state.used + bytes > bound {
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.used += bytes;
        !state.closed
    }

    /// Gives bytes back.
    pub(crate) fn give_back(&self, bytes: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used = state.used.saturating_sub(bytes);
        drop(state);
        self.freed.notify_all();
    }

    /// Lets every waiter go, now and later.
    pub(crate) fn close(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.freed.notify_all();
    }
}

/// Bytes taken, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl Share {
    /// Takes charge of bytes that were taken from the budget.
    pub(crate) fn of(budget: Arc<ByteBudget>, bytes: usize) -> Share {
        Share { budget, bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn used(budget: &ByteBudget) -> usize {
        budget.state.lock().unwrap().used
    }

    #[test]
    fn one_large_item_passes_alone() {
        let budget = ByteBudget::new(10);
        assert!(budget.take(100));
        assert_eq!(used(&budget), 100);
        budget.give_back(100);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn taker_waits_until_there_is_room() {
        let budget = Arc::new(ByteBudget::new(10));
        assert!(budget.take(8));
        let waiting = {
            let budget = budget.clone();
            thread::spawn(move || budget.take(5))
        };
        assert_eq!(used(&budget), 8);
        budget.give_back(8);
        assert!(waiting.join().unwrap());
        assert_eq!(used(&budget), 5);
    }

    #[test]
    fn share_comes_back_when_dropped() {
        let budget = Arc::new(ByteBudget::new(10));
        assert!(budget.take(8));
        let share = Share::of(budget.clone(), 8);
        assert_eq!(used(&budget), 8);
        drop(share);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn half_is_left_to_those_who_may_take_all() {
        let budget = ByteBudget::new(10);
        assert!(budget.take_from_half(5));
        assert!(budget.take(5));
        assert_eq!(used(&budget), 10);
    }

    #[test]
    fn closing_lets_waiters_and_latecomers_go() {
        let budget = Arc::new(ByteBudget::new(1));
        assert!(budget.take(1));
        let waiting = {
            let budget = budget.clone();
            thread::spawn(move || budget.take(1))
        };
        budget.close();
        assert!(!waiting.join().unwrap());
        assert!(!budget.take(1));
    }
}
