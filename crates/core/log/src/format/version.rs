//! Versions of the disk format. A program reads a range of formats. It writes the oldest one that
//! it can, until the group speaks a protocol version that goes with a newer one: no program that
//! does not read that format can be a member from then on. So the old program can continue the log
//! of a new one until the group's protocol version rises. The format in which a log is written is
//! that of its control file. Each segment has the one that was written when it was made. It never
//! goes down.

use std::fmt;
use std::ops::RangeInclusive;

/// The disk format of the first release, and of a log whose group is not known to speak a protocol
/// version with a newer one.
const FIRST: u32 = 3;
/// The disk format of the next version: [`NEXT_MARK`] in segments and control file. It is there for
/// tests of upgrades only, with the feature `next-version`.
const NEXT: u32 = 4;
const NEWEST: u32 = if cfg!(feature = "next-version") {
    NEXT
} else {
    FIRST
};
pub(crate) const FORMATS: RangeInclusive<u32> = FIRST..=NEWEST;

/// Formats by the group's protocol version from which on they are written, ascending.
const WRITTEN_SINCE: [(u16, u32); 2] = [(1, FIRST), (6, NEXT)];

/// Mark that format 4 has and format 3 has not.
pub(crate) const NEXT_MARK: &[u8; 4] = b"NEXT";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogFormat(u32);

impl Default for LogFormat {
    fn default() -> LogFormat {
        LogFormat(FIRST)
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl LogFormat {
    /// The format in which members write their logs when their group is known to speak this
    /// protocol version, and cannot go back.
    pub fn of_group(protocol: u16) -> LogFormat {
        let written = WRITTEN_SINCE.iter().rev();
        let format = written
            .clone()
            .find(|(since, _)| *since <= protocol)
            .map_or(FIRST, |(_, format)| *format);
        LogFormat(format.min(NEWEST))
    }

    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn read(number: u32) -> Option<LogFormat> {
        FORMATS.contains(&number).then_some(LogFormat(number))
    }

    pub(crate) fn has_next_mark(self) -> bool {
        self.0 >= NEXT
    }

    /// The checksum of a header or a control file: of the version, and of what follows behind it.
    pub(crate) fn checksum(self, rest: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.0.to_le_bytes()), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_follows_the_protocol_version_as_far_as_the_program_knows() {
        for protocol in 0..=5 {
            assert_eq!(LogFormat::of_group(protocol), LogFormat(FIRST));
        }
        for protocol in [6, 7, u16::MAX] {
            assert_eq!(LogFormat::of_group(protocol), LogFormat(NEWEST));
        }
    }

    #[test]
    fn older_and_newer_formats_are_not_read() {
        assert_eq!(LogFormat::read(FIRST - 1), None);
        assert_eq!(LogFormat::read(FIRST), Some(LogFormat(FIRST)));
        assert_eq!(LogFormat::read(NEWEST + 1), None);
    }
}
