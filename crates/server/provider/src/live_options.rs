//! Options that are read on hot paths, or by threads that cannot wait for the options' lock.
//!
//! The provider copies them here at start and whenever an option is set.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use synod_node::CommitWait;

use crate::options::{Options, key};

/// Present values. A change counts for what begins after it.
#[derive(Debug, Default)]
pub(crate) struct LiveOptions {
    write_set_bytes_max: AtomicU64,
    row_keys_max: AtomicU64,
    debug: AtomicBool,
    log_conflicts: AtomicBool,
    restarts_on_failure: AtomicBool,
    stats_period_us: AtomicU64,
    waits_until_applied: AtomicBool,
    staleness_max_us: AtomicU64,
}

impl LiveOptions {
    pub(crate) fn update(&self, options: &Options) {
        let bytes = options.unsigned(key::REPL_MAX_WS_SIZE);
        self.write_set_bytes_max.store(bytes, Ordering::Relaxed);
        let keys = options.unsigned(key::MAX_ROW_KEYS);
        self.row_keys_max.store(keys, Ordering::Relaxed);
        self.debug
            .store(options.bool(key::DEBUG), Ordering::Relaxed);
        let log_conflicts = options.bool(key::CERT_LOG_CONFLICTS);
        self.log_conflicts.store(log_conflicts, Ordering::Relaxed);
        let restarts = options.bool(key::RESTART_ON_FAILURE);
        self.restarts_on_failure.store(restarts, Ordering::Relaxed);
        let micros = |key| u64::try_from(options.duration(key).as_micros()).unwrap_or(u64::MAX);
        let period = micros(key::EVS_STATS_REPORT_PERIOD);
        self.stats_period_us.store(period, Ordering::Relaxed);
        let waits = options.commit_wait() == CommitWait::Applied;
        self.waits_until_applied.store(waits, Ordering::Relaxed);
        let staleness = micros(key::MAX_STALENESS);
        self.staleness_max_us.store(staleness, Ordering::Relaxed);
    }

    /// `repl.max_ws_size` in bytes.
    pub(crate) fn write_set_bytes_max(&self) -> u64 {
        self.write_set_bytes_max.load(Ordering::Relaxed)
    }

    /// `synod.max_row_keys`
    pub(crate) fn row_keys_max(&self) -> NonZeroUsize {
        let keys = usize::try_from(self.row_keys_max.load(Ordering::Relaxed));
        NonZeroUsize::new(keys.unwrap_or(usize::MAX)).unwrap_or(NonZeroUsize::MAX)
    }

    pub(crate) fn debug(&self) -> bool {
        self.debug.load(Ordering::Relaxed)
    }

    /// `evs.stats_report_period`
    pub(crate) fn stats_period(&self) -> Duration {
        Duration::from_micros(self.stats_period_us.load(Ordering::Relaxed))
    }

    /// `synod.commit_wait`
    pub(crate) fn waits_until_applied(&self) -> bool {
        self.waits_until_applied.load(Ordering::Relaxed)
    }

    /// `synod.max_staleness`; zero: reads are never stale.
    pub(crate) fn staleness_max(&self) -> Duration {
        Duration::from_micros(self.staleness_max_us.load(Ordering::Relaxed))
    }

    /// `synod.restart_on_failure`
    pub(crate) fn restarts_on_failure(&self) -> bool {
        self.restarts_on_failure.load(Ordering::Relaxed)
    }

    /// `cert.log_conflicts`
    pub(crate) fn log_conflicts(&self) -> bool {
        self.log_conflicts.load(Ordering::Relaxed)
    }
}
