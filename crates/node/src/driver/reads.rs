//! Questions for the group's position.

use std::collections::HashMap;

use crossbeam_channel::Sender;
use synod_consensus::Seqno;

use super::{Driver, ReadDone};

/// Who waits for which answer.
#[derive(Default)]
pub(super) struct Reads {
    waiting: HashMap<u64, Sender<Seqno>>,
}

impl Reads {
    pub(super) fn ready(&mut self, id: u64, seqno: Seqno) {
        if let Some(reply) = self.waiting.remove(&id) {
            // Whoever asked may have given up.
            let _ = reply.send(seqno);
        }
    }

    /// Dropping the senders wakes the waiters with an error.
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
