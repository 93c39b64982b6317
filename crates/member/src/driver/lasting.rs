//! States that are ordinary for a moment and need an operator when they last.
//!
//! A protocol that repeats what it needs also repeats what is refused or missing. Each such state
//! is told once it has lasted for a while, and then from time to time as long as it lasts.

use std::time::Duration;

use synod_consensus::Time;

/// A state is told when it has lasted for this long.
const FIRST: Duration = Duration::from_secs(5);
/// It is told again after this long.
const AGAIN: Duration = Duration::from_secs(60);

/// How long a state has lasted, and when that was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Lasting {
    /// When it was first seen; none: it is over.
    since: Option<Time>,
    /// When it was last told.
    told: Option<Time>,
}

impl Lasting {
    /// It is so now. Answers how long it has lasted, if that is to be told now.
    pub(super) fn holds(&mut self, now: Time) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        let due = self.told.map_or(since.plus(FIRST), |told| told.plus(AGAIN));
        if now < due {
            return None;
        }
        self.told = Some(now);
        Some(now.since(since))
    }

    /// It is over.
    pub(super) fn ends(&mut self) {
        *self = Lasting::default();
    }
}

/// The duration as log lines say it.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_told_when_it_has_lasted_and_then_each_minute() {
        let mut lasting = Lasting::default();
        let at = |seconds| Time(7).plus(Duration::from_secs(seconds));
        let mut told = Vec::new();
        for second in 0..130 {
            told.extend(lasting.holds(at(second)).map(|lasted| lasted.as_secs()));
        }
        assert_eq!(told, [5, 65, 125]);
        lasting.ends();
        assert_eq!(lasting.holds(at(130)), None);
        assert_eq!(lasting.holds(at(134)), None);
        assert_eq!(lasting.holds(at(135)), Some(Duration::from_secs(5)));
    }
}
