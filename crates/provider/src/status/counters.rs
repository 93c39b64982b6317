//! Counters for `SHOW STATUS`.
//!
//! Any thread may count at any time; no lock is taken. `FLUSH STATUS` sets all of them to zero.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::status::commit_steps::CommitSteps;
use crate::status::latency::LatencyMeter;

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub(crate) fn one(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The present count.
    pub(crate) fn get(&self) -> i64 {
        i64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// All counts, since start or since `FLUSH STATUS`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Own write sets sent.
    pub(crate) replicated: Counter,
    /// Bytes of the own write sets.
    pub(crate) replicated_bytes: Counter,
    /// Keys in the own write sets.
    pub(crate) repl_keys: Counter,
    /// Bytes of the keys.
    pub(crate) repl_keys_bytes: Counter,
    /// Bytes of row data.
    pub(crate) repl_data_bytes: Counter,
    /// Actions received from others.
    pub(crate) received: Counter,
    /// Bytes of the actions received.
    pub(crate) received_bytes: Counter,
    /// Own transactions committed.
    pub(crate) local_commits: Counter,
    /// Own transactions refused.
    pub(crate) local_cert_failures: Counter,
    /// Own transactions replayed.
    pub(crate) local_replays: Counter,
    /// Reads that waited for the group's position.
    pub(crate) causal_reads: Counter,
    /// How long own actions take to be ordered.
    pub(crate) latency: LatencyMeter,
    /// How long each step of a commit takes.
    pub(crate) steps: CommitSteps,
    /// Ordered actions for the average below.
    pub(crate) certified: Counter,
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

    /// As the status shows them.
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
            local_replays: self.local_replays.get(),
            causal_reads: self.causal_reads.get(),
        }
    }

    /// Average distance of an action to what it depends on.
    pub(crate) fn deps_distance(&self) -> f64 {
        match self.certified.get() {
            0 => 0.0,
            count => self.deps_distance_sum.get() as f64 / count as f64,
        }
    }
}
