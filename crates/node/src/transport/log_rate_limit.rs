//! Logs the same message about the same address at most once a minute.
//!
//! A peer with a wrong certificate, or of a foreign group, calls again several times a second. Its
//! operator needs the reason once, not a full log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// After this time the same message is logged again.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// Messages remembered; when there would be more, all are forgotten.
const REMEMBERED_MAX: usize = 64;

/// When each message was last logged, by address and text.
#[derive(Default)]
pub(super) struct LogRateLimit(HashMap<(IpAddr, String), Instant>);

impl LogRateLimit {
    /// Whether a message about an address is to be logged now. If so, that is noted.
    pub(super) fn permits(&mut self, address: IpAddr, text: &str, now: Instant) -> bool {
        let message = (address, text.to_owned());
        let last = self.0.get(&message);
        if last.is_some_and(|at| now.saturating_duration_since(*at) < REPEAT_AFTER) {
            return false;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(message, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_message_is_logged_again_after_a_minute() {
        let mut limit = LogRateLimit::default();
        let caller = IpAddr::from([10, 0, 0, 1]);
        let now = Instant::now();
        assert!(limit.permits(caller, "a", now));
        assert!(!limit.permits(caller, "a", now + Duration::from_secs(59)));
        assert!(limit.permits(caller, "b", now));
        assert!(!limit.permits(caller, "a", now));
        assert!(limit.permits(IpAddr::from([10, 0, 0, 2]), "b", now));
        assert!(limit.permits(caller, "b", now + REPEAT_AFTER));
    }

    #[test]
    fn memory_is_bounded_however_many_addresses_there_are() {
        let mut limit = LogRateLimit::default();
        for caller in 0..10_000_u32 {
            limit.permits(IpAddr::from(caller.to_be_bytes()), "a", Instant::now());
        }
        assert!(limit.0.len() <= REMEMBERED_MAX);
    }
}
