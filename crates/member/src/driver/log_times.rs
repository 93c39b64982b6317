//! How long own actions take from their append to this member's log until they are durable on its
//! disk, and until they are committed.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{LogIndex, Time};

/// Actions that are watched at a time; what comes beyond is not measured.
const WATCHED_MAX: usize = 4096;

/// The component that watches own actions in the log.
#[derive(Default)]
pub(super) struct LogTimes {
    not_durable: Watched,
    not_committed: Watched,
}

/// Indexes of actions in ascending order, and when they were appended.
#[derive(Default)]
struct Watched(VecDeque<(LogIndex, Time)>);

impl LogTimes {
    /// An own action was appended.
    pub(super) fn appended(&mut self, index: LogIndex, now: Time) {
        self.not_durable.add(index, now);
        self.not_committed.add(index, now);
    }

    /// Everything from here on was truncated.
    pub(super) fn truncated(&mut self, from: LogIndex) {
        self.not_durable.truncate(from);
        self.not_committed.truncate(from);
    }

    /// How long it took an action that is durable up to here; none if there is no further one.
    pub(super) fn next_durable(&mut self, up_to: LogIndex, now: Time) -> Option<Duration> {
        self.not_durable.next(up_to, now)
    }

    /// The same for what is committed.
    pub(super) fn next_committed(&mut self, up_to: LogIndex, now: Time) -> Option<Duration> {
        self.not_committed.next(up_to, now)
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

    fn next(&mut self, up_to: LogIndex, now: Time) -> Option<Duration> {
        let (index, since) = *self.0.front()?;
        if index > up_to {
            return None;
        }
        self.0.pop_front();
        Some(now.since(since))
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
        assert_eq!(times.next_durable(LogIndex(2), at(20)), None);
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(times.next_committed(LogIndex(4), at(20)), ms(20));
        assert_eq!(times.next_committed(LogIndex(4), at(20)), None);
        assert_eq!(times.next_durable(LogIndex(5), at(30)), ms(30));
        assert_eq!(times.next_durable(LogIndex(5), at(30)), ms(20));
        assert_eq!(times.next_durable(LogIndex(5), at(30)), None);
        assert_eq!(times.next_committed(LogIndex(9), at(40)), ms(30));
    }

    #[test]
    fn truncated_action_is_not_measured_and_what_takes_its_place_is() {
        let mut times = LogTimes::default();
        times.appended(LogIndex(3), at(0));
        times.appended(LogIndex(4), at(0));
        times.truncated(LogIndex(4));
        times.appended(LogIndex(4), at(50));
        let mut durable = || times.next_durable(LogIndex(4), at(60));
        let took = [durable(), durable(), durable()];
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(took, [ms(60), ms(10), None]);
    }

    #[test]
    fn disk_that_hangs_takes_bounded_memory() {
        let mut times = LogTimes::default();
        (0..100_000).for_each(|index| times.appended(LogIndex(index), at(0)));
        assert_eq!(times.not_durable.0.len(), WATCHED_MAX);
    }
}
