//! Pings: every second each connected member is asked how far away it is, and what its clock shows.
//!
//! Both are for operators only: nothing that this member decides depends on them. The thread that
//! reads a ping answers it, without the driver, as far as the socket takes the answer at once.
//! Pings are of the control lane, and small.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use synod_consensus::MemberId;
use synod_member::lock;
use synod_wire::{Lane, PeerMessage};

use super::Transport;
use super::link::Link;
use super::link_times::{ClockOffset, LinkTimes};
use crate::clock::Clock;

/// The link to another member, as this one has measured it.
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
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Pings {
    /// None yet. This wall clock is compared with those of others.
    pub(super) fn new(wall_clock: fn() -> u64) -> Pings {
        Pings {
            clock: Clock::start(),
            wall_clock,
            links: Mutex::default(),
            is_over: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Pings of a member whose answers are waited for.
    #[cfg(test)]
    pub(super) fn awaited(&self, member: MemberId) -> usize {
        lock(&self.links).get(&member).map_or(0, LinkTimes::awaited)
    }

    /// Ends the wait for the next round, now and later.
    pub(super) fn end(&self) {
        *lock(&self.is_over) = true;
        self.ended.notify_all();
    }
}

impl Transport {
    /// Waits between two rounds of pings. False once the transport stops.
    pub(crate) fn wait_to_ping(&self, pause: Duration) -> bool {
        let (pings, is_over) = (&self.pings, lock(&self.pings.is_over));
        let waited = pings
            .ended
            .wait_timeout_while(is_over, pause, |is_over| !*is_over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Pings the members that the driver knows and that are connected.
    pub(crate) fn ping_all(&self) {
        let links = self.known_links();
        let is_called = |member: &MemberId| links.iter().any(|link| link.member() == *member);
        lock(&self.pings.links).retain(|member, _| is_called(member));
        for link in &links {
            let Some((_, session, version)) = link.lane(Lane::Control).connection() else {
                continue;
            };
            // Not even counted as under way where it cannot be sent.
            if (PeerMessage::Ping { number: 0 }).is_carried_by(version) {
                let now = self.pings.clock.now();
                let mut times = lock(&self.pings.links);
                let number = times.entry(link.member()).or_default().ping(now, session);
                drop(times);
                self.send_at_once(link.member(), PeerMessage::Ping { number });
            }
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

    /// A ping was answered.
    pub(super) fn ping_answered(&self, by: MemberId, number: u64, peer_wall_us: u64) {
        // First the clock that is compared: if this thread has to wait between the two, that makes
        // the round trip longer, and with it the error that is stated.
        let wall_us = (self.pings.wall_clock)();
        let now = self.pings.clock.now();
        if let Some(times) = lock(&self.pings.links).get_mut(&by) {
            times.answered(now, wall_us, number, peer_wall_us);
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
