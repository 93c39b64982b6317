//! Constants of a member that only its checkers have reason to change.

use std::time::Duration;

/// See the module. The default is what production runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Newest entries kept at hand for replication, in bytes of payload.
    pub entry_cache_bytes: usize,
    /// Certification history is rebuilt from this many of the log's last entries.
    pub warm_entries: u64,
    /// A new member's log starts this many entries before the end, if it needs no more.
    pub join_backlog: u64,
    /// Payload bytes in one message to a member far behind.
    pub catch_up_bytes: usize,
    /// Period of the slow work: reports, views, retention.
    pub slow_tick: Duration,
    /// How often the log looks for something to drop.
    pub retention_period: Duration,
    /// What the database applied so long ago has surely reached its own disk.
    pub local_flush_margin: Duration,
    /// The same, where it is one of several databases that have it. Shorter, for while a log is full this is
    /// what clients wait for; InnoDB flushes every second (`innodb_flush_log_at_timeout`).
    pub reported_flush_margin: Duration,
    /// An action in chunks that nobody continued for so long is given up.
    pub partial_action_timeout: Duration,
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
            partial_action_timeout: Duration::from_secs(60),
        }
    }
}
