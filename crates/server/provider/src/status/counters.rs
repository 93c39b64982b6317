//! Counters for `SHOW STATUS`.
//!
//! Any thread may count at any time; no lock is taken. `FLUSH STATUS` sets all of them to zero.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::status::commit_steps::CommitSteps;
use crate::status::conflicts::ConflictTable;
use crate::status::times::LatencyMeter;

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

/// All counts, since start or since `FLUSH STATUS`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) replicated: Counter,
    pub(crate) replicated_bytes: Counter,
    pub(crate) repl_keys: Counter,
    pub(crate) repl_keys_bytes: Counter,
    pub(crate) repl_data_bytes: Counter,
    pub(crate) received: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) local_commits: Counter,
    pub(crate) local_cert_failures: Counter,
    /// Writes of own clients refused, because another server is the writer.
    pub(crate) writes_refused: Counter,
    pub(crate) local_replays: Counter,
    pub(crate) causal_reads: Counter,
    /// Share of the time in which the group's writes waited for databases.
    pub(crate) paused: PausedShare,
    /// Times until own actions are ordered.
    pub(crate) latency: LatencyMeter,
    pub(crate) steps: CommitSteps,
    /// Ordered actions for the average below.
    pub(crate) certified: Counter,
    /// Transactions that lost, by table; since the server's start.
    pub(crate) conflicts: ConflictTable,
    /// Sum of the distances of ordered actions to what they depend on.
    pub(crate) deps_distance_sum: Counter,
}

impl Counters {
    /// `FLUSH STATUS`.
    pub(crate) fn reset(&self) {
        for counter in [
            &self.replicated,
            &self.replicated_bytes,
            &self.repl_keys,
            &self.repl_keys_bytes,
            &self.repl_data_bytes,
            &self.received,
            &self.received_bytes,
            &self.local_commits,
            &self.local_cert_failures,
            &self.writes_refused,
            &self.local_replays,
            &self.causal_reads,
            &self.certified,
            &self.deps_distance_sum,
        ] {
            counter.clear();
        }
        self.latency.reset();
        self.steps.reset();
    }

    pub(crate) fn shown(&self) -> crate::status::inputs::Counters {
        let (bytes, keys, data) = (
            self.replicated_bytes.get(),
            self.repl_keys_bytes.get(),
            self.repl_data_bytes.get(),
        );
        crate::status::inputs::Counters {
            replicated: self.replicated.get(),
            replicated_bytes: bytes,
            repl_keys: self.repl_keys.get(),
            repl_keys_bytes: keys,
            repl_data_bytes: data,
            repl_other_bytes: (bytes - keys - data).max(0),
            received: self.received.get(),
            received_bytes: self.received_bytes.get(),
            local_commits: self.local_commits.get(),
            local_cert_failures: self.local_cert_failures.get(),
            writes_refused: self.writes_refused.get(),
            local_replays: self.local_replays.get(),
            causal_reads: self.causal_reads.get(),
        }
    }

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
