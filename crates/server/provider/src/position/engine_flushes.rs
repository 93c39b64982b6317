//! Period in which the storage engine flushes what it has applied.
//!
//! Decides how long an action is kept in the log after it was applied: see
//! [`synod_node::NodeConfig::flush_period`].

use std::time::Duration;

use crate::api::{Callbacks, LogLevel};
use crate::server_program::Settings;

/// The variable, as `mariadbd --help` lists it.
const VARIABLE: &str = "innodb-flush-log-at-timeout";
/// Taken where the server's program does not say: longer than is usual.
const UNKNOWN: Duration = Duration::from_secs(60);

/// The period at the server's start. A change while it runs is not seen.
pub(crate) fn period(settings: &Settings, callbacks: &Callbacks) -> Duration {
    if let Some(seconds) = settings.number(VARIABLE) {
        return Duration::from_secs(seconds);
    }
    let text = format!(
        "innodb_flush_log_at_timeout is not known, so it is taken for {UNKNOWN:?}: the log keeps \
         actions for so long after they were applied (mariadbd --help --verbose does not say it)"
    );
    callbacks.log(LogLevel::Info, &text);
    UNKNOWN
}
