//! Settings of a node from options: those that a server and a logger make in the same way.

use synod_node::{CompressionChoice, FullLogPolicy, InconsistencyPolicy, LogOptions};

use super::{Options, key};

impl Options {
    /// Sizes and bounds of the log.
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

    /// Compression of messages to other members.
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
}
