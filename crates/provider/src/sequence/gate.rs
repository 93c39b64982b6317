//! A place for one thread to sleep until it is woken.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct Inner {
    woken: Mutex<bool>,
    condition: Condvar,
}

/// Waking before the sleep counts; each wake ends one sleep.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Inner>);

impl Gate {
    pub(super) fn wake(&self) {
        *self.0.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.condition.notify_one();
    }

    pub(super) fn wait(&self) {
        self.wait_until(None);
    }

    pub(super) fn wait_until(&self, deadline: Option<Instant>) {
        let mut woken = self.0.woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*woken {
            match deadline {
                None => {
                    woken = self.0.condition.wait(woken).unwrap_or_else(PoisonError::into_inner);
                }
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    (woken, _) = self
                        .0
                        .condition
                        .wait_timeout(woken, left)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        *woken = false;
    }
}
