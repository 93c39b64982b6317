//! Snapshot positions of this member's actions that are being proposed. The group forgets
//! certification history that every member has applied. A large action takes long to reach the
//! leader, which would then refuse it as too old, however often it is tried. So a member reports as
//! applied at most the oldest snapshot position among its proposed actions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use synod_consensus::Seqno;

use crate::shared::lock;

#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Number of actions by their snapshot position.
    held: Mutex<BTreeMap<Seqno, usize>>,
}

#[derive(Debug)]
pub struct Snapshot {
    all: Arc<Snapshots>,
    seqno: Seqno,
}

impl Snapshots {
    pub(crate) fn hold(self: &Arc<Self>, seqno: Seqno) -> Arc<Snapshot> {
        *lock(&self.held).entry(seqno).or_default() += 1;
        let all = self.clone();
        Arc::new(Snapshot { all, seqno })
    }

    pub(crate) fn oldest(&self) -> Option<Seqno> {
        lock(&self.held).keys().next().copied()
    }
}

impl Snapshot {
    pub fn seqno(&self) -> Seqno {
        self.seqno
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
    fn oldest_position_is_held_until_its_last_piece_is_done() {
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
