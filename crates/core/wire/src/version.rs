//! Versions of the encoding, agreed per connection. The group's version is another matter: it is
//! part of the configuration in the log, and `synod-consensus` raises it.

use synod_consensus::{VersionRange, WRITERS_SINCE};

/// First version whose configurations name certificates, and whose heartbeat replies promise.
pub(crate) const VERSION_2: u16 = 2;

/// First version whose frames may be compressed, with commit notices, with appends that leave out
/// payloads, in which members say how far their databases are, and the leader at which pace it
/// admits actions.
pub(crate) const VERSION_3: u16 = 3;

/// First version in which members tell others than the leader how far their databases are.
const VERSION_4: u16 = 4;

/// First version in which members pass on what operators order, and whose configurations say whose
/// writes the group takes and whether its version is held.
pub(crate) const VERSION_5: u16 = WRITERS_SINCE;

/// The version after that: its reports end with [`NEXT_MARK`]. It is there for tests of upgrades
/// only, with the feature `next-version`.
pub(crate) const VERSION_NEXT: u16 = VERSION_5 + 1;

/// The last byte of a report since [`VERSION_NEXT`].
pub(crate) const NEXT_MARK: u8 = 0x4e;

const NEWEST: u16 = if cfg!(feature = "next-version") {
    VERSION_NEXT
} else {
    VERSION_5
};

pub const OUR_VERSIONS: VersionRange = VersionRange {
    min: 1,
    max: NEWEST,
};

pub fn may_leave_out_payloads(version: u16) -> bool {
    version >= VERSION_3
}

pub fn may_ask_for_positions(version: u16) -> bool {
    version >= VERSION_4
}

pub fn has_commands(version: u16) -> bool {
    version >= VERSION_5
}

pub fn has_feeders(version: u16) -> bool {
    version >= VERSION_5
}

pub fn has_fetches(version: u16) -> bool {
    version >= VERSION_5
}

/// The newest version that both sides speak; `None` if there is none.
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
