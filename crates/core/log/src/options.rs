//! The options of a log; only what the format cannot hold is refused here.

use std::time::Duration;

use synod_consensus::MemberId;

use crate::LogError;
use crate::files::Space;
use crate::format::segment::SEGMENT_HEADER_BYTES;

/// Largest payload of one entry, in bytes. The format's limit; the node's chunks are far smaller.
pub const PAYLOAD_BYTES_MAX: u32 = 64 << 20;

pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Largest allowed [`LogOptions::segment_bytes`]; offsets inside a segment fit 32 bits with room
/// for one oversized entry.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of a segment file in bytes, 64 KiB to 1 GiB; the segments of a member are up to an
    /// eighth smaller. An entry that does not fit gets a segment of its own size. Applies to
    /// segments made from now on.
    pub segment_bytes: u64,
    /// Bytes of payload kept in memory for readers. Zero: only entries not yet written.
    pub cache_bytes: u64,
    /// Log size in bytes above which the oldest segments are to be purged. Twice this size is the
    /// hard bound, see [`crate::LogWriter::retention_point`]. A log uses up to an eighth less, and
    /// at most an eighth of its file system.
    pub retain_bytes: u64,
    /// The hard bound is higher as long as at least this share of the file system is free, in
    /// percent. With 100 it never is.
    pub free_percent_min: u64,
    /// Segments whose newest entry is older than this are to be purged, at any size of the log.
    pub retain_age: Duration,
    pub tail_headers_max: usize,
}

impl Default for LogOptions {
    /// 64 MiB segments, 64 MiB cache, 4 GiB or 7 days retained, more while a quarter of the file
    /// system is free. Seven days: a member that was down
    /// over a long weekend still catches up from the log, if the size allows.
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            cache_bytes: 64 << 20,
            retain_bytes: 4 << 30,
            free_percent_min: 25,
            retain_age: Duration::from_secs(7 * 24 * 3600),
            tail_headers_max: 4096,
        }
    }
}

/// A log's target size is at most this part of its file system. At twice that, its hard bound, it
/// takes a quarter.
const FILE_SYSTEM_SHARE: u64 = 8;

impl LogOptions {
    /// `total` is the size of the file system; `None`: the option's value fits.
    pub(crate) fn retain_that_fits(&self, total: u64) -> Option<u64> {
        let most = total / FILE_SYSTEM_SHARE;
        (self.retain_bytes > most).then_some(most)
    }

    /// The size that a log of `size` bytes may have, so that the share of this option stays free.
    pub(crate) fn size_beside(&self, space: Space, size: u64) -> u64 {
        let free_min = u128::from(space.total) * u128::from(self.free_percent_min.min(100)) / 100;
        let free_min = u64::try_from(free_min).unwrap_or(u64::MAX);
        size.saturating_add(space.free).saturating_sub(free_min)
    }

    /// Differs between members by up to an eighth: their logs are equal, so with equal sizes and
    /// equal disks all disks would be full in the same minute.
    pub(crate) fn spread_retain_bytes(&self, member: MemberId) -> u64 {
        // Ids are random.
        self.retain_bytes - self.retain_bytes / 8 / 16 * (member.0 % 16)
    }

    /// Differs between members by up to an eighth: not all change segments at one entry.
    pub(crate) fn spread_segment_bytes(&self, member: MemberId) -> u64 {
        // Ids are random.
        let smaller = self.segment_bytes / 8 / 16 * (member.0 % 16);
        (self.segment_bytes - smaller).next_multiple_of(SEGMENT_HEADER_BYTES)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_equal_members_have_different_sizes() {
        let options = LogOptions::default();
        let size = |member| options.spread_retain_bytes(MemberId(member));
        assert_eq!(size(16), 4 << 30);
        let smallest = size(15);
        assert!(smallest >= (4 << 30) / 8 * 7, "{smallest}");
        assert!(smallest < size(14));
    }

    #[test]
    fn members_change_segments_at_different_entries() {
        let options = LogOptions::default();
        let size = |member| options.spread_segment_bytes(MemberId(member));
        assert_eq!(size(16), options.segment_bytes);
        assert!((0..15).all(|member| size(member + 1) < size(member)));
        assert!(size(15) >= options.segment_bytes / 8 * 7);
    }

    #[test]
    fn share_of_the_file_system_stays_free() {
        let with = |free_percent_min| LogOptions {
            free_percent_min,
            ..LogOptions::default()
        };
        let space = |free| Space { total: 1000, free };
        assert_eq!(with(25).size_beside(space(500), 100), 350);
        assert_eq!(with(25).size_beside(space(250), 350), 350);
        assert_eq!(with(25).size_beside(space(100), 100), 0, "others need it");
        assert_eq!(with(100).size_beside(space(900), 100), 0);
        assert_eq!(with(0).size_beside(space(500), 100), 600);
    }

    #[test]
    fn log_takes_at_most_a_quarter_of_its_file_system() {
        let options = LogOptions::default();
        assert_eq!(options.retain_that_fits(32 << 30), None);
        assert_eq!(options.retain_that_fits(16 << 30), Some(2 << 30));
    }
}
