//! Counters for `SHOW STATUS`.
//!
//! Any thread may count at any time; no lock is taken. `FLUSH STATUS` sets all of them to zero.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use synod_commands::CommitSteps;

use crate::status::conflicts::ConflictTable;
use crate::status::latency::LatencyMeter;

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        i64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Since when the share of paused time is counted, and how long writes had waited by then.
#[derive(Debug)]
pub(crate) struct PausedShare(Mutex<(Instant, Duration)>);

impl Default for PausedShare {
    fn default() -> PausedShare {
        PausedShare(Mutex::new((Instant::now(), Duration::ZERO)))
    }
}

impl PausedShare {
    /// `FLUSH STATUS`: writes have waited for `paused` until now.
    pub(crate) fn reset(&self, now: Instant, paused: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (now, paused);
    }

    /// The share of the time since then, 0 to 1; writes have waited for `paused` until now.
    pub(crate) fn share(&self, now: Instant, paused: Duration) -> f64 {
        let (since, before) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(since).as_secs_f64();
        if passed == 0.0 {
            return 0.0;
        }
        (paused.saturating_sub(before).as_secs_f64() / passed).min(1.0)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
            /// Share of the time in which the group's writes waited for databases.
            pub(crate) paused: PausedShare,
            /// Times until own actions are ordered.
            pub(crate) latency: LatencyMeter,
            pub(crate) steps: CommitSteps,
            /// Transactions that lost, by table; since the server's start.
            pub(crate) conflicts: ConflictTable,
        }

        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Counted {
            $($(#[$doc])* pub $name: i64,)*
        }

        impl Counters {
            pub(crate) fn shown(&self) -> Counted {
                Counted { $($name: self.$name.get(),)* }
            }

            /// `FLUSH STATUS`.
            pub(crate) fn reset(&self) {
                $(self.$name.clear();)*
                self.latency.reset();
                self.steps.reset();
            }
        }
    };
}

counters! {
    replicated,
    replicated_bytes,
    repl_keys,
    repl_keys_bytes,
    repl_data_bytes,
    /// Actions and views received, without this server's own actions.
    received,
    received_bytes,
    local_commits,
    local_cert_failures,
    /// Writes of own clients refused, because another server is the writer.
    writes_refused,
    local_replays,
    /// Reads that waited for the group's position.
    causal_reads,
    /// Ordered actions for the average distance.
    certified,
    deps_distance_sum,
}

impl Counted {
    /// Bytes that are neither keys nor row data.
    pub(super) fn repl_other_bytes(&self) -> i64 {
        (self.replicated_bytes - self.repl_keys_bytes - self.repl_data_bytes).max(0)
    }
}

impl Counters {
    pub(crate) fn deps_distance(&self) -> f64 {
        match self.certified.get() {
            0 => 0.0,
            count => self.deps_distance_sum.get() as f64 / count as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paused_share_counts_from_the_last_flush() {
        let share = PausedShare::default();
        let now = Instant::now();
        share.reset(now, Duration::from_secs(5));
        let later = now + Duration::from_secs(10);
        assert_eq!(share.share(later, Duration::from_secs(10)), 0.5);
        assert_eq!(share.share(later, Duration::from_secs(90)), 1.0);
        assert_eq!(share.share(now, Duration::from_secs(5)), 0.0);
    }
}
