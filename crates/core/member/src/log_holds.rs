//! Holds on this member's log: what its readers still need. Each reader moves its own hold, at each
//! action that it has passed, so a hold is never behind its reader: a log may be full of a few
//! large actions. There may be thousands of readers, so moving a hold locks nothing; the table of
//! all holds is locked when a reader comes, and at each slow tick.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use synod_consensus::Seqno;

use crate::shared::lock;

#[derive(Debug, Default)]
pub(crate) struct LogHolds {
    /// The last action that the reader of each hold has passed.
    passed: Mutex<Vec<Weak<AtomicI64>>>,
}

/// Keeps a log from being purged of what comes after an action, until it is dropped.
#[derive(Debug)]
pub struct LogHold {
    passed: Arc<AtomicI64>,
}

impl LogHolds {
    pub(crate) fn hold_after(&self, passed: Seqno) -> LogHold {
        let passed = Arc::new(AtomicI64::new(passed.0));
        lock(&self.passed).push(Arc::downgrade(&passed));
        LogHold { passed }
    }

    /// The least that any reader has passed; none: nothing is held. Forgets the holds that were
    /// dropped.
    pub(crate) fn slowest(&self) -> Option<Seqno> {
        let mut slowest = None;
        lock(&self.passed).retain(|hold| {
            let passed = hold.upgrade().map(|hold| hold.load(Ordering::Acquire));
            slowest = slowest.into_iter().chain(passed).min();
            passed.is_some()
        });
        slowest.map(Seqno)
    }
}

impl LogHold {
    pub fn passed(&self) -> Seqno {
        Seqno(self.passed.load(Ordering::Acquire))
    }

    /// Holds what comes after this action instead. What was purged meanwhile does not come back.
    pub fn move_to(&self, passed: Seqno) {
        self.passed.store(passed.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_reader_holds_the_log_until_it_moves_or_ends() {
        let holds = LogHolds::default();
        assert_eq!(holds.slowest(), None);
        let (slow, fast) = (holds.hold_after(Seqno(5)), holds.hold_after(Seqno(9)));
        assert_eq!(holds.slowest(), Some(Seqno(5)));
        slow.move_to(Seqno(6));
        assert_eq!((slow.passed(), holds.slowest()), (Seqno(6), Some(Seqno(6))));
        drop(slow);
        assert_eq!(holds.slowest(), Some(Seqno(9)));
        assert_eq!(lock(&holds.passed).len(), 1);
        drop(fast);
        assert_eq!(holds.slowest(), None);
    }
}
