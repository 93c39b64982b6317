//! The wall clock, for what operators compare with other logs. Nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; zero on a machine whose clock is before that.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}
