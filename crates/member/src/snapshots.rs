//! The positions that this member's actions on their way have seen.
//!
//! The group forgets certification history that every member has applied. An action that takes long
//! to arrive, because it is large, would then be refused as too old however often it is tried: so a
//! member does not report more as applied than its oldest action on its way has seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use synod_consensus::Seqno;

use crate::shared::lock;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// How many actions have seen what.
    held: Mutex<BTreeMap<Seqno, usize>>,
}

/// Counts as one action on its way, until dropped.
#[derive(Debug)]
pub struct Snapshot {
    all: Arc<Snapshots>,
    seqno: Seqno,
}

impl Snapshots {
    /// An action sets out that has seen everything up to `seqno`.
    pub(crate) fn hold(self: &Arc<Self>, seqno: Seqno) -> Arc<Snapshot> {
        *lock(&self.held).entry(seqno).or_default() += 1;
        let all = self.clone();
        Arc::new(Snapshot { all, seqno })
    }

    /// What every action on its way has seen; `None` if there is none.
    pub(crate) fn oldest(&self) -> Option<Seqno> {
        lock(&self.held).keys().next().copied()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut held = lock(&self.all.held);
        if let Some(count) = held.get_mut(&self.seqno) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.seqno);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_is_held_until_its_last_piece_is_done() {
        let all = Arc::new(Snapshots::default());
        let old = all.hold(Seqno(5));
        let piece = old.clone();
        let same = all.hold(Seqno(5));
        let new = all.hold(Seqno(9));
        drop((old, same));
        assert_eq!(all.oldest(), Some(Seqno(5)));
        drop(piece);
        assert_eq!(all.oldest(), Some(Seqno(9)));
        drop(new);
        assert_eq!(all.oldest(), None);
    }
}
