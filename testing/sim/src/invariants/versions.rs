//! The group's protocol version: every member speaks it, it is never lowered, and while it is held
//! it rises only if an operator orders that.
//!
//! A member that does not speak it stays out of the group.

use std::collections::BTreeSet;

use synod_consensus::{Config, EntryId, MemberId, VersionRange};

use super::{Checked, require};

/// Group protocol version stated by a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    version: u16,
    is_held: bool,
}

impl Protocol {
    pub(crate) fn of(config: &Config) -> Protocol {
        Protocol {
            version: config.protocol,
            is_held: config.protocol_is_held,
        }
    }
}

/// A leader made a configuration; `before` is what the one before it says, `None` for the first.
/// Operators have ordered these versions until now.
pub(crate) fn made(
    entry: EntryId,
    config: &Config,
    before: Option<Protocol>,
    ordered: &BTreeSet<u16>,
) -> Checked {
    let protocol = config.protocol;
    let mut members = config.members.iter();
    let silent = members.find(|(_, member)| !member.versions.contains(protocol));
    require(
        silent.is_none(),
        "every member speaks the group's version",
        || format!("{entry} has the group speak version {protocol}, but configures {silent:?}"),
    )?;
    require(
        before.is_none_or(|before| before.version <= protocol),
        "the group's version is never lowered",
        || format!("{entry} lowers the group's version from {before:?} to {protocol}"),
    )?;
    let rises_by_itself =
        |before: Protocol| before.version < protocol && !ordered.contains(&protocol);
    require(
        !before.is_some_and(|before| before.is_held && rises_by_itself(before)),
        "a version that is held rises by order only",
        || format!("{entry} raises the group's version from {before:?} to {protocol}"),
    )
}

/// A member runs with this configuration in force.
pub(crate) fn runs(member: MemberId, config: &Config, spoken: VersionRange) -> Checked {
    let speaks = config.members.is_empty() || spoken.contains(config.protocol);
    require(
        speaks,
        "a member that does not speak the version stays out",
        || {
            let protocol = config.protocol;
            format!("{member} speaks {spoken} and runs in a group that speaks version {protocol}")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{LogIndex, Member, Role, Term};

    fn range(min: u16, max: u16) -> VersionRange {
        VersionRange { min, max }
    }

    fn config(protocol: u16, spoken: &[VersionRange]) -> Config {
        let member = |versions: &VersionRange| Member {
            role: Role::Voter,
            has_data: true,
            name: String::new(),
            address: String::new(),
            versions: *versions,
            certificate: None,
        };
        let ids = (1..).map(MemberId);
        let members = ids.zip(spoken.iter().map(member)).collect();
        Config {
            protocol,
            members,
            ..Config::default()
        }
    }

    #[test]
    fn version_that_is_not_spoken_or_is_older_or_was_held_breaks_the_rule() {
        let entry = EntryId::new(Term(1), LogIndex(1));
        let made = |config: &Config, version, is_held, ordered: &[u16]| {
            let before = Protocol { version, is_held };
            let ordered = ordered.iter().copied().collect();
            super::made(entry, config, Some(before), &ordered)
        };
        let mixed = [range(1, 2), range(1, 1)];
        assert!(made(&config(1, &mixed), 1, false, &[]).is_ok());
        assert!(made(&config(2, &mixed), 1, false, &[]).is_err());
        let new = [range(1, 2), range(1, 2)];
        assert!(made(&config(2, &new), 1, false, &[]).is_ok());
        assert!(made(&config(1, &new), 2, false, &[]).is_err());
        assert!(made(&config(2, &new), 1, true, &[1]).is_err());
        assert!(made(&config(2, &new), 1, true, &[1, 2]).is_ok());
        assert!(runs(MemberId(1), &config(2, &new), range(1, 2)).is_ok());
        assert!(runs(MemberId(1), &config(2, &new), range(1, 1)).is_err());
        assert!(runs(MemberId(1), &Config::default(), range(1, 1)).is_ok());
    }
}
