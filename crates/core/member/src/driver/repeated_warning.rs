//! States that are ordinary for a moment and need an operator when they last. A protocol that
//! repeats what it needs also repeats what is refused or missing. Each such state is logged once it
//! has lasted for a while, and then each minute until it is over.

use std::time::Duration;

use synod_consensus::Time;

/// A state is logged when it has lasted for this long.
const FIRST: Duration = Duration::from_secs(5);
/// A state that still lasts is logged again after this time.
const AGAIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub(super) struct Lasting {
    /// When the state was first seen; none: the state is over.
    since: Option<Time>,
    logged: Option<Time>,
}

impl Lasting {
    /// The state holds now. Answers how long it has lasted, if that is to be logged now.
    pub(super) fn holds(&mut self, now: Time) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        let due = self
            .logged
            .map_or(since.plus(FIRST), |logged| logged.plus(AGAIN));
        if now < due {
            return None;
        }
        self.logged = Some(now);
        Some(now.since(since))
    }

    pub(super) fn ends(&mut self) {
        *self = Lasting::default();
    }
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_logged_when_it_has_lasted_and_then_each_minute() {
        let mut lasting = Lasting::default();
        let at = |seconds| Time(7).plus(Duration::from_secs(seconds));
        let mut logged = Vec::new();
        for second in 0..130 {
            logged.extend(lasting.holds(at(second)).map(|lasted| lasted.as_secs()));
        }
        assert_eq!(logged, [5, 65, 125]);
        lasting.ends();
        assert_eq!(lasting.holds(at(130)), None);
        assert_eq!(lasting.holds(at(134)), None);
        assert_eq!(lasting.holds(at(135)), Some(Duration::from_secs(5)));
    }
}
