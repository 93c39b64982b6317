//! The options about time in the protocol. Their defaults are [`Timing::default`]'s, so that one
//! constant decides, and `docs/options.md` follows it.

use std::time::Duration;

use synod_node::Timing;

use super::table::SPECS;
use super::{Options, OptionsError, key};
use crate::key::{DurationKey, Key};

/// Longest election timeout. A lost leader is replaced after this time at the earliest.
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// A duration of the protocol that operators can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Time between a leader's heartbeats.
    Heartbeat,
    /// Time for which a leader may answer reads by the promises of a majority; zero: never.
    Lease,
    /// Time for which a member that has heard a leader votes for no other.
    Promise,
    /// Shortest silence after which a member becomes a candidate.
    ElectionTimeout,
}

impl Period {
    /// The protocol's default, as operators write durations: `PT1.5S`.
    pub fn default_text(self) -> String {
        let timing = Timing::default();
        let micros = match self {
            Period::Heartbeat => timing.heartbeat_us,
            Period::Lease => timing.lease_us,
            Period::Promise => timing.promise_us,
            Period::ElectionTimeout => timing.election_timeout_min_us,
        };
        format!("PT{}S", Duration::from_micros(micros).as_secs_f64())
    }
}

impl Options {
    /// The protocol's periods. The longest election timeout keeps its default ratio to the
    /// shortest.
    pub fn timing(&self) -> Timing {
        let default = Timing::default();
        let shortest = micros(self.duration(key::ELECTION_TIMEOUT));
        let ratio = default.election_timeout_max_us / default.election_timeout_min_us;
        Timing {
            heartbeat_us: micros(self.duration(key::HEARTBEAT_PERIOD)),
            promise_us: micros(self.duration(key::PROMISE)),
            lease_us: micros(self.duration(key::LEASE)),
            election_timeout_min_us: shortest,
            election_timeout_max_us: shortest.saturating_mul(ratio),
            ..default
        }
    }

    /// A group whose members wait longer than [`ELECTION_TIMEOUT_MAX`] never replaces a leader.
    pub(crate) fn check_election_timeout(&self) -> Result<(), OptionsError> {
        if self.duration(key::ELECTION_TIMEOUT) <= ELECTION_TIMEOUT_MAX {
            return Ok(());
        }
        Err(OptionsError::BadValue {
            name: SPECS[key::ELECTION_TIMEOUT.index()].name,
            value: self.slots[key::ELECTION_TIMEOUT.index()].text.clone(),
            reason: "it must be at most PT1H".to_owned(),
        })
    }

    /// A promise must outlive a heartbeat, and end before another member may become leader. A lease
    /// rests on promises, so it is no longer; shorter than a heartbeat it would always be over.
    pub(crate) fn check_timing(&self) -> Result<(), OptionsError> {
        let heartbeat = self.duration(key::HEARTBEAT_PERIOD);
        let (promise, lease) = (self.duration(key::PROMISE), self.duration(key::LEASE));
        if heartbeat.is_zero()
            || promise <= heartbeat
            || promise >= self.duration(key::ELECTION_TIMEOUT)
        {
            return Err(self.bad_period(
                key::PROMISE,
                "it must be longer than synod.heartbeat_period (above zero) and shorter than \
                 synod.election_timeout"
                    .to_owned(),
            ));
        }
        let longest = Duration::from_micros(Timing::default().lease_max_us);
        if lease.is_zero() || heartbeat < lease && lease <= promise && lease <= longest {
            return Ok(());
        }
        let reason = format!(
            "it must be zero (no lease), or longer than synod.heartbeat_period and at most \
             synod.promise and PT{}S",
            longest.as_secs_f64()
        );
        Err(self.bad_period(key::LEASE, reason))
    }

    fn bad_period(&self, key: DurationKey, reason: String) -> OptionsError {
        OptionsError::BadValue {
            name: SPECS[key.index()].name,
            value: self.slots[key.index()].text.clone(),
            reason,
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Defaults;

    #[test]
    fn options_and_protocol_have_the_same_defaults() {
        let (options, _) = Options::new(Defaults::default(), "").unwrap();
        assert_eq!(options.timing(), Timing::default());
    }

    #[test]
    fn defaults_are_written_as_operators_write_durations() {
        assert_eq!(Period::Heartbeat.default_text(), "PT0.1S");
        assert_eq!(Period::Lease.default_text(), "PT0S");
        assert_eq!(Period::ElectionTimeout.default_text(), "PT1.5S");
    }

    #[test]
    fn election_timeout_that_never_ends_is_refused() {
        let set = |value| Options::new(Defaults::default(), value);
        assert!(set("synod.election_timeout=PT1H").is_ok());
        let error = set("synod.election_timeout=PT18446744073709551615S").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("synod.election_timeout"), "{text}");
    }

    #[test]
    fn longest_election_timeout_follows_the_shortest() {
        let (options, _) =
            Options::new(Defaults::default(), "synod.election_timeout=PT5S").unwrap();
        assert_eq!(options.timing().election_timeout_max_us, 10_000_000);
    }
}
