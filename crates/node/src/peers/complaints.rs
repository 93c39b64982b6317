//! Not saying the same of the same caller twice a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The same is said again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Complaints remembered; when there are more, all are forgotten.
const REMEMBERED_MAX: usize = 64;

/// What was said of whom, and when.
#[derive(Default)]
pub(super) struct Complaints(HashMap<(IpAddr, String), Instant>);

impl Complaints {
    /// Whether a complaint is new enough for the log.
    pub(super) fn is_news(&mut self, caller: IpAddr, text: &str, now: Instant) -> bool {
        let complaint = (caller, text.to_owned());
        let last = self.0.get(&complaint);
        if last.is_some_and(|at| now.saturating_duration_since(*at) < AGAIN_AFTER) {
            return false;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(complaint, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_again_only_after_a_while() {
        let mut complaints = Complaints::default();
        let caller = IpAddr::from([10, 0, 0, 1]);
        let now = Instant::now();
        assert!(complaints.is_news(caller, "a", now));
        assert!(!complaints.is_news(caller, "a", now + Duration::from_secs(59)));
        assert!(complaints.is_news(caller, "b", now));
        assert!(!complaints.is_news(caller, "a", now));
        assert!(complaints.is_news(IpAddr::from([10, 0, 0, 2]), "b", now));
        assert!(complaints.is_news(caller, "b", now + AGAIN_AFTER));
    }

    #[test]
    fn callers_without_end_take_no_memory_without_end() {
        let mut complaints = Complaints::default();
        for caller in 0..10_000_u32 {
            complaints.is_news(IpAddr::from(caller.to_be_bytes()), "a", Instant::now());
        }
        assert!(complaints.0.len() <= REMEMBERED_MAX);
    }
}
