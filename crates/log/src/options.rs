//! The options of a log, with their defaults and bounds.
//!
//! The host maps its own settings to these; only what the format cannot hold is refused here.

use std::time::Duration;

use crate::LogError;

/// Largest payload of one entry, in bytes. The format's limit; the node's chunks are far smaller.
pub const PAYLOAD_BYTES_MAX: u32 = 64 << 20;

/// Smallest allowed [`LogOptions::segment_bytes`].
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Largest allowed [`LogOptions::segment_bytes`]; offsets inside a segment fit 32 bits with room
/// for one oversized entry.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Sizes and bounds of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of a segment file in bytes, 64 KiB to 1 GiB. An entry that does not fit gets a segment
    /// of its own size. Applies to segments made from now on.
    pub segment_bytes: u64,
    /// Bytes of payload kept in memory for readers. Zero keeps only entries that are not yet
    /// written.
    pub cache_bytes: u64,
    /// Log size in bytes above which the oldest segments are to be purged. Twice this size is the
    /// hard bound, see [`crate::LogWriter::retention_point`].
    pub retain_bytes: u64,
    /// Segments whose newest entry is older than this are to be purged, at any size of the log.
    pub retain_age: Duration,
    /// How many of the newest headers recovery returns.
    pub tail_headers_max: usize,
}

impl Default for LogOptions {
    /// 64 MiB segments, 64 MiB cache, 4 GiB or 7 days retained. Seven days: a member that was down
    /// over a long weekend still catches up from the log, if the size allows.
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            retain_bytes: 4 << 30,
            retain_age: Duration::from_secs(7 * 24 * 3600),
            tail_headers_max: 4096,
        }
    }
}

impl LogOptions {
    /// Refuses values the format cannot hold.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            return Err(LogError::Option {
                name: "segment_bytes",
                found: self.segment_bytes,
                min: SEGMENT_BYTES_MIN,
                max: SEGMENT_BYTES_MAX,
            });
        }
        if self.tail_headers_max == 0 {
            return Err(LogError::Option {
                name: "tail_headers_max",
                found: 0,
                min: 1,
                max: u64::MAX,
            });
        }
        Ok(())
    }
}
