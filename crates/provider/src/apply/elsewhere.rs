//! Clients that wait until the databases of all other servers have their commit
//! (`synod.commit_wait=applied`).
//!
//! The node says up to where that is so, and which servers count. Nothing here can fail: the commit
//! is durable, and the wait ends with the connection at the latest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::gate::Gate;

/// Up to where the others have applied, and who waits for it.
pub(crate) struct Elsewhere {
    /// Everything up to here is applied on all servers that are waited for.
    reached: AtomicI64,
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// By the seqno waited for, and a number of their own.
    clients: BTreeMap<(i64, u64), Gate>,
    tickets: u64,
    /// The connection ends: there is nothing to wait for any more.
    is_over: bool,
}

impl Default for Elsewhere {
    fn default() -> Elsewhere {
        Elsewhere {
            reached: AtomicI64::new(i64::MAX),
            state: Mutex::default(),
        }
    }
}

impl Elsewhere {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything up to `seqno` is applied on all servers that are waited for.
    pub(crate) fn reach(&self, seqno: i64) {
        let mut state = self.lock();
        self.reached.store(seqno, Ordering::Release);
        while let Some(first) = state.clients.first_entry()
            && first.key().0 <= seqno
        {
            first.remove().wake();
        }
    }

    /// Ends all waits, and those that begin later.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        for gate in std::mem::take(&mut state.clients).into_values() {
            gate.wake();
        }
    }

    /// Waits until the action at `seqno` is applied everywhere.
    pub(crate) fn wait(&self, seqno: i64) {
        if self.reached.load(Ordering::Acquire) >= seqno {
            return;
        }
        let mut state = self.lock();
        if state.is_over || self.reached.load(Ordering::Acquire) >= seqno {
            return;
        }
        state.tickets += 1;
        let (key, gate) = ((seqno, state.tickets), Gate::default());
        state.clients.insert(key, gate.clone());
        drop(state);
        // Only a change that ends this wait wakes it.
        gate.wait_until(None);
    }

    /// How many clients wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().clients.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn client_waits_for_its_own_action_and_for_no_longer() {
        let elsewhere = Elsewhere::default();
        elsewhere.wait(5);
        elsewhere.reach(3);
        elsewhere.wait(3);
        let (done, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            for seqno in [4, 5, 5, 9] {
                let (elsewhere, done) = (&elsewhere, done.clone());
                scope.spawn(move || {
                    elsewhere.wait(seqno);
                    done.send(seqno).expect("received below");
                });
            }
            while elsewhere.waiting() < 4 {
                std::thread::yield_now();
            }
            elsewhere.reach(5);
            let mut woken: Vec<i64> = (0..3).map(|_| ended.recv().unwrap()).collect();
            woken.sort_unstable();
            assert_eq!(woken, [4, 5, 5]);
            assert_eq!(elsewhere.waiting(), 1);
            elsewhere.reach(2);
            assert_eq!(elsewhere.waiting(), 1, "another server lags further");
            elsewhere.end();
            assert_eq!(ended.recv(), Ok(9));
        });
        elsewhere.wait(10);
    }
}
