//! Round trip and clock offset of one peer, as pings have measured them.
//!
//! As NTP does it (RFC 5905): the answer shows the peer's clock, and half of the round trip has
//! passed since. Of the last minute the sample with the shortest round trip counts, because the
//! time that a message waits somewhere falls on one of the two ways only. The offset is wrong by at
//! most half of that round trip.
//!
//! The peer's word is not trusted: an answer counts for a ping that is under way, so no round trip
//! is negative or longer than that ping has been away; and offsets are bounded.

use std::collections::VecDeque;
use std::time::Duration;

use synod_consensus::{SessionId, Time};

/// Pings whose answers are waited for: a link may be some seconds long.
const UNDER_WAY_MAX: usize = 16;
/// A sample counts for so long.
const SAMPLE_LIFE: Duration = Duration::from_secs(60);
/// Samples that are kept: one a second.
const SAMPLES_MAX: usize = 64;
/// A round trip is not known any more if no ping was answered for this time.
const ANSWER_LIFE: Duration = Duration::from_secs(10);
/// Bound on offsets, in microseconds: a hundred years. A clock without a battery begins in 1970.
const OFFSET_MAX_US: i64 = 100 * 366 * 24 * 3_600 * 1_000_000;

/// Offset between a peer's clock and this member's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The peer's clock is ahead by so many microseconds; behind, if negative.
    pub ahead_us: i64,
    /// By how much that may be wrong, in microseconds.
    pub error_us: u64,
}

/// The measurements of the link to one process.
#[derive(Debug, Default)]
pub(super) struct LinkTimes {
    session: SessionId,
    /// Number of the last ping; none has zero.
    last_number: u64,
    /// Numbers of pings without an answer, and when they were sent, oldest first.
    under_way: VecDeque<(u64, Time)>,
    /// Smoothed; none: no ping was answered.
    round_trip_us: Option<u64>,
    /// When the latest answer came.
    answered_at: Time,
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    round_trip_us: u64,
    ahead_us: i64,
}

impl LinkTimes {
    /// A ping is sent now, to this process of the peer. Returns its number.
    pub(super) fn ping(&mut self, now: Time, session: SessionId) -> u64 {
        if session != self.session {
            // Perhaps on another machine.
            let last_number = self.last_number;
            *self = LinkTimes {
                session,
                last_number,
                ..LinkTimes::default()
            };
        }
        self.last_number += 1;
        if self.under_way.len() == UNDER_WAY_MAX {
            self.under_way.pop_front();
        }
        self.under_way.push_back((self.last_number, now));
        self.last_number
    }

    /// The peer has answered a ping: its clock shows `peer_wall_us`, this member's `wall_us`, both
    /// in microseconds since 1970. An answer to no ping under way is ignored.
    pub(super) fn answered(&mut self, now: Time, wall_us: u64, number: u64, peer_wall_us: u64) {
        let found = self.under_way.iter().position(|(sent, _)| *sent == number);
        let Some((_, sent_at)) = found.and_then(|at| self.under_way.drain(..=at).next_back())
        else {
            return;
        };
        let round_trip_us = now.since_us(sent_at);
        self.answered_at = now;
        // One answer counts an eighth, as in TCP (RFC 6298, section 2).
        self.round_trip_us = Some(match self.round_trip_us {
            None => round_trip_us,
            Some(smoothed) => smoothed - smoothed / 8 + round_trip_us / 8,
        });
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        let answered_us = i128::from(wall_us) - i128::from(round_trip_us / 2);
        self.samples.push_back(Sample {
            at: now,
            round_trip_us,
            ahead_us: bounded(i128::from(peer_wall_us) - answered_us),
        });
    }

    /// Pings whose answers are waited for.
    #[cfg(test)]
    pub(super) fn awaited(&self) -> usize {
        self.under_way.len()
    }

    /// The smoothed round trip; none if no ping was answered lately.
    pub(super) fn round_trip(&self, now: Time) -> Option<Duration> {
        let is_fresh = now.since(self.answered_at) < ANSWER_LIFE;
        self.round_trip_us
            .filter(|_| is_fresh)
            .map(Duration::from_micros)
    }

    /// Offset of the peer's clock; none if no ping was answered in the last minute.
    pub(super) fn clock(&self, now: Time) -> Option<ClockOffset> {
        let lives = |sample: &&Sample| now.since(sample.at) < SAMPLE_LIFE;
        let living = self.samples.iter().filter(lives);
        let best = living.min_by_key(|sample| sample.round_trip_us)?;
        Some(ClockOffset {
            ahead_us: best.ahead_us,
            error_us: best.round_trip_us.div_ceil(2),
        })
    }
}

