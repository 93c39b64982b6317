//! Settings of a node from options: those that a server and a logger make in the same way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use synod_node::{
    CommitRegions, CommitWait, CompressionChoice, DatabasePosition, FullLogPolicy,
    InconsistencyPolicy, LeaderPlacement, LeaderPreference, LeaderWeight, Limits, LogOptions,
    MemberConfig, NodeConfig, OUR_VERSIONS, Region, Setting, Timing, VoterPolicy, Writers,
};

use super::key::Key;
use super::table::SPECS;
use super::value::Value;
use super::{Options, OptionsError, key};

/// Longest election timeout. A lost leader is replaced after this time at the earliest.
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Shortest bound of `synod.max_staleness`: answers take about half of it within a site.
const STALENESS_MIN: Duration = Duration::from_millis(1);

/// A duration of the protocol that operators can set. The defaults are [`Timing::default`]'s, so
/// that one constant decides, and `docs/options.md` follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
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

/// A host's own part of the configuration of its node, which no option says.
#[derive(Clone, Debug)]
pub struct HostFacts {
    pub name: String,
    pub cluster_name: String,
    /// `host:port` at which peers reach this member.
    pub address: String,
    /// `host:port` for clients, shown to operators.
    pub incoming: String,
    /// Addresses of members, `host:port`.
    pub seeds: Vec<String>,
    pub log_dir: PathBuf,
    pub has_data: bool,
    pub database: DatabasePosition,
    /// How often the database flushes what it has applied.
    pub flush_period: Duration,
}

impl Options {
    pub fn node_config(&self, host: HostFacts) -> NodeConfig {
        NodeConfig {
            member: MemberConfig {
                name: host.name,
                cluster_name: host.cluster_name,
                address: host.address,
                incoming: host.incoming,
                timing: self.timing(),
                limits: Limits::default(),
                suspect: self.duration(key::EVS_SUSPECT_TIMEOUT),
                keeps_log_only: false,
                apply_lag_max: self.duration(key::MAX_APPLY_LAG),
                certification_span: self.unsigned(key::CERTIFICATION_SPAN),
                has_data: host.has_data,
                region: self.region(),
                wants_vote: self.bool(key::VOTER),
                voter_policy: self.voter_policy(),
                database: host.database,
                versions: OUR_VERSIONS,
                certificate: None,
            },
            listen: self.listen_address().to_string(),
            seeds: host.seeds,
            log_dir: host.log_dir,
            log: self.log_options(),
            chunk_bytes: self.size(key::CHUNK_SIZE),
            pending_bytes: self.size(key::MAX_PENDING_SIZE),
            compression: self.compression(),
            tls: self.tls(),
            flush_period: host.flush_period,
        }
    }

    pub fn log_dir(&self, data_dir: &Path) -> PathBuf {
        match self.text(key::LOG_DIR) {
            "" => data_dir.to_owned(),
            dir => PathBuf::from(dir),
        }
    }

    pub fn log_options(&self) -> LogOptions {
        LogOptions {
            segment_bytes: self.unsigned(key::LOG_SEGMENT_SIZE),
            cache_bytes: self.unsigned(key::LOG_CACHE_SIZE),
            retain_bytes: self.unsigned(key::LOG_RETAIN_SIZE),
            free_percent_min: self.unsigned(key::LOG_MIN_FREE),
            retain_age: self.duration(key::LOG_RETAIN_AGE),
            ..LogOptions::default()
        }
    }

    pub fn compression(&self) -> CompressionChoice {
        match self.word(key::COMPRESSION) {
            "always" => CompressionChoice::Always,
            "never" => CompressionChoice::Never,
            _ => CompressionChoice::Auto,
        }
    }

    /// Policy of a leader whose log is full of actions that too few databases have.
    pub fn full_log_policy(&self) -> FullLogPolicy {
        match self.word(key::LOG_FULL) {
            "drop" => FullLogPolicy::Drop,
            _ => FullLogPolicy::Wait,
        }
    }

    /// Rule by which a leader counts the outcomes of an action that has failed on some server.
    pub fn inconsistency_policy(&self) -> InconsistencyPolicy {
        match self.unsigned(key::GCS_VOTE_POLICY) {
            0 => InconsistencyPolicy::MostFrequent,
            enough => InconsistencyPolicy::SuccessOf(u32::try_from(enough).unwrap_or(u32::MAX)),
        }
    }

