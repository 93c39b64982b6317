//! Reading old entries for members far behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use synod_consensus::{MemberId, SendEntries};
use synod_log::{Entry, LogError, LogReader};
use synod_wire::PeerMessage;

use crate::driver::append_message;
use crate::host::{Host, Level};
use crate::shared::lock;

/// A range that some follower needs. It counts as outstanding until it is dropped.
#[derive(Debug)]
pub struct CatchUp {
    from: MemberId,
    range: Arc<Mutex<SendEntries>>,
    /// Payload bytes in one message.
    bytes_max: usize,
}

/// The ranges that are to be read and have not been. Bounded (promise P7): where messages overtake each
/// other a follower refuses much of what it gets, and its leader asks for the same entries again, faster
/// than they can be read.
#[derive(Default)]
pub(crate) struct Outstanding {
    of_member: BTreeMap<MemberId, Vec<Weak<Mutex<SendEntries>>>>,
}

impl Outstanding {
    /// What is to be read for this range, if anything: not if it is to be read already (then the answer will
    /// be to this latest asking), nor if `most` others are for that member. The latter is as if the
    /// message was lost; the core repeats it.
    pub(crate) fn ask(
        &mut self,
        from: MemberId,
        range: SendEntries,
        bytes_max: usize,
        most: usize,
    ) -> Option<CatchUp> {
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
        Some(CatchUp {
            from,
            range,
            bytes_max,
        })
    }
}

impl CatchUp {
    /// Who needs it.
    pub fn to(&self) -> MemberId {
        self.range().to
    }

    /// What it needs.
    pub fn range(&self) -> SendEntries {
        *lock(&self.range)
    }

    /// Reads the range, or as much of it as fits. Nothing, if it was cut or purged meanwhile: the
    /// core finds out and asks for something else.
    ///
    /// # Errors
    /// If a record is damaged, which is the driver's to handle ([`crate::Event::LogDamaged`]).
    pub fn answer(
        &self,
        reader: &LogReader,
        host: &Arc<dyn Host>,
    ) -> Result<Option<PeerMessage>, LogError> {
        let range = self.range();
        match reader.read(range.first, range.last, self.bytes_max) {
            Ok(entries) if !entries.is_empty() => {
                let entries: Vec<&Entry> = entries.iter().collect();
                Ok(Some(append_message(self.from, &range, &entries)))
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
            prev: EntryId {
                term: Term(2),
                index: LogIndex(first - 1),
            },
            first: LogIndex(first),
            last: LogIndex(first),
            may_shorten: false,
            commit: LogIndex(0),
            sent_at: Time(sent_at),
        }
    }

    fn ask(outstanding: &mut Outstanding, range: SendEntries) -> Option<CatchUp> {
        outstanding.ask(MemberId(9), range, 1000, MOST)
    }

    #[test]
    fn range_is_read_once_for_the_latest_asking() {
        let mut outstanding = Outstanding::default();
        let first = ask(&mut outstanding, range(1, 7, 100)).unwrap();
        assert!(ask(&mut outstanding, range(1, 7, 200)).is_none());
        assert_eq!(first.range().sent_at, Time(200));
        assert!(ask(&mut outstanding, range(2, 7, 200)).is_some());
        drop(first);
        assert!(ask(&mut outstanding, range(1, 7, 300)).is_some());
    }

    #[test]
    fn ranges_of_one_member_are_bounded() {
        let mut outstanding = Outstanding::default();
        let asked = (1..100).map(|first| ask(&mut outstanding, range(1, first, 0)));
        let mut queue: Vec<CatchUp> = asked.flatten().collect();
        assert_eq!(queue.len(), MOST);
        assert!(ask(&mut outstanding, range(2, 1, 0)).is_some(), "another's");
        queue.pop();
        assert!(ask(&mut outstanding, range(1, 50, 0)).is_some());
        assert_eq!(outstanding.of_member[&MemberId(1)].len(), MOST);
    }
}
