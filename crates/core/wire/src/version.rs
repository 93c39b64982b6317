//! Versions of the encoding, agreed per connection. The group's version is another matter: it is
//! part of the configuration in the log, and `synod-consensus` raises it.

use synod_consensus::VersionRange;

/// The version of the first release. No program speaks the four before it any more.
const OLDEST: u16 = 5;

/// The version after that: its reports end with [`NEXT_MARK`]. It is there for tests of upgrades
/// only, with the feature `next-version`.
pub(crate) const VERSION_NEXT: u16 = OLDEST + 1;

/// The last byte of a report since [`VERSION_NEXT`].
pub(crate) const NEXT_MARK: u8 = 0x4e;

const NEWEST: u16 = if cfg!(feature = "next-version") {
    VERSION_NEXT
} else {
    OLDEST
};

pub const OUR_VERSIONS: VersionRange = VersionRange {
    min: OLDEST,
    max: NEWEST,
};

pub fn choose_version(ours: VersionRange, theirs: VersionRange) -> Option<u16> {
    let version = ours.max.min(theirs.max);
    (ours.contains(version) && theirs.contains(version)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_common_version_is_chosen() {
        let range = |min, max| VersionRange { min, max };
        let table = [
            (range(1, 1), range(1, 1), Some(1)),
            (range(1, 3), range(2, 5), Some(3)),
            (range(2, 5), range(1, 3), Some(3)),
            (range(1, 2), range(3, 4), None),
            (range(3, 4), range(1, 2), None),
            (range(1, 4), range(4, 2), None),
        ];
        for (ours, theirs, expected) in table {
            assert_eq!(
                choose_version(ours, theirs),
                expected,
                "{ours:?} and {theirs:?}"
            );
        }
    }
}
