//! Questions of clients for the group's position. The consensus core finds the answers; here are
//! the clients.

use std::collections::BTreeMap;

use synod_consensus::Time;

use crate::driver::ReadDone;
use crate::driver::event::Reply;

/// The component that knows who waits for which answer. Clients learn from a dropped reply that
/// there is none.
#[derive(Default)]
pub(in crate::driver) struct Reads {
    waiting: BTreeMap<u64, WaitingRead>,
}

pub(super) struct WaitingRead {
    pub(super) reply: Reply,
    /// Time at or before which the core was asked.
    pub(super) asked: Time,
}

impl Reads {
    pub(super) fn begin(&mut self, read: ReadDone, asked: Time) {
        let ReadDone { id, reply } = read;
        self.waiting.insert(id, WaitingRead { reply, asked });
    }

    pub(super) fn cancel(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// The client whose answer is known; none if it has given up.
    pub(super) fn take(&mut self, id: u64) -> Option<WaitingRead> {
        self.waiting.remove(&id)
    }

    pub(in crate::driver) fn fail_all(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use synod_consensus::Seqno;

    #[test]
    fn read_is_answered_once_and_not_after_it_was_cancelled() {
        let (sender, answers) = mpsc::channel();
        let mut reads = Reads::default();
        for id in [1, 2, 3] {
            let sender = sender.clone();
            let reply = Box::new(move |seqno| sender.send((id, seqno)).unwrap());
            reads.begin(ReadDone { id, reply }, Time(id));
        }
        drop(sender);
        reads.cancel(2);
        for id in [1, 2, 1] {
            if let Some(read) = reads.take(id) {
                assert_eq!(read.asked, Time(id));
                (read.reply)(Seqno(7));
            }
        }
        assert_eq!(answers.try_recv(), Ok((1, Seqno(7))));
        assert_eq!(answers.try_recv(), Err(mpsc::TryRecvError::Empty));
        reads.fail_all();
        assert_eq!(answers.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }
}
