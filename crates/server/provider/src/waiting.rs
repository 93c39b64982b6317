//! How threads wait for each other.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use synod_planted::planted;

use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// The value with its lock and its condition. The lock is held for moments only.
#[derive(Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.value)
    }

    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `done` answers something; `None` on the deadline.
    pub(crate) fn wait_for<R>(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let mut value = self.lock();
        loop {
            if let Some(found) = done(&mut value) {
                return Some(found);
            }
            let Some(at) = deadline else {
                let waited = self.changed.wait(value);
                value = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return None;
            }
            let waited = self.changed.wait_timeout(value, left);
            value = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[derive(Default)]
struct Inner {
    woken: Mutex<bool>,
    condition: Condvar,
}

/// Waking before the sleep counts; each wake ends one sleep.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Inner>);

impl Gate {
    pub(crate) fn wake(&self) {
        planted!(ForgetWake, *lock(&self.0.woken) = true, else ());
        self.0.condition.notify_one();
    }

    pub(crate) fn wait_until(&self, deadline: Option<Instant>) {
        let mut woken = lock(&self.0.woken);
        while !*woken {
            let Some(at) = deadline else {
                let waited = self.0.condition.wait(woken);
                woken = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.condition.wait_timeout(woken, left);
            (woken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *woken = false;
    }

    pub(crate) fn is(&self, other: &Gate) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiter_sees_the_change_it_waits_for() {
        let watched = Watched::<u32>::default();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| watched.wait_for(None, |n| (*n == 2).then_some("two")));
            watched.update(|n| *n = 1);
            watched.update(|n| *n = 2);
            assert_eq!(waits.join().unwrap(), Some("two"));
        });
    }

    #[test]
    fn deadline_ends_the_wait() {
        let watched = Watched::<u32>::default();
        let found = watched.wait_for(Some(Instant::now()), |_| None::<()>);
        assert_eq!(found, None);
    }
}
