//! The group's protocol version: raised when all members speak a newer one, and obeyed by all.

use synod_consensus::{Config, VersionRange};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obeyed {
    /// The configuration is empty, or has the version that is obeyed already.
    Unchanged,
    Now(u16),
    NotSpoken(u16),
}

/// The group's protocol version, as this member has obeyed it; zero before it is known.
#[derive(Default)]
pub(in crate::driver) struct ProtocolVersion(u16);

impl ProtocolVersion {
    /// A configuration came into force. This member does not speak its version if its program was
    /// replaced by an older one after the group had risen.
    pub(super) fn obey(&mut self, config: &Config, spoken: VersionRange) -> Obeyed {
        let version = config.protocol;
        if config.members.is_empty() || version == self.0 {
            return Obeyed::Unchanged;
        }
        let is_spoken = spoken.contains(version);
        if !synod_planted::planted!(IgnoreVersion, is_spoken, else true) {
            return Obeyed::NotSpoken(version);
        }
        self.0 = version;
        Obeyed::Now(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::voter;
    use synod_consensus::MemberId;

    #[test]
    fn version_is_obeyed_if_it_is_spoken() {
        let spoken = VersionRange { min: 1, max: 2 };
        let mut version = ProtocolVersion::default();
        let mut config = Config {
            protocol: 3,
            ..Config::default()
        };
        assert_eq!(version.obey(&config, spoken), Obeyed::Unchanged, "no group");
        config.members.insert(MemberId(1), voter("", ""));
        assert_eq!(version.obey(&config, spoken), Obeyed::NotSpoken(3));
        config.protocol = 2;
        assert_eq!(version.obey(&config, spoken), Obeyed::Now(2));
        assert_eq!(version.obey(&config, spoken), Obeyed::Unchanged);
    }
}
