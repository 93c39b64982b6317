//! Bounds on what other processes can take of this member: messages, and lines of its log. For
//! places in pools of connections see `address_limit.rs`.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Messages that a stranger may send at once.
const BURST: u32 = 64;
/// After this time it may send one more.
const REFILL: Duration = Duration::from_millis(50);

/// The messages that a stranger may still send over its connection: one that asks to join repeats
/// its request a few times a second, and needs no more.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u32,
    /// Up to when refills are counted in.
    since: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Allowance {
        Allowance {
            left: BURST,
            since: now,
        }
    }

    /// A message has arrived. False if it was one too many.
    pub(super) fn permits(&mut self, now: Instant) -> bool {
        while self.left < BURST && now.saturating_duration_since(self.since) >= REFILL {
            self.left += 1;
            self.since += REFILL;
        }
        if self.left == BURST {
            self.since = now;
        }
        let permits = self.left > 0;
        self.left = self.left.saturating_sub(1);
        permits
    }
}

/// After this time the same message is logged again.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// Messages logged within that time, at most.
const MESSAGES_MAX: usize = 64;

/// When each message was last logged, by whom it is about and text.
///
/// A peer with a wrong certificate, or of a foreign group, calls again several times a second. Its
/// operator needs the reason once, not a full log: the same message about the same process is
/// logged once a minute. A caller that words its mistakes differently each time meets the bound on
/// all of them.
pub struct LogRateLimit<About> {
    last: HashMap<(About, String), Instant>,
    /// Messages that were not logged since one was.
    omitted: u64,
}

impl<About> Default for LogRateLimit<About> {
    fn default() -> LogRateLimit<About> {
        let (last, omitted) = (HashMap::new(), 0);
        LogRateLimit { last, omitted }
    }
}

impl<About: Eq + Hash> LogRateLimit<About> {
    /// Whether a message is to be logged now: if so, how many were not since the last one that was.
    pub fn permits(&mut self, about: About, text: &str, now: Instant) -> Option<u64> {
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < REPEAT_AFTER;
        let message = (about, text.to_owned());
        if self.last.get(&message).is_some_and(is_recent) {
            self.omitted += 1;
            return None;
        }
        if self.last.len() >= MESSAGES_MAX {
            self.last.retain(|_, at| is_recent(at));
        }
        if self.last.len() >= MESSAGES_MAX {
            self.omitted += 1;
            return None;
        }
        self.last.insert(message, now);
        Some(std::mem::take(&mut self.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn joiner_is_never_stopped_and_a_flood_is() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut allowance = Allowance::new(start);
        assert!((0..1000).all(|n| allowance.permits(at(n * 100))));
        let calm = at(200_000);
        assert!((0..BURST).all(|_| allowance.permits(calm)));
        assert!(!allowance.permits(calm));
        assert!(allowance.permits(calm + REFILL));
        assert!(!allowance.permits(calm + REFILL));
    }

    #[test]
    fn same_message_is_logged_again_after_a_minute() {
        let mut limit = LogRateLimit::default();
        let caller = IpAddr::from([10, 0, 0, 1]);
        let now = Instant::now();
        assert_eq!(limit.permits(caller, "a", now), Some(0));
        let soon = now + Duration::from_secs(59);
        assert_eq!(limit.permits(caller, "a", soon), None);
        assert_eq!(limit.permits(caller, "b", now), Some(1));
        assert_eq!(limit.permits(caller, "a", now), None);
        assert_eq!(
            limit.permits(IpAddr::from([10, 0, 0, 2]), "b", now),
            Some(1)
        );
        assert_eq!(limit.permits(caller, "b", now + REPEAT_AFTER), Some(0));
    }

    #[test]
    fn lines_and_memory_are_bounded_however_many_addresses_and_texts_there_are() {
        let mut limit = LogRateLimit::default();
        let now = Instant::now();
        let mut logged = 0;
        for caller in 0..10_000_u32 {
            let ip = IpAddr::from(caller.to_be_bytes());
            logged += usize::from(limit.permits(ip, &caller.to_string(), now).is_some());
        }
        assert_eq!(logged, MESSAGES_MAX);
        assert_eq!(limit.last.len(), MESSAGES_MAX);
        let later = limit.permits(IpAddr::from([10, 0, 0, 1]), "a", now + REPEAT_AFTER);
        assert_eq!(later, Some(10_000 - MESSAGES_MAX as u64));
        assert_eq!(limit.last.len(), 1);
    }
}
