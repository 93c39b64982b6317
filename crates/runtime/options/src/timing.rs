//! The options about time in the protocol. Their defaults are [`Timing::default`]'s, so that one
//! constant decides, and `docs/options.md` follows it.

use std::time::Duration;

use synod_node::Timing;

use super::table::SPECS;
use super::{Options, OptionsError, key};
use crate::key::Key;

/// Longest election timeout. A lost leader is replaced after this time at the earliest.
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// A duration of the protocol that operators can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Time between a leader's heartbeats.
    Heartbeat,
    /// Shortest silence after which a member becomes a candidate.
    ElectionTimeout,
}

impl Period {
    /// The protocol's default, as operators write durations: `PT1.5S`.
    pub fn default_text(self) -> String {
        let timing = Timing::default();
        let micros = match self {
            Period::Heartbeat => timing.heartbeat_us,
            Period::ElectionTimeout => timing.election_timeout_min_us,
        };
        format!("PT{}S", Duration::from_micros(micros).as_secs_f64())
    }
}

impl Options {
    /// The protocol's periods. A promise keeps its default ratio to the heartbeat, and the longest
    /// election timeout to the shortest.
    pub fn timing(&self) -> Timing {
        let default = Timing::default();
        let heartbeat_us = micros(self.duration(key::HEARTBEAT_PERIOD));
        let shortest = micros(self.duration(key::ELECTION_TIMEOUT));
        let ratio = default.election_timeout_max_us / default.election_timeout_min_us;
        Timing {
            heartbeat_us,
            promise_us: heartbeat_us.saturating_mul(default.promise_us / default.heartbeat_us),
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

    /// A promise, which is four heartbeats, must end before another member may become leader.
    pub(crate) fn check_timing(&self) -> Result<(), OptionsError> {
        let timing = self.timing();
        if timing.heartbeat_us > 0 && timing.promise_us < timing.election_timeout_min_us {
            return Ok(());
        }
        Err(OptionsError::BadValue {
            name: SPECS[key::HEARTBEAT_PERIOD.index()].name,
            value: self.slots[key::HEARTBEAT_PERIOD.index()].text.clone(),
            reason: "it must be above zero, and shorter than a quarter of synod.election_timeout"
                .to_owned(),
        })
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
