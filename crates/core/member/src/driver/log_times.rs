//! Times that own actions take from their append to this member's log until they are written, until
//! they are durable on its disk, and until they are committed.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{LogIndex, Time};

/// Actions that are watched at a time; what comes beyond is not measured.
const WATCHED_MAX: usize = 4096;

/// How long an own action took on its way to this member's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLogTimes {
    /// From its append to the log until the sync began that made it durable: the wait for the log's
    /// thread, which may sync what came before, and the write.
    pub append: Duration,
    /// From there until it was known to be durable.
    pub fsync: Duration,
}

#[derive(Default)]
pub(super) struct LogTimes {
    not_durable: Watched,
    not_committed: Watched,
}

/// Indexes of actions in ascending order, and when they were appended.
#[derive(Default)]
struct Watched(VecDeque<(LogIndex, Time)>);

impl LogTimes {
    pub(super) fn appended(&mut self, index: LogIndex, now: Time) {
        self.not_durable.add(index, now);
        self.not_committed.add(index, now);
    }

    pub(super) fn truncated(&mut self, from: LogIndex) {
        self.not_durable.truncate(from);
        self.not_committed.truncate(from);
    }

    /// How long it took an action, of those that are durable up to here by a sync that began then;
    /// none if there is no further one.
    pub(super) fn next_durable(
        &mut self,
        up_to: LogIndex,
        sync_began: Time,
        now: Time,
    ) -> Option<OwnLogTimes> {
        let appended = self.not_durable.next(up_to)?;
        Some(OwnLogTimes {
            append: sync_began.since(appended),
            fsync: now.since(sync_began.max(appended)),
        })
    }

    pub(super) fn next_committed(&mut self, up_to: LogIndex, now: Time) -> Option<Duration> {
        Some(now.since(self.not_committed.next(up_to)?))
    }
}

impl Watched {
    fn add(&mut self, index: LogIndex, now: Time) {
        if self.0.len() < WATCHED_MAX {
            self.0.push_back((index, now));
        }
    }

    fn truncate(&mut self, from: LogIndex) {
        while self.0.back().is_some_and(|(index, _)| *index >= from) {
            self.0.pop_back();
        }
    }

    fn next(&mut self, up_to: LogIndex) -> Option<Time> {
        let (index, appended) = *self.0.front()?;
        if index > up_to {
            return None;
        }
        self.0.pop_front();
        Some(appended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(7).plus(Duration::from_millis(ms))
    }

    #[test]
    fn each_action_is_measured_once_for_its_disk_and_once_for_the_group() {
        let mut times = LogTimes::default();
        times.appended(LogIndex(3), at(0));
        times.appended(LogIndex(5), at(10));
        assert_eq!(times.next_durable(LogIndex(2), at(15), at(20)), None);
        let ms = |ms| Some(Duration::from_millis(ms));
        let took = |append, fsync| {
            let (append, fsync) = (ms(append)?, ms(fsync)?);
            Some(OwnLogTimes { append, fsync })
        };
        assert_eq!(times.next_committed(LogIndex(4), at(20)), ms(20));
        assert_eq!(times.next_committed(LogIndex(4), at(20)), None);
        let mut durable = || times.next_durable(LogIndex(5), at(25), at(30));
        let durable = [durable(), durable(), durable()];
        assert_eq!(durable, [took(25, 5), took(15, 5), None]);
        assert_eq!(times.next_committed(LogIndex(9), at(40)), ms(30));
    }

    #[test]
    fn truncated_action_is_not_measured_and_what_takes_its_place_is() {
        let mut times = LogTimes::default();
        times.appended(LogIndex(3), at(0));
        times.appended(LogIndex(4), at(0));
        times.truncated(LogIndex(4));
        times.appended(LogIndex(4), at(50));
        let mut durable = || times.next_durable(LogIndex(4), at(55), at(60));
        let whole = |times: OwnLogTimes| (times.append + times.fsync).as_millis();
        let took = [durable(), durable(), durable()].map(|times| times.map(whole));
        assert_eq!(took, [Some(60), Some(10), None]);
    }

    #[test]
    fn sync_is_counted_from_the_append_if_its_beginning_is_said_to_be_earlier() {
        let mut times = LogTimes::default();
        times.appended(LogIndex(3), at(20));
        let took = times.next_durable(LogIndex(3), at(10), at(50)).unwrap();
        assert_eq!((took.append, took.fsync.as_millis()), (Duration::ZERO, 30));
    }

    #[test]
    fn disk_that_hangs_takes_bounded_memory() {
        let mut times = LogTimes::default();
        (0..100_000).for_each(|index| times.appended(LogIndex(index), at(0)));
        assert_eq!(times.not_durable.0.len(), WATCHED_MAX);
    }
}
