//! Permits: how many late readers are served at a time.
//!
//! A reader that is far behind takes as much of a core as it gets. Many of them would take all
//! cores, and rows would come later to the readers at the tail: the threads on a row's way would
//! wait for a core, each of them. So a late reader holds a permit while its place is looked for and
//! while its next portion is prepared, and there are fewer permits than cores, where there are
//! several.
//!
//! Invariants: permits are given in the order in which they were asked for. No thread holds one
//! while it writes to a socket, so a reader that takes nothing delays no other.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The permits of a relay. Each clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    /// Permits that no thread holds; zero while any thread waits.
    free: usize,
    /// Waiting threads, first in, first out.
    waiting: VecDeque<Arc<Waiter>>,
}

/// A thread that waits.
#[derive(Debug, Default)]
struct Waiter {
    has_permit: Mutex<bool>,
    given: Condvar,
}

/// The right to prepare a portion for a late reader, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Permits);

impl Permits {
    /// Permits for half of this machine's cores, at least one.
    pub(crate) fn of_this_machine() -> Permits {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Permits::new((cores / 2).max(1))
    }

    /// So many permits.
    pub(crate) fn new(count: usize) -> Permits {
        let (free, waiting) = (count, VecDeque::new());
        Permits(Arc::new(Mutex::new(Queue { free, waiting })))
    }

    /// Waits for a permit, behind all that have asked before.
    pub(crate) fn take(&self) -> Permit {
        let waiter = {
            let mut queue = lock(&self.0);
            if queue.free > 0 {
                queue.free -= 1;
                return Permit(self.clone());
            }
            let waiter = Arc::<Waiter>::default();
            queue.waiting.push_back(waiter.clone());
            waiter
        };
        let has_none = |has_permit: &mut bool| !*has_permit;
        // Its value is the same if another thread has panicked.
        drop((waiter.given).wait_while(lock(&waiter.has_permit), has_none));
        Permit(self.clone())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = {
            let mut queue = lock(&self.0.0);
            let next = queue.waiting.pop_front();
            queue.free += usize::from(next.is_none());
            next
        };
        if let Some(waiter) = next {
            *lock(&waiter.has_permit) = true;
            waiter.given.notify_one();
        }
    }
}

/// Locks even if a thread panicked while holding it: the values are valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
impl Permits {
    /// A permit, if one is free.
    pub(crate) fn try_take(&self) -> Option<Permit> {
        let is_free = lock(&self.0).free > 0;
        is_free.then(|| self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A thread that takes a permit, says its number, and gives it back.
    fn ask(permits: &Permits, number: usize, said: &mpsc::Sender<usize>) -> thread::JoinHandle<()> {
        let (other, said) = (permits.clone(), said.clone());
        let waiting = lock(&permits.0).waiting.len();
        let thread = thread::spawn(move || {
            let _permit = other.take();
            said.send(number).unwrap();
        });
        while lock(&permits.0).waiting.len() == waiting {
            thread::yield_now();
        }
        thread
    }

    #[test]
    fn permits_are_given_in_the_order_of_asking() {
        let permits = Permits::new(2);
        let held = (permits.take(), permits.take());
        let (said, says) = mpsc::channel();
        let threads: Vec<_> = (0..5).map(|number| ask(&permits, number, &said)).collect();
        assert!(says.try_recv().is_err(), "both are held");
        drop(held.0);
        assert_eq!(says.iter().take(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        drop(held.1);
        assert_eq!(lock(&permits.0).free, 2);
    }

    #[test]
    fn permit_that_is_given_back_is_not_free_while_a_thread_waits() {
        let permits = Permits::new(1);
        let held = permits.take();
        let (said, says) = mpsc::channel();
        let thread = ask(&permits, 7, &said);
        drop(held);
        let _next = permits.take();
        assert_eq!(says.try_recv(), Ok(7), "the one that waited was first");
        thread.join().unwrap();
    }
}
