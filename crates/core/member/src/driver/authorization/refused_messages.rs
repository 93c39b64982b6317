//! Counts refused messages, and says which of them to log. A hostile process sends as much as it
//! likes, in as many names as it likes. The log gets one line a minute for a sender, and for a
//! bounded number of senders.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, Time};

/// One line for a sender in this time.
const PAUSE: Duration = Duration::from_secs(60);
/// Senders remembered. Others are counted and not logged until one of these is forgotten.
const SENDERS_MAX: usize = 64;

#[derive(Default)]
pub(in crate::driver) struct RefusedMessages {
    count: u64,
    logged: BTreeMap<MemberId, Time>,
}

impl RefusedMessages {
    /// A message was refused. Whether that is to be logged.
    pub(super) fn refused(&mut self, now: Time, from: MemberId) -> bool {
        self.count += 1;
        self.logged.retain(|_, at| now.since(*at) < PAUSE);
        let is_new = !self.logged.contains_key(&from) && self.logged.len() < SENDERS_MAX;
        if is_new {
            self.logged.insert(from, now);
        }
        is_new
    }

    pub(in crate::driver) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_one_a_minute_is_logged_of_few_senders() {
        let mut refused = RefusedMessages::default();
        let (now, later) = (Time(7), Time(7).plus(PAUSE));
        let lines = (0..1000).filter(|n| refused.refused(now, MemberId(n % 100)));
        assert_eq!(lines.count(), SENDERS_MAX);
        assert!(refused.refused(later, MemberId(0)));
        assert!(!refused.refused(later, MemberId(0)));
        assert_eq!(refused.count(), 1002);
    }
}