    pub fn leader_preference(&self) -> LeaderPreference {
        let weight = u8::try_from(self.int(key::LEADER_WEIGHT)).ok();
        LeaderPreference {
            // The table has the same bounds.
            weight: weight.and_then(LeaderWeight::new).unwrap_or_default(),
            hands_over: self.bool(key::LEADER_HANDOVER),
        }
    }

    pub fn leader_placement(&self) -> LeaderPlacement {
        match self.word(key::LEADER) {
            "follow-writers" => LeaderPlacement::FollowWriters,
            _ => LeaderPlacement::Stay,
        }
    }

    pub fn voter_policy(&self) -> VoterPolicy {
        VoterPolicy {
            // The table's bounds are those of a group.
            wanted: usize::try_from(self.int(key::VOTERS_WANTED)).unwrap_or(0),
            dead_after: self.duration(key::DEAD_VOTER_AFTER),
        }
    }

    pub fn region(&self) -> Option<Region> {
        match self.value(key::REGION) {
            Value::Region(region) => region.clone(),
            other => unreachable!("a region option holds {other:?}"),
        }
    }

    pub fn commit_wait(&self) -> CommitWait {
        match self.word(key::COMMIT_WAIT) {
            "applied" => CommitWait::Applied,
            _ => CommitWait::Durable,
        }
    }

    pub fn writers(&self) -> Writers {
        writers_of(self.word(key::WRITERS))
    }

    pub fn commit_regions(&self) -> CommitRegions {
        commit_regions_of(self.int(key::COMMIT_REGIONS))
    }

    /// For how long commits wait for a region; `None`: without end.
    pub fn region_patience(&self) -> Option<Duration> {
        let limit = self.duration(key::COMMIT_REGIONS_TIMEOUT);
        (!limit.is_zero()).then_some(limit)
    }

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

    /// With less than [`STALENESS_MIN`], no answer would come in time.
    pub(crate) fn check_staleness(&self) -> Result<(), OptionsError> {
        let bound = self.duration(key::MAX_STALENESS);
        if bound.is_zero() || bound >= STALENESS_MIN {
            return Ok(());
        }
        Err(OptionsError::BadValue {
            name: SPECS[key::MAX_STALENESS.index()].name,
            value: self.slots[key::MAX_STALENESS.index()].text.clone(),
            reason: "it must be PT0S, or at least 1ms: the leader and a majority have to answer \
                     within half of it"
                .to_owned(),
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

pub(super) fn commit_regions_of(number: i64) -> CommitRegions {
    // The table has the same bounds.
    let number = u8::try_from(number).ok();
    number.and_then(CommitRegions::new).unwrap_or_default()
}

pub(super) fn writers_of(word: &str) -> Writers {
    match word {
        "leader" => Writers::Leader,
        _ => Writers::Any,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The host's names, in log lines, of the settings that are no options there.
#[derive(Clone, Copy, Debug)]
pub struct HostNames {
    pub member_name: &'static str,
    pub member_address: &'static str,
    pub group_address: &'static str,
    /// A server has other options for it than a logger.
    pub listen_address: &'static str,
}

impl HostNames {
    /// Name of a setting for the host's operators; two names are joined by " or ".
    pub fn name_of(&self, setting: Setting) -> &'static str {
        match setting {
            Setting::MemberName => self.member_name,
            Setting::MemberAddress => self.member_address,
            Setting::GroupAddress => self.group_address,
            Setting::ListenAddress => self.listen_address,
            Setting::LogDirectory => "synod.log_dir",
            Setting::LogRetainSize => "synod.log_retain_size",
            Setting::LogMinFree => "synod.log_min_free",
            Setting::LogFull => "synod.log_full",
            Setting::Region => "synod.region",
            Setting::CommitRegions => "synod.commit_regions",
            Setting::CommitRegionsTimeout => "synod.commit_regions_timeout",
            Setting::Encryption => "synod.secret_file or socket.ssl",
            Setting::AcceptUnencrypted => "socket.dynamic",
        }
    }
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