fn bounded(ahead_us: i128) -> i64 {
    let bound = i128::from(OFFSET_MAX_US);
    i64::try_from(ahead_us.clamp(-bound, bound)).unwrap_or(OFFSET_MAX_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: SessionId = SessionId(7);
    const WALL: u64 = 1_700_000_000_000_000;
    const SECOND: u64 = 1_000_000;

    fn at(us: u64) -> Time {
        Time(1_000_000_000 + us)
    }

    /// One ping at `sent`, whose answer needs `there` and `back`, by a clock that is `ahead`.
    fn measure(times: &mut LinkTimes, sent: u64, there: u64, back: u64, ahead: i64) {
        let number = times.ping(at(sent), PROCESS);
        let peer_wall = (WALL + sent + there).checked_add_signed(ahead).unwrap();
        let came = sent + there + back;
        times.answered(at(came), WALL + came, number, peer_wall);
    }

    fn clock(times: &LinkTimes, now: u64) -> (i64, u64) {
        let offset = times.clock(at(now)).unwrap();
        (offset.ahead_us, offset.error_us)
    }

    #[test]
    fn offset_is_that_of_the_shortest_round_trip_of_the_last_minute() {
        let mut times = LinkTimes::default();
        assert_eq!(times.clock(at(0)), None);
        measure(&mut times, 0, 40_000, 100, 5_000);
        let (ahead, error) = clock(&times, SECOND);
        assert_eq!((ahead, error), (5_000 + (40_000 - 100) / 2, 20_050));
        measure(&mut times, SECOND, 100, 100, 5_000);
        measure(&mut times, 2 * SECOND, 100, 30_000, 5_000);
        assert_eq!(clock(&times, 3 * SECOND), (5_000, 100));
        // Only the last of them is of the last minute then.
        assert_eq!(clock(&times, 61 * SECOND + SECOND / 2).1, 15_050);
        assert_eq!(times.clock(at(63 * SECOND)), None);
    }

    #[test]
    fn error_covers_what_a_one_sided_delay_adds() {
        for (there, back) in [(0, 90_000), (90_000, 0), (1, 2), (45_000, 45_001)] {
            let mut times = LinkTimes::default();
            measure(&mut times, 0, there, back, -250_000);
            let (ahead, error) = clock(&times, SECOND);
            let wrong_by = ahead.abs_diff(-250_000);
            assert!(wrong_by <= error, "{there} {back}: {wrong_by} of {error}");
        }
    }

    #[test]
    fn round_trip_is_smoothed_and_forgotten_without_answers() {
        let mut times = LinkTimes::default();
        measure(&mut times, 0, 400, 400, 0);
        measure(&mut times, SECOND, 800, 800, 0);
        let shown = |now| times.round_trip(at(now));
        assert_eq!(shown(2 * SECOND), Some(Duration::from_micros(900)));
        assert_eq!(shown(12 * SECOND), None);
    }

    #[test]
    fn answer_to_no_ping_changes_nothing() {
        let mut times = LinkTimes::default();
        times.answered(at(5), WALL, 1, WALL);
        let number = times.ping(at(10), PROCESS);
        times.answered(at(20), WALL, number + 1, WALL);
        assert_eq!(times.round_trip(at(20)), None);
        times.answered(at(30), WALL, number, WALL);
        times.answered(at(90), WALL, number, 0);
        assert_eq!(times.round_trip(at(90)), Some(Duration::from_micros(20)));
        assert_eq!(clock(&times, 90).0, 10);
    }

    #[test]
    fn late_answer_counts_for_its_own_ping() {
        let mut times = LinkTimes::default();
        let first = times.ping(at(0), PROCESS);
        let second = times.ping(at(SECOND), PROCESS);
        times.answered(at(SECOND + 500), WALL, second, WALL);
        times.answered(at(SECOND + 600), WALL, first, WALL);
        assert_eq!(clock(&times, 2 * SECOND), (250, 250));
    }

    #[test]
    fn pings_without_answers_are_bounded() {
        let mut times = LinkTimes::default();
        for second in 0..1_000 {
            times.ping(at(second * SECOND), PROCESS);
        }
        assert_eq!(times.under_way.len(), UNDER_WAY_MAX);
        for second in 1_000..2_000 {
            measure(&mut times, second * SECOND, 1, 1, 0);
        }
        assert_eq!(times.samples.len(), SAMPLES_MAX);
    }

    #[test]
    fn absurd_clocks_are_bounded() {
        for (wall, peer_wall) in [(WALL, u64::MAX), (u64::MAX, 0), (0, u64::MAX), (WALL, 0)] {
            let mut times = LinkTimes::default();
            let number = times.ping(at(0), PROCESS);
            times.answered(at(100), wall, number, peer_wall);
            let (ahead, _) = clock(&times, 100);
            assert!(ahead.abs() <= OFFSET_MAX_US, "{ahead}");
        }
    }

    #[test]
    fn another_process_of_the_peer_is_measured_from_the_start() {
        let mut times = LinkTimes::default();
        measure(&mut times, 0, 10, 10, 5);
        let old = times.ping(at(SECOND), PROCESS);
        times.ping(at(2 * SECOND), SessionId(8));
        assert_eq!(times.clock(at(2 * SECOND)), None);
        times.answered(at(2 * SECOND), WALL, old, WALL);
        assert_eq!(times.round_trip(at(2 * SECOND)), None);
    }
}
