//! Pauses before another attempt, to connect to an upstream or to read the log; and the patience of
//! a leader that cannot pull, before it lets another relay try.
//!
//! Much that keeps one relay from the upstream does not keep the others: a wrong password in its
//! file, a firewall, a lack of file descriptors. The group's own connections are as ever then, so
//! nothing but this makes the relay give leadership up. A dead upstream looks the same to each of
//! the relays, so the patience of one grows with each turn in which nothing came.

use std::time::{Duration, Instant};

use synod_node::{MemberId, MemberStatus};

/// Patience of a relay that has pulled since it last gave up leadership.
const FIRST: Duration = Duration::from_secs(10);
/// First patience of a relay that has not: it bounds how fast leadership rotates.
const FRUITLESS: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(16 * 60);

#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    /// Time of the first failure since something came, or since the turn began.
    failing_since: Option<Instant>,
    /// Turns given up, or offered in vain, since something came.
    offers: usize,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience {
            limit: FRUITLESS,
            failing_since: None,
            offers: 0,
        }
    }

    /// A turn begins, or nothing is to be pulled.
    pub(crate) fn rest(&mut self) {
        self.failing_since = None;
    }

    /// The upstream has sent what shows that it can be followed.
    pub(crate) fn has_pulled(&mut self) {
        *self = Patience {
            limit: FIRST,
            failing_since: None,
            offers: 0,
        };
    }

    /// An attempt has failed: for how long none has worked, if another relay is to try now.
    pub(crate) fn has_ended(&mut self, now: Instant) -> Option<Duration> {
        let since = *self.failing_since.get_or_insert(now);
        let failing = now.saturating_duration_since(since);
        (failing >= self.limit).then_some(failing)
    }

    /// Leadership is offered to another relay: which one of those that could take it.
    pub(crate) fn offer<'a>(
        &mut self,
        me: MemberId,
        members: &'a [MemberStatus],
    ) -> Option<&'a MemberStatus> {
        let to = successor(me, members, self.offers)?;
        self.offers += 1;
        self.failing_since = None;
        self.limit = match self.limit {
            FIRST => FRUITLESS,
            longer => (longer * 2).min(LONGEST),
        };
        Some(to)
    }
}

/// The voter that comes after this one among those that answer, so that each gets its turn. `turn`
/// counts how often it was asked: one that does not take over is passed by the next time.
fn successor(me: MemberId, members: &[MemberStatus], turn: usize) -> Option<&MemberStatus> {
    // The weight of a member that has not answered lately is not known.
    let can_lead = |member: &&MemberStatus| {
        member.voter && member.leader_weight.is_some() && member.member != me
    };
    let mut others: Vec<&MemberStatus> = members.iter().filter(can_lead).collect();
    others.sort_by_key(|member| (member.member < me, member.member));
    (!others.is_empty()).then(|| others[turn % others.len()])
}

const SHORTEST: Duration = Duration::from_millis(500);
/// The longest pause after what may pass by itself.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause after what an operator has to correct.
const LONGEST_BEFORE_OPERATOR: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff(SHORTEST)
    }

    pub(crate) fn reset(&mut self) {
        self.0 = SHORTEST;
    }

    /// The pause before the next attempt. `may_pass`: what was wrong may pass by itself.
    pub(crate) fn next(&mut self, may_pass: bool) -> Duration {
        let longest = if may_pass {
            LONGEST_PAUSE
        } else {
            LONGEST_BEFORE_OPERATOR
        };
        let pause = self.0.min(longest);
        self.0 = pause * 2;
        pause
    }
}

#[cfg(test)]
mod tests {
    use synod_node::LeaderWeight;

    use super::*;

    fn relay(id: u64, answers: bool) -> MemberStatus {
        MemberStatus {
            member: MemberId(id),
            session: None,
            name: format!("relay{id}"),
            address: String::new(),
            voter: true,
            has_data: false,
            leader_weight: answers.then(LeaderWeight::default),
            region: None,
            versions: synod_node::OUR_VERSIONS,
        }
    }

    /// Three relays that are asked in turn by whichever leads, with nothing that can be pulled.
    #[test]
    fn relays_of_a_dead_upstream_pass_leadership_on_once_a_minute_at_most() {
        let members = [1, 2, 3].map(|id| relay(id, true));
        let mut patience = [(); 3].map(|()| Patience::new());
        patience[0].has_pulled();
        let (mut leader, mut now) = (0, Instant::now());
        let mut turns = Vec::new();
        for _ in 0..12 {
            let begun = now;
            patience[leader].rest();
            while patience[leader].has_ended(now).is_none() {
                now += Duration::from_secs(5);
            }
            turns.push((leader, (now - begun).as_secs()));
            let to = patience[leader].offer(MemberId(leader as u64 + 1), &members);
            leader = to.unwrap().member.0 as usize - 1;
        }
        assert_eq!(turns[..4], [(0, 10), (1, 60), (2, 60), (0, 60)]);
        assert!(turns[1..].iter().all(|(_, seconds)| *seconds >= 60));
        let longest = turns.iter().map(|(_, seconds)| *seconds).max();
        assert_eq!(longest, Some(480), "{turns:?}");
        for relay in 0..3 {
            assert!(turns.iter().any(|(leader, _)| *leader == relay));
        }
    }

    #[test]
    fn what_comes_restores_the_first_patience() {
        let members = [relay(1, true), relay(2, true)];
        let (mut patience, now) = (Patience::new(), Instant::now());
        patience.has_ended(now);
        assert!(patience.has_ended(now + FRUITLESS).is_some());
        patience.offer(MemberId(1), &members);
        patience.has_pulled();
        assert!(patience.has_ended(now).is_none());
        assert!(patience.has_ended(now + FIRST / 2).is_none());
        assert_eq!(patience.has_ended(now + FIRST), Some(FIRST));
    }

    #[test]
    fn relay_that_does_not_answer_or_does_not_take_over_is_passed_by() {
        let members = [
            relay(1, true),
            relay(2, false),
            relay(3, true),
            relay(4, true),
        ];
        let mut patience = Patience::new();
        let mut offered = || patience.offer(MemberId(1), &members).unwrap().member.0;
        assert_eq!([offered(), offered(), offered()], [3, 4, 3]);
        let mut alone = Patience::new();
        assert!(alone.offer(MemberId(2), &members[1..2]).is_none());
        assert_eq!(alone.limit, FRUITLESS, "nothing was offered");
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = (0..6).map(|_| backoff.next(true).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(backoff.next(false), Duration::from_secs(10));
        backoff.reset();
        assert_eq!(backoff.next(false), SHORTEST);
    }
}
