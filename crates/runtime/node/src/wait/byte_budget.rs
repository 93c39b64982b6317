//! A bound in bytes on what is under way between threads.
//!
//! There are some: on received messages that are not handled yet, one for each lane; one on this
//! member's own actions that have no proposal result yet, and one on the chunks of its large ones.
//! A thread that wants to add bytes waits for room, so a slow consumer slows its producers down
//! instead of filling the memory.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use synod_member::lock;

/// A number of bytes that threads take from and give back to.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    /// Bytes that may be taken at the same time.
    total: usize,
    state: Mutex<BudgetState>,
    freed: Condvar,
}

#[derive(Debug)]
struct BudgetState {
    used: usize,
    /// How many have taken bytes and not given them back.
    takers: usize,
    closed: bool,
}

impl ByteBudget {
    /// A budget of `total` bytes.
    pub(crate) fn new(total: usize) -> ByteBudget {
        ByteBudget {
            total,
            state: Mutex::new(BudgetState {
                used: 0,
                takers: 0,
                closed: false,
            }),
            freed: Condvar::new(),
        }
    }

    /// Waits until `bytes` are free and takes them. A taker may exceed the total while no other
    /// bytes are taken, so that a single large item passes. False if the budget is closed.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        self.take_unless(bytes, || false)
    }

    /// Like [`ByteBudget::take`], but false, with nothing taken, if `unwanted` holds. A thread that
    /// makes it hold calls [`ByteBudget::look_again`].
    pub(crate) fn take_unless(&self, bytes: usize, unwanted: impl Fn() -> bool) -> bool {
        let mut state = lock(&self.state);
        loop {
            if unwanted() {
                return false;
            }
            if state.closed || state.used == 0 || state.used + bytes <= self.total {
                break;
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.take(bytes);
        !state.closed
    }

    /// Makes those who wait for room look whether they still want it.
    pub(crate) fn look_again(&self) {
        // A thread that has looked before this holds the lock until it waits.
        drop(lock(&self.state));
        self.freed.notify_all();
    }

    /// Like [`ByteBudget::take`], but without a wait: false also if there is no room now.
    pub(crate) fn take_now(&self, bytes: usize) -> bool {
        let mut state = lock(&self.state);
        let fits = state.used == 0 || state.used + bytes <= self.total;
        let takes = fits && !state.closed;
        if takes {
            state.take(bytes);
        }
        takes
    }

    /// How many have taken bytes and not given them back.
    pub(crate) fn takers(&self) -> usize {
        lock(&self.state).takers
    }

    /// Gives bytes back.
    pub(crate) fn give_back(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.used = state.used.saturating_sub(bytes);
        state.takers = state.takers.saturating_sub(1);
        drop(state);
        self.freed.notify_all();
    }

    /// Ends every wait, now and later.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.freed.notify_all();
    }
}

impl BudgetState {
    fn take(&mut self, bytes: usize) {
        self.used += bytes;
        self.takers += 1;
    }
}

/// Bytes that were taken from a budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl BudgetShare {
    /// Takes charge of bytes that were taken from the budget.
    pub(crate) fn of(budget: Arc<ByteBudget>, bytes: usize) -> BudgetShare {
        BudgetShare { budget, bytes }
    }
}

impl Drop for BudgetShare {
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
    fn taker_that_does_not_want_room_any_more_takes_none() {
        let budget = Arc::new(ByteBudget::new(10));
        assert!(budget.take(8));
        let unwanted = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let waiting = {
            let (budget, unwanted) = (budget.clone(), unwanted.clone());
            thread::spawn(move || {
                budget.take_unless(5, || unwanted.load(std::sync::atomic::Ordering::SeqCst))
            })
        };
        unwanted.store(true, std::sync::atomic::Ordering::SeqCst);
        budget.look_again();
        assert!(!waiting.join().unwrap());
        assert_eq!(used(&budget), 8);
    }

    #[test]
    fn taker_that_does_not_wait_takes_what_is_free() {
        let budget = ByteBudget::new(10);
        assert!(budget.take_now(100), "a single large item passes");
        assert!(!budget.take_now(1));
        budget.give_back(95);
        assert!(budget.take_now(5));
        assert_eq!(used(&budget), 10);
        budget.close();
        budget.give_back(10);
        assert!(!budget.take_now(1));
    }

    #[test]
    fn share_is_given_back_when_it_is_dropped() {
        let budget = Arc::new(ByteBudget::new(10));
        assert!(budget.take(8));
        let share = BudgetShare::of(budget.clone(), 8);
        assert_eq!((used(&budget), budget.takers()), (8, 1));
        drop(share);
        assert_eq!((used(&budget), budget.takers()), (0, 0));
    }

    #[test]
    fn closing_ends_present_and_later_waits() {
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
