//! Constants of a member that only its checkers have reason to change. They are no settings of the
//! host: the defaults are right for every group. The simulator chooses small values to reach rare
//! situations sooner.

use std::time::Duration;

use synod_certify::CertLimits;

/// Sizes and periods of a member. Production runs with the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    pub entry_cache_bytes: usize,
    pub warm_entries: u64,
    /// A new member's log starts this many entries before the end of the leader's, unless the
    /// member needs older ones.
    pub join_backlog: u64,
    /// Upper bound on the payload bytes in one catch-up message.
    pub catch_up_bytes: usize,
    /// Period of the slow tick: reports, views, retention.
    pub slow_tick: Duration,
    /// Period at which the log is checked for segments to purge.
    pub retention_period: Duration,
    /// Margin of the estimate of what this member's database has flushed: an action counts as
    /// flushed when it was applied this long ago.
    pub local_flush_margin: Duration,
    /// The same margin in reports to the leader, where this database is one of several that hold
    /// the action. It is shorter, because clients wait for it while a log is full. Databases flush
    /// about once a second.
    pub reported_flush_margin: Duration,
    /// A write of the log that takes longer means that the disk has stalled: this member then
    /// rather does not lead.
    pub disk_patience: Duration,
    /// How often a leader that follows the writers looks at who has written since the look before.
    pub writers_sample: Duration,
    /// For how long another region must have made nearly all actions before leadership follows.
    pub writers_trial: Duration,
    /// For how long a member leads at least, before it moves leadership to the writers.
    pub leader_pause: Duration,
    /// A partial action that was not continued for this long is discarded.
    pub partial_action_timeout: Duration,
    /// A learner of which the leader has heard nothing for this long is taken out of the
    /// configuration.
    pub learner_patience: Duration,
    /// The keys of an action with more of them are compared chunk by chunk, and never put into the
    /// certification index.
    pub run_above: usize,
}

/// The period that the margins of the default are made for.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);

impl Tuning {
    /// The same for a log that keeps so many bytes of its end in memory: the driver keeps half as
    /// many, and no more than by default.
    #[must_use]
    pub fn for_log_cache_of(self, bytes: u64) -> Tuning {
        let half = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
        Tuning {
            entry_cache_bytes: self.entry_cache_bytes.min(half),
            ..self
        }
    }

    /// The same for a database that flushes once in `period`, and not once a second: what it
    /// applied counts as flushed so much later.
    #[must_use]
    pub fn for_flushes_every(self, period: Duration) -> Tuning {
        let longer = period.saturating_sub(FLUSH_PERIOD);
        Tuning {
            local_flush_margin: self.local_flush_margin + longer,
            reported_flush_margin: self.reported_flush_margin + longer,
            ..self
        }
    }
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            entry_cache_bytes: 32 << 20,
            warm_entries: 20_000,
            join_backlog: 1000,
            catch_up_bytes: 4 << 20,
            slow_tick: Duration::from_millis(250),
            retention_period: Duration::from_secs(5),
            local_flush_margin: Duration::from_secs(60),
            reported_flush_margin: Duration::from_secs(10),
            disk_patience: Duration::from_secs(1),
            writers_sample: Duration::from_secs(1),
            writers_trial: Duration::from_secs(10),
            leader_pause: Duration::from_secs(30),
            partial_action_timeout: Duration::from_secs(60),
            learner_patience: Duration::from_secs(7 * 24 * 3600),
            run_above: CertLimits::default().run_above,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_grow_with_the_period_of_flushes() {
        let with = |seconds| Tuning::default().for_flushes_every(Duration::from_secs(seconds));
        assert_eq!(with(0), Tuning::default());
        assert_eq!(with(1), Tuning::default());
        assert_eq!(with(31).reported_flush_margin, Duration::from_secs(40));
        assert_eq!(with(31).local_flush_margin, Duration::from_secs(90));
    }

    #[test]
    fn driver_keeps_less_where_the_log_does() {
        let with = |bytes| Tuning::default().for_log_cache_of(bytes).entry_cache_bytes;
        assert_eq!(with(u64::MAX), Tuning::default().entry_cache_bytes);
        assert_eq!((with(16 << 20), with(0)), (8 << 20, 0));
    }
}
