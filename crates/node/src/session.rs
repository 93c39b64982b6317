//! Numbers of sessions.

use std::time::{Duration, SystemTime};

use synod_consensus::SessionId;

/// Random bits below the time.
const RANDOM_BITS: u32 = 22;

/// The number of a session that begins now: the time in milliseconds, and below it 22 random bits. So
/// a member's sessions differ even where a clock is set back, and views list members in the order in
/// which they came ([`synod_member::View::members`]). Nothing else depends on the clock being right.
pub(crate) fn new_session(now: SystemTime, random: u64) -> SessionId {
    let since_1970 = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    let number = (ms << RANDOM_BITS) | (random >> (u64::BITS - RANDOM_BITS));
    // Zero means nobody.
    SessionId(number.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
    }

    const TODAY: u64 = 1_790_000_000_000;

    #[test]
    fn later_sessions_have_larger_numbers() {
        assert!(new_session(at(TODAY), u64::MAX) < new_session(at(TODAY + 1), 0));
        let in_2100 = at(4_102_444_800_000);
        assert!(new_session(at(TODAY), u64::MAX) < new_session(in_2100, 0));
    }

    #[test]
    fn two_sessions_of_one_moment_differ() {
        let (a, b) = (1 << 63, 1 << 42);
        assert_ne!(new_session(at(TODAY), a), new_session(at(TODAY), b));
        assert_ne!(new_session(at(TODAY), 0), new_session(at(TODAY), b));
    }

    #[test]
    fn session_without_a_clock_is_somebody() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
        assert_ne!(new_session(before, 0), SessionId(0));
    }
}
