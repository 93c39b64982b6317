//! Questions of clients for the group's position. The consensus core finds the answers; here are
//! the clients.

use std::collections::BTreeMap;

use synod_consensus::Seqno;

use crate::driver::ReadDone;
use crate::driver::event::Reply;

/// The component that knows who waits for which answer. Clients learn from a dropped reply that
/// there is none.
#[derive(Default)]
pub(in crate::driver) struct Reads {
    waiting: BTreeMap<u64, Reply>,
}

impl Reads {
    pub(super) fn begin(&mut self, read: ReadDone) {
        self.waiting.insert(read.id, read.reply);
    }

    pub(super) fn cancel(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// The answer is known; ignored if the client has given up.
    pub(in crate::driver) fn ready(&mut self, id: u64, seqno: Seqno) {
        if let Some(reply) = self.waiting.remove(&id) {
            reply(seqno);
        }
    }

    pub(in crate::driver) fn fail_all(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn read_is_answered_once_and_not_after_it_was_cancelled() {
        let (sender, answers) = mpsc::channel();
        let mut reads = Reads::default();
        for id in [1, 2, 3] {
            let sender = sender.clone();
            let reply = Box::new(move |seqno| sender.send((id, seqno)).unwrap());
            reads.begin(ReadDone { id, reply });
        }
        drop(sender);
        reads.cancel(2);
        for id in [1, 2, 1] {
            reads.ready(id, Seqno(7));
        }
        assert_eq!(answers.try_recv(), Ok((1, Seqno(7))));
        assert_eq!(answers.try_recv(), Err(mpsc::TryRecvError::Empty));
        reads.fail_all();
        assert_eq!(answers.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }
}
