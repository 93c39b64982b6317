//! Questions for the group's position.

use std::collections::BTreeMap;

use synod_consensus::Seqno;

use super::{Driver, ReadDone, event::Reply};

/// Who waits for which answer.
#[derive(Default)]
pub(super) struct Reads {
    waiting: BTreeMap<u64, Reply>,
}

impl Reads {
    pub(super) fn ready(&mut self, id: u64, seqno: Seqno) {
        if let Some(reply) = self.waiting.remove(&id) {
            reply(seqno);
        }
    }

    /// Whoever waits learns that from the drop.
    pub(super) fn fail_all(&mut self) {
        self.waiting.clear();
    }
}

impl Driver {
    pub(super) fn read(&mut self, done: ReadDone) {
        self.reads.waiting.insert(done.id, done.reply);
        self.core.read(self.now(), done.id);
    }

    pub(super) fn cancel_read(&mut self, id: u64) {
        self.reads.waiting.remove(&id);
        self.core.cancel_read(id);
    }
}
