//! Clients whose transactions wait for the group's decision.
//!
//! A client that is killed must not wait on: the server's thread cannot be woken from outside, so
//! the host looks at each while it waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use synod_node::{Pending, ProposalResult, WaitResult};

pub(crate) trait Statement: Send + Sync {
    fn is_killed(&self) -> bool;
}

#[derive(Default)]
pub(crate) struct Clients {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    all: BTreeMap<u64, (Arc<Pending>, Arc<dyn Statement>)>,
    has_ended: bool,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the action over by `submit`, and waits for its result; unknown, once the statement is
    /// killed or all waits end.
    pub(crate) fn wait(
        &self,
        pending: &Arc<Pending>,
        statement: Arc<dyn Statement>,
        submit: impl FnOnce(),
    ) -> ProposalResult {
        let number = {
            let mut waiting = self.lock();
            if waiting.has_ended {
                return ProposalResult::NotProposed;
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.all.insert(number, (pending.clone(), statement));
            number
        };
        // The statement is not looked at once its thread has left, in whichever way.
        let _waiting = Leave(self, number);
        submit();
        match pending.wait() {
            WaitResult::ProposalResult(result) => result,
            WaitResult::Interrupted => pending.give_up().unwrap_or(ProposalResult::Unknown),
        }
    }

    pub(crate) fn end_killed(&self) {
        let waiting = self.lock();
        let killed = waiting
            .all
            .values()
            .filter(|(_, client)| client.is_killed());
        killed.for_each(|(pending, _)| end(pending));
    }

    pub(crate) fn end_all(&self) {
        let mut waiting = self.lock();
        waiting.has_ended = true;
        waiting.all.values().for_each(|(pending, _)| end(pending));
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().all.len()
    }
}

struct Leave<'a>(&'a Clients, u64);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.lock().all.remove(&self.1);
    }
}

fn end(pending: &Pending) {
    if !pending.withdraw() {
        pending.interrupt();
    }
}
