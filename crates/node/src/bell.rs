//! Wakes whoever waits for the log to move on: delivery above all.

use std::sync::{Condvar, Mutex, PoisonError};

use synod_member::lock;

#[derive(Debug, Default)]
struct State {
    /// How often it was rung.
    rung: u64,
    stopped: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    changed: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        lock(&self.state).rung += 1;
        self.changed.notify_all();
    }

    /// Nobody waits any longer, now or later.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    /// How often it was rung; `None` once stopped.
    pub(crate) fn rung(&self) -> Option<u64> {
        let state = lock(&self.state);
        (!state.stopped).then_some(state.rung)
    }

    /// Waits until it has been rung more than `seen` times, or is stopped.
    pub(crate) fn wait_after(&self, seen: u64) {
        let waited = self.changed.wait_while(lock(&self.state), |state| {
            !state.stopped && state.rung <= seen
        });
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn ring_between_look_and_wait_is_not_missed() {
        let bell = Bell::default();
        let seen = bell.rung().unwrap();
        bell.ring();
        bell.wait_after(seen);
        assert_eq!(bell.rung(), Some(seen + 1));
    }

    #[test]
    fn stopping_ends_the_wait() {
        let bell = Arc::new(Bell::default());
        let waiting = {
            let bell = bell.clone();
            std::thread::spawn(move || bell.wait_after(0))
        };
        bell.stop();
        waiting.join().unwrap();
        assert_eq!(bell.rung(), None);
    }
}
