//! Warns while a log grows towards its disk bound, because members need what it holds.

use std::time::{Duration, SystemTime};

/// How large a log is, and how large it may become, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSize {
    pub(crate) bytes: u64,
    /// Its target: above it the log is purged of what no member needs.
    pub(crate) target: u64,
    /// Its disk bound: above it the log is purged of what members need.
    pub(crate) bound: u64,
}

/// A log that has used half of the room above its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Share of that room in use, in percent.
    pub(crate) percent: u64,
    /// When the log reaches its bound, if it grows on as it has since it passed its target.
    pub(crate) time_left: Option<Duration>,
}

/// The share of the room, in percent, at which a warning is due, ...
const WARN_AT: u64 = 50;
/// ... and below which a later one may be due again.
const WELL_BELOW: u64 = 25;

/// Says once that the log has used half of its room, and again only if there was room in between.
#[derive(Debug, Default)]
pub(crate) struct LogGrowthWatch {
    /// When the log was first seen above its target, and its size then.
    since: Option<(SystemTime, u64)>,
    is_warned: bool,
}

impl LogGrowthWatch {
    /// Warning about a log of this size, if one is due. `now` is the wall clock.
    pub(crate) fn warning(&mut self, now: SystemTime, size: LogSize) -> Option<Growth> {
        let LogSize {
            bytes,
            target,
            bound,
        } = size;
        let Some(above) = bytes.checked_sub(target).filter(|above| *above > 0) else {
            *self = LogGrowthWatch::default();
            return None;
        };
        let (since, before) = *self.since.get_or_insert((now, bytes));
        let room = bound.saturating_sub(target).max(1);
        let percent = above.min(room).saturating_mul(100) / room;
        if percent < WELL_BELOW {
            self.is_warned = false;
        }
        if percent < WARN_AT || std::mem::replace(&mut self.is_warned, true) {
            return None;
        }
        let passed = now.duration_since(since).unwrap_or_default();
        let grown = bytes.saturating_sub(before);
        let time_left = time_to_grow(room - above.min(room), grown, passed);
        Some(Growth { percent, time_left })
    }
}

/// How long it takes to grow by `left` bytes, at the rate of `grown` bytes in `passed`.
fn time_to_grow(left: u64, grown: u64, passed: Duration) -> Option<Duration> {
    let passed_ms = u64::try_from(passed.as_millis()).ok()?;
    if grown == 0 || passed_ms == 0 {
        return None;
    }
    let left_ms = u128::from(left) * u128::from(passed_ms) / u128::from(grown);
    u64::try_from(left_ms).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn size(bytes: u64) -> LogSize {
        LogSize {
            bytes,
            target: 1000,
            bound: 3000,
        }
    }

    #[test]
    fn half_of_the_room_is_announced_once_with_the_time_that_is_left() {
        let mut watch = LogGrowthWatch::default();
        assert_eq!(watch.warning(at(0), size(1000)), None);
        assert_eq!(watch.warning(at(10), size(1100)), None);
        assert_eq!(watch.warning(at(20), size(1900)), None);
        let growth = Growth {
            percent: 55,
            // 1000 bytes in 20 seconds, 900 are left.
            time_left: Some(Duration::from_secs(18)),
        };
        assert_eq!(watch.warning(at(30), size(2100)), Some(growth));
        assert_eq!(watch.warning(at(40), size(2900)), None);
        assert_eq!(watch.warning(at(50), size(1400)), None, "there is room");
        let again = watch.warning(at(60), size(2500)).map(|g| g.percent);
        assert_eq!(again, Some(75));
    }

    #[test]
    fn rate_counts_from_when_the_log_passed_its_target() {
        let mut watch = LogGrowthWatch::default();
        assert_eq!(watch.warning(at(0), size(1100)), None);
        assert_eq!(watch.warning(at(900), size(800)), None);
        assert_eq!(watch.warning(at(1000), size(1100)), None);
        let growth = watch.warning(at(1010), size(2100)).unwrap();
        assert_eq!(growth.time_left, Some(Duration::from_secs(9)));
    }

    #[test]
    fn log_that_is_large_at_first_sight_has_no_rate() {
        let growth = LogGrowthWatch::default().warning(at(5), size(9000));
        let time_left = None;
        let percent = 100;
        assert_eq!(growth, Some(Growth { percent, time_left }));
    }
}
