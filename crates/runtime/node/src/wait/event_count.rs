//! An event count: threads wait until something has happened that they have not seen.
//!
//! It is notified when the commit index or the written log has moved, which other threads wait for,
//! and when the delivery thread has something to do. A waiter reads the count first, then looks at
//! the state, then waits beyond the count that it read: a notification between the look and the
//! wait is never missed.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use synod_member::lock;

#[derive(Debug, Default)]
struct State {
    /// How many notifications there were.
    count: u64,
    waiting: usize,
    stopped: bool,
}

/// A count of notifications that threads wait on. Stopping it is final.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    state: Mutex<State>,
    changed: Condvar,
}

impl EventCount {
    /// Counts one more event and wakes all waiters.
    pub(crate) fn notify(&self) {
        let mut state = lock(&self.state);
        state.count += 1;
        let has_waiters = state.waiting > 0;
        drop(state);
        if has_waiters {
            self.changed.notify_all();
        }
    }

    /// Ends every wait, now and later.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    /// The number of events so far; `None` once stopped.
    pub(crate) fn count(&self) -> Option<u64> {
        let state = lock(&self.state);
        (!state.stopped).then_some(state.count)
    }

    /// Waits until the count exceeds `seen`, or the event count is stopped.
    pub(crate) fn wait_beyond(&self, seen: u64) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let waited = self
            .changed
            .wait_while(state, |state| !state.stopped && state.count <= seen);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    /// Like [`EventCount::wait_beyond`], at most until `deadline`.
    pub(crate) fn wait_beyond_until(&self, seen: u64, deadline: Instant) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let limit = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.stopped && state.count <= seen);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn event_between_look_and_wait_is_not_missed() {
        let events = EventCount::default();
        let seen = events.count().unwrap();
        events.notify();
        events.wait_beyond(seen);
        assert_eq!(events.count(), Some(seen + 1));
    }

    #[test]
    fn wait_ends_at_its_deadline_without_an_event() {
        let events = EventCount::default();
        events.notify();
        let seen = events.count().unwrap();
        events.wait_beyond_until(seen, Instant::now());
        assert_eq!(events.count(), Some(seen));
    }

    #[test]
    fn stopping_ends_the_wait() {
        let events = Arc::new(EventCount::default());
        let waiting = {
            let events = events.clone();
            std::thread::spawn(move || events.wait_beyond(0))
        };
        events.stop();
        waiting.join().unwrap();
        assert_eq!(events.count(), None);
    }
}
