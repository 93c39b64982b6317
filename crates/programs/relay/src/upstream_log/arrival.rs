//! Arrival of the newest transaction in the log, for operators.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use synod_binlog::EventHeader;

/// Events have whole seconds, and clocks that are kept alike differ by less than that.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

/// The arrival of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    at: Instant,
    delay: Option<Duration>,
}

impl Arrival {
    /// A transaction whose last part has these events has come just now.
    pub(crate) fn of(events: &[u8]) -> Arrival {
        let header = EventHeader::parse(events).ok();
        let written_s = header.map_or(0, |header| header.timestamp);
        Arrival {
            at: Instant::now(),
            delay: delay(SystemTime::now(), written_s),
        }
    }

    /// Delay from the first of these events, by the upstream's clock, to the log, by this one's;
    /// none: the event has no time, or one that has not come yet.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// For how long none has come since.
    pub(crate) fn quiet(&self) -> Duration {
        self.at.elapsed()
    }
}

/// From `written_s`, in seconds since 1970, zero: no time, until `read`.
fn delay(read: SystemTime, written_s: u32) -> Option<Duration> {
    if written_s == 0 {
        return None;
    }
    let written = UNIX_EPOCH + Duration::from_secs(written_s.into());
    match read.duration_since(written) {
        Ok(delay) => Some(delay),
        Err(ahead) if ahead.duration() < CLOCKS_DIFFER => Some(Duration::ZERO),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: u32 = 3600;

    fn delay_s(read_s: u64, written_s: u32) -> Option<u64> {
        let read = UNIX_EPOCH + Duration::from_secs(read_s);
        delay(read, written_s).map(|delay| delay.as_secs())
    }

    #[test]
    fn clock_of_the_upstream_may_be_behind_or_ahead() {
        let now_s = 500_000 * HOUR_S;
        assert_eq!(delay_s(now_s.into(), now_s - 2), Some(2));
        assert_eq!(delay_s(now_s.into(), now_s - 5 * HOUR_S), Some(5 * 3600));
        assert_eq!(delay_s(now_s.into(), now_s + 5 * HOUR_S), None);
        assert_eq!(delay_s(now_s.into(), u32::MAX), None);
        // Less than a second ahead.
        let read = UNIX_EPOCH + Duration::from_millis(u64::from(now_s) * 1000 - 300);
        assert_eq!(delay(read, now_s), Some(Duration::ZERO));
    }

    #[test]
    fn event_without_a_time_has_no_delay() {
        assert_eq!(delay_s(500_000 * 3600, 0), None);
        assert_eq!(Arrival::of(b"no event").delay(), None);
    }
}
