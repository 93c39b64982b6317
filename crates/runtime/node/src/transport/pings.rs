//! Pings: four times a second each connected member is asked how far away it is, and what its clock
//! shows. Both are for operators only. That it answers at all is a sign of life for the core
//! ([`Event::Alive`]). The thread that reads a ping answers it, as far as the socket takes the
//! answer at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use synod_consensus::{MemberId, SessionId, Time};
use synod_member::{Event, Host, Level, Shared, Topic, lock};
use synod_wire::{Lane, PeerMessage};

use super::Transport;
use super::link::Link;
use crate::clock::Clock;
use crate::wait::EventCount;

/// Time between two rounds of pings.
const PERIOD: Duration = Duration::from_millis(250);
/// An answer that took longer says nothing about the present.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);
/// Clocks that differ by more than this, for certain, are said to differ. Microseconds.
const APART_US: u64 = 1_000_000;
/// They are said to agree again below this. Microseconds.
const TOGETHER_US: u64 = 500_000;
/// Pings whose answers are waited for: a link may be some seconds long.
const UNDER_WAY_MAX: usize = 64;
/// A sample counts for so long.
const SAMPLE_LIFE: Duration = Duration::from_secs(60);
/// Samples that are kept: four a second.
const SAMPLES_MAX: usize = 256;
/// A round trip is not known any more if no ping was answered for this time.
const ANSWER_LIFE: Duration = Duration::from_secs(10);
/// Bound on offsets, in microseconds: a hundred years. A clock without a battery begins in 1970.
const OFFSET_MAX_US: i64 = 100 * 366 * 24 * 3_600 * 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    pub member: MemberId,
    /// Time from a ping to its answer, smoothed, with what the threads at both ends add; none if
    /// none was answered in the last ten seconds.
    pub round_trip: Option<Duration>,
    /// Offset of the other member's clock from this one's; none if that was not measured in the
    /// last minute.
    pub clock: Option<ClockOffset>,
}

/// Results of the pings to the members that this one calls.
pub(super) struct Pings {
    clock: Clock,
    /// Microseconds since 1970.
    wall_clock: fn() -> u64,
    links: Mutex<BTreeMap<MemberId, LinkTimes>>,
    /// Stopped with the transport.
    ended: EventCount,
}

