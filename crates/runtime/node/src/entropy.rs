//! The random inputs of a start: a session number, a seed, and the id of a group to begin.
//!
//! The crates below draw nothing by themselves, so that the simulator can repeat what they do.

use std::time::{Duration, SystemTime};

use synod_consensus::{GroupId, SessionId};
use synod_member::StartEntropy;

use crate::config::NodeError;

/// Random bits below the time.
const RANDOM_BITS: u32 = 22;

/// Draws the random inputs of a start.
///
/// # Errors
/// If the system gives no random numbers.
pub(crate) fn draw() -> Result<StartEntropy, NodeError> {
    Ok(StartEntropy {
        session: new_session(SystemTime::now(), random_u64()?),
        seed: random_u64()?,
        group: GroupId(random_uuid()?),
    })
}

/// The number of a session that begins now: the time in milliseconds, and below it 22 random bits.
/// So a member's sessions differ even where a clock is set back, and views list members in the
/// order in which they came ([`synod_member::View::members`]). No other rule depends on a correct
/// clock.
fn new_session(now: SystemTime, random: u64) -> SessionId {
    let since_1970 = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    let number = (ms << RANDOM_BITS) | (random >> (u64::BITS - RANDOM_BITS));
    // Zero means no session.
    SessionId(number.max(1))
}

fn random_u64() -> Result<u64, NodeError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| NodeError::Random(error.to_string()))?;
    // Zero is kept for "none".
    Ok(u64::from_le_bytes(bytes).max(1))
}

fn random_uuid() -> Result<[u8; 16], NodeError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| NodeError::Random(error.to_string()))?;
    // RFC 4122, version 4.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Ok(bytes)
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
    fn session_without_a_clock_has_a_number() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
        assert_ne!(new_session(before, 0), SessionId(0));
    }
}
