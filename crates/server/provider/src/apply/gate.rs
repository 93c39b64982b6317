//! A place for one thread to sleep until it is woken.
//!
//! Each waiting thread has its own, so that a change wakes exactly the threads that it concerns.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct Inner {
    woken: Mutex<bool>,
    condition: Condvar,
}

/// Waking before the sleep counts; each wake ends one sleep.
#[derive(Clone, Default)]
pub(in crate::apply) struct Gate(Arc<Inner>);

impl Gate {
    pub(in crate::apply) fn wake(&self) {
        *self.0.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.condition.notify_one();
    }

    /// Sleeps until woken, or until the deadline.
    pub(in crate::apply) fn wait_until(&self, deadline: Option<Instant>) {
        let mut woken = self.0.woken.lock().unwrap_or_else(PoisonError::into_inner);
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

    pub(in crate::apply) fn is(&self, other: &Gate) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
