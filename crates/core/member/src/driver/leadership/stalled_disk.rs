//! Watches whether this member's disk keeps up, by how long the oldest write of the log has been
//! under way. A member whose disk hangs or is slow acknowledges late or not at all. That harms no
//! other member unless it leads: heartbeats need no disk, so the others keep following it.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{StalledDisk, Time, WriteTicket};

/// Writes that are handed to the disk within this time are watched as one.
const GROUP: Duration = Duration::from_millis(50);

/// By how much a disk is quicker than one that has stalled, to be worth a change of leader.
const QUICK_SHARE: u32 = 5;

pub(in crate::driver) struct DiskWatch {
    /// A write that takes longer means that the disk has stalled.
    patience: Duration,
    /// Writes that are not durable, in groups: the first ticket of each, and when that was handed
    /// to the disk. Ascending.
    under_way: VecDeque<(WriteTicket, Time)>,
    latest: WriteTicket,
    /// The latest look found the oldest write too old.
    was_late: bool,
    /// The disk has stalled, by the looks so far.
    stalled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum DiskNews {
    Stalled(Duration),
    Recovered,
}

impl DiskWatch {
    pub(in crate::driver) fn new(patience: Duration) -> DiskWatch {
        DiskWatch {
            patience,
            under_way: VecDeque::new(),
            latest: WriteTicket(0),
            was_late: false,
            stalled: false,
        }
    }

    pub(in crate::driver) fn wrote(&mut self, now: Time, ticket: WriteTicket) {
        self.latest = ticket;
        let group = self.under_way.back();
        if group.is_none_or(|(_, since)| now.since(*since) >= GROUP) {
            self.under_way.push_back((ticket, now));
        }
    }

    pub(in crate::driver) fn persisted(&mut self, ticket: WriteTicket) {
        if ticket >= self.latest {
            self.under_way.clear();
        }
        while let Some((next, _)) = self.under_way.get(1)
            && next.0 <= ticket.0 + 1
        {
            self.under_way.pop_front();
        }
    }

    fn oldest_since(&self) -> Option<Time> {
        self.under_way.front().map(|(_, since)| *since)
    }

    pub(in crate::driver) fn oldest_write(&self, now: Time) -> Duration {
        let oldest = self.oldest_since();
        oldest.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Looks at the oldest write. A process that stood still finds its writes old although they are
    /// done, so it takes two looks in a row to call a disk stalled.
    pub(in crate::driver) fn look(&mut self, now: Time) -> Option<DiskNews> {
        let oldest = self.oldest_write(now);
        let is_late = oldest >= self.patience;
        let before = std::mem::replace(&mut self.was_late, is_late);
        let was_stalled = self.stalled;
        self.stalled = is_late && (before || was_stalled);
        match (was_stalled, self.stalled) {
            (false, true) => Some(DiskNews::Stalled(oldest)),
            (true, false) => Some(DiskNews::Recovered),
            (false, false) | (true, true) => None,
        }
    }

    pub(super) fn stalled(&self) -> Option<StalledDisk> {
        let quick = self.patience / QUICK_SHARE;
        let since = self.oldest_since().filter(|_| self.stalled)?;
        Some(StalledDisk {
            since,
            quick_us: quick.as_micros() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(7).plus(Duration::from_millis(ms))
    }

    fn watch() -> DiskWatch {
        DiskWatch::new(Duration::from_secs(1))
    }

    #[test]
    fn disk_that_answers_is_never_stalled_however_much_is_under_way() {
        let mut watch = watch();
        for ms in 0..10_000 {
            watch.wrote(at(ms), WriteTicket(ms + 1));
            if ms >= 900 {
                watch.persisted(WriteTicket(ms + 1 - 900));
            }
            assert!(watch.oldest_write(at(ms)) <= Duration::from_millis(950));
            assert_eq!(watch.look(at(ms)), None);
        }
        assert!(watch.under_way.len() < 30);
        watch.persisted(WriteTicket(10_000));
        assert_eq!(watch.oldest_write(at(20_000)), Duration::ZERO);
    }

    #[test]
    fn disk_that_hangs_is_stalled_until_it_answers() {
        let mut watch = watch();
        watch.wrote(at(0), WriteTicket(1));
        watch.wrote(at(10), WriteTicket(2));
        assert_eq!(watch.look(at(900)), None);
        assert_eq!(watch.look(at(1000)), None, "one look is not enough");
        let stalled = DiskNews::Stalled(Duration::from_millis(1250));
        assert_eq!(watch.look(at(1250)), Some(stalled));
        assert_eq!(watch.look(at(1500)), None);
        watch.wrote(at(1500), WriteTicket(3));
        assert!(watch.stalled().is_some_and(|disk| disk.since == at(0)));
        watch.persisted(WriteTicket(2));
        assert_eq!(watch.look(at(1750)), Some(DiskNews::Recovered));
        assert_eq!(watch.stalled(), None);
    }

    #[test]
    fn process_that_stood_still_does_not_blame_its_disk() {
        let mut watch = watch();
        watch.wrote(at(0), WriteTicket(1));
        // It runs again, and looks before it takes the news that the write is durable.
        assert_eq!(watch.look(at(5000)), None);
        watch.persisted(WriteTicket(1));
        assert_eq!(watch.look(at(5250)), None);
    }
}
