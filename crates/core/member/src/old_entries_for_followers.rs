//! Old entries, which the entry cache no longer has, are read from the log for members that lag.
//! The driver asks for a range through [`crate::Disk::read`]; a thread of the node answers it with
//! [`crate::ReadForPeer::answer`] and drops it. [`OutstandingReads`] bounds how many ranges wait
//! for the disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use synod_consensus::{MemberId, SendEntries};
use synod_log::{Entry, LogError, LogReader};
use synod_wire::PeerMessage;

use crate::driver::{EntrySender, append_message};
use crate::host::{Host, Level};
use crate::shared::lock;

#[derive(Debug)]
pub struct OldEntries {
    sender: EntrySender,
    range: Arc<Mutex<SendEntries>>,
    bytes_max: usize,
}

/// The ranges that wait to be read, by the member that needs them. Bounded (promise P7): where
/// messages overtake each other, a follower refuses many of them. Its leader then asks for the same
/// entries again, faster than the disk can read them.
#[derive(Default)]
pub(crate) struct OutstandingReads {
    of_member: BTreeMap<MemberId, Vec<Weak<Mutex<SendEntries>>>>,
}

impl OutstandingReads {
    /// Asks for a range. Returns the read to do, or `None` in two cases. If the range waits
    /// already, its answer will be for this latest request. If `most` other ranges of that member
    /// wait, the request is as good as lost; the core repeats it.
    pub(crate) fn ask(
        &mut self,
        sender: EntrySender,
        range: SendEntries,
        bytes_max: usize,
        most: usize,
    ) -> Option<OldEntries> {
        let known = self.of_member.entry(range.to).or_default();
        known.retain(|range| range.strong_count() > 0);
        let name = |range: &SendEntries| (range.term, range.prev, range.first, range.last);
        for outstanding in known.iter().filter_map(Weak::upgrade) {
            let mut outstanding = lock(&outstanding);
            if name(&outstanding) == name(&range) {
                *outstanding = range;
                return None;
            }
        }
        if known.len() >= most {
            return None;
        }
        let range = Arc::new(Mutex::new(range));
        known.push(Arc::downgrade(&range));
        Some(OldEntries {
            sender,
            range,
            bytes_max,
        })
    }
}

impl OldEntries {
    pub(crate) fn to(&self) -> MemberId {
        self.range().to
    }

    /// The range, as it was last asked for.
    pub fn range(&self) -> SendEntries {
        *lock(&self.range)
    }

    /// Reads the range, or as much of it as fits into a message. Returns `None` if it was truncated
    /// or purged in the meantime: the core finds out and asks for other entries.
    pub(crate) fn answer(
        &self,
        reader: &LogReader,
        host: &Arc<dyn Host>,
    ) -> Result<Option<PeerMessage>, LogError> {
        let range = self.range();
        match reader.read(range.first, range.last, self.bytes_max) {
            Ok(entries) if !entries.is_empty() => {
                let entries: Vec<&Entry> = entries.iter().collect();
                Ok(Some(append_message(self.sender, &range, &entries)))
            }
            Ok(_) => Ok(None),
            Err(error @ LogError::Damaged { .. }) => Err(error),
            Err(error) => {
                let text = format!(
                    "cannot read entries {}-{} for a member: {error}",
                    range.first, range.last
                );
                host.log(Level::Warning, &text);
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{EntryId, LogIndex, Term, Time};

    const MOST: usize = 4;

    fn range(to: u64, first: u64, sent_at: u64) -> SendEntries {
        SendEntries {
            to: MemberId(to),
            term: Term(3),
            prev: EntryId::new(Term(2), LogIndex(first - 1)),
            first: LogIndex(first),
            last: LogIndex(first),
            is_first_time: false,
            may_shorten: false,
            commit: LogIndex(0),
            sent_at: Time(sent_at),
        }
    }

    fn ask(outstanding: &mut OutstandingReads, range: SendEntries) -> Option<OldEntries> {
        outstanding.ask(EntrySender::Leader(MemberId(9)), range, 1000, MOST)
    }

    #[test]
    fn range_is_read_once_for_the_latest_request() {
        let mut outstanding = OutstandingReads::default();
        let first = ask(&mut outstanding, range(1, 7, 100)).unwrap();
        assert!(ask(&mut outstanding, range(1, 7, 200)).is_none());
        assert_eq!(first.range().sent_at, Time(200));
        assert!(ask(&mut outstanding, range(2, 7, 200)).is_some());
        drop(first);
        assert!(ask(&mut outstanding, range(1, 7, 300)).is_some());
    }

    #[test]
    fn ranges_of_one_member_are_bounded() {
        let mut outstanding = OutstandingReads::default();
        let asked = (1..100).map(|first| ask(&mut outstanding, range(1, first, 0)));
        let mut queue: Vec<OldEntries> = asked.flatten().collect();
        assert_eq!(queue.len(), MOST);
        assert!(
            ask(&mut outstanding, range(2, 1, 0)).is_some(),
            "another member's"
        );
        queue.pop();
        assert!(ask(&mut outstanding, range(1, 50, 0)).is_some());
        assert_eq!(outstanding.of_member[&MemberId(1)].len(), MOST);
    }
}
