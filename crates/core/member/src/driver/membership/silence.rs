//! Time for which members have been silent, as far as this leader knows. What follows from a long
//! silence (a voter loses its vote, a learner is forgotten) is rare and can wait: so silence counts
//! from when this leader came to lead at the earliest, and from the start after this process itself
//! stood still.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{MemberId, Time};

#[derive(Default)]
pub(in crate::driver) struct Silence {
    since: BTreeMap<MemberId, Time>,
    last_look: Option<Time>,
}

impl Silence {
    pub(in crate::driver) fn begin(&mut self) {
        self.since.clear();
        self.last_look = None;
    }

    pub(in crate::driver) fn heard(&mut self, now: Time, member: MemberId) {
        if let Some(since) = self.since.get_mut(&member) {
            *since = now;
        }
    }

    /// Looks at the configured members, periodically. After a pause of more than `pause_max` this
    /// process stood still: messages may wait to be handled, so no member counts as silent.
    pub(super) fn look(
        &mut self,
        now: Time,
        configured: impl Iterator<Item = MemberId>,
        pause_max: Duration,
    ) {
        let last_look = self.last_look.replace(now);
        let stood_still = last_look.is_some_and(|at| now.since(at) > pause_max);
        let former = std::mem::take(&mut self.since);
        self.since = configured
            .map(|id| {
                (
                    id,
                    former
                        .get(&id)
                        .copied()
                        .filter(|_| !stood_still)
                        .unwrap_or(now),
                )
            })
            .collect();
    }

    pub(super) fn of(&self, now: Time, member: MemberId) -> Duration {
        let since = self.since.get(&member);
        since.map_or(Duration::ZERO, |since| now.since(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MemberId = MemberId(1);
    const PAUSE_MAX: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Time {
        Time(7).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn silence_counts_from_the_first_look_and_from_the_last_message() {
        let mut silence = Silence::default();
        silence.heard(at(0), ONE);
        assert_eq!(silence.of(at(9), ONE), Duration::ZERO, "never looked");
        silence.look(at(10), [ONE].into_iter(), PAUSE_MAX);
        assert_eq!(silence.of(at(13), ONE), Duration::from_secs(3));
        silence.heard(at(14), ONE);
        silence.look(at(15), [ONE].into_iter(), PAUSE_MAX);
        assert_eq!(silence.of(at(16), ONE), Duration::from_secs(2));
        silence.begin();
        assert_eq!(silence.of(at(17), ONE), Duration::ZERO);
    }

    #[test]
    fn no_member_is_silent_after_this_process_stood_still() {
        let mut silence = Silence::default();
        silence.look(at(0), [ONE].into_iter(), PAUSE_MAX);
        silence.look(at(5), [ONE].into_iter(), PAUSE_MAX);
        assert_eq!(silence.of(at(5), ONE), Duration::from_secs(5));
        silence.look(at(11), [ONE].into_iter(), PAUSE_MAX);
        assert_eq!(silence.of(at(11), ONE), Duration::ZERO);
    }
}
