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
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::lock;

#[derive(Clone, Debug)]
pub(crate) struct LateReaderPermits(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    /// Permits that no thread holds; zero while any thread waits.
    free: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug, Default)]
struct Waiter {
    has_permit: Mutex<bool>,
    given: Condvar,
}

/// The right to prepare a portion for a late reader, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(LateReaderPermits);

impl LateReaderPermits {
    /// Permits for half of this machine's cores, at least one.
    pub(crate) fn of_this_machine() -> LateReaderPermits {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        LateReaderPermits::new((cores / 2).max(1))
    }

    pub(crate) fn new(count: usize) -> LateReaderPermits {
        let (free, waiting) = (count, VecDeque::new());
        LateReaderPermits(Arc::new(Mutex::new(Queue { free, waiting })))
    }

    /// Waits for a permit, behind all that have asked before.
    fn take(&self) -> Permit {
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

#[cfg(test)]
impl LateReaderPermits {
    /// A permit, if one is free.
    pub(crate) fn try_take(&self) -> Option<Permit> {
        let is_free = lock(&self.0).free > 0;
        is_free.then(|| self.take())
    }
}

/// A reader is late until it has first come to the end of the log, and again once it was given so
/// much, in bytes, since it was there. Less is what comes to a reader at the tail while its thread
/// sleeps.
const LATE_BYTES: usize = 4 << 20;
/// Actions of a portion, at most: some give readers nothing.
const PORTION_ACTIONS: u32 = 1024;

pub(crate) struct LateReaderTurns {
    permits: LateReaderPermits,
    permit: Option<Permit>,
    /// Bytes that the reader was given since it was at the end of the log.
    since_end: usize,
    actions: u32,
}

impl LateReaderTurns {
    pub(crate) fn new(permits: LateReaderPermits) -> LateReaderTurns {
        LateReaderTurns {
            permits,
            permit: None,
            since_end: 0,
            actions: 0,
        }
    }

    /// The reader begins: its place is looked for, and how far behind it is shows only at the end
    /// of the log. Waits for a permit.
    pub(crate) fn begins(&mut self) {
        self.since_end = LATE_BYTES;
        self.begins_portion(0);
    }

    pub(crate) fn is_at_end(&mut self) {
        self.permit = None;
        (self.since_end, self.actions) = (0, 0);
    }

    /// The portion is as large as it may be: it is to be sent.
    pub(crate) fn ends_portion(&mut self) {
        self.permit = None;
    }

    /// So many bytes were sent, and the next portion begins. Waits for a permit, if the reader is
    /// late.
    pub(crate) fn begins_portion(&mut self, sent_bytes: usize) {
        self.since_end = self.since_end.saturating_add(sent_bytes);
        self.actions = 0;
        if self.since_end >= LATE_BYTES {
            self.permit = None;
            self.permit = Some(self.permits.take());
        }
    }

    /// An action was looked at. A portion of many of them ends, whatever its size.
    pub(crate) fn passes_action(&mut self) {
        self.actions += 1;
        if self.actions >= PORTION_ACTIONS {
            self.begins_portion(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A thread that takes a permit, says its number, and gives it back.
    fn ask(
        permits: &LateReaderPermits,
        number: usize,
        said: &mpsc::Sender<usize>,
    ) -> thread::JoinHandle<()> {
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
        let permits = LateReaderPermits::new(2);
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
        let permits = LateReaderPermits::new(1);
        let held = permits.take();
        let (said, says) = mpsc::channel();
        let thread = ask(&permits, 7, &said);
        drop(held);
        let _next = permits.take();
        assert_eq!(says.try_recv(), Ok(7), "the one that waited was first");
        thread.join().unwrap();
    }

    fn is_free(permits: &LateReaderPermits) -> bool {
        permits.try_take().is_some()
    }

    #[test]
    fn reader_is_late_from_its_beginning_to_its_first_end_of_the_log() {
        let permits = LateReaderPermits::new(1);
        let mut turns = LateReaderTurns::new(permits.clone());
        assert!(is_free(&permits), "it has not begun");
        turns.begins();
        assert!(!is_free(&permits));
        turns.ends_portion();
        assert!(is_free(&permits), "it sends");
        turns.begins_portion(1);
        assert!(!is_free(&permits), "it has not been at the end yet");
        turns.is_at_end();
        turns.begins_portion(1);
        assert!(is_free(&permits));
    }

    #[test]
    fn reader_at_the_tail_takes_no_permit() {
        let permits = LateReaderPermits::new(1);
        let mut turns = LateReaderTurns::new(permits.clone());
        turns.begins();
        turns.is_at_end();
        for _ in 0..100 {
            turns.ends_portion();
            turns.begins_portion(LATE_BYTES - 1);
            (0..PORTION_ACTIONS).for_each(|_| turns.passes_action());
            assert!(is_free(&permits));
            turns.is_at_end();
        }
    }

    #[test]
    fn late_reader_holds_a_permit_but_not_while_it_sends() {
        let permits = LateReaderPermits::new(1);
        let mut turns = LateReaderTurns::new(permits.clone());
        turns.begins_portion(LATE_BYTES);
        assert!(!is_free(&permits));
        turns.ends_portion();
        assert!(is_free(&permits), "it sends");
        turns.begins_portion(1);
        assert!(!is_free(&permits), "still late");
        turns.is_at_end();
        assert!(is_free(&permits));
        turns.begins_portion(1);
        assert!(is_free(&permits), "no longer late");
        turns.begins_portion(LATE_BYTES);
        drop(turns);
        assert!(is_free(&permits), "its connection has ended");
    }
}
