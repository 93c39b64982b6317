//! The time since which this member's log may lack something that is committed.
//!
//! A leader states its commit index to all members with each of its status messages. A member whose
//! own commit index has reached that has, from the moment of the message on, all that was committed
//! before it. (A commit index that comes with entries or heartbeats would not do: a leader states
//! it only as far as it expects the receiver's log to reach.)
//!
//! A leader that was cut off from its majority states an old index, for as long as it believes to
//! lead. Others may commit meanwhile. So the moment lies that much earlier.

use std::time::Duration;

use synod_consensus::{LogIndex, Time};

/// Commit indexes that leaders have stated to this process, compared with the log.
#[derive(Default)]
pub(super) struct Completeness {
    /// A stated commit index that the log has not reached, and when it was stated.
    pending: Option<(Time, LogIndex)>,
    complete_at: Option<Time>,
    stated: LogIndex,
}

impl Completeness {
    /// A leader states its commit index; a leader itself does, with its own.
    pub(super) fn stated(&mut self, now: Time, commit: LogIndex) {
        self.stated = self.stated.max(commit);
        // An older one is reached sooner: under load the newest would always be a moment ahead.
        self.pending.get_or_insert((now, commit));
    }

    pub(super) fn reached(&mut self, commit: LogIndex) {
        if let Some((at, _)) = self.pending.take_if(|(_, stated)| *stated <= commit) {
            self.complete_at = Some(at);
        }
    }

    pub(super) fn highest_stated(&self) -> LogIndex {
        self.stated
    }

    /// For how long it is not known whether the log has everything committed. `deposed` is how long
    /// a leader may believe to lead without a majority. None: this process has never known it.
    pub(super) fn incomplete_for(&self, now: Time, deposed: Duration) -> Option<Duration> {
        self.complete_at.map(|at| now.since(at) + deposed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(7).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn log_is_complete_as_of_the_statement_that_it_has_reached() {
        let mut completeness = Completeness::default();
        let deposed = Duration::from_secs(3);
        let age = |c: &Completeness, second| c.incomplete_for(at(second), deposed);
        completeness.reached(LogIndex(9));
        assert_eq!(age(&completeness, 1), None, "no leader has stated anything");
        completeness.stated(at(1), LogIndex(10));
        completeness.reached(LogIndex(9));
        assert_eq!(age(&completeness, 2), None, "an entry is missing");
        completeness.stated(at(2), LogIndex(20));
        completeness.reached(LogIndex(15));
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(age(&completeness, 10), seconds(12), "as of the first");
        assert_eq!(completeness.highest_stated(), LogIndex(20));
        completeness.stated(at(4), LogIndex(20));
        completeness.reached(LogIndex(19));
        assert_eq!(age(&completeness, 10), seconds(12));
        completeness.reached(LogIndex(20));
        assert_eq!(age(&completeness, 10), seconds(9));
    }
}