impl Pings {
    /// None yet. This wall clock is compared with those of others.
    pub(super) fn new(wall_clock: fn() -> u64) -> Pings {
        Pings {
            clock: Clock::start(),
            wall_clock,
            links: Mutex::default(),
            ended: EventCount::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn awaited(&self, member: MemberId) -> usize {
        lock(&self.links).get(&member).map_or(0, LinkTimes::awaited)
    }

    /// Ends the wait for the next round, now and later.
    pub(super) fn end(&self) {
        self.ended.stop();
    }
}

impl Transport {
    /// Waits between two rounds of pings. False once the transport stops.
    pub(super) fn wait_to_ping(&self, pause: Duration) -> bool {
        self.pings
            .ended
            .wait_beyond_until(0, Instant::now() + pause);
        self.pings.ended.count().is_some()
    }

    pub(super) fn ping_all(&self) {
        let links = self.known_links();
        let is_called = |member: &MemberId| links.iter().any(|link| link.member() == *member);
        lock(&self.pings.links).retain(|member, _| is_called(member));
        for link in &links {
            let Some((_, session)) = link.lane(Lane::Control).connection() else {
                continue;
            };
            let now = self.pings.clock.now();
            let mut times = lock(&self.pings.links);
            let number = times.entry(link.member()).or_default().ping(now, session);
            drop(times);
            self.send_at_once(link.member(), PeerMessage::Ping { number });
        }
    }

    fn known_links(&self) -> Vec<Arc<Link>> {
        let links = lock(&self.links);
        let known = links.values().filter(|link| self.known.has(link.member()));
        known.cloned().collect()
    }

    pub(super) fn answer_ping(&self, from: MemberId, number: u64) {
        let wall_us = (self.pings.wall_clock)();
        self.send_at_once(from, PeerMessage::Pong { number, wall_us });
    }

    pub(super) fn ping_answered(&self, by: MemberId, number: u64, peer_wall_us: u64) {
        // First the clock that is compared: if this thread has to wait between the two, that makes
        // the round trip longer, and with it the error that is stated.
        let wall_us = (self.pings.wall_clock)();
        let now = self.pings.clock.now();
        let mut links = lock(&self.pings.links);
        let answered = links
            .get_mut(&by)
            .and_then(|times| times.answered(now, wall_us, number, peer_wall_us));
        drop(links);
        if answered.is_some_and(|round_trip| round_trip < SIGN_OF_LIFE) {
            self.send_event(Event::Alive { member: by });
        }
    }

    /// The links to the members that this one knows, ascending by member.
    pub(crate) fn link_status(&self) -> Vec<LinkStatus> {
        let now = self.pings.clock.now();
        let links = lock(&self.pings.links);
        let status = links.iter().map(|(member, times)| LinkStatus {
            member: *member,
            round_trip: times.round_trip(now),
            clock: times.clock(now),
        });
        status.collect()
    }

    /// Sends a message as far as the socket takes it at once, the rest by the thread of its lane.
    fn send_at_once(&self, to: MemberId, message: PeerMessage) {
        let lane = message.lane();
        if let Some(link) = self.push(to, message, None) {
            let pushed = link.lane(lane).send_now(|| !self.is_isolated());
            self.note_sent(&link, pushed);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The peer's clock is ahead by so many microseconds; behind, if negative.
    pub ahead_us: i64,
    /// By how much that may be wrong, in microseconds.
    pub error_us: u64,
}

/// Round trip and clock offset of one process, as pings have measured them.
///
/// As NTP does it (RFC 5905): the answer shows the peer's clock, and half of the round trip has
/// passed since. Of the last minute the sample with the shortest round trip counts, because the
/// time that a message waits somewhere falls on one of the two ways only. The offset is wrong by at
/// most half of that round trip.
///
/// The peer's word is not trusted: an answer counts for a ping that is under way, so no round trip
/// is negative or longer than that ping has been away; and offsets are bounded.
#[derive(Debug, Default)]
struct LinkTimes {
    session: SessionId,
    /// Number of the last ping; none has zero.
    last_number: u64,
    /// Numbers of pings without an answer, and when they were sent, oldest first.
    under_way: VecDeque<(u64, Time)>,
    /// Smoothed; none: no ping was answered.
    round_trip_us: Option<u64>,
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
    fn ping(&mut self, now: Time, session: SessionId) -> u64 {
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
    /// in microseconds since 1970. Returns the round trip; none: the answer is to no ping under
    /// way, and is ignored.
    fn answered(
        &mut self,
        now: Time,
        wall_us: u64,
        number: u64,
        peer_wall_us: u64,
    ) -> Option<Duration> {
        let found = self
            .under_way
            .iter()
            .position(|(sent, _)| *sent == number)?;
        let (_, sent_at) = self.under_way.drain(..=found).next_back()?;
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
        Some(Duration::from_micros(round_trip_us))
    }

    #[cfg(test)]
    fn awaited(&self) -> usize {
        self.under_way.len()
    }

    /// The smoothed round trip; none if no ping was answered lately.
    fn round_trip(&self, now: Time) -> Option<Duration> {
        let is_fresh = now.since(self.answered_at) < ANSWER_LIFE;
        self.round_trip_us
            .filter(|_| is_fresh)
            .map(Duration::from_micros)
    }

    /// Offset of the peer's clock; none if no ping was answered in the last minute.
    fn clock(&self, now: Time) -> Option<ClockOffset> {
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

/// The ping thread: has the links measured, and says whose clock differs.
pub(crate) struct PingThread {
    pub(crate) transport: Arc<Transport>,
    pub(crate) host: Arc<dyn Host>,
    /// Has the members' names.
    pub(crate) shared: Arc<Shared>,
}

impl PingThread {
    /// Runs until the transport stops.
    pub(crate) fn run(self) {
        let mut watch = ClockWatch::default();
        while self.transport.wait_to_ping(PERIOD) {
            for (member, change) in watch.look(&self.transport.link_status()) {
                let (level, text) = change.told(&self.name_of(member));
                self.host.note(Topic::Clock, level, &text);
            }
            self.transport.ping_all();
        }
    }

    fn name_of(&self, member: MemberId) -> String {
        let members = self.shared.status().members;
        let known = members.into_iter().find(|known| known.member == member);
        known.map_or_else(|| format!("member {member}"), |known| known.name)
    }
}

/// Members whose clocks were logged as differing from this one's. The group does not depend on
/// clocks: it measures all its times by clocks that are never set. But clients see times that
/// servers write, and an operator compares logs.
#[derive(Debug, Default)]
struct ClockWatch {
    apart: BTreeSet<MemberId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockChange {
    Apart(ClockOffset),
    Together(ClockOffset),
}

impl ClockWatch {
    /// Changes since the last look. A member without a measurement stays as it was; one that is
    /// gone is forgotten.
    fn look(&mut self, links: &[LinkStatus]) -> Vec<(MemberId, ClockChange)> {
        let is_linked = |member: &MemberId| links.iter().any(|link| link.member == *member);
        self.apart.retain(is_linked);
        let measured = links
            .iter()
            .filter_map(|link| Some((link.member, link.clock?)));
        let changes = measured.filter_map(|(member, clock)| {
            let away_us = clock.ahead_us.unsigned_abs();
            let is_apart = away_us.saturating_sub(clock.error_us) > APART_US;
            if is_apart && self.apart.insert(member) {
                Some((member, ClockChange::Apart(clock)))
            } else if away_us < TOGETHER_US && self.apart.remove(&member) {
                Some((member, ClockChange::Together(clock)))
            } else {
                None
            }
        });
        changes.collect()
    }
}

impl ClockChange {
    fn told(self, name: &str) -> (Level, String) {
        match self {
            ClockChange::Apart(clock) => {
                let side = if clock.ahead_us < 0 {
                    "behind"
                } else {
                    "ahead of"
                };
                let text = format!(
                    "the clock of {name} is {:.1} s {side} this server's. Replication does not \
                     depend on it, but NOW() and the times in logs differ. See that a time service \
                     runs on both machines: chronyc tracking",
                    seconds(clock)
                );
                (Level::Warning, text)
            }
            ClockChange::Together(clock) => {
                let text = format!(
                    "the clock of {name} agrees with this server's again, within {:.1} s",
                    seconds(clock)
                );
                (Level::Info, text)
            }
        }
    }
}

fn seconds(clock: ClockOffset) -> f64 {
    clock.ahead_us.unsigned_abs() as f64 / 1e6 // exact below 285 years
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

    const OTHER: MemberId = MemberId(2);

    fn link(ahead_ms: i64, error_ms: u64) -> LinkStatus {
        LinkStatus {
            member: OTHER,
            round_trip: None,
            clock: Some(ClockOffset {
                ahead_us: ahead_ms * 1000,
                error_us: error_ms * 1000,
            }),
        }
    }

    fn told(watch: &mut ClockWatch, link: LinkStatus) -> Option<String> {
        let mut changes = watch.look(&[link]);
        assert!(changes.len() <= 1);
        changes.pop().map(|(member, change)| {
            assert_eq!(member, OTHER);
            change.told("db2").1
        })
    }

    #[test]
    fn clocks_apart_are_told_once_until_they_agree_again() {
        let mut watch = ClockWatch::default();
        assert_eq!(told(&mut watch, link(900, 1)), None);
        let apart = told(&mut watch, link(-3_200, 1)).unwrap();
        assert!(
            apart.contains("db2 is 3.2 s behind this server's"),
            "{apart}"
        );
        assert!(apart.contains("chronyc tracking"), "{apart}");
        for ahead in [-3_300, -900, 1_100, -700] {
            assert_eq!(told(&mut watch, link(ahead, 1)), None, "{ahead}");
        }
        let together = told(&mut watch, link(-40, 1)).unwrap();
        assert!(together.contains("agrees"), "{together}");
        assert_eq!(told(&mut watch, link(40, 1)), None);
        let again = told(&mut watch, link(1_100, 1)).unwrap();
        assert!(again.contains("1.1 s ahead of"), "{again}");
    }

    #[test]
    fn difference_that_the_way_may_have_made_is_not_told() {
        let mut watch = ClockWatch::default();
        assert_eq!(told(&mut watch, link(1_900, 1_000)), None);
        assert!(told(&mut watch, link(1_900, 800)).is_some());
    }

    #[test]
    fn member_that_is_not_measured_stays_as_it_was_until_it_is_gone() {
        let mut watch = ClockWatch::default();
        assert!(told(&mut watch, link(9_000, 1)).is_some());
        let silent = LinkStatus {
            clock: None,
            ..link(0, 0)
        };
        assert_eq!(told(&mut watch, silent), None);
        assert_eq!(told(&mut watch, link(9_000, 1)), None);
        assert_eq!(watch.look(&[]), []);
        assert!(told(&mut watch, link(9_000, 1)).is_some());
    }
}
